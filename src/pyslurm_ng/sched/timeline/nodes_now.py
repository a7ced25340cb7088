"""What is free now on single nodes, down to cores and devices, as a pass gives it away."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.model import gres_parts
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.model.reservation import WHOLE
from pyslurm_ng.sched.cons_tres.free_node import FreeNode, free_node
from pyslurm_ng.sched.cons_tres.hidden_parts import Hidden, hide
from pyslurm_ng.sched.frame.reserved import OUTSIDE, kept_parts
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.request.sharing import PartitionCores
from pyslurm_ng.sched.timeline.bookings import is_free_on
from pyslurm_ng.sched.timeline.shapes import Hardware


class NodesNow:
    """The nodes of one pass; each is looked at when it is first asked for."""

    def __init__(self, snapshot: Snapshot, hardware: Hardware) -> None:
        self._snapshot = snapshot
        self._hardware = hardware
        self._nodes: dict[int, FreeNode] = {}
        self._before: dict[int, FreeNode] | None = None  # as they were before the trial
        self._cpus_free = snapshot.cpus_free[:]
        self._taken: list[tuple[NodeAlloc, ...]] = []  # in the trial
        self._keeps_parts = any(reservation.parts() for reservation in snapshot.reservations)
        self._caps: PartitionCores | None = None
        if hardware.caps:
            self._caps = PartitionCores(snapshot.partitions, INFINITE)
            for running in snapshot.running:
                self._caps.add(running.tenant.partition, running.nodes)

    def node(self, node_id: int) -> FreeNode:
        """Return what is free of a node; code that chooses from it takes it."""
        node = self._nodes.get(node_id)
        if node is None:
            node = self._nodes[node_id] = free_node(self._snapshot, node_id)
            if self._caps is not None:
                node.partition_cores = self._caps.on(node_id)
        if self._before is not None and node_id not in self._before:
            self._before[node_id] = replace(
                node,
                gres_busy=dict(node.gres_busy),
                gres_used=dict(node.gres_used),
                partition_cores=dict(node.partition_cores or {}),
            )
        return node

    def has_cpus(self, node_id: int) -> bool:
        """Return whether any CPU of a node is free."""
        return self._cpus_free[node_id] > 0

    def loads(self) -> list[float]:
        """Return the share of CPUs that is in use now on each node, by position."""
        hardware = self._hardware
        return [
            1 - self._cpus_free[node_id] / max(1, hardware.all_cpus(index))
            for index, node_id in enumerate(hardware.order)
        ]

    def count(self, allocs: tuple[NodeAlloc, ...]) -> None:
        """Count the CPUs of a job that has been given cores of these nodes."""
        for alloc in allocs:
            self._cpus_free[alloc.node_id] -= alloc.cpus
        if self._before is not None:
            self._taken.append(allocs)

    def has(self, allocs: tuple[NodeAlloc, ...]) -> bool:
        """Return whether exactly these cores and devices are free, and no job keeps parts."""
        return (
            bool(allocs)
            and not self._keeps_parts
            and all(is_free_on(self.node(alloc.node_id), alloc) for alloc in allocs)
            and all(self.node(alloc.node_id).mem_mib >= alloc.mem_mib for alloc in allocs)
        )

    def give(self, allocs: tuple[NodeAlloc, ...]) -> None:
        """Take cores, memory and devices that were chosen elsewhere."""
        for alloc in allocs:
            node = self.node(alloc.node_id)
            node.cores &= ~int.from_bytes(alloc.cores, "little")
            node.mem_mib -= alloc.mem_mib
            node.is_idle = False
            for gres in alloc.gres:
                gres_parts.hold(node.gres_busy, node.gres_used, gres)

    def hide_kept(self, nodes: Iterable[FreeNode], duration_us: int) -> list[Hidden]:
        """Take out of nodes what reservations keep while a job would run; return it."""
        if not self._keeps_parts:
            return []
        now_us = self._snapshot.now_us
        kept = kept_parts(self._snapshot.reservations, OUTSIDE, now_us, now_us + duration_us)
        hidden_parts = [
            hide(node, WHOLE, kept[node.node_id]) for node in nodes if node.node_id in kept
        ]
        return [hidden for hidden in hidden_parts if hidden is not None]

    def begin_trial(self) -> None:
        """From here on all that is taken can be given back."""
        self._before, self._taken = {}, []

    def keep(self) -> None:
        """End the trial; what it has taken stays taken."""
        self._before = None

    def roll_back(self) -> None:
        """End the trial as if it had never been."""
        self._nodes.update(self._before or {})
        self._before = None
        for allocs in self._taken:
            for alloc in allocs:
                self._cpus_free[alloc.node_id] += alloc.cpus
