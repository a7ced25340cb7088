"""Planning by counts, where nodes are alike and every job takes whole ones.

When the nodes a job may use are interchangeable and given whole, a plan needs no node before the
job starts: a count per moment is exact, and nothing is lost to the wrong choice of nodes. Nodes
fall into pools; jobs of one pool may use all of it and nothing else. Licences are pools, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from pyslurm_ng._select import NEVER, Profile
from pyslurm_ng.model.cluster import license_counts
from pyslurm_ng.model.ids import INFINITE
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.model.node import NodeSpec
from pyslurm_ng.sched.demand import Demand
from pyslurm_ng.sched.plan import PlannedNodes
from pyslurm_ng.sched.select import allot, empty_node, free_node, share_tasks, tasks_that_fit
from pyslurm_ng.sched.snapshot import NO_END_US, Snapshot

# What is overdue, or cleaning up, is expected to be gone by then.
SOON_US = 60_000_000


class Pool:
    """Interchangeable nodes; `spec` stands for all of them."""

    __slots__ = ("idle", "kind", "node_ids", "spec")

    def __init__(self, kind: int, node_ids: list[int], spec: NodeSpec) -> None:
        self.kind = kind
        self.node_ids = node_ids
        self.spec = spec
        self.idle: list[int] = []  # the next to use last


class Pools:
    """The pools of one state of nodes and partitions; planning anew with each `begin`."""

    lies_badly = False  # here no node is better than another

    def __init__(self, most_slots: int = 4096) -> None:
        self._most_slots = most_slots
        self._pools: dict[bytes, Pool] = {}
        self._licenses: dict[str, int] = {}
        self._are_disjoint = True
        self._trial: list[tuple[Demand, int]] | None = None

    def fit(self, snapshot: Snapshot, demands: Iterable[Demand]) -> bool:
        """Sort all demands into pools; False if one of them needs single nodes planned."""
        self._snapshot = snapshot
        if any(topology.kind != "flat" for topology in snapshot.topologies):
            return False  # nodes are not interchangeable
        for demand in demands:
            if demand.verdict is not None:
                continue
            if demand.index < 0:
                demand.index = self._enter(demand)
            if not demand.index:
                return False
        return self._are_disjoint

    def _enter(self, demand: Demand) -> int:
        """Return how many nodes of its pool a job takes; 0 if it fits no pool."""
        need = demand.need
        if need.required_nodes or need.gres_total or need.is_choosy or need.is_ranged:
            return 0
        if need.sharing or need.max_cpus_per_node < INFINITE:
            return 0
        pool = self._pools.get(demand.mask)
        if pool is None:
            node_ids = [node_id for node_id, is_in in enumerate(demand.mask) if is_in]
            spec = _common_spec(self._snapshot, node_ids)
            if spec is None:
                return 0
            pool = self._pools[demand.mask] = Pool(len(self._pools), node_ids, spec)
            masks = list(self._pools)
            self._are_disjoint = sum(mask.count(1) for mask in masks) == _union(masks)
        for name, _ in demand.licenses:
            self._licenses.setdefault(name, len(self._licenses))
        demand.place = pool
        return whole_nodes(demand, pool.spec)

    def begin(self, demands: Iterable[Demand], window_s: int) -> None:
        """Enter what is free now, and later when running jobs have reached their limits."""
        snapshot = self._snapshot
        self._end_us = snapshot.now_us + window_s * 1_000_000
        busy_until, license_ends = _busy(snapshot)
        order = snapshot.weights
        amounts = []
        ends: Counter[tuple[int, int]] = Counter()
        for pool in self._pools.values():
            in_use = snapshot.in_use
            pool.idle = [node_id for node_id in pool.node_ids if not in_use[node_id]]
            pool.idle.sort(key=lambda node_id: (-order[node_id], -node_id))
            amounts.append(len(pool.idle))
            for node_id in pool.node_ids:
                if in_use[node_id]:
                    ends[busy_until.get(node_id, snapshot.now_us + SOON_US), pool.kind] += 1
        first = len(amounts)
        for name, index in self._licenses.items():
            amounts.append(snapshot.licenses_free.get(name, 0))
            for end_us, count in license_ends.get(name, ()):
                ends[end_us, first + index] += count
        self._profile = Profile(snapshot.now_us, amounts or [0], self._most_slots)
        for (end_us, kind), count in sorted(ends.items()):
            if end_us < NO_END_US:
                self._profile.release(end_us, kind, count)
        for demand in demands:
            if demand.verdict is None:
                demand.tries_us = snapshot.now_us
                assert isinstance(demand.place, Pool)
                kinds = [demand.place.kind]
                wanted = [demand.index]
                for name, count in demand.licenses:
                    kinds.append(first + self._licenses[name])
                    wanted.append(count)
                demand.kinds_amounts = (tuple(kinds), tuple(wanted))

    def find(self, demand: Demand) -> int:
        """Return the earliest start of one more job, or NEVER."""
        kinds, amounts = demand.kinds_amounts
        start_us = self._profile.find(kinds, amounts, demand.duration_us, demand.tries_us)
        if start_us == NEVER or start_us >= self._end_us:
            demand.tries_us = self._end_us
            return NEVER
        demand.tries_us = start_us
        return start_us

    def place(self, demand: Demand) -> int:
        """Find the earliest start and keep room there at once, if it is not now."""
        start_us = self.find(demand)
        if start_us not in (NEVER, self._snapshot.now_us):
            self.take(demand, start_us)
        return start_us

    def take(self, demand: Demand, start_us: int) -> None:
        """Keep room for a job."""
        kinds, amounts = demand.kinds_amounts
        self._profile.take(start_us, demand.duration_us, kinds, amounts)
        if self._trial is not None:
            self._trial.append((demand, start_us))

    # Trials: room for several jobs at once, or none at all -------------------------------------

    def find_from(self, demand: Demand, at_us: int) -> int:
        """Return the earliest start not before a moment, or NEVER."""
        kinds, amounts = demand.kinds_amounts
        start_us = self._profile.find(kinds, amounts, demand.duration_us, at_us)
        return NEVER if start_us == NEVER or start_us >= self._end_us else start_us

    def begin_trial(self) -> None:
        """From here on all that is taken or started can be given back."""
        self._trial = []
        self._idle = [(pool, pool.idle[:]) for pool in self._pools.values()]

    def keep(self) -> None:
        """End the trial; what it has taken stays taken."""
        self._trial = None

    def roll_back(self) -> None:
        """End the trial as if it had never been."""
        for demand, start_us in reversed(self._trial or ()):
            kinds, amounts = demand.kinds_amounts
            less = tuple(-amount for amount in amounts)
            self._profile.take(start_us, demand.duration_us, kinds, less)
        for pool, idle in self._idle:
            pool.idle = idle
        self._trial = None

    def start(self, demand: Demand) -> tuple[NodeAlloc, ...] | None:
        """Return what a job gets that starts now, and hold it."""
        pool = demand.place
        assert isinstance(pool, Pool)
        count = demand.index
        if len(pool.idle) < count:
            return None
        self.take(demand, self._snapshot.now_us)
        node_ids = sorted(pool.idle[-count:])
        del pool.idle[-count:]
        need = demand.need
        nodes = [free_node(self._snapshot, node_id) for node_id in node_ids]
        chosen = share_tasks(need, [(node, tasks_that_fit(need, node)) for node in nodes])
        assert chosen is not None, need
        return allot(need, chosen)

    def planned_nodes(self, reservations: list[tuple[int, Demand, int]]) -> PlannedNodes:
        """Return likely nodes for (job id, demand, start), those that are free longest by then."""
        snapshot = self._snapshot
        return PlannedNodes(lambda: self._likely_nodes(snapshot, reservations))

    def _likely_nodes(
        self, snapshot: Snapshot, reservations: list[tuple[int, Demand, int]]
    ) -> dict[int, tuple[int, ...]]:
        free_at = {node_id: 0 for pool in self._pools.values() for node_id in pool.node_ids}
        free_at |= _busy(snapshot)[0]
        found = {}
        for job_id, demand, start_us in sorted(reservations, key=lambda item: item[2]):
            pool = demand.place
            assert isinstance(pool, Pool)
            ready = sorted(
                (node_id for node_id in pool.node_ids if free_at[node_id] <= start_us),
                key=lambda node_id: (-free_at[node_id], node_id),
            )[: demand.index]
            if len(ready) == demand.index:
                found[job_id] = tuple(sorted(ready))
                for node_id in ready:
                    free_at[node_id] = start_us + demand.duration_us
        return found


def _busy(snapshot: Snapshot) -> tuple[dict[int, int], dict[str, list[tuple[int, int]]]]:
    """Return until when nodes are busy, and when how many licences come back."""
    now_us = snapshot.now_us
    busy: dict[int, int] = {}
    licenses: dict[str, list[tuple[int, int]]] = {}
    for _, end_us, nodes, names, *_ in snapshot.running:
        if end_us <= now_us:
            end_us = now_us + SOON_US
        for alloc in nodes:
            if end_us > busy.get(alloc.node_id, 0):
                busy[alloc.node_id] = end_us
        if names:
            for name, count in license_counts(names):
                licenses.setdefault(name, []).append((end_us, count))
    return busy, licenses


def _union(masks: list[bytes]) -> int:
    """Return how many nodes are in any of the masks."""
    union = 0
    for mask in masks:
        union |= int.from_bytes(mask, "little")
    return union.bit_count()


def _common_spec(snapshot: Snapshot, node_ids: list[int]) -> NodeSpec | None:
    """Return a node that stands for all, or None if they differ in what they have."""
    first = snapshot.specs[node_ids[0]] if node_ids else None
    if first is None:
        return None
    wanted = _hardware(first)
    for node_id in node_ids:
        spec = snapshot.specs[node_id]
        if spec is None or _hardware(spec) != wanted:
            return None
    return first


def _hardware(spec: NodeSpec) -> tuple[object, ...]:
    return (
        spec.cpus, spec.sockets, spec.cores_per_socket, spec.threads_per_core, spec.gres,
        spec.real_memory_mib, spec.mem_spec_limit_mib, spec.tmp_disk_mib, spec.core_spec_count,
        spec.cpu_spec_list,
    )  # fmt: skip


def whole_nodes(demand: Demand, spec: NodeSpec) -> int:
    """Return how many whole nodes a job takes; 0 if it can take parts of nodes, or cannot fit."""
    need = demand.need
    node = empty_node(0, spec)
    fit = tasks_that_fit(need, node)
    if not fit:
        return 0
    if need.fixed_tasks_per_node:
        count, least = need.nodes_min, need.tasks_per_node
    else:
        count = max(need.nodes_min, -(-need.tasks // fit))
        least = max(1, need.tasks // count)
    if count > need.nodes_max:
        return 0
    is_whole = need.is_exclusive or least * need.cpus_per_task > node.cpus() - max(
        1, spec.threads_per_core
    )
    return count if is_whole else 0
