"""Events for listeners: `squeue --follow`, `scontrol watch` and slurmrestd.

`FollowEvents` stays open. Its answers come one after the other:

    FollowEvents -> EventsBegun, Events*, EventsOver
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from pyslurm_ng.model import bounds as b
from pyslurm_ng.wire.query_messages import JobFilter
from pyslurm_ng.wire.table import message, reply

FROM_NOW = -1
Sequence = Annotated[int, msgspec.Meta(ge=FROM_NOW, le=2**62)]


@message(kind="FollowEvents", roles="user", max_bytes=256 << 10, stays_open=True)
class FollowEvents(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Tell what happens to jobs and nodes from now on, or from behind batch `after` on.

    A job is told of when it agrees with `filter` after the change. `nodes` names nodes, "" means
    all. `flags` are SHOW_* bits.
    """

    after: Sequence = FROM_NOW
    with_jobs: bool = True
    with_nodes: bool = False
    filter: JobFilter = JobFilter()
    nodes: b.HostListText = ""
    flags: b.FlagBits = 0


@reply("EventsBegun")
class EventsBegun(msgspec.Struct, frozen=True):
    """What follows begins behind batch `sequence`.

    Without `is_whole` events behind `after` are no longer known: lists have to be read again.
    Listeners with the same `audience` and filters hear the same.
    """

    sequence: int
    is_whole: bool
    audience: str
    cluster_name: str


class JobEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """What happened to a job, and the job after that; `state` and `flags` as in ShowJobs."""

    sequence: int
    time_us: int
    what: str
    job_id: int
    id: str  # as users know it: 27_3
    uid: int
    user: str
    account: str
    partition: str
    name: str
    state: int
    flags: int = 0
    qos: str = ""
    array_job_id: int = 0
    array_task_id: int = -1
    nodes: str = ""
    exit_code: int = 0
    reason: str = ""


class NodeEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """What happened to nodes that have the same state now; `nodes` is a host list."""

    sequence: int
    time_us: int
    what: str
    nodes: str
    state: int
    flags: int = 0
    reason: str = ""


@reply("Events")
class Events(msgspec.Struct, frozen=True):
    """What happened up to batch `sequence`, in order."""

    sequence: int
    jobs: list[JobEvent] = []
    nodes: list[NodeEvent] = []


@reply("EventsOver")
class EventsOver(msgspec.Struct, frozen=True):
    """No more is told here; `why` is slow, changed or old. Ask again from behind `sequence`."""

    why: str
    sequence: int
