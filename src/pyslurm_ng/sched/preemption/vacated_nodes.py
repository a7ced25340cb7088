"""What is free on nodes once some of their jobs have left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyslurm_ng.model import gres_parts
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.model.license_server import license_counts
from pyslurm_ng.model.node import schedulable_mem_mib
from pyslurm_ng.sched.cons_tres.cores import usable_cores
from pyslurm_ng.sched.cons_tres.free_node import FreeNode
from pyslurm_ng.sched.frame.plan import Plan
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.request.sharing import NOBODY, TOPO, Tenant, Units

_MOST_STARTS = 1 << 40  # of one pass


class VacatedNodes:
    """The nodes of one pass with the holdings of each job.

    `modes` has how each victim of the present search is to leave; `work` counts the tests of nodes.
    """

    def __init__(self, snapshot: Snapshot, policy: Policy, plan: Plan) -> None:
        self._snapshot = snapshot
        self._plan = plan
        self._seen_starts = 0
        self._reclaims_licenses = policy.reclaims_licenses
        self.modes: Mapping[int, str] = {}
        self.work = 0
        self.running = {running_job.job_id: running_job for running_job in snapshot.running}
        self._nodes: dict[int, FreeNode] = {}  # free as things are, by node
        self._holders: dict[int, dict[int, NodeAlloc]] = {}  # by node, then job
        self._network = Units(snapshot.topologies, snapshot.partitions)
        self._closed_by: dict[int, set[int]] = {}  # jobs that keep all others away, by node
        self._claims = 0  # made in this pass
        for record in snapshot.running:
            self.hold(record.job_id, record.nodes, record.tenant)

    def hold(self, job_id: int, nodes: Sequence[NodeAlloc], tenant: Tenant = NOBODY) -> None:
        """Enter what a job has of its nodes."""
        if tenant.sharing:
            node_ids: Iterable[int] = [alloc.node_id for alloc in nodes]
            if tenant.sharing == TOPO:
                node_ids = self._network.beside(tenant.partition, node_ids)
            for node_id in node_ids:
                self._closed_by.setdefault(node_id, set()).add(job_id)
            self._nodes.clear()
        for alloc in nodes:
            self._holders.setdefault(alloc.node_id, {})[job_id] = alloc
            self._nodes.pop(alloc.node_id, None)

    def catch_up(self) -> None:
        """Enter what has started in this pass meanwhile."""
        starts = self._plan.starts
        for start in starts[self._seen_starts :]:
            # Negative: no job's id, and several tasks of an array have the same.
            self.hold(-1 - self._seen_starts, start.nodes, start.tenant)
            self._seen_starts += 1

    def claim(self, nodes: Sequence[NodeAlloc]) -> int:
        """Hold what victims leave, under a number that is no job's."""
        self._claims += 1
        self.hold(-_MOST_STARTS - self._claims, nodes)
        return -_MOST_STARTS - self._claims

    def give_back(self, claim: int) -> None:
        """Give back what was held under the number of a claim."""
        self.release(
            claim, [amounts[claim] for amounts in self._holders.values() if claim in amounts]
        )

    def release(self, holder: int, nodes: Iterable[NodeAlloc]) -> None:
        """Take out what a job had of its nodes."""
        for holders in self._closed_by.values():
            holders.discard(holder)
        for alloc in nodes:
            self._holders[alloc.node_id].pop(holder, None)
            self._nodes.pop(alloc.node_id, None)

    def free_of(self, node_id: int, gone: frozenset[int]) -> FreeNode:
        """Return what is free on a node once some jobs have left, as a shared record."""
        if gone and not gone.isdisjoint(self._holders.get(node_id, {})):
            return self.node(node_id, gone)
        node = self._nodes.get(node_id)
        if node is None:
            node = self._nodes[node_id] = self.node(node_id)
        return node

    def node(self, node_id: int, gone: frozenset[int] = frozenset()) -> FreeNode:
        """Return what is free on a node once some jobs have left, as a record to change."""
        spec = self._snapshot.specs[node_id]
        assert spec is not None, node_id
        node = FreeNode(
            node_id=node_id,
            spec=spec,
            cores=usable_cores(spec),
            mem_mib=schedulable_mem_mib(spec),
            gres_busy={},
            gres_used={},
            weight=self._snapshot.weights[node_id],
            features=self._snapshot.features[node_id],
        )
        for job_id, alloc in self._holders.get(node_id, {}).items():
            running_job = self.running.get(job_id)
            is_gone = job_id in gone
            is_suspended = running_job is not None and running_job.is_suspended
            if is_gone and not self._keeps_memory(job_id):
                continue
            node.mem_mib -= alloc.mem_mib
            node.is_idle = node.is_idle and is_gone
            for gres in alloc.gres:
                gres_parts.hold(node.gres_busy, node.gres_used, gres)
            # A job that was suspended to make room keeps its cores from all but jobs that may
            # preempt it.
            if not is_gone and (not is_suspended or self._was_preempted(job_id)):
                node.cores &= ~int.from_bytes(alloc.cores, "little")
        if self._closed_by.get(node_id, gone) - gone:
            node.cores = 0  # whose jobs share with their own only are left in peace
        return node

    def _keeps_memory(self, job_id: int) -> bool:
        """Return whether a victim is suspended: it keeps memory and devices, not its cores."""
        return self.modes.get(job_id) == "SUSPEND"

    def _was_preempted(self, job_id: int) -> bool:
        running_job = self.running.get(job_id)
        return (
            running_job is not None
            and running_job.victim is not None
            and bool(running_job.victim.preemptor)
        )

    def licenses_of(self, job_id: int) -> list[tuple[str, int]]:
        """Return the licences that come back when a job has left, where that may be waited for."""
        running_job = self.running[job_id]
        if not self._reclaims_licenses or self._keeps_memory(job_id):
            return []
        return license_counts(running_job.licenses)
