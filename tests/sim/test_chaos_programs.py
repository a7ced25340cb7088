"""PrologSlurmctld and EpilogSlurmctld while controllers crash, nodes die and programs fail."""

from __future__ import annotations

import os

import pytest

from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sim.chaos import Chaos
from tests.sim.preempting_conf import TIERS

PROGRAMS = "PrologSlurmctld=/prolog\nEpilogSlurmctld=/epilog\n"
SEEDS = int(os.environ.get("PYSLURM_SIM_SEEDS", "60")) // 30


@pytest.mark.parametrize("components", [False, True])
@pytest.mark.parametrize("flags", ["", "PrologFlags=DeferBatch\n"])
def test_no_fault_breaks_a_promise(components: bool, flags: str) -> None:
    """No script starts before its prolog has succeeded, none is over before its epilog is.

    RELIABILITY 20.
    """
    for seed in range(SEEDS):
        chaos = Chaos(seed, Planner(), conf=PROGRAMS + flags, components=components)
        try:
            chaos.run()
        except AssertionError as violation:
            raise AssertionError(f"seed {seed}: {violation}") from violation
        assert chaos.controller is not None
        cluster = chaos.controller.cluster
        assert (cluster.prologs, cluster.epilogs) == ({}, {})
        assert chaos.programs_run


@pytest.mark.parametrize("mode", ["REQUEUE", "SUSPEND,GANG"])
def test_preempted_jobs_too(mode: str) -> None:
    """A job may have to stop while its prolog runs, and go on before or after that has ended."""
    for seed in range(SEEDS):
        chaos = Chaos(
            seed,
            Planner(),
            40,
            conf=PROGRAMS + TIERS.format(mode=mode),
            partitions=("main", "polite", "high", "rows"),
        )
        try:
            chaos.run()
        except AssertionError as violation:
            raise AssertionError(f"seed {seed}: {violation}") from violation
