"""slurmdb paths over a slurmdbd in this process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.base.dates import format_date
from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.data_parser.envelope import VERSIONS
from pyslurm_ng.web.app import Service, build_app
from pyslurm_ng.web.daemons import Daemons
from pyslurm_ng.web.endpoints import accounting_changes
from pyslurm_ng.web.operations import operations
from pyslurm_ng.web.requester import Requester, SocketPeer
from pyslurm_ng.wire.client import Client
from tests.dbd.accounting_room import (
    SECOND,
    at,
    configured,
    finished,
    on,
    serving_story,
    started,
    submitted,
)
from tests.web.front import Front
from tests.web.recorded import differences, recorded
from tests.web.validation import complaints

DB = "/slurmdb/v0.0.46"
BEGIN = at("12:00:00")
STORY = [
    [
        configured(BEGIN),
        submitted(BEGIN, 7, name="sim"),
        *started(BEGIN + SECOND, 7, on(1)),
        *finished(BEGIN + 9 * SECOND, 7, 3, 0),
    ]
]


@pytest.fixture(scope="module")
def front() -> Iterator[Front]:
    """The application as this process's user, who is slurmdbd's administrator."""
    directory = Path(tempfile.mkdtemp(prefix="pyslurm-ng-"))
    with serving_story(directory, STORY) as room:
        lines = room.conf_path.read_text().splitlines()
        conf = dict(line.split("=", 1) for line in lines)

        def make(conf: Any, audience: str, requester: Requester) -> Any:
            return Client(conf, audience, wait_s=0.5, bearer=b"", backs_off=False)

        peer = SocketPeer(os.geteuid(), os.getegid(), 1)
        yield Front(build_app(Service(Daemons(conf, make))), "", {"peer": peer})


def made(front: Front, path: str, body: Any) -> Any:
    answer = front.post(f"{DB}/{path}", body)
    assert answer.status == 200, answer.content
    return answer.json()


READ = {
    "accounts": "/slurmdb/v0.0.46/accounts",
    "associations": "/slurmdb/v0.0.46/associations",
    "clusters": "/slurmdb/v0.0.46/clusters",
    "diag": "",
    "instances": "",
    "jobs?start_time=2026-11-20": "/slurmdb/v0.0.46/jobs?users=user",
    "job/7": "/slurmdb/v0.0.46/job/11636",
    "ping": "/slurmdb/v0.0.46/ping",
    "qos": "/slurmdb/v0.0.46/qos",
    "tres": "/slurmdb/v0.0.46/tres",
    "users": "/slurmdb/v0.0.46/users",
    "wckeys": "",
}
"""Paths, and the recorded ones that were answered with records."""


@pytest.mark.parametrize("path", READ)
def test_answers_have_slurms_keys(front: Front, path: str) -> None:
    """Of the recording, and of the schemas of all versions.

    Extremes of steps name node and task as in sacct --json, which no schema has.
    """
    document = front.get(f"{DB}/{path}").json()
    assert document["errors"] == []
    document.pop("meta")
    if READ[path]:
        assert differences(document, recorded(READ[path])) == []
    known = operations()
    name = path.partition("?")[0]
    pattern = "job/{job_id}" if name == "job/7" else f"{name}/"
    for version in VERSIONS:
        operation = known[version, "get", f"/slurmdb/{{version}}/{pattern}"]
        answer = front.get(f"/slurmdb/{version}/{path}").json()
        lines = complaints(answer, operation.answer, version)
        assert [line for line in lines if "'node', 'task'" not in line] == []


def test_an_account_its_users_and_limits(front: Front) -> None:
    """Added, changed, listed and removed, as by sacctmgr."""
    account = {"name": "phys", "description": "p", "organization": "o"}
    made(front, "accounts", {"accounts": [account]})
    made(front, "accounts", {"accounts": [{**account, "description": "new"}]})
    assert front.get(f"{DB}/account/phys").json()["accounts"][0]["description"] == "new"
    condition = {"users": ["daemon"], "accounts": ["phys"], "association": {"fairshare": 7}}
    made(
        front,
        "users_association",
        {"association_condition": condition, "user": {"defaultaccount": "phys"}},
    )
    limits = {
        "jobs": {"active": {"set": True, "number": 3}},
        "tres": {"total": [{"type": "cpu", "name": "", "count": 4}]},
    }
    association = {"account": "phys", "user": "daemon", "cluster": "demo", "max": limits}
    made(front, "associations", {"associations": [association]})
    row = front.get(f"{DB}/associations?user=daemon").json()["associations"][0]
    assert row["max"]["jobs"]["active"] == {"set": True, "infinite": False, "number": 3}
    assert row["max"]["tres"]["total"][0]["count"] == 4
    assert row["shares_raw"] == 7
    removed = front.delete(f"{DB}/associations?account=phys&user=daemon")
    assert removed.json()["removed_associations"] == ["C=demo A=phys U=daemon"]
    assert front.delete(f"{DB}/account/phys").json()["removed_accounts"] == ["phys"]
    assert front.get(f"{DB}/account/phys").status == 404


def test_an_account_moves_to_another(front: Front) -> None:
    """Where it is already is no change; a user may have the shares of the account."""
    for name in ("phys", "optics"):
        made(front, "accounts", {"accounts": [{"name": name, "description": "d"}]})
    association = {"account": "optics", "user": "", "cluster": "demo", "parent_account": "phys"}
    for _ in range(2):
        made(front, "associations", {"associations": [association]})
    inherited = {"fairshare": 0x7FFFFFFF}
    condition = {"users": ["daemon"], "accounts": ["optics"], "association": inherited}
    made(front, "users_association", {"association_condition": condition})
    rows = front.get(f"{DB}/associations?account=optics").json()["associations"]
    assert [(row["user"], row["parent_account"], row["shares_raw"]) for row in rows] == [
        ("", "phys", 1),
        ("daemon", "", 0x7FFFFFFF),
    ]
    for path in ("associations?account=optics&user=daemon", "account/optics", "account/phys"):
        assert front.delete(f"{DB}/{path}").status == 200


def test_a_qos(front: Front) -> None:
    """With flags and limits, and changed again."""
    qos = {"name": "high", "priority": {"set": True, "number": 9}, "flags": ["DENY_LIMIT"]}
    made(front, "qos", {"qos": [qos]})
    made(front, "qos", {"qos": [{"name": "high", "description": "d"}]})
    row = front.get(f"{DB}/qos/high").json()["qos"][0]
    assert (row["priority"]["number"], row["flags"], row["description"]) == (9, ["DENY_LIMIT"], "d")
    assert front.delete(f"{DB}/qos/high").json()["removed_qos"] == ["high"]


def test_all_that_was_dumped_can_be_loaded(front: Front) -> None:
    """As a backup, or to make another cluster alike."""
    made(front, "accounts", {"accounts": [{"name": "chem", "description": "c"}]})
    whole = front.get(f"{DB}/config").json()
    assert complaints(whole, "openapi_slurmdbd_config_resp", "v0.0.46") == []
    front.delete(f"{DB}/account/chem")
    made(front, "config", whole)
    again = front.get(f"{DB}/config").json()
    names = [sorted(row["name"] for row in document["accounts"]) for document in (whole, again)]
    assert names[0] == names[1] and "chem" in names[1]


def test_a_wckey_is_given_and_taken_by_its_number(front: Front) -> None:
    """As by sacctmgr add and delete user; another number is not found."""
    made(front, "accounts", {"accounts": [{"name": "keys", "description": "k"}]})
    made(front, "users", {"users": [{"name": "bin", "default": {"account": "keys"}}]})
    made(front, "wckeys", {"wckeys": [{"name": "w1", "user": "bin", "cluster": "demo"}]})
    row = front.get(f"{DB}/wckeys?user=bin").json()["wckeys"][0]
    answer = front.delete(f"{DB}/wckey/{row['id']}")
    assert answer.status == 200, answer.content
    assert complaints(answer.json(), "openapi_wckey_removed_resp", "v0.0.46") == []
    assert [line.split() for line in answer.json()["deleted_wckeys"]] == [
        "C = demo W = w1 U = bin".split()
    ]
    assert front.get(f"{DB}/wckey/{row['id']}").status == 404


def test_tres_are_added(front: Front) -> None:
    """New ones get numbers of slurmdbd's; those that there are stay as they are."""
    body = {"TRES": [{"type": "license", "name": "matlab", "id": 7}, {"type": "cpu", "id": 5}]}
    for _ in range(2):
        made(front, "tres", body)
    rows = front.get(f"{DB}/tres").json()["TRES"]
    assert [row["id"] > 1000 for row in rows if row["name"] == "matlab"] == [True]
    assert [row["id"] for row in rows if row["type"] == "cpu"] == [1]


