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


def is_placed(item: NodeGres) -> bool:
    """Return whether it matters which devices of a resource are taken."""
    return bool(item.cores or item.links)


def choose_devices(item: NodeGres, free: int, count: int, cores: int, wanted: int) -> int:
    """Return a mask of `count` of the `free` devices.

    The best set has, in this order: enough free cores near it, the most links inside, the fewest
    sets of near cores, the most links left among the other devices, the lowest numbers.

    Args:
        free: mask by the numbers that devices have on the node.
        cores: mask of the node's free cores.
        wanted: cores the job takes here.
    """
    numbers = [bit for bit in range(free.bit_length()) if free >> bit & 1]
    if count >= len(numbers):
        return free
    if not is_placed(item):
        return _mask(numbers[:count])
    rater = _Rater(item, numbers, cores, wanted)
    if comb(len(numbers), count) <= _MOST_TRIED:
        # The first of equals stays: combinations come with the lowest numbers first.
        sets: Iterable[tuple[int, ...]] = combinations(numbers, count)
    else:
        sets = (rater.grown(first, count) for first in numbers)
    best = max(sets, key=rater.rate)
    return _mask(best)


def devices_near(item: NodeGres, cores: int) -> int:
    """Return the mask of devices whose first near core is one of some cores."""
    found = []
    for place, mask in enumerate(item.cores):
        near = int.from_bytes(mask, "little")
        if near & -near & cores:
            found.append(item.first_index + place)
    return _mask(found)


def near_cores(spec: NodeSpec, held: Iterable[GresAlloc]) -> int:
    """Return the cores near any of the devices held; 0 when that is not known."""
    return _union(near_each(spec, held))


def near_each(spec: NodeSpec, held: Iterable[GresAlloc]) -> list[int]:
    """Return the cores near each of the devices held, of those where that is known."""
    near = []
    for one in held:
        mask = int.from_bytes(one.indexes, "little")
        for item in spec.gres:
            is_same = item.name == one.name and item.type == one.type
            if item.cores and (is_same or (is_part(one.name) and item.name == "gpu")):
                for place, cores in enumerate(item.cores):
                    if mask >> (item.first_index + place) & 1:
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
    for item in spec.gres:
        if item.name == name and kind in ("", item.type) and item.cores:
            is_known = True
            for place, mask in enumerate(item.cores):
                if free >> (item.first_index + place) & 1:
                    near.append(int.from_bytes(mask, "little") & cores)
    if not is_known:
        return None
    if count >= len(near) or comb(len(near), count) > _MOST_TRIED:
        return _union(near)
    return max((_union(some) for some in combinations(near, count)), key=int.bit_count, default=0)


def _union(masks: Iterable[int]) -> int:
    found = 0
    for mask in masks:
        found |= mask
    return found


class _Rater:
    """Compares sets of devices of one resource."""

    def __init__(self, item: NodeGres, numbers: Sequence[int], cores: int, wanted: int) -> None:
        first = item.first_index
        self._numbers = numbers
        self._near = {
            number: int.from_bytes(item.cores[number - first], "little") if item.cores else 0
            for number in numbers
        }
        self._links = {
            number: item.links[number - first] if item.links else () for number in numbers
        }
        self._cores = cores
        self._wanted = wanted
        self._knows_cores = bool(item.cores)

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
        for one, other in combinations(chosen, 2):
            links = self._links[one]
            total += max(links[other], 0) if other < len(links) else 0
        return total


def _mask(numbers: Iterable[int]) -> int:
    return sum(1 << number for number in numbers)
