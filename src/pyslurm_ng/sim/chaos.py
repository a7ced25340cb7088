"""A small cluster under every fault at once: real rules, writer and scheduler, a tearing disk, a
lossy network, nodes and controllers that die. A failing seed is a bug report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from msgspec import Struct

from pyslurm_ng.base.faults import Faults as SparedFaults
from pyslurm_ng.base.numbers import END_CLEAN, SECOND_US
from pyslurm_ng.conf import node_loss
from pyslurm_ng.conf.slurm_conf import SlurmConf, parse_slurm_conf
from pyslurm_ng.conf.topology_conf import TopologyConf
from pyslurm_ng.ctld.routes import RULES
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.ctld.rules.ends import lost_runs
from pyslurm_ng.ctld.rules.nodes import registration as node_rules, reports
from pyslurm_ng.ctld.rules.starts.preparation import preparation
from pyslurm_ng.ctld.scheduling.scheduler import PlanFunction
from pyslurm_ng.d import lease
from pyslurm_ng.d.lease import Lease
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.duty import Duty, DutyKind
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.states import NodeFlag, NodeState
from pyslurm_ng.sim.checks import (
    Ledger,
    Violation,
    check_cluster,
    check_components,
    check_promises,
    check_replay,
    replay,
)
from pyslurm_ng.sim.controller import SimController
from pyslurm_ng.sim.net import Faults, Network
from pyslurm_ng.sim.world import World
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.job_messages import JobAccepted, SubmitJob
from pyslurm_ng.wire.messages import decode_reply
from pyslurm_ng.wire.query_messages import CancelJobs, JobFilter

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
_POLL_US = 5 * SECOND_US
_DOWN_US = 3 * SECOND_US


@dataclass(slots=True)
class _Script:
    """A running script on a node."""

    duty_id: int
    end_us: int


@dataclass
class SimNode:
    """A node daemon as the controller knows it: it keeps its word, and its reports, till heard."""

    name: str
    node_id: int
    boot: int = 1
    scripts: dict[tuple[int, int], _Script] = field(default_factory=dict)
    seen: set[tuple[int, int]] = field(default_factory=set)
    reports: list[nm.Report] = field(default_factory=list)
    epoch: int = 0
    registered_with: int = 0
    lease: Lease = field(default_factory=lambda: Lease(is_kept=False, lease_s=0.0, now_s=0.0))


def _is_configured(node: SimNode, cluster: Cluster) -> bool:
    """Return whether the controller knows this node by the same id."""
    return cluster.node_index.by_name.get(node.name) == node.node_id


def _never_refused(code: int, text: str) -> None:
    raise Violation(f"a request was refused: {code} {text}")


class _Answer:
    """A client's end of one request."""

    def __init__(
        self,
        told: Callable[[Struct | bytes], None],
        refused: Callable[[int, str], None] = _never_refused,
    ) -> None:
        self._told = told
        self._refused = refused

    def reply(self, answer: Struct | bytes) -> None:
        self._told(answer)

    def error(self, code: int, text: str) -> None:
        self._refused(code, text)


