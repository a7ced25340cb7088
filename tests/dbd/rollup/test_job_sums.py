"""Jobs that the database adds up count as jobs that are read one by one."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.rollup.hour import Capacity, Down, Job, Usage, roll_up
from pyslurm_ng.dbd.rollup.job_sums import summed_tres
from pyslurm_ng.dbd.rollup.rows import HourRows
from pyslurm_ng.dbd.rollup.spans import Span
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.ids import STEP_BATCH, STEP_EXTERN
from pyslurm_ng.model.job import Usage as StepUsage
from pyslurm_ng.model.states import NodeFlag
from tests.dbd.accounting_room import SECOND, at, on, record, rows, started, submitted

pytestmark = pytest.mark.usefixtures("in_utc")

NOON_S = at("12:00:00") // SECOND
HOURS = [Span(NOON_S + 3600 * hour, NOON_S + 3600 * (hour + 1)) for hour in range(3)]
AMOUNTS = (
    {"cpu": 1, "mem": 1000},
    {"cpu": 4, "node": 1, "billing": 4},
    {f"gres/gpu:{'x' * 200}{kind}": 1 for kind in "ab"} | {"cpu": 2},
)
TRES = [",".join(f"{name}={amount}" for name, amount in amounts.items()) for amounts in AMOUNTS]


def made_up(chance: random.Random, index: int) -> dict[str, Any]:
    """Return a record whose times are not whole seconds; some wait, run or last too long."""
    eligible_us = NOON_S * SECOND + chance.randrange(-3600 * SECOND, 3 * 3600 * SECOND)
    start_us = eligible_us + chance.choice((0, chance.randrange(2000 * SECOND)))
    end_us = start_us + chance.choice((0, chance.randrange(4000 * SECOND)))
    if chance.random() < 0.1:
        start_us = 0
    if chance.random() < 0.1:
        end_us = 0
    row = {
        "job_index": index, "cluster_id": 1, "job_id": index, "sluid": index,
        "original_sluid": index - (chance.random() < 0.1), "association_id": chance.randrange(1, 4),
        "qos": chance.choice(("normal", "gone")), "user": chance.choice(("alice", "bob")),
        "wckey": chance.choice(("", "", "*", "*blue", "blue", "red")),
        "reservation": chance.choice(("", "", "", "lesson")), "submit_us": eligible_us,
        "eligible_us": eligible_us, "start_us": start_us, "end_us": end_us,
        "array_tasks": "" if start_us else chance.choice(("", "0-3")),
        "cpus_requested": chance.randrange(1, 9), "node_list": chance.choice(("n1", "n[1-2]")),
        "tres_allocated": chance.choice(TRES) if start_us else "",
        "suspended_us": 0, "suspend_start_us": 0,
    }  # fmt: skip
    # A record of before version 16 of the store has none.
    return row | {"summed_tres": summed_tres(row) if chance.random() < 0.9 else ""}


def store_jobs(database: Database, seed: int) -> list[dict[str, Any]]:
    """Store three hundred records, and return them."""
    chance = random.Random(seed)
    jobs = [made_up(chance, index) for index in range(1000, 1300)]
    with database.write() as connection:
        connection.execute(schema.jobs.insert(), jobs)
    return jobs


def as_read(row: dict[str, Any]) -> Job:
    """Return a record as the sums take one job."""
    tasks = 4 if row["array_tasks"] else 1
    is_first = row["sluid"] == row["original_sluid"]
    eligible_s, start_s, end_s = (
        row[f"{name}_us"] // SECOND for name in ("eligible", "start", "end")
    )
    return Job(
        row["association_id"],
        1 if row["qos"] == "normal" else 0,
        row["user"],
        row["wckey"].removeprefix("*"),
        eligible_s,
        start_s,
        end_s,
        AMOUNTS[TRES.index(row["tres_allocated"])] if row["tres_allocated"] else {},
        tasks * row["cpus_requested"] * is_first,
        reservation=row["reservation"],
    )


def read_hours(database: Database) -> list[tuple[Any, ...]]:
    """Return what is read of each hour: capacities, jobs, downs, reservations, sums."""
    reader = HourRows(1)
    with database.read() as connection:
        reader.begin(connection)
        hours = [reader.read(connection, hour) for hour in HOURS]
    return [(capacities, list(jobs), *rest) for capacities, jobs, *rest in hours]


@pytest.mark.parametrize("seed", range(5))
def test_sums_are_those_of_all_jobs_one_by_one(store: Database, seed: int) -> None:
    jobs = [as_read(row) for row in store_jobs(store, seed)]
    whole = [Capacity(1, 0, {"cpu": 10_000, "mem": 10**6, "node": 100, "billing": 10_000})]
    for hour, (_, some, _, _, sums) in zip(HOURS, read_hours(store), strict=True):
        usage: Usage = roll_up(hour, whole, some, sums=sums)
        assert usage == roll_up(hour, whole, jobs)


def test_jobs_that_are_added_up_are_not_read(store: Database) -> None:
    """Of the jobs of an hour those are read that last, wait as arrays or use a reservation."""
    rows = store_jobs(store, 1)
    for hour, (_, some, _, _, sums) in zip(HOURS, read_hours(store), strict=True):
        inside = [
            row for row in rows
            if hour.start_s * SECOND <= row["eligible_us"]
            and 0 < row["end_us"] <= hour.end_s * SECOND
            and row["summed_tres"]
        ]  # fmt: skip
        assert sums and inside and not [row for row in inside if as_read(row) in some]


PLAIN = {
    "tres_allocated": "cpu=1", "suspended_us": 0, "suspend_start_us": 0, "reservation": "",
    "array_tasks": "", "sluid": 7, "original_sluid": 7,
}  # fmt: skip


@pytest.mark.parametrize(
    ("others", "summed"),
    [
        ({}, "cpu=1"),
        ({"tres_allocated": ""}, schema.NO_TRES),
        ({"tres_allocated": f"gres/{'x' * 248}=1"}, f"gres/{'x' * 248}=1"),
        ({"tres_allocated": f"gres/{'x' * 249}=1"}, ""),
        ({"tres_allocated": "cpu=1,energy=7"}, ""),
        ({"suspended_us": 1}, ""),
        ({"suspend_start_us": 1}, ""),
        ({"reservation": "lesson"}, ""),
        ({"array_tasks": "0-3"}, ""),
        ({"original_sluid": 6}, ""),
    ],
)
def test_jobs_of_which_a_sum_does(others: dict[str, Any], summed: str) -> None:
    assert summed_tres(PLAIN | others) == summed


def test_what_is_stored_says_whether_a_sum_does(store: Database) -> None:
    """It is kept in step with what happens to a job."""
    begin = at("12:00:00")
    record(
        store, submitted(begin, 1), *started(begin, 1, on(1)), submitted(begin, 2),
        *started(begin, 2, on(2)), submitted(begin, 3, array_pending=((0, 3, 1),)),
    )  # fmt: skip
    columns = ("job_id", "tres_allocated", "summed_tres")
    amounts = "billing=1,cpu=1,mem=1000,node=1"
    assert rows(store, schema.jobs, *columns) == [
        (1, amounts, amounts),
        (2, amounts, amounts),
        (3, "", ""),
    ]
    record(store, ev.JobSuspended(begin + SECOND, 2, 9), ev.JobResumed(begin + 9 * SECOND, 2, 10))
    record(store, ev.JobEnded(begin + 20 * SECOND, 3, 4))
    assert rows(store, schema.jobs, *columns)[:2] == [(1, amounts, amounts), (2, amounts, "")]


def test_a_job_cancelled_before_its_begin_time_has_not_waited(store: Database) -> None:
    """It takes no time from others that waited in the hour of its begin time."""
    first, later = at("12:00:00"), at("13:30:00")
    early = msgspec.structs.replace(submitted(first, 1, eligible_us=0), begin_us=later)
    record(store, early, ev.JobEnded(first + SECOND, 1, 4), submitted(later, 2))
    record(store, ev.JobEnded(later + 60 * SECOND, 2, 4))
    waited_s = [sum(job_sum.waited_cpu_s for job_sum in hour[4]) for hour in read_hours(store)]
    assert waited_s == [0, 60, 0]


def test_jobs_that_are_added_up_keep_a_drained_node_in_service(store: Database) -> None:
    """Its time out of service begins with the end of its last job."""
    times = {"eligible_us": at("12:00:00"), "start_us": at("12:00:00"), "end_us": at("12:50:00")}
    row = made_up(random.Random(0), 1) | times | {"array_tasks": "", "reservation": ""}
    with store.write() as connection:
        connection.execute(
            schema.jobs.insert(),
            [row | {"node_list": "n1", "tres_allocated": "cpu=1", "summed_tres": "cpu=1"}],
        )
    drain = {"flags": int(NodeFlag.DRAIN), "reason": "test", "reason_uid": 0}
    record(store, ev.NodeUpdated(at("12:10:00"), (0,), drain))
    _, jobs, downs, _, sums = read_hours(store)[0]
    assert (len(jobs), len(sums)) == (0, 1)
    assert downs == [Down("n1", at("12:50:00") // SECOND, 0, downs[0].held)]


@pytest.mark.parametrize("is_late", [False, True])
def test_energy_is_spread_over_the_hours_of_its_job(store: Database, is_late: bool) -> None:
    """Joules, not multiplied by any time; steps beside each other measured the same."""
    begin, end = at("12:30:00"), at("13:20:00")
    usages = [StepUsage(ntasks=1, energy_j=joules) for joules in (700, 1201)]
    steps = [
        ev.StepEnded(end, 1, step_id, 3, 0, usage)
        for step_id, usage in zip((STEP_BATCH, STEP_EXTERN), usages, strict=True)
    ]
    over = [ev.JobCompleting(end, 1, 3, 0, 0, 1, (0,)), ev.JobEnded(end, 1, 3)]
    record(store, submitted(begin, 1), *started(begin, 1, on(1)))
    record(store, *(over + steps if is_late else steps + over))
    hours = [
        roll_up(hour, capacities, jobs, sums=sums)
        for hour, (capacities, jobs, _, _, sums) in zip(HOURS, read_hours(store), strict=True)
    ]
    used = [
        sum(seconds.get("energy", 0) for seconds in usage.by_association.values())
        for usage in hours
    ]
    assert used == [720, 481, 0]  # 30 and 20 of 50 minutes
    assert [hour.cluster["energy"].allocated for hour in hours[:2]] == [720, 481]
    assert hours[1].cluster["energy"].idle == 0 and "energy" not in hours[2].cluster
    (text,) = rows(store, schema.jobs, "tres_allocated")[0]
    assert str(text).split(",")[2] == "energy=1201"
