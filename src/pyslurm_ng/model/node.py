"""Nodes: what was configured, what was found, what is in use."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from pyslurm_ng.base.numbers import NO_VAL

from .bounds import (
    Count,
    HostText,
    LabelText,
    LineText,
    Mebibytes,
    NameText,
    Number32OrNone,
    PathText,
    ShortText,
    UnixTimeUs,
)

CoreMask = Annotated[bytes, Meta(max_length=8192)]  # of 65,536 cores
Devices = Meta(max_length=4096)  # of one kind on one node; a DGX has 16, MIG makes 7 of each


class NodeGres(Struct, array_like=True, frozen=True, gc=False):
    """Generic resources of one name and type on a node.

    `cores`, `links` and `files` have one item for each device, if known. A counted resource without
    devices has empty tuples.
    """

    name: NameText
    type: NameText
    count: Count
    files: Annotated[
        tuple[PathText, ...], Devices
    ] = ()  # of a device with several of them, joined by commas
    cores: Annotated[tuple[CoreMask, ...], Devices] = ()  # core mask near each device
    links: Annotated[tuple[Annotated[tuple[Number32OrNone, ...], Devices], ...], Devices] = ()
    flags: ShortText = ""
    first_index: Count = 0  # number of the first device among all of this name on the node
    unique_ids: Annotated[tuple[LabelText, ...], Devices] = ()
    parts: Annotated[
        tuple[Count, ...], Devices
    ] = ()  # for parts of GPUs: how many each GPU has, by GPU number


def is_part(name: str) -> bool:
    """Return whether a resource is a part of GPUs that several jobs may share."""
    return name in ("mps", "shard")


def is_indexed(gres: NodeGres) -> bool:
    """Return whether jobs get single devices of a resource, not just a count."""
    if is_part(gres.name):
        return False
    return (bool(gres.files) or gres.name == "gpu") and is_consumed(gres)


def is_consumed(gres: NodeGres) -> bool:
    """Return whether other jobs can no longer get what one job has."""
    return "no_consume" not in gres.flags


def is_explicit(gres: NodeGres) -> bool:
    """Return whether only jobs that name a resource get it, not those of whole nodes."""
    return "explicit" in gres.flags.split(",")


class NodeSpec(Struct, array_like=True, frozen=True, gc=False):
    """A node as the configuration describes it."""

    name: str
    hostname: str = ""
    addr: str = ""
    port: int = 0
    cpus: int = 1
    boards: int = 1
    sockets: int = 1
    cores_per_socket: int = 1
    threads_per_core: int = 1
    real_memory_mib: int = 1
    tmp_disk_mib: int = 0
    core_spec_count: int = 0
    cpu_spec_list: str = ""
    mem_spec_limit_mib: int = 0
    weight: int = 1
    features: tuple[str, ...] = ()
    gres: tuple[NodeGres, ...] = ()
    gres_text: str = ""  # the Gres= value as written
    state: str = "UNKNOWN"
    reason: str = ""
    comment: str = ""
    extra: str = ""
    topology: str = ""
    tres_weights: str = ""
    bcast_addr: str = ""
    restricted_cores_per_gpu: int = 0  # reserved for jobs with GPUs
    is_special_first: bool = False  # specialised cores are the first of the sockets
    suspend_time_s: int = NO_VAL  # the SuspendTime= of its line; NO_VAL: of its partitions
    cpu_bind: str = ""  # to what tasks are bound by default


class NodeFacts(Struct, array_like=True, frozen=True, gc=False):
    """What a node daemon said of itself when it registered."""

    arch: LabelText = ""
    os: LineText = ""
    version: LabelText = ""
    cpus: Count = 0
    boards: Count = 0
    sockets: Count = 0
    cores_per_socket: Count = 0
    threads_per_core: Count = 0
    real_memory_mib: Mebibytes = 0
    tmp_disk_mib: Mebibytes = 0
    gres: Annotated[tuple[NodeGres, ...], Meta(max_length=256)] = ()
    boot_id: LabelText = ""
    boot_us: UnixTimeUs = 0
    daemon_start_us: UnixTimeUs = 0
    hostname: HostText = ""
    addr: HostText = ""
    instance_id: LabelText = ""
    instance_type: LabelText = ""
    extra: LineText = ""
    topology: LineText = ""  # the Topology= of --conf


class Node(Struct, array_like=True):
    """A node as it stands. What is in use follows from the jobs, see `cluster.NodeUse`."""

    node_id: int
    spec: NodeSpec
    state: int  # NodeState: UNKNOWN, DOWN, IDLE (in service) or FUTURE
    flags: int = 0  # NodeFlag bits that are facts
    reason: str = ""
    reason_us: int = 0
    reason_uid: int = 0
    facts: NodeFacts = NodeFacts()
    registered_us: int = 0
    last_busy_us: int = 0
    down_for_silence: bool = False
    features_active: tuple[str, ...] = ()
    weight: int = 1
    comment: str = ""
    extra: str = ""
    owner_uid: int = -1
    resume_after_us: int = 0
    features: tuple[str, ...] = ()  # available now, from the specification or an update
    # (job id, uid) of the last jobs that could not be launched here, with none between that could.
    failed_launches: tuple[tuple[int, int], ...] = ()
    # What slurmd or scontrol last said about the machine in the cloud.
    instance_id: str = ""
    instance_type: str = ""
    topology: str = ""  # what scontrol or slurmd said; "": slurm.conf and the network's file say
    next_state: str = ""  # after a reboot: RESUME, DOWN, or "" for as it was
    reboot_by_us: int = (
        0  # when a node that was told to boot must be here again; 0: it was not told
    )
    power_us: int = 0  # when it was last begun to power it up or down
    drains_to_reboot: bool = False  # the drain is that of `reboot ASAP`, and ends with it


def topology_setting(node: Node) -> str:
    """Return the Topology= of a node: set by hand or by its slurmd, else that of slurm.conf."""
    return node.topology or node.spec.topology


_located_specs: dict[int, tuple[NodeSpec, NodeFacts, NodeSpec]] = {}  # the last answers, by node id


def spec_with_facts(node: Node) -> NodeSpec:
    """Return a node's specification with the places of its devices, as its daemon reports them.

    gres.conf and drivers are on the node: slurm.conf only counts devices. If the two numbers
    differ, nothing is added.
    """
    spec, facts = node.spec, node.facts
    if not facts.gres or not spec.gres:
        return spec
    known = _located_specs.get(node.node_id)
    if known is not None and known[0] is spec and known[1] is facts:
        return known[2]
    gres = with_parts([_located(gres, facts.gres) for gres in spec.gres])
    located = spec if gres == spec.gres else replace(spec, gres=gres)
    _located_specs[node.node_id] = spec, facts, located
    return located


def restricted_cores(spec: NodeSpec) -> int:
    """Return the mask of cores that only jobs with GPUs may have: the first cores near each GPU."""
    mask = 0
    for gres in spec.gres if spec.restricted_cores_per_gpu else ():
        for cores in gres.cores if gres.name == "gpu" else ():
            other_cores = int.from_bytes(cores, "little") & ~mask
            for _ in range(spec.restricted_cores_per_gpu):
                mask |= other_cores & -other_cores
                other_cores &= other_cores - 1 if other_cores else 0
    return mask


def with_parts(resources: Sequence[NodeGres]) -> tuple[NodeGres, ...]:
    """Spread parts that are configured without a GPU evenly over the GPUs of their type."""
    gpus = [gres for gres in resources if gres.name == "gpu" and is_consumed(gres)]
    located = []
    for gres in resources:
        if is_part(gres.name) and sum(gres.parts) != gres.count:
            numbers = [
                gpu.first_index + number
                for gpu in gpus
                if gres.type in ("", gpu.type)
                for number in range(gpu.count)
            ]
            gres = replace(gres, parts=spread(gres.count, numbers))
        located.append(gres)
    return tuple(located)


def spread(count: int, numbers: Sequence[int]) -> tuple[int, ...]:
    """Return parts by GPU number: evenly, with what is left over on the first GPUs."""
    parts = [0] * (max(numbers, default=-1) + 1)
    for index, number in enumerate(numbers):
        parts[number] += count // len(numbers) + (index < count % len(numbers))
    return tuple(parts)


def _located_parts(gres: NodeGres, resources: tuple[NodeGres, ...]) -> NodeGres:
    """Return parts with the GPUs on which the node has them, if the two numbers agree."""
    same = [other for other in resources if other.name == gres.name and other.type == gres.type]
    flags = ",".join(flag for flag in (gres.flags, *(other.flags for other in same)) if flag)
    parts = [0] * max((len(other.parts) for other in same), default=0)
    for other in same:
        for number, count in enumerate(other.parts):
            parts[number] += count
    is_known = sum(parts) == gres.count
    return replace(gres, flags=flags, parts=tuple(parts) if is_known else ())


def _located(gres: NodeGres, resources: tuple[NodeGres, ...]) -> NodeGres:
    """Return a resource with the numbers, cores, links and flags of its devices on the node."""
    if is_part(gres.name):
        return _located_parts(gres, resources)
    same = [other for other in resources if _is_of(other, gres)]
    if any(map(is_explicit, same)) and not is_explicit(gres):
        gres = replace(gres, flags=f"{gres.flags},explicit".strip(","))
    cores: dict[int, bytes] = {}
    files: dict[int, str] = {}
    links: dict[int, tuple[int, ...]] = {}
    for other in same:
        for at in range(other.count):
            number = other.first_index + at
            cores[number] = other.cores[at] if at < len(other.cores) else b""
            links[number] = other.links[at] if at < len(other.links) else ()
            files[number] = other.files[at] if at < len(other.files) else ""
    numbers = sorted(cores)
    if not numbers or numbers != list(range(numbers[0], numbers[0] + gres.count)):
        return gres
    return replace(
        gres,
        files=tuple(files[number] for number in numbers) if all(files.values()) else (),
        cores=tuple(cores[number] for number in numbers) if all(cores.values()) else (),
        links=tuple(links[number] for number in numbers) if all(links.values()) else (),
        first_index=numbers[0],
    )


def _is_of(other: NodeGres, gres: NodeGres) -> bool:
    return other.name == gres.name and gres.type in ("", other.type)


class DownNode(Struct, array_like=True, frozen=True, gc=False):
    """A DownNodes line."""

    names: tuple[str, ...]
    state: str
    reason: str


def effective_cpus(spec: NodeSpec) -> int:
    """Return the CPUs that jobs may use: all except those of specialised cores."""
    threads = max(1, spec.threads_per_core)
    special = spec.core_spec_count
    if spec.cpu_spec_list:
        special = len({cpu // threads for cpu in id_ranges(spec.cpu_spec_list)})
    return max(0, spec.cpus - special * threads)


def schedulable_mem_mib(spec: NodeSpec) -> int:
    """Return the memory that jobs may use."""
    return max(0, spec.real_memory_mib - spec.mem_spec_limit_mib)


def id_ranges(text: str) -> list[int]:
    """Return the ids that `0-3,8` names."""
    ids: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        ids.extend(range(int(first), int(last or first) + 1))
    return ids
