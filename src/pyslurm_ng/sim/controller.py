"""The controller of a simulated cluster: real writer, rules and scheduler between pretend edges."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.conf.power import all_awake
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.followers.dependency_index import DependencyIndex
from pyslurm_ng.ctld.followers.fair_share import FairShare
from pyslurm_ng.ctld.followers.het_ends import HetFollower
from pyslurm_ng.ctld.followers.limit_index import LimitIndex
from pyslurm_ng.ctld.followers.usage_index import UsageIndex
from pyslurm_ng.ctld.programs.job_programs import JobPrograms
from pyslurm_ng.ctld.rules import timers
from pyslurm_ng.ctld.rules.calendar import UTC
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.reservation import reservation_due
from pyslurm_ng.ctld.rules.starts.preparation import NONE, Preparation
from pyslurm_ng.ctld.scheduling.qos_lists import QosLists
from pyslurm_ng.ctld.scheduling.scheduler import Outcome, PlanFunction, Scheduler
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.batches import encode_batch
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.states import NodeState
from pyslurm_ng.sched.frame.policy import Policy, policy
from pyslurm_ng.sim.buffers import SimBuffers
from pyslurm_ng.sim.disk import MemoryJournal
from pyslurm_ng.sim.programs import Fate, Silence, SimPrograms, at_once
from pyslurm_ng.sim.world import World

FAR_US = (1 << 63) - 1


class SimBug(AssertionError):
    """A rule's events broke the cluster: a bug in the program, found by the simulator."""


class StrictFaults(Faults):
    """Faults of a simulated controller: each one is raised, since it is a bug of the program."""

    def __init__(self) -> None:
        super().__init__(Silence(), lambda: 0.0)

    def note(self, kind: str, text: str, error: BaseException | None = None) -> None:
        """Raise SimBug."""
        raise SimBug(f"{kind}: {text}") from error


class _Edges:
    """The scheduler's surroundings: its thread answers at once, or after the pass's cost."""

    def __init__(self, world: World, pass_us: int) -> None:
        self._world = world
        self._pass_us = pass_us

    def now_us(self) -> int:
        return self._world.now_us

    def monotonic_us(self) -> int:
        return self._world.now_us

    def call_soon(self, function: Callable[[], None], /) -> object:
        self._world.call_soon(function)
        return None

    def call_later(self, delay_s: float, function: Callable[[], None], /) -> object:
        self._world.after(int(delay_s * 1e6), function)
        return None

    def run(self, work: Callable[[], Outcome], done: Callable[[Outcome], None], /) -> None:
        outcome = work()
        if self._pass_us:
            self._world.after(self._pass_us, lambda: done(outcome))
        else:
            done(outcome)


