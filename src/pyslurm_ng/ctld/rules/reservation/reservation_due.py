"""What time and failing nodes do to reservations: they begin, end, repeat, idle away, move."""

from __future__ import annotations

import msgspec

from pyslurm_ng.base.numbers import MINUTE_US, SECOND_US, SIGNAL_RESERVATION, SIGNAL_TIME_LIMIT
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.rules.calendar import Calendar
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.reservation import reservation_nodes as pick
from pyslurm_ng.ctld.rules.reservation.reservations import deletion, running_jobs
from pyslurm_ng.ctld.rules.reservation.times import moved_to, next_occurrence
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.sched.frame import reserved
from pyslurm_ng.sched.frame.job_records import NO_END_US
from pyslurm_ng.sched.frame.policy import over_run_us


def due(
    cluster: Cluster, conf: SlurmConf, now_us: int, calendar: Calendar, first_duty_id: int = 0
) -> list[ev.AnyEvent]:
    """Return what has become due of all reservations.

    Args:
        first_duty_id: where to number duties from; 0 for the cluster's next.
    """
    events: list[ev.AnyEvent] = []
    duty_id = first_duty_id or cluster.next_duty_id
    for reservation in cluster.reservations.values():
        if reservation.end_us <= now_us and not reservation.float_us:
            over, duties = _over(cluster, conf, reservation, now_us, calendar, duty_id)
            events += over
            duty_id += duties
            continue
        fresh = _begun(_afloat(reservation, now_us), now_us)
        fresh = _with_members(cluster, fresh)
        fresh = _replenished(cluster, fresh, now_us, calendar)
        idle = _idle(cluster, fresh, now_us)
        if idle is None:
            events += _finished(cluster, reservation, now_us, calendar)
            continue
        if idle != reservation:
            events.append(ev.ReservationUpdated(time_us=now_us, reservation=idle))
    return events


def _afloat(reservation: Reservation, now_us: int) -> Reservation:
    """Move a TIME_FLOAT reservation along, once a minute."""
    late_us = now_us + reservation.float_us - reservation.start_us
    if not reservation.float_us or late_us < MINUTE_US:
        return reservation
    late_us -= late_us % MINUTE_US
    return msgspec.structs.replace(
        reservation, start_us=reservation.start_us + late_us, end_us=reservation.end_us + late_us
    )


def _begun(reservation: Reservation, now_us: int) -> Reservation:
    """Mark what is in force, so that its nodes show it and jobs that wait for it are looked at."""
    is_active = reservation.start_us <= now_us
    if is_active == reservation.is_active:
        return reservation
    return msgspec.structs.replace(reservation, is_active=is_active)


# At the end -----------------------------------------------------------------------------------


def _over(
    cluster: Cluster,
    conf: SlurmConf,
    reservation: Reservation,
    now_us: int,
    calendar: Calendar,
    duty_id: int,
) -> tuple[list[ev.AnyEvent], int]:
    """Return the end of an occurrence and how many duties that takes.

    Jobs have ResvOverRun minutes more; where nothing cuts them their own limit is all that ends
    them, and nothing waits for them.
    """
    cut_us = reserved.cut_us(reservation, over_run_us(conf))
    jobs = running_jobs(cluster, reservation.name)
    if not jobs or cut_us >= NO_END_US:
        return _finished(cluster, reservation, now_us, calendar), 0
    if now_us < cut_us:
        return [], 0
    events: list[ev.AnyEvent] = []
    duties = 0
    for job in jobs:
        events += job_end.complete(
            cluster,
            job,
            job_end.End(
                JobState.TIMEOUT,
                reason=Reason.TimeLimit,
                duty_flags=SIGNAL_TIME_LIMIT | SIGNAL_RESERVATION,
            ),
            now_us,
            first_duty_id=duty_id + duties,
        )
        duties += len(job.nodes)
    return events + _finished(cluster, reservation, now_us, calendar), duties


