"""Who starts where: scenarios on a cluster of four nodes of sixteen cores."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.numbers import REQ_EXCLUSIVE
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of, submit
from tests.world.passes import PlanFunction, in_strict_order, run_pass


def places(cluster: Cluster, job_id: int) -> list[tuple[str, int, int]]:
    """Return (node, cpus, tasks) of a running job."""
    return [
        (cluster.node(alloc.node_id).spec.name, alloc.cpus, alloc.tasks)
        for alloc in cluster.jobs[job_id].nodes
    ]


def test_lighter_nodes_are_used_first() -> None:
    """Node weight keeps GPU nodes free for jobs that need them."""
    cluster = cluster_of()
    job_id = submit(cluster, JobRequest(name="a"))
    run_pass(cluster, plan=in_strict_order)
    assert places(cluster, job_id) == [("n3", 1, 1)]


def test_tasks_fill_nodes_and_spill_over() -> None:
    """Twenty tasks take sixteen cores of one node and four of the next."""
    cluster = cluster_of()
    job_id = submit(cluster, JobRequest(ntasks=20))
    run_pass(cluster, plan=in_strict_order)
    assert places(cluster, job_id) == [("n3", 16, 16), ("n4", 4, 4)]


def test_two_nodes_with_three_tasks_each() -> None:
    """--ntasks-per-node without -n fixes the tasks of every node."""
    cluster = cluster_of()
    job_id = submit(cluster, JobRequest(nodes_min=2, nodes_max=2, ntasks_per_node=3))
    run_pass(cluster, plan=in_strict_order)
    assert places(cluster, job_id) == [("n3", 3, 3), ("n4", 3, 3)]


def test_gpus_lead_to_gpu_nodes_with_exact_devices() -> None:
    """The lowest free devices are given, and never twice."""
    cluster = cluster_of()
    first = submit(cluster, JobRequest(gpus="2", cpus_per_task=4))
    second = submit(cluster, JobRequest(gpus_per_node="a100:2"))
    run_pass(cluster, plan=in_strict_order)
    masks = [
        [(gres.type, gres.indexes) for gres in cluster.jobs[job].nodes[0].gres]
        for job in (first, second)
    ]
    assert masks == [[("a100", b"\x03")], [("a100", b"\x0c")]]


def test_memory_is_never_given_twice() -> None:
    """Two jobs of 40 GB do not share a node of 64 GB."""
    cluster = cluster_of()
    jobs = [submit(cluster, JobRequest(mem_per_node_mib=40000)) for _ in range(5)]
    outcome = run_pass(cluster, plan=in_strict_order)
    assert [bool(cluster.jobs[job].nodes) for job in jobs] == [True] * 4 + [False]
    assert outcome.waits[jobs[4]].reason == Reason.Resources


def test_a_blocked_job_closes_its_partition_only() -> None:
    """Jobs behind the first blocked one wait for Priority; other partitions go on."""
    cluster = cluster_of()
    wide = submit(cluster, JobRequest(nodes_min=4, nodes_max=4, flags=REQ_EXCLUSIVE))
    run_pass(cluster, plan=in_strict_order)
    blocked = submit(cluster, JobRequest(nodes_min=2, nodes_max=2))
    behind = submit(cluster, JobRequest())
    outcome = run_pass(cluster, plan=in_strict_order)
    assert cluster.jobs[wide].state == JobState.RUNNING
    assert outcome.waits[blocked].reason == Reason.Resources
    assert outcome.waits[behind].reason == Reason.Priority


OVERLAPPING = """
ClusterName=two
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
NodeName=p[1-8] CPUs=4
PartitionName=a Nodes=p[1-4] Default=YES
PartitionName=b Nodes=p[3-6]
PartitionName=c Nodes=p[6-8]
"""


def test_a_blocked_job_keeps_the_nodes_of_its_partition() -> None:
    """Jobs behind it in overlapping partitions get other nodes or wait: seen of Slurm 22.05."""
    cluster = cluster_of(conf_of(OVERLAPPING))

    def whole(partition: str, nodes: int, **more: str) -> int:
        request = JobRequest(
            nodes_min=nodes, nodes_max=nodes, flags=REQ_EXCLUSIVE, partition=partition, **more
        )
        return submit(cluster, request)

    whole("a", 3)
    run_pass(cluster, plan=in_strict_order)
    top, other, behind = whole("a", 2), whole("b", 1), whole("a", 1)
    kept, after, apart = whole("b", 3), whole("b", 1), whole("c", 1)
    outcome = run_pass(cluster, plan=in_strict_order)
    assert outcome.waits[top].reason == Reason.Resources
    assert not outcome.waits[top].shown
    assert outcome.waits[behind].reason == Reason.Priority
    assert places(cluster, other) == [("p5", 4, 1)]
    assert outcome.waits[kept].reason == Reason.Resources
    assert outcome.waits[kept].shown.endswith("reserved for jobs in higher priority partitions")
    assert "wait for 2 of 4 suitable nodes of b" in outcome.waits[kept].text
    assert outcome.waits[after].reason == Reason.Priority
    assert places(cluster, apart) == [("p7", 4, 1)]


def test_a_job_for_absent_nodes_blocks_others_unless_it_names_them() -> None:
    """A job that names a node that is down holds no job up.

    A job that needs as many nodes as are left does.
    """
    cluster = cluster_of(conf_of(OVERLAPPING))
    apply(cluster, ev.NodesDown(START_US, (0,), "broken"))
    named = submit(cluster, JobRequest(node_list="p1", partition="a"))
    first = submit(cluster, JobRequest(partition="a"))
    wide = submit(cluster, JobRequest(nodes_min=4, nodes_max=4, partition="a"))
    behind = submit(cluster, JobRequest(partition="a"))
    outcome = run_pass(cluster, plan=in_strict_order)
    assert outcome.waits[named].reason == Reason.ReqNodeNotAvail
    assert places(cluster, first) == [("p2", 1, 1)]
    assert outcome.waits[wide].shown.startswith("Nodes required for job are DOWN, DRAINED")
    assert outcome.waits[behind].reason == Reason.Priority


def test_array_starts_as_many_tasks_as_its_limit_allows() -> None:
    """An array stays one record; started tasks are split off with ids of their own."""
    cluster = cluster_of()
    master = submit(cluster, JobRequest(), ranges=((0, 99, 1),), array_limit=8)
    outcome = run_pass(cluster, plan=in_strict_order)
    assert len(cluster.job_index.arrays[master]) == 8
    assert cluster.jobs[master].array_pending == ((8, 99, 1),)
    assert outcome.waits[master].reason == Reason.JobArrayTaskLimit


def test_the_last_task_keeps_the_array_id() -> None:
    """As in Slurm, the record of the whole becomes its last task."""
    cluster = cluster_of()
    master = submit(cluster, JobRequest(), ranges=((1, 3, 1),))
    run_pass(cluster, plan=in_strict_order)
    assert cluster.job_index.arrays[master][3] == master
    assert cluster.jobs[master].array_task_id == 3


def test_required_and_excluded_nodes_and_features() -> None:
    """-w, -x and -C narrow the choice."""
    cluster = cluster_of()
    here = submit(cluster, JobRequest(node_list="n2"))
    there = submit(cluster, JobRequest(exclude="n[3-4]"))
    gpu = submit(cluster, JobRequest(constraint="gpunode&ib", exclude="n1"))
    run_pass(cluster, plan=in_strict_order)
    nodes = [places(cluster, job)[0][0] for job in (here, there, gpu)]
    assert nodes == ["n2", "n1", "n2"]


def test_priority_tier_then_priority_then_submission() -> None:
    """A partition of a higher tier is served first, whatever the priorities."""
    cluster = cluster_of()
    low = submit(cluster, JobRequest(node_list="n4", flags=REQ_EXCLUSIVE))
    high = submit(cluster, JobRequest(partition="debug", flags=REQ_EXCLUSIVE), time_limit_min=10)
    run_pass(cluster, plan=in_strict_order)
    assert cluster.jobs[high].state == JobState.RUNNING
    assert cluster.jobs[low].state == JobState.PENDING


@pytest.mark.parametrize(
    ("limit", "reason"), [(24 * 60 + 1, Reason.PartitionTimeLimit), (60, None)]
)
def test_time_limit_over_the_partitions(limit: int, reason: Reason | None) -> None:
    """A job over MaxTime waits with that reason and blocks no other job."""
    cluster = cluster_of()
    job_id = submit(cluster, JobRequest(time_limit_min=limit), time_limit_min=limit)
    wait = run_pass(cluster, plan=in_strict_order).waits.get(job_id)
    assert (wait.reason if wait else None) == reason


def test_licenses_are_counted() -> None:
    """Two jobs want three of four licences each: one waits."""
    cluster = cluster_of(conf_of(FOUR_NODES + "Licenses=matlab:4\n"))
    jobs = [submit(cluster, JobRequest(licenses="matlab:3")) for _ in range(2)]
    outcome = run_pass(cluster, plan=in_strict_order)
    assert cluster.jobs[jobs[0]].state == JobState.RUNNING
    assert outcome.waits[jobs[1]].reason == Reason.Licenses


def test_same_snapshot_same_plan() -> None:
    """A pass is a function of its snapshot."""
    cluster = cluster_of()
    for size in (3, 20, 7, 40, 1, 9):
        submit(cluster, JobRequest(ntasks=size))
    view = snapshot(cluster, START_US)
    rules = policy(conf_of())
    assert in_strict_order(view, rules) == in_strict_order(view, rules)


@pytest.mark.parametrize("plan", [Planner(), in_strict_order], ids=["backfill", "builtin"])
@pytest.mark.parametrize(
    "asked",
    [{"partition": "gpu,main"}, {"licenses": "matlab:4|abaqus:4"}],
    ids=["partitions", "licences"],
)
def test_each_task_of_an_array_starts_once(plan: PlanFunction, asked: dict[str, str]) -> None:
    """In its second partition, or with the other licences, the array goes on where it was."""
    cluster = cluster_of(conf_of(FOUR_NODES + "Licenses=matlab:8,abaqus:4\n"))
    master = submit(cluster, JobRequest(ntasks=16, **asked), ranges=((0, 9, 1),))
    outcome = run_pass(cluster, plan=plan)
    tasks = [start.task_id for start in outcome.starts]
    assert tasks == [*range(len(tasks))] and len(tasks) >= 3
    assert cluster.jobs[master].array_pending == ((len(tasks), 9, 1),)
