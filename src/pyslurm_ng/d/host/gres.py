"""A node's generic resources: what it has, and what a job, step or task of it sees.

Devices of one name are numbered over all types on the node, in the order of gres.conf; allocations
name them by that number.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pyslurm_ng.base.hostlist import fold
from pyslurm_ng.conf.gres_conf import GresConf, GresLine
from pyslurm_ng.conf.node_lines import NodeConf
from pyslurm_ng.d.host.device_filter import device_node
from pyslurm_ng.d.host.nvml import DetectedGpu
from pyslurm_ng.model.gres_parts import held_parts
from pyslurm_ng.model.job import GresAlloc
from pyslurm_ng.model.node import NodeGres, is_part, spread, with_parts

if TYPE_CHECKING:
    from pyslurm_ng.d.host.device_filter import DeviceNode

# Every maker's own name for "only these devices"; harmless where the maker's are absent.
_GPU_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
)


class GresError(ValueError):
    """gres.conf, the detected devices and slurm.conf do not agree; one line for log and drain."""


def node_gres(
    node: NodeConf, conf: GresConf, detected: Sequence[DetectedGpu]
) -> tuple[NodeGres, ...]:
    """Return what the node has: lines of gres.conf, else detected devices, else bare counts.

    Raises:
        GresError: a detected device contradicts a line.
    """
    threads = max(1, node.threads_per_core)
    every = conf.for_node(node.name)
    lines = [line for line in every if not is_part(line.name)]
    found: list[NodeGres] = []
    next_index: dict[str, int] = {}
    for line in lines:
        found.append(_from_line(line, next_index.get(line.name, 0)))
        next_index[line.name] = next_index.get(line.name, 0) + line.amount
    if detected and not any(line.name == "gpu" for line in lines):
        found += _from_detected(node, detected, threads)
    found += _parts_of(found, [line for line in every if is_part(line.name)])
    named = {item.name for item in found}
    for item in node.gres:
        if item.name not in named:
            first = next_index.get(item.name, 0)
            next_index[item.name] = first + item.amount
            found.append(NodeGres(item.name, item.type_name, item.amount, first_index=first))
    return with_parts(found)


def _parts_of(devices: Sequence[NodeGres], lines: Sequence[GresLine]) -> list[NodeGres]:
    """Return what lines say of parts of GPUs, those of one name and type together.

    Raises:
        GresError: a file is not that of a GPU.
    """
    numbers = {
        path: item.first_index + place
        for item in devices
        if item.name == "gpu"
        for place, paths in enumerate(item.files)
        for path in paths.split(",")
    }
    found: dict[tuple[str, str], NodeGres] = {}
    for line in lines:
        missing = [path for path in line.files if path not in numbers]
        if missing:
            raise GresError(f"gres/{line.name}: {missing[0]} is the file of no GPU")
        parts = spread(line.amount, [numbers[path] for path in line.files])
        known = found.get((line.name, line.type_name))
        if known is not None:
            parts = tuple(map(sum, zip_longest(known.parts, parts, fillvalue=0)))
        before = known or NodeGres(line.name, line.type_name, 0, flags=",".join(line.flags))
        found[line.name, line.type_name] = replace(
            before,
            count=before.count + line.amount,
            files=before.files + line.files,
            parts=parts,
        )
    return list(found.values())


def _from_line(line: GresLine, first: int) -> NodeGres:
    files = line.files or ((",".join(line.multiple_files),) if line.multiple_files else ())
    cores = _mask(line.cores)
    return NodeGres(
        name=line.name,
        type=line.type_name,
        count=line.amount,
        files=files,
        cores=(cores,) * line.amount if line.cores else (),
        links=(line.links,) * line.amount if line.links else (),
        flags=",".join(line.flags),
        first_index=first,
    )


def _from_detected(node: NodeConf, detected: Sequence[DetectedGpu], threads: int) -> list[NodeGres]:
    """Group detected GPUs by type; a configured type matches as a part of the detected name."""
    wanted = {item.type_name for item in node.gres if item.name == "gpu" and item.type_name}
    groups: dict[str, list[DetectedGpu]] = {}
    for gpu in detected:
        names = [name for name in sorted(wanted) if name.lower() in gpu.type_name]
        groups.setdefault(names[0] if names else gpu.type_name if wanted else "", []).append(gpu)
    missing = wanted - set(groups)
    if missing:
        have = ",".join(sorted({gpu.type_name for gpu in detected}))
        raise GresError(f"gres/gpu:{sorted(missing)[0]} is configured but {have} was found")
    found = []
    first = 0
    # Links are told in the order of detection, devices are numbered type by type.
    places = {id(gpu): place for place, gpu in enumerate(detected)}
    order = [places[id(gpu)] for gpus in groups.values() for gpu in gpus]
    for name, gpus in groups.items():
        found.append(
            NodeGres(
                name="gpu",
                type=name,
                count=len(gpus),
                files=tuple(",".join((gpu.file, *gpu.extra_files)) for gpu in gpus),
                cores=tuple(_mask(sorted({cpu // threads for cpu in gpu.cpus})) for gpu in gpus),
                links=tuple(_links_in(order, gpu.links) for gpu in gpus),
                first_index=first,
                unique_ids=tuple(gpu.unique_id for gpu in gpus),
            )
        )
        first += len(gpus)
    return found


def _links_in(order: Sequence[int], links: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(links[place] for place in order) if len(links) == len(order) else ()


def names_of(available: Sequence[NodeGres], numbers: Sequence[int]) -> tuple[str, ...]:
    """Return the names by which CUDA knows these GPUs if one is a MIG slice; else nothing.

    The driver numbers whole GPUs only; a slice is named by its UUID.
    """
    names = {
        item.first_index + place: unique_id
        for item in available
        if item.name == "gpu"
        for place, unique_id in enumerate(item.unique_ids)
    }
    chosen = tuple(names.get(number, "") for number in numbers)
    return chosen if any(name.startswith("MIG-") for name in chosen) and all(chosen) else ()


def conf_lines(available: Sequence[NodeGres], core_count: int) -> list[str]:
    """Return what `slurmd -G` prints: a line for each resource, or for each device by itself."""
    lines = []
    for item in available:
        alike = len(set(item.cores)) <= 1 and len(set(item.links)) <= 1
        parts = [range(item.count)] if alike else [range(n, n + 1) for n in range(item.count)]
        for part in parts:
            first = part.start
            files = [path for place in part for path in item.files[place : place + 1]]
            words = [
                f"Gres Name={item.name} Type={item.type or '(null)'} Count={len(part)}",
                f"Index={item.first_index + first} ID={_plugin_id(item.name)}",
            ]
            if files:
                words.append(f"File={','.join(files) if ',' in files[0] else fold(files)}")
            if item.cores:
                shown = _ranges(int.from_bytes(item.cores[first], "little"))
                words.append(f"Cores={shown} CoreCnt={core_count}")
            links = item.links[first] if item.links else ()
            words.append(f"Links={','.join(map(str, links)) or '(null)'}")
            flags = [*(["HAS_FILE"] if files else []), *(["HAS_TYPE"] if item.type else [])]
            words.append(f"Flags={','.join(flags + [f for f in item.flags.split(',') if f])}")
            lines.append(" ".join(words))
    return lines


def _plugin_id(name: str) -> int:
    """Return the number that stands for a resource: its letters, a byte each, as Slurm does."""
    return sum(ord(letter) << 8 * (place % 4) for place, letter in enumerate(name)) & 0xFFFFFFFF


def _ranges(mask: int) -> str:
    bits = [bit for bit in range(mask.bit_length()) if mask >> bit & 1]
    return fold([f"c{bit}" for bit in bits]).removeprefix("c").strip("[]")


def _mask(cores: Sequence[int]) -> bytes:
    mask = 0
    for core in cores:
        mask |= 1 << core
    return mask.to_bytes((mask.bit_length() + 7) // 8, "little")


def indexes(held: Sequence[GresAlloc], name: str = "gpu") -> list[int]:
    """Return the device numbers held of one resource, ascending."""
    mask = 0
    for item in held:
        if item.name == name:
            mask |= int.from_bytes(item.indexes, "little")
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def in_parts(held: Sequence[GresAlloc]) -> list[int]:
    """Return the numbers of the GPUs held in part, ascending."""
    return sorted({number for item in held for number in held_parts(item)})


def mps_percentage(available: Sequence[NodeGres], held: Sequence[GresAlloc]) -> int:
    """Return which share of its GPUs' threads a job may use; 0 if that is not limited."""
    whole = part = 0
    for item in held:
        for number, count in held_parts(item).items() if item.name == "mps" else ():
            part += count
            whole += sum(
                one.parts[number]
                for one in available
                if (one.name, one.type) == ("mps", item.type) and number < len(one.parts)
            )
    return max(1, 100 * part // whole) if whole else 0


def visible(held: Sequence[int], seen: Sequence[int], confined: bool) -> list[int]:
    """Return the numbers under which a task sees `seen` of the devices its step holds.

    If device files are confined the driver numbers the remaining ones from 0; else host numbers.
    """
    if not confined:
        return list(seen)
    place = {index: position for position, index in enumerate(held)}
    return [place[index] for index in seen]


def denied_devices(
    available: Sequence[NodeGres], held: Sequence[GresAlloc]
) -> tuple[DeviceNode, ...]:
    """Return the device files of a node that a job must not open: all but those it holds."""
    kept = {item.name: set(indexes(held, item.name)) for item in available}
    kept.setdefault("gpu", set()).update(in_parts(held))
    denied: dict[DeviceNode, None] = {}
    allowed: set[DeviceNode] = set()
    for item in available:
        if is_part(item.name):
            continue  # its files are those of GPUs
        for place, paths in enumerate(item.files):
            for node in filter(None, map(device_node, paths.split(","))):
                if item.first_index + place in kept[item.name]:
                    allowed.add(node)
                else:
                    denied[node] = None
    return tuple(node for node in denied if node not in allowed)
