"""Sees what triggers wait for, and runs their programs.

What a trigger has seen is recorded at once, so it outlives the controller. Programs run every
`INTERVAL_US`, as in Slurm: nodes that went down together are one run with all of them. An event of
the last interval also counts for a trigger that was set after it, so that a program which sets its
trigger anew misses nothing. A run is recorded before it begins: a crash may cost one, none runs
twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.ctld.rules.triggers import matching
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.states import NodeFlag, NodeState
from pyslurm_ng.model.touched import EVERYTHING, nodes_follow_job, touched_nodes
from pyslurm_ng.model.trigger import NODE_EVENTS, Trigger

INTERVAL_US = 15 * SECOND_US
_STATE_EVENTS = (
    ev.NodeRegistered, ev.NodeUpdated, ev.NodesCreated, ev.NodesDeleted, ev.NodesDown,
    ev.NodesReturned, ev.ConfigLoaded,
)  # fmt: skip
_LEAVING = (ev.DutiesDone, ev.JobCompleting, ev.JobEnded, ev.JobResized)
_DOWN, _DRAIN, _DRAINED, _FAIL = 1, 2, 4, 8
_GAINED = {_DOWN: "down", _DRAIN: "draining", _DRAINED: "drained", _FAIL: "fail"}
_LOST = {_DOWN: "up", _DRAIN: "resume"}


class Runner(Protocol):
    """`UserPrograms`."""

    def run(self, argv: Sequence[str], uid: int, gid: int, environment: Mapping[str, str]) -> None:
        """Run a program as a user some time soon."""


class Edges(Protocol):
    """`LoopEdges`."""

    def now_us(self) -> int:
        """The controller's time."""

    def call_soon(self, function: Callable[[], None], /) -> object:
        """Run at the end of the present turn."""


