"""Twelve seeds of everything going wrong; `make soak-random` runs thousands."""

from __future__ import annotations

import os

import pytest

from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sim.chaos import Chaos

SEEDS = int(os.environ.get("PYSLURM_SIM_SEEDS", "12"))
FIRST = int(os.environ.get("PYSLURM_SIM_FIRST_SEED", "0"))
_PER_TEST = 4


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, _PER_TEST))
def test_no_fault_breaks_a_promise(first: int) -> None:
    """Nothing acknowledged is lost, nothing starts twice, everything ends, replay equals live.

    A crash loses what was not synced, as a power cut does. RELIABILITY 4, 9, 20.
    """
    for seed in range(first, min(first + _PER_TEST, FIRST + SEEDS)):
        try:
            Chaos(seed, Planner()).run()
        except AssertionError as violation:
            raise AssertionError(f"seed {seed}: {violation}") from violation


def test_a_seed_repeats_exactly() -> None:
    """The same seed gives the same history, or a failing one could not be studied.

    RELIABILITY 20.
    """
    lives = []
    for _ in range(2):
        chaos = Chaos(7, Planner())
        chaos.run()
        assert chaos.controller is not None
        lives.append((chaos.world.actions_run, chaos.controller.cluster.digest()))
    assert lives[0] == lives[1]
