"""Where a step's tasks go: over nodes, then over the cores of a node. Pure.

Words are those of `--distribution`: `block|cyclic|plane=N|arbitrary|*` for nodes, after a colon
`block|cyclic|fcyclic|*` for sockets, after another for cores, and `,Pack` or `,NoPack`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pyslurm_ng.base.units import whole_number
from pyslurm_ng.model.job import JobRequest, NodeAlloc
from pyslurm_ng.model.task_counts import tasks_to_start, usable_cpus

NODE_WORDS = ("block", "cyclic", "plane", "arbitrary")
CORE_WORDS = ("block", "cyclic", "fcyclic")


class LayoutError(ValueError):
    """A distribution that cannot be read or kept; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A parsed `--distribution`; empty words mean the default."""

    node: str = ""
    plane_size: int = 0
    socket: str = ""
    core: str = ""
    pack: bool | None = None

    def text(self, tasks: int = 0, nodes: int = 0) -> str:
        """Return what SLURM_DISTRIBUTION shows, the default filled in by the counts.

        The size of planes is in SLURM_DIST_PLANESIZE.
        """
        node = self.node or default_node_word(tasks, nodes)
        parts = [node]
        if self.socket or self.core:
            parts.append(self.socket or "cyclic")
        if self.core:
            parts.append(self.core)
        suffix = "" if self.pack is None else (",pack" if self.pack else ",nopack")
        return ":".join(parts) + suffix


def shown_distribution(text: str, plane_size: int = 0) -> str:
    """Return what a job's own `--distribution=text` is in SLURM_DISTRIBUTION."""
    if not text:
        return ""
    return parse_distribution(text, plane_size).text(tasks=1)


def default_node_word(tasks: int, nodes: int) -> str:
    """Return the default over nodes: block when there are more tasks than nodes."""
    return "block" if tasks > nodes else "cyclic"


@lru_cache(maxsize=256)
def parse_distribution(text: str, plane_size: int = 0) -> Distribution:
    """Return what `--distribution=text` says.

    Raises:
        LayoutError: an unknown word, or plane without a size.
    """
    main, _, option = text.partition(",")
    pack: bool | None = None
    if option:
        if option.lower() not in ("pack", "nopack"):
            raise LayoutError(f"Invalid -m specification {text}")
        pack = option.lower() == "pack"
    words = [word.lower() for word in main.split(":")]
    if len(words) > 3:
        raise LayoutError(f"Invalid -m specification {text}")
    words += [""] * (3 - len(words))
    node = "" if words[0] == "*" else words[0]
    socket = "cyclic" if words[1] == "*" else words[1]
    core = socket if words[2] == "*" else words[2]
    if node.startswith("plane"):
        size = node.partition("=")[2]
        if size:
            plane_size = whole_number(size) or 0
        if plane_size < 1 or socket or core:
            raise LayoutError(f"Invalid -m specification {text}")
        node = "plane"
    if (
        (node and node not in NODE_WORDS)
        or (socket and socket not in CORE_WORDS)
        or (core and core not in CORE_WORDS)
    ):
        raise LayoutError(f"Invalid -m specification {text}")
    return Distribution(node, plane_size if node == "plane" else 0, socket, core, pack)


def spread(tasks: int, capacity: Sequence[int], distribution: Distribution) -> list[list[int]]:
    """Return the task ids of each node, ascending.

    Block: consecutive tasks share a node, and nodes get equal numbers as far as they hold them
    (Slurm 22.05). Pack, with any word, fills node after node when each has a task. What exceeds the
    capacities, under overcommit, goes round the nodes evenly.

    Args:
        tasks: how many tasks, at least 1.
        capacity: how many tasks each node holds without overcommit, in step order.
        distribution: not "arbitrary": see `spread_by_list`.
    """
    size = _round_size(tasks, len(capacity), distribution)
    if size:
        return _rounds(tasks, capacity, size)
    return _in_order(spread_counts(tasks, capacity, distribution))


def spread_counts(tasks: int, capacity: Sequence[int], distribution: Distribution) -> list[int]:
    """Return how many tasks each node has in `spread`, in a time that their number does not change.

    Under overcommit a job may have billions of them.
    """
    size = _round_size(tasks, len(capacity), distribution)
    if size:
        return _round_counts(tasks, capacity, size)
    return _packed_counts(tasks, capacity) if distribution.pack else _even_counts(tasks, capacity)


def _round_size(tasks: int, nodes: int, distribution: Distribution) -> int:
    """Return how many tasks a node gets in its turn; 0 where nodes do not take turns."""
    word = distribution.node or default_node_word(tasks, nodes)
    if word == "plane":
        return distribution.plane_size
    return 0 if distribution.pack or word == "block" else 1


def spread_by_list(node_of_task: Sequence[int], nodes: int) -> list[list[int]]:
    """Return the task ids of each node for `arbitrary`: task i runs on node `node_of_task[i]`."""
    of_node: list[list[int]] = [[] for _ in range(nodes)]
    for task, node in enumerate(node_of_task):
        of_node[node].append(task)
    return of_node


