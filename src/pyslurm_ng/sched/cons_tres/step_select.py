"""Which share of its job a step gets: nodes, cores, memory, devices. Pure.

A step that is not to overlap holds CPUs, memory and devices of the job alone. Without `exact` it
takes all that the job has on its nodes, so it needs nodes that no other step is on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from pyslurm_ng.base.numbers import STEP_OVERLAP
from pyslurm_ng.model.gres_parts import held_parts, mask_bytes, part_alloc
from pyslurm_ng.model.ids import STEP_INTERACTIVE
from pyslurm_ng.model.job import GresAlloc, Job, NodeAlloc, Step
from pyslurm_ng.model.node import NodeGres, NodeSpec, is_consumed, is_part
from pyslurm_ng.sched.cons_tres.cores import by_socket, lowest_bits
from pyslurm_ng.sched.cons_tres.devices import choose_devices, near_cores
from pyslurm_ng.sched.cons_tres.free_node import MANY
from pyslurm_ng.sched.cons_tres.layout import Distribution, spread, spread_by_list
from pyslurm_ng.sched.request.need import GresNeed

GresKey = tuple[str, str]
_UNKNOWN = NodeSpec("")
_NO_PLACES = NodeGres("", "", 0)  # at unknown places


class Lack(Enum):
    """What there is too little of."""

    NODES = 1
    CPUS = 2
    MEMORY = 3
    GRES = 4


@dataclass(frozen=True, slots=True)
class StepNeed:
    """What a step asks for; zero counts do not constrain.

    `gres_whole` names resources of which it takes all that the job has on its nodes. At most one
    memory amount is set; `mem_all` takes the job's memory on the node. `task_positions` gives the
    node of each task (arbitrary), as positions in the job.
    """

    ntasks: int
    nodes_min: int
    nodes_max: int
    tasks_per_node: int
    cpus_per_task: int
    threads_per_core: int
    is_exact: bool
    is_overlapping: bool
    overcommit: bool
    mem_per_node_mib: int
    mem_per_cpu_mib: int
    mem_all: bool
    distribution: Distribution
    gres_per_node: tuple[GresNeed, ...] = ()
    gres_per_task: tuple[GresNeed, ...] = ()
    gres_total: tuple[GresNeed, ...] = ()
    gres_whole: tuple[str, ...] = ()
    task_positions: tuple[int, ...] = ()
    tasks_per_socket: int = 0  # at most
    aims_high: bool = False  # as many of its range of nodes as there are, as in Slurm


@dataclass(frozen=True, slots=True)
class StepPlace:
    """The nodes of a step in job order, what it holds on each, and the task ids there."""

    allocs: tuple[NodeAlloc, ...]
    tasks: list[list[int]]


@dataclass(slots=True)
class NodeShare:
    """What a job's node has left for another step."""

    position: int
    alloc: NodeAlloc
    spec: NodeSpec
    cores: int
    mem_mib: int
    gres: dict[GresKey, tuple[int, int]]  # free count, free device mask
    parts: dict[GresKey, dict[int, int]] = field(default_factory=dict)  # by GPU number
    is_busy: bool = False

    @property
    def threads(self) -> int:
        """Threads of each core."""
        return max(1, self.spec.threads_per_core)

    def free_cpus(self) -> int:
        """Return the CPUs not held by other steps."""
        cores = int.from_bytes(self.alloc.cores, "little")
        if self.cores == cores:
            return self.alloc.charged_cpus
        return min(self.alloc.charged_cpus, self.cores.bit_count() * self.threads)


def shares_of(job: Job, specs: Mapping[int, NodeSpec], *, ignore_steps: bool) -> list[NodeShare]:
    """Return what each node of a job has left, in job order.

    Args:
        specs: by node id; for a node that is gone, one that knows nothing but a thread per core.
        ignore_steps: as if nothing ran, to see whether a request could ever be met.
    """
    shares = [
        NodeShare(
            position,
            alloc,
            specs.get(alloc.node_id, _UNKNOWN),
            int.from_bytes(alloc.cores, "little"),
            alloc.mem_mib,
            {
                (gres.name, gres.type): (gres.count, int.from_bytes(gres.indexes, "little"))
                for gres in alloc.gres
            },
            {(gres.name, gres.type): held_parts(gres) for gres in alloc.gres if is_part(gres.name)},
        )
        for position, alloc in enumerate(job.nodes)
    ]
    if ignore_steps:
        return shares
    by_node = {share.alloc.node_id: share for share in shares}
    for step in _holders(job):
        pending = set(step.nodes_pending)
        for alloc in step.nodes:
            share = by_node.get(alloc.node_id)
            if share is not None and alloc.node_id in pending:
                _take(share, alloc)
    return shares


