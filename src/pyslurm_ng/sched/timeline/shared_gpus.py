"""GPUs given in parts, on a grid that only counts: they are not given whole meanwhile.

The grid's rows of GPUs count those that can be given whole: one in parts is not, as long as anybody
has or was promised parts of it. Its rows of parts count those of all GPUs of a node; which GPU has
enough of them is for `bookings` to say.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from pyslurm_ng._select import Grid, holding
from pyslurm_ng.model.gres_parts import held_parts
from pyslurm_ng.model.job import GresAlloc, NodeAlloc
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.timeline.bookings import Bookings
from pyslurm_ng.sched.timeline.freed_nodes import expected_end_us
from pyslurm_ng.sched.timeline.held_amounts import Holdings
from pyslurm_ng.sched.timeline.shapes import Hardware

Gpu = tuple[int, int]  # node id, number


class SharedGpus:
    """The GPUs in parts of one pass after another."""

    def __init__(self, hardware: Hardware, bookings: Bookings) -> None:
        self._hardware = hardware
        self._bookings = bookings
        self._until_us: dict[Gpu, int] = {}
        self._before: dict[Gpu, int] = {}  # the trial

    def begin(self, snapshot: Snapshot) -> None:
        """Forget the last pass; enter jobs that run."""
        self._now_us = snapshot.now_us
        self._until_us = {}
        if self._hardware.units:
            for running_job in snapshot.running:
                self._enter_held(
                    running_job.nodes, expected_end_us(running_job.end_us, self._now_us)
                )

    def _enter_held(self, allocs: Iterable[NodeAlloc], end_us: int) -> None:
        for alloc in allocs:
            for number in _in_parts(alloc.gres):
                gpu = alloc.node_id, number
                self._until_us[gpu] = max(end_us, self._until_us.get(gpu, 0))

    def enter(self, grid: Grid, slots: Sequence[int]) -> None:
        """Look at another grid from here on; `slots` are when its slots begin."""
        self._grid, self._slots = grid, slots
        holdings = Holdings()
        for node_id, number in self._until_us:
            position = self._hardware.position[node_id]
            resources = self._hardware.rows_of_gpu(position, number)
            holdings.append(holding(position, resource, 1) for resource in resources)
        grid.hold(holdings.held, holdings.begins, array("q", self._until_us.values()))

    # What is taken ------------------------------------------------------------------------------

    def hold(self, allocs: Sequence[NodeAlloc], end_us: int) -> None:
        """Enter a job that starts now."""
        if self._hardware.units:
            self._close_whole(allocs, self._now_us, end_us)
            self._enter_held(allocs, end_us)

    def promise(self, allocs: Sequence[NodeAlloc], start_us: int, end_us: int) -> None:
        """Enter a job that is to start later; before it is booked."""
        if self._hardware.units:
            self._close_whole(allocs, start_us, end_us)

    def _close_whole(self, allocs: Sequence[NodeAlloc], start_us: int, end_us: int) -> None:
        """Take GPUs that are shared from now on off those that can be given whole."""
        for alloc in allocs:
            position = self._hardware.position[alloc.node_id]
            for number in _in_parts(alloc.gres):
                rows = self._hardware.rows_of_gpu(position, number)
                for begin_us, until_us in self._unshared(alloc.node_id, number, start_us, end_us):
                    for resource in rows:
                        self._grid.take(position, resource, 1, begin_us, until_us)

    def _unshared(
        self, node_id: int, number: int, start_us: int, end_us: int
    ) -> Iterator[tuple[int, int]]:
        """Yield the times when no job has or was promised parts of a GPU, in slots of a time."""
        at_us = max(start_us, self._slot_us(self._until_us.get((node_id, number), 0)))
        spans = sorted(
            (booking.start_us, self._slot_us(booking.end_us))
            for booking in self._bookings.promised(node_id)
            if number in _in_parts(booking.gres)
        )
        for begin_us, until_us in spans:
            if at_us < min(begin_us, end_us):
                yield at_us, min(begin_us, end_us)
            at_us = max(at_us, until_us)
        if at_us < end_us:
            yield at_us, end_us

    def _slot_us(self, time_us: int) -> int:
        """Return when the first slot begins that is not before a time."""
        slot = bisect_left(self._slots, time_us)
        return self._slots[slot] if slot < len(self._slots) else time_us

    def kept(self, node_id: int, end_us: int) -> int:
        """Return the mask of GPUs that were promised whole before a job would leave them."""
        position, mask = self._hardware.position[node_id], 0
        for number in self._hardware.gpus_in_parts(position):
            rows = [
                self._grid.free_at(position, resource)
                for resource in self._hardware.rows_of_gpu(position, number)
            ]
            for begin_us, until_us in self._unshared(node_id, number, self._now_us, end_us):
                first, last = bisect_left(self._slots, begin_us), bisect_left(self._slots, until_us)
                if any(free < 1 for row in rows for free in row[first:last]):
                    mask |= 1 << number
        return mask

    # Trials -------------------------------------------------------------------------------------

    def begin_trial(self) -> None:
        """From here on all that is entered can be taken out."""
        self._before = dict(self._until_us)

    def keep(self) -> None:
        """End the trial."""

    def roll_back(self) -> None:
        """End the trial as if it had never been."""
        self._until_us = self._before


def _in_parts(gres: Iterable[GresAlloc]) -> set[int]:
    """Return the numbers of the GPUs that are held in parts."""
    return {number for alloc in gres for number in held_parts(alloc)}
