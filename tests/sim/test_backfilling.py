"""What the simulator makes of a workload is what textbook backfilling makes of it."""

from __future__ import annotations

import random

import pytest

from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sim.trace_run import Outcome, TraceRun, trace_conf
from pyslurm_ng.sim.workload import TraceJob
from tests.oracle.backfilling import Pass, conservative, easy, waits_s


def workload(seed: int, count: int, processors: int) -> list[TraceJob]:
    """Return a busy one; requested times are minutes, as limits are."""
    chance = random.Random(seed)
    jobs, time_s = [], 0
    for number in range(1, count + 1):
        time_s += chance.choice((0, 0, chance.randint(1, 900)))
        run_s = int(chance.lognormvariate(6, 2)) + 1
        asked_s = -(-run_s * chance.randint(1, 8) // 60) * 60
        width = min(processors, 2 ** chance.randint(0, 4) + chance.randint(0, 2))
        jobs.append(TraceJob(number, time_s, run_s, width, asked_s, chance.randint(1, 5)))
    return jobs


def run(jobs: list[TraceJob], processors: int, parameters: str) -> Outcome:
    """Simulate a workload."""
    settings = [f"SchedulerParameters={parameters}"] if parameters else []
    return TraceRun(jobs, trace_conf(processors, settings), Planner()).run()


WORKLOADS = [
    (0, 150),
    (1, 150),
    *(pytest.param(seed, 250, marks=pytest.mark.soak) for seed in range(4)),
]


@pytest.mark.parametrize(
    ("parameters", "choose"), [("bf_reserve_depth=1", easy), ("", conservative)]
)
@pytest.mark.parametrize(("seed", "count"), WORKLOADS)
def test_waits_are_those_of_the_textbook(
    seed: int, count: int, parameters: str, choose: Pass
) -> None:
    """One promise is EASY backfilling, one for every job is conservative backfilling."""
    jobs = workload(seed, count, 20)
    waits = waits_s(jobs, 20, choose)
    outcome = run(jobs, 20, parameters)
    slowdowns = [
        max(1.0, (wait + job.run_s) / max(job.run_s, 10))
        for wait, job in zip(waits, jobs, strict=True)
    ]
    assert max(waits) > 10_000
    assert outcome.max_wait_s == max(waits)
    assert outcome.mean_wait_s == pytest.approx(sum(waits) / len(waits))
    assert outcome.mean_bounded_slowdown == pytest.approx(sum(slowdowns) / len(slowdowns))
