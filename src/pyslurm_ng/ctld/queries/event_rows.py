"""What events tell listeners: a word for each, and the job or nodes after it. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from copy import copy

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.job_ids import MOST_STEPS, JobIdError, parse_job_id
from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.ctld.job_filter import TOO_MANY, job_id_text
from pyslurm_ng.ctld.queries.job_fields import nodes_text
from pyslurm_ng.ctld.rules.private_data import Audience
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster, node_state
from pyslurm_ng.model.job import NO_STEPS, Job, JobRequest
from pyslurm_ng.model.states import Reason, reason_text
from pyslurm_ng.model.task_ranges import MOST_RANGES
from pyslurm_ng.model.touched import touched_nodes
from pyslurm_ng.wire.event_messages import JobEvent, NodeEvent

JOB_WORDS: dict[type, str] = {
    ev.JobSubmitted: "submitted",
    ev.JobUpdated: "updated",
    ev.JobEligible: "eligible",
    ev.ArrayTaskSplit: "split",
    ev.JobAllocated: "allocated",
    ev.JobStarted: "started",
    ev.JobSuspended: "suspended",
    ev.JobResumed: "resumed",
    ev.JobResized: "resized",
    ev.JobCompleting: "completing",
    ev.JobRequeued: "requeued",
    ev.JobEnded: "ended",
}
NODE_WORDS: dict[type, str] = {
    ev.NodeRegistered: "registered",
    ev.NodeUpdated: "updated",
    ev.NodesDown: "down",
    ev.NodesReturned: "returned",
    ev.NodesSilent: "silent",
    ev.NodesPowered: "powered",
    ev.NodeRebootIssued: "rebooting",
}
CHANGES_RIGHTS = frozenset((ev.ConfigLoaded, ev.PartitionUpdated, ev.PartitionDeleted))
"""Behind these listeners may see less than before."""

JobTest = Callable[[Job], bool]


def job_event(cluster: Cluster, event: ev.AnyEvent, sequence: int) -> tuple[JobEvent, Job] | None:
    """Return what to tell of an event about a job, and the job; None of others."""
    what = JOB_WORDS.get(type(event))
    if what is None:
        return None
    job = cluster.jobs.get(getattr(event, "job_id", 0))
    if job is None:
        return None
    is_array = job.array_task_id != NO_VAL
    told = JobEvent(
        sequence=sequence,
        time_us=event.time_us,
        what=what,
        job_id=job.job_id,
        id=job_id_text(job),
        uid=job.uid,
        user=job.user_name,
        account=job.account,
        partition=job.partition,
        name=job.request.name,
        state=int(job.state),
        flags=int(job.flags),
        qos=job.qos,
        array_job_id=job.array_job_id,
        array_task_id=job.array_task_id if is_array else -1,
        nodes=nodes_text(cluster, job.nodes),
        exit_code=job.exit_code,
        reason=reason_text(job.reason) if job.reason != Reason.NONE else "",
    )
    return told, job


def node_events(cluster: Cluster, event: ev.AnyEvent, sequence: int) -> list[NodeEvent]:
    """Return what to tell of an event about nodes: one for each state that they now have."""
    what = NODE_WORDS.get(type(event))
    if what is None:
        return []
    if isinstance(event, ev.NodesSilent) and not event.silent:
        what = "responding"
    by_state: dict[tuple[int, int, str], list[str]] = {}
    for node in cluster.nodes_of(touched_nodes(event)):
        base, flags = node_state(cluster, node)
        by_state.setdefault((int(base), int(flags), node.reason), []).append(node.spec.name)
    return [
        NodeEvent(sequence, event.time_us, what, hostlist.fold(names), base, flags, reason)
        for (base, flags, reason), names in by_state.items()
    ]


def narrowed(event: NodeEvent, node_names: frozenset[str]) -> NodeEvent | None:
    """Return an event of only the nodes that are node_names; None where it has none of them."""
    names = [name for name in hostlist.expand_unique(event.nodes) if name in node_names]
    if not names:
        return None
    return NodeEvent(
        event.sequence, event.time_us, event.what, hostlist.fold(names), event.state, event.flags,
        event.reason,
    )  # fmt: skip


def judged_part(job: Job) -> Job:
    """Return a copy with what `Audience.sees_job` and tests of filters look at.

    It is kept after the job has changed: texts that its user may change again and again are not.
    """
    request, part = job.request, copy(job)
    part.request = JobRequest(
        name=request.name,
        reservation=request.reservation,
        wckey=request.wckey,
        licenses=request.licenses,
        mcs_label=request.mcs_label,
    )
    part.comment = part.admin_comment = part.system_comment = part.reason_text = ""
    part.array_pending = part.dependencies = part.nodes_before = part.claim = ()
    part.steps = NO_STEPS
    return part


class _TasksNamed:
    """Tasks of one array: a look costs the same however many are named."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int, int]] = []
        self._begins: list[int] = []
        self._ends: list[int] = []
        self._sparse: list[tuple[int, int, int]] = []

    def sort(self) -> None:
        """All that is named has come."""
        self._sparse = [span for span in self.ranges if span[2] > 1]
        for first, last, _ in sorted(span for span in self.ranges if span[2] == 1):
            if self._ends and first <= self._ends[-1] + 1:
                self._ends[-1] = max(last, self._ends[-1])
            else:
                self._begins.append(first)
                self._ends.append(last)
        self.ranges = []

    def has(self, task_id: int) -> bool:
        """Return whether a task is named."""
        at = bisect_right(self._begins, task_id) - 1
        return (at >= 0 and task_id <= self._ends[at]) or any(
            first <= task_id <= last and (task_id - first) % step == 0
            for first, last, step in self._sparse
        )


def named_jobs(texts: Sequence[str]) -> JobTest | Reject:
    """Return the test of a job by ids as typed: of jobs, arrays, tasks, components.

    It is asked about each event for as long as somebody listens.
    """
    whole: set[int] = set()
    parts: dict[int, _TasksNamed] = {}
    count = sparse = 0
    components: set[tuple[int, int]] = set()
    for text in texts:
        try:
            name = parse_job_id(text)
        except JobIdError:
            return Reject(Errno.ESLURM_INVALID_JOB_ID, text[:64])
        count += len(name.tasks)
        sparse += sum(step > 1 for _, _, step in name.tasks)
        if count > MOST_RANGES or sparse > MOST_STEPS:
            return TOO_MANY
        if name.tasks:
            parts.setdefault(name.job_id, _TasksNamed()).ranges.extend(name.tasks)
        elif name.het_offset >= 0:
            components.add((name.job_id, name.het_offset))
        else:
            whole.add(name.job_id)
    for tasks in parts.values():
        tasks.sort()

    def test(job: Job) -> bool:
        if not whole.isdisjoint((job.job_id, job.array_job_id, job.het_job_id)):
            return True
        if job.het_job_id and (job.het_job_id, job.het_offset) in components:
            return True
        named = parts.get(job.array_job_id)
        return named is not None and named.has(job.array_task_id)

    return test


def audience_text(audience: Audience) -> str:
    """Return the same for all who see everything; else the user's own."""
    if audience.sees_all_jobs and not audience.nodes_private:
        return "all"
    return f"uid {audience.caller.uid}"
