"""What requests mean node by node, as numbers for the grid: hardware kinds, amounts, alternatives.

Nodes are put in the order in which jobs should take them: light ones first, those without generic
resources before those with, then by leaf switch and as configured.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.model.node import NodeSpec, is_consumed, restricted_cores, schedulable_mem_mib
from pyslurm_ng.sched.cons_tres.cores import usable_cores
from pyslurm_ng.sched.cons_tres.fit import (
    cores_wanted,
    gpus_on_each,
    tasks_that_fit,
    usable_devices,
)
from pyslurm_ng.sched.cons_tres.free_node import empty_node
from pyslurm_ng.sched.cons_tres.node_choice import node_counts
from pyslurm_ng.sched.cons_tres.parts import units_of
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.request.need import GresNeed, Need

CPUS, MEM = 0, 1
_ALTERNATIVES = 4
_MOST_COUNTS = 16
Amounts = tuple[tuple[int, int], ...]  # (resource, amount), by resource
Shares = list[tuple[int, int]]  # (position, tasks)


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to place a job: so many nodes alike, so many tasks on each.

    `amounts` are per hardware kind; `mask` has a byte per position and leaves out unfit kinds.
    """

    need: Need
    nodes: int
    tasks_per_node: int
    resources: tuple[int, ...]
    amounts: tuple[tuple[int, ...], ...]
    mask: bytes
    required: bytes
    thresholds: tuple[tuple[int, tuple[int, ...]], ...]  # (resource, amount per kind), not all 0


class Positions(Mapping[int, int]):
    """Positions by node id; a number per id, where a dict of 100,000 nodes takes 8 MB."""

    __slots__ = ("_order", "_places")

    def __init__(self, order: Sequence[int]) -> None:
        """Take the node ids in order, each once."""
        self._order = order
        self._places = array("i", [-1]) * (max(order, default=-1) + 1)
        for index, node_id in enumerate(order):
            self._places[node_id] = index

    def __getitem__(self, node_id: int) -> int:
        if 0 <= node_id < len(self._places):
            position = self._places[node_id]
            if position >= 0:
                return position
        raise KeyError(node_id)

    def __iter__(self) -> Iterator[int]:
        return iter(self._order)

    def __len__(self) -> int:
        return len(self._order)