def _holders(job: Job) -> Iterable[Step]:
    for step in job.steps.values():
        if step.step_id < STEP_INTERACTIVE and not step.flags & STEP_OVERLAP:
            yield step


def _take(share: NodeShare, alloc: NodeAlloc) -> None:
    share.is_busy = True
    share.cores &= ~int.from_bytes(alloc.cores, "little")
    share.mem_mib -= alloc.mem_mib
    shared = {(gres.name, gres.type) for gres in share.spec.gres if not is_consumed(gres)}
    for gres in alloc.gres:
        if (gres.name, gres.type) in shared:
            continue
        parts = share.parts.get((gres.name, gres.type), {})
        for number, part in held_parts(gres).items():
            parts[number] = parts.get(number, 0) - part
        count, mask = share.gres.get((gres.name, gres.type), (0, 0))
        rest = mask & ~int.from_bytes(gres.indexes, "little")
        share.gres[(gres.name, gres.type)] = (count - gres.count, rest)


# Choosing ---------------------------------------------------------------------------------------


def place(need: StepNeed, candidates: Sequence[NodeShare]) -> StepPlace | Lack:
    """Return where a step goes, or what there is too little of.

    Args:
        candidates: nodes it may use, in the order in which they are preferred.
    """
    nodes_min = max(1, need.nodes_min)
    if len(candidates) < nodes_min:
        return Lack.NODES
    room: list[tuple[NodeShare, int]] = []
    worst = Lack.CPUS
    for share in candidates:
        fit = _capacity(need, share)
        if isinstance(fit, Lack):
            worst = fit
        elif fit > 0:
            room.append((share, fit))
    chosen = _chosen(need, room, nodes_min)
    if chosen is None:
        return worst
    chosen.sort(key=lambda pair: pair[0].position)
    if need.task_positions:
        where = {share.position: index for index, (share, _) in enumerate(chosen)}
        of_task = [where[position] for position in need.task_positions]
        tasks = spread_by_list(of_task, len(chosen))
    else:
        ntasks = need.ntasks or len(chosen) * max(1, need.tasks_per_node)
        # Any number of tasks goes to a node, but one for each CPU comes first.
        capacity = [_cpus(need, share) if fit == MANY else fit for share, fit in chosen]
        tasks = spread(ntasks, capacity, need.distribution)
    return _allot(need, [share for share, _ in chosen], tasks)


def _chosen(
    need: StepNeed, room: list[tuple[NodeShare, int]], nodes_min: int
) -> list[tuple[NodeShare, int]] | None:
    """Return the nodes to use with how many tasks each could take, or None."""
    nodes_max = need.nodes_max or len(room)
    if len(room) < nodes_min or nodes_max < nodes_min:
        return None
    if need.task_positions:
        positions = set(need.task_positions)
        chosen = [pair for pair in room if pair[0].position in positions]
        return chosen if len(chosen) == len(positions) else None
    ntasks = need.ntasks or nodes_min * max(1, need.tasks_per_node)
    first = nodes_min
    if need.aims_high:
        first = max(first, min(nodes_max, need.ntasks or nodes_max))
    chosen = room[:first]
    capacity = sum(fit for _, fit in chosen)
    for pair in room[first:]:
        if capacity >= ntasks or len(chosen) >= nodes_max:
            break
        chosen.append(pair)
        capacity += pair[1]
    if capacity < ntasks:
        # The first ones are too small; the roomiest may do.
        chosen = sorted(room, key=lambda pair: -pair[1])[:nodes_max]
        capacity = sum(fit for _, fit in chosen)
    return chosen if capacity >= ntasks else None


