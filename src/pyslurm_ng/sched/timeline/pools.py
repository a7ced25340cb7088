"""Planning by counts, if nodes are alike and every job takes whole ones.

If the nodes for a job are interchangeable and given whole, a plan needs no node before the job
starts. A count for each moment is exact, and no choice of nodes can be wrong. Nodes fall into
pools; jobs of one pool may use all of it and nothing else. Licences are pools, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from operator import and_, attrgetter, itemgetter
from typing import Any

from pyslurm_ng._select import NEVER, Profile
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.model.license_server import license_counts
from pyslurm_ng.model.node import NodeSpec
from pyslurm_ng.sched.cons_tres.allot import allot
from pyslurm_ng.sched.cons_tres.fit import tasks_that_fit
from pyslurm_ng.sched.cons_tres.free_node import empty_node, free_node
from pyslurm_ng.sched.cons_tres.select import share_tasks
from pyslurm_ng.sched.demand.demand import Demand, Entry
from pyslurm_ng.sched.frame.plan import PastPromises, PlannedNodes
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.request.need import Need
from pyslurm_ng.sched.timeline.finding import Finding
from pyslurm_ng.sched.timeline.freed_nodes import (
    SOON_US,
    End,
    FreedNodes,
    busy_until_us,
    expected_end_us,
)
from pyslurm_ng.sched.timeline.promises import Promises
from pyslurm_ng.sched.timeline.room_planner import Settled

_MOST_SHARES = 1000
_share = attrgetter(*NodeAlloc.__struct_fields__[1:])  # all but the node


class Pool:
    """Interchangeable nodes; `spec` stands for all of them."""

    __slots__ = (
        "_in_use",
        "_mask",
        "_order",
        "_others",
        "_shares",
        "_size",
        "_taken",
        "kind",
        "node_ids",
        "spec",
    )

    def __init__(self, kind: int, mask: bytes, node_ids: list[int], snapshot: Snapshot) -> None:
        self.kind = kind
        self.node_ids = node_ids
        spec = snapshot.specs[node_ids[0]]
        assert spec is not None, node_ids
        self.spec: NodeSpec = spec
        weights = snapshot.weights
        order = sorted(node_ids, key=lambda node_id: (weights[node_id], node_id))
        # Positions in the order of use are node ids where all nodes weigh the same.
        weighs_alike = weights[order[0]] == weights[order[-1]]
        self._order: list[int] | None = None if weighs_alike else order
        self._size = len(mask)
        self._mask = int.from_bytes(mask, "little")
        self._others = int.from_bytes(b"\1" * self._size, "little") ^ self._mask
        self._in_use = 0
        self._taken: bytearray | None = None
        # By node what a job gets, a column for each thing.
        self._shares: dict[tuple[Need, int], tuple[tuple[Any, ...], ...]] = {}

    def begin(self, in_use: int) -> int:
        """Forget the last pass; return how many nodes are idle, given a byte for each in use."""
        self._taken = None
        self._in_use = in_use
        return len(self.node_ids) - (self._mask & in_use).bit_count()

    def taken(self) -> bytearray:
        """Return a byte for each node in the order of use: 0 where it is idle and not yet given."""
        if self._taken is None:
            column = (self._in_use | self._others).to_bytes(self._size, "little")
            by_use = column if self._order is None else itemgetter(*self._order)(column)
            self._taken = bytearray(by_use)
        return self._taken

    def give(self, count: int) -> list[int] | None:
        """Return idle nodes in order of their ids, given from now on; None: there are too few."""
        taken, order = self.taken(), self._order
        if taken.count(0) < count:
            return None
        positions = []
        position = -1
        for _ in range(count):
            position = taken.find(0, position + 1)
            taken[position] = 1
            positions.append(position)
        return positions if order is None else sorted(order[position] for position in positions)

    def restore(self, taken: bytearray) -> None:
        """Have the nodes idle again that were then."""
        self._taken = taken

    def allot(
        self, snapshot: Snapshot, demand: Demand, node_ids: list[int]
    ) -> tuple[NodeAlloc, ...]:
        """Return what a job gets on some idle nodes, in order of their ids."""
        need = demand.need
        known = self._shares.get((need, len(node_ids)))
        if known is not None:
            return tuple(map(NodeAlloc, node_ids, *known))
        nodes = [free_node(snapshot, node_id) for node_id in node_ids]
        chosen = share_tasks(need, [(node, tasks_that_fit(need, node)) for node in nodes])
        assert chosen is not None, need
        allocs = allot(need, chosen)
        # Nodes of other weights may be given other numbers of tasks.
        if self._order is None:
            if len(self._shares) > _MOST_SHARES:
                self._shares.clear()
            self._shares[need, len(node_ids)] = tuple(zip(*map(_share, allocs), strict=True))
        return allocs


class Pools:
    """The pools of one state of nodes and partitions; each `begin` starts a new plan."""

    learns = False
    past_promises: PastPromises | None = (
        None  # no node is promised: here none is better than another
    )

    def __init__(self, most_slots: int = 4096) -> None:
        self._most_slots = most_slots
        self._pools: dict[bytes, Pool] = {}
        self._licenses: dict[str, int] = {}  # the kind that each of them is in the profile
        self._are_disjoint = True
        self._trial: list[tuple[Demand, int]] | None = None
        self._freed = FreedNodes()

    def fit(self, snapshot: Snapshot, demands: Iterable[Demand]) -> bool:
        """Sort all demands into pools; False if one of them needs single nodes planned."""
        self._snapshot = snapshot
        if any(topology.kind != "flat" for topology in snapshot.topologies):
            return False  # nodes are not interchangeable
        may_spread = False
        for demand in demands:
            if demand.verdict is not None:
                continue
            if demand.index < 0:
                demand.index = self._enter(demand)
            if not demand.index:
                return False
            need = demand.need
            may_spread = may_spread or (need.nodes_max > demand.index and not need.is_exclusive)
        if may_spread and any(map(and_, snapshot.in_use, map(bool, snapshot.cpus_free))):
            return False  # tasks could use what is left of nodes that others have a part of
        return self._are_disjoint

    def _enter(self, demand: Demand) -> int:
        """Return how many nodes of its pool a job takes; 0 if it fits no pool."""
        need = demand.need
        if need.required_nodes or need.gres_total or need.is_choosy or need.is_ranged:
            return 0
        if need.sharing or need.is_capped or demand.may_join:
            return 0
        pool = self._pools.get(demand.mask)
        if pool is None:
            node_ids = [node_id for node_id, is_in in enumerate(demand.mask) if is_in]
            if not _are_alike(self._snapshot, node_ids):
                return 0
            kind = len(self._pools) + len(self._licenses)
            pool = self._pools[demand.mask] = Pool(kind, demand.mask, node_ids, self._snapshot)
            self._freed = FreedNodes({pool.kind: pool.node_ids for pool in self._pools.values()})
            masks = list(self._pools)
            self._are_disjoint = sum(mask.count(1) for mask in masks) == _union(masks)
        demand.pool = pool
        kinds, amounts = [pool.kind], [whole_nodes(demand, pool.spec)]
        for name, count in demand.licenses:
            kinds.append(self._licenses.setdefault(name, len(self._pools) + len(self._licenses)))
            amounts.append(count)
        demand.kinds_amounts = tuple(kinds), tuple(amounts)
        return amounts[0]

    def begin(self, demands: Iterable[Demand], window_s: int) -> None:
        """Enter what is free now, and later when running jobs have reached their limits."""
        snapshot = self._snapshot
        now_us = snapshot.now_us
        self._end_us = min(now_us + window_s * SECOND_US, snapshot.until_us)
        in_use = int.from_bytes(snapshot.in_use, "little")
        amounts = [0] * max(1, len(self._pools) + len(self._licenses))
        busy = amounts[:]
        for pool in self._pools.values():
            amounts[pool.kind] = pool.begin(in_use)
            busy[pool.kind] = len(pool.node_ids) - amounts[pool.kind]
        ends = self._freed.ends(snapshot, busy)
        if ends is None:
            ends = self._ends_by_node(snapshot)
        if self._licenses:
            for name, kind in self._licenses.items():
                amounts[kind] = snapshot.licenses_free.get(name, 0)
            ends = sorted([*ends, *_licenses_back(snapshot, self._licenses)])
        self._profile = Profile(now_us, amounts, self._most_slots)
        self._profile.release_all(ends)
        for demand in demands:
            demand.tries_us = now_us

    @property
    def slots(self) -> int:
        """How many stretches of time the profile has by now."""
        return len(self._profile)

    def _ends_by_node(self, snapshot: Snapshot) -> list[End]:
        """Return how many nodes come back when, node by node: some have several jobs."""
        busy_until, in_use = busy_until_us(snapshot), snapshot.in_use
        soon_us = snapshot.now_us + SOON_US
        ends: defaultdict[tuple[int, int], int] = defaultdict(int)
        for pool in self._pools.values():
            for node_id in pool.node_ids:
                if in_use[node_id]:
                    ends[busy_until.get(node_id, soon_us), pool.kind] += 1
        return sorted((end_us, kind, count) for (end_us, kind), count in ends.items())

    def find(self, demand: Demand) -> Finding:
        """Return the earliest start of one more job."""
        kinds, amounts = demand.kinds_amounts
        start_us = self._profile.find(kinds, amounts, demand.duration_us, demand.tries_us)
        if start_us == NEVER or start_us >= self._end_us:
            demand.tries_us = self._end_us
            return Finding(demand, NEVER)
        demand.tries_us = start_us
        return Finding(demand, start_us)

    def place(self, demand: Demand, job_id: int) -> int:
        """Find the earliest start and keep room there at once, if it is not now."""
        finding = self.find(demand)
        if finding.start_us not in (NEVER, self._snapshot.now_us):
            self.take(finding)
        return finding.start_us

    def recall(self, job_id: int, finding: Finding, first_us: int) -> Finding:
        """Return the finding: which nodes a job was promised does not matter here."""
        return finding

    def promised_as(self, job_id: int, demand: Demand) -> Demand | None:
        """Return None: see `recall`."""
        return None

    def place_next(
        self,
        queue: list[Entry],
        first: int,
        settled: Settled,
        keeps: bytes | None,
    ) -> list[int]:
        """Keep room for the next jobs of a queue at once: see `RoomPlanner`."""
        return self._profile.place_next(queue, first, settled(), self._end_us, keeps)

    def learn(self, demand: Demand) -> None:
        """Do nothing: `place_next` takes all demands that have a pool."""

    def take(self, finding: Finding, job_id: int = 0) -> None:
        """Keep room for a job."""
        demand, start_us = finding.demand, finding.start_us
        kinds, amounts = demand.kinds_amounts
        self._profile.take(start_us, demand.duration_us, kinds, amounts)
        if self._trial is not None:
            self._trial.append((demand, start_us))

    def nodes_of(self, finding: Finding) -> Iterable[int]:
        """Return none: nodes are given whole, so no two jobs share one."""
        return ()

    # Trials: room for several jobs at once, or none at all -------------------------------------

    def find_from(self, demand: Demand, at_us: int) -> Finding:
        """Return the earliest start not before a moment."""
        kinds, amounts = demand.kinds_amounts
        start_us = self._profile.find(kinds, amounts, demand.duration_us, at_us)
        has_room = start_us != NEVER and start_us < self._end_us
        return Finding(demand, start_us if has_room else NEVER)

    def begin_trial(self) -> None:
        """From here on all that is taken or started can be given back."""
        self._trial = []
        self._taken = [(pool, pool.taken()[:]) for pool in self._pools.values()]

    def keep(self) -> None:
        """End the trial; what it has taken stays taken."""
        self._trial = None

    def roll_back(self) -> None:
        """End the trial as if it had never been."""
        for demand, start_us in reversed(self._trial or ()):
            kinds, amounts = demand.kinds_amounts
            less = tuple(-amount for amount in amounts)
            self._profile.take(start_us, demand.duration_us, kinds, less)
        for pool, taken in self._taken:
            pool.restore(taken)
        self._trial = None

    def start(self, finding: Finding) -> tuple[NodeAlloc, ...] | None:
        """Return what a job gets that starts now, and hold it."""
        demand = finding.demand
        pool = demand.pool
        assert isinstance(pool, Pool)
        node_ids = pool.give(demand.index)
        if node_ids is None:
            return None
        self.take(finding)
        return pool.allot(self._snapshot, demand, node_ids)

    def planned_nodes(self, reservations: Promises) -> PlannedNodes:
        """Return likely nodes for (job id, demand, start), those that are free longest by then."""
        snapshot = self._snapshot
        return PlannedNodes(lambda: self._likely_nodes(snapshot, reservations))

    def _likely_nodes(
        self, snapshot: Snapshot, reservations: Promises
    ) -> dict[int, tuple[int, ...]]:
        free_at = {node_id: 0 for pool in self._pools.values() for node_id in pool.node_ids}
        free_at |= busy_until_us(snapshot)
        nodes = {}
        for job_id, demand, start_us in sorted(
            reservations, key=lambda reservation: reservation[2]
        ):
            pool = demand.pool
            assert isinstance(pool, Pool)
            ready = sorted(
                (node_id for node_id in pool.node_ids if free_at[node_id] <= start_us),
                key=lambda node_id: (-free_at[node_id], node_id),
            )[: demand.index]
            if len(ready) == demand.index:
                nodes[job_id] = tuple(sorted(ready))
                for node_id in ready:
                    free_at[node_id] = start_us + demand.duration_us
        return nodes


def _licenses_back(snapshot: Snapshot, kinds: Mapping[str, int]) -> Iterator[End]:
    """Return when how many licences of some kinds come back."""
    for record in snapshot.running:
        if record.licenses:
            end_us = expected_end_us(record.end_us, snapshot.now_us)
            for name, count in license_counts(record.licenses):
                if name in kinds:
                    yield end_us, kinds[name], count


def _union(masks: list[bytes]) -> int:
    """Return how many nodes are in any of the masks."""
    union = 0
    for mask in masks:
        union |= int.from_bytes(mask, "little")
    return union.bit_count()


def _are_alike(snapshot: Snapshot, node_ids: list[int]) -> bool:
    """Return whether nodes, one at least, have the same hardware."""
    kinds = set()
    for node_id in node_ids:
        spec = snapshot.specs[node_id]
        if spec is None:
            return False
        kinds.add(_hardware(spec))
    return len(kinds) == 1


def _hardware(spec: NodeSpec) -> tuple[object, ...]:
    return (
        spec.cpus, spec.sockets, spec.cores_per_socket, spec.threads_per_core, spec.gres,
        spec.real_memory_mib, spec.mem_spec_limit_mib, spec.tmp_disk_mib, spec.core_spec_count,
        spec.cpu_spec_list, spec.restricted_cores_per_gpu, spec.is_special_first,
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
