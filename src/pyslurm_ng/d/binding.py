"""Which CPUs of the host a task may use: abstract cores of an allocation to kernel CPU numbers.

An allocation names cores socket by socket from 0. Where the node pretends to have more than the
host, there is no such CPU and nothing is bound.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from pyslurm_ng.sched.layout import Distribution, parse_distribution, task_cores

CpuIds = tuple[int, ...]


class BindError(ValueError):
    """A --cpu-bind that cannot be read or kept; one line for the user."""


@dataclass(frozen=True, slots=True)
class HostCores:
    """The host's CPUs by core, in socket order; `per_socket` cores in each socket."""

    cpus: tuple[CpuIds, ...]
    per_socket: int

    def of_mask(self, cores: int) -> CpuIds | None:
        """Return the CPUs of a core mask, None if the host does not have all of them."""
        if cores >> len(self.cpus):
            return None
        chosen = [core for core in range(len(self.cpus)) if cores >> core & 1]
        return tuple(sorted(cpu for core in chosen for cpu in self.cpus[core]))


def host_cores(base: str = "/sys/devices/system/cpu") -> HostCores:
    """Return the cores this process may see, in order of socket and core id."""
    found: dict[tuple[int, int], list[int]] = {}
    names = os.listdir(base) if os.path.isdir(base) else []
    for cpu in sorted(int(name[3:]) for name in names if name[:3] == "cpu" and name[3:].isdigit()):
        try:
            with open(f"{base}/cpu{cpu}/topology/physical_package_id", encoding="ascii") as file:
                package = int(file.read())
            with open(f"{base}/cpu{cpu}/topology/core_id", encoding="ascii") as file:
                core = int(file.read())
        except (OSError, ValueError):
            package, core = 0, cpu
        found.setdefault((package, core), []).append(cpu)
    if not found:
        return HostCores(tuple((cpu,) for cpu in range(os.cpu_count() or 1)), os.cpu_count() or 1)
    sockets = len({package for package, _ in found})
    cores = tuple(tuple(found[key]) for key in sorted(found))
    return HostCores(cores, max(1, len(cores) // sockets))


def cpu_mask(cpus: Sequence[int]) -> bytes:
    """Return the kernel's form of a CPU set."""
    mask = 0
    for cpu in cpus:
        mask |= 1 << cpu
    # The kernel takes whole words only.
    return mask.to_bytes((max(cpus, default=0) // 64 + 1) * 8, "little")


def bind_tasks(
    host: HostCores,
    cores: int,
    tasks: int,
    cpus_per_task: int,
    bind: str,
    distribution: str,
    *,
    automatic: bool,
    tasks_per_socket: int = 0,
) -> list[CpuIds]:
    """Return for each local task the CPUs it is bound to; empty for a task that is not bound.

    Args:
        cores: mask of abstract cores that the step holds here.
        bind: --cpu-bind without `quiet,` and `verbose,`.
        automatic: TaskPlugin=task/affinity: bind to cores unless told otherwise.
        tasks_per_socket: at most so many in a socket, each bound to all of the step's cores there
            unless told otherwise; 0: any number.

    Raises:
        BindError: a word or number that cannot be used.
    """
    allowed = host.of_mask(cores)
    words = [word for word in bind.split(",") if word.lower() not in ("quiet", "verbose", "q", "v")]
    kind, _, value = ",".join(words).partition(":")
    kind = kind.lower()
    if allowed is None or kind in ("none", "no") or (not kind and not automatic):
        return [()] * tasks
    if kind in ("map_cpu", "mask_cpu"):
        return [_listed(kind, value, local, allowed) for local in range(tasks)]
    if kind == "rank":
        return [(allowed[local % len(allowed)],) for local in range(tasks)]
    if kind not in ("", "cores", "core", "threads", "thread", "sockets", "socket", "ldoms", "ldom"):
        raise BindError(f"--cpu-bind={bind}: not supported yet")
    if kind.startswith(("socket", "ldom")):
        return [allowed] * tasks
    threads = max(1, len(allowed) // max(1, cores.bit_count()))
    per_task = max(1, -(-max(1, cpus_per_task) // threads))
    masks = task_cores(
        cores, tasks, per_task, host.per_socket, _distribution(distribution), tasks_per_socket
    )
    if tasks_per_socket and not kind:
        masks = [_whole_sockets(mask, cores, host.per_socket) for mask in masks]
    return [host.of_mask(mask) or allowed for mask in masks]


def _whole_sockets(mask: int, cores: int, per_socket: int) -> int:
    """Return all `cores` of the sockets that a mask touches."""
    whole = (1 << per_socket) - 1
    found = 0
    for first in range(0, mask.bit_length(), per_socket):
        if mask >> first & whole:
            found |= cores & whole << first
    return found


def _distribution(text: str) -> Distribution:
    try:
        return parse_distribution(text, 1)
    except ValueError:
        return Distribution()


def _listed(kind: str, value: str, local: int, allowed: CpuIds) -> CpuIds:
    words = [word for word in value.split(",") if word]
    if not words:
        raise BindError(f"--cpu-bind={kind}: needs a list")
    word = words[local % len(words)]
    try:
        number = int(word, 16 if kind == "mask_cpu" or word.lower().startswith("0x") else 10)
    except ValueError:
        raise BindError(f"--cpu-bind={kind}: {word} is not a number") from None
    if kind == "map_cpu":
        chosen: CpuIds = (number,)
    else:
        chosen = tuple(bit for bit in range(number.bit_length()) if number >> bit & 1)
    usable = tuple(cpu for cpu in chosen if cpu in allowed)
    return usable or allowed


def bind_text(kind: str, masks: Sequence[CpuIds], *, verbose: bool) -> dict[str, str]:
    """Return SLURM_CPU_BIND and its parts for the tasks of a node."""
    hex_masks = ",".join(hex(sum(1 << cpu for cpu in cpus)) for cpus in masks if cpus)
    loud = "verbose" if verbose else "quiet"
    word = f"{kind}:" if hex_masks else "none"
    return {
        "SLURM_CPU_BIND": f"{loud},{word}{hex_masks}",
        "SLURM_CPU_BIND_LIST": hex_masks,
        "SLURM_CPU_BIND_TYPE": word,
        "SLURM_CPU_BIND_VERBOSE": loud,
    }
