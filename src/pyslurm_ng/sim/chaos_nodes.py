"""The node daemons of a simulated life: they obey, report, register, and keep their leases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from pyslurm_ng.base.numbers import END_CLEAN, SECOND_US
from pyslurm_ng.conf import node_loss
from pyslurm_ng.ctld.rules.ends import lost_runs
from pyslurm_ng.ctld.rules.nodes import registration as node_rules, reports
from pyslurm_ng.d.controllers import lease
from pyslurm_ng.d.controllers.lease import Lease
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.duty import Duty, DutyKind
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.states import NodeFlag, NodeState
from pyslurm_ng.sim.controller import SimController
from pyslurm_ng.sim.life import Life
from pyslurm_ng.wire import node_messages as nm

POLL_US = 5 * SECOND_US


@dataclass(slots=True)
class _Script:
    """A running script on a node."""

    duty_id: int
    end_us: int


@dataclass
class SimNode:
    """A node daemon as the controller knows it: it keeps its reports until they are heard."""

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


class NodeDaemons:
    """All nodes of a life.

    Attributes:
        nodes: each of them, in the order of the configuration of the first controller.
    """

    def __init__(self, life: Life, cluster: Cluster) -> None:
        self._life = life
        self._world = life.world
        self._network = life.network
        self._ledger = life.ledger
        self.nodes = [SimNode(node.spec.name, node.node_id) for node in cluster.living_nodes()]
        for node in self.nodes:
            self._begin_lease(node)

    def send_duties(self, controller: SimController) -> None:
        """Send every durable open duty; nodes do not mind hearing of one again."""
        cluster = controller.cluster
        is_behind = controller.writer.durable < controller.writer.newest
        if controller is not self._life.controller or is_behind:
            return
        known = [node for node in self.nodes if node.registered_with == id(controller)]
        for node in known:
            for duty in list(cluster.duties.get(node.node_id, {}).values()):
                self._send_order(node, duty, cluster.epoch)
                self._life.order_left()
                if controller is not self._life.controller:
                    return  # it has died between two orders of one message

    def _send_order(self, node: SimNode, duty: Duty, epoch: int) -> None:
        boot = node.boot
        self._network.send("ctl", node.name, lambda: self._obey(node, boot, duty, epoch))

    def _obey(self, node: SimNode, boot: int, duty: Duty, epoch: int) -> None:
        if node.boot != boot or epoch < node.epoch:
            return
        node.epoch = epoch
        key = (duty.job_id, duty.attempt)
        if duty.kind == DutyKind.LAUNCH:
            if key in node.seen:
                return
            node.seen.add(key)
            self._ledger.start(*key)
            self._ledger.begins(*key, node.name, self._world.now_us)
            run_us = self._life.run_time_us()
            node.scripts[key] = _Script(duty.duty_id, self._world.now_us + run_us)
            self._world.after(run_us, lambda: self._script_ends(node, boot, key))
        elif duty.kind == DutyKind.TERMINATE:
            self._terminate(node, key, duty.duty_id)
        else:
            node.reports.append(nm.DutyDone(*key, duty.duty_id))

    def _terminate(self, node: SimNode, key: tuple[int, int], duty_id: int) -> None:
        node.seen.add(key)
        if node.scripts.pop(key, None) is not None:
            self._ledger.ends(*key, node.name, self._world.now_us)
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
                self._network.send("ctl", node.name, partial(told, key))

        controller.writer.when_durable(send)

    def _script_ends(self, node: SimNode, boot: int, key: tuple[int, int]) -> None:
        script = node.scripts.pop(key, None) if node.boot == boot else None
        if script is None:
            return
        self._ledger.ends(*key, node.name, self._world.now_us)
        status = self._world.random.choice((0, 0, 0, 256, 9))
        now_us = self._world.now_us
        node.reports.append(nm.BatchEnded(*key, script.duty_id, status, now_us, now_us, END_CLEAN))
        self._report(node)

    def _report(self, node: SimNode) -> None:
        """Send unacknowledged reports again; a repeated report must do no harm."""
        batch, boot = list(node.reports), node.boot
        if batch:
            self._network.send(node.name, "ctl", lambda: self._reported(node, boot, batch))

    def _reported(self, node: SimNode, boot: int, batch: list[nm.Report]) -> None:
        self._record_reports(node, boot, batch)
        self._life.reports_came()

    def _record_reports(self, node: SimNode, boot: int, batch: list[nm.Report]) -> None:
        controller = self._life.controller
        if controller is None or node.registered_with != id(controller):
            return
        if not _is_configured(node, controller.cluster):
            return
        controller.soft.heard(node.node_id, self._world.now_us)
        for report in batch:
            controller.writer.record(
                reports.judge(
                    controller.cluster, node.node_id, report, self._life.conf, self._world.now_us
                )
            )

        def acknowledged() -> None:
            if node.boot == boot:
                node.lease.heard(self._world.now_us / 1e6)
                node.reports = [report for report in node.reports if report not in batch]

        controller.writer.when_durable(lambda: self._network.send("ctl", node.name, acknowledged))

    def node(self, name: str) -> SimNode:
        """Return a node by its name."""
        return next(node for node in self.nodes if node.name == name)

    def begin(self) -> None:
        """Start every node; none stops by itself."""
        for node in self.nodes:
            self._loop(node)

    def _loop(self, node: SimNode) -> None:
        """Register where not known, else give a sign of life and repeat open reports."""
        controller = self._life.controller
        if controller is not None and not _is_configured(node, controller.cluster):
            # A node that comes back into the configuration is another one to the controller.
            node.node_id = controller.cluster.node_index.by_name.get(node.name, -1)
            node.registered_with = 0
            controller = controller if node.node_id >= 0 else None
        if controller is not None and node.registered_with != id(controller):
            boot = node.boot
            running = [nm.RunningJob(*key, []) for key in self._owned(node)]
            self._network.send(
                node.name, "ctl", lambda: self._register(node, boot, controller, running)
            )
        elif controller is not None:
            self._network.send(node.name, "ctl", lambda: self._heard(node, controller))
            self._report(node)
        if (
            node.lease.is_cut_off(self._world.now_us / 1e6)
            and node.name not in self._network.stopped
        ):
            self._ask_neighbour(node)
        self._world.after(POLL_US, lambda: self._loop(node))

    def _begin_lease(self, node: SimNode) -> None:
        node.lease = Lease(
            is_kept=node_loss.policy(self._life.conf) == node_loss.LEASE,
            lease_s=node_loss.lease_s(self._life.conf),
            now_s=self._world.now_us / 1e6,
        )
        node.lease.beat_s = POLL_US / 1e6

    def _ask_neighbour(self, node: SimNode) -> None:
        """Send a node's word to the controller by way of another node, and the answer back."""
        boot, word = node.boot, lease.word(node.reports)
        other = self._world.random.choice([other for other in self.nodes if other is not node])

        def answered(given_up: list[tuple[int, int]]) -> None:
            if node.boot == boot:
                for order in node.lease.orders(given_up, self._world.now_us / 1e6):
                    self._terminate(node, (order.job_id, order.attempt), 0)

        def heard(controller: SimController | None) -> None:
            if controller is None or controller is not self._life.controller:
                return
            cluster, jobs = controller.cluster, controller.cluster.jobs
            for job_id, attempt in word.over:
                if job_id in jobs:
                    controller.writer.record(
                        lost_runs.over(
                            jobs[job_id], node.name, "relayed", self._world.now_us, attempt=attempt
                        )
                    )
            given_up = lost_runs.open_on(cluster, node.name)

            def back() -> None:
                self._network.send(other.name, node.name, lambda: answered(given_up))

            controller.writer.when_durable(lambda: self._network.send("ctl", other.name, back))

        def relayed() -> None:
            controller = self._life.controller
            self._network.send(other.name, "ctl", lambda: heard(controller))

        self._network.send(node.name, other.name, relayed)

    def _owned(self, node: SimNode) -> list[tuple[int, int]]:
        """Return the attempts a node runs or still has to report about."""
        owned = dict.fromkeys(node.scripts)
        for report in node.reports:
            if not isinstance(report, nm.NodeTrouble):
                owned[(report.job_id, report.attempt)] = None
        return list(owned)

    def _heard(self, node: SimNode, controller: SimController) -> None:
        if controller is self._life.controller and _is_configured(node, controller.cluster):
            now_us = self._world.now_us
            controller.soft.heard(node.node_id, now_us)
            record = controller.cluster.node(node.node_id)
            if record.state == NodeState.DOWN:
                node.registered_with = 0
            elif record.flags & NodeFlag.NOT_RESPONDING:
                controller.writer.record([ev.NodesSilent(now_us, (node.node_id,), False)])
            lost = lost_runs.open_on(controller.cluster, node.name)
            if lost and node.registered_with == id(controller):
                self._end_strays(node, lost, controller)
            self._network.send("ctl", node.name, lambda: self._answered(node))

    def _register(
        self, node: SimNode, boot: int, controller: SimController, running: list[nm.RunningJob]
    ) -> None:
        if controller is not self._life.controller or node.boot != boot:
            return
        if not _is_configured(node, controller.cluster):
            return
        node.registered_with = id(controller)
        facts = NodeFacts(boot_id=f"{node.name}-{boot}")
        cluster, now_us = controller.cluster, self._world.now_us
        controller.soft.heard(node.node_id, now_us)
        controller.writer.record(
            node_rules.register(cluster, node.node_id, facts, running, self._life.conf, now_us)
        )
        self._end_strays(node, node_rules.strays(cluster, node.node_id, running), controller)
        self._network.send("ctl", node.name, lambda: self._answered(node))

    def _answered(self, node: SimNode) -> None:
        node.lease.heard(self._world.now_us / 1e6)

    def crash(self, node: SimNode) -> None:
        """Let a node forget all that it ran and had to report, as after a reboot."""
        node.boot += 1
        for key in node.scripts:
            self._ledger.ends(*key, node.name, self._world.now_us)
        node.scripts.clear()
        node.reports.clear()
        node.seen.clear()
        node.registered_with = 0
