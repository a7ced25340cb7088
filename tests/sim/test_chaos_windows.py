"""RELIABILITY 4: the controller dies right after an order left, or right after a report came.

An order is out and nothing that it brought about is recorded; a report has been heard and its
record is not durable. Chaos hits these moments now and then; here the controller dies in nothing
else.
"""

from __future__ import annotations

import itertools
import os

import pytest

from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sim.chaos import Chaos
from pyslurm_ng.sim.net import Faults

FIRST = int(os.environ.get("PYSLURM_SIM_FIRST_SEED", "0"))


class Windows(Chaos):
    """A life whose controller dies in one sort of moment only."""

    def __init__(self, seed: int, *, at_orders: bool) -> None:
        super().__init__(seed, Planner())
        self._at_orders = at_orders
        self.hits = 0
        self.faults = self.network.faults = Faults()

    def order_left(self) -> None:
        if self._at_orders:
            self._die()

    def reports_came(self) -> None:
        if not self._at_orders:
            self._die()

    def _die(self) -> None:
        """Die in this very moment, with a fair chance."""
        if self.controller is None or self._calm or self.world.random.random() > 0.3:
            return
        self.hits += 1
        self._crash_controller()


@pytest.mark.parametrize("least", [40, pytest.param(1000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("at_orders", [True, False], ids=["orders", "reports"])
def test_every_job_starts_once_and_ends_once(at_orders: bool, least: int) -> None:
    """Nothing starts twice for one attempt, no end is lost, every promise is kept."""
    hits = 0
    for seed in itertools.count(FIRST):
        life = Windows(seed, at_orders=at_orders)
        try:
            life.run()
        except AssertionError as violation:
            raise AssertionError(f"seed {seed}: {violation}") from violation
        hits += life.hits
        assert life.crashes == life.hits
        if hits >= least:
            break
