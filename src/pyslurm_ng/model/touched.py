"""Which records an event changes, so that views know what to update."""

from __future__ import annotations

from operator import attrgetter

from . import events as ev

EVERYTHING = (-1,)
"""Returned instead of ids: every record of that kind may have changed."""

Ids = tuple[int, ...]

# Events about one job that change nothing but its record.
_ONE_JOB = (
    ev.JobSubmitted,
    ev.JobUpdated,
    ev.JobEligible,
    ev.DependencyChanged,
    ev.JobStarted,
    ev.JobSignalled,
    ev.JobRequeued,
    ev.LostRunsChanged,
    ev.StepCreated,
    ev.StepEnded,
    ev.StepUpdated,
    ev.JobEnded,
    ev.PrologEnded,
    ev.EpilogEnded,
    ev.BufferChanged,
)
# Events about one job that also change what its nodes have in use.
_JOB_AND_NODES = (
    ev.JobAllocated,
    ev.JobSuspended,
    ev.JobResumed,
    ev.JobCompleting,
    ev.JobResized,
)
_ABOUT_A_JOB = frozenset((*_ONE_JOB, *_JOB_AND_NODES))
_ABOUT_JOBS = frozenset((ev.ArrayTaskSplit, ev.JobPurged, ev.TimesMoved, ev.ConfigLoaded))
_job_id = attrgetter("job_id")
_SHOWN_BY_NODES = (
    ev.ConfigLoaded,
    ev.NodesCreated,
    ev.NodesDeleted,
    ev.LicensesUpdated,  # among the TRES of partitions, which are shown beside their nodes
    ev.PartitionUpdated,
    ev.PartitionDeleted,
    ev.ReservationCreated,
    ev.ReservationUpdated,
    ev.ReservationDeleted,
)
# Jobs that were cleaning up on a lost node give it back, but their records do not show that.
_NODES = (ev.NodeUpdated, ev.NodesDown, ev.NodesPowered, ev.NodesReturned, ev.NodesSilent)
_ABOUT_NODES = frozenset(
    (
        *_NODES,
        *_SHOWN_BY_NODES,
        ev.DutiesDone,
        ev.JobAllocated,
        ev.NodeRegistered,
        ev.NodeRebootIssued,
        ev.TimesMoved,
    )
)


def touched_jobs(event: ev.AnyEvent) -> Ids:
    """Return the ids of the jobs whose records an event changed; `EVERYTHING` means all."""
    kind = type(event)  # each event is asked several times
    if kind in _ABOUT_A_JOB:
        return (_job_id(event),)
    if kind not in _ABOUT_JOBS:
        return ()
    if isinstance(event, ev.ArrayTaskSplit):
        return (event.array_job_id, event.job_id)
    if isinstance(event, ev.JobPurged):
        return event.job_ids
    if isinstance(event, ev.TimesMoved):
        return EVERYTHING if event.is_all else event.job_ids
    if isinstance(event, ev.ConfigLoaded):
        return EVERYTHING
    return ()


def touched_nodes(event: ev.AnyEvent) -> Ids:
    """Return the ids of the nodes whose records or use an event changed.

    `EVERYTHING` means all. An event may free nodes without naming them; then the caller adds the
    job's nodes from the Cluster, see `nodes_follow_job`.
    """
    if type(event) not in _ABOUT_NODES:
        return ()
    if isinstance(event, ev.DutiesDone):
        return tuple(node_id for node_id, _ in event.done)
    if isinstance(event, ev.JobAllocated):
        return tuple(alloc.node_id for alloc in event.nodes)
    if isinstance(event, (ev.NodeRegistered, ev.NodeRebootIssued)):
        return (event.node_id,)
    if isinstance(event, _NODES):
        return event.node_ids
    if isinstance(event, _SHOWN_BY_NODES) or (isinstance(event, ev.TimesMoved) and event.is_all):
        return EVERYTHING
    return ()


def nodes_follow_job(event: ev.AnyEvent) -> int:
    """Return the id of a job, all nodes of which an event touches as well, or 0."""
    if isinstance(event, _JOB_AND_NODES) and not isinstance(event, ev.JobAllocated):
        return event.job_id
    return 0
