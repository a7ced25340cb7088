"""Reading accounting: jobs, associations, accounts, users, QOS, clusters, TRES, wckeys, events."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import msgspec

from pyslurm_ng.base.dates import DateError, parse_date
from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.job_ids import JobIdError, parse_job_id
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.data_parser import slurmdbd
from pyslurm_ng.data_parser.accounting_jobs import columns, jobs_of, texts
from pyslurm_ng.data_parser.accounting_records import USUAL_TRES_IDS, objects, tres_ids
from pyslurm_ng.data_parser.records import rows_of
from pyslurm_ng.data_parser.schemas import conform, schema
from pyslurm_ng.web.call import Answer, Call, Streamed
from pyslurm_ng.web.refusal import BAD_REQUEST, NOT_FOUND, Refusal, refusal_of
from pyslurm_ng.wire.daemon_link import SlurmError

Where = list[tuple[str, str, str]]
_DAY_S = 86400
DATABASE_S = 60.0


def ping(call: Call) -> Answer:
    """Ask slurmdbd whether it answers."""
    host = call.daemons.conf.get("AccountingStorageHost", "localhost")
    begin_ns = time.monotonic_ns()
    try:
        host = call.database.call("Ping", {})["name"]
        latency_us = (time.monotonic_ns() - begin_ns) // 1000
    except SlurmError:
        latency_us = -1
    return {"pings": [slurmdbd.ping(host, latency_us)]}


def diagnostics(call: Call) -> Answer:
    """Return slurmdbd's counters."""
    reply = _ask(call, "ShowDbdStats", {}, "slurmdb_get_stats()")
    return {"statistics": slurmdbd.statistics(reply)}


def configuration(call: Call) -> Answer:
    """Return slurmdbd.conf without secrets."""
    reply = _ask(call, "ShowDbdConfig", {}, "slurmdb_config_get()")
    return {"slurmdbd_conf": slurmdbd.configuration(reply["pairs"])}


def _ask(call: Call, kind: str, fields: dict[str, Any], source: str) -> dict[str, Any]:
    try:
        return call.database.call(kind, fields, DATABASE_S)
    except SlurmError as error:
        raise refusal_of(error, f"{source.rstrip('()')} failed", source) from None


def listed(call: Call, entity: str, where: Where, flags: list[str], source: str) -> dict[str, Any]:
    """Return an entity's records under their key."""
    fields = {"entity": entity, "where": where, "flags": flags}
    rows = rows_of(_ask(call, "ListEntities", fields, source))
    ids = dict(USUAL_TRES_IDS)
    if entity in ("association", "qos", "cluster"):
        known = {"entity": "tres", "where": [], "flags": []}
        ids.update(tres_ids(rows_of(_ask(call, "ListEntities", known, "slurmdb_tres_get()"))))
    key, records = objects(entity, rows, ids)
    return {key: records}


def _where(call: Call, **keys: str) -> Where:
    """Return conditions: by parameter of the query, the key of sacctmgr."""
    return [(key, "=", call.query[name]) for name, key in keys.items() if call.query.get(name)]


def _flags(call: Call, **names: str) -> list[str]:
    return [flag for name, flag in names.items() if call.flag(name)]


def _one(records: dict[str, Any], key: str, what: str, source: str) -> Answer:
    """Return the record asked for.

    Raises:
        Refusal: there is none.
    """
    if not records[key]:
        raise Refusal(
            NOT_FOUND, f"Unable to find {what[:80]}", Errno.SLURM_ERROR, source,
            "Nothing found with query", {key: []},
        )  # fmt: skip
    return records


_ASSOCIATION = {
    "account": "Accounts", "cluster": "Clusters", "default_qos": "DefaultQOS", "id": "IDs",
    "parent_account": "ParentName", "partition": "Partitions", "qos": "QOS", "user": "Users",
}  # fmt: skip


