"""What the jobs of one reservation see: a cluster of its nodes, open at its times.

What is not theirs is closed by reservations made up for that, so that the planner of all other jobs
plans jobs inside, too.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from pyslurm_ng.base.numbers import NO_VAL, SECOND_US
from pyslurm_ng.base.units import plural
from pyslurm_ng.model.job import GresAlloc
from pyslurm_ng.model.kept_request import changed_request
from pyslurm_ng.model.node import NodeSpec
from pyslurm_ng.model.partition import opened
from pyslurm_ng.model.reservation import NodePart, Reservation, changed_reservation
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.demand.demand import limit_us
from pyslurm_ng.sched.demand.reason import minutes
from pyslurm_ng.sched.frame import reserved
from pyslurm_ng.sched.frame.job_records import NO_END_US, Waiting
from pyslurm_ng.sched.frame.licenses import NOTHING_INSIDE
from pyslurm_ng.sched.frame.plan import Wait
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.reserved import END, REST, closes
from pyslurm_ng.sched.frame.snapshot import Snapshot

# Reasons that say no more than that there is no room; limits and the like say more than we know.
_NO_ROOM = frozenset(
    (
        Reason.Resources,
        Reason.Priority,
        Reason.ReqNodeNotAvail,
        Reason.BadConstraints,
        Reason.Constraints,
    )
)


_MOST_TERMS = 4


class Term(NamedTuple):
    """An occurrence of a reservation; jobs that start in it are ended at `cut_us`."""

    begin_us: int
    end_us: int
    cut_us: int


def terms(reservation: Reservation, now_us: int, policy: Policy) -> list[Term]:
    """Return the next occurrences of a reservation, as far as passes plan ahead.

    Only a few: each is planned by itself.
    """
    until_us = now_us + policy.window_s * SECOND_US
    cut_us = reserved.cut_us(reservation, policy.over_run_us)
    moments = [
        Term(begin_us, end_us, cut_us)
        for begin_us, end_us in reservation.occurrences()
        if now_us < end_us and begin_us < until_us
    ]
    return moments[:_MOST_TERMS]


def named_nothing(job: Waiting) -> Waiting:
    """Return a job as if it had asked for no reservation."""
    if not job.request.reservation:
        return job
    return dataclasses.replace(job, request=changed_request(job.request, reservation=""))


def reservation_view(
    snapshot: Snapshot, reservation: Reservation, waiting: list[Waiting], term: Term | None = None
) -> Snapshot:
    """Return the cluster as jobs in a reservation see it.

    Args:
        waiting: those jobs, naming no reservation.
        term: in which they may start, whenever their limits end; None: they have to be over by the
            end of an occurrence.
    """
    node_ids = _nodes_of(snapshot, reservation)
    cut_us = NO_END_US if term is None else term.cut_us
    others = [
        seen
        for other in snapshot.reservations
        if other.name != reservation.name
        and (seen := _as_seen(other, reservation, cut_us)) is not None
    ]
    own = snapshot.licenses_inside.get(reservation.name, NOTHING_INSIDE)
    free = dict(snapshot.licenses_free)
    for name, count in own.left.items():
        free[name] = free.get(name, 0) + count
    job_ids = {job.job_id for job in waiting if not job.is_guest}  # they preempt outside
    view = dataclasses.replace(
        snapshot,
        waiting=waiting,
        only_reservation=reservation,
        reservations=(
            *_closed_times(snapshot, reservation, node_ids, term),
            *_rest(snapshot, reservation),
            *others,
        ),
        until_us=NO_END_US if term is None else term.end_us,
        licenses_free=free,
        licenses_inside={
            name: inside
            for name, inside in snapshot.licenses_inside.items()
            if name != reservation.name
        },
        claims={key: claim for key, claim in snapshot.claims.items() if key in job_ids},
    )
    return view if len(node_ids) == len(snapshot.specs) else _narrowed(view, node_ids)


def _nodes_of(snapshot: Snapshot, reservation: Reservation) -> frozenset[int]:
    if "FLEX" in reservation.flags or "ANY_NODES" in reservation.flags:
        return frozenset(range(len(snapshot.specs)))
    return frozenset(reservation.node_ids)


def _narrowed(view: Snapshot, node_ids: frozenset[int]) -> Snapshot:
    """Return a view without any other nodes, and jobs as far as they run on these."""
    usable = bytearray(len(view.usable))
    for node_id in node_ids:
        usable[node_id] = view.usable[node_id]
    running = []
    for running_job in view.running:
        nodes = tuple(alloc for alloc in running_job.nodes if alloc.node_id in node_ids)
        running.append(
            running_job
            if len(nodes) == len(running_job.nodes)
            else running_job._replace(nodes=nodes)
        )
    specs = tuple(spec if node_id in node_ids else None for node_id, spec in enumerate(view.specs))
    return dataclasses.replace(view, specs=specs, usable=usable, running=running)


def _as_seen(other: Reservation, reservation: Reservation, cut_us: int) -> Reservation | None:
    """Return another reservation: it draws no jobs, and may not concern nodes at all.

    None where it begins when all jobs in the reservation are over.
    """
    times = [occurrence for occurrence in other.occurrences() if occurrence[0] < cut_us]
    if not times:
        return None
    if len(times) <= len(other.later):
        (start_us, end_us), *later = times
        other = changed_reservation(other, start_us=start_us, end_us=end_us, later=tuple(later))
    flags = tuple(flag for flag in other.flags if flag != "MAGNETIC")
    if closes(other, reservation):
        return changed_reservation(other, flags=flags)
    return changed_reservation(other, flags=flags, node_ids=(), core_masks=(), gres=())


def _closed_times(
    snapshot: Snapshot, reservation: Reservation, node_ids: frozenset[int], term: Term | None
) -> list[Reservation]:
    """Return what closes the nodes before, between and after the times of a reservation.

    Only the time before the end counts: the room of jobs that end then does not matter later.
    """
    if "FLEX" in reservation.flags:
        return []
    at_us, gaps = snapshot.now_us, []
    for begin_us, end_us in (
        reservation.occurrences() if term is None else ((term.begin_us, NO_END_US),)
    ):
        if begin_us > at_us:
            gaps.append((at_us, begin_us))
        at_us = max(at_us, end_us)
    if at_us < NO_END_US:
        gaps.append((at_us, NO_END_US))
    if not gaps:
        return []
    (begin_us, end_us), *later = gaps
    nodes = tuple(sorted(node_ids))
    return [Reservation(END + reservation.name, begin_us, end_us, nodes, later=tuple(later))]


def _rest(snapshot: Snapshot, reservation: Reservation) -> list[Reservation]:
    """Return what keeps from jobs inside the parts of nodes that are not the reservation's."""
    parts = {} if "FLEX" in reservation.flags else reservation.parts()
    nodes: list[int] = []
    masks: list[bytes] = []
    gres: list[tuple[GresAlloc, ...]] = []
    for node_id, part in parts.items():
        spec = snapshot.specs[node_id]
        if spec is None:
            continue
        cores = (1 << max(1, spec.cpus // max(1, spec.threads_per_core))) - 1 & ~part.cores
        nodes.append(node_id)
        masks.append(cores.to_bytes(max(1, -(-cores.bit_length() // 8)), "little"))
        gres.append(_other_devices(spec, part))
    if not nodes:
        return []
    rest = Reservation(REST, snapshot.now_us, NO_END_US, tuple(nodes))
    return [changed_reservation(rest, core_masks=tuple(masks), gres=tuple(gres))]


def _other_devices(spec: NodeSpec, part: NodePart) -> tuple[GresAlloc, ...]:
    """Return the devices of a node that are not in a part of it, of the kinds that it binds."""
    others = []
    for gres in spec.gres:
        own = part.devices.get(f"{gres.name}:{gres.type}")
        if own is not None:
            mask = ((1 << gres.count) - 1) << gres.first_index & ~own
            size = max(1, -(-mask.bit_length() // 8))
            indexes = mask.to_bytes(size, "little")
            others.append(GresAlloc(gres.name, gres.type, mask.bit_count(), indexes))
    return tuple(others)


def why_inside(
    snapshot: Snapshot, reservation: Reservation, job: Waiting, wait: Wait, *, is_planned: bool
) -> Wait:
    """Return why a job waits in a reservation, where the view's own reason says too little.

    Args:
        wait: that reason.
        is_planned: whether it is to start in the window.
    """
    if wait.reason not in _NO_ROOM or "FLEX" in reservation.flags:
        return wait
    now_us, name, times = snapshot.now_us, reservation.name, reservation.occurrences()
    current = next((end for begin, end in times if begin <= now_us < end), None)
    if current is None:
        begins = [begin for begin, _ in times if begin > now_us]
        text = f"reservation {name} is over"
        if begins:
            text = f"reservation {name} begins in {minutes(min(begins) - now_us)}"
    elif is_planned and wait.reason != Reason.Resources:
        return wait
    else:
        count = plural(len(_nodes_of(snapshot, reservation)), "node")
        names, _, _ = wait.text.partition(";")
        when = "now" if is_planned else f"in the {minutes(current - now_us)} left of it"
        text = f"{names}; reservation {name} of {count} has no room for that {when}"
        return Wait(Reason.Resources, text if names.startswith("needs ") else wait.text)
    return Wait(Reason.Reservation, text)


def too_late(
    snapshot: Snapshot, reservation: Reservation, job: Waiting, term: Term, start_us: int = 0
) -> Wait | None:
    """Return why a job cannot begin in a term: it says how long it has to run, which is longer.

    That is its --time-min; for a job that is drawn without asking, its time limit.

    Args:
        start_us: when it would begin; 0: as soon as the term lets it.
    """
    least_us = _least_us(snapshot, job)
    left_us = term.end_us - max(term.begin_us, snapshot.now_us, start_us)
    if least_us <= left_us:
        return None
    text = f"reservation {reservation.name} ends in {minutes(term.end_us - snapshot.now_us)}"
    least = minutes(least_us) if least_us < NO_END_US else "UNLIMITED"
    return Wait(Reason.Reservation, f"{text}; the job has to run for {least}")


def longest_us(snapshot: Snapshot, job: Waiting) -> int:
    """Return how long a job may run in any of its partitions."""
    return max(_limits_us(snapshot, job, job.time_limit_min), default=0)


def _least_us(snapshot: Snapshot, job: Waiting) -> int:
    """Return how long a job must be able to run; 0 for as long as the reservation lets it."""
    has_least = 0 < job.request.time_min_min < NO_VAL
    if not has_least and job.request.reservation:
        return 0
    limit_min = job.time_limit_min
    if has_least:
        limit_min = min(limit_min, job.request.time_min_min)
    return min(_limits_us(snapshot, job, limit_min), default=0)


def _limits_us(snapshot: Snapshot, job: Waiting, limit_min: int) -> list[int]:
    own = snapshot.qos.get(job.qos)
    known = (snapshot.partitions.get(name) for name in job.partitions)
    return [
        limit_us(limit_min, opened(partition, own)) for partition in known if partition is not None
    ]
