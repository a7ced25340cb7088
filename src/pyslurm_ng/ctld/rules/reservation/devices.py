"""Which devices of which nodes a reservation of generic resources gets, and the cores with them.

A device without processors is of no use: each one brings its share of the node's cores, those near
it first. The rest of the node is not reserved.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.ctld.rules.calendar import Calendar
from pyslurm_ng.ctld.rules.reservation import reservation_nodes as pick
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import GresAlloc
from pyslurm_ng.model.node import Node, NodeGres, is_indexed
from pyslurm_ng.model.reservation import NOTHING, Reservation
from pyslurm_ng.sched.cons_tres.cores import lowest_bits, usable_cores
from pyslurm_ng.sched.cons_tres.devices import choose_devices, near_cores


class DeviceWish(NamedTuple):
    """So many devices of a name, of one type or (with "") of any."""

    name: str
    type: str
    number: int

    def is_met_by(self, gres: NodeGres | GresAlloc) -> bool:
        """Return whether devices are of the kind wished for."""
        return gres.name == self.name and self.type in ("", gres.type)


class _Share(NamedTuple):
    """What a reservation gets of one node."""

    node_id: int
    cores: int
    gres: tuple[GresAlloc, ...]

    def has(self, wish: DeviceWish) -> int:
        """Return how many devices it has that answer a wish."""
        return sum(gres.count for gres in self.gres if wish.is_met_by(gres))


class _Room:
    """Cores and devices of a node that no other reservation has at the time."""

    def __init__(self, node: Node, cores: int, devices: dict[tuple[str, str], int]) -> None:
        self.node = node
        self.cores = cores
        self.devices = devices

    def share(self, wishes: Iterable[DeviceWish]) -> _Share:
        """Take as much of each wish as there is, with its cores."""
        spec = self.node.spec
        shares: list[GresAlloc] = []
        taken_cores = 0
        for wish in wishes:
            missing_count = wish.number
            of_name = sum(gres.count for gres in spec.gres if gres.name == wish.name)
            cores_each = max(1, usable_cores(spec).bit_count() // max(1, of_name))
            for gres in spec.gres:
                if not is_indexed(gres) or not wish.is_met_by(gres):
                    continue
                key = gres.name, gres.type
                count = min(
                    missing_count,
                    self.devices.get(key, 0).bit_count(),
                    self.cores.bit_count() // cores_each,
                )
                if count < 1:
                    continue
                core_count = count * cores_each
                mask = choose_devices(gres, self.devices[key], count, self.cores, core_count)
                alloc = GresAlloc(gres.name, gres.type, count, pick.packed(mask))
                near = self.cores & near_cores(spec, (alloc,))
                cores = lowest_bits(near, min(core_count, near.bit_count()))
                cores |= lowest_bits(self.cores & ~cores, core_count - cores.bit_count())
                self.devices[key] &= ~mask
                self.cores &= ~cores
                taken_cores |= cores
                shares.append(alloc)
                missing_count -= count
        return _Share(self.node.node_id, taken_cores, tuple(shares))


def with_devices(
    cluster: Cluster,
    reservation: Reservation,
    wishes: tuple[DeviceWish, ...],
    calendar: Calendar,
    *,
    of_each_node: bool,
    node_count: int = 0,
    named: bool = False,
) -> Reservation | Reject:
    """Return a reservation with devices that are free at its time, and their share of cores.

    Args:
        of_each_node: the wishes are those of every node, else of all nodes together.
        node_count: on so many nodes; 0: on as few as possible in the order of nodes.
        named: only on the reservation's present nodes; those of each node on all of them.
    """
    rooms = _rooms(cluster, reservation, calendar, named=named)
    if of_each_node:
        shares = [room.share(wishes) for room in rooms]
        shares = [share for share in shares if all(share.has(w) == w.number for w in wishes)]
        count = len(reservation.node_ids) if named else node_count
        if len(shares) < count:
            return Reject(Errno.ESLURM_NODES_BUSY)
        return _with_shares(reservation, shares[:count])
    shares = []
    open_wishes = list(wishes)
    for room in rooms:
        nodes_left = node_count - len(shares)
        room_wishes = [
            wish._replace(number=-(-wish.number // nodes_left) if node_count else wish.number)
            for wish in open_wishes
            if wish.number
        ]
        share = room.share(room_wishes)
        if not share.gres:
            continue
        shares.append(share)
        open_wishes = [wish._replace(number=wish.number - share.has(wish)) for wish in open_wishes]
        if not any(wish.number for wish in open_wishes) or nodes_left == 1:
            break
    if any(wish.number for wish in open_wishes) or len(shares) < node_count:
        return Reject(Errno.ESLURM_NODES_BUSY)
    return _with_shares(reservation, shares)


def _with_shares(reservation: Reservation, shares: list[_Share]) -> Reservation:
    shares.sort()
    return msgspec.structs.replace(
        reservation,
        node_ids=tuple(share.node_id for share in shares),
        core_masks=tuple(pick.packed(share.cores) for share in shares),
        gres=tuple(share.gres for share in shares),
    )


def _rooms(
    cluster: Cluster, reservation: Reservation, calendar: Calendar, *, named: bool
) -> list[_Room]:
    """Return what is free of the nodes that may be taken, the best nodes first."""
    taken = pick.taken_parts(cluster, reservation, calendar)
    rooms = []
    for node in pick.candidates(cluster, reservation, named=named):
        lost = taken.get(node.node_id, NOTHING)
        cores = usable_cores(node.spec) & ~lost.cores
        devices: dict[tuple[str, str], int] = {}
        for gres in node.spec.gres:
            if is_indexed(gres) and lost.cores != -1:
                every = ((1 << gres.count) - 1) << gres.first_index
                devices[gres.name, gres.type] = every & ~lost.devices.get(
                    f"{gres.name}:{gres.type}", 0
                )
        rooms.append(_Room(node, cores, devices))
    return rooms
