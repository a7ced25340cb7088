"""Generic resources in use, and GPUs that jobs have in parts: `shard` and `mps`.

A GPU is given either whole or in parts, and all its parts have one name. `NodeGres.parts` says how
many parts each GPU of a node has; `GresAlloc.indexes` are the GPUs whose parts are held.

Two dicts say what is in use on a node. `busy` maps "name:type" to a mask of device numbers, `used`
maps it to a count, and "name:type:number" to how many parts of one GPU are held.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyslurm_ng.model.job import GresAlloc
from pyslurm_ng.model.node import NodeGres, is_consumed, is_indexed, is_part

_WHOLE = "gpu"  # the resource that parts belong to


def bits(mask: int) -> list[int]:
    """Return the numbers of the bits that are set, ascending."""
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def mask_bytes(mask: int) -> bytes:
    """Return a mask as records hold it."""
    return mask.to_bytes((mask.bit_length() + 7) // 8, "little")


# What is in use -------------------------------------------------------------------------------


def hold(busy: dict[str, int], used: dict[str, int], alloc: GresAlloc) -> None:
    """Add what a job takes."""
    key = f"{alloc.name}:{alloc.type}"
    used[key] = used.get(key, 0) + alloc.count
    if alloc.indexes:
        busy[key] = busy.get(key, 0) | int.from_bytes(alloc.indexes, "little")
        for number, count in held_parts(alloc).items():
            part = f"{key}:{number}"
            used[part] = used.get(part, 0) + count


def give_back(busy: dict[str, int], used: dict[str, int], alloc: GresAlloc) -> None:
    """Subtract what a job gives back."""
    key = f"{alloc.name}:{alloc.type}"
    used[key] = used.get(key, 0) - alloc.count
    mask = int.from_bytes(alloc.indexes, "little")
    for number, count in held_parts(alloc).items():
        part = f"{key}:{number}"
        used[part] = used.get(part, 0) - count
        if used[part] > 0:
            mask &= ~(1 << number)
    busy[key] = busy.get(key, 0) & ~mask


def keep(
    busy: dict[str, int],
    used: dict[str, int],
    allocs: Iterable[GresAlloc],
    leaving: Iterable[GresAlloc],
) -> None:
    """Add what is kept for a job, though jobs that it preempts still hold some of it."""
    freed = {(alloc.name, alloc.type): alloc for alloc in merged(leaving)}
    for gres in allocs:
        other = freed.get((gres.name, gres.type))
        missing = max(0, gres.count - (other.count if other is not None else 0))
        parts = held_parts(gres)
        for number, count in (held_parts(other) if other is not None else {}).items():
            if number in parts:
                parts[number] = max(0, parts[number] - count)
        key = f"{gres.name}:{gres.type}"
        used[key] = used.get(key, 0) + missing
        busy[key] = busy.get(key, 0) | int.from_bytes(gres.indexes, "little")
        for number, count in parts.items():
            used[f"{key}:{number}"] = used.get(f"{key}:{number}", 0) + count


def held_parts(alloc: GresAlloc) -> dict[int, int]:
    """Return how many parts of which GPU are held; {} for a resource that is held whole."""
    if not is_part(alloc.name) or not alloc.indexes:
        return {}
    numbers = bits(int.from_bytes(alloc.indexes, "little"))
    return dict(zip(numbers, alloc.parts or (alloc.count,), strict=True))


def part_alloc(name: str, kind: str, parts: Mapping[int, int]) -> GresAlloc:
    """Return the record of parts held, given by GPU number."""
    numbers = sorted(parts)
    mask = mask_bytes(sum(1 << number for number in numbers))
    counts = tuple(parts[number] for number in numbers) if len(numbers) > 1 else ()
    return GresAlloc(name, kind, sum(parts.values()), mask, counts)


def merged(allocs: Iterable[GresAlloc]) -> tuple[GresAlloc, ...]:
    """Return one record for each name and type that is held."""
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    parts: dict[tuple[str, str], dict[int, int]] = {}
    for alloc in allocs:
        key = alloc.name, alloc.type
        count, mask = counts.get(key, (0, 0))
        counts[key] = count + alloc.count, mask | int.from_bytes(alloc.indexes, "little")
        for number, part in held_parts(alloc).items():
            own = parts.setdefault(key, {})
            own[number] = own.get(number, 0) + part
    return tuple(
        part_alloc(*key, parts[key]) if key in parts else GresAlloc(*key, count, mask_bytes(mask))
        for key, (count, mask) in counts.items()
    )


# What is free ---------------------------------------------------------------------------------


def _busy_of(busy: Mapping[str, int], name: str) -> int:
    """Return the devices of one name in use, of any type."""
    busy_mask = 0
    for key, mask in busy.items():
        if key.partition(":")[0] == name:
            busy_mask |= mask
    return busy_mask


def free_whole(gres: NodeGres, busy: Mapping[str, int]) -> int:
    """Return the mask of devices that are free, whole and in part."""
    mask = ((1 << gres.count) - 1) << gres.first_index
    mask &= ~busy.get(f"{gres.name}:{gres.type}", 0)
    if gres.name == _WHOLE:
        for key, taken in busy.items():
            if is_part(key.partition(":")[0]):
                mask &= ~taken
    return mask


def free_parts(gres: NodeGres, busy: Mapping[str, int], used: Mapping[str, int]) -> dict[int, int]:
    """Return how many parts of which GPU could be given; GPUs without any are left out.

    If only one GPU may be shared (one_sharing), it is the GPU that is shared already.
    """
    closed = 0
    for key, mask in busy.items():
        name = key.partition(":")[0]
        if name == _WHOLE or (is_part(name) and name != gres.name):
            closed |= mask
    own = _busy_of(busy, gres.name) if shares_one(gres) else 0
    key = f"{gres.name}:{gres.type}"
    parts = {}
    for number, count in enumerate(gres.parts):
        is_open = not closed >> number & 1 and (not own or own >> number & 1)
        free_count = count - used.get(f"{key}:{number}", 0) if is_open else 0
        if free_count > 0:
            parts[number] = free_count
    return parts


def shares_one(gres: NodeGres) -> bool:
    """Return whether only one GPU of a node may be shared at a time, as for MPS by default."""
    flags = gres.flags.split(",")
    return "one_sharing" in flags or (gres.name == "mps" and "all_sharing" not in flags)


def has_room(
    resources: Iterable[NodeGres],
    busy: Mapping[str, int],
    used: Mapping[str, int],
    alloc: GresAlloc,
) -> bool:
    """Return whether exactly these devices, parts or counts are free on a node."""
    matches = [gres for gres in resources if (gres.name, gres.type) == (alloc.name, alloc.type)]
    parts = held_parts(alloc)
    if parts:
        free: dict[int, int] = {}
        for gres in matches:
            free.update(free_parts(gres, busy, used))
        return all(free.get(number, 0) >= count for number, count in parts.items())
    mask = int.from_bytes(alloc.indexes, "little")
    if mask:
        return not mask & ~sum(free_whole(gres, busy) for gres in matches if is_indexed(gres))
    used_count = used.get(f"{alloc.name}:{alloc.type}", 0) + alloc.count
    return any(not is_consumed(gres) for gres in matches) or used_count <= sum(
        gres.count for gres in matches
    )


def devices_of(allocs: Iterable[GresAlloc]) -> dict[tuple[str, str], int]:
    """Return masks of devices by name and type; devices held in part count as GPUs."""
    devices: dict[tuple[str, str], int] = {}
    for alloc in allocs:
        # GPUs are numbered over all types, and parts need not be of a GPU's type.
        key = (
            (_WHOLE, "")
            if is_part(alloc.name) or alloc.name == _WHOLE
            else (alloc.name, alloc.type)
        )
        devices[key] = devices.get(key, 0) | int.from_bytes(alloc.indexes, "little")
    return devices