def _capacity(need: StepNeed, share: NodeShare) -> int | Lack:
    """Return how many tasks one node could take now."""
    alloc = share.alloc
    if share.is_busy and not need.is_exact and not need.is_overlapping:
        return 0
    cpus = _cpus(need, share)
    if need.overcommit:
        limit = MANY if cpus or not need.is_exact else 0
    else:
        limit = cpus // need.cpus_per_task
    if need.tasks_per_node:
        limit = min(limit, need.tasks_per_node)
    if alloc.mem_mib:
        if need.mem_per_node_mib > share.mem_mib or (need.mem_all and share.mem_mib <= 0):
            return Lack.MEMORY
        if need.mem_per_cpu_mib and need.is_exact:
            # Tasks that share CPUs share what comes with these.
            each = 1 if need.overcommit else need.cpus_per_task
            most = share.mem_mib // (need.mem_per_cpu_mib * each)
            limit = limit if need.overcommit and most else min(limit, most)
            if not limit and cpus >= each:
                return Lack.MEMORY
    for name, kind, count in need.gres_per_node:
        if _gres_count(share, name, kind) < count:
            return Lack.GRES
    for name in need.gres_whole:
        if _gres_count(share, name, "") < sum(g.count for g in alloc.gres if g.name == name):
            return Lack.GRES
    for name, kind, count in need.gres_per_task:
        limit = min(limit, _gres_count(share, name, kind) // count)
        if not limit:
            return Lack.GRES
    return max(0, limit)


def _cpus(need: StepNeed, share: NodeShare) -> int:
    """Return the CPUs of a node that a step could use."""
    if not need.threads_per_core or need.threads_per_core >= share.threads:
        return share.free_cpus() if need.is_exact else share.alloc.charged_cpus
    mask = int.from_bytes(share.alloc.cores, "little")
    cores = share.cores if need.is_exact else mask
    return cores.bit_count() * need.threads_per_core


def _tasks_by_socket(need: StepNeed, cores: int, share: NodeShare) -> int:
    """Return how many tasks some cores could take with at most so many of them in a socket."""
    return sum(_tasks_of_socket(need, share, part) for part in by_socket(cores, share.spec))


def _tasks_of_socket(need: StepNeed, share: NodeShare, cores: int) -> int:
    """Return how many tasks some cores of one socket could take."""
    if need.overcommit:
        return need.tasks_per_socket if cores else 0
    per_core = min(share.threads, need.threads_per_core or share.threads)
    return min(need.tasks_per_socket, cores.bit_count() * per_core // need.cpus_per_task)


def _gres_count(share: NodeShare, name: str, kind: str) -> int:
    return sum(
        count
        for (held_name, held_kind), (count, _) in share.gres.items()
        if held_name == name and (not kind or held_kind == kind)
    )


# Allotting --------------------------------------------------------------------------------------


def _allot(need: StepNeed, shares: list[NodeShare], tasks: list[list[int]]) -> StepPlace | Lack:
    used = [
        (share, task_count) for share, task_count in zip(shares, tasks, strict=True) if task_count
    ]
    missing_gres = {(name, kind): count for name, kind, count in need.gres_total}
    allocs = []
    for index, (share, task_count) in enumerate(used):
        gres = _node_gres(need, share, len(task_count), missing_gres, len(used) - index - 1)
        cores, cpus = _node_cores(need, share, len(task_count), gres)
        allocs.append(
            NodeAlloc(
                share.alloc.node_id,
                cpus,
                cores.to_bytes((cores.bit_length() + 7) // 8, "little"),
                _node_memory(need, share, cpus),
                len(task_count),
                gres,
            )
        )
    if any(count > 0 for count in missing_gres.values()):
        return Lack.GRES
    return StepPlace(tuple(allocs), [task_count for _, task_count in used])


def _cores_wanted(need: StepNeed, share: NodeShare, tasks: int) -> int:
    if need.overcommit:
        return 1
    per_core = min(share.threads, need.threads_per_core or share.threads)
    most = need.tasks_per_socket or tasks
    full, rest = divmod(tasks, max(1, most))
    # Threads of one core are not shared over sockets: each is counted by itself.
    cores = full * -(-most * need.cpus_per_task // per_core)
    return cores + -(-rest * need.cpus_per_task // per_core)


def _node_cores(
    need: StepNeed, share: NodeShare, tasks: int, gres: tuple[GresAlloc, ...]
) -> tuple[int, int]:
    """Return (core mask, CPUs) of a step on one node: cores near its devices first."""
    job_cores = int.from_bytes(share.alloc.cores, "little")
    if not need.is_exact:
        return job_cores, share.alloc.charged_cpus
    free = job_cores if need.is_overlapping else share.cores
    per_core = min(share.threads, need.threads_per_core or share.threads)
    if need.tasks_per_socket and tasks > _tasks_by_socket(need, free, share):
        need = replace(need, tasks_per_socket=0)  # a wish of steps, as in Slurm
    core_count = _cores_wanted(need, share, tasks)
    if need.tasks_per_socket and not need.overcommit:
        free = sum(
            lowest_bits(part, _cores_wanted(need, share, _tasks_of_socket(need, share, part)))
            for part in by_socket(free, share.spec)
        )
    picked = lowest_bits(free & near_cores(share.spec, gres), core_count) if gres else 0
    picked |= lowest_bits(free & ~picked, core_count - picked.bit_count())
    return picked, min(picked.bit_count() * per_core, share.alloc.charged_cpus)


def _node_memory(need: StepNeed, share: NodeShare, cpus: int) -> int:
    if not share.alloc.mem_mib:
        return 0
    available = share.alloc.mem_mib if need.is_overlapping else share.mem_mib
    if need.mem_per_node_mib:
        return need.mem_per_node_mib
    if need.mem_per_cpu_mib:
        return min(available, need.mem_per_cpu_mib * cpus)
    return available if need.mem_all else 0


def _node_gres(
    need: StepNeed, share: NodeShare, tasks: int, missing_gres: dict[GresKey, int], after: int
) -> tuple[GresAlloc, ...]:
    taken = [
        _rest(share, key)
        for key, (count, _) in share.gres.items()
        if count and key[0] in need.gres_whole
    ]
    # With all of the job's cores no device is nearer than another.
    near = share.cores, _cores_wanted(need, share, tasks) if need.is_exact else 0
    for name, kind, count in need.gres_per_node:
        taken += _take_gres(share, name, kind, count, near)
    for name, kind, count in need.gres_per_task:
        taken += _take_gres(share, name, kind, count * tasks, near)
    for (name, kind), count in missing_gres.items():
        # One at least for each node still to come, as far as this node can bear the rest.
        part = min(max(0, count - after), _gres_count(share, name, kind))
        if part:
            taken += _take_gres(share, name, kind, part, near)
            missing_gres[(name, kind)] = count - part
    return tuple(taken)


def _rest(share: NodeShare, key: GresKey) -> GresAlloc:
    """Return all that a job's share has left of a resource."""
    if key in share.parts:
        free_parts = {number: count for number, count in share.parts[key].items() if count > 0}
        return part_alloc(*key, free_parts)
    return _gres(*key, *share.gres[key])


def _take_gres(
    share: NodeShare, name: str, kind: str, amount: int, near: tuple[int, int]
) -> list[GresAlloc]:
    """Take devices of a job's share, those that go best together.

    Args:
        near: mask of the cores left to the job here, and how many of them the step takes.
    """
    configured = {(gres.name, gres.type): gres for gres in share.spec.gres}
    taken = []
    for (held_name, held_kind), (count, mask) in list(share.gres.items()):
        if held_name != name or (kind and held_kind != kind):
            continue
        part = min(count, amount)
        if part <= 0:
            continue
        if is_part(held_name):
            took = _take_parts(share.parts[held_name, held_kind], part)
            taken.append(part_alloc(held_name, held_kind, took))
            share.gres[(held_name, held_kind)] = (count - part, mask)
            amount -= part
            continue
        gres = configured.get((held_name, held_kind), _NO_PLACES)
        picked = choose_devices(gres, mask, part, *near)
        taken.append(_gres(held_name, held_kind, part, picked))
        share.gres[(held_name, held_kind)] = (count - part, mask & ~picked)
        amount -= part
    return taken


def _take_parts(free_parts: dict[int, int], amount: int) -> dict[int, int]:
    """Take parts of one GPU if it has so many left, else of one after another."""
    enough = [number for number, count in free_parts.items() if count >= amount]
    took = {}
    for number in enough[:1] or list(free_parts):
        part = min(free_parts[number], amount)
        if part > 0:
            took[number] = part
            free_parts[number] -= part
            amount -= part
    return took


def _gres(name: str, kind: str, count: int, mask: int) -> GresAlloc:
    return GresAlloc(name, kind, count, mask_bytes(mask))
