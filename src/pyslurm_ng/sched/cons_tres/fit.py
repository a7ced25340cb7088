"""How many tasks of a job a node could run, and how many of its cores they take."""

from __future__ import annotations

from dataclasses import replace

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.model.node import NodeSpec, is_part, restricted_cores, schedulable_mem_mib
from pyslurm_ng.sched.cons_tres import parts
from pyslurm_ng.sched.cons_tres.cores import by_socket, lowest_bits, usable_cores
from pyslurm_ng.sched.cons_tres.devices import far_devices, reachable_cores
from pyslurm_ng.sched.cons_tres.free_node import MANY, FreeNode, free_devices
from pyslurm_ng.sched.request.need import Need


def count_free(node: FreeNode, name: str, kind: str) -> int:
    """Return how many devices of a name, and of a type unless that is empty, are free."""
    return sum(count for _, count, _ in free_devices(node, name, kind))


def within_reach(need: Need, node: FreeNode) -> FreeNode:
    """Return a node without the devices that no free core is near, where binding is enforced."""
    far = far_devices(node.spec, node.cores) if need.gres_binding == "ENFORCE" else {}
    if not far:
        return node
    busy = {key: node.gres_busy.get(key, 0) | mask for key, mask in far.items()}
    return replace(node, gres_busy={**node.gres_busy, **busy}, gres_used=dict(node.gres_used))


