"""Usage is stored for each hour, day and month that is over, once, whatever happens meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from pyslurm_ng.dbd import open_jobs, schema
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.rollup.rows import HourRows, waiting_tasks
from pyslurm_ng.dbd.rollup.spans import Span
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.model.job import Usage
from pyslurm_ng.model.node import NodeSpec
from pyslurm_ng.model.states import NodeFlag
from tests.dbd.accounting_room import (
    SECOND,
    at,
    configured,
    finished,
    on,
    record,
    register,
    rows,
    started,
    submitted,
)
from tests.dbd.rollup.usage_room import cluster_row, roll_up

pytestmark = pytest.mark.usefixtures("in_utc")

ENERGY_OF = ("tres_id", "allocated_s")


def ran(first: int, last: int, job_id: int = 1, cpus: int = 4) -> list[ev.AnyEvent]:
    """A job without waiting."""
    return [
        submitted(first, job_id),
        *started(first, job_id, on(1, cpus)),
        *finished(last, job_id, 3, 0),
    ]


def cpu_seconds(database: Database, period: str = "hour") -> list[tuple[str, int]]:
    """Return begin and CPU seconds that association 1 has used, by period."""
    table = schema.association_usage[period]
    with database.read() as connection:
        query = sa.select(table.c.start_us, table.c.allocated_s).where(table.c.tres_id == 1)
        return [
            (time.strftime("%d %H:%M", time.localtime(start_us // SECOND)), seconds)
            for start_us, seconds in connection.execute(query.order_by(table.c.start_us))
        ]


def test_hours_are_stored_when_they_are_over(store: Database) -> None:
    """The present hour has no rows: it is not over."""
    record(store, *ran(at("12:30:00"), at("14:10:00")))
    roll_up(store, at("14:59:59"))
    assert cpu_seconds(store) == [("20 12:00", 4 * 1800), ("20 13:00", 4 * 3600)]
    roll_up(store, at("15:00:00"))
    assert cpu_seconds(store)[2:] == [("20 14:00", 4 * 600)]


def test_a_first_job_with_a_begin_time_to_come_hides_no_hours(store: Database) -> None:
    """The jobs that run before then are counted all the same."""
    noon = at("12:00:00")
    record(
        store, msgspec.structs.replace(submitted(noon, 1, eligible_us=0), begin_us=at("20:00:00"))
    )
    roll_up(store, at("12:05:00"))
    record(store, *ran(at("12:30:00"), at("12:40:00"), 2))
    roll_up(store, at("14:00:00"))
    assert cpu_seconds(store) == [("20 12:00", 4 * 600)]


@pytest.mark.parametrize("is_late", [False, True])
def test_no_hour_is_counted_from_before_the_cluster_came(store: Database, is_late: bool) -> None:
    """A job that a wrong clock dated to 1970 would make half a million hours."""
    record(store, configured(at("12:00:00")))
    if is_late:
        roll_up(store, at("13:00:00"))
    record(store, *ran(7 * SECOND, at("13:30:00")))
    roll_up(store, at("14:00:00"))
    assert cpu_seconds(store) == [("20 12:00", 4 * 3600), ("20 13:00", 4 * 1800)]


def test_the_clusters_time_is_shared_out(store: Database) -> None:
    """Four nodes of 16 CPUs; one is down, and one job waits before it runs."""
    record(store, submitted(at("12:10:00"), 1), *started(at("12:20:00"), 1, on(1, 4)))
    record(store, *finished(at("12:50:00"), 1, 3, 0))
    record(store, ev.NodesDown(at("12:40:00"), (3,), "broken", 0))
    roll_up(store, at("13:00:00"))
    assert cluster_row(store, at("12:00:00")) == {
        "allocated_s": 4 * 1800,
        "down_s": 16 * 1200,
        "planned_s": 600,
        "idle_s": 64 * 3600 - 4 * 1800 - 16 * 1200 - 600,
    }
    assert cluster_row(store, at("12:00:00"), 2)["down_s"] == 64_000 * 1200


def test_a_drained_node_is_down_when_its_jobs_have_ended(store: Database) -> None:
    """As in Slurm, whose event begins with the end of the last job."""
    record(store, submitted(at("12:00:00"), 1), *started(at("12:00:00"), 1, on(1, 4)))
    drain = {"flags": int(NodeFlag.DRAIN), "reason": "test", "reason_uid": 0}
    record(store, ev.NodeUpdated(at("12:10:00"), (0, 1), drain))
    record(store, *finished(at("12:50:00"), 1, 3, 0))
    roll_up(store, at("13:00:00"))
    assert cluster_row(store, at("12:00:00"))["down_s"] == 16 * 600 + 16 * 3000


def test_jobs_that_wait_for_a_drained_node_keep_it_out_of_service(store: Database) -> None:
    """They run there when it is back, in this hour or in a later one."""
    drain = {"flags": int(NodeFlag.DRAIN), "reason": "test", "reason_uid": 0}
    record(store, ev.NodeUpdated(at("12:10:00"), (0,), drain), submitted(at("12:20:00"), 1))
    record(store, submitted(at("12:20:00"), 2))
    record(store, ev.NodeUpdated(at("13:40:00"), (0,), {"flags": 0}))
    record(store, *started(at("13:50:00"), 1, on(1, 4)), *started(at("13:50:00"), 2, on(1, 4)))
    record(store, *finished(at("13:55:00"), 1, 3, 0))
    record(store, *finished(at("14:30:00"), 2, 3, 0))
    roll_up(store, at("15:00:00"))
    assert cluster_row(store, at("12:00:00"))["down_s"] == 16 * 3000
    assert cluster_row(store, at("13:00:00"))["down_s"] == 16 * 2400


def test_suspended_time_is_not_used(store: Database) -> None:
    """A job may be suspended in one hour and resumed in another."""
    record(store, submitted(at("12:00:00"), 1), *started(at("12:00:00"), 1, on(1, 4)))
    record(store, ev.JobSuspended(at("12:10:00"), 1, 1), ev.JobResumed(at("12:20:00"), 1, 1))
    record(store, ev.JobSuspended(at("12:50:00"), 1, 1))
    roll_up(store, at("13:00:00"))
    assert cpu_seconds(store) == [("20 12:00", 4 * 2400)]
    record(store, ev.JobResumed(at("13:30:00"), 1, 1), *finished(at("13:40:00"), 1, 3, 0))
    roll_up(store, at("14:00:00"))
    assert cpu_seconds(store) == [("20 12:00", 4 * 2400), ("20 13:00", 4 * 600)]


@pytest.mark.parametrize("is_late", [False, True])
def test_energy_is_added_to_hours_that_are_done(store: Database, is_late: bool) -> None:
    """It is known at the end of a job only, and spread over the hours in which the job ran."""
    record(store, submitted(at("12:30:00"), 1), *started(at("12:30:00"), 1, on(1, 4)))
    roll_up(store, at("14:00:00"))
    step = ev.StepEnded(at("14:30:00"), 1, STEP_BATCH, 3, 0, Usage(ntasks=1, energy_j=1000))
    over = finished(at("14:30:00"), 1, 3, 0)
    record(store, *([*over, step] if is_late else [step, *over]))
    roll_up(store, at("15:00:00"))
    roll_up(store, at("15:01:00"))  # new hours come first
    used = rows(store, schema.association_usage["hour"], *ENERGY_OF)
    energy = [amount for tres_id, amount in used if tres_id == 3]
    assert energy == [250, 500, 250]
    assert cluster_row(store, at("13:00:00"), 3) == {"allocated_s": 500}
    assert cpu_seconds(store)[1] == ("20 13:00", 4 * 3600)


def test_days_and_months_are_the_sums(store: Database) -> None:
    day = 24 * 3600 * SECOND
    record(store, *ran(at("22:00:00"), at("00:00:00") + 2 * day))
    roll_up(store, at("00:00:00") + 2 * day)
    assert cpu_seconds(store, "day") == [("20 00:00", 4 * 7200), ("21 00:00", 4 * 86400)]
    assert cpu_seconds(store, "month") == []
    roll_up(store, at("00:00:00") + 11 * day)
    assert cpu_seconds(store, "month") == [("01 00:00", 4 * (7200 + 86400))]


@pytest.mark.parametrize(("summer_ends", "hours"), [(True, 25), (False, 23)])
def test_a_day_has_the_hours_of_the_clock(
    database: Database, monkeypatch: pytest.MonkeyPatch, summer_ends: bool, hours: int
) -> None:
    """RELIABILITY 52: daylight saving makes days of 23 and 25 hours."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    date = (2026, 10, 25) if summer_ends else (2026, 3, 29)
    begin = int(time.mktime((*date, 0, 0, 0, 0, 0, -1))) * SECOND
    end = int(time.mktime((date[0], date[1], date[2] + 1, 0, 0, 0, 0, 0, -1))) * SECOND
    register(database)
    record(database, configured(begin), *ran(begin, end + 3600 * SECOND))
    roll_up(database, end + 7200 * SECOND)
    table = schema.association_usage["day"]
    cpu = [row for row in rows(database, table, "tres_id", "allocated_s") if row[0] == 1]
    assert cpu == [(1, 4 * hours * 3600)]
    assert len(cpu_seconds(database)) == hours + 1


