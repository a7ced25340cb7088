"""Which nodes, cores and devices a job gets, in the way of cons_tres.

A node's cores are a bit mask, socket by socket; a core is given whole, with all its threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pyslurm_ng.model.cluster import id_ranges, schedulable_mem_mib
from pyslurm_ng.model.ids import INFINITE
from pyslurm_ng.model.job import GresAlloc, JobRequest, NodeAlloc
from pyslurm_ng.model.node import NodeSpec, is_consumed, is_indexed, restricted_cores
from pyslurm_ng.sched.choosers import (
    Chooser,
    Picker,
    Plain,
    choose_counted,
    node_counts,
    ways_of,
)
from pyslurm_ng.sched.devices import choose_devices, devices_near, near_cores, reachable_cores
from pyslurm_ng.sched.features import matches
from pyslurm_ng.sched.need import Need
from pyslurm_ng.sched.snapshot import Snapshot
from pyslurm_ng.sched.topology import Layout, Place, choose_shares, weight_groups

MANY = 1 << 30  # more tasks than any node could run


@dataclass(slots=True)
class FreeNode:
    """What one node still has to give; masks have a bit per core or device."""

    node_id: int
    spec: NodeSpec
    cores: int
    mem_mib: int
    gres_busy: dict[str, int]
    gres_used: dict[str, int]
    weight: int = 1
    is_idle: bool = True
    features: tuple[str, ...] = ()
    partition_cores: dict[str, int] | None = None  # in use, of partitions with a limit on them

    def cpus(self) -> int:
        """Return the free CPUs: all threads of the free cores."""
        return self.cores.bit_count() * self.spec.threads_per_core


def usable_cores(spec: NodeSpec, special: int = 0) -> int:
    """Return the mask of cores jobs may use: all but the specialised ones.

    A count of these takes the highest core of each socket in turn, the last socket first, then
    the next highest: what is left is even over the sockets.

    Args:
        special: as many cores are specialised, whatever the configuration says; 0: as it says.
    """
    total = max(1, spec.cpus // max(1, spec.threads_per_core))
    mask = (1 << total) - 1
    if spec.cpu_spec_list and not special:
        for cpu in id_ranges(spec.cpu_spec_list):
            mask &= ~(1 << (cpu // spec.threads_per_core))
        return mask
    special = special or spec.core_spec_count
    if special:
        per_socket = max(1, spec.cores_per_socket)
        sockets = max(1, total // per_socket)
        for turn in range(min(special, total)):
            place = (sockets - turn % sockets) * per_socket - turn // sockets - 1
            mask &= ~(1 << max(0, place))
    return mask


def empty_node(node_id: int, spec: NodeSpec) -> FreeNode:
    """Return a node as it is when nothing runs on it."""
    return FreeNode(node_id, spec, usable_cores(spec), schedulable_mem_mib(spec), {}, {})


def free_node(snapshot: Snapshot, node_id: int) -> FreeNode:
    """Return what a node has left in a snapshot."""
    spec = snapshot.specs[node_id]
    assert spec is not None, node_id
    return FreeNode(
        node_id=node_id,
        spec=spec,
        cores=usable_cores(spec) & ~snapshot.cores_busy[node_id],
        mem_mib=snapshot.mem_free_mib[node_id],
        gres_busy=dict(snapshot.gres_busy[node_id]),
        gres_used=dict(snapshot.gres_used[node_id]),
        weight=snapshot.weights[node_id],
        is_idle=not snapshot.in_use[node_id],
        features=snapshot.features[node_id],
    )


def free_devices(node: FreeNode, name: str, kind: str) -> list[tuple[str, int, int]]:
    """Return (type, free count, free device mask) for each matching resource of a node."""
    found = []
    for item in node.spec.gres:
        if item.name != name or (kind and item.type != kind):
            continue
        key = f"{item.name}:{item.type}"
        mask = 0
        if is_indexed(item):
            mask = ((1 << item.count) - 1) << item.first_index
            mask &= ~node.gres_busy.get(key, 0)
            found.append((item.type, mask.bit_count(), mask))
        elif is_consumed(item):
            found.append((item.type, item.count - node.gres_used.get(key, 0), 0))
        else:
            found.append((item.type, item.count, 0))
    return found


def _count(node: FreeNode, name: str, kind: str) -> int:
    return sum(count for _, count, _ in free_devices(node, name, kind))


def usable_devices(need: Need, node: FreeNode, name: str, kind: str) -> int:
    """Return how many devices of a node a job could get of those it wants in all."""
    count = _count(node, name, kind)
    if need.cpus_per_gpu and name == "gpu":
        count = min(count, node.cpus() // need.cpus_per_gpu)
    return count


def gpus_on_each(need: Need) -> int:
    """Return the GPUs that a job has on every node at least."""
    return sum(count for name, _, count in need.gres_per_node if name == "gpu")


def _gpus_here(need: Need, node: FreeNode) -> int:
    """Return how many GPUs a job could get of a node."""
    count = gpus_on_each(need)
    for name, kind, whole in need.gres_total:
        if name == "gpu":
            count += min(whole, usable_devices(need, node, name, kind))
    return min(count, _count(node, "gpu", "")) if need.gres_total else count


def _by_socket(need: Need, node: FreeNode, kind: str, count: int) -> dict[int, int]:
    """Return how many GPUs to take near which core masks: `count` of each socket.

    Where nobody knows where GPUs are, they are near all cores.
    """
    wanted = max(1, need.sockets_min)
    per_socket = max(1, node.spec.cores_per_socket)
    whole = (1 << per_socket) - 1
    free = sum(mask for _, _, mask in free_devices(node, "gpu", kind))
    places: list[int] = []  # the first core near each
    for item in node.spec.gres:
        if item.name == "gpu" and kind in ("", item.type):
            for place in range(item.count):
                if free >> (item.first_index + place) & 1:
                    if not item.cores:
                        return {-1: min(free.bit_count(), count * wanted)}
                    near = int.from_bytes(item.cores[place], "little")
                    places.append(near & -near)
    found: dict[int, int] = {}
    for socket in range(max(1, node.spec.sockets)):
        cores = whole << (socket * per_socket)
        if len(found) < wanted and sum(bool(core & cores) for core in places) >= count:
            found[cores] = count
    return found


def has_shape(need: Need, spec: NodeSpec) -> bool:
    """Return whether a node has the sockets, cores and threads that a job insists on."""
    return (
        spec.sockets >= need.sockets_min
        and spec.cores_per_socket >= need.cores_per_socket_min
        and spec.threads_per_core >= need.threads_per_core_min
    )


def by_socket(cores: int, spec: NodeSpec) -> list[int]:
    """Return the cores of a mask by socket."""
    per_socket = max(1, spec.cores_per_socket)
    whole = (1 << per_socket) - 1
    count = -(-cores.bit_length() // per_socket)
    return [cores & (whole << (place * per_socket)) for place in range(count)]


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
    left = 0
    for place, part in enumerate(by_socket(cores, node.spec)):
        taken = (used >> place * per_socket & whole).bit_count()
        left |= lowest_bits(part, max(0, most - taken))
    return left


def _near_free_devices(need: Need, node: FreeNode, tasks: int = MANY) -> int:
    """Return the cores near devices the job could get; all where nobody knows where these are.

    Devices of the whole job are taken to be all here: a job of several nodes that gets fewer on
    one of them may have some of its cores there far from them.
    """
    near, is_known = 0, False
    wanted = [*need.gres_per_node, *need.gres_total]
    wanted += [(name, kind, count * tasks) for name, kind, count in need.gres_per_task]
    for name, kind, count in wanted:
        free = sum(mask for _, _, mask in free_devices(node, name, kind))
        found = reachable_cores(node.spec, name, kind, free, count, node.cores)
        if found is not None:
            near, is_known = near | found, True
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
    threads = max(1, spec.threads_per_core)
    per_core = min(threads, need.threads_per_core) if need.threads_per_core else threads
    return sum(_tasks_of_socket(need, part, per_core) for part in parts)


def _tasks_of_socket(need: Need, cores: int, per_core: int) -> int:
    count = cores.bit_count()
    most = min(need.tasks_per_socket, count * per_core // need.cpus_per_task)
    return min(most, count * need.tasks_per_core) if need.tasks_per_core else most


def tasks_that_fit(need: Need, node: FreeNode) -> int:
    """Return how many of a job's tasks the node could run now; 0 when it is of no use.

    For a job whose tasks need nothing per task the answer may be `MANY`.
    """
    if not has_shape(need, node.spec):
        return 0
    cores = node.cores
    if need.is_particular or node.spec.restricted_cores_per_gpu:
        cores = open_cores(need, node)
    cpus = cores.bit_count() * node.spec.threads_per_core
    if need.max_cpus_per_node < INFINITE:
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
        limit = min(limit, cores.bit_count() * need.threads_per_core // need.cpus_per_task)
    if need.tasks_per_core:
        limit = min(limit, cores.bit_count() * need.tasks_per_core)
    if need.tasks_per_socket:
        limit = min(limit, _tasks_by_socket(need, cores, node.spec))
    if need.mem_per_node_mib:
        if node.mem_mib < need.mem_per_node_mib:
            return 0
    elif need.mem_per_cpu_mib:
        limit = min(limit, node.mem_mib // (need.mem_per_cpu_mib * need.cpus_per_task))
    elif need.mem_per_gpu_mib:
        limit = min(limit, _tasks_in_gpu_memory(need, node))
    elif need.mem_whole_node and not node.is_idle:
        return 0
    for name, kind, count in need.gres_per_node:
        if _count(node, name, kind) < count:
            return 0
    for _, kind, count in need.gpus_per_socket:
        if sum(_by_socket(need, node, kind, count).values()) < count * max(1, need.sockets_min):
            return 0
    for name, kind, count in need.gres_per_task:
        limit = min(limit, _count(node, name, kind) // count)
    if need.tasks_per_gpu:
        limit = min(limit, need.tasks_per_gpu * _gpus_here(need, node))
    if need.gres_binding == "ENFORCE":
        limit = _tasks_near_devices(need, node, cores, limit)
    if need.tmp_mib > node.spec.tmp_disk_mib:
        return 0
    if need.tasks_per_node:
        limit = min(limit, need.tasks_per_node)
        if need.fixed_tasks_per_node and limit < need.tasks_per_node:
            return 0
    return max(0, limit)


def _tasks_in_gpu_memory(need: Need, node: FreeNode) -> int:
    """Return how many tasks the node's memory bears when each GPU brings its share.

    GPUs of the whole job are not dealt to nodes yet: the node has to bear all it could be given.
    """
    fixed = _gpus_here(need, node)
    per_task = sum(count for name, _, count in need.gres_per_task if name == "gpu")
    left = node.mem_mib // need.mem_per_gpu_mib - fixed
    if left < 0:
        return 0
    return left // per_task if per_task else MANY


def choose(
    need: Need, candidates: Iterable[FreeNode], layout: Layout | None = None
) -> list[tuple[FreeNode, int]] | None:
    """Return the nodes for a job with the tasks each gets, or None if it does not fit now.

    Lighter nodes first; among equals the fewest that hold all tasks, fuller nodes filled first
    only through the order given, so that the same state always gives the same answer.
    """
    fitting = [(node, fit) for node in candidates if (fit := tasks_that_fit(need, node)) > 0]
    required = [pair for pair in fitting if pair[0].node_id in need.required_nodes]
    if len(required) < len(need.required_nodes):
        return None
    fitting.sort(key=lambda pair: (pair[0].node_id not in need.required_nodes, pair[0].weight))
    if len(fitting) < need.nodes_min:
        return None
    if need.is_choosy or need.is_ranged:
        return _choose_by(need, fitting, layout)
    if layout is not None:
        return _choose_near(need, fitting, layout)
    if need.nodes_min == need.nodes_max and len(fitting) > need.nodes_min:
        fitting = _narrow(need, fitting)
    chosen: list[tuple[FreeNode, int]] = []
    capacity = 0
    devices = {(name, kind): count for name, kind, count in need.gres_total}
    for node, fit in fitting:
        if len(chosen) >= need.nodes_max:
            break
        enough = capacity >= need.tasks and all(left <= 0 for left in devices.values())
        if len(chosen) >= max(need.nodes_min, len(required)) and enough:
            break
        useful = [(key, usable_devices(need, node, *key)) for key in devices if devices[key] > 0]
        if devices and useful and not any(count for _, count in useful):
            continue
        chosen.append((node, fit))
        capacity += fit
        for key, count in useful:
            devices[key] -= count
    if len(chosen) < need.nodes_min or capacity < need.tasks:
        return None
    if any(left > 0 for left in devices.values()):
        return None
    return share_tasks(need, chosen)


def place_of(need: Need, layout: Picker) -> Place:
    """Return what a job asks of the network at its least number of nodes."""
    required = sum(1 << layout.position[node_id] for node_id in need.required_nodes)
    return Place(
        need.nodes_min,
        required,
        need.segment,
        need.switches,
        need.consolidates,
        need.spreads_segments,
    )


def _choose_by(
    need: Need, fitting: list[tuple[FreeNode, int]], layout: Layout | None
) -> list[tuple[FreeNode, int]] | None:
    """Choose for a job to which not any nodes will do, or not the fewest."""
    base: Layout | Plain
    ordered = sorted((node for node, _ in fitting), key=lambda node: (node.weight, node.node_id))
    if layout is None:
        base = Plain({node.node_id: place for place, node in enumerate(ordered)})
    else:
        base = layout
    nodes = {base.position[node.node_id]: node for node in ordered}
    most = max(nodes, default=-1) + 1
    ids = [nodes[place].node_id if place in nodes else -1 for place in range(most)]
    features = [nodes[place].features if place in nodes else () for place in range(most)]
    weights = [nodes[place].weight if place in nodes else 0 for place in range(most)]
    groups = weight_groups(weights) if layout is None else layout.groups
    chooser = Chooser(need, base, ids, ways_of(need, features), groups)
    if need.least_loaded:
        chooser.load = [_load(nodes[place]) if place in nodes else 1.0 for place in range(most)]
    fits = [(base.position[node.node_id], fit) for node, fit in fitting]
    counts = node_counts(need, need.nodes_min, min(need.nodes_max, len(fits)))
    shares = choose_counted(
        chooser, fits, need.tasks, counts, place_of(need, base), _device_test(need, nodes)
    )
    if shares is None:
        return None
    return share_tasks(need, [(nodes[place], fit) for place, fit in shares], layout)


def _load(node: FreeNode) -> float:
    """Return which share of a node's CPUs is in use."""
    return 1 - node.cpus() / max(1, node.spec.cpus)