@pytest.mark.parametrize("version", [version for version in VERSIONS if version > "v0.0.43"])
def test_records_of_jobs_are_corrected(front: Front, version: str) -> None:
    """As by sacctmgr modify job, one by its path or several that the body names."""
    code = {"return_code": {"set": True, "number": 3}, "signal": {"id": 9}}
    record = {"comment": {"administrator": "a", "job": version}, "derived_exit_code": code}
    done = made(front, "job/7", record)
    assert done["results"] == [f"7 submitted at {format_date(BEGIN // SECOND)}"]
    job = front.get(f"{DB}/job/7").json()["jobs"][0]
    assert (job["comment"]["administrator"], job["comment"]["job"]) == ("a", version)
    assert job["derived_exit_code"]["signal"]["id"]["number"] == 9
    several = {"job_id_list": ["7"], "job_rec": {"comment": {"system": version}, "extra": "e"}}
    answer = front.post(f"/slurmdb/{version}/jobs/", several)
    assert answer.status == 200, answer.content
    assert complaints(answer.json(), "openapi_job_modify_resp", version) == []
    job = front.get(f"{DB}/job/7").json()["jobs"][0]
    assert (job["comment"]["system"], job["extra"]) == (version, "e")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "accounts", {}, 400), ("POST", "accounts", {"accounts": [{}]}, 400),
        ("POST", "users", {"users": [{"name": "nobody"}]}, 422),
        ("POST", "associations", {"associations": [{"account": "none", "user": "x"}]}, 422),
        ("POST", "config", {}, 400), ("DELETE", "associations?cluster=demo", None, 400),
        ("DELETE", "account/nope", None, 404), ("DELETE", "wckey/999", None, 404),
        ("DELETE", "wckey/1,2", None, 400), ("POST", "tres", {"TRES": [{"type": "time"}]}, 422),
        ("POST", "tres", {"TRES": [{"type": "gres"}]}, 422), ("POST", "job/7", {}, 400),
        ("POST", "job/999", {"extra": "x"}, 422),
        ("POST", "jobs", {"job_rec": {"extra": "x"}}, 400),
        ("POST", "job/7", {"tres": {"allocated": [{"type": "cpu", "count": 1}]}}, 422),
        ("POST", "job/7", {"derived_exit_code": {"return_code": 256}}, 400),
        ("POST", "jobs", {"job_id_list": ["7,8"], "job_rec": {"extra": "x"}}, 400),
        ("GET", "job/999", None, 404), ("GET", "job/x", None, 400),
        ("GET", "jobs?start_time=soon", None, 400), ("GET", "jobs?users=no%20one", None, 400),
        ("GET", "jobs?association=x", None, 400), ("GET", "jobs?node=n[", None, 400),
    ],
)  # fmt: skip
def test_what_is_refused(front: Front, method: str, path: str, body: Any, status: int) -> None:
    """With an error object, and nothing has changed."""
    answer = front.request(method, f"{DB}/{path}", body)
    assert answer.status == status, answer.content
    assert answer.errors[0]["description"]