def _finished(
    cluster: Cluster, reservation: Reservation, now_us: int, calendar: Calendar
) -> list[ev.AnyEvent]:
    """Return the move to the next occurrence, or the end of a reservation without one."""
    occurrence = next_occurrence(reservation, now_us, calendar)
    if occurrence is None:
        return deletion(cluster, reservation, now_us)
    moved = moved_to(reservation, *occurrence, calendar)
    moved = msgspec.structs.replace(moved, is_active=moved.start_us <= now_us, idle_since_us=0)
    return [ev.ReservationUpdated(time_us=now_us, reservation=moved)]


# Nodes ----------------------------------------------------------------------------------------


def _with_members(cluster: Cluster, reservation: Reservation) -> Reservation:
    """Follow what the configuration says: nodes that are gone, nodes of the partition."""
    node_ids: tuple[int, ...] = reservation.node_ids
    partition = cluster.partitions.get(reservation.partition)
    if "PART_NODES" in reservation.flags and partition is not None:
        node_ids = partition.node_ids
    node_ids = tuple(node_id for node_id in node_ids if cluster.nodes[node_id] is not None)
    if node_ids == reservation.node_ids:
        return reservation
    if reservation.core_masks:
        kept_indexes = [
            index for index, node_id in enumerate(reservation.node_ids) if node_id in node_ids
        ]
        return msgspec.structs.replace(
            reservation,
            node_ids=tuple(reservation.node_ids[index] for index in kept_indexes),
            core_masks=tuple(reservation.core_masks[index] for index in kept_indexes),
            gres=tuple(reservation.gres[index] for index in kept_indexes if reservation.gres),
        )
    return msgspec.structs.replace(reservation, node_ids=node_ids)


def _replenished(
    cluster: Cluster, reservation: Reservation, now_us: int, calendar: Calendar
) -> Reservation:
    """Put other nodes in the place of failed ones, with REPLACE also of those that jobs got."""
    flags = reservation.flags
    # Parts of nodes stay where they are: what took their place might be whole nodes.
    if "STATIC" in flags or "MAINT" in flags or reservation.core_masks:
        return reservation
    replaces_used = "REPLACE" in flags and reservation.is_active
    if "SPEC_NODES" in flags and not replaces_used and "REPLACE_DOWN" not in flags:
        return reservation
    going = [
        node_id
        for node_id in reservation.node_ids
        if pick.is_failed(cluster.node(node_id))
        or (replaces_used and cluster.node_index.columns.in_use[node_id])
    ]
    probe = msgspec.structs.replace(reservation, start_us=max(reservation.start_us, now_us))
    for count in range(len(going), 0, -1):
        gone = set(going[:count])
        more = pick.choose_nodes(cluster, probe, count, calendar, leaving=gone)
        if not isinstance(more, tuple):  # rather a node that another one shares than a failed one
            more = pick.choose_nodes(cluster, probe, count, calendar, leaving=gone, overlaps=True)
        if isinstance(more, tuple):
            kept = tuple(node_id for node_id in reservation.node_ids if node_id not in gone)
            return msgspec.structs.replace(reservation, node_ids=tuple(sorted(kept + more)))
    return reservation


# Idle -----------------------------------------------------------------------------------------


def _idle(cluster: Cluster, reservation: Reservation, now_us: int) -> Reservation | None:
    """Note since when a PURGE_COMP reservation has no job; None when that was long enough."""
    if "PURGE_COMP" not in reservation.flags or not reservation.is_active:
        return reservation
    if running_jobs(cluster, reservation.name):
        since_us = 0
    else:
        since_us = reservation.idle_since_us or now_us
        if now_us - since_us >= reservation.purge_s * SECOND_US:
            if not _is_awaited(cluster, reservation.name):
                return None
            since_us = now_us
    if since_us == reservation.idle_since_us:
        return reservation
    return msgspec.structs.replace(reservation, idle_since_us=since_us)


def _is_awaited(cluster: Cluster, name: str) -> bool:
    return any(
        name in names.split(",")
        for job_id in cluster.job_index.pending
        if (names := cluster.jobs[job_id].request.reservation)
    )
