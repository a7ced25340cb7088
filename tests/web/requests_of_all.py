"""One good request for each GET and POST of REST, in an order in which nothing is missing."""

from __future__ import annotations

from typing import Any

USERS = {"3": "daemon", "4": "sys", "5": "man", "6": "lp"}
MORE_USERS = {"3": "bin", "4": "mail", "5": "news", "6": "uucp"}
"""Of each version: a user's default account is on all clusters, which each version adds to."""
Request = tuple[str, str, Any]
_HOLD = {"environment": ["PATH=/bin:/usr/bin"], "current_working_directory": "/tmp", "hold": True}


def requests_of_all(digit: str, waiting: int, ended: int) -> list[Request]:
    """Return method, path of the table and body.

    Args:
        digit: of the version, which keeps names apart; v0.0.43 is the first.
        waiting: a job that is held.
        ended: a job that accounting knows.
    """
    name, user = f"all{digit}", USERS[digit]
    account = {"name": name, "description": "d", "organization": "o"}
    condition = {"accounts": [name], "users": [user], "association": {"fairshare": 3}}
    return [
        *_of_jobs(name, waiting),
        *_of_nodes(name),
        ("post", "/slurmdb/{version}/accounts/", {"accounts": [account]}),
        ("post", "/slurmdb/{version}/accounts_association/",
         {"account": {"description": "d"}, "association_condition": {"accounts": [f"{name}b"]}}),
        ("post", "/slurmdb/{version}/users/",
         {"users": [{"name": user, "default": {"account": name}}]}),
        ("post", "/slurmdb/{version}/users_association/",
         {"user": {"defaultaccount": name},
          "association_condition": {**condition, "users": [MORE_USERS[digit]]}}),
        ("post", "/slurmdb/{version}/associations/",
         {"associations": [{"account": name, "user": user, "shares_raw": 4}]}),
        ("post", "/slurmdb/{version}/qos/", {"qos": [{"name": name, "description": "d"}]}),
        ("post", "/slurmdb/{version}/clusters/", {"clusters": [{"name": name}]}),
        ("post", "/slurmdb/{version}/wckeys/", {"wckeys": [{"name": name, "user": user,
                                                            "cluster": "cluster"}]}),
        ("post", "/slurmdb/{version}/tres/", {"TRES": [{"type": "license", "name": name}]}),
        ("post", "/slurmdb/{version}/config", {"accounts": [{**account, "description": "new"}]}),
        ("post", f"/slurmdb/{{version}}/job/{ended}", {"comment": {"administrator": name}}),
        ("post", "/slurmdb/{version}/jobs/",
         {"job_id_list": [str(ended)], "job_rec": {"extra": name}}),
        ("post", "/util/{version}/hostlist", {"hostnames": ["n1", "n2"]}),
        ("post", "/util/{version}/hostnames", {"hostlist": "n[1-2]"}),
        *_reads(name, user, waiting, ended),
    ]  # fmt: skip


def _of_jobs(name: str, waiting: int) -> list[Request]:
    small = {"tasks": 1, "memory_per_node": 10, "time_limit": 5}
    return [
        ("post", "/slurm/{version}/job/submit",
         {"script": "#!/bin/sh\n", "job": {**_HOLD, "name": name, "array": "1-2"}}),
        ("post", "/slurm/{version}/job/allocate",
         {"job": {**_HOLD, **small, "hold": False, "name": name}}),
        ("post", f"/slurm/{{version}}/job/{waiting}", {"comment": name}),
    ]  # fmt: skip


def _of_nodes(name: str) -> list[Request]:
    length = {"set": True, "number": 10}
    booked = {"duration": length, "node_list": ["n1"], "users": ["root"]}
    # Each at a time of its own: in a later version the first ones are still there.
    begin = 2_000_000_000 + 100_000 * int(name[-1])
    return [
        ("post", "/slurm/{version}/nodes/", {"name": ["n1"], "comment": name}),
        ("post", "/slurm/{version}/node/n1", {"comment": name}),
        ("post", "/slurm/{version}/new/node/",
         {"node_conf": f"NodeName={name} CPUs=1 State=CLOUD"}),
        ("post", "/slurm/{version}/partitions/",
         {"partitions": [{"name": name, "nodes": {"configured": "n1"}}]}),
        ("post", "/slurm/{version}/reservation", {**booked, "start_time": begin, "name": name}),
        ("post", "/slurm/{version}/reservations/",
         {"reservations": [{**booked, "start_time": begin + 50_000, "name": f"{name}b"}]}),
    ]  # fmt: skip


def _reads(name: str, user: str, waiting: int, ended: int) -> list[Request]:
    slurm = (
        "conf", "diag/", f"job/{waiting}", "jobs/", "jobs/state/", "licenses/", "node/n1",
        "nodes/", "partition/debug", "partitions/", "ping/", "reconfigure/", f"reservation/{name}",
        "reservations/", "shares",
    )  # fmt: skip
    slurmdb = (
        f"account/{name}", "accounts/", f"association/?account={name}&user={user}",
        "associations/", "cluster/cluster", "clusters/", "conf", "config", "diag/", "instance/",
        "instances/", f"job/{ended}", "jobs/", "ping/", f"qos/{name}", "qos/", "tres/",
        f"user/{user}", "users/", "wckeys/",
    )  # fmt: skip
    return [
        *(("get", f"/slurm/{{version}}/{path}", None) for path in slurm),
        *(("get", f"/slurmdb/{{version}}/{path}", None) for path in slurmdb),
    ]