def test_late_records_change_hours_that_are_done(store: Database) -> None:
    """A controller that could not reach slurmdbd sends what happened in the meantime."""
    record(store, submitted(at("12:00:00"), 1), *started(at("12:00:00"), 1, on(1, 4)))
    roll_up(store, at("15:00:00"))
    assert cpu_seconds(store)[2] == ("20 14:00", 4 * 3600)
    record(store, *finished(at("13:30:00"), 1, 3, 0), *ran(at("14:00:00"), at("14:10:00"), 2))
    roll_up(store, at("15:00:00"))
    assert cpu_seconds(store) == [
        ("20 12:00", 4 * 3600), ("20 13:00", 4 * 1800), ("20 14:00", 4 * 600)
    ]  # fmt: skip


def test_runaway_jobs_that_are_ended_are_no_longer_counted(store: Database) -> None:
    """`sacctmgr show runawayjobs` ends them when they started."""
    record(store, submitted(at("12:00:00"), 1), *started(at("12:00:00"), 1, on(1, 4)))
    roll_up(store, at("15:00:00"))
    with store.write() as connection:
        assert open_jobs.end(connection, 1, [1]) == 1
    roll_up(store, at("15:00:00"))
    assert cpu_seconds(store) == []


def test_what_changes_while_an_hour_is_read_is_read_again(store: Database) -> None:
    """The writing thread may store a batch between the reading of an hour and its rows."""
    record(store, submitted(at("12:00:00"), 1), *started(at("12:00:00"), 1, on(1, 4)))
    turns = 0

    def run(work: Callable[[], Any]) -> Any:
        nonlocal turns
        turns += 1
        if turns == 2:
            record(store, *finished(at("12:30:00"), 1, 3, 0))
        return work()

    roll_up(store, at("14:00:00"), run)
    assert cpu_seconds(store) == [("20 12:00", 4 * 1800)]