class Hardware:
    """Nodes in order of use, their kinds, and the resources that are counted.

    `order` is node ids by position; `resource_of` maps (name, type or empty) of generic resources.
    """

    def __init__(self, snapshot: Snapshot, leaves: Sequence[int] = ()) -> None:
        specs = snapshot.specs
        node_ids = [node_id for node_id, spec in enumerate(specs) if spec is not None]
        weights = snapshot.weights
        node_ids.sort(
            key=lambda node_id: (
                weights[node_id],
                bool(_spec(specs, node_id).gres),
                leaves[node_id] if leaves else 0,
                node_id,
            ),
        )
        self.order = array("i", node_ids)
        self.position = Positions(self.order)
        self.kinds: list[NodeSpec] = []
        self.kind_of = array("i")
        known: dict[tuple[object, ...], int] = {}
        for node_id in self.order:
            spec = _spec(specs, node_id)
            kind = known.setdefault(_hardware(spec), len(known))
            if kind == len(self.kinds):
                self.kinds.append(spec)
            self.kind_of.append(kind)
        self.resource_of: dict[tuple[str, str], int] = {}
        self.endless: set[str] = set()  # resources that are there for any number of jobs
        self.resources = 2
        types: dict[str, set[str]] = {}
        for gres in [gres for spec in self.kinds for gres in spec.gres]:
            if is_consumed(gres):
                types.setdefault(gres.name, set()).add(gres.type)
            else:
                self.endless.add(gres.name)
        for name, numbers in types.items():
            for of_type in ("", *sorted(numbers - {""})):
                # Where all are of one type, its count is the count of all.
                is_alone = bool(of_type) and len(numbers) == 1
                self.resource_of[name, of_type] = self.resources - 1 if is_alone else self.resources
                self.resources += not is_alone
        # CPUs that the jobs of a partition may have of a node together are one more to count.
        self.caps: dict[str, int] = {}
        for name, partition in snapshot.partitions.items():
            if min(partition.max_cpus_per_node, partition.max_cpus_per_socket) < INFINITE:
                self.caps[name] = self.resources
                self.resources += 1
        # So are CPUs for jobs without GPUs where cores are kept for those with; 0: nowhere.
        self.without_gpus = 0
        if any(spec.restricted_cores_per_gpu for spec in self.kinds):
            self.without_gpus = self.resources
            self.resources += 1
        # GPUs that may be given in parts fall into units: whole ones and parts take of the same.
        self._units_of = [units_of(spec) for spec in self.kinds]
        self.units = 0
        if any(self._units_of):
            self.units = self.resources
            self.resources += 1
        self._partitions = snapshot.partitions
        self.totals = [self._totals(spec) for spec in self.kinds]
        self._masks: dict[tuple[bytes, bytes], bytes] = {}

    def _totals(self, spec: NodeSpec) -> list[int]:
        totals = [0] * self.resources
        totals[CPUS] = empty_node(0, spec).cpus()
        totals[MEM] = schedulable_mem_mib(spec)
        for name, resource in self.caps.items():
            partition = self._partitions[name]
            of_sockets = max(1, spec.sockets) * partition.max_cpus_per_socket
            totals[resource] = min(totals[CPUS], partition.max_cpus_per_node, of_sockets)
        if self.without_gpus:
            others = (usable_cores(spec) & ~restricted_cores(spec)).bit_count()
            totals[self.without_gpus] = others * spec.threads_per_core
        for gres in spec.gres:
            if gres.name in self.endless:
                continue
            for resource in self.counting(gres.name, gres.type):
                totals[resource] += gres.count
            if self.units and gres.name == "gpu":
                totals[self.units] += gres.count * units_of(spec).get("gpu", 0)
        return totals

    def counting(self, name: str, kind: str) -> set[int]:
        """Return the resources that count generic resources of a type, if there are such."""
        resources = (self.resource_of.get(key) for key in {(name, ""), (name, kind)})
        return {resource for resource in resources if resource is not None}

    def all_cpus(self, position: int) -> int:
        """Return the CPUs of the node at a position."""
        return self.totals[self.kind_of[position]][CPUS]

    def units_taken(self, position: int, name: str, count: int) -> int:
        """Return the units of the node at a position that so many of a resource are."""
        return self._units_of[self.kind_of[position]].get(name, 0) * count

    def gpus_in_parts(self, position: int) -> list[int]:
        """Return the numbers of the GPUs that may be given in parts, of the node at a position."""
        parts = [gres.parts for gres in self.kinds[self.kind_of[position]].gres if gres.parts]
        most = max(map(len, parts), default=0)
        return [n for n in range(most) if any(n < len(of) and of[n] for of in parts)]

    def rows_of_gpu(self, position: int, number: int) -> list[int]:
        """Return the resources that count a GPU of the node at a position."""
        for gres in self.kinds[self.kind_of[position]].gres:
            if gres.name == "gpu" and 0 <= number - gres.first_index < gres.count:
                return sorted(self.counting("gpu", gres.type))
        return []

    def mask(self, suits: bytes, kinds: bytes) -> bytes:
        """Return a byte per position: the node suits, and its kind is one of `kinds`."""
        key = (suits, kinds)
        mask = self._masks.get(key)
        if mask is None:
            pairs = zip(self.order, self.kind_of, strict=True)
            mask = bytes(suits[node_id] & kinds[kind] for node_id, kind in pairs)
            if len(self._masks) > 1000:
                self._masks.clear()
            self._masks[key] = mask
        return mask

    def counts_cpus(self, need: Need) -> set[int]:
        """Return the resources that count CPUs of a node for a job."""
        amounts = {CPUS, self.caps.get(need.partition, CPUS)}
        return amounts | {self.without_gpus} if self.without_gpus else amounts

    def gres_amounts(self, spec: NodeSpec, wants: Sequence[GresNeed]) -> dict[int, int] | None:
        """Return what a node gives of each counted resource, or None if it has too little."""
        amounts: dict[int, int] = {}
        for name, kind, count in wants:
            if name in self.endless:
                continue
            if (name, kind) not in self.resource_of:
                return None
            types = {gres.type for gres in spec.gres if gres.name == name}
            only = kind or (types.pop() if len(types) == 1 else "")
            for resource in self.counting(name, only):
                amounts[resource] = amounts.get(resource, 0) + count
            units = units_of(spec).get(name, 0) if self.units else 0
            if units:
                amounts[self.units] = amounts.get(self.units, 0) + units * count
        return amounts

    def node_amounts(self, need: Need, kind: int, tasks: int) -> dict[int, int] | None:
        """Return what some tasks of a job take of a node of a kind; None if it is too small."""
        spec, totals = self.kinds[kind], self.totals[kind]
        if tasks_that_fit(need, empty_node(0, spec)) < tasks:
            return None
        wants = need.gres_per_node + tuple(
            (name, gres, count * tasks) for name, gres, count in need.gres_per_task
        )
        amounts = self.gres_amounts(spec, wants)
        if amounts is None:
            return None
        threads = max(1, spec.threads_per_core)
        cpus = totals[CPUS]
        if not need.is_exclusive:
            cpus = cores_wanted(need, spec, tasks, gpus_on_each(need)) * threads
        amounts[CPUS] = totals[CPUS] if need.sharing else cpus
        cap = self.caps.get(need.partition)
        if cap is not None:
            # What comes beyond its tasks, whole nodes and sockets, is not held against a job.
            is_rounded = need.is_exclusive or need.whole_sockets
            amounts[cap] = min(cpus, totals[cap]) if is_rounded else cpus
        if self.without_gpus and not need.has_gpus:
            amounts[self.without_gpus] = cpus
        if need.mem_per_node_mib:
            amounts[MEM] = need.mem_per_node_mib
        elif need.mem_per_cpu_mib:
            used = cpus if need.shares_cpus else need.cpus_per_task * tasks
            amounts[MEM] = need.mem_per_cpu_mib * used
        elif need.mem_per_gpu_mib:
            gpus = amounts.get(self.resource_of.get(("gpu", ""), -1), 0)
            amounts[MEM] = need.mem_per_gpu_mib * gpus
        elif need.mem_whole_node:
            amounts[MEM] = totals[MEM]
        if any(amount > totals[resource] for resource, amount in amounts.items()):
            return None
        return amounts

    def variant(self, demand: Demand, need: Need, nodes: int, tasks: int) -> Variant | None:
        """Return the variant with `tasks` on each of `nodes`, None if no node could bear that."""
        per_kind = [self.node_amounts(need, kind, tasks) for kind in range(len(self.kinds))]
        known_amounts = [amounts for amounts in per_kind if amounts is not None]
        if not known_amounts:
            return None
        resources = tuple(sorted({resource for amounts in known_amounts for resource in amounts}))
        # Kinds left out get the largest amount, so that equal needs have equal thresholds.
        most = {
            resource: max(amounts.get(resource, 0) for amounts in known_amounts)
            for resource in resources
        }
        rows = tuple(
            tuple((most if amounts is None else amounts).get(resource, 0) for resource in resources)
            for amounts in per_kind
        )
        fits = bytes(amounts is not None for amounts in per_kind)
        mask = self.mask(demand.mask, fits)
        if mask.count(1) < nodes:
            return None
        required = b""
        if need.required_nodes:
            named = bytearray(len(demand.mask))
            for node_id in need.required_nodes:
                named[node_id] = 1
            required = self.mask(bytes(named), b"\1" * len(self.kinds))
            if nodes <= len(need.required_nodes):
                mask = bytes(a & b for a, b in zip(mask, required, strict=True))
        columns = tuple(
            (resource, tuple(row[index] for row in rows))
            for index, resource in enumerate(resources)
        )
        needed = tuple(column for column in columns if any(column[1]))
        return Variant(need, nodes, tasks, resources, rows, mask, required, needed)

    def variants(self, demand: Demand) -> list[Variant]:
        """Return the ways to place a job on nodes alike, fewest nodes first."""
        for counts in (self._counts(demand), _every_count(demand.need)):
            variants = []
            for nodes, tasks in counts:
                variant = self.variant(demand, _per_node(demand.need, nodes), nodes, tasks)
                if variant is not None:
                    variants.append(variant)
            if variants:
                return variants
        return []

    def _counts(self, demand: Demand) -> list[tuple[int, int]]:
        """Return (nodes, tasks per node) to consider, those to prefer first."""
        need = demand.need
        lowest = need.nodes_min
        empty = [empty_node(0, spec) for spec in self.kinds]
        for name, kind, count in need.gres_total:
            each = max((usable_devices(need, node, name, kind) for node in empty), default=0)
            if not each:
                return []
            lowest = max(lowest, -(-count // each))
        if need.fixed_tasks_per_node:
            if need.is_ranged:
                most = max(lowest, min(need.nodes_max, demand.suitable))
                return [(count, need.tasks_per_node) for count in node_counts(need, lowest, most)]
            return [(lowest, need.tasks_per_node)]
        most_tasks = max((tasks_that_fit(need, node) for node in empty), default=0)
        if not most_tasks:
            return []
        nodes = max(lowest, -(-need.tasks // most_tasks))
        if need.is_ranged:
            most = min(need.nodes_max, max(nodes, demand.suitable))
            return [(count, -(-need.tasks // count)) for count in node_counts(need, nodes, most)]
        counts: list[tuple[int, int]] = []
        widest = min(need.nodes_max, max(nodes, need.tasks))
        while nodes <= widest and len(counts) < _ALTERNATIVES:
            counts.append((nodes, -(-need.tasks // nodes)))
            nodes *= 2
        return counts


def _every_count(need: Need) -> list[tuple[int, int]]:
    """Return (nodes, tasks per node) for the least nodes and some more: where doubling missed."""
    if need.fixed_tasks_per_node or need.is_ranged:
        return []
    most = min(need.nodes_max, need.nodes_min + _MOST_COUNTS, max(need.nodes_min, need.tasks))
    return [(nodes, -(-need.tasks // nodes)) for nodes in range(need.nodes_min, most + 1)]


def _per_node(need: Need, nodes: int) -> Need:
    """Return the need with totals over all nodes turned into an equal share of each."""
    if not need.gres_total:
        return need
    shares = tuple((name, kind, -(-count // nodes)) for name, kind, count in need.gres_total)
    return replace(need, gres_per_node=need.gres_per_node + shares, gres_total=())


def _spec(specs: Sequence[NodeSpec | None], node_id: int) -> NodeSpec:
    spec = specs[node_id]
    assert spec is not None, node_id
    return spec


def _hardware(spec: NodeSpec) -> tuple[object, ...]:
    counts = tuple(
        (gres.name, gres.type, gres.count, gres.cores, gres.flags, gres.parts) for gres in spec.gres
    )
    return (
        spec.cpus, spec.sockets, spec.cores_per_socket, spec.threads_per_core, counts,
        schedulable_mem_mib(spec), spec.tmp_disk_mib, spec.core_spec_count, spec.cpu_spec_list,
        spec.restricted_cores_per_gpu, spec.is_special_first,
    )  # fmt: skip
