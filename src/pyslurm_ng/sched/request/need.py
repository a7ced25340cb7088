"""What one job needs of each node and in all, read once out of its request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter

from pyslurm_ng.base.hostlist import expand, expand_unique
from pyslurm_ng.base.numbers import (
    INFINITE,
    REQ_CONSOLIDATE_SEGMENTS,
    REQ_CONTIGUOUS,
    REQ_EXCLUSIVE,
    REQ_GRES_DISABLE_BIND,
    REQ_GRES_ENFORCE_BIND,
    REQ_GRES_MANY_TASKS_SHARING,
    REQ_GRES_ONE_TASK_SHARING,
    REQ_NO_SPECIAL_CORES,
    REQ_OVERCOMMIT,
    REQ_SPREAD,
    REQ_SPREAD_SEGMENTS,
    REQ_USE_MIN_NODES,
)
from pyslurm_ng.base.tres import parse_gres
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import is_part
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.rows import exclusive_flags
from pyslurm_ng.model.sizes import JobSizes, job_sizes, node_sizes, total
from pyslurm_ng.sched.request.extra import nodes_without
from pyslurm_ng.sched.request.features import FeatureError, Way, least_nodes, ways
from pyslurm_ng.sched.request.sharing import sharing_of

GresNeed = tuple[str, str, int]  # name, type or empty, count


_placing = attrgetter(
    "nodes_min", "nodes_max", "ntasks", "ntasks_per_node", "ntasks_per_socket",
    "ntasks_per_core", "ntasks_per_gpu", "cpus_per_task", "mincpus", "sockets_per_node",
    "cores_per_socket", "threads_per_core", "core_spec", "thread_spec", "mem_per_node_mib",
    "mem_per_cpu_mib", "mem_per_gpu_mib", "tmp_mib", "gres", "gpus", "gpus_per_node",
    "gpus_per_socket", "gpus_per_task", "cpus_per_gpu", "tres_per_task", "node_list", "exclude",
    "constraint", "flags", "segment", "prefer", "node_sizes", "node_extra",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Selection:
    """What slurm.conf says about selection: words of SelectTypeParameters and the like."""

    with_memory: bool = True
    least_loaded: bool = False
    whole_sockets: bool = False
    charges_threads: bool = False  # CR_CPU: cores are taken whole, but CPUs used are charged
    one_task_per_core: bool = False
    is_block: bool = False  # cores socket after socket unless a job says otherwise
    enforces_binding: bool = False
    parts_of_many: bool = False  # MULTIPLE_SHARING_GRES_PJ
    one_task_per_gpu: bool = False  # ONE_TASK_PER_SHARING_GRES
    spreads_parts: bool = False  # LL_SHARED_GRES
    allows_special: bool = False  # AllowSpecResourcesUsage


DEFAULTS = Selection()
NONE_SPECIAL = 1 << 16  # more than anyone can ask for: no core is set aside


@dataclass(frozen=True, slots=True)
class Need:
    """Requirements with all defaults filled in; zero counts do not constrain.

    Either `mem_per_node_mib` or `mem_per_cpu_mib` or `mem_per_gpu_mib` is set, or
    `mem_whole_node`, or memory is not consumed.
    """

    nodes_min: int
    nodes_max: int
    tasks: int
    cpus_per_task: int
    tasks_per_node: int
    fixed_tasks_per_node: bool  # each node gets exactly `tasks_per_node`
    tasks_per_core: int
    threads_per_core: int
    cpus_min_per_node: int
    mem_per_node_mib: int
    mem_per_cpu_mib: int
    mem_per_gpu_mib: int
    mem_whole_node: bool
    tmp_mib: int
    gres_per_node: tuple[GresNeed, ...]
    gres_per_task: tuple[GresNeed, ...]
    gres_total: tuple[GresNeed, ...]
    is_exclusive: bool
    overcommit: bool
    required_nodes: frozenset[int]
    excluded_nodes: frozenset[int]
    listed_tasks: tuple[tuple[int, int], ...] = ()  # (node, tasks) of an arbitrary distribution
    segment: int = 0  # nodes that have to be in one block
    consolidates: bool = False  # its segments have to be in one aggregated block
    spreads_segments: bool = False  # no two of its segments may be in one base block
    is_block: bool = False  # cores socket after socket: the second word of --distribution
    switches: int = 0  # leaf switches it wants at most; 0: any, or it has waited enough
    # Which of the nodes that fit; see `choosers`.
    features: tuple[Way, ...] = ()  # ways to satisfy them; empty when each node is judged alone
    contiguous: bool = False
    spread: bool = False  # over as many nodes as possible, tasks even
    least_loaded: bool = False
    aims_high: bool = False  # as many of its range of nodes as there are
    sizes: tuple[range, ...] = ()  # the only node counts allowed; none: all from least to most
    max_cpus_per_node: int = INFINITE  # of all jobs of the partition together
    max_cpus_per_socket: int = INFINITE
    partition: str = ""
    sharing: str = ""  # with whom it shares nodes; see `sharing`
    # Inside a node; least counts of the hardware, and most tasks of one socket.
    sockets_min: int = 0
    cores_per_socket_min: int = 0
    threads_per_core_min: int = 0
    # Memory that a node has to have in all, where free memory is not counted.
    real_memory_min_mib: int = 0
    tasks_per_socket: int = 0
    whole_sockets: bool = False  # CR_Socket: no other job gets a core of them
    charges_threads: bool = False  # CR_CPU: not all threads of the cores that it takes
    # Set aside for the system in place of what the node's configuration says; 0: as that says.
    special_cores: int = 0
    special_threads: int = 0
    gpus_per_socket: tuple[GresNeed, ...] = ()  # of `sockets_min` sockets; per node they add up
    tasks_per_gpu: int = 0  # no more for each of a node's GPUs
    cpus_per_gpu: int = 0  # at least so many go with each GPU of a node
    cores_follow_gpus: bool = False  # cores come with GPUs or their tasks: the same beside each
    # Parts of GPUs: of several GPUs of a node, each task's of another one, least loaded first.
    parts_of_many: bool = False
    one_task_per_gpu: bool = False
    spreads_parts: bool = False
    gres_binding: str = ""  # ENFORCE: cores only near the devices; DISABLE: cores anywhere

    @property
    def is_choosy(self) -> bool:
        """Return whether it matters which of the nodes that fit it gets."""
        return bool(self.features) or self.contiguous or self.spread or self.least_loaded

    @property
    def shares_cpus(self) -> bool:
        """Return whether any number of tasks may be on the CPUs it has of a node."""
        return self.overcommit and not (self.tasks_per_core or self.tasks_per_socket)

    @property
    def has_gpus(self) -> bool:
        """Return whether it asks for GPUs or gets all there are."""
        gres = (*self.gres_per_node, *self.gres_per_task, *self.gres_total)
        return self.is_exclusive or any(name == "gpu" for name, _, _ in gres)

    @property
    def has_parts(self) -> bool:
        """Return whether it asks for parts of GPUs."""
        return any(is_part(name) for name, _, _ in (*self.gres_per_node, *self.gres_per_task))

    @property
    def minds_places(self) -> bool:
        """Return whether a node may have enough free and yet not the cores or GPUs it wants."""
        if self.has_parts:
            return True
        if self.is_exclusive or self.sharing:
            return False
        by_socket = bool(self.tasks_per_socket and not self.overcommit)
        return by_socket or bool(self.gpus_per_socket) or self.gres_binding == "ENFORCE"

    @property
    def is_particular(self) -> bool:
        """Return whether it matters which of a node's free cores it gets."""
        return (
            self.whole_sockets
            or bool(self.special_cores or self.special_threads)
            or self.gres_binding == "ENFORCE"
            or self.max_cpus_per_socket < INFINITE
        )

    @property
    def is_capped(self) -> bool:
        """Return whether the partition's jobs may have only some CPUs of a node."""
        return min(self.max_cpus_per_node, self.max_cpus_per_socket) < INFINITE

    @property
    def is_ranged(self) -> bool:
        """Return whether there is more to a node count than the fewest that do."""
        return self.spread or self.aims_high or bool(self.sizes)