def _even_counts(tasks: int, capacity: Sequence[int]) -> list[int]:
    counts = [0] * len(capacity)
    task_count = tasks
    while task_count and (
        room := [node for node, most in enumerate(capacity) if counts[node] < most]
    ):
        # As many rounds at once as there are tasks for, each with one for every node with room.
        each = max(1, task_count // len(room))
        for node in room:
            more = min(each, task_count, capacity[node] - counts[node])
            counts[node] += more
            task_count -= more
    return _with_more(counts, task_count)


def _packed_counts(tasks: int, capacity: Sequence[int]) -> list[int]:
    counts = [int(node < tasks) for node in range(len(capacity))]
    task_count = tasks - sum(counts)
    for node, most in enumerate(capacity):
        more = min(task_count, max(0, most - counts[node]))
        counts[node] += more
        task_count -= more
    return _with_more(counts, task_count)


def _with_more(counts: Sequence[int], tasks: int) -> list[int]:
    """Return the counts with tasks that no node has room for, round by round."""
    each, rest = divmod(tasks, len(counts))
    return [count + each + (node < rest) for node, count in enumerate(counts)]


def _in_order(counts: Sequence[int]) -> list[list[int]]:
    of_node = []
    first = 0
    for count in counts:
        of_node.append(list(range(first, first + count)))
        first += count
    return of_node


def _rounds(tasks: int, capacity: Sequence[int], size: int) -> list[list[int]]:
    """Deal `size` tasks to a node in turn, passing over full ones while any has room."""
    of_node: list[list[int]] = [[] for _ in capacity]
    task = 0
    while task < tasks:
        has_room = [len(task_ids) < room for task_ids, room in zip(of_node, capacity, strict=True)]
        respects = any(has_room)
        for node, task_ids in enumerate(of_node):
            if respects and not has_room[node]:
                continue
            count = min(size, tasks - task)
            if respects:
                count = min(count, capacity[node] - len(task_ids))
            task_ids.extend(range(task, task + count))
            task += count
    return of_node


def _round_counts(tasks: int, capacity: Sequence[int], size: int) -> list[int]:
    """Return what `_rounds` deals to each node: equal rounds are taken at once."""
    counts, task_count = [0] * len(capacity), tasks
    while room := [node for node, most in enumerate(capacity) if counts[node] < most]:
        if not task_count:
            return counts
        least = min(capacity[node] - counts[node] for node in room)
        each = max(1, min(least // size, task_count // (size * len(room)))) * size
        for node in room:
            more = min(each, task_count, capacity[node] - counts[node])
            counts[node] += more
            task_count -= more
    rounds, rest = divmod(task_count, size * len(counts))
    return [
        count + rounds * size + min(size, max(0, rest - node * size))
        for node, count in enumerate(counts)
    ]


def counts_text(counts: Iterable[int]) -> str:
    """Return counts in the repeat form of SLURM_TASKS_PER_NODE: `2(x3),1`."""
    parts: list[list[int]] = []
    for count in counts:
        if parts and parts[-1][0] == count:
            parts[-1][1] += 1
        else:
            parts.append([count, 1])
    return ",".join(f"{count}(x{times})" if times > 1 else f"{count}" for count, times in parts)


# Inside a node ----------------------------------------------------------------------------------


def task_cores(
    cores: int,
    tasks: int,
    cores_per_task: int,
    cores_per_socket: int,
    distribution: Distribution,
    tasks_per_socket: int = 0,
) -> list[int]:
    """Return a core mask for each task of a node.

    Tasks are dealt over sockets: cyclic (the default) one socket after another, block socket by
    socket, fcyclic each core of a task from another socket. When the cores do not suffice (under
    overcommit) they are dealt again from the beginning.

    Args:
        cores: mask of the cores the step holds here, socket by socket.
        tasks: how many tasks run here.
        cores_per_task: how many each is to have, at least 1.
        cores_per_socket: cores of one socket.
        tasks_per_socket: of each socket only the cores of so many tasks are dealt; 0: all.
    """
    if tasks_per_socket:
        cores = _capped(cores, max(1, cores_per_socket), tasks_per_socket * cores_per_task)
    order = _core_order(cores, max(1, cores_per_socket), cores_per_task, distribution.socket)
    if not order:
        return [0] * tasks
    masks = []
    for task in range(tasks):
        first = task * cores_per_task
        mask = 0
        for index in range(first, first + min(cores_per_task, len(order))):
            mask |= 1 << order[index % len(order)]
        masks.append(mask)
    return masks


def _capped(cores: int, per_socket: int, most: int) -> int:
    """Return the lowest cores of each socket, at most so many."""
    mask, socket_counts = 0, [0] * (cores.bit_length() // per_socket + 1)
    for index in range(cores.bit_length()):
        if cores >> index & 1 and socket_counts[index // per_socket] < most:
            socket_counts[index // per_socket] += 1
            mask |= 1 << index
    return mask


def _core_order(cores: int, per_socket: int, group: int, word: str) -> list[int]:
    """Return core indexes in the order in which they are dealt, `group` of them to a task."""
    listed = [index for index in range(cores.bit_length()) if cores >> index & 1]
    if word == "block":
        return listed
    sockets: dict[int, list[int]] = {}
    for index in listed:
        sockets.setdefault(index // per_socket, []).append(index)
    take = 1 if word == "fcyclic" else group
    order: list[int] = []
    sockets_left = list(sockets.values())
    while sockets_left:
        for socket in sockets_left:
            order += socket[:take]
            del socket[:take]
        sockets_left = [socket for socket in sockets_left if socket]
    return order


def tasks_on_nodes(request: JobRequest, allocs: Sequence[NodeAlloc]) -> list[int]:
    """Return how many tasks of a job a launcher should start on each node: SLURM_TASKS_PER_NODE.

    Tasks that are counted for the whole job are laid out as a step with all of them would be.
    """
    counted = [tasks_to_start(request, alloc) for alloc in allocs]
    if not request.ntasks or request.ntasks_per_node or not allocs:
        return counted
    distribution = parse_distribution(request.distribution, request.plane_size)
    if distribution.node == "arbitrary":
        return counted
    each = max(1, request.cpus_per_task)
    capacity = [usable_cpus(request, alloc) // each for alloc in allocs]
    return spread_counts(request.ntasks, capacity, distribution)
