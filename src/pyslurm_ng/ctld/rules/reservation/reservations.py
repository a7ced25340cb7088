"""`scontrol create|update|delete reservation`, and who may use one.

Source: Slurm's manual of scontrol and its guide to advance reservations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import MINUTE_US
from pyslurm_ng.base.units import plural
from pyslurm_ng.conf.values import has_option
from pyslurm_ng.ctld.rules.context import Caller, Context, Decision
from pyslurm_ng.ctld.rules.reservation import reservation_nodes as pick
from pyslurm_ng.ctld.rules.reservation.devices import with_devices
from pyslurm_ng.ctld.rules.reservation.settings import REPLACES, Draft, read_settings
from pyslurm_ng.ctld.rules.reservation.times import meet, moved_to, next_occurrence, with_times
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, is_completing
from pyslurm_ng.model.kept_request import changed_request
from pyslurm_ng.model.license_server import license_counts
from pyslurm_ng.model.reservation import SHOWN_FLAGS, Reservation
from pyslurm_ng.model.states import JobFlag, Reason
from pyslurm_ng.sched.frame.reserved import may_use, with_family
from pyslurm_ng.sched.request import features
from pyslurm_ng.wire.query_messages import (
    DeleteReservation,
    ReservationNamed,
    UpdateReservation,
)

# How far in the past a start may be, as in Slurm: a script names the minute at which it began.
_LATE_US = 10 * MINUTE_US
_WHO = ("accounts", "users", "groups", "qos", "allowed_partitions")  # one has to be given
LEAST_FLOAT_US = 110_000_000  # two minutes, less what a command takes


def update_reservation(
    cluster: Cluster, request: UpdateReservation, context: Context
) -> Decision | Reject:
    """Create or change a reservation."""
    if not context.caller.is_operator:
        return Reject(Errno.ESLURM_USER_ID_MISSING)
    if request.create:
        return _create(cluster, request, context)
    current = cluster.reservations.get(request.name)
    if current is None:
        return Reject(Errno.ESLURM_RESERVATION_INVALID)
    return _update(cluster, current, request, context)


def _create(cluster: Cluster, request: UpdateReservation, context: Context) -> Decision | Reject:
    if request.name in cluster.reservations:
        return Reject(Errno.ESLURM_RESERVATION_NAME_DUP)
    if "," in request.name:
        return Reject(Errno.ESLURM_RESERVATION_INVALID)
    draft = Draft(cluster, Reservation(name=request.name, start_us=0, end_us=0), context)
    refusal = read_settings(draft, request.settings) or _check_access(draft)
    if refusal is not None:
        return refusal
    number = cluster.last_reservation_id + 1
    name = request.name or _free_name(cluster, draft, number)
    draft.fields |= {"name": name, "reservation_id": number}
    if not (draft.nodes or draft.node_count) and draft.get("features"):
        draft.node_count = features.least_nodes(draft.get("features"))
    if not draft.wants_nodes:
        needs_no_nodes = draft.get("licenses") or draft.get("burst_buffer")
        if not (needs_no_nodes and "ANY_NODES" in draft.get("flags")):
            if "PART_NODES" not in draft.get("flags") or not draft.get("partition"):
                return Reject(Errno.ESLURM_INVALID_NODE_COUNT)
            draft.nodes = "ALL"
    if draft.nodes and draft.node_count:
        return Reject(Errno.ESLURM_INVALID_NODE_COUNT)
    flags = draft.get("flags")
    if draft.nodes and "PART_NODES" not in flags and not set(REPLACES).isdisjoint(flags):
        return Reject(Errno.ESLURM_INVALID_NODE_NAME)
    fresh = _timed(draft)
    if isinstance(fresh, Reject):
        return fresh
    refusal = _check_licenses(cluster, fresh, context)
    if refusal is not None:
        return refusal
    reservation: Reservation | Reject = fresh
    if draft.wants_nodes:
        reservation = _with_nodes(draft, fresh)
    if isinstance(reservation, Reject):
        return reservation
    created = ev.ReservationCreated(time_us=context.now_us, reservation=reservation)
    return Decision(events=[created], reply=ReservationNamed(name))


def _check_access(draft: Draft) -> Reject | None:
    users, groups = draft.get("users"), draft.get("groups")
    if users and groups:
        return Reject(Errno.ESLURM_RESERVATION_USER_GROUP)
    if not any(draft.get(field) for field in _WHO):
        return Reject(Errno.ESLURM_RESERVATION_EMPTY)
    return None


def _check_licenses(cluster: Cluster, fresh: Reservation, context: Context) -> Reject | None:
    """Refuse more licences than there are, with those of reservations at the same time."""
    counts = Counter(dict(license_counts(fresh.licenses)))
    if not counts:
        return None
    for other in cluster.reservations.values():
        if other.name != fresh.name and meet(fresh, other, context.calendar):
            counts.update(dict(license_counts(other.licenses)))
    own = dict(license_counts(fresh.licenses))
    if any(count > cluster.licenses.get(name, 0) for name, count in counts.items() if name in own):
        return Reject(Errno.ESLURM_INVALID_LICENSES)
    return None


def _free_name(cluster: Cluster, draft: Draft, number: int) -> str:
    """Return `<account or user>_<number>`."""
    names = next(names for names in map(draft.get, _WHO) if names)
    first = names[0].lstrip("-")
    while f"{first}_{number}" in cluster.reservations:
        number += 1
    return f"{first}_{number}"


def _timed(draft: Draft) -> Reservation | Reject:
    """Return the record so far, at its first occurrence that is not over."""
    context, calendar = draft.context, draft.context.calendar
    fresh = with_times(msgspec.structs.replace(draft.current, **draft.fields), calendar)
    floats_us = fresh.start_us - context.now_us if "TIME_FLOAT" in fresh.flags else 0
    if floats_us < LEAST_FLOAT_US and "TIME_FLOAT" in fresh.flags:
        detail = "TIME_FLOAT: StartTime must be now+2minutes or later"
        return Reject(Errno.ESLURM_INVALID_TIME_VALUE, detail)
    fresh = msgspec.structs.replace(fresh, float_us=floats_us)
    is_late = fresh.start_us < context.now_us - _LATE_US
    if is_late and "FORCE_START" in fresh.flags and fresh.repeats:
        if fresh.end_us <= context.now_us:
            occurrence = next_occurrence(fresh, context.now_us, calendar)
            assert occurrence is not None, fresh
            return moved_to(fresh, *occurrence, calendar)
        return fresh
    if is_late and fresh.start_us != draft.current.start_us:
        return Reject(Errno.ESLURM_INVALID_TIME_VALUE)
    if fresh.end_us <= context.now_us:
        return Reject(Errno.ESLURM_INVALID_TIME_VALUE)
    return fresh


def _with_nodes(draft: Draft, fresh: Reservation) -> Reservation | Reject:
    """Return a reservation with the nodes or cores it asks for."""
    cluster, calendar = draft.cluster, draft.context.calendar
    if draft.core_counts and draft.devices:
        detail = "CoreCnt or TRES=cpu, and TRES=gres exclude each other"
        return Reject(Errno.ESLURM_INVALID_CORE_CNT, detail)
    # Newly requested nodes are whole, unless cores are requested, too.
    fresh = msgspec.structs.replace(fresh, core_masks=(), gres=())
    if draft.nodes:
        nodes = pick.named_nodes(cluster, draft.nodes, fresh.partition)
        if isinstance(nodes, Reject):
            return nodes
        flags = {*fresh.flags, "SPEC_NODES"} - {"ALL_NODES", "PART_NODES"}
        if draft.nodes.upper() == "ALL":
            # All nodes of a partition are those that it has from now on.
            flags.add("PART_NODES" if fresh.partition else "ALL_NODES")
        if draft.sign:
            nodes = _edited(fresh.node_ids, nodes, draft.sign)
        if not nodes:
            return Reject(Errno.ESLURM_INVALID_NODE_NAME)
        ordered = tuple(flag for flag in SHOWN_FLAGS if flag in flags)
        fresh = msgspec.structs.replace(fresh, flags=ordered, node_ids=nodes)
        if draft.wants_cores:
            return _with_cores(draft, fresh, named=True)
        if draft.devices:
            return _with_devices(draft, fresh, named=True)
        return pick.check_named(cluster, fresh, nodes, calendar) or fresh
    if not fresh.partition:
        default = cluster.default_partition()
        if default is None:
            return Reject(Errno.ESLURM_DEFAULT_PARTITION_NOT_SET)
        fresh = msgspec.structs.replace(fresh, partition=default.name)
    named = "SPEC_NODES" in fresh.flags and not draft.node_count
    if draft.wants_cores:
        return _with_cores(draft, fresh, named=named)
    if draft.devices:
        return _with_devices(draft, fresh, named=named)
    have = len(fresh.node_ids)
    if draft.node_count <= have:
        return msgspec.structs.replace(fresh, node_ids=fresh.node_ids[: draft.node_count])
    more = pick.choose_nodes(cluster, fresh, draft.node_count - have, calendar)
    if isinstance(more, Reject):
        return more
    return msgspec.structs.replace(fresh, node_ids=tuple(sorted(fresh.node_ids + more)))


def _with_cores(draft: Draft, fresh: Reservation, *, named: bool) -> Reservation | Reject:
    """Return a reservation with the cores it asks for: so many of each node, or in all."""
    counts, wide = draft.core_counts, draft.node_count
    nodes = len(fresh.node_ids)
    if named:
        if len(counts) != nodes:
            detail = f"{len(counts)} numbers of cores for {plural(nodes, 'node')}"
            return Reject(Errno.ESLURM_INVALID_CORE_CNT, detail)
    elif wide and len(counts) <= 1:
        total = counts[0]
        if total < wide:
            return Reject(Errno.ESLURM_INVALID_CORE_CNT)
        counts = tuple(total // wide + (index < total % wide) for index in range(wide))
    elif len(counts) > 1:
        return Reject(Errno.ESLURM_INVALID_CORE_CNT, "a list of CoreCnt needs Nodes")
    cluster, calendar = draft.cluster, draft.context.calendar
    is_each = named or len(counts) > 1 or bool(wide)
    return pick.with_cores(
        cluster, fresh, counts, calendar, in_cpus=draft.counts_cpus, named=named, is_each=is_each
    )


def _with_devices(draft: Draft, fresh: Reservation, *, named: bool) -> Reservation | Reject:
    """Return a reservation with the devices it asks for: so many of each node, or in all."""
    of_each = draft.devices_are_of_each_node
    count = draft.node_count
    if named and not of_each and all(w.number >= len(fresh.node_ids) for w in draft.devices):
        count = len(fresh.node_ids)  # shared by all that are named
    if of_each and not named and not draft.node_count:
        return Reject(Errno.ESLURM_INVALID_NODE_COUNT, "TRESPerNode needs NodeCnt or Nodes")
    return with_devices(
        draft.cluster,
        fresh,
        draft.devices,
        draft.context.calendar,
        of_each_node=of_each,
        node_count=count,
        named=named,
    )


def _edited(old_ids: tuple[int, ...], named: tuple[int, ...], sign: str) -> tuple[int, ...]:
    if sign == "+":
        return tuple(sorted({*old_ids, *named}))
    return tuple(node_id for node_id in old_ids if node_id not in named)


def _update(
    cluster: Cluster, current: Reservation, request: UpdateReservation, context: Context
) -> Decision | Reject:
    draft = Draft(cluster, current, context)
    refusal = read_settings(draft, request.settings) or _check_access(draft)
    if refusal is not None:
        return refusal
    if draft.skips:
        return _skip(cluster, current, context)
    start_us = draft.fields.get("start_us", current.start_us)
    if current.is_active and start_us != current.start_us:
        return Reject(Errno.ESLURM_RSV_ALREADY_STARTED)
    changes_time = (
        any(draft.get(name) != getattr(current, name) for name in ("start_us", "end_us"))
        or draft.get("flags") != current.flags
    )
    fresh = msgspec.structs.replace(current, **draft.fields)
    if changes_time:
        timed = _timed(draft)
        if isinstance(timed, Reject):
            return timed
        fresh = timed
    if draft.nodes and draft.node_count:
        return Reject(Errno.ESLURM_INVALID_NODE_COUNT)
    if "PART_NODES" in fresh.flags and "PART_NODES" not in current.flags and not draft.nodes:
        return Reject(Errno.ESLURM_INVALID_NODE_NAME)
    if draft.wants_no_nodes and "ANY_NODES" not in fresh.flags:
        return Reject(Errno.ESLURM_INVALID_NODE_COUNT)
    refusal = _check_licenses(cluster, fresh, context)
    if refusal is not None:
        return refusal
    if draft.wants_nodes:
        reservation = _with_nodes(draft, fresh)
        if isinstance(reservation, Reject):
            return reservation
        # Nodes of the default partition are added as to a new reservation, but it gets no name.
        fresh = msgspec.structs.replace(reservation, partition=fresh.partition)
    elif changes_time:
        refusal = pick.check_named(cluster, fresh, fresh.node_ids, context.calendar)
        if refusal is not None:
            return refusal
    updated = ev.ReservationUpdated(time_us=context.now_us, reservation=fresh)
    return Decision(events=[updated], reply=ReservationNamed(fresh.name))


def _skip(cluster: Cluster, current: Reservation, context: Context) -> Decision | Reject:
    """Leave out one occurrence."""
    occurrence = next_occurrence(current, context.now_us, context.calendar)
    if occurrence is None:
        return Reject(Errno.ESLURM_RESERVATION_NO_SKIP)
    if any(True for _ in running_jobs(cluster, current.name)):
        return Reject(Errno.ESLURM_RESERVATION_BUSY)
    moved = moved_to(current, *occurrence, context.calendar)
    moved = msgspec.structs.replace(moved, is_active=False, idle_since_us=0)
    updated = ev.ReservationUpdated(time_us=context.now_us, reservation=moved)
    return Decision(events=[updated], reply=ReservationNamed(current.name))


def delete_reservation(
    cluster: Cluster, request: DeleteReservation, context: Context
) -> Decision | Reject:
    """Delete a reservation that no job runs in; those that wait for it are held."""
    current = cluster.reservations.get(request.name)
    caller = context.caller
    members_may = has_option(context.conf.slurmctld_parameters, "user_resv_delete")
    if current is None:
        # Users that may delete no reservation do not hear which there are.
        may = members_may or caller.is_operator
        return Reject(Errno.ESLURM_RESERVATION_INVALID if may else Errno.ESLURM_USER_ID_MISSING)
    members_may = members_may or "USER_DELETE" in current.flags
    may = members_may and concerns(cluster, current, caller)
    if not may and not caller.is_operator:
        return Reject(Errno.ESLURM_USER_ID_MISSING)
    if running_jobs(cluster, request.name):
        return Reject(Errno.ESLURM_RESERVATION_BUSY)
    return Decision(events=deletion(cluster, current, context.now_us))


def concerns(cluster: Cluster, reservation: Reservation, caller: Caller) -> bool:
    """Return whether a user may use a reservation with one of its accounts and QOS."""
    groups = (*caller.groups, caller.group_name)
    own = [assoc for assoc in cluster.assocs.values() if assoc.user == caller.user_name]
    standings = [(assoc.account, qos) for assoc in own for qos in assoc.qos or ("",)]
    reservation = with_family(cluster, reservation)
    return any(
        may_use(reservation, caller.user_name, account, qos, groups)
        for account, qos in standings or [("", "")]
    )


def running_jobs(cluster: Cluster, name: str) -> list[Job]:
    """Return the jobs that run in a reservation."""
    return [
        job
        for job_id in cluster.job_index.active
        if (job := cluster.jobs[job_id]).reservation == name and not is_completing(job)
    ]


def deletion(cluster: Cluster, reservation: Reservation, now_us: int) -> list[ev.AnyEvent]:
    """Return the end of a reservation: jobs that wait for no other one are held."""
    events: list[ev.AnyEvent] = []
    for job_id in cluster.job_index.pending:
        job = cluster.jobs[job_id]
        names = job.request.reservation.split(",") if job.request.reservation else ()
        if reservation.name not in names:
            continue
        other_names = ",".join(name for name in names if name != reservation.name)
        fields: dict[str, object] = {}
        if not other_names and "NO_HOLD_JOBS_AFTER_END" not in reservation.flags and job.priority:
            fields = {
                "priority": 0,
                "reason": int(Reason.ReservationDeleted),
                "flags": int(job.flags | JobFlag.RESV_DEL_HOLD),
            }
        request = changed_request(job.request, reservation=other_names)
        events.append(ev.JobUpdated(now_us, job_id, fields, request))
    events.append(ev.ReservationDeleted(time_us=now_us, name=reservation.name))
    return events


def check_requested(
    cluster: Cluster,
    names: str,
    caller: Caller,
    account: str,
    qos: str,
    partitions: Sequence[str],
    owner: str = "",
) -> Reject | None:
    """Refuse a job whose reservations do not exist or are not for it.

    Args:
        partitions: in one of which it is to run.
        owner: the job's user, if that is not the caller: then its groups are not known.
    """
    is_own = owner in ("", caller.user_name)
    groups = (*caller.groups, caller.group_name) if is_own else None
    named = [name for name in names.split(",") if name]
    if names and not named:
        return Reject(Errno.ESLURM_RESERVATION_INVALID)
    for name in named:
        reservation = cluster.reservations.get(name)
        if reservation is None:
            return Reject(Errno.ESLURM_RESERVATION_INVALID)
        user_name = owner or caller.user_name
        reservation = with_family(cluster, reservation)
        if not may_use(reservation, user_name, account, qos, groups, partitions):
            return Reject(Errno.ESLURM_RESERVATION_ACCESS)
    return None
