"""A network that delays, drops, reorders and doubles what it carries: RELIABILITY 26."""

from __future__ import annotations

import os

from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sim.chaos import Chaos
from pyslurm_ng.sim.net import Faults

LIVES = int(os.environ.get("PYSLURM_BAD_NETWORK_LIVES", "25"))
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


def test_a_bad_network_fails_no_job() -> None:
    """200 to 600 ms of delay, 5 % lost, 5 % twice: 1,000 jobs, each runs once to its own end."""
    jobs = 0
    for seed in range(LIVES):
        life = BadNetwork(seed)
        life.run()
        assert life.controller is not None
        for job in life.controller.cluster.jobs.values():
            jobs += 1
            is_cancelled = job.state == JobState.CANCELLED
            assert is_cancelled or job.state in OWN_ENDS, (seed, job.job_id, job.state)
            assert job.attempt == 0, (seed, job.job_id)
        assert life.ledger.overlap_us == 0
    assert jobs == LIVES * JOBS