def need_of(
    request: JobRequest,
    partition: Partition,
    node_by_name: Mapping[str, int],
    selection: Selection = DEFAULTS,
    extras: Sequence[str] = (),
) -> Need:
    """Return what `request` needs in `partition`.

    Node names that do not exist are passed over: the submit rule has refused them, and a node may
    have been removed since.

    Args:
        extras: Extra of each node, by node id; empty: its present value does not count, it may be
            changed.
    """
    sizes, flags = job_sizes(request, partition), request.flags
    selection = _selection_in(partition, selection)
    required, excluded = _named_nodes(request, partition, node_by_name, extras)
    with_memory, counts_cpus = selection.with_memory, selection.charges_threads
    overcommit = bool(flags & REQ_OVERCOMMIT)
    most_per_core = int(selection.one_task_per_core and not overcommit)
    special = _special(request) if selection.allows_special else (0, 0)
    exclusive = any(special) or _is_exclusive(request, partition)
    gpu_tasks = _tasks_of_gpus(request)
    nodes_min, nodes_max = _range(request, sizes, _least_nodes(request, required))
    is_range = 0 < request.nodes_min < request.nodes_max and nodes_min < nodes_max
    return Need(
        # Which nodes, and how many.
        nodes_min=nodes_min, nodes_max=nodes_max,
        aims_high=is_range and not flags & REQ_USE_MIN_NODES,
        sizes=node_sizes(request.node_sizes) if request.node_sizes else (),
        required_nodes=required, excluded_nodes=excluded,
        features=_features(request), contiguous=bool(flags & REQ_CONTIGUOUS),
        spread=bool(flags & REQ_SPREAD) and not flags & REQ_USE_MIN_NODES,
        segment=request.segment, consolidates=bool(flags & REQ_CONSOLIDATE_SEGMENTS),
        spreads_segments=bool(flags & REQ_SPREAD_SEGMENTS), least_loaded=selection.least_loaded,
        partition=partition.name, sharing=sharing_of(request, partition),
        is_exclusive=exclusive, overcommit=overcommit,
        # Tasks.
        tasks=sizes.tasks, tasks_per_node=request.ntasks_per_node or gpu_tasks,
        fixed_tasks_per_node=bool(request.ntasks_per_node and not request.ntasks),
        listed_tasks=_listed_tasks(request, node_by_name), tasks_per_gpu=_tasks_per_gpu(request),
        tasks_per_socket=request.ntasks_per_socket,
        tasks_per_core=request.ntasks_per_core or most_per_core,
        # CPUs, cores and sockets.
        cpus_per_task=sizes.cpus_per_task, cpus_per_gpu=sizes.cpus_per_gpu,
        cpus_min_per_node=_cpus_of_node(request, sizes), threads_per_core=request.threads_per_core,
        max_cpus_per_node=partition.max_cpus_per_node,
        max_cpus_per_socket=partition.max_cpus_per_socket,
        sockets_min=request.sockets_per_node, cores_per_socket_min=request.cores_per_socket,
        threads_per_core_min=request.threads_per_core, whole_sockets=selection.whole_sockets,
        is_block=counts_cpus or _is_block(request, selection),  # a plain CPU has no socket
        charges_threads=counts_cpus and not exclusive,
        special_cores=special[0], special_threads=special[1],
        # Memory and disk.
        mem_per_node_mib=sizes.mem_per_node_mib if with_memory else 0,
        mem_per_cpu_mib=sizes.mem_per_cpu_mib if with_memory else 0,
        mem_per_gpu_mib=sizes.mem_per_gpu_mib if with_memory else 0,
        mem_whole_node=with_memory and sizes.mem_whole_node, tmp_mib=request.tmp_mib,
        real_memory_min_mib=0 if with_memory else _memory_of_node(request),
        # Devices.
        gres_per_node=_per_node(request), gres_total=_in_all(request),
        gres_per_task=_per_task(request, is_per_node=bool(gpu_tasks)),
        gpus_per_socket=_gpus(request.gpus_per_socket),
        cores_follow_gpus=_follows_gpus(request, partition),
        parts_of_many=selection.parts_of_many, spreads_parts=selection.spreads_parts,
        one_task_per_gpu=_one_task(request, selection),
        gres_binding=_binding(request, selection, exclusive),
    )  # fmt: skip


