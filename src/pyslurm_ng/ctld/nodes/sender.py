"""Duties -> orders to nodes: sent when durable, again when unanswered, given up with the node.

Duties are part of the Cluster, so a restart loses nothing. A duty is sent to its node when it has
become durable, when the node registers, and again every `RETRY_S` while it is open. Nodes answer by
duty id and (job, attempt), however often they are told. A node that is lost has no duties, so
nothing else has to be given up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

from msgspec import Struct

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.base.numbers import SIGNAL_NODE_FAIL
from pyslurm_ng.ctld.nodes.credentials import Credentials
from pyslurm_ng.ctld.nodes.orders import needs_credential, order_of
from pyslurm_ng.ctld.rules.steps.managed import is_manager
from pyslurm_ng.ctld.scripts import ScriptStore
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.duty import Duty, DutyKind
from pyslurm_ng.model.job import Job
from pyslurm_ng.wire.node_messages import (
    ORDER_BYTES,
    ORDERS_AT_ONCE,
    NodeOrders,
    NodeReconfigure,
    NodeRegisterAgain,
    Order,
    TerminateJob,
)
from pyslurm_ng.wire.open_requests import PeerBusy, PeerGone

RETRY_US = 15_000_000
_RETRIES_PER_TICK = 1_000


class Wire(Protocol):
    """Where orders leave; `wire.endpoint.Endpoint`."""

    def send(self, peer: str, message: Struct) -> None:
        """Send one-way; raises PeerGone, PeerBusy."""


class Sender:
    """Turns open duties into orders.

    Attributes:
        nodes: names of the nodes that have registered with this controller.
    """

    def __init__(
        self,
        writer: Writer,
        wire: Wire,
        *,
        credentials: Credentials,
        scripts: ScriptStore,
        now_us: Callable[[], int],
        call_soon: Callable[[Callable[[], None]], object],
        faults: Faults,
    ) -> None:
        """Send over `wire`; a duty of which no order can be made is a fault."""
        self.nodes: set[str] = set()
        self._unread: set[str] = set()  # nodes that were away at the last reconfigure
        self.sent = 0
        self._writer = writer
        self._wire = wire
        self._credentials = credentials
        self._scripts = scripts
        self._now_us = now_us
        self._call_soon = call_soon
        self._faults = faults
        self._sent_us: dict[int, int] = {}
        self._outbox: dict[str, list[Order]] = {}
        self._signed: dict[tuple[int, bool], bytes] = {}  # of one job for all its nodes

    @property
    def open_count(self) -> int:
        """How many duties nodes have not answered yet."""
        return sum(map(len, self._writer.cluster.duties.values()))

    # What makes an order leave ------------------------------------------------------------------

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """Build orders for duties just made; they leave when the batch is durable."""
        cluster = self._writer.cluster
        for event in events:
            first = getattr(event, "first_duty_id", 0)
            if first:
                self._build(nodes_of_duties(cluster, event), first)
            elif isinstance(event, (ev.DutiesDone, ev.DutiesDropped)):
                pairs = event.done if isinstance(event, ev.DutiesDone) else event.dropped
                for _, duty_id in pairs:
                    self._sent_us.pop(duty_id, None)
            elif isinstance(event, ev.TimesMoved) and event.is_all:
                for duty_id in self._sent_us:
                    self._sent_us[duty_id] += event.shift_us
            elif isinstance(event, (ev.NodesDown, ev.NodesReturned)):
                self._ask_for_strays(event.node_ids)

    def _ask_for_strays(self, node_ids: Iterable[int]) -> None:
        """Have nodes say what they run: no duty is left there for jobs that were taken from them.

        One that is really away hears nothing, and registers when it is back.
        """
        cluster = self._writer.cluster
        for node in cluster.nodes_of(node_ids):
            if node.spec.name in self.nodes:
                again = NodeRegisterAgain(cluster.epoch)
                self._writer.when_durable(partial(self.tell, node.spec.name, again))

    def registered(self, node_id: int) -> None:
        """Send a node that has registered all that it owes, once that is durable."""
        name = self._writer.cluster.node(node_id).spec.name
        self.nodes.add(name)
        if name in self._unread:
            self._unread.remove(name)
            self._writer.when_durable(partial(self.tell, name, self._reconfigure_message()))
        self._build((node_id,), 0)

    def end_strays(self, node_id: int, strays: Iterable[tuple[int, int]]) -> None:
        """Have a node end attempts of jobs that it must not have; no duty stands for this."""
        name = self._writer.cluster.node(node_id).spec.name
        orders: list[Order] = [
            TerminateJob(0, job_id, attempt, SIGNAL_NODE_FAIL) for job_id, attempt in strays
        ]
        if orders:
            self._writer.when_durable(partial(self._queue, name, orders))

    def tick(self) -> None:
        """Send duties again that have been open for long; forget those that are no longer open."""
        self._signed.clear()
        now_us, most = self._now_us(), _RETRIES_PER_TICK
        duties = self._writer.cluster.duties
        late = [duty_id for duty_id, at_us in self._sent_us.items() if now_us - at_us > RETRY_US]
        if not late:
            return
        duty_ids = set(late[:most])
        open_ids: set[int] = set()
        for node_id, of_node in list(duties.items()):
            due = [duty for duty_id, duty in of_node.items() if duty_id in duty_ids]
            if due:
                open_ids.update(duty.duty_id for duty in due)
                self._queue_durable(node_id, due)
        for duty_id in duty_ids - open_ids:
            del self._sent_us[duty_id]

    def tell(self, name: str, message: Struct) -> None:
        """Send one node a message that is no duty; lost if the node is away."""
        self._post(name, message)

    def broadcast(self, message: Struct) -> None:
        """Send a message to every node that is here, such as NodeShutdown."""
        for name in sorted(self.nodes):
            self._post(name, message)

    def reconfigure(self) -> None:
        """Have nodes read their files again; those that are away do it when they are back.

        After a restart of slurmctld all of them are away for some seconds.
        """
        self.broadcast(self._reconfigure_message())
        names = {node.spec.name for node in self._writer.cluster.living_nodes()}
        self._unread = names - self.nodes

    def _reconfigure_message(self) -> NodeReconfigure:
        return NodeReconfigure(self._writer.cluster.epoch)

    # Building -----------------------------------------------------------------------------------

    def _build(self, node_ids: Iterable[int], first_duty_id: int) -> None:
        duties = self._writer.cluster.duties
        self._signed.clear()
        for node_id in node_ids:
            of_node = duties.get(node_id)
            if not of_node:
                continue
            due = [duty for duty_id, duty in of_node.items() if duty_id >= first_duty_id]
            if due:
                self._queue_durable(node_id, due)

    def _queue_durable(self, node_id: int, duties: list[Duty]) -> None:
        """Make the orders from the state as it is; let them go when that state is durable."""
        cluster = self._writer.cluster
        name = cluster.node(node_id).spec.name
        if name not in self.nodes:
            return
        now_us = self._now_us()
        orders = []
        for duty in duties:
            try:
                order = self._order(cluster, duty)
            except Exception as error:  # noqa: BLE001 - it costs this job's duty only
                self._faults.note("order", f"duty {duty.duty_id} of job {duty.job_id}", error)
                continue
            if order is not None:
                orders.append(order)
                self._sent_us[duty.duty_id] = now_us
        if orders:
            self._writer.when_durable(partial(self._queue, name, orders))

    def _order(self, cluster: Cluster, duty: Duty) -> Order | None:
        """Return the order for one duty; None when it cannot be made (said in the log)."""
        if not needs_credential(duty):
            return order_of(duty)
        job = cluster.jobs.get(duty.job_id)
        if job is None:
            self._faults.note("order", f"duty {duty.duty_id} of unknown job {duty.job_id}")
            return None
        if duty.kind != DutyKind.LAUNCH:
            statuses = job.exit_code, job.derived_exit_code
            credential = self._of_job(cluster, job, duty)
            return order_of(duty, credential=credential, statuses=statuses)
        try:
            script = self._scripts.get(job.script_hash)
            environment = self._scripts.get(job.env_hash) + _of_buffer(cluster, job)
        except OSError as error:
            text = f"script of job {job.job_id}: {error.filename}: {error.strerror}"
            self._faults.note("order", text)
            return None
        credential = self._credentials.of_batch(cluster, job, script, environment)
        return order_of(duty, credential=credential, script=script, environment=environment)

    def _of_job(self, cluster: Cluster, job: Job, duty: Duty) -> bytes:
        """Return the credential of a job, made once for the duties of all its nodes.

        It names all nodes: one for each node of a job of 1,000 took 0.3 s.
        """
        manages = duty.kind == DutyKind.PREPARE and is_manager(job, duty.node_id)
        key = job.job_id, manages  # in one turn a job has one attempt
        if key not in self._signed:
            self._signed[key] = self._credentials.of_job(cluster, job, manages=manages)
        return self._signed[key]

    # Sending ------------------------------------------------------------------------------------

    def _queue(self, name: str, orders: list[Order]) -> None:
        """Put durable orders into this turn's message to a node."""
        if not self._outbox:
            self._call_soon(self._flush)
        self._outbox.setdefault(name, []).extend(orders)

    def _flush(self) -> None:
        outbox, self._outbox = self._outbox, {}
        epoch = self._writer.cluster.epoch
        for name, orders in outbox.items():
            for part in _parts(orders):
                if not self._post(name, NodeOrders(epoch, part)):
                    break
                self.sent += len(part)

    def _post(self, name: str, message: Struct) -> bool:
        """Send; a node that is away is told everything when it registers again."""
        try:
            self._wire.send(name, message)
        except PeerGone:
            self.nodes.discard(name)
            return False
        except PeerBusy:
            return False
        return True


