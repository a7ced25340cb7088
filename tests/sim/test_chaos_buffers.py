"""Burst buffers of jobs, arrays and components while controllers crash and functions fail."""

from __future__ import annotations

import os

import pytest

from pyslurm_ng.model.buffer import BufferState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sim.chaos import Chaos

BUFFERS = "BurstBufferType=burst_buffer/lua\n"
SEEDS = int(os.environ.get("PYSLURM_SIM_SEEDS", "60")) // 30


@pytest.mark.parametrize("components", [False, True])
@pytest.mark.parametrize("programs", ["", "PrologSlurmctld=/prolog\n"])
def test_no_fault_breaks_a_promise(components: bool, programs: str) -> None:
    """No job runs without its burst buffer, each is torn down, no pool gives more than it has."""
    arrays, seen = 0, 0
    for seed in range(SEEDS):
        chaos = Chaos(seed, Planner(), conf=BUFFERS + programs, components=components)
        try:
            chaos.run()
        except AssertionError as violation:
            raise AssertionError(f"seed {seed}: {violation}") from violation
        assert chaos.controller is not None
        cluster = chaos.controller.cluster
        assert {buffer.state for buffer in cluster.buffers.values()} == {BufferState.COMPLETE}
        arrays += sum(1 for job_id in cluster.buffers if cluster.jobs[job_id].array_job_id)
        seen += len(cluster.buffers)
    assert 0 < arrays < seen