def _selection_in(partition: Partition, selection: Selection) -> Selection:
    """Return what holds in a partition: its own LLN and SelectTypeParameters say more."""
    if not partition.select_type_parameters and not partition.lln:
        return selection
    words = frozenset(partition.select_type_parameters.upper().split(","))
    by_core = "CR_CORE" in words
    by_socket = "CR_SOCKET" in words
    return replace(
        selection,
        least_loaded=selection.least_loaded or partition.lln,
        whole_sockets=by_socket or (selection.whole_sockets and not by_core),
        charges_threads=selection.charges_threads and not by_core and not by_socket,
        one_task_per_core=selection.one_task_per_core or "CR_ONE_TASK_PER_CORE" in words,
    )


def _named_nodes(
    request: JobRequest,
    partition: Partition,
    node_by_name: Mapping[str, int],
    extras: Sequence[str],
) -> tuple[frozenset[int], frozenset[int]]:
    """Return the nodes that a job must have, and those that it must not."""
    required = node_ids(request.node_list, node_by_name)
    excluded = node_ids(request.exclude, node_by_name)
    if 0 < request.nodes_max < len(required):
        # More names than it may have nodes: any of those named.
        excluded |= frozenset(partition.node_ids) - required
        required = frozenset()
    if request.node_extra and extras:
        excluded = excluded.union(nodes_without(request.node_extra, extras, partition.node_ids))
    return required, excluded


