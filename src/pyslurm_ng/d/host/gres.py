"""A node's generic resources: what it has, and what a job, step or task of it sees.

Devices of one name are numbered over all types on the node, in the order of gres.conf; allocations
name them by that number.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pyslurm_ng.base.hostlist import fold
from pyslurm_ng.conf.gres_conf import GresConf, GresLine
from pyslurm_ng.conf.node_lines import NodeConf
from pyslurm_ng.d.host.device_filter import device_node
from pyslurm_ng.d.host.gpu_names import NVIDIA_FLAG, VARIABLE_FLAGS, number_of_file
from pyslurm_ng.d.host.nvml import DetectedGpu
from pyslurm_ng.model.gres_parts import held_parts
from pyslurm_ng.model.job import GresAlloc
from pyslurm_ng.model.node import NodeGres, is_part, spread, with_parts

if TYPE_CHECKING:
    from pyslurm_ng.d.host.device_filter import DeviceNode

# What `slurmd -G` calls the flags of variables.
_SHOWN_FLAGS = {
    "nvidia_gpu_env": "ENV_NVML",
    "amd_gpu_env": "ENV_RSMI",
    "intel_gpu_env": "ENV_ONEAPI",
    "opencl_env": "ENV_OPENCL",
}


class GresError(ValueError):
    """gres.conf, the detected devices and slurm.conf do not agree; one line for log and drain."""


def node_gres(
    node: NodeConf, conf: GresConf, detected: Sequence[DetectedGpu]
) -> tuple[NodeGres, ...]:
    """Return what the node has: lines of gres.conf, else detected devices, else bare counts.

    Raises:
        GresError: a detected device contradicts a line, or a line has cores that are not there.
    """
    core_count = node.sockets * node.cores_per_socket
    threads = max(1, node.threads_per_core)
    every = conf.lines_of(node)
    unique_ids = {",".join((gpu.file, *gpu.extra_files)): gpu.unique_id for gpu in detected}
    lines = [line for line in every if not is_part(line.name)]
    resources: list[NodeGres] = []
    next_index: dict[str, int] = {}
    for line in lines:
        if line.cores and line.cores[-1] >= core_count:
            raise GresError(f"gres/{line.name}: this node has no core {line.cores[-1]}")
        resources.append(_from_line(line, next_index.get(line.name, 0), unique_ids))
        next_index[line.name] = next_index.get(line.name, 0) + line.amount
    if detected and not any(line.name == "gpu" for line in lines):
        resources += _from_detected(node, detected, threads)
    resources += _parts_of(resources, [line for line in every if is_part(line.name)])
    named = {gres.name for gres in resources}
    for gres in node.gres:
        if gres.name not in named:
            first = next_index.get(gres.name, 0)
            next_index[gres.name] = first + gres.amount
            resources.append(NodeGres(gres.name, gres.type_name, gres.amount, first_index=first))
    return with_parts(resources)


def _parts_of(devices: Sequence[NodeGres], lines: Sequence[GresLine]) -> list[NodeGres]:
    """Return what lines say of parts of GPUs, those of one name and type together.

    Raises:
        GresError: a file is not that of a GPU.
    """
    numbers = {
        path: gres.first_index + number
        for gres in devices
        if gres.name == "gpu"
        for number, paths in enumerate(gres.files)
        for path in paths.split(",")
    }
    by_kind: dict[tuple[str, str], NodeGres] = {}
    for line in lines:
        missing = [path for path in line.files if path not in numbers]
        if missing:
            raise GresError(f"gres/{line.name}: {missing[0]} is the file of no GPU")
        parts = spread(line.amount, [numbers[path] for path in line.files])
        known = by_kind.get((line.name, line.type_name))
        if known is not None:
            parts = tuple(map(sum, zip_longest(known.parts, parts, fillvalue=0)))
        before = known or NodeGres(line.name, line.type_name, 0, flags=",".join(line.flags))
        by_kind[line.name, line.type_name] = replace(
            before,
            count=before.count + line.amount,
            files=before.files + line.files,
            parts=parts,
        )
    return list(by_kind.values())


def _from_line(line: GresLine, first: int, detected_ids: Mapping[str, str]) -> NodeGres:
    """Return the devices of a line; what is detected adds their UUIDs and their maker."""
    files = line.files or ((",".join(line.multiple_files),) if line.multiple_files else ())
    ids = tuple(detected_ids.get(path, "") for path in files) if line.name == "gpu" else ()
    flags = line.flags
    if any(ids) and VARIABLE_FLAGS.isdisjoint(flags):
        flags = (*flags, NVIDIA_FLAG)
    cores = _mask(line.cores)
    return NodeGres(
        name=line.name,
        type=line.type_name,
        count=line.amount,
        files=files,
        cores=(cores,) * line.amount if line.cores else (),
        links=(line.links,) * line.amount if line.links else (),
        flags=",".join(flags),
        first_index=first,
        unique_ids=ids if any(ids) else (),
    )


def _from_detected(node: NodeConf, detected: Sequence[DetectedGpu], threads: int) -> list[NodeGres]:
    """Group detected GPUs by type; a configured type matches as a part of the detected name."""
    type_names = {gres.type_name for gres in node.gres if gres.name == "gpu" and gres.type_name}
    groups: dict[str, list[DetectedGpu]] = {}
    for gpu in detected:
        names = [name for name in sorted(type_names) if name.lower() in gpu.type_name]
        groups.setdefault(names[0] if names else gpu.type_name if type_names else "", []).append(
            gpu
        )
    missing = type_names - set(groups)
    if missing:
        have = ",".join(sorted({gpu.type_name for gpu in detected}))
        raise GresError(f"gres/gpu:{sorted(missing)[0]} is configured but {have} was found")
    detected_gres = []
    first = 0
    # Links are told in the order of detection, devices are numbered type by type.
    detected_index = {id(gpu): index for index, gpu in enumerate(detected)}
    order = [detected_index[id(gpu)] for gpus in groups.values() for gpu in gpus]
    for name, gpus in groups.items():
        detected_gres.append(
            NodeGres(
                name="gpu",
                type=name,
                count=len(gpus),
                files=tuple(",".join((gpu.file, *gpu.extra_files)) for gpu in gpus),
                cores=tuple(_mask(sorted({cpu // threads for cpu in gpu.cpus})) for gpu in gpus),
                links=tuple(_links_in(order, gpu.links) for gpu in gpus),
                flags=NVIDIA_FLAG,
                first_index=first,
                unique_ids=tuple(gpu.unique_id for gpu in gpus),
            )
        )
        first += len(gpus)
    return detected_gres


def _links_in(order: Sequence[int], links: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(links[position] for position in order) if len(links) == len(order) else ()


def missing_files(available: Sequence[NodeGres]) -> set[str]:
    """Return the device files that are not there now."""
    return {path for path in _files(available) if not os.path.exists(path)}


def files_of_gpus(available: Sequence[NodeGres], numbers: Collection[int]) -> set[str]:
    """Return the device files of NVIDIA GPUs with these numbers."""
    return {path for path in _files(available) if number_of_file(path) in numbers}


def _files(available: Sequence[NodeGres]) -> set[str]:
    return {path for gres in available for files in gres.files for path in files.split(",")}


def without_missing(
    available: Sequence[NodeGres], lost_gpus: Collection[int] = ()
) -> tuple[NodeGres, ...]:
    """Return what a node has now: without devices whose files have gone, and without lost GPUs."""
    missing = missing_files(available) | files_of_gpus(available, lost_gpus)
    if not missing:
        return tuple(available)
    return tuple(gres if is_part(gres.name) else _left_of(gres, missing) for gres in available)


def _left_of(gres: NodeGres, missing: set[str]) -> NodeGres:
    here = [n for n, paths in enumerate(gres.files) if missing.isdisjoint(paths.split(","))]
    if len(here) == len(gres.files):
        return gres
    return replace(
        gres,
        count=max(0, gres.count - (len(gres.files) - len(here))),
        files=tuple(gres.files[number] for number in here),
        cores=tuple(gres.cores[number] for number in here) if gres.cores else (),
        links=(),
        unique_ids=tuple(gres.unique_ids[number] for number in here) if gres.unique_ids else (),
    )


def conf_lines(available: Sequence[NodeGres], core_count: int) -> list[str]:
    """Return what `slurmd -G` prints: a line for each resource, or for each device by itself."""
    lines = []
    for gres in available:
        alike = len(set(gres.cores)) <= 1 and len(set(gres.links)) <= 1
        parts = [range(gres.count)] if alike else [range(n, n + 1) for n in range(gres.count)]
        for part in parts:
            first = part.start
            files = [path for number in part for path in gres.files[number : number + 1]]
            words = [
                f"Gres Name={gres.name} Type={gres.type or '(null)'} Count={len(part)}",
                f"Index={gres.first_index + first} ID={_plugin_id(gres.name)}",
            ]
            if files:
                words.append(f"File={','.join(files) if ',' in files[0] else fold(files)}")
            if gres.cores:
                shown = _ranges(int.from_bytes(gres.cores[first], "little"))
                words.append(f"Cores={shown} CoreCnt={core_count}")
            links = gres.links[first] if gres.links else ()
            words.append(f"Links={','.join(map(str, links)) or '(null)'}")
            flags = [*(["HAS_FILE"] if files else []), *(["HAS_TYPE"] if gres.type else [])]
            flags += [_SHOWN_FLAGS.get(flag, flag) for flag in gres.flags.split(",") if flag]
            words.append(f"Flags={','.join(flags)}")
            lines.append(" ".join(words))
    return lines


def _plugin_id(name: str) -> int:
    """Return the number that stands for a resource: its letters, a byte each, as Slurm does."""
    return sum(ord(letter) << 8 * (index % 4) for index, letter in enumerate(name)) & 0xFFFFFFFF


def _ranges(mask: int) -> str:
    bits = [bit for bit in range(mask.bit_length()) if mask >> bit & 1]
    return fold([f"c{bit}" for bit in bits]).removeprefix("c").strip("[]")


def _mask(cores: Sequence[int]) -> bytes:
    mask = 0
    for core in cores:
        mask |= 1 << core
    return mask.to_bytes((mask.bit_length() + 7) // 8, "little")


def indexes(allocs: Sequence[GresAlloc], name: str = "gpu") -> list[int]:
    """Return the device numbers held of one resource, ascending."""
    mask = 0
    for alloc in allocs:
        if alloc.name == name:
            mask |= int.from_bytes(alloc.indexes, "little")
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def in_parts(allocs: Sequence[GresAlloc]) -> list[int]:
    """Return the numbers of the GPUs held in part, ascending."""
    return sorted({number for alloc in allocs for number in held_parts(alloc)})


def mps_percentage(available: Sequence[NodeGres], allocs: Sequence[GresAlloc]) -> int:
    """Return which share of its GPUs' threads a job may use; 0 if that is not limited."""
    whole = part = 0
    for alloc in allocs:
        for number, count in held_parts(alloc).items() if alloc.name == "mps" else ():
            part += count
            whole += sum(
                gres.parts[number]
                for gres in available
                if (gres.name, gres.type) == ("mps", alloc.type) and number < len(gres.parts)
            )
    return max(1, 100 * part // whole) if whole else 0


def visible(step_indexes: Sequence[int], seen: Sequence[int], confined: bool) -> list[int]:
    """Return the numbers under which a task sees `seen` of the devices its step holds.

    If device files are confined the driver numbers the remaining ones from 0; else host numbers.
    """
    if not confined:
        return list(seen)
    index_of = {index: position for position, index in enumerate(step_indexes)}
    return [index_of[index] for index in seen]


def denied_devices(
    available: Sequence[NodeGres], allocs: Sequence[GresAlloc]
) -> tuple[DeviceNode, ...]:
    """Return the device files of a node that a job must not open: all but those it holds."""
    kept = {gres.name: set(indexes(allocs, gres.name)) for gres in available}
    kept.setdefault("gpu", set()).update(in_parts(allocs))
    denied: dict[DeviceNode, None] = {}
    allowed: set[DeviceNode] = set()
    for gres in available:
        if is_part(gres.name):
            continue  # its files are those of GPUs
        for number, paths in enumerate(gres.files):
            for node in filter(None, map(device_node, paths.split(","))):
                if gres.first_index + number in kept[gres.name]:
                    allowed.add(node)
                else:
                    denied[node] = None
    return tuple(node for node in denied if node not in allowed)
