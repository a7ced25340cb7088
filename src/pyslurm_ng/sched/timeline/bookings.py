"""Which job has which cores and GPUs of a node and until when, beside a grid that only counts.

For jobs for which it matters which cores or devices they get. The cores of running jobs are known;
a promise is given cores and devices as if it started, and keeps these for the time it is to run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pyslurm_ng.model.gres_parts import give_back, has_room, hold, mask_bytes
from pyslurm_ng.model.job import GresAlloc, NodeAlloc
from pyslurm_ng.model.node import is_part
from pyslurm_ng.sched.cons_tres.free_node import FreeNode, empty_node
from pyslurm_ng.sched.frame.job_records import Running
from pyslurm_ng.sched.timeline.freed_nodes import expected_end_us
from pyslurm_ng.sched.timeline.shapes import Hardware


class Booking(NamedTuple):
    """What a job has of a node for a time; `is_fixed`: it needs exactly these cores and GPUs."""

    start_us: int
    end_us: int
    cores: int
    gres: tuple[GresAlloc, ...]
    is_fixed: bool


class Bookings:
    """Those of one pass after another; `is_kept` says whether any are made in this one."""

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware
        self._held: dict[int, list[Booking]] = {}  # by node: what jobs have that run
        self._promised: dict[int, list[Booking]] = {}
        self.is_kept = False
        self._trial: list[list[Booking]] | None = None  # what was added to last in it

    def begin(self, running: Iterable[Running], now_us: int, is_kept: bool) -> None:
        """Forget the last pass; enter jobs that run."""
        self._now_us, self.is_kept = now_us, is_kept
        self._held, self._promised, self._trial = {}, {}, None
        for running_job in running if is_kept else ():
            end_us = expected_end_us(running_job.end_us, now_us)
            self.hold(running_job.nodes, end_us, with_cores=not running_job.is_suspended)

    # What is taken ------------------------------------------------------------------------------

    def hold(self, allocs: Iterable[NodeAlloc], end_us: int, *, with_cores: bool = True) -> None:
        """Enter what a job has from now on."""
        if self.is_kept:
            for alloc in allocs:
                cores = int.from_bytes(alloc.cores, "little") if with_cores else 0
                booking = Booking(self._now_us, end_us, cores, gpu_gres(alloc), True)
                self._add(self._held, alloc.node_id, booking)

    def promise(
        self, allocs: Iterable[NodeAlloc], start_us: int, end_us: int, *, is_fixed: bool
    ) -> None:
        """Enter what a job is to have later."""
        for alloc in allocs:
            cores = int.from_bytes(alloc.cores, "little")
            booking = Booking(start_us, end_us, cores, gpu_gres(alloc), is_fixed)
            self._add(self._promised, alloc.node_id, booking)

    def _add(self, where: dict[int, list[Booking]], node_id: int, booking: Booking) -> None:
        bookings = where.setdefault(node_id, [])
        bookings.append(booking)
        if self._trial is not None:
            self._trial.append(bookings)

    def promised(self, node_id: int) -> Sequence[Booking]:
        """Return what jobs are to have later of a node."""
        return self._promised.get(node_id, ())

    # What is free -------------------------------------------------------------------------------

    def node_at(
        self, position: int, start_us: int, end_us: int, *, only_fixed: bool = False
    ) -> FreeNode:
        """Return a node as it is but for cores and GPUs that others have in a time.

        Args:
            only_fixed: promises that could have others are left out.
        """
        hardware = self._hardware
        node_id = hardware.order[position]
        node = empty_node(node_id, hardware.kinds[hardware.kind_of[position]])
        for booking in self._during(node_id, start_us, end_us, only_fixed):
            node.cores &= ~booking.cores
            for gres in booking.gres:
                hold(node.gres_busy, node.gres_used, gres)
        return node

    def _during(
        self, node_id: int, start_us: int, end_us: int, only_fixed: bool
    ) -> Iterator[Booking]:
        for bookings in (self._held, self._promised):
            for booking in bookings.get(node_id, ()):
                is_then = booking.start_us < end_us and start_us < booking.end_us
                if is_then and (booking.is_fixed or not only_fixed):
                    yield booking

    def has_room(self, allocs: Iterable[NodeAlloc], start_us: int, end_us: int) -> bool:
        """Return whether all of these cores and GPUs are free in a time."""
        for alloc in allocs:
            node = self.node_at(self._hardware.position[alloc.node_id], start_us, end_us)
            if not is_free_on(node, alloc):
                return False
        return True

    def hide_promised(
        self, nodes: Iterable[FreeNode], end_us: int, *, only_fixed: bool = False
    ) -> list[HiddenBooking]:
        """Take out of nodes what was promised to others until a job would leave; return it."""
        hidden = []
        for node in nodes if self._promised else ():
            for booking in self._promised.get(node.node_id, ()):
                if booking.start_us < end_us and (booking.is_fixed or not only_fixed):
                    hidden.append(_hide(node, booking))
        return hidden

    # Trials -------------------------------------------------------------------------------------

    def begin_trial(self) -> None:
        """From here on all that is entered can be taken out."""
        self._trial = []

    def keep(self) -> None:
        """End the trial."""
        self._trial = None

    def roll_back(self) -> None:
        """End the trial as if it had never been."""
        for bookings in reversed(self._trial or ()):
            bookings.pop()
        self._trial = None


class HiddenBooking(NamedTuple):
    """What was taken out of a node for a moment."""

    node: FreeNode
    cores: int
    gres: tuple[GresAlloc, ...]

    def show(self) -> None:
        """Put it back."""
        self.node.cores |= self.cores
        for gres in self.gres:
            give_back(self.node.gres_busy, self.node.gres_used, gres)


def _hide(node: FreeNode, booking: Booking) -> HiddenBooking:
    """Take out of a node what is free of a booking."""
    cores = node.cores & booking.cores
    node.cores &= ~cores
    hidden = []
    for gres in booking.gres:
        if not is_part(gres.name):
            # A device that is in use until the promise begins is not given back when this is.
            busy = node.gres_busy.get(f"{gres.name}:{gres.type}", 0)
            mask = int.from_bytes(gres.indexes, "little") & ~busy
            gres = GresAlloc(gres.name, gres.type, mask.bit_count(), mask_bytes(mask))
        hold(node.gres_busy, node.gres_used, gres)
        hidden.append(gres)
    return HiddenBooking(node, cores, tuple(hidden))


def is_free_on(node: FreeNode, alloc: NodeAlloc) -> bool:
    """Return whether a node has left these very cores and devices."""
    if int.from_bytes(alloc.cores, "little") & ~node.cores:
        return False
    return all(
        has_room(node.spec.gres, node.gres_busy, node.gres_used, gres) for gres in alloc.gres
    )


def gpu_gres(alloc: NodeAlloc) -> tuple[GresAlloc, ...]:
    """Return what a job has of GPUs on a node, whole or in parts."""
    return tuple(gres for gres in alloc.gres if gres.name == "gpu" or is_part(gres.name))
