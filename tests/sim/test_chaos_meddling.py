"""Everything is changed all the time, by everybody, while everything goes wrong."""

from __future__ import annotations

import os

import pytest

from pyslurm_ng.sched.backfill.planner import Planner
from tests.sim.meddling import CONF, Meddling

SEEDS = int(os.environ.get("PYSLURM_SIM_SEEDS", "100")) // 10
PARTITIONS = ("main", "main", "other", "main,other", "rows")
PREEMPTION = """
PreemptType=preempt/partition_prio
PreemptMode={mode}
SchedulerTimeSlice=10
"""


@pytest.mark.parametrize("mode", ["", "CANCEL", "REQUEUE", "SUSPEND,GANG"])
@pytest.mark.parametrize("pass_us", [0, 50_000, 2_000_000])
def test_no_change_breaks_a_promise(mode: str, pass_us: int) -> None:
    """Nobody starts where or when he may not, licences and cores are given once, all ends.

    RELIABILITY 20, 36.
    """
    conf = CONF + (PREEMPTION.format(mode=mode) if mode else "")
    for seed in range(max(1, SEEDS // 10)):
        life = Meddling(
            seed,
            Planner(),
            25,
            conf=conf,
            partitions=PARTITIONS,
            components=seed % 2 == 1,
            pass_us=pass_us,
        )
        try:
            life.run()
        except AssertionError as violation:
            raise AssertionError(f"seed {seed}: {violation}") from violation
        assert life.changes > 50
