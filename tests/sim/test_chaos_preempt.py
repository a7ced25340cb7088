"""Preemption while everything goes wrong: claims, grace and suspended jobs survive crashes."""

from __future__ import annotations

import pytest

from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sim.chaos import Chaos

TIERS = """
PreemptType=preempt/partition_prio
PreemptMode={mode}
PartitionName=high Nodes=n[1-4] PriorityTier=10 MaxTime=60 DefMemPerCPU=100
PartitionName=polite Nodes=n[1-4] PriorityTier=0 MaxTime=60 DefMemPerCPU=100 GraceTime=20
SchedulerTimeSlice=10
PartitionName=rows Nodes=n[1-4] PriorityTier=1 MaxTime=60 DefMemPerCPU=100 OverSubscribe=FORCE:2
"""


@pytest.mark.parametrize("mode", ["CANCEL", "REQUEUE", "SUSPEND,GANG"])
@pytest.mark.parametrize("first", range(0, 10, 5))
def test_no_fault_breaks_a_promise(first: int, mode: str) -> None:
    """Everything ends, nothing is oversubscribed, replay equals live, whatever is preempted."""
    for seed in range(first, first + 5):
        chaos = Chaos(
            seed,
            Planner(),
            40,
            conf=TIERS.format(mode=mode),
            partitions=("main", "polite", "high", "rows"),
        )
        try:
            chaos.run()
        except AssertionError as violation:
            raise AssertionError(f"seed {seed}: {violation}") from violation
        assert chaos.controller is not None
        jobs = chaos.controller.cluster.jobs.values()
        chosen = [job for job in jobs if job.preempt_us or job.attempt]
        assert mode == "SUSPEND,GANG" or chosen or seed, "nobody was preempted"
