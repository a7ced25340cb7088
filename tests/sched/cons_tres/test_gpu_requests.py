"""How many GPUs and CPUs of which nodes requests for GPUs amount to."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pyslurm_ng.base.numbers import REQ_GRES_ENFORCE_BIND
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import NodeGres, NodeSpec, restricted_cores
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.sched.cons_tres.allot import allot
from pyslurm_ng.sched.cons_tres.fit import usable_devices
from pyslurm_ng.sched.cons_tres.free_node import FreeNode, empty_node
from pyslurm_ng.sched.cons_tres.select import choose
from pyslurm_ng.sched.request.need import Selection, need_of

LEFT, RIGHT = b"\xff", b"\x00\xff"


def nodes(gpus: int = 4, *more: NodeGres) -> list[FreeNode]:
    """Two nodes of two sockets of eight cores, half of the GPUs near each."""
    cores = (LEFT,) * (gpus // 2) + (RIGHT,) * (gpus - gpus // 2)
    spec = NodeSpec(
        "g",
        cpus=16,
        sockets=2,
        cores_per_socket=8,
        real_memory_mib=64000,
        gres=(NodeGres("gpu", "", gpus, cores=cores), *more),
    )
    return [empty_node(0, spec), empty_node(1, spec)]


def given_to(
    free: list[FreeNode], cpus_per_gpu: int = 0, mem_per_gpu_mib: int = 0, **wants: object
) -> list[tuple[int, int, int, int]]:
    """Return (tasks, CPUs, GPUs, MiB) on each node; nothing if the job does not fit."""
    partition = Partition(
        "main", (0, 1), def_cpus_per_gpu=cpus_per_gpu, def_mem_per_gpu_mib=mem_per_gpu_mib
    )
    selection = Selection(with_memory=mem_per_gpu_mib > 0)
    need = need_of(JobRequest(**wants), partition, {}, selection)  # type: ignore[arg-type]
    chosen = choose(need, free)
    return [
        (alloc.tasks, alloc.cpus, sum(gres.count for gres in alloc.gres), alloc.mem_mib)
        for alloc in (allot(need, chosen) if chosen else ())
    ]


@pytest.mark.parametrize(
    "wants",
    [
        {"gpus_per_node": "2", "gpus": "4"},
        {"gres": "gpu:2", "gpus": "4"},
        {"gpus_per_node": "2", "gpus": "4", "nodes_min": 2, "nodes_max": 2},
        {"gpus_per_socket": "1", "sockets_per_node": 2, "gpus": "4"},
    ],
)
def test_gpus_by_node_and_in_all_are_the_same_gpus(wants: dict[str, object]) -> None:
    """--gpus-per-node=2 --gpus=4 is two nodes with two GPUs each, not four more."""
    assert given_to(nodes(8), **wants) == [(1, 1, 2, 0), (1, 1, 2, 0)]


def test_gpus_of_each_socket_are_near_it() -> None:
    """One of each of two sockets, not two of one; where no socket has two, the job waits."""
    wants = {"gpus_per_socket": "1", "sockets_per_node": 2, "nodes_max": 1}
    free = nodes()[:1]
    assert given_to(free, **wants) == [(1, 1, 2, 0)]
    assert free[0].gres_busy["gpu:"] == 0b0101
    assert given_to(nodes()[:1], **{**wants, "gpus_per_socket": "3"}) == []
    busy = nodes()[:1]
    busy[0].gres_busy["gpu:"] = 0b0011
    assert given_to(busy, **wants) == []


def test_gpus_by_task_are_the_gpus_of_the_job() -> None:
    assert given_to(nodes(8), gpus_per_task="1", gpus="4") == [(4, 4, 4, 0)]
    assert given_to(nodes(8), gpus_per_task="2", gpus="8", ntasks=4) == [(4, 4, 8, 0)]
    both = given_to(nodes(8), gpus_per_node="4", gpus_per_task="2", ntasks=4)
    assert both == [(2, 2, 4, 0), (2, 2, 4, 0)]


def test_tasks_follow_their_gpus() -> None:
    """--ntasks-per-gpu: no node gets more tasks than its GPUs are for."""
    assert given_to(nodes(), gpus="8", ntasks_per_gpu=2) == [(8, 8, 4, 0), (8, 8, 4, 0)]
    assert given_to(nodes(), gpus="6", ntasks_per_gpu=2) == [(8, 8, 4, 0), (4, 4, 2, 0)]


@pytest.mark.parametrize(
    ("wants", "expected"),
    [
        ({"gpus": "8", "cpus_per_gpu": 4}, [(1, 16, 4), (1, 16, 4)]),
        ({"gpus": "6", "cpus_per_gpu": 4}, [(1, 12, 3), (1, 12, 3)]),
        ({"gpus": "4", "cpus_per_gpu": 8}, [(1, 16, 2), (1, 16, 2)]),
        ({"gpus": "8", "cpus_per_gpu": 8}, []),
        ({"gpus": "2", "cpus_per_gpu": 4, "ntasks": 1}, [(1, 8, 2)]),
        ({"gres": "gpu:2", "cpus_per_gpu": 4}, [(1, 8, 2)]),
        ({"gpus_per_task": "1", "cpus_per_gpu": 4, "ntasks": 3}, [(3, 12, 3)]),
        (
            {"gres": "gpu:4", "cpus_per_gpu": 4, "ntasks": 3, "nodes_min": 2, "nodes_max": 2},
            [(2, 16, 4), (1, 16, 4)],
        ),
    ],
)
def test_cpus_go_with_gpus(wants: dict[str, object], expected: list[tuple[int, ...]]) -> None:
    """Each node gives CPUs for its own GPUs, and no more GPUs than it has CPUs for."""
    assert [amounts[:3] for amounts in given_to(nodes(), **wants)] == expected


def test_defaults_of_the_partition_per_gpu() -> None:
    """DefCpuPerGPU yields to --cpus-per-task; DefMemPerGPU counts GPUs asked for with --gres."""
    assert given_to(nodes(), 3, gpus="2") == [(1, 6, 2, 0)]
    assert given_to(nodes(), 3, gpus="2", cpus_per_task=1) == [(1, 1, 2, 0)]
    assert given_to(nodes(), 3, ntasks=1) == [(1, 1, 0, 0)]
    assert given_to(nodes(), 0, 1000, gres="gpu:2", ntasks=1) == [(1, 1, 2, 2000)]


def test_what_is_not_consumed_never_runs_out() -> None:
    """Gres=lustre:no_consume:4: any number of jobs, but none that wants five."""
    free = nodes(0, NodeGres("lustre", "", 4, flags="no_consume"))[:1]
    for _ in range(3):
        assert given_to(free, gres="lustre:3", ntasks=1) == [(1, 1, 3, 0)]
    assert given_to(free, gres="lustre:5", ntasks=1) == []


def test_enforced_binding_counts_the_cores_near_each_tasks_gpus() -> None:
    """Two GPUs per task of three CPUs: each task's GPUs open one socket."""
    enforced = {"flags": REQ_GRES_ENFORCE_BIND}
    free = nodes()[:1]
    assert given_to(free, ntasks=1, cpus_per_task=9, gpus_per_task="1", **enforced) == []
    assert given_to(free, ntasks=1, cpus_per_task=9, gpus_per_task="3", **enforced) == [
        (1, 9, 3, 0)
    ]
    assert given_to(nodes()[:1], ntasks=1, cpus_per_task=9, gpus="2", **enforced) == [(1, 9, 2, 0)]


