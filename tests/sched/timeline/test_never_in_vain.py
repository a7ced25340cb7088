"""Whoever is accepted finds room on an idle cluster, or is told why never; nobody breaks a pass."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from pyslurm_ng.base.numbers import (
    REQ_CONTIGUOUS,
    REQ_EXCLUSIVE,
    REQ_EXCLUSIVE_USER,
    REQ_OVERCOMMIT,
)
from pyslurm_ng.conf.topology_conf import parse_topology_conf
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.context import Context, Decision
from pyslurm_ng.ctld.rules.submission.submit import submit_job
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.states import JobState, NodeState, Reason
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.wire.job_messages import SubmitJob
from tests.model.clusters import START_US, conf_of
from tests.sched.networks import TREE_OF_TEN
from tests.world.callers import ALICE
from tests.world.examples import drawn
from tests.world.passes import run_pass

CONF = r"""
ClusterName=demo
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
GresTypes=gpu
PriorityType=priority/basic
SelectTypeParameters={select}
SchedulerType=sched/{scheduler}
{topology}
NodeName=n[1-4] Boards=1 SocketsPerBoard=2 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=16000 \
    Gres=gpu:a100:4 Feature=gpu Weight=10
NodeName=n[5-8] Boards=1 SocketsPerBoard=2 CoresPerSocket=8 RealMemory=32000 Feature=cpu Weight=1
NodeName=n[9-10] CPUs=4 RealMemory=8000 Feature=cpu,small Weight=5
PartitionName=main Nodes=n[1-10] Default=YES MaxTime=1-0 DefMemPerCPU=500
PartitionName=own Nodes=n[1-10] MaxTime=1-0 DefMemPerCPU=500 ExclusiveUser=YES
PartitionName=capped Nodes=n[1-10] MaxTime=1-0 DefMemPerCPU=500 MaxCPUsPerNode=6
PartitionName=wide Nodes=n[1-10] MaxTime=1-0 DefMemPerCPU=500 MinNodes=2 MaxNodes=3
"""


def _outcome(
    fields: dict[str, Any],
    select: str = "CR_Core_Memory",
    scheduler: str = "backfill",
    *,
    is_tree: bool = False,
) -> tuple[JobState | None, Reason]:
    """Return what becomes of a request on an idle cluster; no state where it is refused."""
    plugin = "TopologyPlugin=topology/tree" if is_tree else ""
    conf = conf_of(CONF.format(select=select, scheduler=scheduler, topology=plugin))
    cluster = Cluster()
    networks = [parse_topology_conf(TREE_OF_TEN)] if is_tree else []
    apply_all(cluster, configure(cluster, conf, START_US, networks))
    for node in cluster.living_nodes():
        apply(cluster, ev.NodeRegistered(START_US, node.node_id, NodeFacts(), NodeState.IDLE))
    message = SubmitJob(bytes(16), JobRequest(**fields), b"#!/bin/sh\n")
    answer = submit_job(cluster, message, Context(conf, START_US, ALICE))
    if not isinstance(answer, Decision):
        return None, Reason.NONE
    apply_all(cluster, list(answer.events))
    plan = run_pass(cluster, START_US, policy(conf))
    job = cluster.jobs[answer.reply.job_id]
    wait = plan.waits.get(job.job_id)
    return JobState(job.state), wait.reason if wait is not None else Reason.NONE


@pytest.mark.parametrize("scheduler", ["backfill", "builtin"])
@pytest.mark.parametrize(
    ("fields", "is_tree"),
    [
        # Required nodes heavier than those that would do, and lighter ones too few.
        ({"ntasks": 17, "cpus_per_task": 4, "node_list": "n1,n6", "threads_per_core": 1}, True),
        # Whole nodes that hold different numbers of tasks.
        ({"ntasks": 6, "cpus_per_task": 3, "node_list": "n9,n10", "flags": REQ_EXCLUSIVE},
         False),
        ({"ntasks": 9, "cpus_per_task": 4, "exclude": "n[5-8]", "threads_per_core": 1,
          "flags": REQ_EXCLUSIVE}, False),
        ({"ntasks": 11, "cpus_per_task": 2, "nodes_min": 2, "nodes_max": 3, "partition": "own",
          "node_list": "n9,n10"}, False),
        # More tasks than its GPUs have by --ntasks-per-gpu: Slurm 22.05 gives them more.
        ({"ntasks": 6, "gpus": "4", "ntasks_per_gpu": 1}, False),
        ({"ntasks_per_node": 4, "gpus": "6", "constraint": "gpu"}, False),
        # Three nodes will do, two will not, and four it may not have.
        ({"ntasks": 6, "cpus_per_task": 4, "gpus": "1", "threads_per_core": 1,
          "constraint": "gpu", "partition": "wide"}, False),
    ],
)  # fmt: skip
def test_what_fits_an_idle_cluster_starts(
    fields: dict[str, Any], is_tree: bool, scheduler: str
) -> None:
    state, _ = _outcome(fields, "CR_Core", scheduler, is_tree=is_tree)
    assert state == JobState.RUNNING


def test_more_cores_than_the_cap_are_refused() -> None:
    """Four cores of two threads are eight CPUs, and the partition gives six of a node."""
    state, _ = _outcome({"cpus_per_task": 4, "threads_per_core": 1, "partition": "capped",
                         "constraint": "gpu"})  # fmt: skip
    assert state is None


@st.composite
def _requests(draw: st.DrawFn) -> dict[str, Any]:
    low = draw(st.integers(0, 3))
    fields: dict[str, Any] = {
        "nodes_min": low,
        "nodes_max": low and low + draw(st.integers(0, 2)),
        "ntasks": draw(st.sampled_from([0, 0, 1, 2, 6, 9, 17, 30])),
        "cpus_per_task": draw(st.sampled_from([0, 0, 2, 3, 4])),
        "ntasks_per_core": draw(st.sampled_from([0, 0, 0, 1])),
        "ntasks_per_socket": draw(st.sampled_from([0, 0, 0, 1, 2, 4])),
        "threads_per_core": draw(st.sampled_from([0, 0, 1])),
        "mem_per_cpu_mib": draw(st.sampled_from([0, 0, 700, 2000, 4000])),
        "gpus": draw(st.sampled_from(["", "", "1", "3", "5"])),
        "constraint": draw(st.sampled_from(["", "", "gpu", "cpu", "[gpu*1&cpu*1]", "gpu|small"])),
        "node_list": draw(st.sampled_from(["", "", "", "n5", "n1,n6", "n9"])),
        "exclude": draw(st.sampled_from(["", "", "", "n[5-8]"])),
        "partition": draw(st.sampled_from(["", "", "own", "capped", "wide"])),
        "flags": draw(st.sampled_from([0, 0, 0, REQ_EXCLUSIVE, REQ_OVERCOMMIT,
                                       REQ_EXCLUSIVE_USER, REQ_CONTIGUOUS])),
    }  # fmt: skip
    if fields["ntasks"] and low > fields["ntasks"]:
        fields["ntasks"] = low
    if fields["ntasks"] < fields["node_list"].count(",") + 1:
        fields["ntasks"] = 0
    return fields


@given(
    _requests(),
    st.sampled_from(["CR_Core", "CR_Core_Memory", "CR_Socket_Memory", "CR_CPU_Memory"]),
    st.sampled_from(["backfill", "builtin"]),
    st.booleans(),
)
@settings(max_examples=drawn(60), deadline=None)
def test_no_request_breaks_a_pass(
    fields: dict[str, Any], select: str, scheduler: str, is_tree: bool
) -> None:
    """It is refused, starts, or waits with a reason."""
    state, reason = _outcome(fields, select, scheduler, is_tree=is_tree)
    assert state in (None, JobState.RUNNING) or reason != Reason.NONE
