"""From which NUMA nodes a task gets its memory: --mem-bind as the kernel's memory policy."""

from __future__ import annotations

from dataclasses import dataclass

from pyslurm_ng.base.bind_words import BindWords
from pyslurm_ng.d.host.binding import CpuIds, HostCores

# Of linux/mempolicy.h.
_PREFERRED, _BIND, _LOCAL = 1, 2, 4
_NAMES = {"": "NULL", "none": "NONE", "rank": "RANK", "local": "LOC", "map_mem": "MAP",
          "mask_mem": "MASK"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MemoryPolicy:
    """What a task asks of the kernel.

    mode: MPOL_*; -1 leaves the policy as it is.
    nodes: mask of the NUMA nodes it holds for.
    problem: why the task cannot run, "" if it can.
    """

    mode: int
    nodes: int
    problem: str = ""


def memory_policy(host: HostCores, words: BindWords, local: int, cpus: CpuIds) -> MemoryPolicy:
    """Return the policy of the `local`th task here, which may use `cpus` (empty: all)."""
    near = sum(1 << node for node, of_node in host.memory_nodes if not cpus or {*cpus} & {*of_node})
    if words.kind in ("", "none"):
        return MemoryPolicy(-1, near)
    prefers = "prefer" in words.flags
    if words.kind == "local":
        return MemoryPolicy(_LOCAL, near)
    numbers = words.numbers()
    number = numbers[local % len(numbers)] if numbers else local
    nodes = number if words.kind == "mask_mem" else 1 << number
    known = sum(1 << node for node, _ in host.memory_nodes)
    if nodes & ~known or not nodes:
        shown = f"--mem-bind={words.kind}" + (f"; 0x{nodes:x}" if "mask" in words.kind else "")
        absent = (nodes & ~known).bit_length() - 1
        problem = f"NUMA node {absent} does not exist" if nodes else "a mask of no NUMA node"
        return MemoryPolicy(-1, near, f"{problem}; cannot bind local task {local} to it ({shown})")
    # Only one node can be preferred on kernels before 5.15: the first.
    return MemoryPolicy(_PREFERRED, nodes & -nodes) if prefers else MemoryPolicy(_BIND, nodes)


def memory_line(words: BindWords, node: str, task: int, local: int, policy: MemoryPolicy) -> str:
    """Return what --mem-bind=verbose says of a task; `\\1` stands for its process id."""
    kind = _NAMES[words.kind]
    name = f" PREFER {kind}" if "prefer" in words.flags else f"={kind}"
    end = " set" if policy.mode >= 0 else ""
    return f"mem-bind{name} - {node}, task {task:2} {local:2} [\1]: mask 0x{policy.nodes:x}{end}\n"


def memory_variables(words: BindWords) -> dict[str, str]:
    """Return SLURM_MEM_BIND and its parts."""
    variables = {
        "SLURM_MEM_BIND": words.text(),
        "SLURM_MEM_BIND_LIST": words.list_text,
        "SLURM_MEM_BIND_TYPE": words.kind_text,
        "SLURM_MEM_BIND_VERBOSE": words.loudness,
    }
    return variables | ({"SLURM_MEM_BIND_PREFER": "prefer"} if "prefer" in words.flags else {})
