"""What a credential says of a step. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import NodeAlloc, Step
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.step_messages import CreateStep, StepGranted


@dataclass(frozen=True, slots=True)
class StepShare:
    """What a credential says of a step.

    allocs: what the step holds on each of its nodes; tasks: the global task ids on each of them.
    """

    step_id: int
    name: str
    allocs: tuple[NodeAlloc, ...]
    tasks: Sequence[Sequence[int]]
    flags: int = 0
    cpus_per_task: int = 0
    distribution: str = ""
    gpus_per_task: int = 0
    tres_bind: str = ""
    ports: tuple[int, ...] = ()


def share_of(step: Step, granted: StepGranted, request: CreateStep) -> StepShare:
    """Return what the credential of a step that was granted says."""
    return StepShare(
        step_id=step.step_id,
        name=step.name,
        allocs=step.nodes,
        tasks=granted.tasks,
        flags=step.flags,
        cpus_per_task=granted.cpus_per_task,
        distribution=granted.distribution,
        gpus_per_task=granted.gpus_per_task,
        tres_bind=request.tres_bind,
        ports=step.ports,
    )


def for_step(cluster: Cluster, credential: nm.JobCredential, share: StepShare) -> nm.JobCredential:
    """Return the permission to start another step of a job than its script."""
    return replace(
        credential,
        step_id=share.step_id,
        step_nodes=node_names(cluster, share.allocs),
        step_allocs=share.allocs,
        step_tasks=tuple(tuple(tasks) for tasks in share.tasks),
        step_name=share.name,
        step_flags=share.flags,
        step_cpus_per_task=share.cpus_per_task,
        step_distribution=share.distribution,
        step_gpus_per_task=share.gpus_per_task,
        step_tres_bind=share.tres_bind,
        step_ports=share.ports,
    )


def node_names(cluster: Cluster, allocs: Sequence[NodeAlloc]) -> tuple[str, ...]:
    """Return the names of the nodes of allocations."""
    return tuple(cluster.node(alloc.node_id).spec.name for alloc in allocs)
