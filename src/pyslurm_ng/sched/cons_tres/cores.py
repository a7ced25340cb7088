"""Masks of the cores of a node, socket by socket; a core is given whole, with all its threads."""

from __future__ import annotations

from pyslurm_ng.model.node import NodeSpec, id_ranges
from pyslurm_ng.sched.request.need import NONE_SPECIAL


def usable_cores(spec: NodeSpec, special: int = 0) -> int:
    """Return the mask of cores jobs may use: all but the specialised ones.

    A count of these takes the highest core of each socket in turn, the last socket first, then
    the next highest; with `spec_cores_first` the lowest ones, the first socket first. What is left
    is even over the sockets.

    Args:
        special: how many cores are specialised; 0: as configured, NONE_SPECIAL: none.
    """
    total = max(1, spec.cpus // max(1, spec.threads_per_core))
    mask = (1 << total) - 1
    if spec.cpu_spec_list and not special:
        for cpu in id_ranges(spec.cpu_spec_list):
            mask &= ~(1 << (cpu // spec.threads_per_core))
        return mask
    special = 0 if special == NONE_SPECIAL else special or spec.core_spec_count
    if special:
        per_socket = max(1, spec.cores_per_socket)
        sockets = max(1, total // per_socket)
        for turn in range(min(special, total)):
            socket, depth = turn % sockets, turn // sockets
            if spec.is_special_first:
                core = socket * per_socket + depth
            else:
                core = (sockets - socket) * per_socket - depth - 1
            mask &= ~(1 << max(0, core))
    return mask


def by_socket(cores: int, spec: NodeSpec) -> list[int]:
    """Return the cores of a mask by socket."""
    per_socket = max(1, spec.cores_per_socket)
    whole = (1 << per_socket) - 1
    count = -(-cores.bit_length() // per_socket)
    return [cores & (whole << (socket * per_socket)) for socket in range(count)]


def pick_cores(
    spec: NodeSpec, cores: int, count: int, per_task: int = 1, *, is_block: bool = False
) -> int:
    """Return a mask of `count` of the free `cores`.

    Tasks of one core are dealt over the sockets in turn (block:cyclic, the default). A task of
    several goes into the first socket that holds it whole, so that it need not cross; one too
    large for any is dealt core by core. Seen with Slurm 22.05 and 26.11.

    Args:
        per_task: cores of one task.
        is_block: fill socket after socket.
    """
    free = by_socket(cores, spec)
    picked, missing_count = 0, count
    while missing_count > 0:
        size = min(missing_count, per_task)
        home = next((part for part in free if part.bit_count() >= size), 0)
        if is_block:
            took = lowest_bits(cores & ~picked, missing_count)
        elif size > 1 and home:
            took = lowest_bits(home, size)
        else:
            took = _dealt(free, missing_count if per_task == 1 else size)
        if not took:
            break
        picked |= took
        missing_count -= took.bit_count()
        free = [part & ~took for part in free]
    return picked


def _dealt(free: list[int], count: int) -> int:
    """Return `count` cores, one of each socket in turn as long as it has any."""
    picked = 0
    rest = list(free)
    while count and any(rest):
        for socket, part in enumerate(rest):
            low = part & -part
            if low and count:
                picked |= low
                rest[socket] ^= low
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
