"""Preemption while everything goes wrong: claims, grace and suspended jobs survive crashes."""

from __future__ import annotations

import os

import pytest

from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sim.chaos import Chaos
from tests.sim.preempting_conf import TIERS

SEEDS = int(os.environ.get("PYSLURM_SIM_SEEDS", "30")) // 10


@pytest.mark.parametrize("mode", ["CANCEL", "REQUEUE", "SUSPEND,GANG"])
def test_no_fault_breaks_a_promise(mode: str) -> None:
    """Everything ends, nothing is oversubscribed, replay equals live, whatever is preempted."""
    for seed in range(SEEDS):
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
