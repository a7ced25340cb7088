"""Preemption, limits, licences, reservations, arrays, components; slurm.conf itself moves."""

from __future__ import annotations

import os

import pytest

from pyslurm_ng.sched.backfill.planner import Planner
from tests.sim.crowd import Crowd

SEEDS = int(os.environ.get("PYSLURM_SIM_SEEDS", "100")) // 100
FIRST = int(os.environ.get("PYSLURM_SIM_FIRST_SEED", "0"))
PARTITIONS = ("main", "main", "other", "main,other", "rows", "rows,main")
PREEMPTION = """
PreemptType=preempt/{by}
PreemptMode={mode}
SchedulerTimeSlice=10
"""


@pytest.mark.parametrize(
    ("first", "mode", "by"),
    [
        (0, "CANCEL", "partition_prio"),
        (1, "REQUEUE", "partition_prio"),
        (2, "SUSPEND,GANG", "partition_prio"),
        (3, "CANCEL", "qos"),
        (4, "REQUEUE", "qos"),
        (5, "SUSPEND,GANG", "qos"),
    ],
)
def test_no_change_breaks_a_limit(first: int, mode: str, by: str) -> None:
    """No limit is passed, and no job starts where or when it may not.

    RELIABILITY 20. All jobs end, and replay equals live.
    """
    first += FIRST  # with one life each, too, every mode, period and kind of job comes up
    for seed in range(first, first + max(1, SEEDS)):
        has_components = seed % 2 == 1
        life = Crowd(
            seed,
            Planner(),
            # Components that fit nowhere together are looked for at each moment, in each pass.
            12 if has_components else 40,
            conf=PREEMPTION.format(by=by, mode=mode),
            partitions=PARTITIONS,
            components=has_components,
            pass_us=(0, 50_000, 2_000_000)[seed % 3],
        )
        try:
            life.run()
        except AssertionError as violation:
            raise AssertionError(f"seed {seed}: {violation}") from violation
        assert life.changes > 50
