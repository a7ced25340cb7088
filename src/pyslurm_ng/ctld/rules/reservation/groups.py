"""Whom reservations draw by `Groups` and MAGNETIC: members of groups as the user directory says."""

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
        for item in cluster.reservations.values()
        if "MAGNETIC" in item.flags
        for name in _names(item)
    }
    return tuple(sorted(names))


def members_known(
    cluster: Cluster, members: Mapping[str, Sequence[str]], now_us: int
) -> list[ev.AnyEvent]:
    """Return what changes with these members of groups; others are not known yet."""
    events: list[ev.AnyEvent] = []
    for item in cluster.reservations.values():
        names = _names(item)
        if not names or "MAGNETIC" not in item.flags or not members.keys() >= set(names):
            continue
        users = tuple(sorted({user for name in names for user in members[name]}))
        if users != item.group_users:
            fresh = msgspec.structs.replace(item, group_users=users)
            events.append(ev.ReservationUpdated(time_us=now_us, reservation=fresh))
    return events


def _names(item: Reservation) -> list[str]:
    return [name.removeprefix("-") for name in item.groups]
