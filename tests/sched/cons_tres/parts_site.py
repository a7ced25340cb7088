"""A site whose nodes have GPUs that jobs share in parts."""

from __future__ import annotations

from pyslurm_ng.base.numbers import MINUTE_US
from pyslurm_ng.ctld.queries.job_fields import resources_of
from pyslurm_ng.ctld.queries.nodes import gres_used_text
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.gres_parts import held_parts
from pyslurm_ng.model.node import NodeFacts, NodeGres
from pyslurm_ng.model.states import JobState, NodeState
from pyslurm_ng.sched.frame.plan import Plan
from tests.world.site import Site

PARTS = """
ClusterName=c
SlurmctldHost=h
GresTypes=gpu,shard,mps
SchedulerType={scheduler}
SelectTypeParameters=CR_Core{select}
NodeName=n[1-{nodes}] CPUs=16 Sockets=2 CoresPerSocket=8 Gres=gpu:2,shard:8,mps:200
PartitionName=main Nodes=ALL Default=YES MaxTime=600
"""


class PartsSite(Site):
    """A site whose nodes have two GPUs of four shards each; its jobs are named by their ids."""

    def __init__(
        self,
        nodes: int = 1,
        select: str = "",
        scheduler: str = "sched/backfill",
        gres: tuple[NodeGres, ...] = (),
    ) -> None:
        super().__init__(text=PARTS.format(nodes=nodes, select=select, scheduler=scheduler))
        facts = NodeFacts(gres=gres)
        for node_id in range(nodes):
            self.apply([ev.NodeRegistered(self.now_us, node_id, facts, NodeState.IDLE)])

    def add(self, minutes: int = 30, **wants: object) -> int:
        """Record a job as accepted; return its id."""
        return self.accept(minutes, **wants).job_id

    def run(self, minutes: int = 0) -> Plan:
        """Let time go by and jobs end, then schedule; nothing may be in use twice."""
        self.now_us += minutes * MINUTE_US
        for job_id in list(self.cluster.job_index.active):
            job = self.cluster.jobs[job_id]
            if job.start_us + job.time_limit_min * MINUTE_US <= self.now_us:
                self.end(job_id)
        return self.run_pass()

    def end(self, job_id: int) -> None:
        """Let a job be over, and its nodes clean."""
        state = JobState.COMPLETED
        over = ev.JobCompleting(self.now_us, job_id, state, 0, 0, 0, ())
        self.apply([over, ev.JobEnded(self.now_us, job_id, state)])

    def held(self, job_id: int) -> list[dict[int, int]]:
        """Return on each node the parts that a job has, by GPU."""
        nodes = self.cluster.jobs[job_id].nodes
        return [held_parts(gres) for alloc in nodes for gres in alloc.gres]

    def shown(self, job_id: int) -> str:
        """Return what a job has of its first node's devices, as scontrol shows it."""
        (row, *_) = resources_of(self.cluster, self.cluster.jobs[job_id])
        return str(row[4])

    def used(self) -> str:
        """Return what of the first node's devices is in use, as scontrol shows it."""
        return gres_used_text(self.cluster, self.cluster.node(0))
