"""A network that delays, drops, reorders and doubles what it carries: RELIABILITY 26."""

from __future__ import annotations

import pytest

from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sim.chaos import Chaos
from pyslurm_ng.sim.net import Faults

JOBS = 40
BAD = Faults(drop=0.05, repeat=0.05, delay_us=200_000, jitter_us=400_000)
OWN_ENDS = (JobState.COMPLETED, JobState.FAILED)


class BadNetwork(Chaos):
    """A life without any other fault."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, Planner(), JOBS)
        self.faults = self.network.faults = BAD

    def request(self, number: int, mark: str) -> JobRequest:
        return JobRequest(name="job", comment=mark, ntasks=1, work_dir="/tmp")


@pytest.mark.parametrize("lives", [5, pytest.param(25, marks=pytest.mark.soak)])
def test_a_bad_network_fails_no_job(lives: int) -> None:
    """200 to 600 ms of delay, 5 % lost, 5 % twice: each job runs once to its own end, of 1,000."""
    jobs = 0
    for seed in range(lives):
        life = BadNetwork(seed)
        life.run()
        assert life.controller is not None
        for job in life.controller.cluster.jobs.values():
            jobs += 1
            is_cancelled = job.state == JobState.CANCELLED
            assert is_cancelled or job.state in OWN_ENDS, (seed, job.job_id, job.state)
            assert job.attempt == 0, (seed, job.job_id)
        assert life.ledger.overlap_us == 0
    assert jobs == lives * JOBS
