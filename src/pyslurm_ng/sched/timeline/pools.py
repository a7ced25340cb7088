"""Planning by counts, where nodes are alike and every job takes whole ones.

When the nodes a job may use are interchangeable and given whole, a plan needs no node before the
job starts: a count per moment is exact, and nothing is lost to the wrong choice of nodes. Nodes
fall into pools; jobs of one pool may use all of it and nothing else. Licences are pools, too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import compress
from operator import and_, itemgetter

from pyslurm_ng._select import NEVER, Profile
from pyslurm_ng.model.cluster import license_counts
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.model.node import NodeSpec
from pyslurm_ng.sched.cons_tres.allot import allot
from pyslurm_ng.sched.cons_tres.fit import tasks_that_fit
from pyslurm_ng.sched.cons_tres.free_node import empty_node, free_node
from pyslurm_ng.sched.cons_tres.select import share_tasks
from pyslurm_ng.sched.job_records import NO_END_US, Running
from pyslurm_ng.sched.plan import PlannedNodes
from pyslurm_ng.sched.request.demand import Demand
from pyslurm_ng.sched.request.need import Need
from pyslurm_ng.sched.snapshot import Snapshot
from pyslurm_ng.sched.timeline.promises import Promises

Ends = defaultdict[tuple[int, int], int]  # nodes that come back by (moment, pool)

# What is overdue, or cleaning up, is expected to be gone by then.
SOON_US = 60_000_000
_MOST_SHARES = 1000
_OTHER_WAY = bytes((1, 0)) + bytes(254)


class Pool:
    """Interchangeable nodes; `spec` stands for all of them."""

    __slots__ = ("_idle", "_mask", "_order", "_shares", "_weighs_alike", "kind", "node_ids", "spec")

    def __init__(self, kind: int, mask: bytes, node_ids: list[int], snapshot: Snapshot) -> None:
        self.kind = kind
        self.node_ids = node_ids
        spec = snapshot.specs[node_ids[0]]
        assert spec is not None, node_ids
        self.spec: NodeSpec = spec
        weights = snapshot.weights
        self._order = sorted(node_ids, key=lambda node_id: (-weights[node_id], -node_id))
        self._weighs_alike = weights[self._order[0]] == weights[self._order[-1]]
        self._mask = int.from_bytes(mask, "little")
        self._idle: list[int] | None = None
        self._shares: dict[tuple[Need, int], tuple[NodeAlloc, ...]] = {}

    def begin(self, in_use: int) -> int:
        """Forget the last pass; return how many nodes are idle, given a byte for each in use."""
        self._idle = None
        return len(self.node_ids) - (self._mask & in_use).bit_count()

    def idle(self, snapshot: Snapshot) -> list[int]:
        """Return the nodes that are idle and not yet given, the next to use last."""
        if self._idle is None:
            free = itemgetter(*self._order, 0)(snapshot.in_use.translate(_OTHER_WAY))
            self._idle = list(compress(self._order, free))
        return self._idle

    def restore(self, idle: list[int]) -> None:
        """Have these nodes idle again."""
        self._idle = idle

    def allot(
        self, snapshot: Snapshot, demand: Demand, node_ids: list[int]
    ) -> tuple[NodeAlloc, ...]:
        """Return what a job gets on some idle nodes, in order of their ids."""
        need = demand.need
        known = self._shares.get((need, len(node_ids)))
        if known is not None:
            return tuple(
                NodeAlloc(node_id, one.cpus, one.cores, one.mem_mib, one.tasks, one.gres)
                for node_id, one in zip(node_ids, known, strict=True)
            )
        nodes = [free_node(snapshot, node_id) for node_id in node_ids]
        chosen = share_tasks(need, [(node, tasks_that_fit(need, node)) for node in nodes])
        assert chosen is not None, need
        allocs = allot(need, chosen)
        # Nodes of other weights may be given other numbers of tasks.
        if self._weighs_alike:
            if len(self._shares) > _MOST_SHARES:
                self._shares.clear()
            self._shares[need, len(node_ids)] = allocs
        return allocs


class Pools:
    """The pools of one state of nodes and partitions; planning anew with each `begin`."""

    lies_badly = False  # here no node is better than another
    keeps_places = False
    is_recalled = False

    def __init__(self, most_slots: int = 4096) -> None:
        self._most_slots = most_slots
        self._pools: dict[bytes, Pool] = {}
        self._licenses: dict[str, int] = {}
        self._are_disjoint = True
        self._trial: list[tuple[Demand, int]] | None = None
        self._held = _Held()

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
            kind = len(self._pools)
            pool = self._pools[demand.mask] = Pool(kind, demand.mask, node_ids, self._snapshot)
            self._held = _Held([pool.node_ids for pool in self._pools.values()])
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
        in_use = int.from_bytes(snapshot.in_use, "little")
        pools = self._pools.values()
        amounts = [pool.begin(in_use) for pool in pools]
        busy = [len(pool.node_ids) - amounts[pool.kind] for pool in pools]
        ends = self._held.ends(snapshot, busy)
        if ends is None:
            ends = self._ends(snapshot)
        first = len(amounts)
        if self._licenses:
            license_ends = _licenses_back(snapshot)
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

    @property
    def slots(self) -> int:
        """How many stretches of time the profile has by now."""
        return len(self._profile)

    def _ends(self, snapshot: Snapshot) -> Ends:
        """Return how many nodes come back by (moment, pool), node by node."""
        busy_until, in_use = _busy(snapshot), snapshot.in_use
        ends: Ends = defaultdict(int)
        for pool in self._pools.values():
            for node_id in pool.node_ids:
                if in_use[node_id]:
                    ends[busy_until.get(node_id, snapshot.now_us + SOON_US), pool.kind] += 1
        return ends

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

    def recall(self, job_id: int, demand: Demand, first_us: int, found_us: int) -> int:
        """Return what was found: see `NodePlan`; nobody has to be in the same place again."""
        return found_us

    def promised_as(self, job_id: int, demand: Demand) -> Demand | None:
        """Return None: see `recall`."""
        return None

    def take(self, demand: Demand, start_us: int, job_id: int = 0) -> None:
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
        self._idle = [(pool, pool.idle(self._snapshot)[:]) for pool in self._pools.values()]

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
            pool.restore(idle)
        self._trial = None

    def start(self, demand: Demand) -> tuple[NodeAlloc, ...] | None:
        """Return what a job gets that starts now, and hold it."""
        pool = demand.place
        assert isinstance(pool, Pool)
        count = demand.index
        idle = pool.idle(self._snapshot)
        if len(idle) < count:
            return None
        self.take(demand, self._snapshot.now_us)
        node_ids = sorted(idle[-count:])
        del idle[-count:]
        return pool.allot(self._snapshot, demand, node_ids)

    def planned_nodes(self, reservations: Promises) -> PlannedNodes:
        """Return likely nodes for (job id, demand, start), those that are free longest by then."""
        snapshot = self._snapshot
        return PlannedNodes(lambda: self._likely_nodes(snapshot, reservations))

    def _likely_nodes(
        self, snapshot: Snapshot, reservations: Promises
    ) -> dict[int, tuple[int, ...]]:
        free_at = {node_id: 0 for pool in self._pools.values() for node_id in pool.node_ids}
        free_at |= _busy(snapshot)
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


class _Held:
    """Who holds how many nodes of each pool, kept from pass to pass: a record is read once.

    Counting whole records is exact as long as no node is held by two of them and none is in use
    without a record; `ends` says when it is not.
    """

    def __init__(self, pools: Iterable[list[int]] = ()) -> None:
        self._kind_of = {node_id: kind for kind, ids in enumerate(pools) for node_id in ids}
        self._known: dict[int, tuple[Running, tuple[tuple[int, int], ...]]] = {}
        self._holders: Counter[int] = Counter()
        self._shared = 0  # nodes with several holders

    def ends(self, snapshot: Snapshot, busy: list[int]) -> Ends | None:
        """Return how many nodes come back by (moment, pool), or None if that needs a closer look.

        Args:
            busy: nodes in use of each pool.
        """
        known = self._known
        for record in snapshot.running:
            entry = known.get(record.job_id)
            if entry is None or entry[0] is not record:
                if entry is not None:
                    self._leave(entry[0])
                known[record.job_id] = (record, self._enter(record))
        if len(known) > len(snapshot.running):
            alive = {record.job_id for record in snapshot.running}
            for job_id in [job_id for job_id in known if job_id not in alive]:
                self._leave(known.pop(job_id)[0])
        if self._shared:
            return None
        soon_us = snapshot.now_us + SOON_US
        found: Ends = defaultdict(int)
        left = list(busy)
        for record, counts in known.values():
            end_us = record.end_us if record.end_us > snapshot.now_us else soon_us
            for kind, count in counts:
                found[end_us, kind] += count
                left[kind] -= count
        return None if any(left) else found

    def _enter(self, record: Running) -> tuple[tuple[int, int], ...]:
        holders, kind_of = self._holders, self._kind_of
        counts: dict[int, int] = {}
        for alloc in record.nodes:
            node_id = alloc.node_id
            kind = kind_of.get(node_id)
            if kind is not None:
                counts[kind] = counts.get(kind, 0) + 1
                holders[node_id] += 1
                self._shared += holders[node_id] == 2
        return tuple(counts.items())

    def _leave(self, record: Running) -> None:
        holders = self._holders
        for alloc in record.nodes:
            node_id = alloc.node_id
            if node_id in self._kind_of:
                self._shared -= holders[node_id] == 2
                holders[node_id] -= 1


def _busy(snapshot: Snapshot) -> dict[int, int]:
    """Return until when nodes are busy."""
    now_us = snapshot.now_us
    busy: dict[int, int] = {}
    for record in snapshot.running:
        end_us = record.end_us if record.end_us > now_us else now_us + SOON_US
        for alloc in record.nodes:
            if end_us > busy.get(alloc.node_id, 0):
                busy[alloc.node_id] = end_us
    return busy


def _licenses_back(snapshot: Snapshot) -> dict[str, list[tuple[int, int]]]:
    """Return when how many licences come back, by name."""
    now_us = snapshot.now_us
    found: dict[str, list[tuple[int, int]]] = {}
    for record in snapshot.running:
        if record.licenses:
            end_us = record.end_us if record.end_us > now_us else now_us + SOON_US
            for name, count in license_counts(record.licenses):
                found.setdefault(name, []).append((end_us, count))
    return found


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
