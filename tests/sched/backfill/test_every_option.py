"""Whatever a job asks for inside its nodes, the cores and devices chosen satisfy it."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import example, given, settings, strategies as st

from pyslurm_ng.base.numbers import REQ_EXCLUSIVE, REQ_GRES_DISABLE_BIND, REQ_GRES_ENFORCE_BIND
from pyslurm_ng.model.job import JobRequest, NodeAlloc
from pyslurm_ng.model.node import NodeGres, NodeSpec
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.sched.cons_tres.allot import allot
from pyslurm_ng.sched.cons_tres.cores import by_socket, usable_cores
from pyslurm_ng.sched.cons_tres.fit import has_shape
from pyslurm_ng.sched.cons_tres.free_node import FreeNode, empty_node
from pyslurm_ng.sched.cons_tres.select import choose
from pyslurm_ng.sched.request.need import Need, Selection, need_of
from tests.world.examples import drawn


class Before(NamedTuple):
    """What a node had before the job came."""

    cores: int
    mem_mib: int
    gpus: int


@st.composite
def free_nodes(draw: st.DrawFn, number: int) -> FreeNode:
    """A node of one to two sockets, some of it in use."""
    sockets = draw(st.integers(1, 2))
    per_socket = draw(st.sampled_from([2, 4]))
    threads = draw(st.sampled_from([1, 2]))
    gpus = draw(st.sampled_from([0, 2, 4]))
    near: tuple[bytes, ...] = ()
    if gpus and draw(st.booleans()):
        whole = (1 << per_socket) - 1
        home = [gpu * sockets // gpus for gpu in range(gpus)]
        near = tuple((whole << per_socket * at).to_bytes(1, "little") for at in home)
    spec = NodeSpec(
        f"n{number}",
        cpus=sockets * per_socket * threads,
        sockets=sockets,
        cores_per_socket=per_socket,
        threads_per_core=threads,
        real_memory_mib=8000,
        core_spec_count=draw(st.sampled_from([0, 0, 1])),
        gres=(NodeGres("gpu", "", gpus, cores=near),) if gpus else (),
    )
    node = empty_node(number, spec)
    busy = draw(st.sampled_from([0, 0, draw(st.integers(0, 255))]))
    node.is_idle = not busy & node.cores
    node.cores &= ~busy
    if not node.is_idle:
        node.mem_mib -= draw(st.sampled_from([0, 3000, 7900]))
        taken = draw(st.integers(0, (1 << gpus) - 1))
        node.gres_busy["gpu:"], node.gres_used["gpu:"] = taken, taken.bit_count()
    return node


def counts(*values: int) -> st.SearchStrategy[int]:
    return st.sampled_from([0, 0, *values])


REQUESTS = st.builds(
    JobRequest,
    ntasks=counts(1, 2, 3, 5, 8),
    nodes_min=counts(1, 2),
    cpus_per_task=counts(1, 2, 3),
    mincpus=counts(3),
    ntasks_per_node=counts(1, 2),
    ntasks_per_core=counts(1),
    ntasks_per_socket=counts(1, 2),
    threads_per_core=counts(1),
    sockets_per_node=counts(2),
    cores_per_socket=counts(4),
    mem_per_node_mib=counts(1000),
    gpus_per_task=st.sampled_from(["", "", "", "1"]),
    gpus_per_node=st.sampled_from(["", "", "", "2"]),
    distribution=st.sampled_from(["", "block:block", "block:cyclic", "block:fcyclic"]),
    flags=st.sampled_from([0, 0, REQ_EXCLUSIVE, REQ_GRES_ENFORCE_BIND, REQ_GRES_DISABLE_BIND]),
)
BOUNDS = st.builds(
    JobRequest,
    ntasks=counts(1, 3, 6),
    cpus_per_gpu=counts(1, 2),
    mem_per_gpu_mib=counts(1500),
    mem_per_cpu_mib=st.just(0),
    gpus=st.sampled_from(["1", "3", "4"]),
)


def idle_node(number: int, sockets: int, gpus_per_socket: int) -> FreeNode:
    """An idle node of sockets of two cores; GPUs are near the cores of their socket."""
    near = tuple(bytes([3 << 2 * socket]) for socket in range(sockets)) * gpus_per_socket
    spec = NodeSpec(
        f"n{number}",
        cpus=2 * sockets,
        sockets=sockets,
        cores_per_socket=2,
        real_memory_mib=8000,
        gres=(NodeGres("gpu", "", len(near), cores=tuple(sorted(near))),) if near else (),
    )
    return empty_node(number, spec)


# Whole sockets for tasks of different sockets: GPUs of both are taken.
@example(
    nodes=(idle_node(0, 1, 0), idle_node(1, 1, 0), idle_node(2, 2, 2)),
    request=JobRequest(
        nodes_min=1,
        ntasks_per_socket=1,
        gpus_per_task="1",
        gpus_per_node="2",
        flags=REQ_GRES_ENFORCE_BIND,
    ),
    whole_sockets=True,
    one_task_per_core=False,
)
@settings(max_examples=drawn(400))
@given(
    nodes=st.tuples(free_nodes(0), free_nodes(1), free_nodes(2)),
    request=REQUESTS | BOUNDS,
    whole_sockets=st.booleans(),
    one_task_per_core=st.booleans(),
)
def test_what_is_chosen_is_what_was_asked_for(
    nodes: tuple[FreeNode, ...], request: JobRequest, whole_sockets: bool, one_task_per_core: bool
) -> None:
    """Each option is looked at by itself, whatever the others are."""
    selection = Selection(whole_sockets=whole_sockets, one_task_per_core=one_task_per_core)
    need = need_of(request, Partition("main", (0, 1, 2)), {}, selection)
    before = {node.node_id: Before(node.cores, node.mem_mib, _free_gpus(node)) for node in nodes}
    idle = {node.node_id: node.is_idle for node in nodes}
    chosen = choose(need, nodes)
    if chosen is None:
        return
    by_id = {node.node_id: node for node in nodes}
    allocs = allot(need, chosen)
    assert need.nodes_min <= len(allocs) <= need.nodes_max
    assert len({alloc.node_id for alloc in allocs}) == len(allocs)
    assert sum(alloc.tasks for alloc in allocs) >= need.tasks
    gpus = sum(_gpus(alloc).bit_count() for alloc in allocs)
    if not need.is_exclusive:
        for _, _, count in need.gres_total:
            assert gpus == count
    for alloc in allocs:
        node = by_id[alloc.node_id]
        _check_taken(alloc, before[alloc.node_id])
        _check_cores(need, alloc, node.spec)
        _check_devices(need, alloc, node.spec)
        assert has_shape(need, node.spec)
        if need.is_exclusive:
            assert idle[alloc.node_id]
            assert int.from_bytes(alloc.cores, "little") == usable_cores(node.spec)


def _free_gpus(node: FreeNode) -> int:
    every = sum((1 << gres.count) - 1 for gres in node.spec.gres)
    return every & ~node.gres_busy.get("gpu:", 0)


def _gpus(alloc: NodeAlloc) -> int:
    return sum(int.from_bytes(gres.indexes, "little") for gres in alloc.gres)


def _check_taken(alloc: NodeAlloc, before: Before) -> None:
    """It was free, and is counted right."""
    assert not int.from_bytes(alloc.cores, "little") & ~before.cores
    assert alloc.mem_mib <= before.mem_mib
    assert not _gpus(alloc) & ~before.gpus
    assert all(
        gres.count == int.from_bytes(gres.indexes, "little").bit_count() for gres in alloc.gres
    )


def _check_cores(need: Need, alloc: NodeAlloc, spec: NodeSpec) -> None:
    """Tasks have their CPUs, and no core or socket has more tasks than it may."""
    cores = int.from_bytes(alloc.cores, "little")
    threads, per_core = spec.threads_per_core, spec.threads_per_core
    if need.threads_per_core:
        per_core = min(per_core, need.threads_per_core)
    assert alloc.cpus == min(cores.bit_count() * threads, spec.cpus)
    assert cores.bit_count() * per_core >= alloc.tasks * need.cpus_per_task
    assert alloc.cpus >= max(need.cpus_min_per_node, 1)
    if need.tasks_per_node:
        assert alloc.tasks <= need.tasks_per_node
    if need.tasks_per_core:
        assert cores.bit_count() * need.tasks_per_core >= alloc.tasks
    parts = by_socket(cores, spec)
    if need.tasks_per_socket:
        room = 0
        for part in parts:
            fit = part.bit_count() * per_core // need.cpus_per_task
            if need.tasks_per_core:
                fit = min(fit, part.bit_count() * need.tasks_per_core)
            room += min(need.tasks_per_socket, fit)
        assert room >= alloc.tasks
    if need.whole_sockets:
        usable = by_socket(usable_cores(spec), spec)
        assert all(not part or part == whole for part, whole in zip(parts, usable, strict=False))


def _check_devices(need: Need, alloc: NodeAlloc, spec: NodeSpec) -> None:
    """GPUs are as many as asked for, with the CPUs, memory and cores that go with them."""
    gpus, cores = _gpus(alloc), int.from_bytes(alloc.cores, "little")
    assert gpus.bit_count() >= sum(count for _, _, count in need.gres_per_node)
    assert gpus.bit_count() >= alloc.tasks * sum(count for _, _, count in need.gres_per_task)
    assert alloc.cpus >= need.cpus_per_gpu * gpus.bit_count() or need.is_exclusive
    if need.mem_per_gpu_mib:
        assert alloc.mem_mib == need.mem_per_gpu_mib * gpus.bit_count()
    # With GPUs for each task their number is not known when the cores of --mincpus are counted.
    is_sure = not (need.cpus_min_per_node and need.gres_per_task)
    if need.gres_binding == "ENFORCE" and gpus and is_sure:
        (gres,) = spec.gres
        if gres.cores:
            own = {
                int.from_bytes(mask, "little")
                for number, mask in enumerate(gres.cores)
                if gpus >> number & 1
            }
            assert not cores & ~sum(own)