def _device_test(need: Need, nodes: dict[int, FreeNode]) -> Callable[[list[int]], bool]:
    """Return a test whether some positions have the devices asked for in all."""

    def has_devices(positions: list[int]) -> bool:
        return all(
            sum(usable_devices(need, nodes[place], name, kind) for place in positions) >= count
            for name, kind, count in need.gres_total
        )

    return has_devices


def _choose_near(
    need: Need, fitting: list[tuple[FreeNode, int]], layout: Layout
) -> list[tuple[FreeNode, int]] | None:
    """Choose by where nodes lie in the network."""
    nodes = {layout.position[node.node_id]: node for node, _ in fitting}
    has_devices = _device_test(need, nodes)
    fits = [(layout.position[node.node_id], fit) for node, fit in fitting]
    shares = choose_shares(
        layout, fits, need.tasks, need.nodes_max, place_of(need, layout), has_devices
    )
    if shares is None:
        return None
    return share_tasks(need, [(nodes[place], fit) for place, fit in shares], layout)


def _narrow(need: Need, fitting: list[tuple[FreeNode, int]]) -> list[tuple[FreeNode, int]]:
    """Drop nodes too small for their share where a fixed node count makes the share known."""
    share = -(-need.tasks // need.nodes_min)
    roomy = [pair for pair in fitting if pair[1] >= share or pair[0].node_id in need.required_nodes]
    return (
        roomy
        if len(roomy) >= need.nodes_min
        else sorted(
            fitting, key=lambda pair: (pair[0].node_id not in need.required_nodes, -pair[1])
        )
    )


def share_tasks(
    need: Need, chosen: list[tuple[FreeNode, int]], layout: Layout | None = None
) -> list[tuple[FreeNode, int]] | None:
    """Give each chosen node one task at least, then fill: required nodes, then lighter ones first.

    Nodes stay in cluster order, those of one leaf switch or block together: ranks follow them.
    """
    chosen = sorted(chosen, key=lambda pair: pair[0].node_id)
    if layout is not None:
        unit_of, position = layout.unit_of, layout.position
        chosen.sort(key=lambda pair: unit_of[position[pair[0].node_id]])
    if need.tasks_per_node and need.fixed_tasks_per_node:
        return [(node, need.tasks_per_node) for node, _ in chosen]
    left = need.tasks - len(chosen)
    if left < 0:
        return [(node, 1) for node, _ in chosen]
    if need.spread:
        return _even_tasks(chosen, left)
    tasks = {}
    for node, fit in sorted(
        chosen, key=lambda pair: (pair[0].node_id not in need.required_nodes, pair[0].weight)
    ):
        more = min(fit - 1, left)
        left -= more
        tasks[node.node_id] = 1 + more
    return [(node, tasks[node.node_id]) for node, _ in chosen] if not left else None


def batch_node(
    request: JobRequest, allocs: Sequence[NodeAlloc], features: Sequence[tuple[str, ...]]
) -> int:
    """Return where the script of a job runs: --batch if one of its nodes suits, else the first.

    Args:
        features: of every node id.
    """
    wanted = request.batch_features
    if wanted:
        for alloc in allocs:
            if matches(wanted, features[alloc.node_id]):
                return alloc.node_id
    return allocs[0].node_id


def _even_tasks(chosen: list[tuple[FreeNode, int]], left: int) -> list[tuple[FreeNode, int]] | None:
    """Give a task to each node and the others round by round, as evenly as nodes can bear."""
    given = [1] * len(chosen)
    while left:
        before = left
        for place, (_, fit) in enumerate(chosen):
            if left and given[place] < fit:
                given[place] += 1
                left -= 1
        if left == before:
            return None
    return [(node, count) for (node, _), count in zip(chosen, given, strict=True)]


def allot(need: Need, chosen: list[tuple[FreeNode, int]]) -> tuple[NodeAlloc, ...]:
    """Return the exact cores, memory and devices for each chosen node.

    The free nodes are changed: what is given is no longer free.
    """
    left = {(name, kind): count for name, kind, count in need.gres_total}
    allocs = []
    for position, (node, tasks) in enumerate(chosen):
        after = len(chosen) - position - 1
        free = open_cores(need, node)
        gres = _allot_gres(need, node, tasks, free, left, after)
        allocs.append(_allot_node(need, node, tasks, free, gres))
    return tuple(allocs)


def cores_wanted(need: Need, spec: NodeSpec, tasks: int, gpus: int = 0) -> int:
    """Return how many cores of a node some tasks and GPUs take, when it is not taken whole."""
    threads = max(1, spec.threads_per_core)
    per_core = min(threads, need.threads_per_core) if need.threads_per_core else threads
    most = need.tasks_per_socket
    if most and tasks > most and not need.overcommit:
        # Threads of one core are not shared over sockets: each is counted by itself.
        wanted = tasks // most * _cores_of(need, most, per_core)
        wanted += _cores_of(need, tasks % most, per_core)
    else:
        wanted = _cores_of(need, tasks, per_core)
    cpus = max(need.cpus_min_per_node, gpus * need.cpus_per_gpu)
    wanted = max(wanted, -(-cpus // threads), 1)
    if need.whole_sockets:
        per_socket = max(1, spec.cores_per_socket)
        sockets = -(-wanted // per_socket)
        wanted = (max(sockets, -(-tasks // most)) if most else sockets) * per_socket
    return wanted


def _cores_of(need: Need, tasks: int, per_core: int) -> int:
    """Return the cores of some tasks that may share cores with each other."""
    wanted = 1 if need.overcommit else -(-tasks * need.cpus_per_task // per_core)
    return max(wanted, -(-tasks // need.tasks_per_core)) if need.tasks_per_core else wanted


def _allot_node(
    need: Need, node: FreeNode, tasks: int, free: int, gres: tuple[GresAlloc, ...]
) -> NodeAlloc:
    spec = node.spec
    threads = max(1, spec.threads_per_core)
    cores = free if need.is_exclusive else _pick(need, spec, free, tasks, gres)
    cpus = min(cores.bit_count() * threads, spec.cpus)
    if need.mem_per_node_mib:
        mem_mib = need.mem_per_node_mib
    elif need.mem_per_cpu_mib:
        mem_mib = min(need.mem_per_cpu_mib * cpus, node.mem_mib)
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
    return NodeAlloc(node.node_id, cpus, cores.to_bytes(size, "little"), mem_mib, tasks, gres)


def _gpus_of(gres: Iterable[GresAlloc]) -> int:
    return sum(held.count for held in gres if held.name == "gpu")


def _pick(need: Need, spec: NodeSpec, free: int, tasks: int, gres: tuple[GresAlloc, ...]) -> int:
    """Return which of the free cores some tasks of a job get."""
    threads = max(1, spec.threads_per_core)
    per_core = min(threads, need.threads_per_core) if need.threads_per_core else threads
    per_task = -(-need.cpus_per_task // per_core)
    wanted = cores_wanted(need, spec, tasks, _gpus_of(gres))
    is_block = need.is_block or need.fixed_tasks_per_node
    if need.whole_sockets:
        return lowest_bits(free, wanted)
    if need.tasks_per_socket and not need.overcommit:
        free = sum(
            lowest_bits(part, _cores_of(need, _tasks_of_socket(need, part, per_core), per_core))
            for part in by_socket(free, spec)
        )
    near = 0 if need.gres_binding == "DISABLE" else near_cores(spec, gres) & free
    if need.gres_binding == "ENFORCE" and near.bit_count() >= wanted:
        free = near
    if not near or near == free:
        return pick_cores(spec, free, wanted, per_task, is_block=is_block)
    # Near the devices first, whole tasks as far as there is room for them; the others follow.
    first = min(wanted, near.bit_count() // per_task * per_task)
    picked = pick_cores(spec, near, first, per_task, is_block=is_block)
    left = wanted - picked.bit_count()
    return picked | pick_cores(spec, free & ~picked, left, per_task, is_block=is_block)


def pick_cores(
    spec: NodeSpec, cores: int, wanted: int, per_task: int = 1, *, is_block: bool = False
) -> int:
    """Return a mask of `wanted` of the free `cores`.

    Tasks of one core are dealt over the sockets in turn (block:cyclic, the default). A task of
    several goes into the first socket that holds it whole, so that it need not cross; one too
    large for any is dealt core by core. Seen with Slurm 22.05 and 26.11.

    Args:
        per_task: cores of one task.
        is_block: fill socket after socket.
    """
    free = by_socket(cores, spec)
    picked, left = 0, wanted
    while left > 0:
        size = min(left, per_task)
        home = next((part for part in free if part.bit_count() >= size), 0)
        if is_block:
            took = lowest_bits(cores & ~picked, left)
        elif size > 1 and home:
            took = lowest_bits(home, size)
        else:
            took = _dealt(free, left if per_task == 1 else size)
        if not took:
            break
        picked |= took
        left -= took.bit_count()
        free = [part & ~took for part in free]
    return picked


def _dealt(free: list[int], count: int) -> int:
    """Return `count` cores, one of each socket in turn as long as it has any."""
    picked = 0
    rest = list(free)
    while count and any(rest):
        for place, part in enumerate(rest):
            low = part & -part
            if low and count:
                picked |= low
                rest[place] ^= low
                count -= 1
    return picked


def lowest_bits(mask: int, count: int) -> int:
    """Return the lowest `count` bits that are set in a mask."""
    picked = 0
    for _ in range(count):
        low = mask & -mask
        picked |= low
        mask ^= low
    return picked


def _allot_gres(
    need: Need,
    node: FreeNode,
    tasks: int,
    cores: int,
    left: dict[tuple[str, str], int],
    after: int,
) -> tuple[GresAlloc, ...]:
    held: list[GresAlloc] = []
    near = cores, 0
    if need.gres_binding != "DISABLE":
        gpus = gpus_on_each(need)
        if need.cpus_per_gpu:
            gpus += sum(
                min(max(0, count - after), usable_devices(need, node, name, kind))
                for (name, kind), count in left.items()
                if name == "gpu"
            )
        near = cores, cores_wanted(need, node.spec, tasks, gpus)
    for _, kind, count in need.gpus_per_socket:
        for socket, here in _by_socket(need, node, kind, count).items():
            held += _take(node, "gpu", kind, here, near, socket)
    for name, kind, count in need.gres_per_node:
        if not need.gpus_per_socket or name != "gpu":
            held += _take(node, name, kind, count, near)
    for name, kind, count in need.gres_per_task:
        held += _take(node, name, kind, count * tasks, near)
    for (name, kind), count in left.items():
        # Leave one for each node still to come, as far as the node can bear it.
        share = min(max(0, count - after), usable_devices(need, node, name, kind))
        if share:
            held += _take(node, name, kind, share, near)
            left[(name, kind)] = count - share
    if need.is_exclusive:
        for item in node.spec.gres:
            free = _count(node, item.name, item.type)
            if free:
                held += _take(node, item.name, item.type, free, near)
    return _merge(held)


def _take(
    node: FreeNode, name: str, kind: str, count: int, near: tuple[int, int], socket: int = -1
) -> list[GresAlloc]:
    """Take devices of a node.

    Args:
        near: mask of the free cores, and how many of them the job takes.
        socket: mask of cores that each device has to be near one of.
    """
    held = []
    for item in node.spec.gres:
        if item.name != name or (kind and item.type != kind):
            continue
        key = f"{name}:{item.type}"
        used = node.gres_used.get(key, 0)
        picked = 0
        if is_indexed(item):
            mask = ((1 << item.count) - 1) << item.first_index
            mask &= ~node.gres_busy.get(key, 0)
            if socket >= 0:
                mask &= devices_near(item, socket)
            take = min(mask.bit_count(), count)
            picked = choose_devices(item, mask, take, *near) if take else 0
        else:
            take = min(item.count - used if is_consumed(item) else item.count, count)
        if take <= 0:
            continue
        node.gres_busy[key] = node.gres_busy.get(key, 0) | picked
        node.gres_used[key] = used + take
        size = (picked.bit_length() + 7) // 8
        held.append(GresAlloc(name, item.type, take, picked.to_bytes(size, "little")))
        count -= take
    assert not count, (node.spec.name, name, kind, count)
    return held


def _merge(held: list[GresAlloc]) -> tuple[GresAlloc, ...]:
    merged: dict[tuple[str, str], tuple[int, int]] = {}
    for item in held:
        count, mask = merged.get((item.name, item.type), (0, 0))
        added = int.from_bytes(item.indexes, "little")
        merged[(item.name, item.type)] = (count + item.count, mask | added)
    return tuple(
        GresAlloc(name, kind, count, mask.to_bytes((mask.bit_length() + 7) // 8, "little"))
        for (name, kind), (count, mask) in merged.items()
    )
