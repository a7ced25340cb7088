"""Which CPUs of the host a task may use: abstract cores of an allocation to kernel CPU numbers.

An allocation names cores socket by socket from 0. Where the node pretends to have more than the
host, there is no such CPU and nothing is bound.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from pyslurm_ng.base.bind_words import BindWords
from pyslurm_ng.d.host.kernel_files import read_text
from pyslurm_ng.sched.cons_tres.layout import (
    Distribution,
    LayoutError,
    parse_distribution,
    task_cores,
)

CpuIds = tuple[int, ...]


class BindError(ValueError):
    """A --cpu-bind that cannot be kept; one line for the user."""


@dataclass(frozen=True, slots=True)
class HostCores:
    """The host's CPUs by core, in socket order.

    per_socket: cores in each socket.
    memory_nodes: the NUMA nodes: number and CPUs, ascending.
    """

    cpus: tuple[CpuIds, ...]
    per_socket: int
    memory_nodes: tuple[tuple[int, CpuIds], ...] = ()

    def of_mask(self, cores: int) -> CpuIds | None:
        """Return the CPUs of a core mask, None if the host does not have all of them."""
        if cores >> len(self.cpus):
            return None
        chosen = [core for core in range(len(self.cpus)) if cores >> core & 1]
        return tuple(sorted(cpu for core in chosen for cpu in self.cpus[core]))

    @property
    def digits(self) -> int:
        """Hexadecimal digits of a mask of all CPUs."""
        return -(-(1 + max((cpu for core in self.cpus for cpu in core), default=0)) // 4)


@dataclass(frozen=True, slots=True)
class TaskNeeds:
    """What is known of the tasks that are to be bound on a node.

    kind: the default for a --cpu-bind that names none: "cores", "sockets", ...; "" binds by itself
        to what the tasks' CPUs are as many as.
    fallback: what to bind to where the numbers agree with nothing (TaskPluginParam=Autobind).
    distribution: as --distribution.
    tasks_per_socket: at most; 0: any number.
    threads_per_core: of each core only so many; 0: all.
    """

    tasks: int
    cpus_per_task: int = 1
    kind: str = ""
    fallback: str = ""
    distribution: str = ""
    tasks_per_socket: int = 0
    threads_per_core: int = 0


def host_cores(system: str = "/sys/devices/system") -> HostCores:
    """Return the cores this process may see, in order of socket and core id."""
    cpus_of_core: dict[tuple[int, int], list[int]] = {}
    for cpu in _numbered(f"{system}/cpu", "cpu"):
        folder = f"{system}/cpu/cpu{cpu}/topology"
        package, core = read_text(f"{folder}/physical_package_id"), read_text(f"{folder}/core_id")
        if package and core:  # a CPU that is offline has neither
            cpus_of_core.setdefault((int(package), int(core)), []).append(cpu)
    if not cpus_of_core:
        cpus_of_core = {(0, cpu): [cpu] for cpu in range(os.cpu_count() or 1)}
    sockets = len({package for package, _ in cpus_of_core})
    cores = tuple(tuple(cpus_of_core[key]) for key in sorted(cpus_of_core))
    every = tuple(sorted(cpu for core in cores for cpu in core))
    return HostCores(cores, max(1, len(cores) // sockets), _memory_nodes(system, every))


def _numbered(base: str, prefix: str) -> list[int]:
    """Return the numbers of a directory's entries that are called `prefix` and a number."""
    names = os.listdir(base) if os.path.isdir(base) else []
    ends = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
    return sorted(int(end) for end in ends if end.isdecimal())


def _memory_nodes(system: str, every: CpuIds) -> tuple[tuple[int, CpuIds], ...]:
    """Return the NUMA nodes; a kernel without NUMA has node 0 with everything."""
    memory_nodes = []
    for node in _numbered(f"{system}/node", "node"):
        cpus = tuple(cpu for cpu in _numbered(f"{system}/node/node{node}", "cpu") if cpu in every)
        memory_nodes.append((node, cpus))
    return tuple(memory_nodes) or ((0, every),)


