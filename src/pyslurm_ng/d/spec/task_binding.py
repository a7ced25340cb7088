"""The CPUs and the memory of a step's tasks here, and what the tasks are told of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyslurm_ng.base.bind_words import BindWords
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.d.host.binding import (
    CpuIds,
    HostCores,
    TaskNeeds,
    bind_line,
    bind_tasks,
    bind_variables,
    cpu_mask,
)
from pyslurm_ng.d.host.memory_binding import memory_line, memory_policy, memory_variables

if TYPE_CHECKING:
    from pyslurm_ng.d.spool.step_contract import Binding

_KINDS = {"socket": "sockets", "core": "cores", "thread": "threads", "ldom": "ldoms"}


@dataclass(frozen=True, slots=True)
class StepBinding:
    """What is wanted for all tasks of a step on this node.

    cores: mask of abstract cores that the step holds here.
    needs: what the tasks need; their number is filled in when they are bound.
    is_verbose: TaskPluginParam=Verbose: as if every step said so.
    is_used: TaskPlugin=task/affinity; without it nothing is bound.
    """

    cores: int
    cpu_words: BindWords
    mem_words: BindWords
    needs: TaskNeeds
    is_verbose: bool = False
    is_used: bool = True


@dataclass(frozen=True, slots=True)
class Bound:
    """For each local task what its supervisor needs, and the variables of them all."""

    tasks: list[Binding]
    variables: dict[str, str]


def configured_kind(conf: SlurmConf, bind_kind: str) -> tuple[str, str, bool]:
    """Return the kind to bind to by default, the one of Autobind, and whether to tell of it.

    CpuBind of nodes or partitions, which slurmctld knows, goes before TaskPluginParam.
    """
    words = [word.lower() for word in conf.task_plugin_param]
    kinds = [bind_kind]
    kinds += [word for word in words if word in ("none", "sockets", "cores", "threads")]
    kind = next((kind.lower() for kind in kinds if kind), "")
    automatic = [word.partition("=")[2] for word in words if word.startswith("autobind=")]
    fallback = automatic[-1] if automatic else ""
    return _KINDS.get(kind, kind), fallback, "verbose" in words


def unbound(cpus: CpuIds = ()) -> Binding:
    """Return what a supervisor needs for a task that is bound to `cpus` and nothing else."""
    return {
        "cpus": cpu_mask(cpus) if cpus else b"",
        "memory_mode": -1,
        "memory_nodes": b"",
        "report": "",
        "problem": "",
    }


def bind_step(
    host: HostCores, node_name: str, task_ids: Sequence[int], binding: StepBinding
) -> Bound:
    """Bind the tasks of a step.

    Raises:
        BindError: a --cpu-bind that cannot be kept.
    """
    if not binding.is_used:
        # As with Slurm's task plugins nothing is bound then; srun's options stay readable.
        return Bound([unbound() for _ in task_ids], {})
    words, memory = binding.cpu_words, binding.mem_words
    needs = replace(binding.needs, tasks=len(task_ids))
    masks = bind_tasks(host, binding.cores, words, needs)
    tasks: list[Binding] = []
    for local, task_id in enumerate(task_ids):
        policy = memory_policy(host, memory, local, masks[local])
        report = ""
        if words.is_verbose or binding.is_verbose:
            report += bind_line(words, node_name, task_id, local, masks[local])
        if memory.is_verbose:
            report += memory_line(memory, node_name, task_id, local, policy)
        nodes = b"" if policy.mode < 0 or memory.kind == "local" else _node_mask(policy.nodes)
        tasks.append(
            {
                "cpus": unbound(masks[local])["cpus"],
                "memory_mode": policy.mode,
                "memory_nodes": nodes,
                "report": report,
                "problem": policy.problem,
            }
        )
    variables = bind_variables(host, words, masks) if words.kind or any(masks) else {}
    if memory.kind or memory.is_verbose:
        variables |= memory_variables(memory)
    return Bound(tasks, variables)


def _node_mask(nodes: int) -> bytes:
    """Return the kernel's form of a set of NUMA nodes: whole words."""
    return nodes.to_bytes((nodes.bit_length() // 64 + 1) * 8, "little")
