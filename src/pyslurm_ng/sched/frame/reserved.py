"""Advance reservations as a pass sees them: which nodes are a job's, and when.

A job runs in one reservation, by name, or `OUTSIDE` of all. `reservations_for` says which it may
try and in which order, `stay_us` whether it may begin there and when it is over; `allowed_nodes`
bounds the choice and `blocked_nodes` takes away what other reservations keep. `closed_times` gives
the same as intervals, for planners that work on a timeline.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from pyslurm_ng.base.numbers import REQ_SIGNAL_RESV
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.reservation import WHOLE, NodePart, Reservation, changed_reservation
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.frame.job_records import NO_END_US
from pyslurm_ng.sched.frame.plan import Wait

OUTSIDE = ""
ROOT = "root"
END = (
    "end of "  # made up by `reservation_view`, before a name: times that are not the reservation's
)
REST = "the rest"  # made up by `reservation_view`: parts of nodes that are not a reservation's


class Applicant(Protocol):
    """What of a job decides which reservations it may use: `Waiting` and `Job` both do."""

    @property
    def request(self) -> JobRequest:
        """Holds the names it asked for."""

    @property
    def user_name(self) -> str:
        """Its owner."""

    @property
    def account(self) -> str:
        """Its account."""

    @property
    def qos(self) -> str:
        """Its QOS."""


class Closed(NamedTuple):
    """Nodes that are kept from the jobs of some reservation, or from those outside, for a time.

    parts: the reserved part of nodes that are reserved in part; their memory stays free for all.
    """

    begin_us: int
    end_us: int
    node_ids: tuple[int, ...]
    name: str
    is_maintenance: bool
    parts: Mapping[int, NodePart]


def may_use(
    reservation: Reservation,
    user_name: str,
    account: str,
    qos: str,
    groups: Sequence[str] | None = None,
    partitions: Sequence[str] | None = None,
) -> bool:
    """Return whether a reservation is for jobs of this user, account and QOS.

    Root's jobs may run in every reservation, as in Slurm.

    Args:
        reservation: with the accounts below its own: `with_families`.
        groups: names of all the user's groups; None: they were looked at when the job was accepted.
        partitions: where the job may run, one of which is enough; None: that does not matter.
    """
    if partitions is not None and not open_partitions(reservation, partitions):
        return False
    if user_name == ROOT:
        return True
    if groups is not None and not _passes(reservation.groups, groups):
        return False
    return (
        _passes(reservation.users, (user_name,))
        and _passes(reservation.accounts, (account,))
        and _passes(reservation.qos, (qos,))
    )


def with_families(cluster: Cluster) -> tuple[Reservation, ...]:
    """Return all reservations; those for accounts, or not for them, name all accounts below, too.

    Such records are for the question who may use them, and never go back into the cluster.
    """
    return tuple(with_family(cluster, reservation) for reservation in cluster.reservations.values())


def with_family(cluster: Cluster, reservation: Reservation) -> Reservation:
    """Return a reservation that names all accounts below those that it names."""
    if not reservation.accounts:
        return reservation
    sign = "-" if reservation.accounts[0].startswith("-") else ""
    names = [name.removeprefix(sign) for name in reservation.accounts]
    below = cluster.assoc_index.with_accounts_below(names)
    if len(below) == len(names):
        return reservation
    return changed_reservation(reservation, accounts=tuple(f"{sign}{name}" for name in below))


def open_partitions(reservation: Reservation, partitions: Sequence[str]) -> tuple[str, ...]:
    """Return those partitions whose jobs a reservation takes."""
    listed = reservation.allowed_partitions
    return tuple(name for name in partitions if _passes(listed, (name,)))


def _passes(listed: tuple[str, ...], names: Sequence[str]) -> bool:
    """Return whether one of `names` is listed, or with a list of `-name` none of them."""
    if not listed:
        return True
    if listed[0].startswith("-"):
        return not any(f"-{name}" in listed for name in names)
    return any(name in listed for name in names)


def reservations_for(
    reservations: Sequence[Reservation], job: Applicant, partitions: Sequence[str]
) -> tuple[str, ...]:
    """Return the names of reservations to try for a job, in order; () if what it named is gone.

    Args:
        partitions: in one of which it is to run.
    """
    names = job.request.reservation
    if not reservations:
        return () if names else (OUTSIDE,)
    if names:
        known = {reservation.name: reservation for reservation in reservations}
        return tuple(
            name
            for name in names.split(",")
            if name in known and _takes(known[name], job, partitions)
        )
    drawn = (
        reservation.name
        for reservation in reservations
        if "MAGNETIC" in reservation.flags
        and (job.user_name != ROOT or ROOT in reservation.users)
        and _takes(reservation, job, partitions)
        and _is_of_its_groups(reservation, job.user_name)
    )
    return (*drawn, OUTSIDE)


def not_for_it(reservations: Iterable[Reservation], job: Applicant) -> Wait:
    """Say why none of the reservations that a job names takes it."""
    names = job.request.reservation
    known = {reservation.name for reservation in reservations}
    is_gone = known.isdisjoint(names.split(","))
    what = "does not exist" if is_gone else "is not for this job"
    return Wait(Reason.Reservation, f"reservation {names} {what}")


def _takes(reservation: Reservation, job: Applicant, partitions: Sequence[str]) -> bool:
    return may_use(reservation, job.user_name, job.account, job.qos, partitions=partitions)


def _is_of_its_groups(reservation: Reservation, user_name: str) -> bool:
    """Return whether a reservation draws jobs of a user, as far as groups decide that."""
    users = reservation.group_users
    if not reservation.groups or users is None:
        return not reservation.groups
    at = bisect_left(users, user_name)
    is_member = at < len(users) and users[at] == user_name
    return is_member != reservation.groups[0].startswith("-")


def cut_us(reservation: Reservation, over_run_us: int) -> int:
    """Return when jobs in a reservation are ended at the latest; NO_END_US where nothing does that.

    Jobs of a FLEX one, and of one that repeats, run to their own limits, as in Slurm 22.05.

    Args:
        over_run_us: how much longer than the reservation its jobs may run.
    """
    if "FLEX" in reservation.flags or reservation.repeats or over_run_us >= NO_END_US:
        return NO_END_US
    return reservation.end_us + over_run_us


def cut_of_us(cluster: Cluster, job: Job, over_run_us: int) -> int:
    """Return when the reservation that a job runs in ends it at the latest; see `cut_us`."""
    reservation = cluster.reservations.get(job.reservation)
    return NO_END_US if reservation is None else cut_us(reservation, over_run_us)


def stay_us(
    reservations: Iterable[Reservation],
    job: Applicant,
    reservation_name: str,
    begin_us: int,
    end_us: int,
    over_run_us: int = 0,
) -> int:
    """Return when a job that would run from `begin_us` to `end_us` is over in a reservation.

    A job that asked for a reservation need not end before it does: it is ended then. A job that is
    drawn must. 0: it may not start there then.
    """
    own = next(
        (reservation for reservation in reservations if reservation.name == reservation_name), None
    )
    if own is None:
        return end_us if reservation_name == OUTSIDE else 0
    if "FLEX" in own.flags:
        return end_us
    until_us = next((end for begin, end in own.occurrences() if begin <= begin_us < end), 0)
    if job.request.reservation and until_us:
        return min(end_us, cut_us(own, over_run_us))
    return end_us if end_us <= until_us else 0


def allowed_nodes(
    reservations: Iterable[Reservation], reservation_name: str
) -> frozenset[int] | None:
    """Return the nodes that jobs in a reservation may use; None: all nodes, as outside."""
    for reservation in reservations:
        if reservation.name == reservation_name:
            is_any = "FLEX" in reservation.flags or "ANY_NODES" in reservation.flags
            return None if is_any else frozenset(reservation.node_ids)
    return None


def closed_times(reservations: Sequence[Reservation], reservation_name: str) -> tuple[Closed, ...]:
    """Return which nodes are kept from jobs of a reservation, and when."""
    own = next(
        (reservation for reservation in reservations if reservation.name == reservation_name), None
    )
    closed = []
    for other in reservations:
        if not closes(other, own):
            continue
        is_maintenance = "MAINT" in other.flags
        parts = other.parts()
        for begin_us, end_us in other.occurrences():
            closed.append(
                Closed(begin_us, end_us, other.node_ids, other.name, is_maintenance, parts)
            )
    return tuple(closed)


def closes(reservation: Reservation, own: Reservation | None) -> bool:
    """Return whether a reservation keeps its nodes from jobs in `own`, None for outside."""
    if not reservation.node_ids:
        return False
    if own is None:
        return True
    if reservation.name == own.name or "MAINT" in own.flags or "OVERLAP" in own.flags:
        return False
    # What was allowed to overlap shares its nodes; maintenance does not.
    return "MAINT" in reservation.flags or "OVERLAP" not in reservation.flags


def gives_way(reservation: Reservation, request: JobRequest) -> bool:
    """Return whether a job may overlap a reservation, as it leaves within MaxStartDelay if told."""
    return bool(request.flags & REQ_SIGNAL_RESV and not request.reservation) and (
        0 < reservation.max_start_delay_s >= request.signal_before_s
    )


def blocked_nodes(
    reservations: Sequence[Reservation],
    reservation_name: str,
    begin_us: int,
    end_us: int,
) -> frozenset[int]:
    """Return the nodes kept from a job that would run in a reservation from `begin_us` to `end_us`.

    Nodes with only some reserved cores are among them, for callers that cannot choose among cores.
    """
    if not reservations:
        return frozenset()
    return frozenset(
        node_id
        for closed in closed_times(reservations, reservation_name)
        if closed.begin_us < end_us and begin_us < closed.end_us
        for node_id in closed.node_ids
    )


def kept_parts(
    reservations: Sequence[Reservation], reservation_name: str, begin_us: int, end_us: int
) -> dict[int, NodePart]:
    """Return, by node id, the part that is kept from a job of a reservation during a time."""
    kept: dict[int, NodePart] = {}
    if not reservations:
        return kept
    for closed in closed_times(reservations, reservation_name):
        if closed.begin_us < end_us and begin_us < closed.end_us:
            for node_id in closed.node_ids:
                part = closed.parts.get(node_id, WHOLE)
                kept[node_id] = kept[node_id].joined(part) if node_id in kept else part
    return kept


def own_parts(reservations: Iterable[Reservation], reservation_name: str) -> dict[int, NodePart]:
    """Return, by node id, the parts that a reservation has of nodes that are not wholly its own.

    Kinds of devices of which it has none are not bound.
    """
    for reservation in reservations:
        if reservation.name == reservation_name and "FLEX" not in reservation.flags:
            return reservation.parts()
    return {}


def reservation_for(
    reservations: Sequence[Reservation],
    job: Applicant,
    partition: str,
    parts: Mapping[int, NodePart],
    begin_us: int,
    end_us: int,
) -> str | None:
    """Return the reservation for a job on these parts of nodes at that time; None: it may not run.

    `OUTSIDE` if it needs none.
    """
    if not reservations:
        return None if job.request.reservation else OUTSIDE
    node_ids = frozenset(parts)
    closing = [
        reservation for reservation in reservations if not gives_way(reservation, job.request)
    ]
    for candidate in reservations_for(reservations, job, (partition,)):
        until_us = stay_us(reservations, job, candidate, begin_us, end_us)
        allowed = allowed_nodes(reservations, candidate)
        if not until_us or (allowed is not None and not node_ids <= allowed):
            continue
        own = own_parts(reservations, candidate)
        if any(not part.lies_in(own.get(node_id, WHOLE)) for node_id, part in parts.items()):
            continue
        kept = kept_parts(closing, candidate, begin_us, until_us)
        if not any(
            node_id in kept and part.meets(kept[node_id]) for node_id, part in parts.items()
        ):
            return candidate
    return None
