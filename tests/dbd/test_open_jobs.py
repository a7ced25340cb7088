"""What slurmdbd knows of runaway jobs, and how it lets them be over."""

from __future__ import annotations

import pytest

from pyslurm_ng.dbd import schema, show
from pyslurm_ng.dbd.admin.change import RefusedError, actor_of
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.kernels.records import project
from pyslurm_ng.wire.dbd_messages import ListEntities
from tests.dbd.accounting_room import (
    assignments,
    at,
    configured,
    finished,
    manage,
    on,
    record,
    register,
    rows,
    started,
    submitted,
)

T = at("12:00:00")


@pytest.fixture
def store(database: Database) -> Database:
    """Three jobs: over, running, waiting."""
    register(database)
    record(database, configured(T), *(submitted(T, number) for number in (1, 2, 3)))
    record(database, *started(T + 10, 1, on(1)), *started(T + 20, 2, on(1)))
    record(database, *finished(T + 30, 1, 3, 0))
    return database


def shown(database: Database, *where: str, uid: int = 0, name: str = "root") -> list[object]:
    """Return (ID, State, TimeStart) of `sacctmgr show runawayjobs` before slurmctld is asked."""
    request = ListEntities("runawayjobs", assignments([*where]))
    with database.read() as connection:
        actor = actor_of(connection, uid, name, uid == 0)
        answer = show.list_entities(connection, request, actor, frozenset())
    at_ = [answer.fields.index(field) for field in ("ID", "State", "TimeStart")]
    return project(answer.records, at_)


def test_jobs_without_an_end_are_listed(store: Database) -> None:
    assert shown(store) == [(2, "RUNNING", T + 20), (3, "PENDING", 0)]
    assert shown(store, "IDs=3") == [(3, "PENDING", 0)]
    assert shown(store, "Clusters=other") == []


def test_users_are_not_told(store: Database) -> None:
    """The manual: an AdminLevel of Operator at least."""
    with pytest.raises(RefusedError):
        shown(store, uid=1001, name="alice")


def test_jobs_are_over_as_slurm_fixes_them(store: Database) -> None:
    """The latest of start, eligible and submit time; one that is over stays as it is."""
    before = rows(store, schema.jobs, "job_id", "end_us", "state")[0]
    result = manage(store, "modify runawayjobs Clusters=demo IDs=1,2,3,99")
    assert (result.changed, result.error_lines) == (2, [])
    assert rows(store, schema.jobs, "job_id", "end_us", "state") == [
        before,
        (2, T + 20, "COMPLETED"),
        (3, T, "COMPLETED"),
    ]
    assert all(end for (end,) in rows(store, schema.steps, "end_us"))  # type: ignore[misc]
    assert shown(store) == []
    assert ("Fix Runaway Jobs", "2 jobs") in rows(store, schema.txn, "action", "info")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("Clusters=demo", " IDs must be given."),
        ("IDs=x", " Bad job id: x"),
        ("IDs=2 Clusters=other", " The cluster other doesn't exist. Please add first."),
    ],
)
def test_bad_requests_are_one_line(store: Database, words: str, line: str) -> None:
    assert manage(store, f"modify runawayjobs {words}").error_lines == [line]


def test_a_user_fixes_nothing(store: Database) -> None:
    result = manage(store, "modify runawayjobs IDs=2", user="alice", uid=1001)
    assert result.error_lines == [" Error with request: Access/permission denied"]
    assert len(shown(store)) == 2
