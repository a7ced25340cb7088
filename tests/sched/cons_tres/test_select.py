"""Which cores of a node and which share of the tasks a job gets, as seen with Slurm."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import NodeGres, NodeSpec, id_ranges
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.sched.cons_tres.allot import allot
from pyslurm_ng.sched.cons_tres.cores import pick_cores
from pyslurm_ng.sched.cons_tres.free_node import FreeNode, empty_node
from pyslurm_ng.sched.cons_tres.select import choose, share_tasks
from pyslurm_ng.sched.request.need import need_of

SPEC = NodeSpec("n1", cpus=16, sockets=2, cores_per_socket=8, threads_per_core=1)
GPU_SPEC = NodeSpec(
    "g1",
    cpus=16,
    sockets=2,
    cores_per_socket=8,
    threads_per_core=1,
    real_memory_mib=4000,
    gres=(NodeGres("gpu", "", 4, first_index=0),),
)


def mask(text: str) -> int:
    return sum(1 << number for number in id_ranges(text))


def node(node_id: int = 0, busy: str = "", weight: int = 1) -> FreeNode:
    free = empty_node(node_id, SPEC)
    free.cores &= ~mask(busy) if busy else -1
    free.weight = weight
    return free


@pytest.mark.parametrize(
    ("busy", "tasks", "per_task", "expected"),
    [
        ("", 4, 1, "0-1,8-9"),
        ("", 5, 1, "0-2,8-9"),
        ("", 10, 1, "0-4,8-12"),
        ("", 1, 4, "0-3"),
        ("", 2, 2, "0-3"),
        ("", 2, 3, "0-5"),
        ("", 3, 3, "0-5,8-10"),
        ("", 3, 5, "0-14"),
        ("", 2, 7, "0-6,8-14"),
        ("", 4, 3, "0-5,8-13"),
        ("", 3, 4, "0-11"),
        ("", 1, 9, "0-4,8-11"),
        ("", 1, 12, "0-5,8-13"),
        ("0-2", 1, 9, "3-11"),
        ("0-2", 10, 1, "3-12"),
        ("0-3", 4, 1, "4-5,8-9"),
        ("0-3", 1, 6, "8-13"),
        ("0-3", 2, 3, "4-6,8-10"),
        ("0-5,8-9", 2, 2, "6-7,10-11"),
        ("0-6", 1, 1, "7"),
        ("0-8", 2, 1, "9-10"),
    ],
)
def test_cores_are_those_that_slurm_gives(
    busy: str, tasks: int, per_task: int, expected: str
) -> None:
    """CPU_IDs of `sbatch -n TASKS -c PER_TASK`, with CPUs busy on a node of two sockets of 8."""
    assert pick_cores(SPEC, node(busy=busy).cores, tasks * per_task, per_task) == mask(expected)


def test_block_fills_a_socket_before_the_next() -> None:
    """-m block:block, and --ntasks-per-node as recorded."""
    assert pick_cores(SPEC, node(busy="0-1").cores, 7, is_block=True) == mask("2-8")
    partition = Partition("main")
    for words in ({"distribution": "block:block"}, {"ntasks_per_node": 4, "ntasks": 0}):
        need = need_of(JobRequest(**{"ntasks": 4, "nodes_min": 1, **words}), partition, {})  # type: ignore[arg-type]
        assert allot(need, [(node(), 4)])[0].cores == b"\x0f"
    need = need_of(JobRequest(ntasks=4, nodes_min=1), partition, {})
    assert allot(need, [(node(), 4)])[0].cores == b"\x03\x03"


def test_spare_tasks_go_to_the_lightest_node() -> None:
    """`-N4 -n8` where the third and fourth node are lighter; ranks stay in node order."""
    nodes = [node(0, weight=10), node(1, weight=10), node(2), node(3)]
    need = need_of(JobRequest(ntasks=8, nodes_min=4), Partition("main"), {})

    def tasks(need_tasks: int) -> list[tuple[int, int]]:
        for_tasks = dataclasses.replace(need, tasks=need_tasks)
        shares = share_tasks(for_tasks, [(node, 16) for node in nodes])
        assert shares is not None
        return [(node.node_id, count) for node, count in shares]

    assert tasks(8) == [(0, 1), (1, 1), (2, 5), (3, 1)]
    assert tasks(20) == [(0, 1), (1, 1), (2, 16), (3, 2)]
    assert tasks(40) == [(0, 7), (1, 1), (2, 16), (3, 16)]


def test_required_nodes_are_filled_first() -> None:
    """`-w` puts a node before lighter ones."""
    nodes = [node(0, weight=10), node(1)]
    need = need_of(JobRequest(ntasks=3, nodes_min=2, node_list="n1"), Partition("main"), {"n1": 0})
    shares = share_tasks(need, [(node, 16) for node in nodes])
    assert shares is not None
    assert [count for _, count in shares] == [2, 1]


@given(
    wants=st.fixed_dictionaries(
        {},
        optional={
            "gpus": st.sampled_from(["1", "2", "3", "6"]),
            "gpus_per_node": st.sampled_from(["1", "2"]),
            "gpus_per_task": st.sampled_from(["1", "2"]),
        },
    ).filter(lambda wants: len(wants) == 1),
    mem_per_gpu_mib=st.integers(1, 1200),
    tasks=st.integers(1, 4),
    mem_mib=st.lists(st.integers(0, 4000), min_size=1, max_size=3),
)
def test_memory_of_gpus_is_never_more_than_a_node_has(
    wants: dict[str, str], mem_per_gpu_mib: int, tasks: int, mem_mib: list[int]
) -> None:
    """--mem-per-gpu with GPUs of the job, the node or the task."""
    nodes = []
    for number, mib in enumerate(mem_mib):
        free = empty_node(number, GPU_SPEC)
        free.mem_mib = mib
        nodes.append(free)
    request = JobRequest(ntasks=tasks, mem_per_gpu_mib=mem_per_gpu_mib, **wants)  # type: ignore[arg-type]
    need = need_of(request, Partition("main", (0, 1, 2)), {})
    chosen = choose(need, nodes)
    if chosen is not None:
        allocs = allot(need, chosen)
        assert all(free.mem_mib >= 0 for free in nodes)
        gpus = sum(gres.count for alloc in allocs for gres in alloc.gres)
        assert sum(alloc.mem_mib for alloc in allocs) == gpus * mem_per_gpu_mib


def test_gpus_with_room_for_their_memory_are_given() -> None:
    free = empty_node(0, GPU_SPEC)
    free.mem_mib = 2000
    for count, fits in (("2", True), ("3", False)):
        request = JobRequest(gpus=count, mem_per_gpu_mib=900)
        need = need_of(request, Partition("main", (0,)), {})
        assert (choose(need, [free]) is not None) == fits
