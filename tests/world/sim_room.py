"""A whole controller in this process, on simulated time: passes run as time does."""

from __future__ import annotations

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sim.controller import SimController
from pyslurm_ng.sim.world import World
from tests.model.clusters import START_US


class SimRoom:
    """The simulator's controller on a configuration; its time is the test's."""

    def __init__(
        self,
        conf: SlurmConf,
        *,
        cluster: Cluster | None = None,
        world: World | None = None,
        faults: Faults | None = None,
    ) -> None:
        """Begin.

        Args:
            cluster: the state; by default the configuration's nodes, not registered yet.
            faults: counts what rules and passes raise; by default that fails the test.
        """
        self.conf = conf
        self.world = world or World(1, START_US)
        self.controller = SimController(self.world, conf, Planner(), cluster=cluster, faults=faults)
        self.cluster = self.controller.cluster
        self.writer = self.controller.writer

    def context(self, caller: Caller) -> Context:
        """Return a rule's surroundings now."""
        return Context(self.conf, self.world.now_us, caller)

    def run(self, seconds: float) -> None:
        """Let time pass; passes run when they are due."""
        until_us = self.world.now_us + int(seconds * 1e6)
        self.world.run(until_us)
        self.world.now_us = until_us
