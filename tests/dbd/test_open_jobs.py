"""What slurmdbd knows of runaway jobs, and how it lets them be over."""

from __future__ import annotations

import pytest

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin.change import RefusedError
from pyslurm_ng.dbd.database import Database
from tests.dbd.accounting_room import (
    at,
    finished,
    listed,
    manage,
    on,
    record,
    rows,
    started,
    submitted,
)

T = at("12:00:00")


@pytest.fixture
def jobs(store: Database) -> Database:
    """A store with three jobs: over, running, waiting."""
    record(store, *(submitted(T, number) for number in (1, 2, 3)))
    record(store, *started(T + 10, 1, on(1)), *started(T + 20, 2, on(1)))
    record(store, *finished(T + 30, 1, 3, 0))
    return store


def shown(database: Database, words: str = "") -> list[tuple[object, ...]]:
    """Return ID, State and TimeStart of the runaway jobs."""
    runaways = listed(database, "runawayjobs", words)
    return [(row["ID"], row["State"], row["TimeStart"]) for row in runaways]


def test_jobs_without_an_end_are_listed(jobs: Database) -> None:
    assert shown(jobs) == [(2, "RUNNING", T + 20), (3, "PENDING", 0)]
    assert shown(jobs, "IDs=3") == [(3, "PENDING", 0)]
    assert shown(jobs, "Clusters=other") == []


def test_users_do_not_see_runaway_jobs(jobs: Database) -> None:
    """The manual asks for an AdminLevel of Operator at least."""
    with pytest.raises(RefusedError):
        listed(jobs, "runawayjobs", uid=1001, user="alice")


def test_jobs_are_over_as_slurm_fixes_them(jobs: Database) -> None:
    """The latest of start, eligible and submit time; one that is over stays as it is."""
    before = rows(jobs, schema.jobs, "job_id", "end_us", "state")[0]
    result = manage(jobs, "modify runawayjobs Clusters=demo IDs=1,2,3,99")
    assert (result.changed, result.error_lines) == (2, [])
    assert rows(jobs, schema.jobs, "job_id", "end_us", "state") == [
        before,
        (2, T + 20, "COMPLETED"),
        (3, T, "COMPLETED"),
    ]
    assert all(end for (end,) in rows(jobs, schema.steps, "end_us"))  # type: ignore[misc]
    assert shown(jobs) == []
    assert ("Fix Runaway Jobs", "2 jobs") in rows(jobs, schema.txn, "action", "info")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("Clusters=demo", " IDs must be given."),
        ("IDs=x", " Bad job id: x"),
        ("IDs=2 Clusters=other", " This cluster 'other' doesn't exist."),
    ],
)
def test_bad_requests_are_one_line(jobs: Database, words: str, line: str) -> None:
    assert manage(jobs, f"modify runawayjobs {words}").error_lines[:1] == [line]


def test_a_user_fixes_nothing(jobs: Database) -> None:
    result = manage(jobs, "modify runawayjobs IDs=2", user="alice", uid=1001)
    assert result.error_lines == [" Error with request: Access/permission denied"]
    assert len(shown(jobs)) == 2
