"""A trace on a simulated machine: time passes by what happens, and by nothing else."""

from __future__ import annotations

from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sim.trace_run import TraceRun, trace_conf
from pyslurm_ng.sim.workload import TraceJob

CENTURY_S = 100 * 365 * 86_400


def job(number: int, submit_s: int, run_s: int, limit_s: int = 600) -> TraceJob:
    """Return a job of one processor."""
    return TraceJob(number, submit_s, run_s, 1, limit_s, 1)


def test_centuries_without_jobs_are_one_step() -> None:
    """An idle gap takes no ticks, nor does a job that runs or waits for a century."""
    jobs = [
        job(1, 0, 600),
        job(2, 2 * CENTURY_S, CENTURY_S, CENTURY_S),
        job(3, 2 * CENTURY_S + 5, 60),
    ]
    run = TraceRun(jobs, trace_conf(1), Planner())
    outcome = run.run()
    assert outcome.jobs == 3
    assert outcome.max_wait_s == CENTURY_S - 5
    assert run.world.actions_run < 100


def test_jobs_that_are_over_are_forgotten() -> None:
    """The controller keeps those of MinJobAge, whenever the last of them ended."""
    jobs = [job(number, number * 1000, 10) for number in range(1, 50)]
    run = TraceRun(jobs, trace_conf(1), Planner())
    run.run()
    assert not run.controller.cluster.jobs
    keeps = TraceRun(jobs, trace_conf(1, ["MinJobAge=0"]), Planner())
    keeps.run()
    assert len(keeps.controller.cluster.jobs) == 49


def test_a_limit_that_is_enforced_ends_jobs_at_its_second() -> None:
    """Trace jobs run as long as they did; OverTimeLimit=2 ends one two minutes after its limit."""
    jobs = [job(1, 0, 3600, 600), job(2, 1, 60)]
    outcome = TraceRun(jobs, trace_conf(1, ["OverTimeLimit=2"]), Planner()).run()
    assert outcome.max_wait_s == 12 * 60 - 1
    assert TraceRun(jobs, trace_conf(1), Planner()).run().max_wait_s == 3599
