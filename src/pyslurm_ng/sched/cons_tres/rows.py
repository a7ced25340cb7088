"""Room for a job beside others on the same cores, where its partition lets them be shared.

Idle cores are the planner's; here is what it does not see: cores whose jobs all share, of the same
partition and fewer than OverSubscribe= allows. The least crowded come first. Memory and devices are
never shared. For moments to come shared cores count as used until the last of their jobs is over.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from pyslurm_ng.model import gres_parts
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.model.rows import Load, may_mix, row_count, rows_of
from pyslurm_ng.sched.cons_tres.allot import allot
from pyslurm_ng.sched.cons_tres.cores import usable_cores
from pyslurm_ng.sched.cons_tres.free_node import FreeNode, free_node
from pyslurm_ng.sched.cons_tres.layouts import layouts_of
from pyslurm_ng.sched.cons_tres.select import choose
from pyslurm_ng.sched.cons_tres.starting import start_of
from pyslurm_ng.sched.cons_tres.topology import Layout
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame import reserved
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.plan import Plan, Start
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.request.sharing import Neighbours, Units


def pass_layouts(snapshot: Snapshot) -> dict[str, Layout]:
    """Return where nodes lie, by partition, for a choice among nodes as they are now."""
    if not snapshot.topologies:
        return {}
    ids = [node_id for node_id, spec in enumerate(snapshot.specs) if spec is not None]
    ids.sort(key=lambda node_id: (snapshot.weights[node_id], node_id))
    position = {node_id: index for index, node_id in enumerate(ids)}
    weights = [snapshot.weights[node_id] for node_id in ids]
    return layouts_of(snapshot.topologies, snapshot.partitions.values(), position, weights)


def any_shares(snapshot: Snapshot) -> bool:
    """Return whether some partition lets jobs share cores."""
    return any(row_count(partition) > 1 for partition in snapshot.partitions.values())


class Sharing:
    """The search for shared room in one pass."""

    def __init__(self, snapshot: Snapshot, plan: Plan) -> None:
        self._snapshot = snapshot
        self._plan = plan
        self._seen_starts = 0
        self._requests = {job.job_id: job.request for job in snapshot.waiting}
        self._loads: dict[tuple[int, str], Load] = {}  # of jobs that share, by node and partition
        self._partitions_on: dict[int, dict[str, None]] = {}  # names in `_loads`, by node
        self._nodes: dict[int, FreeNode] = {}
        self._busy: dict[int, int] = {}  # cores taken in this pass
        self._alone: dict[int, int] = {}  # cores of running jobs that share with no other, by node
        self._layouts = pass_layouts(snapshot)
        self._failed: set[int] = set()
        self._neighbours = Neighbours(Units(snapshot.topologies, snapshot.partitions))
        for running_job in snapshot.running:
            if running_job.tenant.sharing:
                cpus = {alloc.node_id: alloc.cpus for alloc in running_job.nodes}
                self._neighbours.add(running_job.tenant, cpus, 0)
            is_an_operators = running_job.victim is None or not running_job.victim.preemptor
            if not running_job.is_suspended or (running_job.rows > 1 and not is_an_operators):
                self._count(running_job.tenant.partition, running_job.rows, running_job.nodes)

    def _count(self, name: str, rows: int, nodes: tuple[NodeAlloc, ...]) -> None:
        for alloc in nodes:
            node_id, cores = alloc.node_id, int.from_bytes(alloc.cores, "little")
            if rows > 1:
                self._loads.setdefault((node_id, name), Load()).add(cores)
                self._partitions_on.setdefault(node_id, {})[name] = None
            else:
                self._alone[node_id] = self._alone.get(node_id, 0) | cores

    def _catch_up(self) -> None:
        """Enter what has started in this pass meanwhile, or preempted others for its room."""
        starts = self._plan.starts
        for start in starts[self._seen_starts :]:
            self._enter(start)
        self._seen_starts = len(starts)

    def _enter(self, start: Start) -> None:
        if start.tenant.sharing:
            cpus = {alloc.node_id: alloc.cpus for alloc in start.nodes}
            self._neighbours.add(start.tenant, cpus, 0)
        for alloc in start.nodes:
            node = self._node(alloc.node_id)
            cores = int.from_bytes(alloc.cores, "little")
            self._busy[alloc.node_id] = self._busy.get(alloc.node_id, 0) | cores
            node.mem_mib -= alloc.mem_mib
            node.is_idle = False
            for gres in alloc.gres:
                gres_parts.hold(node.gres_busy, node.gres_used, gres)
        request = self._requests.get(start.job_id)
        if request is not None:
            rows = rows_of(self._snapshot.partitions.get(start.partition), request)
            self._count(start.partition, rows, start.nodes)

    def _node(self, node_id: int) -> FreeNode:
        node = self._nodes.get(node_id)
        if node is None:
            node = self._nodes[node_id] = free_node(self._snapshot, node_id)
        return node

    def busy_cores(self, node_id: int) -> int:
        """Return the cores of a node that some job has."""
        return self._snapshot.cores_busy[node_id] | self._busy.get(node_id, 0)

    def find(
        self,
        job: Waiting,
        demand: Demand,
        task_id: int,
        licenses_free: Mapping[str, int],
        closed: frozenset[int],
    ) -> Start | None:
        """Return a start on shared cores, None if there is no room.

        Args:
            closed: nodes that others were promised for the time that the job would run.
        """
        rows = rows_of(demand.partition, job.request)
        if rows <= 1 or demand.need.is_exclusive or demand.need.sharing:
            return None
        if id(demand) in self._failed:
            return None
        if self._plan.preemptions:
            return None  # their room is in no start yet: the next pass knows
        if any(licenses_free.get(name, 0) < count for name, count in demand.licenses):
            return None
        self._catch_up()
        snapshot = self._snapshot
        blocked = closed | reserved.blocked_nodes(
            snapshot.reservations,
            reserved.OUTSIDE,
            snapshot.now_us,
            snapshot.now_us + demand.duration_us,
        )
        node_ids = [
            node_id
            for node_id in demand.partition.node_ids
            if demand.mask[node_id] and node_id not in blocked
        ]
        for crowd in range(1, rows):
            nodes = [self._view(node_id, demand.partition.name, crowd) for node_id in node_ids]
            layout = self._layouts.get(demand.partition.name)
            chosen = choose(demand.need, (node for node in nodes if node.cores), layout)
            if chosen is not None:
                allocs = allot(demand.need, chosen)
                return start_of(job, demand, task_id, allocs, snapshot.features)
        self._failed.add(id(demand))
        return None

    def _view(self, node_id: int, partition: str, crowd: int) -> FreeNode:
        """Return a node with the cores that have at most `crowd` jobs, all of which share."""
        node = self._node(node_id)
        usable = usable_cores(node.spec)
        cores = usable & ~self.busy_cores(node_id)
        partitions = self._snapshot.partitions
        # Of jobs that preempted others, which may wait for their turn there.
        shared, closed = 0, self._alone.get(node_id, 0)
        for name in self._partitions_on.get(node_id, ()):
            load = self._loads[node_id, name]
            if name == partition:
                closed |= load.with_jobs(crowd + 1)
            elif not may_mix(partitions.get(name), partitions.get(partition)):
                closed |= load.with_jobs(1)
            shared |= load.with_jobs(1)
        cores |= usable & shared & ~closed
        if any(guest.tenant.sharing for guest in self._neighbours.on(node_id)):
            cores = 0  # whose jobs share with their own only are left in peace
        return dataclasses.replace(
            node, cores=cores, gres_busy=dict(node.gres_busy), gres_used=dict(node.gres_used)
        )


def own_part(allocs: tuple[NodeAlloc, ...], sharing: Sharing) -> tuple[NodeAlloc, ...]:
    """Return what a start takes that no other job has: cores count once on the timeline."""
    parts = []
    for alloc in allocs:
        cores = int.from_bytes(alloc.cores, "little")
        own = cores & ~sharing.busy_cores(alloc.node_id)
        threads = alloc.cpus // max(1, cores.bit_count())
        mask = own.to_bytes((own.bit_length() + 7) // 8, "little")
        cpus = own.bit_count() * threads
        parts.append(NodeAlloc(alloc.node_id, cpus, mask, alloc.mem_mib, alloc.tasks, alloc.gres))
    return tuple(parts)