def _is_block(request: JobRequest, selection: Selection) -> bool:
    """Return whether its cores are to come socket after socket: --distribution's second word."""
    second = (request.distribution.lower().split(",")[0].split(":") + ["", ""])[1]
    return second == "block" or (selection.is_block and second in ("", "*"))


def _special(request: JobRequest) -> tuple[int, int]:
    """Return how many cores or threads the job leaves to the system, as in `Need`."""
    if request.core_spec or request.thread_spec:
        return request.core_spec, request.thread_spec
    return NONE_SPECIAL if request.flags & REQ_NO_SPECIAL_CORES else 0, 0


def _is_exclusive(request: JobRequest, partition: Partition) -> bool:
    """Return whether a job gets whole nodes, by its own wish or the partition's."""
    asks = exclusive_flags(request, partition) & REQ_EXCLUSIVE
    return partition.exclusive == "NODE" or bool(asks)


def _cpus_of_node(request: JobRequest, sizes: JobSizes) -> int:
    """Return the CPUs that a node gives at least: --overcommit allots as if it had one task."""
    overcommit = request.flags & REQ_OVERCOMMIT
    of_task = sizes.cpus_per_task if overcommit and sizes.cpus_per_task > 1 else 0
    return max(request.mincpus, of_task)


def _memory_of_node(request: JobRequest) -> int:
    """Return the memory that a request wants of a node at least."""
    cpus = max(request.mincpus, request.cpus_per_task, 1)
    return request.mem_per_node_mib or request.mem_per_cpu_mib * cpus


def _follows_gpus(request: JobRequest, partition: Partition) -> bool:
    """Return whether a job's cores were asked for with its GPUs, or with tasks that are."""
    if request.ntasks_per_socket or request.distribution:
        return False
    by_default = partition.def_cpus_per_gpu and not request.cpus_per_task
    fixed = request.ntasks_per_node and not request.ntasks
    return bool(request.gpus_per_task or request.cpus_per_gpu or by_default or fixed)


def _one_task(request: JobRequest, selection: Selection) -> bool:
    """Return whether each task has parts of a GPU that no other task of the job has."""
    if request.flags & REQ_GRES_MANY_TASKS_SHARING:
        return False
    return bool(request.flags & REQ_GRES_ONE_TASK_SHARING) or selection.one_task_per_gpu


def _binding(request: JobRequest, selection: Selection, exclusive: bool) -> str:
    """Return how devices and cores belong together; whole nodes have both."""
    flags = request.flags
    if flags & REQ_GRES_DISABLE_BIND:
        return "DISABLE"
    if exclusive or not (flags & REQ_GRES_ENFORCE_BIND or selection.enforces_binding):
        return ""
    texts = (
        request.gres,
        request.gpus,
        request.gpus_per_node,
        request.gpus_per_socket,
        request.gpus_per_task,
    )
    return "ENFORCE" if any(texts) else ""


def width_of(required: frozenset[int]) -> int:
    """Return how many nodes lie side by side from the first to the last of them."""
    return max(required) - min(required) + 1 if required else 0


def _least_nodes(request: JobRequest, required: frozenset[int]) -> int:
    """Return the fewest nodes that hold those required, those between them with --contiguous."""
    width = width_of(required) if request.flags & REQ_CONTIGUOUS else 0
    if 0 < request.nodes_max < width:
        width = 0  # the submit rule has refused it
    return max(len(required), width, 1)