def test_restricted_cores_are_for_jobs_with_gpus() -> None:
    """RestrictedCoresPerGPU=2: the first two near each of four GPUs, 0-3 and 8-11."""
    free = nodes()[:1]
    spec = free[0].spec = replace(free[0].spec, restricted_cores_per_gpu=2)
    assert restricted_cores(spec) == 0x0F0F
    assert given_to([empty_node(0, spec)], ntasks=9, nodes_max=1) == []
    assert given_to(free, ntasks=8) == [(8, 8, 0, 0)]
    assert free[0].cores == 0x0F0F
    assert given_to(free, ntasks=1) == []
    assert given_to(free, ntasks=4, gpus="2") == [(4, 4, 2, 0)]


def test_gpus_have_the_cpus_of_sockets_that_are_free() -> None:
    """CR_Socket: cores of a socket that is in use are no CPUs for a GPU."""
    spec = NodeSpec("g", cpus=4, sockets=2, cores_per_socket=2, gres=(NodeGres("gpu", "", 2),))
    free = empty_node(0, spec)
    free.cores, free.is_idle = 0b1110, False
    sockets = Selection(with_memory=False, whole_sockets=True)
    wants = JobRequest(gpus="2", cpus_per_gpu=2)
    assert (
        usable_devices(need_of(wants, Partition("main", (0,)), {}, sockets), free, "gpu", "") == 1
    )