@pytest.mark.parametrize("turn", range(1, 9))
def test_a_kill_between_any_two_transactions_changes_nothing(store: Database, turn: int) -> None:
    """RELIABILITY 52: each hour is stored whole, together with the note that it is."""
    record(store, *ran(at("12:30:00"), at("17:10:00")))
    steps_left = turn

    def run(work: Callable[[], Any]) -> Any:
        nonlocal steps_left
        steps_left -= 1
        if not steps_left:
            raise KeyboardInterrupt
        return work()

    with pytest.raises(KeyboardInterrupt):
        roll_up(store, at("18:00:00") + 40 * 3600 * SECOND, run)
    roll_up(store, at("18:00:00"))
    used = [seconds // 4 for _, seconds in cpu_seconds(store)]
    assert used == [1800, 3600, 3600, 3600, 3600, 600]


def test_a_kill_inside_a_transaction_leaves_the_hour_to_be_done(store: Database) -> None:
    record(store, *ran(at("12:30:00"), at("13:10:00")))

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    def run(work: Callable[[], Any]) -> Any:
        sa.event.listen(store.engine, "commit", die)
        try:
            return work()
        finally:
            sa.event.remove(store.engine, "commit", die)

    roll_up(store, at("13:00:00"))
    with pytest.raises(KeyboardInterrupt):
        roll_up(store, at("14:00:00"), run)
    roll_up(store, at("14:00:00"))
    assert cpu_seconds(store) == [("20 12:00", 4 * 1800), ("20 13:00", 4 * 600)]


def test_tasks_of_an_array_wait_once(store: Database) -> None:
    """A task that starts is a record of its own, and is no longer one of the array's."""
    tasks = ((0, 3, 1),)
    record(store, submitted(at("12:00:00"), 1, array_pending=tasks))
    record(store, ev.ArrayTaskSplit(at("12:30:00"), 1, 0, 2))
    record(store, *started(at("12:30:00"), 2, on(1, 1)))
    roll_up(store, at("13:00:00"))
    assert cluster_row(store, at("12:00:00"))["planned_s"] == 3 * 3600 + 1800


@pytest.mark.parametrize(
    ("text", "count"), [("", 1), ("3", 1), ("0-9", 10), ("0-9:3%2", 4), ("1,5-6,9%1", 4)]
)
def test_waiting_tasks_are_counted(text: str, count: int) -> None:
    assert waiting_tasks(text) == count


def test_a_removed_node_is_no_longer_down(store: Database) -> None:
    """It is no part of the cluster, so its time is none of the cluster's."""
    record(store, ev.NodesDown(at("12:10:00"), (3,), "broken", 0))
    kept = tuple(NodeSpec(f"n{number}", cpus=16) for number in range(1, 4))
    record(store, ev.ConfigLoaded(at("13:00:00"), "demo", kept, ()))
    roll_up(store, at("14:00:00"))
    assert cluster_row(store, at("12:00:00"))["down_s"] == 16 * 3000
    assert "down_s" not in cluster_row(store, at("13:00:00"))


def test_hours_are_read_by_indexes(sqlite_database: Database) -> None:
    """Sites have millions of jobs; an hour has some."""
    statements: list[tuple[str, Any]] = []

    def note(_: object, __: object, statement: str, values: Any, *___: object) -> None:
        statements.append((statement, values))

    engine = sqlite_database.engine
    with sqlite_database.read() as connection:
        sa.event.listen(engine, "before_cursor_execute", note)
        reader = HourRows(1)
        for hour in (Span(3600, 7200), Span(7200, 10800)):
            reader.read(connection, hour)
        sa.event.remove(engine, "before_cursor_execute", note)
        plans = [
            row[3]
            for statement, values in statements
            for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
        ]
    plans = [plan for plan in plans if plan != "USE TEMP B-TREE FOR GROUP BY"]
    assert len(plans) == len(statements) == 14
    of_jobs = [plan for plan in plans if " jobs " in plan]
    assert sum("ix_jobs_window (cluster_id=? AND end_us" in plan for plan in of_jobs) == 2
    assert sum("ix_jobs_usage (cluster_id=? AND eligible_us" in plan for plan in of_jobs) == 4
    assert all(plan.startswith("SEARCH") for plan in plans)
