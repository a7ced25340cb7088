"""The same job gets the same from backfill and from sched/builtin: as Slurm 22.05 gave it.

Four nodes of two sockets with four cores and four GPUs each; the second and third weigh more than
the first, and the fourth most.
"""

from __future__ import annotations

import pytest

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
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import START_US, conf_of, submit

CONF = """
ClusterName=c
SlurmctldHost=h
GresTypes=gpu
SchedulerType=sched/{scheduler}
SelectTypeParameters=CR_Core_Memory
NodeName=p1 CPUs=8 Sockets=2 CoresPerSocket=4 RealMemory=8000 Gres=gpu:4 Weight=1
NodeName=p[2-3] CPUs=8 Sockets=2 CoresPerSocket=4 RealMemory=8000 Gres=gpu:4 Weight=2
NodeName=p4 CPUs=8 Sockets=2 CoresPerSocket=4 RealMemory=8000 Gres=gpu:4 Weight=5
PartitionName=main Nodes=ALL Default=YES MaxTime=600 DefMemPerCPU=1
"""
TREE = "SwitchName=a Nodes=p[1-2]\nSwitchName=b Nodes=p[3-4]\nSwitchName=top Switches=a,b\n"


def busy(node: str, cores: int) -> dict[str, object]:
    return {"node_list": node, "ntasks": cores, "nodes_min": 1, "nodes_max": 1}


def allocs_of(
    scheduler: str, wants: list[dict[str, object]], topology: str = ""
) -> list[tuple[str, int, list[int], int, int]]:
    """Return for each node of the last job its name, tasks, cores, GPUs and MiB."""
    conf, cluster = conf_of(CONF.format(scheduler=scheduler)), Cluster()
    networks = [parse_topology_conf(topology)] if topology else []
    apply_all(cluster, configure(cluster, conf, START_US, networks))
    for node in cluster.living_nodes():
        apply(cluster, ev.NodeRegistered(START_US, node.node_id, NodeFacts(), NodeState.IDLE))
    job_id = 0
    for want in wants:
        job_id = submit(cluster, JobRequest(**want))  # type: ignore[arg-type]
        for start in Planner()(snapshot(cluster, START_US), policy(conf)).starts:
            apply_all(cluster, dispatch(cluster, start, START_US) or [])
    assert check(cluster) == []
    return [
        (
            cluster.node(alloc.node_id).spec.name,
            alloc.tasks,
            [bit for bit in range(8) if int.from_bytes(alloc.cores, "little") >> bit & 1],
            sum(gres.count for gres in alloc.gres),
            alloc.mem_mib,
        )
        for alloc in cluster.jobs[job_id].nodes
    ]


ALL = list(range(8))
EACH = pytest.mark.parametrize("scheduler", ["backfill", "builtin"])