class Triggers:
    """Follows events for the triggers of a cluster."""

    def __init__(self, writer: Writer, runner: Runner, edges: Edges, conf_path: str) -> None:
        """`conf_path` is the slurm.conf that programs find in their environment."""
        self._environment = {"SLURM_CONF": conf_path}
        self._writer = writer
        self._runner = runner
        self._call_soon = edges.call_soon
        self._now_us = edges.now_us
        self._happened = matching.Happened()
        self._is_due = False
        self._checked_us = edges.now_us()
        self._was_connected: bool | None = None
        self._was_full = False
        cluster = writer.cluster
        # Nodes in a state that triggers tell of, as they were when last looked at.
        self._marks = {
            node.node_id: mark
            for node in cluster.living_nodes()
            if (mark := _mark_of(cluster, node.node_id))
        }
        for trigger in cluster.triggers.values():
            self._keep_job_nodes(trigger.job_id)

    # What happens -----------------------------------------------------------------------------

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """Note what events mean for triggers."""
        for event in events:
            if isinstance(event, ev.TriggerSet):
                self._keep_job_nodes(event.trigger.job_id)
                self._look_soon()
            elif isinstance(event, ev.EpochStarted):
                self.note("primary_slurmctld_resumed_operation")
            elif isinstance(event, ev.JobAllocated):
                if event.job_id in self._happened.job_nodes:
                    self._keep_job_nodes(event.job_id)
            elif isinstance(event, ev.JobEnded):
                self._job_ended(event.job_id)
            if isinstance(event, _STATE_EVENTS):
                if isinstance(event, ev.ConfigLoaded):
                    self.note("reconfig")
                self._nodes_changed(touched_nodes(event))
            elif self._marks and isinstance(event, _LEAVING):
                self._nodes_left(event)

    def note(self, event: str) -> None:
        """Note what the controller itself has done or found out."""
        self._happened.own[event] = None
        self._look_soon()

    def _job_ended(self, job_id: int) -> None:
        if job_id in self._happened.job_nodes:
            self._happened.jobs[job_id] = None
            self._look_soon()

    def _keep_job_nodes(self, job_id: int) -> None:
        job = self._writer.cluster.jobs.get(job_id)
        if job is not None:
            nodes = self._writer.cluster.nodes_of([alloc.node_id for alloc in job.nodes_held])
            self._happened.job_nodes[job_id] = frozenset(node.spec.name for node in nodes)

    def _nodes_changed(self, node_ids: Sequence[int]) -> None:
        cluster = self._writer.cluster
        if node_ids == EVERYTHING:
            node_ids = [node.node_id for node in cluster.living_nodes()]
        is_changed = False
        for node_id in node_ids:
            is_changed = self._mark(node_id) or is_changed
        if is_changed:
            self.note("reconfig")

    def _nodes_left(self, event: ev.AnyEvent) -> None:
        """Look whether jobs have left nodes that drain."""
        job_id = nodes_follow_job(event)
        node_ids = set(touched_nodes(event))
        for node_id, mark in list(self._marks.items()):
            if mark & _DRAIN and not mark & _DRAINED and (job_id or node_id in node_ids):
                self._mark(node_id)

    def _mark(self, node_id: int) -> bool:
        """Note in which state a node is now, and what it did if that is another."""
        node = self._writer.cluster.nodes[node_id]
        if node is None:
            return self._marks.pop(node_id, 0) != 0
        before, mark = self._marks.pop(node_id, 0), _mark_of(self._writer.cluster, node_id)
        if mark:
            self._marks[node_id] = mark
        if mark == before:
            return False
        for bit, name in _GAINED.items():
            is_new = mark & bit and not before & bit
            # A node without jobs is drained at once.
            if is_new and not (bit == _DRAIN and mark & _DRAINED):
                self._happened.note_node(name, node.spec.name)
        for bit, name in _LOST.items():
            if before & bit and not mark & bit:
                self._happened.note_node(name, node.spec.name)
        self._look_soon()
        return True

    # What follows -----------------------------------------------------------------------------

    def _look_soon(self) -> None:
        if not self._is_due and self._writer.cluster.triggers:
            self._is_due = True
            self._call_soon(self._look)

    def _look(self) -> None:
        """Record which triggers have seen their event."""
        self._is_due = False
        cluster = self._writer.cluster
        self._writer.record(matching.pulled(cluster, self._happened, self._now_us()))

    def tick(self, *, is_connected: bool | None, is_full: bool) -> None:
        """Look at the link to accounting and, every `INTERVAL_US`, run what is due.

        Args:
            is_connected: whether slurmdbd answers; None: there is none.
            is_full: whether more waits for slurmdbd than MaxDBDMsgs.
        """
        if is_connected is not None and is_connected != self._was_connected:
            if self._was_connected is not None:
                self.note(f"primary_slurmdbd_{'resumed_operation' if is_connected else 'failure'}")
            self._was_connected = is_connected
        if is_full and not self._was_full:
            self.note("primary_slurmctld_acct_buffer_full")
        self._was_full = is_full
        now_us = self._now_us()
        if not 0 <= now_us - self._checked_us < INTERVAL_US:
            self._checked_us = now_us
            self._check(now_us)

    def _check(self, now_us: int) -> None:
        writer, cluster = self._writer, self._writer.cluster
        if cluster.triggers:
            writer.record(matching.pulled(cluster, self._happened, now_us, with_times=True))
            for trigger in matching.due(cluster, now_us):
                self._fire(trigger, now_us)
            writer.record(matching.orphans(cluster, now_us))
        self._happened.forget()
        jobs_followed = {trigger.job_id for trigger in cluster.triggers.values()}
        for job_id in self._happened.job_nodes.keys() - jobs_followed:
            del self._happened.job_nodes[job_id]

    def _fire(self, trigger: Trigger, now_us: int) -> None:
        argv = [*trigger.program.split(), trigger.seen]
        self._writer.record([ev.TriggerFired(now_us, trigger.trigger_id)])
        run = partial(self._runner.run, argv, trigger.uid, trigger.gid, self._environment)
        self._writer.when_durable(run)


def _mark_of(cluster: Cluster, node_id: int) -> int:
    """Return a node's state as bits that triggers tell of."""
    node, use = cluster.node(node_id), cluster.node_index.use[node_id]
    mark = _DOWN if node.state == NodeState.DOWN else 0
    if node.flags & NodeFlag.DRAIN:
        mark |= _DRAIN if use.allocs or use.completing else _DRAIN | _DRAINED
    return mark | (_FAIL if node.flags & NodeFlag.FAIL else 0)


assert {*_GAINED.values(), *_LOST.values()} | {"idle"} == set(NODE_EVENTS)
