"""What users and administrators did: recorded with names, done again in a simulation.

What follows from time or from the scheduler is not among it: that follows again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyslurm_ng.model import events as ev
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.node import Node
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.model.states import JobState, NodeFlag, Reason

OUT_OF_SERVICE = int(NodeFlag.DRAIN | NodeFlag.FAIL)
# What `scontrol update`, hold and release set; the rest of a job's fields others set.
_JOB_FIELDS = frozenset(
    {
        *("account", "array_limit", "assoc_id", "begin_us", "eligible_us", "accrue_us", "nice"),
        *("partition", "priority", "qos", "reason", "reason_text", "requeue", "site_factor"),
        *("time_limit_min", "comment", "admin_comment", "system_comment"),
    }
)
_MOVES = frozenset({"REPLACE", "REPLACE_DOWN"})
_OF_RUNNING = frozenset({"time_limit_min"})


@dataclass(frozen=True, slots=True)
class Submitted:
    """A job; several events are the components of a heterogeneous one."""

    time_us: int
    parts: tuple[ev.JobSubmitted, ...]


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A waiting job, or some tasks of an array as `[1-5:1]`."""

    time_us: int
    job_id: int
    tasks: str = ""


@dataclass(frozen=True, slots=True)
class JobChanged:
    """Fields of a job and its request that took other values."""

    time_us: int
    job_id: int
    tasks: str
    fields: Mapping[str, object]
    request: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Suspended:
    """A running job that was stopped by hand, or let go on."""

    time_us: int
    job_id: int
    tasks: str
    resume: bool = False


@dataclass(frozen=True, slots=True)
class AccountingChanged:
    """What accounting changed: associations, QOS, usage, licences of other servers."""

    time_us: int
    event: ev.AnyEvent


@dataclass(frozen=True, slots=True)
class NodesDown:
    """Nodes that left service."""

    time_us: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodesBack:
    """Nodes that came back."""

    time_us: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodesChanged:
    """Nodes drained, resumed, with new weights: flags that were set and cleared, other fields."""

    time_us: int
    names: tuple[str, ...]
    raised: int = 0
    lowered: int = 0
    fields: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionChanged:
    """Fields that `scontrol` set; members by name where these changed."""

    time_us: int
    name: str
    fields: Mapping[str, object]
    members: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class PartitionDeleted:
    """A partition that was deleted by hand."""

    time_us: int
    name: str


@dataclass(frozen=True, slots=True)
class ReservationMade:
    """A reservation as it was made or changed by hand, with its nodes by name."""

    time_us: int
    reservation: Reservation
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReservationDeleted:
    """A reservation that was deleted before its time was over."""

    time_us: int
    name: str


Action = (
    Submitted
    | Cancelled
    | JobChanged
    | Suspended
    | AccountingChanged
    | NodesDown
    | NodesBack
    | NodesChanged
    | PartitionChanged
    | PartitionDeleted
    | ReservationMade
    | ReservationDeleted
)


def job_change(job: Job, head_id: int, tasks: str, event: ev.JobUpdated) -> JobChanged | None:
    """Return what a user or administrator changed about a job that is not over."""
    names = _JOB_FIELDS if job.state == JobState.PENDING else _OF_RUNNING
    fields = {
        name: value
        for name, value in event.fields.items()
        if name in names and value != getattr(job, name)
    }
    if fields.get("reason") == Reason.ReservationDeleted:
        return None  # follows from the reservation's end
    request: dict[str, object] = {}
    if event.request is not None and job.state == JobState.PENDING:
        request = _difference(job.request, event.request)
    if "dependency" in request:
        fields.pop("reason", None)
    if not fields.keys() - {"reason", "reason_text"} and not request:
        return None
    return JobChanged(event.time_us, head_id, tasks, fields, request)


def node_change(nodes: list[Node], event: ev.NodeUpdated) -> NodesChanged | None:
    """Return what was changed about nodes, state FUTURE apart."""
    names = tuple(node.spec.name for node in nodes)
    fields = {name: value for name, value in event.fields.items() if name not in ("flags", "state")}
    raised = lowered = 0
    flags = event.fields.get("flags")
    if isinstance(flags, int) and nodes:
        raised = flags & ~nodes[0].flags & OUT_OF_SERVICE
        lowered = nodes[0].flags & ~flags & OUT_OF_SERVICE
    if not fields and not raised and not lowered:
        return None
    return NodesChanged(event.time_us, names, raised, lowered, fields)


def partition_change(
    before: Partition | None, after: Partition, names: Mapping[int, str], time_us: int
) -> PartitionChanged:
    """Return how a partition differs from before; of a new one all that is no default."""
    fields = _difference(before or Partition(after.name), after)
    fields.pop("nodes_text", None)
    moved = fields.pop("node_ids", None) is not None
    members = (
        tuple(names[node_id] for node_id in after.node_ids if node_id in names) if moved else None
    )
    return PartitionChanged(time_us, after.name, fields, members)


def is_by_hand(before: Reservation, after: Reservation) -> bool:
    """Tell whether more changed than what time and failing nodes bring about."""
    follows = {"is_active", "idle_since_us"}
    if "SPEC_NODES" not in after.flags or _MOVES.intersection(after.flags):
        follows |= {"node_ids", "core_masks", "gres"}
    if before.repeats and before.start_us != after.start_us:
        follows |= {"start_us", "end_us", "later"}
    return not _difference(before, after).keys() <= follows


def _difference(
    before: JobRequest | Partition | Reservation, after: JobRequest | Partition | Reservation
) -> dict[str, object]:
    return {
        name: value
        for name in after.__struct_fields__
        if (value := getattr(after, name)) != getattr(before, name)
    }
