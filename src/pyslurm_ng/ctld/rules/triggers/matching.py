"""Which triggers what has happened pulls, and which of them run now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster, node_state
from pyslurm_ng.model.job import limit_end_us
from pyslurm_ng.model.states import TERMINAL_STATES, JobState, NodeState
from pyslurm_ng.model.trigger import Trigger


@dataclass(slots=True)
class Happened:
    """What has happened since triggers last ran.

    Attributes:
        nodes: the names of nodes by what they did.
        jobs: the jobs that ended.
        own: what the controller itself did.
        job_nodes: the nodes of jobs with triggers, also after the job has left them.
    """

    nodes: dict[str, dict[str, None]] = field(default_factory=dict)
    jobs: dict[int, None] = field(default_factory=dict)
    own: dict[str, None] = field(default_factory=dict)
    job_nodes: dict[int, frozenset[str]] = field(default_factory=dict)

    def note_node(self, event: str, name: str) -> None:
        """Note what a node did."""
        self.nodes.setdefault(event, {})[name] = None

    def forget(self) -> None:
        """Begin anew, but keep the nodes of jobs."""
        self.nodes.clear()
        self.jobs.clear()
        self.own.clear()


def pulled(
    cluster: Cluster, happened: Happened, now_us: int, *, with_times: bool = False
) -> list[ev.AnyEvent]:
    """Return events for triggers that see something that they have not seen yet.

    With `with_times` also look at idle nodes and time limits, which no event announces.
    """
    idle_nodes = _idle_nodes(cluster) if with_times and _any_waits_for(cluster, "idle") else []
    events: list[ev.AnyEvent] = []
    words: dict[tuple[str, ...], str] = {}
    for trigger in cluster.triggers.values():
        at_once = _seen(trigger, happened)
        timed = list(_timed(cluster, trigger, idle_nodes, happened, now_us)) if with_times else []
        if not at_once and not timed:
            continue
        seen = (trigger.seen, *at_once, *timed)
        shown = words.get(seen)
        if shown is None:
            shown = words[seen] = _shown(*seen)
        if shown != trigger.seen:
            delay_s = 0 if timed else max(0, trigger.offset_s)
            due_us = now_us + delay_s * SECOND_US
            events.append(ev.TriggerPulled(now_us, trigger.trigger_id, due_us, shown))
    return events


def due(cluster: Cluster, now_us: int) -> list[Trigger]:
    """Return the triggers whose programs run now."""
    return [trigger for trigger in cluster.triggers.values() if 0 < trigger.due_us <= now_us]


def orphans(cluster: Cluster, now_us: int) -> list[ev.AnyEvent]:
    """Return an event that clears triggers of jobs that are gone, unless they are still to run."""
    ids = [
        trigger.trigger_id
        for trigger in cluster.triggers.values()
        if trigger.job_id and not trigger.due_us and trigger.job_id not in cluster.jobs
    ]
    return [ev.TriggersCleared(now_us, tuple(ids))] if ids else []


def _any_waits_for(cluster: Cluster, event: str) -> bool:
    return any(event in trigger.events for trigger in cluster.triggers.values())


def _seen(trigger: Trigger, happened: Happened) -> list[str]:
    """Return to which nodes, or what, something has happened that a trigger waits for."""
    seen = [name for name in trigger.events if name in happened.own]
    if trigger.job_id and "fini" in trigger.events and trigger.job_id in happened.jobs:
        seen.append(str(trigger.job_id))
    for event in trigger.events:
        names = happened.nodes.get(event)
        if names:
            seen += _meant(trigger, names, happened)
    return seen


def _meant(trigger: Trigger, names: Iterable[str], happened: Happened) -> Iterator[str]:
    """Yield those nodes that a trigger is about; for one of a job its id instead."""
    if trigger.job_id:
        if not happened.job_nodes.get(trigger.job_id, frozenset()).isdisjoint(names):
            yield str(trigger.job_id)
    elif not trigger.nodes:
        yield from names
    else:
        listed = frozenset(hostlist.expand(trigger.nodes))
        yield from (name for name in names if name in listed)


def _shown(before: str, *seen: str) -> str:
    """Return what a trigger has seen by now as one word."""
    seen_before = hostlist.expand(before) if before else []
    return hostlist.fold_sorted(hostlist.unique([*seen_before, *seen]))


def _timed(
    cluster: Cluster,
    trigger: Trigger,
    idle_nodes: Iterable[tuple[str, int]],
    happened: Happened,
    now_us: int,
) -> Iterator[str]:
    """Yield what has been idle for the offset, or has run so long; a permanent trigger once."""
    if trigger.due_us:
        return
    offset_us = trigger.offset_s * SECOND_US
    if "idle" in trigger.events:
        names = [
            name
            for name, since_us in idle_nodes
            if trigger.fired_us < since_us + max(0, offset_us) <= now_us
        ]
        yield from _meant(trigger, names, happened)
    if "time" in trigger.events and _reached_limit(cluster, trigger, offset_us, now_us):
        yield str(trigger.job_id)


def _reached_limit(cluster: Cluster, trigger: Trigger, offset_us: int, now_us: int) -> bool:
    """Return whether a job has run to its time limit, or to within a negative offset of it."""
    job = cluster.jobs.get(trigger.job_id)
    limit_us = limit_end_us(job) if job is not None and job.start_us else 0
    if job is None or not limit_us or job.state == JobState.PENDING:
        return False
    ran_until_us = job.end_us if job.state in TERMINAL_STATES else now_us
    is_reached = limit_us + min(0, offset_us) <= ran_until_us
    return is_reached and trigger.fired_us < limit_us + offset_us <= now_us


def _idle_nodes(cluster: Cluster) -> list[tuple[str, int]]:
    """Return the names of idle nodes, each with since when it is idle."""
    return [
        (node.spec.name, node.last_busy_us)
        for node in cluster.living_nodes()
        if node_state(cluster, node)[0] == NodeState.IDLE
    ]
