"""Nodes by name, what jobs hold on each, and columns over all. It follows from the Cluster."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from . import gres_parts
from .job import NodeAlloc
from .node import Node, effective_cpus, schedulable_mem_mib
from .reservation import Reservation
from .states import NodeFlag, NodeState

# A node with one of these takes no new jobs.
UNUSABLE_FLAGS = (
    NodeFlag.DRAIN
    | NodeFlag.FAIL
    | NodeFlag.NOT_RESPONDING
    | NodeFlag.POWERED_DOWN
    | NodeFlag.POWERING_DOWN
    | NodeFlag.POWER_DOWN
    | NodeFlag.REBOOT_ISSUED
    | NodeFlag.INVALID_REG
)

_NOTHING: dict[str, int] = {}


class NodeUse:
    """What jobs hold on one node; follows from their allocations and is never stored.

    `cores` is a bit mask of core indexes, `gres` maps "name:type" to a device mask and
    `gres_count` to the number in use. A suspended job holds memory but no cores.
    """

    __slots__ = ("allocs", "completing", "cores", "cpus", "gres", "gres_count", "mem_mib")

    def __init__(self) -> None:
        self.allocs: dict[int, NodeAlloc] = {}
        self.completing: dict[int, None] = {}
        self.cpus = 0
        self.mem_mib = 0
        self.cores = 0
        self.gres: dict[str, int] = {}
        self.gres_count: dict[str, int] = {}

    def count(self, suspended: dict[int, None]) -> None:
        """Add up `allocs` again; jobs in `suspended` hold no cores."""
        self.cpus = self.mem_mib = self.cores = 0
        self.gres = {}
        self.gres_count = {}
        for job_id, alloc in self.allocs.items():
            self.mem_mib += alloc.mem_mib
            if job_id not in suspended:
                self._add_cores(alloc)
            self._add_gres(alloc)

    def add(self, job_id: int, alloc: NodeAlloc) -> None:
        """Let a running job hold `alloc`."""
        self.allocs[job_id] = alloc
        self.mem_mib += alloc.mem_mib
        self._add_cores(alloc)
        self._add_gres(alloc)

    def _add_cores(self, alloc: NodeAlloc) -> None:
        """Add the cores of one more job; cores that it shares are in use already."""
        cores = int.from_bytes(alloc.cores, "little")
        shared = cores & self.cores
        self.cores |= cores
        self.cpus += alloc.cpus
        if shared:
            self.cpus -= shared.bit_count() * (alloc.cpus // cores.bit_count())

    def _add_gres(self, alloc: NodeAlloc) -> None:
        for gres in alloc.gres:
            gres_parts.hold(self.gres, self.gres_count, gres)


class NodeColumns:
    """Numeric columns over all nodes, index = node_id, for scheduling passes and counts."""

    __slots__ = (
        "cores_busy",
        "cpus_free",
        "gres_busy",
        "gres_changes",
        "gres_used",
        "in_use",
        "mem_free_mib",
        "usable",
    )

    def __init__(self) -> None:
        self.usable = bytearray()
        self.cpus_free = array("i")
        self.mem_free_mib = array("q")
        self.in_use = bytearray()  # 1 if any job holds anything
        self.cores_busy: list[int] = []
        # The dicts are replaced, never changed: passes may keep them.
        self.gres_busy: list[dict[str, int]] = []
        self.gres_used: list[dict[str, int]] = []
        self.gres_changes = 0  # grows with each change of the two dicts

    def set_gres(self, node_id: int, use: NodeUse) -> None:
        """Enter which devices of a node are in use."""
        self.gres_busy[node_id] = dict(use.gres) if use.gres else _NOTHING
        self.gres_used[node_id] = dict(use.gres_count) if use.gres_count else _NOTHING
        self.gres_changes += 1


class NodeIndex:
    """Indexes of nodes, their reservations and the jobs on them; `apply` keeps them current.

    `nodes` is the Cluster's own list, and `suspended` the index of suspended jobs.

    Attributes:
        wakes: nodes that are powered down take jobs, and are powered up for them.
    """

    __slots__ = (
        "_suspended",
        "by_name",
        "columns",
        "nodes",
        "releases",
        "reserved",
        "use",
        "wakes",
    )

    def __init__(self, nodes: list[Node | None], suspended: dict[int, None]) -> None:
        self.nodes = nodes
        self._suspended = suspended
        self.by_name = {node.spec.name: node.node_id for node in nodes if node is not None}
        self.use = [NodeUse() for _ in nodes]
        self.columns = NodeColumns()
        self.reserved: dict[int, str] = {}  # node in an active reservation -> its name
        self.releases = 0  # how often a job has given back what it held on a node
        self.wakes = False

    def count_all(self) -> None:
        """Add up what jobs hold on each node, once all have been entered."""
        for use in self.use:
            use.count(self._suspended)
        self.update_all()

    def enter_reservations(self, reservations: Iterable[Reservation]) -> None:
        """Index the nodes of active reservations; maintenance comes before others."""
        self.reserved = {}
        active = [reservation for reservation in reservations if reservation.is_active]
        for reservation in sorted(active, key=lambda reservation: "MAINT" in reservation.flags):
            parts = reservation.parts()  # a node that is reserved in part is not shown as reserved
            whole = (node_id for node_id in reservation.node_ids if node_id not in parts)
            self.reserved |= dict.fromkeys(whole, reservation.name)

    def update_all(self) -> None:
        """Make all columns again."""
        total = len(self.nodes)
        self.columns.usable = bytearray(total)
        self.columns.cpus_free = array("i", bytes(4 * total))
        self.columns.mem_free_mib = array("q", bytes(8 * total))
        self.columns.in_use = bytearray(total)
        self.columns.cores_busy = [0] * total
        self.columns.gres_busy = [_NOTHING] * total
        self.columns.gres_used = [_NOTHING] * total
        self.columns.gres_changes += 1
        for node_id in range(total):
            self.update(node_id)

    def update(self, node_id: int) -> None:
        """Bring one node's columns up to date."""
        node, use, columns = self.nodes[node_id], self.use[node_id], self.columns
        if node is None:
            columns.usable[node_id] = 0
            columns.cpus_free[node_id] = 0
            columns.mem_free_mib[node_id] = 0
            return
        columns.usable[node_id] = node.state == NodeState.IDLE and not self.why_unusable(node)
        columns.cpus_free[node_id] = effective_cpus(node.spec) - use.cpus
        columns.mem_free_mib[node_id] = schedulable_mem_mib(node.spec) - use.mem_mib
        columns.in_use[node_id] = bool(use.allocs)
        columns.cores_busy[node_id] = use.cores
        if use.gres_count or columns.gres_used[node_id]:
            columns.set_gres(node_id, use)

    def why_unusable(self, node: Node) -> int:
        """Return the flags of a node that keep it from new jobs."""
        flags = node.flags & UNUSABLE_FLAGS
        return flags & ~NodeFlag.POWERED_DOWN if self.wakes else flags

    def hold(self, job_id: int, allocs: Iterable[NodeAlloc]) -> None:
        """Let a running job hold something on nodes."""
        uses, nodes, columns = self.use, self.nodes, self.columns
        cpus_free, mem_free_mib = columns.cpus_free, columns.mem_free_mib
        in_use, cores_busy = columns.in_use, columns.cores_busy
        known, cores = b"", 0
        for alloc in allocs:
            node_id = alloc.node_id
            use = uses[node_id]
            if use.allocs or alloc.gres or nodes[node_id] is None:
                self._hold_more(job_id, alloc)
                continue
            # Most nodes of a large job were empty, and the job holds the same on all of them.
            if alloc.cores is not known:
                known, cores = alloc.cores, int.from_bytes(alloc.cores, "little")
            use.allocs[job_id] = alloc
            use.cpus, use.cores, mem_mib = alloc.cpus, cores, alloc.mem_mib
            cpus_free[node_id] -= alloc.cpus
            if mem_mib:
                use.mem_mib = mem_mib
                mem_free_mib[node_id] -= mem_mib
            in_use[node_id] = 1
            cores_busy[node_id] = cores

    def _hold_more(self, job_id: int, alloc: NodeAlloc) -> None:
        """Let a job hold devices, or a part of a node that other jobs use, too."""
        node_id = alloc.node_id
        use, columns = self.use[node_id], self.columns
        before = use.cpus
        use.add(job_id, alloc)
        if self.nodes[node_id] is None:
            return
        columns.cpus_free[node_id] -= use.cpus - before  # cores may be shared
        columns.mem_free_mib[node_id] -= alloc.mem_mib
        columns.in_use[node_id] = 1
        columns.cores_busy[node_id] = use.cores
        if alloc.gres:
            columns.set_gres(node_id, use)

    def give_back(self, job_id: int, node_ids: Iterable[int], time_us: int) -> None:
        """End what a job holds on nodes."""
        uses, nodes, columns = self.use, self.nodes, self.columns
        cpus_free, mem_free_mib = columns.cpus_free, columns.mem_free_mib
        in_use, cores_busy = columns.in_use, columns.cores_busy
        released = 0
        for node_id in node_ids:
            use, node = uses[node_id], nodes[node_id]
            allocs = use.allocs
            assert job_id in allocs, (job_id, node_id)
            del allocs[job_id]
            if use.completing:
                use.completing.pop(job_id, None)
            released += 1
            if node is not None:
                node.last_busy_us = time_us
            if allocs or node is None:
                self.recount(node_id)
                continue
            # Most nodes of a large job are given back whole.
            cpus_free[node_id] += use.cpus
            in_use[node_id] = use.cpus = use.cores = 0
            cores_busy[node_id] = 0
            if use.mem_mib:
                mem_free_mib[node_id] += use.mem_mib
                use.mem_mib = 0
            if use.gres_count:
                use.gres, use.gres_count = {}, {}
                columns.set_gres(node_id, use)
        self.releases += released

    def recount(self, node_id: int) -> None:
        """Add up again what jobs hold on a node."""
        self.use[node_id].count(self._suspended)
        self.update(node_id)
