"""Advance reservations as a pass sees them: which nodes are a job's, and when.

A job runs in one *place*: a reservation by name, or `OUTSIDE` of all. `places` says which it may
try and in which order, `stay_us` whether it may begin there and when it is over; `allowed_nodes`
bounds the choice and `blocked_nodes` takes away what other reservations keep. `closed_times` gives
the same as intervals, for planners that work on a time line.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from pyslurm_ng.base.numbers import REQ_SIGNAL_RESV
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.reservation import WHOLE, NodePart, Reservation
from pyslurm_ng.sched.frame.job_records import NO_END_US

OUTSIDE = ""
END = "end of "  # made up by `place_view`, before a name: times that are not the reservation's
REST = "the rest"  # made up by `place_view`: parts of nodes that are not a reservation's


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
    """Nodes that are not for jobs of some place during a time.

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

    Args:
        groups: names of all the user's groups; None: they were looked at when the job was accepted.
        partitions: where the job may run, one of which is enough; None: that does not matter.
    """
    if partitions is not None and not open_partitions(reservation, partitions):
        return False
    if groups is not None and not _passes(reservation.groups, groups):
        return False
    return (
        _passes(reservation.users, (user_name,))
        and _passes(reservation.accounts, (account,))
        and _passes(reservation.qos, (qos,))
    )


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


def places(
    reservations: Sequence[Reservation], job: Applicant, partitions: Sequence[str]
) -> tuple[str, ...]:
    """Return where a job may run, the first to try first; nowhere if what it named is gone.

    Args:
        partitions: in one of which it is to run.
    """
    wanted = job.request.reservation
    if not reservations:
        return () if wanted else (OUTSIDE,)
    if wanted:
        known = {reservation.name: reservation for reservation in reservations}
        return tuple(
            name
            for name in wanted.split(",")
            if name in known and _takes(known[name], job, partitions)
        )
    drawn = (
        reservation.name
        for reservation in reservations
        if "MAGNETIC" in reservation.flags
        and _takes(reservation, job, partitions)
        and _is_of_its_groups(reservation, job.user_name)
    )
    return (*drawn, OUTSIDE)


def _takes(item: Reservation, job: Applicant, partitions: Sequence[str]) -> bool:
    return may_use(item, job.user_name, job.account, job.qos, partitions=partitions)


def _is_of_its_groups(item: Reservation, user_name: str) -> bool:
    """Return whether a reservation draws jobs of a user, as far as groups decide that."""
    users = item.group_users
    if not item.groups or users is None:
        return not item.groups
    at = bisect_left(users, user_name)
    is_member = at < len(users) and users[at] == user_name
    return is_member != item.groups[0].startswith("-")


def cut_us(item: Reservation, over_run_us: int) -> int:
    """Return when jobs in a reservation are ended at the latest; NO_END_US where nothing does that.

    Jobs of a FLEX one, and of one that repeats, run to their own limits, as in Slurm 22.05.

    Args:
        over_run_us: how much longer than the reservation its jobs may run.
    """
    if "FLEX" in item.flags or item.repeats or over_run_us >= NO_END_US:
        return NO_END_US
    return item.end_us + over_run_us


def cut_of_us(cluster: Cluster, job: Job, over_run_us: int) -> int:
    """Return when the reservation that a job runs in ends it at the latest; see `cut_us`."""
    item = cluster.reservations.get(job.reservation)
    return NO_END_US if item is None else cut_us(item, over_run_us)


def stay_us(
    reservations: Iterable[Reservation],
    job: Applicant,
    place: str,
    begin_us: int,
    end_us: int,
    over_run_us: int = 0,
) -> int:
    """Return when a job that would run from `begin_us` to `end_us` is over in a place.

    A job that asked for a reservation need not end before it does: it is ended then. A job that is
    drawn must. 0: it may not start there then.
    """
    item = next((reservation for reservation in reservations if reservation.name == place), None)
    if item is None:
        return end_us if place == OUTSIDE else 0
    if "FLEX" in item.flags:
        return end_us
    until_us = next((end for begin, end in item.occurrences() if begin <= begin_us < end), 0)
    if job.request.reservation and until_us:
        return min(end_us, cut_us(item, over_run_us))
    return end_us if end_us <= until_us else 0


def allowed_nodes(reservations: Iterable[Reservation], place: str) -> frozenset[int] | None:
    """Return the nodes of which jobs in a place may use any; None: of all, as outside."""
    for reservation in reservations:
        if reservation.name == place:
            is_any = "FLEX" in reservation.flags or "ANY_NODES" in reservation.flags
            return None if is_any else frozenset(reservation.node_ids)
    return None


def closed_times(reservations: Sequence[Reservation], place: str) -> tuple[Closed, ...]:
    """Return when which nodes are kept from jobs of a place."""
    own = next((reservation for reservation in reservations if reservation.name == place), None)
    found = []
    for item in reservations:
        if not closes(item, own):
            continue
        is_maintenance = "MAINT" in item.flags
        parts = item.parts()
        for begin_us, end_us in item.occurrences():
            found.append(Closed(begin_us, end_us, item.node_ids, item.name, is_maintenance, parts))
    return tuple(found)


def closes(item: Reservation, own: Reservation | None) -> bool:
    """Return whether a reservation keeps its nodes from jobs in `own`, None for outside."""
    if not item.node_ids:
        return False
    if own is None:
        return True
    if item.name == own.name or "MAINT" in own.flags or "OVERLAP" in own.flags:
        return False
    # What was allowed to overlap shares its nodes; maintenance does not.
    return "MAINT" in item.flags or "OVERLAP" not in item.flags


def gives_way(item: Reservation, request: JobRequest) -> bool:
    """Return whether a job may overlap a reservation, as it leaves within MaxStartDelay if told."""
    return bool(request.flags & REQ_SIGNAL_RESV and not request.reservation) and (
        0 < item.max_start_delay_s >= request.signal_before_s
    )


def blocked_nodes(
    reservations: Sequence[Reservation],
    place: str,
    begin_us: int,
    end_us: int,
) -> frozenset[int]:
    """Return the nodes kept from a job that would run in `place` from `begin_us` to `end_us`.

    Nodes with only some reserved cores are among them, for callers that cannot choose among cores.
    """
    if not reservations:
        return frozenset()
    return frozenset(
        node_id
        for closed in closed_times(reservations, place)
        if closed.begin_us < end_us and begin_us < closed.end_us
        for node_id in closed.node_ids
    )


def kept_parts(
    reservations: Sequence[Reservation], place: str, begin_us: int, end_us: int
) -> dict[int, NodePart]:
    """Return the same by node: what of it is kept."""
    kept: dict[int, NodePart] = {}
    if not reservations:
        return kept
    for closed in closed_times(reservations, place):
        if closed.begin_us < end_us and begin_us < closed.end_us:
            for node_id in closed.node_ids:
                part = closed.parts.get(node_id, WHOLE)
                kept[node_id] = kept[node_id].joined(part) if node_id in kept else part
    return kept


def own_parts(reservations: Iterable[Reservation], place: str) -> dict[int, NodePart]:
    """Return what jobs of a place are bound to of nodes that it has in part.

    Kinds of devices of which it has none are not bound.
    """
    for reservation in reservations:
        if reservation.name == place and "FLEX" not in reservation.flags:
            return reservation.parts()
    return {}


def place_of(
    reservations: Sequence[Reservation],
    job: Applicant,
    partition: str,
    wanted: Mapping[int, NodePart],
    begin_us: int,
    end_us: int,
) -> str | None:
    """Return where a job would run on these parts of nodes at that time, or None if it may not."""
    if not reservations:
        return None if job.request.reservation else OUTSIDE
    node_ids = frozenset(wanted)
    closing = [
        reservation for reservation in reservations if not gives_way(reservation, job.request)
    ]
    for place in places(reservations, job, (partition,)):
        until_us = stay_us(reservations, job, place, begin_us, end_us)
        allowed = allowed_nodes(reservations, place)
        if not until_us or (allowed is not None and not node_ids <= allowed):
            continue
        own = own_parts(reservations, place)
        if any(not part.lies_in(own.get(node_id, WHOLE)) for node_id, part in wanted.items()):
            continue
        kept = kept_parts(closing, place, begin_us, until_us)
        if not any(
            node_id in kept and part.meets(kept[node_id]) for node_id, part in wanted.items()
        ):
            return place
    return None