class Chaos:
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
        self.world = World(seed, _BEGIN_US)
        self.conf: SlurmConf = parse_slurm_conf(CONF + conf, "the simulator's slurm.conf")
        self.topologies: Sequence[TopologyConf] = ()  # as of the next reading
        self._partitions = partitions
        self._has_components = components
        self._pass_us = pass_us
        self.plan = plan
        self.faults = Faults.chosen(self.world)
        self.network = Network(self.world, self.faults)
        self.ledger = Ledger()
        self.crashes = 0
        self.programs_run = 0
        self._jobs = jobs
        self._refused: set[str] = set()  # clients whose job is refused everywhere
        self._calm = False
        self.controller: SimController | None = None
        self.start_image = b""
        self.payloads: list[bytes] = []
        self._start_controller([])
        cluster = self._alive().cluster
        self.nodes = [SimNode(node.spec.name, node.node_id) for node in cluster.living_nodes()]
        for node in self.nodes:
            self._begin_lease(node)

    def run(self) -> None:
        """Let users, faults and time have their way; then calm, and everything must end well."""
        for number in range(self._jobs):
            at_us = _BEGIN_US + self.world.random.randrange(300) * SECOND_US
            self.world.at(at_us, self._client(number))
        for node in self.nodes:
            self._node_loop(node)
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
        writer.observe(lambda _: check_cluster(controller.cluster))
        if self._has_components:
            writer.observe(lambda _: check_components(controller.cluster))
        writer.follow(lambda _: self._send_duties(controller))

    def _program(self) -> tuple[int, int]:
        """Return how long a program of the controller takes, and how it ends."""
        self.programs_run += 1
        fails = not self._calm and self.world.random.random() < 0.2
        took_us = self.world.random.choice((0, 1, 10)) * SECOND_US
        return took_us, 256 if fails else 0

    def _crash_controller(self) -> None:
        self._alive().runner.stop()
        found = self._alive().journal.crash()
        self.crashes += 1
        self.controller = None
        kept = self.payloads + found
        self.world.after(_DOWN_US, lambda: self._start_controller(kept))

    def _tick(self) -> None:
        if self.controller is not None:
            self.controller.tick(_POLL_US)
            self._send_duties(self.controller)
        self.world.after(_POLL_US, self._tick)

    def _send_duties(self, controller: SimController) -> None:
        """Send every durable open duty; nodes do not mind hearing of one again."""
        cluster = controller.cluster
        is_behind = controller.writer.durable < controller.writer.newest
        if controller is not self.controller or is_behind:
            return
        for node in self.nodes:
            if node.registered_with != id(controller):
                continue
            for duty in list(cluster.duties.get(node.node_id, {}).values()):
                self._send_order(node, duty, cluster.epoch)

    def _send_order(self, node: SimNode, duty: Duty, epoch: int) -> None:
        boot = node.boot
        self.network.send("ctl", node.name, lambda: self._order(node, boot, duty, epoch))

    # Nodes ------------------------------------------------------------------------------------

    def _order(self, node: SimNode, boot: int, duty: Duty, epoch: int) -> None:
        if node.boot != boot or epoch < node.epoch:
            return
        node.epoch = epoch
        key = (duty.job_id, duty.attempt)
        if duty.kind == DutyKind.LAUNCH:
            if key in node.seen:
                return
            node.seen.add(key)
            self.ledger.start(*key)
            self.ledger.begins(*key, node.name, self.world.now_us)
            run_us = self.run_time_us()
            node.scripts[key] = _Script(duty.duty_id, self.world.now_us + run_us)
            self.world.after(run_us, lambda: self._script_ends(node, boot, key))
        elif duty.kind == DutyKind.TERMINATE:
            self._terminate(node, key, duty.duty_id)
        else:
            node.reports.append(nm.DutyDone(*key, duty.duty_id))

    def run_time_us(self) -> int:
        """Return how long a script runs."""
        return self.world.random.choice((0, 1, 20, 200)) * SECOND_US

    def _terminate(self, node: SimNode, key: tuple[int, int], duty_id: int) -> None:
        node.seen.add(key)
        if node.scripts.pop(key, None) is not None:
            self.ledger.ends(*key, node.name, self.world.now_us)
        report = nm.JobTerminated(*key, duty_id)
        if report not in node.reports:
            node.reports.append(report)
        self._report(node)

    def _end_strays(
        self, node: SimNode, strays: Sequence[tuple[int, int]], controller: SimController
    ) -> None:
        """Have a node end what it should not have, once that is durable."""
        boot = node.boot

        def told(key: tuple[int, int]) -> None:
            if node.boot == boot:
                self._terminate(node, key, 0)

        def send() -> None:
            for key in strays:
                self.network.send("ctl", node.name, partial(told, key))

        controller.writer.when_durable(send)

    def _script_ends(self, node: SimNode, boot: int, key: tuple[int, int]) -> None:
        script = node.scripts.pop(key, None) if node.boot == boot else None
        if script is None:
            return
        self.ledger.ends(*key, node.name, self.world.now_us)
        status = self.world.random.choice((0, 0, 0, 256, 9))
        now_us = self.world.now_us
        node.reports.append(nm.BatchEnded(*key, script.duty_id, status, now_us, now_us, END_CLEAN))
        self._report(node)

    def _report(self, node: SimNode) -> None:
        """Send unacknowledged reports again; a repeated report must do no harm."""
        batch, boot = list(node.reports), node.boot
        if batch:
            self.network.send(node.name, "ctl", lambda: self._reported(node, boot, batch))

    def _reported(self, node: SimNode, boot: int, batch: list[nm.Report]) -> None:
        controller = self.controller
        if controller is None or node.registered_with != id(controller):
            return
        if not _is_configured(node, controller.cluster):
            return
        controller.soft.heard(node.node_id, self.world.now_us)
        for report in batch:
            controller.writer.record(
                reports.judge(
                    controller.cluster, node.node_id, report, self.conf, self.world.now_us
                )
            )

        def acknowledged() -> None:
            if node.boot == boot:
                node.lease.heard(self.world.now_us / 1e6)
                node.reports = [report for report in node.reports if report not in batch]

        controller.writer.when_durable(lambda: self.network.send("ctl", node.name, acknowledged))

    def _node_loop(self, node: SimNode) -> None:
        """Register where not known, else give a sign of life and repeat open reports."""
        controller = self.controller
        if controller is not None and not _is_configured(node, controller.cluster):
            # A node that comes back into the configuration is another one to the controller.
            node.node_id = controller.cluster.node_index.by_name.get(node.name, -1)
            node.registered_with = 0
            controller = controller if node.node_id >= 0 else None
        if controller is not None and node.registered_with != id(controller):
            boot = node.boot
            running = [nm.RunningJob(*key, []) for key in self._owned(node)]
            self.network.send(
                node.name, "ctl", lambda: self._register(node, boot, controller, running)
            )
        elif controller is not None:
            self.network.send(node.name, "ctl", lambda: self._heard(node, controller))
            self._report(node)
        if node.lease.is_cut_off(self.world.now_us / 1e6) and node.name not in self.network.stopped:
            self._ask_neighbour(node)
        self.world.after(_POLL_US, lambda: self._node_loop(node))

    def _begin_lease(self, node: SimNode) -> None:
        node.lease = Lease(
            is_kept=node_loss.policy(self.conf) == node_loss.LEASE,
            lease_s=node_loss.lease_s(self.conf),
            now_s=self.world.now_us / 1e6,
        )
        node.lease.beat_s = _POLL_US / 1e6

    def _ask_neighbour(self, node: SimNode) -> None:
        """Send a node's word to the controller by way of another node, and the answer back."""
        boot, said = node.boot, lease.word(node.reports)
        other = self.world.random.choice([other for other in self.nodes if other is not node])

        def answered(given_up: list[tuple[int, int]]) -> None:
            if node.boot == boot:
                for order in node.lease.orders(given_up, self.world.now_us / 1e6):
                    self._terminate(node, (order.job_id, order.attempt), 0)

        def heard(controller: SimController | None) -> None:
            if controller is None or controller is not self.controller:
                return
            cluster, jobs = controller.cluster, controller.cluster.jobs
            for job_id, attempt in said.over:
                if job_id in jobs:
                    controller.writer.record(
                        lost_runs.over(
                            jobs[job_id], node.name, "relayed", self.world.now_us, attempt=attempt
                        )
                    )
            given_up = lost_runs.open_on(cluster, node.name)

            def back() -> None:
                self.network.send(other.name, node.name, lambda: answered(given_up))

            controller.writer.when_durable(lambda: self.network.send("ctl", other.name, back))

        def relayed() -> None:
            controller = self.controller
            self.network.send(other.name, "ctl", lambda: heard(controller))

        self.network.send(node.name, other.name, relayed)

    def _owned(self, node: SimNode) -> list[tuple[int, int]]:
        """Return the attempts a node runs or still has to report about."""
        owned = dict.fromkeys(node.scripts)
        for report in node.reports:
            if not isinstance(report, nm.NodeTrouble):
                owned[(report.job_id, report.attempt)] = None
        return list(owned)

    def _heard(self, node: SimNode, controller: SimController) -> None:
        if controller is self.controller and _is_configured(node, controller.cluster):
            now_us = self.world.now_us
            controller.soft.heard(node.node_id, now_us)
            record = controller.cluster.node(node.node_id)
            if record.state == NodeState.DOWN:
                node.registered_with = 0
            elif record.flags & NodeFlag.NOT_RESPONDING:
                controller.writer.record([ev.NodesSilent(now_us, (node.node_id,), False)])
            lost = lost_runs.open_on(controller.cluster, node.name)
            if lost and node.registered_with == id(controller):
                self._end_strays(node, lost, controller)
            self.network.send("ctl", node.name, lambda: self._answered(node))

    def _register(
        self, node: SimNode, boot: int, controller: SimController, running: list[nm.RunningJob]
    ) -> None:
        if controller is not self.controller or node.boot != boot:
            return
        if not _is_configured(node, controller.cluster):
            return
        node.registered_with = id(controller)
        facts = NodeFacts(boot_id=f"{node.name}-{boot}")
        cluster, now_us = controller.cluster, self.world.now_us
        controller.soft.heard(node.node_id, now_us)
        controller.writer.record(
            node_rules.register(cluster, node.node_id, facts, running, self.conf, now_us)
        )
        self._end_strays(node, node_rules.strays(cluster, node.node_id, running), controller)
        self.network.send("ctl", node.name, lambda: self._answered(node))

    def _answered(self, node: SimNode) -> None:
        node.lease.heard(self.world.now_us / 1e6)

    # Users ------------------------------------------------------------------------------------

    def _client(self, number: int) -> Callable[[], None]:
        """Return a user that submits a job, and asks again with the same id until answered."""
        chance = self.world.random
        mark = f"client{number}"
        request = self.request(number, mark)
        further: list[JobRequest] = []
        if self._has_components and not request.array and chance.random() < 0.5:
            # Together they must fit: there are two GPUs and 20 CPUs.
            further = [
                JobRequest(ntasks=chance.choice((1, 3)), partition=request.partition)
                for _ in range(chance.choice((1, 2)))
            ]
        message = SubmitJob(
            request_id=number.to_bytes(16, "big"),
            request=request,
            script=b"#!/bin/sh\n",
            components=further,
        )
        cancels = chance.random() < 0.2

        def told(answer: Struct | bytes) -> None:
            accepted = decode_reply("JobAccepted", answer) if isinstance(answer, bytes) else answer
            assert isinstance(accepted, JobAccepted), accepted
            first = mark not in self.ledger.promised
            self.ledger.promise(mark, accepted.job_id)
            if cancels and first:
                self.world.after(20 * SECOND_US, lambda: self._cancel(number, accepted.job_id))

        def refused(code: int, text: str) -> None:
            self.refused(code, text)
            if mark not in self._refused:
                self._refused.add(mark)
                self._jobs -= 1

        def ask() -> None:
            if mark in self.ledger.promised or mark in self._refused:
                return
            controller = self.controller
            if controller is not None:
                answer = _Answer(
                    lambda reply: self._when_up(controller, lambda: told(reply)), refused
                )
                context = self._context(number)
                controller.writer.change(RULES["SubmitJob"], message, context, answer)
            self.world.after(10 * SECOND_US, ask)

        return ask

    def request(self, number: int, mark: str) -> JobRequest:
        """Return what a user asks for."""
        chance = self.world.random
        return JobRequest(
            name=f"job{number % 3}",
            comment=mark,
            ntasks=chance.choice((1, 1, 2, 6)),
            gpus=chance.choice(("", "", "1")),
            work_dir="/tmp",
            array=chance.choice(("", "", "", "0-4%2")),
            partition=chance.choice(self._partitions) if self._partitions else "",
        )

    def refused(self, code: int, text: str) -> None:
        """Judge that a submission was refused."""
        _never_refused(code, text)

    def _when_up(self, controller: SimController, action: Callable[[], None]) -> None:
        """An answer reaches its client unless its controller died first."""
        if controller is self.controller:
            action()

    def caller(self, number: int) -> Caller:
        """Return the identity of a client."""
        return Caller(1001, 1001, "alice", "alice")

    def _context(self, number: int) -> Context:
        return Context(self.conf, self.world.now_us, self.caller(number))

    def _cancel(self, number: int, job_id: int) -> None:
        if self.controller is not None:
            message = CancelJobs(
                request_id=self.world.random.randbytes(16), filter=JobFilter(jobs=[str(job_id)])
            )
            answer = _Answer(lambda reply: None)
            context = self._context(number)
            self.controller.writer.change(RULES["CancelJobs"], message, context, answer)

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
        for node in self.nodes:
            if chance.random() < faults.node_crash_per_s:
                self._crash_node(node)
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

    def _crash_node(self, node: SimNode) -> None:
        node.boot += 1
        for key in node.scripts:
            self.ledger.ends(*key, node.name, self.world.now_us)
        node.scripts.clear()
        node.reports.clear()
        node.seen.clear()
        node.registered_with = 0

    def _calm_down(self) -> None:
        self._calm = True
        self.network.faults = Faults()
        self.network.broken.clear()
        for name in ("ctl", *(node.name for node in self.nodes)):
            self.network.heal(name)
            self.network.go_on(name)

    def _all_over(self) -> bool:
        if self.controller is None or len(self.ledger.promised) < self._jobs:
            return False
        cluster = self.controller.cluster
        return not cluster.job_index.pending and not cluster.job_index.active

    def _judge(self) -> None:
        controller = self._alive()
        controller.writer.flush()  # the run may have stopped within a turn
        cluster = controller.cluster
        check_cluster(cluster)
        if len(self.ledger.promised) < self._jobs:
            raise Violation(f"{self._jobs - len(self.ledger.promised)} clients were never answered")
        check_promises(cluster, self.ledger)
        left = [*cluster.job_index.pending, *cluster.job_index.active]
        if left:
            job = cluster.jobs[left[0]]
            raise Violation(f"job {job.job_id} did not end: {job!r:.600}")
        payloads = self.payloads + controller.journal.payloads
        check_replay(cluster, self.start_image, payloads)