def _of_buffer(cluster: Cluster, job: Job) -> bytes:
    """Return the variables that the site's slurm_bb_paths gave a job's script."""
    buffer = cluster.buffers.get(job.job_id)
    entries = buffer.variables if buffer is not None else ()
    return b"".join(entry.encode("utf-8", "surrogateescape") + b"\0" for entry in entries)


def nodes_of_duties(cluster: Cluster, event: ev.AnyEvent) -> tuple[int, ...]:
    """Return the nodes that an event may have given duties to."""
    if isinstance(event, ev.JobAllocated):
        return tuple(alloc.node_id for alloc in event.nodes)
    if isinstance(event, ev.NodeRebootIssued):
        return (event.node_id,)
    if isinstance(event, ev.NodesPowered):
        return event.node_ids
    if isinstance(event, (ev.JobCompleting, ev.JobSignalled)) and event.node_ids:
        return event.node_ids
    if isinstance(event, (ev.JobSignalled, ev.JobSuspended, ev.JobResumed, ev.PrologEnded)):
        job = cluster.jobs.get(event.job_id)
        return tuple(alloc.node_id for alloc in job.nodes) if job is not None else ()
    if isinstance(event, ev.JobResized) and event.first_duty_id:
        job = cluster.jobs.get(event.job_id)
        return tuple(alloc.node_id for alloc in job.nodes_leaving) if job is not None else ()
    return ()


def _parts(orders: list[Order]) -> Iterable[list[Order]]:
    """Split orders into messages of an allowed size."""
    part: list[Order] = []
    size = 0
    for order in orders:
        weight = 64 + sum(
            len(value)
            for value in (getattr(order, field) for field in order.__struct_fields__)
            if isinstance(value, bytes)
        )
        if part and (len(part) >= ORDERS_AT_ONCE or size + weight > ORDER_BYTES):
            yield part
            part, size = [], 0
        part.append(order)
        size += weight
    if part:
        yield part
