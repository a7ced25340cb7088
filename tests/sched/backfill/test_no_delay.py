"""Jobs that come later in the queue delay none before them, whatever they ask for."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings, strategies as st

from pyslurm_ng.base.numbers import REQ_EXCLUSIVE
from pyslurm_ng.conf.topology_conf import parse_topology_conf
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.states import NodeState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.plan import Plan
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import START_US, conf_of, submit
from tests.sched.networks import BLOCKS, TREE
from tests.world.examples import drawn

MINUTE_US = 60_000_000
CONF = """
ClusterName=net
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
SelectTypeParameters=CR_Core
PriorityType=priority/basic
Licenses=matlab:3
NodeName=n[1-8] CPUs=4 RealMemory=1000
PartitionName=main Nodes=n[1-8] Default=YES MaxTime=1-0
PartitionName=half Nodes=n[1-4] MaxTime=1-0
PartitionName=high Nodes=n[3-8] MaxTime=1-0 PriorityTier=10
"""


@dataclass(frozen=True)
class Asked:
    """One job; `nodes` whole ones or, if that is 0, `tasks` of a CPU."""

    partition: str
    nodes: int
    tasks: int
    minutes: int
    matlab: int
    switches: int

    def request(self) -> JobRequest:
        """Return what is submitted."""
        return JobRequest(
            partition=self.partition,
            nodes_min=self.nodes,
            nodes_max=self.nodes,
            ntasks=self.nodes or self.tasks,
            flags=REQ_EXCLUSIVE if self.nodes else 0,
            licenses=f"matlab:{self.matlab}" if self.matlab else "",
            switches=self.switches,
            switches_wait_s=600 if self.switches else 0,
        )


ASKED = st.builds(
    Asked,
    partition=st.sampled_from(["main", "main", "half", "high", "half,main"]),
    nodes=st.integers(0, 4),
    tasks=st.integers(1, 9),
    minutes=st.sampled_from([2, 10, 30, 60, 240]),
    matlab=st.sampled_from([0, 0, 0, 1, 2]),
    switches=st.sampled_from([0, 0, 0, 1]),
)


def cluster_with(topology: str) -> Cluster:
    """Return a cluster of eight idle nodes."""
    conf, cluster = conf_of(CONF), Cluster()
    networks = [parse_topology_conf(topology)] if topology else []
    apply_all(cluster, configure(cluster, conf, START_US, networks))
    for node in cluster.living_nodes():
        apply(cluster, ev.NodeRegistered(START_US, node.node_id, NodeFacts(), NodeState.IDLE))
    return cluster


def plan_of(cluster: Cluster, now_us: int) -> Plan:
    """Run a pass, and let what it starts happen."""
    plan = Planner()(snapshot(cluster, now_us), policy(conf_of(CONF)))
    for start in plan.starts:
        events = dispatch(cluster, start, now_us)
        assert events, start
        apply_all(cluster, events)
    assert check(cluster) == []
    return plan


def starts_of(topology: str, running: list[Asked], waiting: list[Asked]) -> list[int]:
    """Return when each waiting job starts: now, at a time planned, or -1 where there is none."""
    cluster = cluster_with(topology)
    for asked in running:
        submit(cluster, asked.request(), time_limit_min=asked.minutes)
    plan_of(cluster, START_US)
    now_us = START_US + MINUTE_US
    ids = [
        submit(cluster, asked.request(), now_us=now_us, time_limit_min=asked.minutes)
        for asked in waiting
    ]
    plan = plan_of(cluster, now_us)
    started = {start.job_id for start in plan.starts}
    return [
        now_us if job_id in started else plan.expected_start_us.get(job_id, -1) for job_id in ids
    ]


@settings(deadline=None, max_examples=drawn(80))
@given(
    topology=st.sampled_from([TREE, BLOCKS]),
    running=st.lists(ASKED, max_size=8),
    waiting=st.lists(ASKED, max_size=12),
    kept=st.integers(0, 12),
)
def test_later_jobs_delay_no_job_before_them(
    topology: str, running: list[Asked], waiting: list[Asked], kept: int
) -> None:
    """The first jobs of the queue start when they would start if they were alone in it."""
    waiting.sort(key=lambda asked: asked.partition != "high")
    alone = starts_of(topology, running, waiting[:kept])
    assert starts_of(topology, running, waiting)[:kept] == alone
