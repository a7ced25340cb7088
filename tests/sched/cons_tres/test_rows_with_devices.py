"""Jobs that share cores (OverSubscribe=FORCE) share neither memory nor devices."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from pyslurm_ng.base.numbers import REQ_MEM_SET, REQ_OVERSUBSCRIBE
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import START_US, cluster_of, conf_of, submit
from tests.world.examples import drawn

MINUTE_US = 60_000_000
CONF = """
ClusterName=c
SlurmctldHost=h
GresTypes=gpu,shard
SchedulerType=sched/{scheduler}
SelectTypeParameters={select}
NodeName=n[1-2] CPUs=8 Sockets=2 CoresPerSocket=4 RealMemory=4000 Gres=gpu:2,shard:8
PartitionName=main Nodes=ALL Default=YES MaxTime=600 OverSubscribe={share} DefMemPerCPU=100
"""
WANTS = st.sampled_from(
    [
        {"ntasks": 8},
        {"ntasks": 3},
        {"ntasks": 4, "gpus": "1"},
        {"ntasks": 8, "gres": "gpu:2"},
        {"ntasks": 2, "gres": "shard:3"},
        {"ntasks": 1, "mem_per_node_mib": 3000},
        {"ntasks": 1, "flags": REQ_MEM_SET},
        {"gpus": "3", "mem_per_gpu_mib": 1500},
    ]
)


def run(cluster: Cluster, text: str, now_us: int) -> None:
    for start in Planner()(snapshot(cluster, now_us), policy(conf_of(text))).starts:
        events = dispatch(cluster, start, now_us)
        assert events, start
        apply_all(cluster, events)
    assert check(cluster) == []


def end(cluster: Cluster, job_id: int, now_us: int) -> None:
    state = JobState.COMPLETED
    completing = ev.JobCompleting(now_us, job_id, state, 0, 0, 0, ())
    apply_all(cluster, [completing, ev.JobEnded(now_us, job_id, state)])


@settings(max_examples=drawn(60))
@given(
    arrivals=st.lists(st.tuples(WANTS, st.booleans(), st.sampled_from([0, 0, 1])), max_size=20),
    select=st.sampled_from(["CR_Core_Memory", "CR_Socket_Memory", "CR_Core"]),
    share=st.sampled_from(["FORCE:2", "YES:3", "NO"]),
    scheduler=st.sampled_from(["backfill", "builtin"]),
)
def test_nothing_but_cores_is_shared(
    arrivals: list[tuple[dict[str, object], bool, int]], select: str, share: str, scheduler: str
) -> None:
    """Every job ends up running, and no node gives more than it has."""
    text = CONF.format(select=select, share=share, scheduler=scheduler)
    cluster, now_us = cluster_of(conf_of(text)), START_US
    for wants, shares, gap in arrivals:
        fields = dict(wants)
        if shares:
            fields["flags"] = int(str(wants.get("flags", 0))) | REQ_OVERSUBSCRIBE
        submit(cluster, JobRequest(**fields), now_us)  # type: ignore[arg-type]
        run(cluster, text, now_us)
        now_us += gap * MINUTE_US
        if gap and cluster.job_index.active:
            end(cluster, next(iter(cluster.job_index.active)), now_us)
    run(cluster, text, now_us)
    while cluster.job_index.active:
        now_us += MINUTE_US
        end(cluster, next(iter(cluster.job_index.active)), now_us)
        run(cluster, text, now_us)
    assert not cluster.job_index.pending


@pytest.mark.parametrize("select", ["CR_Core_Memory", "CR_Socket_Memory"])
def test_two_jobs_on_the_same_cores_have_different_gpus(select: str) -> None:
    """FORCE:2 lets them share all CPUs; a third would do so too, but finds no GPU."""
    text = CONF.format(select=select, share="FORCE:2", scheduler="backfill")
    cluster = cluster_of(conf_of(text))
    wants = {"ntasks": 8, "gres": "gpu:1", "node_list": "n1", "mem_per_node_mib": 1000}
    jobs = [submit(cluster, JobRequest(**wants)) for _ in range(3)]  # type: ignore[arg-type]
    run(cluster, text, START_US)
    allocs = [cluster.jobs[job_id].nodes for job_id in jobs]
    assert [nodes[0].cores for nodes in allocs[:2]] == [b"\xff", b"\xff"]
    assert [nodes[0].gres[0].indexes for nodes in allocs[:2]] == [b"\x01", b"\x02"]
    assert not allocs[2]


def test_all_memory_goes_to_one_job() -> None:
    """--mem=0: a second such job waits, however many cores are free."""
    text = CONF.format(select="CR_Core_Memory", share="NO", scheduler="backfill")
    cluster = cluster_of(conf_of(text))
    whole = JobRequest(ntasks=1, flags=REQ_MEM_SET, node_list="n1")
    jobs = [submit(cluster, whole), submit(cluster, whole)]
    small = submit(cluster, JobRequest(ntasks=1, node_list="n1"))
    run(cluster, text, START_US)
    assert cluster.jobs[jobs[0]].nodes[0].mem_mib == 4000
    assert not cluster.jobs[jobs[1]].nodes
    assert not cluster.jobs[small].nodes
