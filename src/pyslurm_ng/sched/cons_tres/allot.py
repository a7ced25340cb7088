"""The exact cores, memory and devices that a job gets on the nodes chosen for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyslurm_ng.model.gres_parts import free_whole, hold, mask_bytes, merged, part_alloc
from pyslurm_ng.model.job import GresAlloc, NodeAlloc
from pyslurm_ng.model.node import NodeSpec, is_consumed, is_explicit, is_indexed, is_part
from pyslurm_ng.sched.cons_tres import parts
from pyslurm_ng.sched.cons_tres.cores import by_socket, lowest_bits, pick_cores
from pyslurm_ng.sched.cons_tres.devices import (
    choose_devices,
    devices_near,
    near_cores,
    near_each,
)
from pyslurm_ng.sched.cons_tres.fit import (
    cores_of,
    cores_wanted,
    count_free,
    cpus_wanted,
    gpus_by_socket,
    gpus_on_each,
    open_cores,
    tasks_of_socket,
    threads_used,
    usable_devices,
    within_reach,
)
from pyslurm_ng.sched.cons_tres.free_node import FreeNode
from pyslurm_ng.sched.request.need import GresNeed, Need


def allot(need: Need, chosen: list[tuple[FreeNode, int]]) -> tuple[NodeAlloc, ...]:
    """Return the exact cores, memory and devices for each chosen node.

    The free nodes are changed: the given part is no longer free.
    """
    shares = deal_devices(need, chosen)
    assert shares is not None, need
    allocs = []
    for (node, tasks), share in zip(chosen, shares, strict=True):
        reached = within_reach(need, node)
        free = open_cores(need, reached)
        gres = _allot_gres(need, reached, tasks, free, share)
        if reached is not node:
            for alloc in gres:
                hold(node.gres_busy, node.gres_used, alloc)
        allocs.append(_allot_node(need, node, tasks, free, gres))
    return tuple(allocs)


def deal_devices(need: Need, chosen: Sequence[tuple[FreeNode, int]]) -> list[list[GresNeed]] | None:
    """Return which of the devices of a whole job each node gives; None if they have too few.

    The shares are even, the first nodes have what is left over; a node with less gives what it has.
    No node gives less than its tasks go with.

    Args:
        chosen: nodes, and the tasks of each.
    """
    shares: list[list[GresNeed]] = [[] for _ in chosen]
    least = [-(-tasks // need.tasks_per_gpu) if need.tasks_per_gpu else 0 for _, tasks in chosen]
    for name, kind, count in need.gres_total:
        most = [usable_devices(need, node, name, kind) for node, _ in chosen]
        device_count = count
        for index, share in enumerate(shares):
            even = -(-device_count // (len(chosen) - index))
            needed = max(even, device_count - sum(most[index + 1 :]), least[index])
            portion = max(0, min(most[index], needed, device_count - sum(least[index + 1 :])))
            if portion:
                share.append((name, kind, portion))
            device_count -= portion
        if device_count:
            return None
    return shares


def _allot_node(
    need: Need, node: FreeNode, tasks: int, free: int, gres: tuple[GresAlloc, ...]
) -> NodeAlloc:
    spec = node.spec
    threads = max(1, spec.threads_per_core)
    cores = free if need.is_exclusive else _pick(need, spec, free, tasks, gres)
    cpus = min(cores.bit_count() * threads, spec.cpus)
    idle = 0
    if need.charges_threads:
        idle = max(0, cpus - cpus_wanted(need, tasks, _gpus_of(gres)))
    if need.mem_per_node_mib:
        mem_mib = need.mem_per_node_mib
    elif need.mem_per_cpu_mib:
        # Threads that stay idle have no memory.
        used = min(cpus - idle, cores.bit_count() * threads_used(need, spec))
        mem_mib = min(need.mem_per_cpu_mib * used, node.mem_mib)
    elif need.mem_per_gpu_mib:
        mem_mib = need.mem_per_gpu_mib * _gpus_of(gres)
    elif need.mem_whole_node:
        mem_mib = node.mem_mib
    else:
        mem_mib = 0
    node.cores &= ~cores
    if need.is_capped:
        capped = node.partition_cores = node.partition_cores or {}
        capped[need.partition] = capped.get(need.partition, 0) | cores
    node.mem_mib -= mem_mib
    node.is_idle = False
    size = (cores.bit_length() + 7) // 8
    mask = cores.to_bytes(size, "little")
    return NodeAlloc(node.node_id, cpus, mask, mem_mib, tasks, gres, idle)


def _gpus_of(gres: Iterable[GresAlloc]) -> int:
    return sum(alloc.count for alloc in gres if alloc.name == "gpu")


def _pick(need: Need, spec: NodeSpec, free: int, tasks: int, gres: tuple[GresAlloc, ...]) -> int:
    """Return which of the free cores some tasks of a job get."""
    per_core = threads_used(need, spec)
    per_task = -(-need.cpus_per_task // per_core)
    core_count = cores_wanted(need, spec, tasks, _gpus_of(gres))
    if need.whole_sockets:
        return lowest_bits(free, core_count)
    if not need.tasks_per_socket or need.overcommit:
        return _pick_near(need, spec, free, core_count, per_task, gres)
    picked = _pick_by_socket(need, spec, free, tasks, gres)
    # What is wanted beyond the tasks' own may be of any socket.
    missing_count = core_count - picked.bit_count()
    return picked | _pick_near(need, spec, free & ~picked, missing_count, 1, gres)


def _pick_by_socket(
    need: Need, spec: NodeSpec, free: int, tasks: int, gres: tuple[GresAlloc, ...]
) -> int:
    """Return cores for so many tasks, in no socket for more of them than it may have.

    Sockets near the job's devices come first. Tasks of a core or less are dealt to them in turn,
    as many at once as share a core; others fill one socket after another.
    """
    per_core = threads_used(need, spec)
    near = 0 if need.gres_binding == "DISABLE" else near_cores(spec, gres) & free
    for cores in (near, free) if need.gres_binding == "ENFORCE" else (free,):
        parts = sorted(by_socket(cores, spec), key=lambda part: not part & near)
        most = [tasks_of_socket(need, part, per_core) for part in parts]
        if sum(most) >= tasks:
            break
    of_core = max(1, min(per_core // need.cpus_per_task, need.tasks_per_core or per_core))
    at_once = of_core if need.cpus_per_task <= per_core and not need.is_block else tasks
    tasks_of = [0] * len(parts)
    task_count = min(tasks, sum(most))
    while task_count:
        for index, room in enumerate(most):
            picked = min(room - tasks_of[index], task_count, at_once)
            tasks_of[index] += picked
            task_count -= picked
    return sum(
        lowest_bits(part, cores_of(need, count, per_core))
        for part, count in zip(parts, tasks_of, strict=True)
        if count
    )


def _pick_near(
    need: Need,
    spec: NodeSpec,
    free: int,
    core_count: int,
    per_task: int,
    gres: tuple[GresAlloc, ...],
) -> int:
    """Return so many of some cores, those near the job's devices first."""
    # A task of several CPUs of one core is not sent round the sockets, though a core is enough.
    is_block = need.is_block or need.fixed_tasks_per_node
    is_block = is_block or (per_task == 1 and need.cpus_per_task > 1)
    near = 0 if need.gres_binding == "DISABLE" else near_cores(spec, gres) & free
    if (need.cores_follow_gpus or need.gres_binding == "ENFORCE") and near:
        picked = _pick_beside_each(spec, near, core_count, near_each(spec, gres))
        if picked.bit_count() == core_count:
            return picked
    if need.gres_binding == "ENFORCE" and near.bit_count() >= core_count:
        free = near
    if not near or near == free:
        return pick_cores(spec, free, core_count, per_task, is_block=is_block)
    # Whole tasks as far as there is room for them; the others follow.
    first = min(core_count, near.bit_count() // per_task * per_task)
    picked = pick_cores(spec, near, first, per_task, is_block=is_block)
    missing_count = core_count - picked.bit_count()
    return picked | pick_cores(spec, free & ~picked, missing_count, per_task, is_block=is_block)


def _pick_beside_each(spec: NodeSpec, free: int, core_count: int, near: list[int]) -> int:
    """Return so many of some cores, as many beside each device as beside the others.

    What cannot be even is for devices of other sockets before further ones of the same.
    """
    order = sorted(range(len(near)), key=lambda index: near.index(near[index]) != index)
    each, more = divmod(core_count, len(near))
    picked = 0
    for turn, index in enumerate(order):
        share = each + (turn < more)
        picked |= pick_cores(spec, near[index] & free & ~picked, share, share)
    missing_count = core_count - picked.bit_count()
    return picked | pick_cores(spec, free & ~picked, missing_count, missing_count)


def _allot_gres(
    need: Need,
    node: FreeNode,
    tasks: int,
    cores: int,
    whole: Sequence[GresNeed],
) -> tuple[GresAlloc, ...]:
    allocs: list[GresAlloc] = []
    near = cores, 0
    if need.gres_binding != "DISABLE":
        gpus = gpus_on_each(need)
        if need.cpus_per_gpu:
            gpus += sum(count for name, _, count in whole if name == "gpu")
        core_count = cores_wanted(need, node.spec, tasks, gpus)
        # Sockets taken whole bring cores beyond those that tasks run on.
        is_limited = need.tasks_per_socket and not need.whole_sockets
        near = (_open_to_tasks(need, node.spec, cores) if is_limited else cores, core_count)
    for _, kind, count in need.gpus_per_socket:
        for socket, socket_count in gpus_by_socket(need, node, kind, count).items():
            allocs += _take(node, "gpu", kind, socket_count, near, socket)
    for name, kind, count in need.gres_per_node:
        if is_part(name):
            allocs.append(
                _hold_parts(node, name, parts.choose(need, node, (name, kind, count), near))
            )
        elif not need.gpus_per_socket or name != "gpu":
            allocs += _take(node, name, kind, count, near)
    for want in need.gres_per_task:
        name, kind, count = want
        if is_part(name):
            chosen = parts.choose_for_tasks(need, node, want, tasks, near)
            allocs.append(_hold_parts(node, name, chosen))
            continue
        allocs += _take(node, name, kind, count * tasks, near)
    for name, kind, count in whole:
        allocs += _take(node, name, kind, count, near)
    if need.is_exclusive:
        for gres in node.spec.gres:
            free = count_free(node, gres.name, gres.type)
            if free and not is_part(gres.name) and not is_explicit(gres):
                allocs += _take(node, gres.name, gres.type, free, near)
    return merged(allocs)


def _open_to_tasks(need: Need, spec: NodeSpec, cores: int) -> int:
    """Return so many cores of each socket as the tasks it may have could use."""
    per_core = threads_used(need, spec)
    return sum(
        lowest_bits(part, cores_of(need, tasks_of_socket(need, part, per_core), per_core))
        for part in by_socket(cores, spec)
    )


def _take(
    node: FreeNode, name: str, kind: str, count: int, near: tuple[int, int], socket: int = -1
) -> list[GresAlloc]:
    """Take devices of a node.

    Args:
        near: mask of the free cores, and how many of them the job takes.
        socket: mask of cores that each device has to be near one of.
    """
    allocs = []
    for gres in node.spec.gres:
        if gres.name != name or (kind and gres.type != kind):
            continue
        picked = 0
        if is_indexed(gres):
            mask = free_whole(gres, node.gres_busy)
            if socket >= 0:
                mask &= devices_near(gres, socket)
            take = min(mask.bit_count(), count)
            picked = choose_devices(gres, mask, take, *near) if take else 0
        else:
            used = node.gres_used.get(f"{name}:{gres.type}", 0)
            take = min(gres.count - used if is_consumed(gres) else gres.count, count)
        if take <= 0:
            continue
        took = GresAlloc(name, gres.type, take, mask_bytes(picked))
        hold(node.gres_busy, node.gres_used, took)
        allocs.append(took)
        count -= take
    assert not count, (node.spec.name, name, kind, count)
    return allocs


def _hold_parts(node: FreeNode, name: str, chosen: tuple[str, parts.Parts]) -> GresAlloc:
    """Take parts of GPUs of a node."""
    took = part_alloc(name, *chosen)
    hold(node.gres_busy, node.gres_used, took)
    return took