def usable_devices(need: Need, node: FreeNode, name: str, kind: str) -> int:
    """Return how many devices of a node a job could get of those it wants in all.

    GPUs bring CPUs and memory with them, and those of several types share what the node has.
    """
    node = within_reach(need, node)
    count = count_free(node, name, kind)
    if name != "gpu":
        return count
    count = min(count, node.most_gpus)
    types = max(1, sum(name == "gpu" for name, _, _ in need.gres_total))
    if need.cpus_per_gpu:
        cpus = node.cpus()
        if need.is_particular:
            cpus = open_cores(need, node).bit_count() * max(1, node.spec.threads_per_core)
        count = min(count, (cpus // need.cpus_per_gpu - gpus_on_each(need)) // types)
    if need.mem_per_gpu_mib:
        count = min(count, (node.mem_mib // need.mem_per_gpu_mib - gpus_on_each(need)) // types)
    return max(0, count)


def gpus_on_each(need: Need) -> int:
    """Return the GPUs that a job has on every node at least."""
    return sum(count for name, _, count in need.gres_per_node if name == "gpu")


def _gpus_here(need: Need, node: FreeNode) -> int:
    """Return how many GPUs a job could get of a node."""
    count = gpus_on_each(need)
    for name, kind, whole in need.gres_total:
        if name == "gpu":
            count += min(whole, usable_devices(need, node, name, kind))
    return min(count, count_free(node, "gpu", "")) if need.gres_total else count


def gpus_by_socket(need: Need, node: FreeNode, kind: str, count: int) -> dict[int, int]:
    """Return how many GPUs to take near which core masks: `count` of each socket.

    Where the places of GPUs are not known, they are near all cores.
    """
    socket_count = max(1, need.sockets_min)
    per_socket = max(1, node.spec.cores_per_socket)
    whole = (1 << per_socket) - 1
    free = sum(mask for _, _, mask in free_devices(node, "gpu", kind))
    first_cores: list[int] = []  # the first core near each
    for gres in node.spec.gres:
        if gres.name == "gpu" and kind in ("", gres.type):
            for number in range(gres.count):
                if free >> (gres.first_index + number) & 1:
                    if not gres.cores:
                        return {-1: min(free.bit_count(), count * socket_count)}
                    near = int.from_bytes(gres.cores[number], "little")
                    first_cores.append(near & -near)
    by_socket_number: dict[int, int] = {}
    for socket in range(max(1, node.spec.sockets)):
        cores = whole << (socket * per_socket)
        if (
            len(by_socket_number) < socket_count
            and sum(bool(core & cores) for core in first_cores) >= count
        ):
            by_socket_number[cores] = count
    return by_socket_number


def has_shape(need: Need, spec: NodeSpec) -> bool:
    """Return whether a node has the sockets, cores, threads and memory that a job insists on."""
    return (
        spec.sockets >= need.sockets_min
        and spec.cores_per_socket >= need.cores_per_socket_min
        and spec.cores_per_socket * spec.threads_per_core >= need.tasks_per_socket
        and spec.threads_per_core >= need.threads_per_core_min
        and schedulable_mem_mib(spec) >= need.real_memory_min_mib
    )


def open_cores(need: Need, node: FreeNode) -> int:
    """Return the free cores of a node that a job may have.

    Whole sockets only, near free devices only, or with another number of specialised cores: most
    jobs just have all that are free.
    """
    cores = node.cores
    if node.spec.restricted_cores_per_gpu and not need.has_gpus:
        cores &= ~restricted_cores(node.spec)
    if not need.is_particular:
        return cores
    special = need.special_cores or -(-need.special_threads // max(1, node.spec.threads_per_core))
    if special:
        cores = usable_cores(node.spec, special) if node.is_idle else 0
    if need.whole_sockets:
        usable = by_socket(usable_cores(node.spec), node.spec)
        free = by_socket(cores, node.spec)
        cores = sum(part for part, whole in zip(free, usable, strict=False) if part == whole)
    if need.max_cpus_per_socket < INFINITE:
        cores = _capped(need, node, cores)
    if need.gres_binding == "ENFORCE":
        cores &= _near_free_devices(need, node)
    return cores


def _capped(need: Need, node: FreeNode, cores: int) -> int:
    """Return free cores, of each socket as many as the partition may still have of it."""
    most = need.max_cpus_per_socket // max(1, node.spec.threads_per_core)
    used = (node.partition_cores or {}).get(need.partition, 0)
    per_socket = max(1, node.spec.cores_per_socket)
    whole = (1 << per_socket) - 1
    mask = 0
    for socket, part in enumerate(by_socket(cores, node.spec)):
        taken = (used >> socket * per_socket & whole).bit_count()
        mask |= lowest_bits(part, max(0, most - taken))
    return mask


def _near_free_devices(need: Need, node: FreeNode, tasks: int = MANY) -> int:
    """Return the cores near devices that the job could get; all cores if that is not known.

    Devices of the whole job are taken to be all here: a job of several nodes that gets fewer on
    one of them may have some of its cores there far from them.
    """
    near, is_known = 0, False
    gres = [*need.gres_per_node, *need.gres_total]
    gres += [(name, kind, count * tasks) for name, kind, count in need.gres_per_task]
    for want in gres:
        name, kind, count = want
        if is_part(name):
            cores = parts.reachable_cores(need, node, want)
            if cores is not None:
                near, is_known = near | cores, True
            continue
        free = sum(mask for _, _, mask in free_devices(node, name, kind))
        cores = reachable_cores(node.spec, name, kind, free, count, node.cores)
        if cores is not None:
            near, is_known = near | cores, True
    return near if is_known else -1


def _tasks_near_devices(need: Need, node: FreeNode, cores: int, most: int) -> int:
    """Return how many tasks have room near the devices that come with so many tasks."""
    if not need.gres_per_task:
        return most  # the devices, and so the cores near them, are the same for any number
    for tasks in range(min(most, need.tasks), 0, -1):
        near = cores & _near_free_devices(need, node, tasks)
        if cores_wanted(need, node.spec, tasks) <= near.bit_count():
            return tasks
    return 0


def _tasks_by_socket(need: Need, cores: int, spec: NodeSpec) -> int:
    """Return how many tasks fit with at most so many of them in a socket."""
    parts = [part for part in by_socket(cores, spec) if part]
    if need.overcommit:
        return need.tasks_per_socket * len(parts)
    per_core = threads_used(need, spec)
    return sum(tasks_of_socket(need, part, per_core) for part in parts)


def threads_used(need: Need, spec: NodeSpec) -> int:
    """Return how many threads of a core tasks may use; a core is given with all it has."""
    threads = max(1, spec.threads_per_core)
    return min(threads, need.threads_per_core) if need.threads_per_core else threads


def tasks_of_socket(need: Need, cores: int, per_core: int) -> int:
    """Return how many tasks some cores of one socket can take."""
    count = cores.bit_count()
    most = min(need.tasks_per_socket, count * per_core // need.cpus_per_task)
    return min(most, count * need.tasks_per_core) if need.tasks_per_core else most


def tasks_that_fit(need: Need, node: FreeNode) -> int:
    """Return how many of a job's tasks the node could run now; 0 when it is of no use.

    For a job whose tasks need nothing per task the answer may be `MANY`.
    """
    if not has_shape(need, node.spec):
        return 0
    node = within_reach(need, node)
    cores = node.cores
    if need.is_particular or node.spec.restricted_cores_per_gpu:
        cores = open_cores(need, node)
    cpus = cores.bit_count() * node.spec.threads_per_core
    if need.max_cpus_per_node < INFINITE:
        if need.is_exclusive and cpus > need.max_cpus_per_node:
            return 0  # a node cannot be had whole
        used = (node.partition_cores or {}).get(need.partition, 0).bit_count()
        cpus = min(cpus, need.max_cpus_per_node - used * max(1, node.spec.threads_per_core))
    if need.is_exclusive and not node.is_idle:
        return 0
    if cpus < max(need.cpus_min_per_node, need.cpus_per_task, 1):
        return 0
    if need.cpus_per_gpu and cpus < need.cpus_per_gpu * gpus_on_each(need):
        return 0
    limit = cpus // need.cpus_per_task if not need.overcommit else MANY
    if need.threads_per_core and need.threads_per_core < node.spec.threads_per_core:
        most_cores = min(cores.bit_count(), cpus // node.spec.threads_per_core)
        limit = min(limit, most_cores * need.threads_per_core // need.cpus_per_task)
    if need.tasks_per_core:
        limit = min(limit, cores.bit_count() * need.tasks_per_core)
    if need.tasks_per_socket:
        limit = min(limit, _tasks_by_socket(need, cores, node.spec))
    limit = min(limit, _tasks_in_memory(need, node))
    limit = min(limit, _tasks_with_devices(need, node))
    if limit <= 0 or need.tmp_mib > node.spec.tmp_disk_mib:
        return 0
    if need.gres_binding == "ENFORCE":
        limit = _tasks_near_devices(need, node, cores, limit)
    if need.tasks_per_node:
        limit = min(limit, need.tasks_per_node)
        if need.fixed_tasks_per_node and limit < need.tasks_per_node:
            return 0
    return max(0, limit)


def _tasks_in_memory(need: Need, node: FreeNode) -> int:
    """Return how many tasks the free memory of a node lets run, `MANY` if it limits none."""
    if need.mem_per_node_mib:
        return MANY if node.mem_mib >= need.mem_per_node_mib else 0
    if need.mem_per_cpu_mib and need.shares_cpus:
        # Memory comes with CPUs, however many tasks are on them.
        least_mib = need.mem_per_cpu_mib * max(need.cpus_min_per_node, 1)
        return MANY if node.mem_mib >= least_mib else 0
    if need.mem_per_cpu_mib:
        return node.mem_mib // (need.mem_per_cpu_mib * need.cpus_per_task)
    if need.mem_per_gpu_mib:
        return _tasks_in_gpu_memory(need, node)
    return 0 if need.mem_whole_node and not node.is_idle else MANY


def _tasks_with_devices(need: Need, node: FreeNode) -> int:
    """Return how many tasks the free devices of a node let run, `MANY` if they limit none."""
    for want in need.gres_per_node:
        name, kind, count = want
        if is_part(name):
            if not parts.fits(need, node, want):
                return 0
        elif count_free(node, name, kind) < count:
            return 0
    for _, kind, count in need.gpus_per_socket:
        if sum(gpus_by_socket(need, node, kind, count).values()) < count * max(1, need.sockets_min):
            return 0
    limit = MANY
    for want in need.gres_per_task:
        name, kind, count = want
        if is_part(name):
            limit = min(limit, parts.tasks_that_fit(need, node, want))
        else:
            limit = min(limit, count_free(node, name, kind) // count)
    if need.tasks_per_gpu:
        limit = min(limit, need.tasks_per_gpu * _gpus_here(need, node))
    return limit


def _tasks_in_gpu_memory(need: Need, node: FreeNode) -> int:
    """Return how many tasks the node's memory bears when each GPU of node or task brings its own.

    GPUs of the whole job are not dealt to nodes yet: see `usable_devices`.
    """
    fixed = gpus_on_each(need)
    per_task = sum(count for name, _, count in need.gres_per_task if name == "gpu")
    gpu_count = node.mem_mib // need.mem_per_gpu_mib - fixed
    if gpu_count < 0:
        return 0
    return gpu_count // per_task if per_task else MANY


def cores_wanted(need: Need, spec: NodeSpec, tasks: int, gpus: int = 0) -> int:
    """Return how many cores of a node some tasks and GPUs take, when it is not taken whole."""
    threads, per_core = max(1, spec.threads_per_core), threads_used(need, spec)
    most = need.tasks_per_socket
    socket = (1 << max(1, spec.cores_per_socket)) - 1
    at_once = max(1, tasks_of_socket(need, socket, per_core)) if most else tasks
    if tasks > at_once and not need.overcommit:
        # Threads of one core are not shared over sockets: each is counted by itself.
        cores = tasks // at_once * cores_of(need, at_once, per_core)
        cores += cores_of(need, tasks % at_once, per_core)
    else:
        cores = cores_of(need, tasks, per_core)
    cpus = max(need.cpus_min_per_node, gpus * need.cpus_per_gpu)
    cores = max(cores, -(-cpus // threads), 1)
    if need.whole_sockets:
        per_socket = max(1, spec.cores_per_socket)
        sockets = -(-cores // per_socket)
        cores = (max(sockets, -(-tasks // most)) if most else sockets) * per_socket
    return cores


def cpus_wanted(need: Need, tasks: int, gpus: int = 0) -> int:
    """Return how many CPUs of a node some tasks and GPUs use, without others of the same cores."""
    used = 1 if need.overcommit else tasks * need.cpus_per_task
    return max(used, need.cpus_min_per_node, gpus * need.cpus_per_gpu, 1)


def cores_of(need: Need, tasks: int, per_core: int) -> int:
    """Return the cores of some tasks that may share cores with each other."""
    cores = 1 if need.overcommit else -(-tasks * need.cpus_per_task // per_core)
    return max(cores, -(-tasks // need.tasks_per_core)) if need.tasks_per_core else cores
