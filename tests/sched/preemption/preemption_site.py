"""Sites where jobs preempt others, with a twin that replays what happens from the journal."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pyslurm_ng.base.numbers import MINUTE_US, SECOND_US
from pyslurm_ng.ctld.rules import timers
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.nodes import reports
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.assoc import Qos
from pyslurm_ng.model.batches import decode_batch, encode_batch
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.duty import DutyKind
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.frame.plan import Plan
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.wire import node_messages as nm
from tests.model.clusters import submit
from tests.world.site import Site

BASE = r"""
ClusterName=demo
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
SelectTypeParameters=CR_Core_Memory
PriorityType=priority/basic
Licenses=matlab:2
NodeName=n[1-4] CPUs=4 RealMemory=4000
"""
TIERS = (
    BASE
    + r"""
PreemptType=preempt/partition_prio
PreemptMode=%s
PartitionName=low Nodes=n[1-4] Default=YES PriorityTier=1 DefMemPerCPU=1000 MaxTime=INFINITE
PartitionName=mid Nodes=n[1-4] PriorityTier=5 DefMemPerCPU=1000 MaxTime=INFINITE
PartitionName=high Nodes=n[1-4] PriorityTier=10 DefMemPerCPU=1000 MaxTime=INFINITE
"""
)


class PreemptionSite(Site):
    """A site whose jobs are named by their ids; the twin must be the same after each pass."""

    def __init__(self, text: str) -> None:
        super().__init__(text=text)
        self.policy = policy(self.conf)
        self.twin = Cluster.from_bytes(self.cluster.to_bytes())

    def apply(self, events: Sequence[ev.AnyEvent]) -> None:
        """Apply events, and to the twin what the journal makes of them."""
        apply_all(self.cluster, events)
        apply_all(self.twin, decode_batch(encode_batch(list(events))))

    def apply_one(self, event: ev.AnyEvent) -> None:
        """Apply one event."""
        self.apply([event])

    def check(self) -> None:
        """See that the cluster is sound, and the twin the same."""
        super().check()
        assert self.cluster.digest() == self.twin.digest()

    def add(
        self,
        partition: str,
        cpus: int,
        *,
        nodes: int = 0,
        minutes: int = 60,
        qos: str = "",
        requeue: bool = True,
        ranges: tuple[tuple[int, int, int], ...] = (),
        **wants: object,
    ) -> int:
        """Record a job of single-CPU tasks as accepted; with `nodes` so many on each of them."""
        if nodes:
            request = JobRequest(nodes_min=nodes, nodes_max=nodes, ntasks=cpus * nodes,
                                 ntasks_per_node=cpus, partition=partition)  # fmt: skip
        else:
            request = JobRequest(ntasks=cpus, nodes_min=1, nodes_max=1, partition=partition)
        request = msgspec.structs.replace(request, **wants)
        job_id = submit(self.cluster, request, self.now_us, time_limit_min=minutes,
                        requeue=requeue, ranges=ranges)  # fmt: skip
        self.twin = Cluster.from_bytes(self.cluster.to_bytes())
        if qos:
            self.apply([ev.JobUpdated(self.now_us, job_id, {"qos": qos})])
        return job_id

    def qos(self, *records: Qos) -> None:
        """Let there be these QOS and no others."""
        self.apply([ev.QosChanged(self.now_us, changed=records, replace=True)])

    def run_pass(self, *, preempts: bool = True) -> Plan:
        """Run one pass, and see that all is sound after it."""
        plan = super().run_pass(preempts=preempts)
        self.check()
        return plan

    def clean_up(self) -> None:
        """Let all nodes report that they have cleaned up."""
        for node_id in list(self.cluster.duties):
            for duty in list(self.cluster.duties.get(node_id, {}).values()):
                if duty.kind == DutyKind.TERMINATE:
                    report = nm.JobTerminated(duty.job_id, duty.attempt, duty.duty_id)
                    events = reports.judge(self.cluster, node_id, report, self.conf, self.now_us)
                    self.apply(events)
        self.check()

    def wait(self, seconds: int) -> None:
        """Let time pass; every second is looked at."""
        for _ in range(seconds):
            self.now_us += SECOND_US
            self.apply(timers.due(self.cluster, self.conf, {}, self.now_us))
        self.check()

    def state(self, job_id: int) -> JobState:
        """Return a job's state."""
        return JobState(self.cluster.jobs[job_id].state)

    def states(self, *job_ids: int) -> list[str]:
        """Return the names of some jobs' states."""
        return [self.state(job_id).name for job_id in job_ids]

    def nodes(self, job_id: int) -> list[int]:
        """Return the ids of the nodes that a job runs on."""
        return [alloc.node_id for alloc in self.cluster.jobs[job_id].nodes]


def pass_on(site: PreemptionSite) -> None:
    """Let a minute pass, at the end of which nodes have cleaned up and a pass follows."""
    site.now_us += MINUTE_US
    site.apply(timers.due(site.cluster, site.conf, {}, site.now_us))
    site.clean_up()
    site.run_pass()
    site.clean_up()
    site.run_pass()


def end(site: PreemptionSite, job_id: int) -> None:
    """Let a job's run end and its nodes clean up."""
    job = site.cluster.jobs[job_id]
    site.apply(job_end.complete(site.cluster, job, job_end.End(JobState.COMPLETED), site.now_us))
    site.clean_up()


ROWS = (
    BASE
    + r"""
%s
PartitionName=twice Nodes=n[1-4] Default=YES OverSubscribe=FORCE:2 DefMemPerCPU=100 MaxTime=600
PartitionName=ask Nodes=n[1-4] OverSubscribe=YES:3 DefMemPerCPU=100 MaxTime=600
PartitionName=alone Nodes=n[1-4] OverSubscribe=NO DefMemPerCPU=100 MaxTime=600
"""
)
