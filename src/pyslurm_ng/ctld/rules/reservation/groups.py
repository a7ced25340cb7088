"""The users whose jobs reservations draw by `Groups` and MAGNETIC, by the user directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.reservation import Reservation


def groups_to_ask(cluster: Cluster) -> tuple[str, ...]:
    """Return the groups whose members matter: jobs that name a reservation are judged by theirs."""
    names = {
        name
        for reservation in cluster.reservations.values()
        if "MAGNETIC" in reservation.flags
        for name in _names(reservation)
    }
    return tuple(sorted(names))


def members_known(
    cluster: Cluster, members: Mapping[str, Sequence[str]], now_us: int
) -> list[ev.AnyEvent]:
    """Return what changes with these members of groups; others are not known yet."""
    events: list[ev.AnyEvent] = []
    for reservation in cluster.reservations.values():
        names = _names(reservation)
        if not names or "MAGNETIC" not in reservation.flags or not members.keys() >= set(names):
            continue
        users = tuple(sorted({user for name in names for user in members[name]}))
        if users != reservation.group_users:
            fresh = msgspec.structs.replace(reservation, group_users=users)
            events.append(ev.ReservationUpdated(time_us=now_us, reservation=fresh))
    return events


def _names(reservation: Reservation) -> list[str]:
    return [name.removeprefix("-") for name in reservation.groups]