def associations(call: Call) -> Answer:
    """List associations."""
    flags = _flags(call, **{
        "Include deleted associations": "withdeleted",
        "Filter to only defaults": "onlydefaults",
        "Include the raw QOS or delta_qos": "withrawqoslevel",
        "Include sub acct information": "withsubaccounts",
        "Exclude parent id/name": "wopinfo",
        "Exclude limits from parents": "woplimits",
    })  # fmt: skip
    where = _where(call, **_ASSOCIATION)
    return listed(call, "association", where, flags, "slurmdb_associations_get()")


def association(call: Call) -> Answer:
    """List the one association that agrees with the query."""
    records = associations(call)
    assert isinstance(records, dict)
    _one(records, "associations", "association", "slurmdb_associations_get()")
    return {"associations": records["associations"][:1]}


def accounts(call: Call) -> Answer:
    """List accounts."""
    flags = _flags(call, DELETED="withdeleted", WithAssociations="withassoc",
                   WithCoordinators="withcoordinators")  # fmt: skip
    where = _where(call, description="Descriptions")
    where += [
        ("Flags", "=", name) for name in ("UsersAreCoords", "NoUsersAreCoords") if call.flag(name)
    ]
    return listed(call, "account", where, flags, "slurmdb_accounts_get()")


def account(call: Call) -> Answer:
    """List one account."""
    name = call.path["account_name"]
    flags = _flags(call, with_assocs="withassoc", with_coords="withcoordinators",
                   with_deleted="withdeleted")  # fmt: skip
    source = "slurmdb_accounts_get()"
    records = listed(call, "account", [("Names", "=", name)], flags, source)
    return _one(records, "accounts", f"account {name}", source)


_USER_FLAGS = {
    "with_assocs": "withassoc", "with_coords": "withcoordinators", "with_deleted": "withdeleted",
}  # fmt: skip


def users(call: Call) -> Answer:
    """List users."""
    where = _where(call, admin_level="AdminLevel", default_account="DefaultAccount",
                   default_wckey="DefaultWCKey")  # fmt: skip
    return listed(call, "user", where, _flags(call, **_USER_FLAGS), "slurmdb_users_get()")


def user(call: Call) -> Answer:
    """List one user."""
    name = call.path["name"]
    source = "slurmdb_users_get()"
    where: Where = [("Names", "=", name)]
    records = listed(call, "user", where, _flags(call, **_USER_FLAGS), source)
    return _one(records, "users", f"user {name}", source)


def all_qos(call: Call) -> Answer:
    """List QOS."""
    flags = _flags(call, **{"Include deleted QOS": "withdeleted"})
    where = _where(call, description="Descriptions", id="IDs", name="Names",
                   preempt_mode="PreemptMode")  # fmt: skip
    return listed(call, "qos", where, flags, "slurmdb_qos_get()")


def one_qos(call: Call) -> Answer:
    """List one QOS."""
    name, source = call.path["qos"], "slurmdb_qos_get()"
    flags = _flags(call, with_deleted="withdeleted")
    records = listed(call, "qos", [("Names", "=", name)], flags, source)
    return _one(records, "qos", f"QOS {name}", source)


def clusters(call: Call) -> Answer:
    """List clusters."""
    return listed(call, "cluster", _where(call, cluster="Names"), [], "slurmdb_clusters_get()")


def cluster(call: Call) -> Answer:
    """List one cluster."""
    name, source = call.path["cluster_name"], "slurmdb_clusters_get()"
    records = listed(call, "cluster", [("Names", "=", name)], [], source)
    return _one(records, "clusters", f"cluster {name}", source)


def tres(call: Call) -> Answer:
    """List TRES."""
    return listed(call, "tres", [], [], "slurmdb_tres_get()")


def wckeys(call: Call) -> Answer:
    """List wckeys."""
    flags = _flags(call, only_defaults="onlydefaults", with_deleted="withdeleted")
    where = _where(call, cluster="Clusters", id="IDs", name="Names", user="Users")
    return listed(call, "wckey", where, flags, "slurmdb_wckeys_get()")


def wckey(call: Call) -> Answer:
    """List one wckey, by its number."""
    number, source = call.path["id"], "slurmdb_wckeys_get()"
    records = listed(call, "wckey", [("IDs", "=", number)], [], source)
    return _one(records, "wckeys", f"wckey {number}", source)