def _range(request: JobRequest, sizes: JobSizes, least: int) -> tuple[int, int]:
    """Return the least and the most nodes; tasks that are counted do not need more nodes."""
    nodes_min = max(sizes.nodes_min, least)
    if request.constraint and "*" in request.constraint:
        try:
            nodes_min = max(nodes_min, least_nodes(request.constraint))
        except FeatureError:
            pass  # the submit rule has refused it
    nodes_max = max(sizes.nodes_max, least)
    if not request.nodes_max:
        nodes_max = max(nodes_max, nodes_min)
    if request.ntasks and request.nodes_max > request.nodes_min:
        nodes_max = min(nodes_max, max(nodes_min, request.ntasks))
    return nodes_min, nodes_max


def _features(request: JobRequest) -> tuple[Way, ...]:
    """Return the ways to satisfy the features, those preferred first.

    Empty if checks of single nodes are enough: no counts, no alternatives for all nodes.
    """
    if not request.prefer and ("[" not in request.constraint and "*" not in request.constraint):
        return ()
    try:
        preferred = ways(request.prefer) if request.prefer else ()
        demanded = ways(request.constraint) if request.constraint else (Way(None),)
    except FeatureError:
        return ()
    features = preferred + demanded
    return () if len(features) == 1 and not features[0].counts else features


def _listed_tasks(
    request: JobRequest, node_by_name: Mapping[str, int]
) -> tuple[tuple[int, int], ...]:
    """Return the tasks of each node where --nodelist names the node of every task."""
    if not request.distribution.lower().startswith("arbitrary"):
        return ()
    listed = Counter(
        node_by_name[name] for name in expand(request.node_list) if name in node_by_name
    )
    return tuple(sorted(listed.items())) if listed.total() == request.ntasks else ()


def node_ids(text: str, node_by_name: Mapping[str, int]) -> frozenset[int]:
    """Return the nodes of a list that exist."""
    if not text:
        return frozenset()
    return frozenset([node_by_name[name] for name in _names(text) if name in node_by_name])


# The same list is asked for again for each partition of a job.
_names = lru_cache(maxsize=4)(expand_unique)


def _gres(text: str) -> tuple[GresNeed, ...]:
    if not text or text.lower() == "none":
        return ()
    parsed = parse_gres(text)
    return tuple((gres.name, gres.type_name, gres.amount) for gres in parsed if gres.amount)


def _per_task(request: JobRequest, *, is_per_node: bool) -> tuple[GresNeed, ...]:
    """Return the resources of each task; its GPUs are left out if nodes are asked for them."""
    gpus = () if is_per_node else _gpus(request.gpus_per_task)
    return gpus + _gres(request.tres_per_task)


def _tasks_of_gpus(request: JobRequest) -> int:
    """Return the most tasks of a node whose GPUs are asked for by node and by task; 0: not so."""
    if not (request.gpus_per_node and request.gpus_per_task):
        return 0
    return max(1, total(request.gpus_per_node) // max(1, total(request.gpus_per_task)))


def _tasks_per_gpu(request: JobRequest) -> int:
    """Return the most tasks of a GPU, 0 if nothing is said; more where its tasks need that."""
    most = request.ntasks_per_gpu
    if not (most and request.ntasks and request.gpus):
        return most
    return max(most, -(-request.ntasks // max(1, total(request.gpus))))


def _per_node(request: JobRequest) -> tuple[GresNeed, ...]:
    """Return the devices of each node."""
    by_socket = _gpus(request.gpus_per_socket, max(1, request.sockets_per_node))
    return _gres(request.gres) + _gpus(request.gpus_per_node) + by_socket


def _in_all(request: JobRequest) -> tuple[GresNeed, ...]:
    """Return the GPUs of the whole job; none where those of its nodes or tasks add up to them."""
    if not request.gpus or request.gpus_per_task or request.gpus_per_node:
        return ()
    if request.gpus_per_socket or any(name == "gpu" for name, _, _ in _gres(request.gres)):
        return ()
    return _gpus(request.gpus)


def _gpus(text: str, times: int = 1) -> tuple[GresNeed, ...]:
    """Read the `[type:]n` lists of the --gpus options."""
    needs = []
    for part in text.split(","):
        if part:
            kind, _, count = part.rpartition(":")
            needs.append(("gpu", kind, int(count) * times))
    return tuple(need for need in needs if need[2])


def placing(request: JobRequest) -> tuple[object, ...]:
    """Return everything of a request that decides on which nodes it fits."""
    fields: tuple[object, ...] = _placing(request)
    return fields
