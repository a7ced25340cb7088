"""CR_CPU on cores of two threads: cores are taken whole, the CPUs that are used are charged.

Every case was asked of Slurm 22.05.
"""

from __future__ import annotations

from typing import Any

import pytest

from pyslurm_ng.base.errors import Reject
from pyslurm_ng.base.numbers import REQ_EXCLUSIVE, REQ_OVERCOMMIT
from pyslurm_ng.ctld.queries.job_fields import job_counts
from pyslurm_ng.model.amounts import allocated_tres
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.task_counts import usable_cpus
from pyslurm_ng.sched.frame import measures
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.wire.step_messages import StepGranted
from tests.ctld.rules.steps.step_requests import EXACT, ask
from tests.model.clusters import START_US, cluster_of, conf_of, submit
from tests.sched.cons_tres.charged_jobs import CONF, just_started
from tests.world.passes import run_pass


@pytest.mark.parametrize("scheduler", ["backfill", "builtin"])
@pytest.mark.parametrize(
    ("fields", "cpus", "cores"),
    [
        ({"ntasks": 1}, [1], [1]),
        ({"ntasks": 3, "cpus_per_task": 3}, [9], [5]),
        ({"ntasks": 5, "ntasks_per_core": 1, "nodes_min": 1, "nodes_max": 1}, [5], [5]),
        ({"ntasks": 2, "threads_per_core": 1}, [2], [2]),
        ({"ntasks_per_node": 3, "nodes_min": 2, "nodes_max": 2}, [3, 3], [2, 2]),
        ({"ntasks": 3, "ntasks_per_socket": 2}, [3], [2]),
        ({"mincpus": 5, "nodes_min": 1, "nodes_max": 1}, [5], [3]),
        ({"ntasks": 3, "flags": REQ_OVERCOMMIT}, [1], [1]),
        ({"ntasks": 1, "gpus": "1"}, [1], [1]),
        ({"ntasks": 1, "gpus": "2", "cpus_per_gpu": 3}, [6], [3]),
        ({"ntasks": 17}, [16, 1], [8, 1]),
        ({"ntasks": 5, "partition": "capped", "nodes_min": 1, "nodes_max": 1}, [5], [3]),
        ({"ntasks": 1, "flags": REQ_EXCLUSIVE}, [16], [8]),
        ({"ntasks": 1, "partition": "cores"}, [2], [1]),
    ],
)
def test_what_is_used_is_charged(
    scheduler: str, fields: dict[str, Any], cpus: list[int], cores: list[int]
) -> None:
    """Memory for each CPU is of those charged; --exclusive has and pays for all."""
    cluster, job = just_started(f"CR_CPU_Memory\nSchedulerType=sched/{scheduler}", **fields)
    assert [alloc.charged_cpus for alloc in job.nodes] == cpus
    assert [int.from_bytes(alloc.cores, "little").bit_count() for alloc in job.nodes] == cores
    assert [alloc.mem_mib for alloc in job.nodes] == [500 * count for count in cpus]
    assert [usable_cpus(job.request, alloc) for alloc in job.nodes] == cpus
    assert measures.amounts_held(job.nodes)["cpu"] == sum(cpus)
    assert allocated_tres(job.nodes, (), "")["billing"] == sum(cpus)
    assert job_counts(cluster, job, None)[1] == sum(cpus)


@pytest.mark.parametrize("words", ["", "block:cyclic", "cyclic:fcyclic", "block:block"])
def test_cores_are_taken_one_after_another(words: str) -> None:
    """A plain CPU has no socket, whatever --distribution says."""
    _, job = just_started("CR_CPU", ntasks=5, nodes_min=1, nodes_max=1, distribution=words)
    assert job.nodes[0].cores == b"\x07"
    _, job = just_started("CR_CPU", ntasks=5, distribution=words, partition="cores")
    assert (job.nodes[0].cores == b"\x07") is (words == "block:block")


def test_no_two_jobs_share_a_core() -> None:
    """Eight jobs of one CPU fill a node of eight cores; it is allocated, and the ninth waits."""
    conf = conf_of(CONF.format(select="CR_CPU"))
    cluster = cluster_of(conf)
    jobs = [submit(cluster, JobRequest(ntasks=1, node_list="n1")) for _ in range(9)]
    run_pass(cluster, START_US, policy(conf))
    allocs = [cluster.jobs[job].nodes for job in jobs]
    assert [len(nodes) for nodes in allocs] == [1] * 8 + [0]
    assert cluster.node_index.use[0].cpus == 16
    cluster.node_index.give_back(jobs[0], [0], START_US)
    assert cluster.node_index.columns.cpus_free[0] == 2


def test_steps_have_what_is_charged() -> None:
    """A step of four tasks is too large for three CPUs, though their cores have four threads."""
    cluster, job = just_started("CR_CPU", ntasks=3)
    assert isinstance(ask(cluster, job, ntasks=4), Reject)
    assert isinstance(ask(cluster, job, ntasks=2, cpus_per_task=2, flags=EXACT), Reject)
    reply = ask(cluster, job, ntasks=3)
    assert isinstance(reply, StepGranted)
    assert reply.cpus == [3]
