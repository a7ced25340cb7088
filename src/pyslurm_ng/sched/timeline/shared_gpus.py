"""Until when GPUs are held in parts, beside a grid that only counts.

The grid's rows of GPUs count those that can be given whole: one in parts is not, until the last of
its holders ends. A job that starts with parts of a GPU must not outstay there what the grid has
promised to jobs with whole ones.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence

from pyslurm_ng._select import Grid
from pyslurm_ng.model.gres_parts import held_parts
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.sched.snapshot import Snapshot
from pyslurm_ng.sched.timeline.pools import SOON_US
from pyslurm_ng.sched.timeline.shapes import Hardware

Gpu = tuple[int, int]  # node id, number


class SharedGpus:
    """The GPUs in parts of one pass after another."""

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware
        self._until_us: dict[Gpu, int] = {}
        self._before: dict[Gpu, int] = {}  # the trial

    def begin(self, snapshot: Snapshot) -> None:
        """Forget the last pass; enter jobs that run."""
        self._now_us = snapshot.now_us
        self._until_us = {}
        if self._hardware.units:
            for item in snapshot.running:
                end_us = item.end_us if item.end_us > self._now_us else self._now_us + SOON_US
                for gpu in _gpus_of(item.nodes):
                    self._until_us[gpu] = max(end_us, self._until_us.get(gpu, 0))

    def enter(self, grid: Grid, slots: Sequence[int]) -> None:
        """Look at another grid from here on; `slots` are when its slots begin."""
        self._grid, self._slots = grid, slots
        for (node_id, number), end_us in self._until_us.items():
            place = self._hardware.position[node_id]
            for resource in self._hardware.rows_of_gpu(place, number):
                grid.hold(array("i", (place, resource, 1)).tobytes(), end_us)

    def hold(self, allocs: Iterable[NodeAlloc], end_us: int) -> None:
        """Enter a job that starts now."""
        for node_id, number in _gpus_of(allocs):
            place = self._hardware.position[node_id]
            begin = self._first_after(node_id, number)
            if begin < len(self._slots) and self._slots[begin] < end_us:
                for resource in self._hardware.rows_of_gpu(place, number):
                    self._grid.take(place, resource, 1, self._slots[begin], end_us)
            self._until_us[node_id, number] = max(end_us, self._until_us.get((node_id, number), 0))

    def _first_after(self, node_id: int, number: int) -> int:
        """Return the first slot in which nobody has parts of a GPU."""
        return bisect_left(self._slots, self._until_us.get((node_id, number), self._now_us))

    def kept(self, node_id: int, end_us: int) -> int:
        """Return the mask of GPUs that were promised whole before a job would leave them."""
        place, mask = self._hardware.position[node_id], 0
        for number in self._hardware.gpus_in_parts(place):
            begin = self._first_after(node_id, number)
            until = max(begin, bisect_left(self._slots, end_us))
            for resource in self._hardware.rows_of_gpu(place, number):
                if any(free < 1 for free in self._grid.free_at(place, resource)[begin:until]):
                    mask |= 1 << number
        return mask

    def begin_trial(self) -> None:
        """From here on all that is entered can be taken out."""
        self._before = dict(self._until_us)

    def keep(self) -> None:
        """End the trial."""

    def roll_back(self) -> None:
        """End the trial as if it had never been."""
        self._until_us = self._before


def _gpus_of(allocs: Iterable[NodeAlloc]) -> Iterable[Gpu]:
    """Yield the GPUs that a job holds in parts."""
    for alloc in allocs:
        for held in alloc.gres:
            for number in held_parts(held):
                yield alloc.node_id, number