class SimController:
    """One life of a controller; after a crash a new one is made from what the disk kept."""

    def __init__(
        self,
        world: World,
        conf: SlurmConf,
        plan: PlanFunction,
        *,
        cluster: Cluster | None = None,
        rules: Policy | None = None,
        latency_us: int = 0,
        pass_us: int = 0,
        keep_journal: bool = True,
        fate: Fate = at_once,
        prepare: Preparation = NONE,
        faults: Faults | None = None,
    ) -> None:
        self.world = world
        self.conf = conf = all_awake(conf)
        self.cluster = cluster or _fresh_cluster(conf, world.now_us)
        self.faults = faults or StrictFaults()
        self.start_image = self.cluster.to_bytes() if keep_journal else b""
        self.journal = MemoryJournal(world, self._durable, latency_us=latency_us, keep=keep_journal)
        self.writer = Writer(
            self.cluster,
            self.journal,
            call_soon=world.call_soon,
            on_bug=self._bug,
            spared=partial(self.faults.note, "observer"),
            encode=encode_batch if keep_journal else _no_bytes,
        )
        self.soft = Soft(started_us=world.now_us)
        self.usage = UsageIndex(self.cluster, conf)
        self.scheduler = Scheduler(
            self.writer,
            self.soft,
            _Edges(world, pass_us),
            plan=plan,
            policy=rules or policy(conf),
            prepare=prepare,
            faults=self.faults,
            usage=self.usage,
        )
        self.fair_share = FairShare(self.cluster, self.soft, self.usage, conf, self.scheduler.due)
        QosLists(self.writer, self.scheduler, lambda: conf, self.faults)
        self.writer.observe(self.usage.applied, is_brittle=True)
        self.writer.observe(self.fair_share.applied)
        self.limits = LimitIndex(self.cluster)
        self.writer.observe(self.limits.applied)
        self.dependencies = DependencyIndex(self.cluster)
        self.writer.observe(self.dependencies.applied)
        self.writer.observe(self.scheduler.applied)
        self.writer.observe(self.soft.applied)
        self.het = HetFollower(self.writer, world.call_soon, lambda: world.now_us, lambda: conf)
        self.writer.observe(self.het.applied, is_brittle=True)
        self.het.begin()
        self.runner = SimPrograms(world, fate)
        self.buffers = SimBuffers(world, self.writer, fate)
        programs = JobPrograms(
            self.writer,
            conf,
            self.runner,
            now_us=lambda: world.now_us,
            log=Silence(),
            notify=lambda job_id, text: None,
            buffers=self.buffers,
        )
        self.writer.observe(programs.applied, is_brittle=True)
        self.buffers.begin(conf)
        programs.begin()

    def _durable(self, sequence: int) -> None:
        # The writer counts a batch as appended only when append returns.
        self.world.call_soon(lambda: self.writer.on_durable(sequence))

    def _bug(self, text: str, error: BaseException) -> None:
        raise SimBug(text) from error

    def tick(self, period_us: int = 0) -> None:
        """Do what the daemon's timer does about once a second.

        Args:
            period_us: how often this is called where nodes may fall silent; 0: they never do.
        """
        now_us = self.world.now_us
        if period_us:
            self.soft.expect(self.cluster, now_us)
            self.soft.listened(now_us, period_us, self.conf.slurmd_timeout * SECOND_US)
        limited = self.limits.due(self.conf, now_us)
        run_out = self.usage.run_out(now_us) if self.scheduler.policy.stops_jobs else ()
        self.writer.record(self.usage.due(now_us, UTC))
        self.fair_share.tick(now_us)
        self.writer.record(
            timers.due(
                self.cluster,
                self.conf,
                self.soft.last_seen_us,
                now_us,
                limited,
                run_out,
                partial(self.faults.note, "timer"),
                self.dependencies.due(now_us),
            )
        )
        self.writer.record(reservation_due.due(self.cluster, self.conf, now_us, UTC))

    @property
    def is_still(self) -> bool:
        """Whether no job runs, and each waiting job waits for a moment that is known."""
        cluster = self.cluster
        if cluster.job_index.active or cluster.job_index.with_deadline:
            return False
        if cluster.job_index.pending and self.conf.priority_usage_reset_period != "NONE":
            return False
        return not any(
            term.delay_min
            for job_id in cluster.job_index.ineligible
            for term in cluster.jobs[job_id].dependencies
        )

    def next_change_us(self) -> int:
        """Return when time changes a reservation, a node or a waiting job next, or FAR_US."""
        cluster = self.cluster
        moments = [FAR_US]
        for reservation in cluster.reservations.values():
            if reservation.float_us:
                continue  # it moves on, always as far from now
            moments.append(reservation.end_us if reservation.is_active else reservation.start_us)
            if reservation.idle_since_us:
                moments.append(reservation.idle_since_us + reservation.purge_s * SECOND_US)
        moments += [node.resume_after_us for node in cluster.nodes_of(timers.resuming(cluster))]
        moments += [cluster.jobs[job_id].begin_us for job_id in cluster.job_index.ineligible]
        now_us = self.world.now_us
        return min(moment for moment in moments if moment > now_us)


def _no_bytes(events: list[ev.AnyEvent]) -> bytes:
    """Return what is kept of events that are not read again."""
    return b""


def _fresh_cluster(conf: SlurmConf, now_us: int) -> Cluster:
    """Return a cluster with every node registered and idle."""
    cluster = Cluster()
    apply_all(cluster, configure(cluster, conf, now_us))
    registered: list[ev.AnyEvent] = [
        ev.NodeRegistered(now_us, node.node_id, NodeFacts(), NodeState.IDLE)
        for node in cluster.living_nodes()
    ]
    apply_all(cluster, registered)
    return cluster
