"""Which devices of a node a job gets: well linked with each other, near cores that are free.

`NodeGres.cores` has the cores near each device. `links` has how many links each device has to every
other of the same name on the node. Both are empty if nothing is known; then the lowest numbers go
first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from math import comb

from pyslurm_ng.model.job import GresAlloc
from pyslurm_ng.model.node import NodeGres, NodeSpec, is_part

_MOST_TRIED = 2000  # sets of devices that are all looked at; beyond, one device after another
Key = tuple[int, int, int, int]


def is_placed(gres: NodeGres) -> bool:
    """Return whether it matters which devices of a resource are taken."""
    return bool(gres.cores or gres.links)


def choose_devices(gres: NodeGres, free: int, count: int, cores: int, core_count: int) -> int:
    """Return a mask of `count` of the `free` devices.

    The best set has, in this order: enough free cores near it, the most links inside, the fewest
    sets of near cores, the most links left among the other devices, the lowest numbers.

    Args:
        free: mask by the numbers that devices have on the node.
        cores: mask of the node's free cores.
        core_count: how many cores the job takes here.
    """
    numbers = [bit for bit in range(free.bit_length()) if free >> bit & 1]
    if count >= len(numbers):
        return free
    if not is_placed(gres):
        return _mask(numbers[:count])
    rater = _Rater(gres, numbers, cores, core_count)
    if comb(len(numbers), count) <= _MOST_TRIED:
        # The first of equals stays: combinations come with the lowest numbers first.
        sets: Iterable[tuple[int, ...]] = combinations(numbers, count)
    else:
        sets = (rater.grown(first, count) for first in numbers)
    best = max(sets, key=rater.rate)
    return _mask(best)


def devices_near(gres: NodeGres, cores: int) -> int:
    """Return the mask of devices whose first near core is one of some cores."""
    devices = []
    for number, mask in enumerate(gres.cores):
        near = int.from_bytes(mask, "little")
        if near & -near & cores:
            devices.append(gres.first_index + number)
    return _mask(devices)


def far_devices(spec: NodeSpec, cores: int) -> dict[str, int]:
    """Return masks of the devices that none of some cores is near, by `name:type`."""
    far: dict[str, int] = {}
    for gres in spec.gres:
        mask = 0
        for number, near in enumerate(gres.cores):
            if not int.from_bytes(near, "little") & cores:
                mask |= 1 << (gres.first_index + number)
        if mask:
            key = f"{gres.name}:{gres.type}"
            far[key] = far.get(key, 0) | mask
    return far


def near_cores(spec: NodeSpec, allocs: Iterable[GresAlloc]) -> int:
    """Return the cores near any of the devices held; 0 when that is not known."""
    return _union(near_each(spec, allocs))


def near_each(spec: NodeSpec, allocs: Iterable[GresAlloc]) -> list[int]:
    """Return the cores near each of the devices held, of those where that is known."""
    near = []
    for gres_mask in allocs:
        mask = int.from_bytes(gres_mask.indexes, "little")
        for gres in spec.gres:
            is_same = gres.name == gres_mask.name and gres.type == gres_mask.type
            if gres.cores and (is_same or (is_part(gres_mask.name) and gres.name == "gpu")):
                for number, cores in enumerate(gres.cores):
                    if mask >> (gres.first_index + number) & 1:
                        near.append(int.from_bytes(cores, "little"))
    return near


def reachable_cores(
    spec: NodeSpec, name: str, kind: str, free: int, count: int, cores: int
) -> int | None:
    """Return the most free cores near `count` free devices; None when it is not configured where
    they are.

    Args:
        free: mask of free devices by number.
        cores: mask of free cores.
    """
    near: list[int] = []
    is_known = False
    for gres in spec.gres:
        if gres.name == name and kind in ("", gres.type) and gres.cores:
            is_known = True
            for number, mask in enumerate(gres.cores):
                if free >> (gres.first_index + number) & 1:
                    near.append(int.from_bytes(mask, "little") & cores)
    if not is_known:
        return None
    if count >= len(near) or comb(len(near), count) > _MOST_TRIED:
        return _union(near)
    return max((_union(masks) for masks in combinations(near, count)), key=int.bit_count, default=0)


def _union(masks: Iterable[int]) -> int:
    union = 0
    for mask in masks:
        union |= mask
    return union


class _Rater:
    """Compares sets of devices of one resource."""

    def __init__(self, gres: NodeGres, numbers: Sequence[int], cores: int, core_count: int) -> None:
        first = gres.first_index
        self._numbers = numbers
        self._near = {
            number: int.from_bytes(gres.cores[number - first], "little") if gres.cores else 0
            for number in numbers
        }
        self._links = {
            number: gres.links[number - first] if gres.links else () for number in numbers
        }
        self._cores = cores
        self._wanted = core_count
        self._knows_cores = bool(gres.cores)

    def rate(self, chosen: Collection[int]) -> Key:
        near = 0
        for number in chosen:
            near |= self._near[number]
        enough = not self._knows_cores or (near & self._cores).bit_count() >= self._wanted
        taken = set(chosen)
        others = [number for number in self._numbers if number not in taken]
        sets = len({self._near[number] for number in chosen})
        return int(enough), self._linked(chosen), -sets, self._linked(others)

    def grown(self, first: int, count: int) -> tuple[int, ...]:
        """Return a set made of one device and, one by one, what goes best with those before."""
        chosen = [first]
        while len(chosen) < count:
            rest = (number for number in self._numbers if number not in chosen)
            chosen.append(max(rest, key=lambda number: self.rate([*chosen, number])))
        return tuple(sorted(chosen))

    def _linked(self, chosen: Collection[int]) -> int:
        total = 0
        for device, other in combinations(chosen, 2):
            links = self._links[device]
            total += max(links[other], 0) if other < len(links) else 0
        return total


def _mask(numbers: Iterable[int]) -> int:
    return sum(1 << number for number in numbers)
