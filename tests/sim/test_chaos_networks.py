"""Where nodes lie changes while everything else does: no segment is split, units stay alone."""

from __future__ import annotations

import os

import pytest

from pyslurm_ng.sched.backfill.planner import Planner
from tests.sim.networked import Networked

SEEDS = int(os.environ.get("PYSLURM_SIM_SEEDS", "100")) // 100
FIRST = int(os.environ.get("PYSLURM_SIM_FIRST_SEED", "0"))
PARTITIONS = ("main", "main", "other", "main,other", "rows", "rows,main")
PREEMPTION = """
PreemptType=preempt/partition_prio
PreemptMode={mode}
SchedulerTimeSlice=10
"""


@pytest.mark.parametrize("mode", ["", "CANCEL", "SUSPEND,GANG"])
def test_no_network_breaks_a_start(mode: str) -> None:
    """Each job starts where the network of the moment allows it, and all jobs end.

    RELIABILITY 20.
    """
    for seed in range(FIRST, FIRST + max(1, SEEDS)):
        life = Networked(
            seed,
            Planner(),
            25,
            conf=PREEMPTION.format(mode=mode) if mode else "",
            partitions=PARTITIONS,
            components=seed % 2 == 1,
            pass_us=(0, 0, 50_000)[seed % 3],
        )
        try:
            life.run()
        except AssertionError as violation:
            raise AssertionError(f"seed {seed}: {violation}") from violation
        assert life.changes > 50 and life.networks > 1