class _Denying:
    """slurmdbd as a user without rights finds it."""

    def __init__(self, line: str) -> None:
        self.line = line

    def change(self, kind: str, fields: Any, limit_s: float) -> Any:
        """Refuse as sacctmgr prints it."""
        return {"exit_code": 1, "error_lines": [self.line], "lines": []}

    def close(self) -> None:
        """Hold nothing."""


@pytest.mark.parametrize(
    "line",
    [
        " error: Only admins/operators/coordinators can add accounts",
        " error: Only admins/operators can add QOS",
        " error: Only administrators can add clusters",
        " Error with request: Access/permission denied",
    ],
)
def test_a_change_without_rights_has_the_number_of_denied(
    line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Portals tell it from a wrong request by 2002; slurmdbd answers in sacctmgr's words."""
    conf = {"ClusterName": "demo", "SlurmctldHost": "ctl", "AccountingStorageHost": "dbd",
            "AccountingStorageType": "accounting_storage/slurmdbd"}  # fmt: skip
    monkeypatch.setattr(accounting_changes, "_is_known", lambda *_: False)
    daemons = Daemons(conf, lambda *_: _Denying(line))
    peer = SocketPeer(os.geteuid(), os.getegid(), 1)
    client = Front(build_app(Service(daemons)), "", {"peer": peer})
    answer = client.post(f"{DB}/accounts", {"accounts": [{"name": "x", "organization": "x"}]})
    assert answer.status == 422
    assert answer.errors[0]["error_number"] == Errno.ESLURM_ACCESS_DENIED, answer.content
    assert answer.errors[0]["error"] == "Access/permission denied"


def test_without_accounting() -> None:
    """AccountingStorageType says that there is none."""
    peer = SocketPeer(os.geteuid(), os.getegid(), 1)
    conf = {"ClusterName": "demo", "SlurmctldHost": "ctl"}
    client = Front(build_app(Service(Daemons(conf))), "", {"peer": peer})
    assert client.get(f"{DB}/users").status == 501


@pytest.mark.parametrize("query", ["start_time=9999999-01-01", "users=99999999999999999999",
                                   "association=9999999999999999"])  # fmt: skip
def test_numbers_that_no_message_holds(front: Front, query: str) -> None:
    """400 from the bounds of the message, not a fault."""
    assert front.get(f"{DB}/jobs?{query}").status == 400