def cpu_mask(cpus: Sequence[int]) -> bytes:
    """Return the kernel's form of a CPU set."""
    mask = _bits(cpus)
    # The kernel takes whole words only.
    return mask.to_bytes((max(cpus, default=0) // 64 + 1) * 8, "little")


def _bits(cpus: Sequence[int]) -> int:
    return sum(1 << cpu for cpu in cpus)


# Binding ------------------------------------------------------------------------------------------


def bind_tasks(host: HostCores, cores: int, words: BindWords, needs: TaskNeeds) -> list[CpuIds]:
    """Return for each local task the CPUs it is bound to; empty for a task that is not bound.

    Args:
        cores: mask of abstract cores that the step holds here.
        words: --cpu-bind.

    Raises:
        BindError: it names CPUs that the step does not have.
    """
    allowed = host.of_mask(cores)
    kind = words.kind or needs.kind or ("sockets" if needs.tasks_per_socket else "")
    if allowed is None or kind == "none":
        return [()] * needs.tasks
    if kind in ("rank", "rank_ldom", "map_ldom", "mask_ldom", "map_cpu", "mask_cpu"):
        return _by_hand(host, cores, allowed, words, needs.tasks)
    kind = kind or _automatic(host, cores, allowed, needs) or needs.fallback
    if not kind or kind == "none":
        return [allowed] * needs.tasks
    layout = _distribution(needs.distribution)
    if kind == "threads":
        return _by_thread(host, cores, needs, layout, one_thread="one_thread" in words.flags)
    masks = task_cores(
        cores,
        needs.tasks,
        _cores_each(host, cores, needs),
        host.per_socket,
        layout,
        needs.tasks_per_socket,
    )
    if kind == "sockets":
        masks = [_whole_sockets(mask, cores, host.per_socket) for mask in masks]
    cpus = [host.of_mask(mask) or allowed for mask in masks]
    if kind == "ldoms":
        return [_whole_nodes(host, cpu, allowed) for cpu in cpus]
    return cpus


def _automatic(host: HostCores, cores: int, allowed: CpuIds, needs: TaskNeeds) -> str:
    """Return what there are as many of as CPUs are wanted in all, "" if nothing."""
    cpu_count = needs.tasks * needs.cpus_per_task
    whole = (1 << host.per_socket) - 1
    firsts = range(0, cores.bit_length(), host.per_socket)
    sockets = [cores >> first & whole for first in firsts if cores >> first & whole]
    # A socket that is held in part is not one to bind to.
    if cpu_count == len(sockets) and all(socket == whole for socket in sockets):
        return "sockets"
    if cpu_count == cores.bit_count():
        return "cores"
    return "threads" if cpu_count == len(allowed) else ""


def _cores_each(host: HostCores, cores: int, needs: TaskNeeds) -> int:
    """Return how many cores hold a task's CPUs."""
    threads = max(len(cpus) for core, cpus in enumerate(host.cpus) if cores >> core & 1)
    threads = min(threads, needs.threads_per_core or threads)
    return max(1, -(-max(1, needs.cpus_per_task) // threads))


def _by_thread(
    host: HostCores, cores: int, needs: TaskNeeds, layout: Distribution, *, one_thread: bool
) -> list[CpuIds]:
    """Deal single CPUs as cores are dealt: each counts as a core, in a wider socket."""
    threads = max((len(cpus) for cpus in host.cpus), default=1)
    most = 1 if one_thread else needs.threads_per_core or threads
    cpu_of: dict[int, int] = {}
    for core, cpus in enumerate(host.cpus):
        if cores >> core & 1:
            cpu_of |= {core * threads + index: cpu for index, cpu in enumerate(cpus[:most])}
    masks = task_cores(
        _bits(tuple(cpu_of)),
        needs.tasks,
        max(1, needs.cpus_per_task),
        host.per_socket * threads,
        layout,
        needs.tasks_per_socket,
    )
    return [tuple(sorted(cpu_of[bit] for bit in cpu_of if mask >> bit & 1)) for mask in masks]


def _whole_sockets(mask: int, cores: int, per_socket: int) -> int:
    """Return all `cores` of the sockets that a mask touches."""
    whole = (1 << per_socket) - 1
    whole_sockets = 0
    for first in range(0, mask.bit_length(), per_socket):
        if mask >> first & whole:
            whole_sockets |= cores & whole << first
    return whole_sockets


def _whole_nodes(host: HostCores, cpus: CpuIds, allowed: CpuIds) -> CpuIds:
    """Return all `allowed` CPUs of the NUMA nodes that `cpus` touch."""
    touched = {cpu for _, of_node in host.memory_nodes if set(of_node) & set(cpus)
               for cpu in of_node}  # fmt: skip
    return tuple(cpu for cpu in allowed if cpu in touched) or allowed


def _distribution(text: str) -> Distribution:
    try:
        return parse_distribution(text, 1)
    except LayoutError:
        return Distribution()


# By hand ------------------------------------------------------------------------------------------


def _by_hand(
    host: HostCores, cores: int, allowed: CpuIds, words: BindWords, tasks: int
) -> list[CpuIds]:
    """Return what rank, a map or a mask says; the numbers are those of the whole host."""
    if cores != (1 << len(host.cpus)) - 1:
        raise BindError(f"Entire node must be allocated for {words.kind}")
    numbers = words.numbers() or list(range(tasks))
    chosen = [numbers[task % len(numbers)] for task in range(tasks)]
    if words.kind == "rank":
        return [(allowed[task % len(allowed)],) for task in range(tasks)]
    if words.kind == "map_cpu":
        return [_checked((number,), allowed) for number in chosen]
    if words.kind == "mask_cpu":
        return [_checked(_set_bits(number), allowed) for number in chosen]
    of_node = [cpus for _, cpus in host.memory_nodes]
    if words.kind == "mask_ldom":
        return [
            tuple(sorted(cpu for bit in _set_bits(number) for cpu in of_node[bit % len(of_node)]))
            or allowed
            for number in chosen
        ]
    return [of_node[number % len(of_node)] or allowed for number in chosen]


def _checked(cpus: CpuIds, allowed: CpuIds) -> CpuIds:
    if not cpus or not set(cpus) <= set(allowed):
        mask = f"{_bits(allowed):X}"
        raise BindError(
            f"CPU binding outside of job step allocation, allocated CPUs are: 0x{mask}."
        )
    return cpus


def _set_bits(mask: int) -> CpuIds:
    return tuple(bit for bit in range(mask.bit_length()) if mask >> bit & 1)


# What is said of it -------------------------------------------------------------------------------


def bind_variables(host: HostCores, words: BindWords, masks: Sequence[CpuIds]) -> dict[str, str]:
    """Return SLURM_CPU_BIND and its parts for the tasks of a node.

    A binding by rank, map or mask is shown as it was requested, any other as masks.
    """
    kind, listed = words.kind_text, words.list_text
    if kind in ("", "sockets", "cores", "threads", "ldoms"):
        shown = [f"0x{_bits(cpus):0{host.digits}X}" for cpus in masks if cpus]
        listed = ",".join(shown[:1] if len(set(shown)) == 1 and not kind else shown)
        kind = "mask_cpu:" if listed else "none"
    return {
        "SLURM_CPU_BIND": f"{words.loudness},{kind}{listed}",
        "SLURM_CPU_BIND_LIST": listed,
        "SLURM_CPU_BIND_TYPE": kind,
        "SLURM_CPU_BIND_VERBOSE": words.loudness,
    }


_NAMES = {
    "none": "NONE", "rank": "RANK", "map_cpu": "MAP ", "rank_ldom": "LDRANK",
    "map_ldom": "LDMAP ", "mask_ldom": "LDMASK",
}  # fmt: skip


def bind_line(words: BindWords, node: str, task: int, local: int, cpus: CpuIds) -> str:
    """Return what --cpu-bind=verbose says of a task; `\\1` stands for its process id."""
    kind = _NAMES.get(words.kind, "MASK")
    shown = _bits(cpus or tuple(os.sched_getaffinity(0)))
    end = " set" if cpus else ""
    name = "NONE" if not cpus else kind
    return f"cpu-bind={name} - {node}, task {task:2} {local:2} [\1]: mask 0x{shown:x}{end}\n"
