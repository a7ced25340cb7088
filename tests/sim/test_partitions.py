"""No job runs twice at once, and none ends of an outage: RELIABILITY 24, 25, invariant I3."""

from __future__ import annotations

import os

import pytest

from pyslurm_ng.sched.backfill.planner import Planner
from tests.sim.partitions import PARTITIONS, Outage, Partitions

SEEDS = int(os.environ.get("PYSLURM_PARTITION_SEEDS", "20"))  # with ten partitions each


def lives(policy: str, *, fences: bool = False) -> list[Partitions]:
    """Return the lives of all seeds under one policy."""
    pairs_of_lives = []
    for seed in range(SEEDS):
        life = Partitions(seed, Planner(), policy, fences=fences)
        try:
            life.run()
        except AssertionError as violation:
            raise AssertionError(f"seed {seed}: {violation}") from violation
        assert life.partitions == PARTITIONS
        pairs_of_lives.append(life)
    return pairs_of_lives


@pytest.mark.parametrize(
    ("policy", "fences"), [("confirmed", False), ("confirmed", True), ("lease", False)]
)
def test_no_job_runs_in_two_places(policy: str, fences: bool) -> None:
    """200 partitions, whole, one-way and between nodes, with stopped and rebooted nodes: 0 s."""
    overlaps = [life.overlap_s() for life in lives(policy, fences=fences)]
    assert overlaps == [0.0] * SEEDS


def test_under_slurms_own_behaviour_jobs_do_overlap() -> None:
    """The same 200 partitions show what the other policies are good for."""
    assert sum(life.overlap_s() for life in lives("slurm")) > 0


@pytest.mark.parametrize("policy", ["slurm", "confirmed", "lease"])
@pytest.mark.parametrize("seed", range(4))
def test_an_outage_of_an_hour_ends_no_job(policy: str, seed: int) -> None:
    """The controller is killed and started again, or stops and goes on: no run ends of it."""
    outage = Outage(seed, Planner(), policy)
    outage.run()
    assert outage.lasted, "no job ran through the outage"