def instances(call: Call) -> Answer:
    """List instances of a cloud that nodes were, of the last day unless the query says more."""
    where = _where(call, cluster="Clusters", extra="Extra", instance_id="InstanceId",
                   instance_type="InstanceType", node_list="Nodes", time_start="Start",
                   time_end="End")  # fmt: skip
    fields = {"entity": "instance", "where": where, "flags": []}
    rows = rows_of(_ask(call, "ListEntities", fields, "slurmdb_instances_get()"))
    return {
        "instances": [
            {
                "cluster": row["Cluster"],
                "extra": row["Extra"],
                "instance_id": row["InstanceId"],
                "instance_type": row["InstanceType"],
                "node_name": row["NodeNames"],
                "time": {
                    "time_end": _whole_seconds(row["TimeEnd"]),
                    "time_start": _whole_seconds(row["TimeStart"]),
                },
            }
            for row in rows
        ]
    }


def _whole_seconds(when_us: Any) -> int:
    return when_us // SECOND_US if isinstance(when_us, int) else 0


# Jobs -----------------------------------------------------------------------------------------

_LISTS = {
    "account": "accounts", "constraints": "constraints", "job_name": "names",
    "partition": "partitions", "qos": "qos", "reason": "reasons", "wckey": "wckeys",
}  # fmt: skip


def jobs(call: Call) -> Answer:
    """List jobs of accounting: those of today, unless the query says another time."""
    now_s = int(time.time())
    start_s = _moment(call, "start_time", now_s, now_s - now_s % _DAY_S)
    end_s = _moment(call, "end_time", now_s, 0)
    request: dict[str, Any] = {
        "clusters": _words(call, "cluster") or [call.daemons.cluster],
        "start_us": start_s * SECOND_US,
        "end_us": end_s * SECOND_US,
        "states": [word.upper() for word in _words(call, "state")],
        "duplicates": call.flag("show_duplicates"),
        "with_steps": not call.flag("skip_steps"),
        "whole_het_job": call.flag("whole_hetjob"),
    }
    for name, field in _LISTS.items():
        request[field] = _words(call, name)
    request["uids"] = [_uid(word) for word in _words(call, "users")]
    request["gids"] = [_gid(word) for word in _words(call, "groups")]
    request["association_ids"] = _numbers(call, "association")
    if call.query.get("node"):
        request["nodes"] = _nodes(call.query["node"])
    if call.query.get("step"):
        request["jobs"] = [selector(word) for word in _words(call, "step")]
    return Streamed("jobs", _texts(call, request), {}, b"")


def job(call: Call) -> Answer:
    """List one job with all its runs' steps."""
    text = call.path["job_id"]
    request = {
        "clusters": [call.daemons.cluster], "jobs": [selector(text)], "with_steps": True,
        "duplicates": True,
    }  # fmt: skip
    rows = _records(call, request)
    if not rows:
        raise Refusal(NOT_FOUND, f"Unable to find job {text}", Errno.ESLURM_INVALID_JOB_ID,
                      "slurmdb_jobs_get()", payload={"jobs": []})  # fmt: skip
    return {"jobs": rows}