@EACH
@pytest.mark.parametrize(
    ("wants", "expected"),
    [
        ({"ntasks": 9}, [("p1", 8, ALL), ("p2", 1, [0])]),
        ({"ntasks": 12}, [("p1", 8, ALL), ("p2", 4, [0, 1, 4, 5])]),
        ({"ntasks": 20}, [("p1", 8, ALL), ("p2", 8, ALL), ("p3", 4, [0, 1, 4, 5])]),
        (
            {"ntasks": 6, "nodes_min": 2, "nodes_max": 2},
            [("p1", 5, [0, 1, 2, 4, 5]), ("p2", 1, [0])],
        ),
        (
            {"ntasks": 4, "nodes_min": 2, "nodes_max": 3},
            [("p1", 2, [0, 4]), ("p2", 1, [0]), ("p3", 1, [0])],
        ),
        # Neither fcyclic nor the third word makes any difference to which cores a job has.
        ({"ntasks": 4, "distribution": "block:fcyclic"}, [("p1", 4, [0, 1, 4, 5])]),
        (
            {"ntasks": 2, "cpus_per_task": 3, "distribution": "block:fcyclic"},
            [("p1", 2, [0, 1, 2, 4, 5, 6])],
        ),
        (
            {"ntasks": 2, "cpus_per_task": 3, "distribution": "block:cyclic:fcyclic"},
            [("p1", 2, [0, 1, 2, 4, 5, 6])],
        ),
        (
            {"ntasks": 2, "cpus_per_task": 3, "distribution": "block:block"},
            [("p1", 2, [0, 1, 2, 3, 4, 5])],
        ),
        ({"ntasks": 1, "cpus_per_task": 4, "distribution": "block:fcyclic"}, [("p1", 1, ALL[:4])]),
        ({"ntasks": 1, "cpus_per_task": 6}, [("p1", 1, [0, 1, 2, 4, 5, 6])]),
        ({"ntasks": 3, "cpus_per_task": 2}, [("p1", 3, [0, 1, 2, 3, 4, 5])]),
        ({"ntasks": 3, "ntasks_per_socket": 2}, [("p1", 3, [0, 1, 4])]),
        (
            {"ntasks": 2, "cpus_per_task": 3, "ntasks_per_socket": 1},
            [("p1", 2, [0, 1, 2, 4, 5, 6])],
        ),
        # Whole nodes are filled evenly, one task after another.
        ({"ntasks": 12, "flags": REQ_EXCLUSIVE}, [("p1", 6, ALL), ("p2", 6, ALL)]),
        (
            {"ntasks": 12, "flags": REQ_EXCLUSIVE, "nodes_min": 2, "nodes_max": 2},
            [("p1", 6, ALL), ("p2", 6, ALL)],
        ),
    ],
)
def test_tasks_and_cores(
    scheduler: str, wants: dict[str, object], expected: list[tuple[str, int, list[int]]]
) -> None:
    """Recorded from Debian's Slurm 22.05 with the same nodes."""
    assert [row[:3] for row in allocs_of(scheduler, [wants])] == expected


@EACH
@pytest.mark.parametrize(
    ("cores", "ntasks", "expected"),
    [
        (3, 15, [("p1", 5), ("p2", 8), ("p3", 2)]),
        (7, 6, [("p1", 1), ("p2", 5)]),
        (7, 13, [("p1", 1), ("p2", 8), ("p3", 4)]),
    ],
)
def test_lighter_nodes_are_used_up_first(
    scheduler: str, cores: int, ntasks: int, expected: list[tuple[str, int]]
) -> None:
    """However few CPUs they have left, even where a heavier node would do alone."""
    wants = [busy("p1", cores), {"ntasks": ntasks}]
    for topology in ("", TREE):
        assert [row[:2] for row in allocs_of(scheduler, wants, topology)] == expected


@EACH
@pytest.mark.parametrize(
    ("wants", "expected"),
    [
        ({"gpus": "4", "nodes_min": 2, "nodes_max": 2}, [2, 2]),
        ({"gpus": "5", "nodes_min": 2, "nodes_max": 2}, [3, 2]),
        ({"gpus": "6"}, [3, 3]),
        ({"gpus": "3", "ntasks": 2}, [3]),
        ({"gpus": "7", "nodes_min": 3, "nodes_max": 3}, [3, 2, 2]),
    ],
)
def test_gpus_of_the_whole_job(
    scheduler: str, wants: dict[str, object], expected: list[int]
) -> None:
    """They are dealt out evenly. Slurm gives the first node as many as it has."""
    assert [row[3] for row in allocs_of(scheduler, [wants])] == expected


@EACH
def test_nodes_with_few_gpus_left_get_fewer(scheduler: str) -> None:
    """What the first node lacks the second makes up for."""
    wants = [{"gres": "gpu:3", "node_list": "p1"}, {"gpus": "4", "exclude": "p[3-4]"}]
    for more in ({}, {"nodes_min": 2, "nodes_max": 2}):
        assert [row[3] for row in allocs_of(scheduler, [wants[0], wants[1] | more])] == [1, 3]


@EACH
def test_memory_of_gpus_decides_how_many_a_node_gives(scheduler: str) -> None:
    """Three GPUs with 3 GB each do not go on one node of 8 GB, but on two."""
    allocs = allocs_of(scheduler, [{"gpus": "3", "mem_per_gpu_mib": 3000}])
    assert [(row[3], row[4]) for row in allocs] == [(2, 6000), (1, 3000)]
    allocs = allocs_of(scheduler, [{"gpus": "3", "mem_per_gpu_mib": 3000, "nodes_min": 2}])
    assert [(row[3], row[4]) for row in allocs] == [(2, 6000), (1, 3000)]
