"""A small cluster under every fault at once: real rules, writer and scheduler, a tearing disk, a
lossy network, nodes and controllers that die. A failing seed is a bug report.

The controller and the faults are here; see `chaos_nodes` and `chaos_users` for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyslurm_ng.base.faults import Faults as SparedFaults
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.conf.slurm_conf import parse_slurm_conf
from pyslurm_ng.conf.topology_conf import TopologyConf
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.starts.preparation import preparation
from pyslurm_ng.ctld.scheduling.scheduler import PlanFunction
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.buffer import BufferState
from pyslurm_ng.sim.chaos_nodes import POLL_US, NodeDaemons
from pyslurm_ng.sim.chaos_users import Users
from pyslurm_ng.sim.checks import (
    Violation,
    check_cluster,
    check_components,
    check_promises,
    check_replay,
    replay,
)
from pyslurm_ng.sim.controller import SimController
from pyslurm_ng.sim.life import Life
from pyslurm_ng.sim.net import Faults
from pyslurm_ng.sim.world import World

_BEGIN_US = 1_700_000_000 * SECOND_US
CONF = """
ClusterName=chaos
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
GresTypes=gpu
SlurmdTimeout=30
ReturnToService=2
MinJobAge=1000000
SlurmdParameters=config_overrides
NodeName=n[1-3] CPUs=4 RealMemory=4000
NodeName=n4 CPUs=8 RealMemory=8000 Gres=gpu:2
PartitionName=main Nodes=n[1-4] Default=YES MaxTime=60 DefMemPerCPU=100
"""
_DOWN_US = 3 * SECOND_US


class Chaos(Life):
    """One seed's life of a cluster."""

    # Where a controller notes what costs one job only; None: nothing of the sort may happen.
    spared_by_controller: SparedFaults | None = None

    def __init__(
        self,
        seed: int,
        plan: PlanFunction,
        jobs: int = 30,
        *,
        conf: str = "",
        partitions: tuple[str, ...] = (),
        components: bool = False,
        pass_us: int = 0,
    ) -> None:
        """Prepare a life.

        Args:
            conf: more lines of slurm.conf.
            partitions: where users submit to, by chance; none: the default one.
            components: some jobs are heterogeneous.
            pass_us: how long a pass takes, while which things change.
        """
        super().__init__(
            World(seed, _BEGIN_US),
            parse_slurm_conf(CONF + conf, "the simulator's slurm.conf"),
            partitions,
        )
        self.topologies: Sequence[TopologyConf] = ()  # as of the next reading
        self._has_components = components
        self._pass_us = pass_us
        self.plan = plan
        self.users = Users(self, jobs, components)
        self.crashes = 0
        self._batches = 0
        self.check_every = 1
        self.programs_run = 0
        self._calm = False
        self.start_image = b""
        self.payloads: list[bytes] = []
        self._start_controller([])
        self.daemons = NodeDaemons(self, self._alive().cluster)

    def run(self) -> None:
        """Run users and faults for a while, then go on without faults until all must have ended."""
        self.users.begin()
        self.daemons.begin()
        self._tick()
        self._trouble()
        self.world.run(until_us=_BEGIN_US + 600 * SECOND_US)
        self._calm_down()
        self.world.run(until_us=self.world.now_us + 7200 * SECOND_US, stop=self._all_over)
        self._judge()

    # The controller ---------------------------------------------------------------------------

    def _alive(self) -> SimController:
        assert self.controller is not None
        return self.controller

    def _start_controller(self, payloads: list[bytes]) -> None:
        cluster = replay(self.start_image, payloads) if self.start_image else None
        controller = SimController(
            self.world,
            self.conf,
            self.plan,
            cluster=cluster,
            latency_us=self.world.random.choice((0, 300, 20_000, 500_000)),
            pass_us=self._pass_us,
            fate=self._program,
            prepare=preparation(self.conf),
            faults=self.spared_by_controller,
        )
        if not self.start_image:
            self.start_image = controller.start_image
        self.payloads = payloads
        self.controller = controller
        writer = controller.writer
        writer.record([ev.EpochStarted(self.world.now_us, controller.cluster.epoch + 1, "ctl")])
        writer.observe(lambda _: self._check(controller))
        if self._has_components:
            writer.observe(lambda _: check_components(controller.cluster))
        writer.follow(lambda _: self.daemons.send_duties(controller))

    def _check(self, controller: SimController) -> None:
        """Look at the whole cluster after each batch, or after some of very many."""
        self._batches += 1
        if self._batches % self.check_every == 0:
            check_cluster(controller.cluster)
            controller.buffers.check()

    def _program(self) -> tuple[int, int]:
        """Return how long a program of the controller takes, and how it ends."""
        self.programs_run += 1
        fails = not self._calm and self.world.random.random() < 0.2
        took_us = self.world.random.choice((0, 1, 10)) * SECOND_US
        return took_us, 256 if fails else 0

    def _crash_controller(self) -> None:
        self._alive().runner.stop()
        self._alive().buffers.stop()
        kept = self.payloads + self._alive().journal.crash()
        self.crashes += 1
        self.controller = None
        self.world.after(_DOWN_US, lambda: self._start_controller(kept))

    def _tick(self) -> None:
        if self.controller is not None:
            self.controller.tick(POLL_US)
            self.daemons.send_duties(self.controller)
        self.world.after(POLL_US, self._tick)

    # Faults -----------------------------------------------------------------------------------

    def _trouble(self) -> None:
        """Once a second, perhaps, something breaks."""
        if self._calm:
            return
        chance, faults = self.world.random, self.faults
        if self.controller is not None and chance.random() < faults.controller_crash_per_s:
            self._crash_controller()
        if self.controller is not None and chance.random() < faults.reload_per_s:
            self._reload(self.controller)
        for node in self.daemons.nodes:
            if chance.random() < faults.node_crash_per_s:
                self.daemons.crash(node)
            if chance.random() < faults.cut_per_s:
                self.network.cut(node.name)
                self.world.after(chance.choice((5, 60)) * SECOND_US, self._heal(node.name))
        self.world.after(SECOND_US, self._trouble)

    def _reload(self, controller: SimController) -> None:
        """Read the same configuration again, as `scontrol reconfigure` does."""
        now_us = self.world.now_us
        controller.writer.record(configure(controller.cluster, self.conf, now_us, self.topologies))

    def _heal(self, name: str) -> Callable[[], None]:
        return lambda: self.network.heal(name)

    def _calm_down(self) -> None:
        self._calm = True
        self.network.faults = Faults()
        self.network.broken.clear()
        for name in ("ctl", *(node.name for node in self.daemons.nodes)):
            self.network.heal(name)
            self.network.go_on(name)

    def _all_over(self) -> bool:
        if self.controller is None or not self.users.are_answered:
            return False
        cluster = self.controller.cluster
        if any(buffer.state != BufferState.COMPLETE for buffer in cluster.buffers.values()):
            return False
        return not cluster.job_index.pending and not cluster.job_index.active

    def _judge(self) -> None:
        controller = self._alive()
        controller.writer.flush()  # the run may have stopped within a turn
        cluster = controller.cluster
        check_cluster(cluster)
        if not self.users.are_answered:
            missing = self.users.jobs - len(self.ledger.promised)
            raise Violation(f"{missing} clients were never answered")
        check_promises(cluster, self.ledger)
        open_job_ids = [*cluster.job_index.pending, *cluster.job_index.active]
        if open_job_ids:
            job = cluster.jobs[open_job_ids[0]]
            raise Violation(f"job {job.job_id} did not end: {job!r:.600}")
        payloads = self.payloads + controller.journal.payloads
        check_replay(cluster, self.start_image, payloads)