def _parts(call: Call, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the parts of an answer."""
    job_columns, step_columns = columns()
    fields = {**request, "columns": job_columns, "step_columns": step_columns}
    try:
        yield from call.database.stream("ListJobRecords", fields, DATABASE_S)
    except SlurmError as error:
        raise refusal_of(error, "Unable to query jobs", "slurmdb_jobs_get()") from None


def _records(call: Call, request: dict[str, Any]) -> list[dict[str, Any]]:
    parts = _parts(call, request)
    return [row for part in parts for row in jobs_of(part, part["cluster"])]


def _texts(call: Call, request: dict[str, Any]) -> Iterator[bytes]:
    """Yield the jobs of an answer as JSON, part by part: there may be millions."""
    if call.is_newest:
        for part in _parts(call, request):
            yield from texts(part, part["cluster"])
        return
    shape = schema("job", call.version)
    for part in _parts(call, request):
        rows = [conform(row, shape, call.version) for row in jobs_of(part, part["cluster"])]
        if rows:
            yield msgspec.json.encode(rows)[1:-1]


def selector(text: str) -> tuple[int, int, int, int, int]:
    try:
        name = parse_job_id(text)
    except JobIdError:
        raise Refusal(BAD_REQUEST, f"Unable to parse JobId={text[:64]}",
                      Errno.ESLURM_INVALID_JOB_ID, "slurmdb_jobs_get()") from None  # fmt: skip
    task = name.tasks[0][0] if name.tasks else -1
    return (name.job_id, task, name.het_offset, name.step, name.sluid)


def _words(call: Call, name: str) -> list[str]:
    return [word for word in call.query.get(name, "").split(",") if word]


def _numbers(call: Call, name: str) -> list[int]:
    words = _words(call, name)
    if not all(word.isascii() and word.isdecimal() and len(word) < 16 for word in words):
        raise Refusal(BAD_REQUEST, f"{name}: numbers are allowed", source=f"#/query/{name}/")
    return [int(word) for word in words]


def _nodes(text: str) -> list[str]:
    from pyslurm_ng.base.hostlist import HostlistError, expand

    try:
        return expand(text, 10_000)
    except HostlistError as error:
        raise Refusal(BAD_REQUEST, f"node: {error}", source="#/query/node/") from None


def _moment(call: Call, name: str, now_s: int, otherwise_s: int) -> int:
    """Return a time of the query, as seconds since 1970 or as sacct takes it."""
    text = call.query.get(name, "")
    if not text:
        return otherwise_s
    if text.isascii() and text.isdecimal() and 6 < len(text) < 12:
        return int(text)
    try:
        return int(parse_date(text, now_s))
    except DateError as error:
        raise Refusal(BAD_REQUEST, f"{name}: {error}", source=f"#/query/{name}/") from None


def _uid(word: str) -> int:
    import pwd

    try:
        return int(word) if word.isdecimal() else pwd.getpwnam(word).pw_uid
    except (KeyError, ValueError):
        raise Refusal(BAD_REQUEST, f"users: {word[:64]!r} is not known",
                      Errno.ESLURM_USER_ID_MISSING, "#/query/users/") from None  # fmt: skip


def _gid(word: str) -> int:
    import grp

    try:
        return int(word) if word.isdecimal() else grp.getgrnam(word).gr_gid
    except (KeyError, ValueError):
        raise Refusal(BAD_REQUEST, f"groups: {word[:64]!r} is not known",
                      source="#/query/groups/") from None  # fmt: skip


ROUTES = {
    ("get", "/slurmdb/{version}/ping/"): ping,
    ("get", "/slurmdb/{version}/diag/"): diagnostics,
    ("get", "/slurmdb/{version}/conf"): configuration,
    ("get", "/slurmdb/{version}/jobs/"): jobs,
    ("get", "/slurmdb/{version}/job/{job_id}"): job,
    ("get", "/slurmdb/{version}/associations/"): associations,
    ("get", "/slurmdb/{version}/association/"): association,
    ("get", "/slurmdb/{version}/accounts/"): accounts,
    ("get", "/slurmdb/{version}/account/{account_name}"): account,
    ("get", "/slurmdb/{version}/users/"): users,
    ("get", "/slurmdb/{version}/user/{name}"): user,
    ("get", "/slurmdb/{version}/qos/"): all_qos,
    ("get", "/slurmdb/{version}/qos/{qos}"): one_qos,
    ("get", "/slurmdb/{version}/clusters/"): clusters,
    ("get", "/slurmdb/{version}/cluster/{cluster_name}"): cluster,
    ("get", "/slurmdb/{version}/tres/"): tres,
    ("get", "/slurmdb/{version}/instances/"): instances,
    ("get", "/slurmdb/{version}/instance/"): instances,
    ("get", "/slurmdb/{version}/wckeys/"): wckeys,
    ("get", "/slurmdb/{version}/wckey/{id}"): wckey,
}
