"""What single nodes have left to give."""

from __future__ import annotations

from dataclasses import dataclass

from pyslurm_ng.model.gres_parts import free_whole
from pyslurm_ng.model.node import NodeSpec, is_consumed, is_indexed, schedulable_mem_mib
from pyslurm_ng.sched.cons_tres.cores import usable_cores
from pyslurm_ng.sched.frame.snapshot import Snapshot

MANY = 1 << 30  # more tasks or devices than any node could have


@dataclass(slots=True)
class FreeNode:
    """What one node still has to give; masks have a bit per core or device."""

    node_id: int
    spec: NodeSpec
    cores: int
    mem_mib: int
    gres_busy: dict[str, int]
    gres_used: dict[str, int]
    weight: int = 1
    is_idle: bool = True
    features: tuple[str, ...] = ()
    partition_cores: dict[str, int] | None = None  # in use, of partitions with a limit on them
    most_gpus: int = MANY  # that a whole job's may be of it: the others are promised
    kept_gpus: int = 0  # mask of those that must not be shared: they are promised whole

    def cpus(self) -> int:
        """Return the free CPUs: all threads of the free cores."""
        return self.cores.bit_count() * self.spec.threads_per_core


def empty_node(node_id: int, spec: NodeSpec) -> FreeNode:
    """Return a node as it is when nothing runs on it."""
    return FreeNode(node_id, spec, usable_cores(spec), schedulable_mem_mib(spec), {}, {})


def free_node(snapshot: Snapshot, node_id: int) -> FreeNode:
    """Return what a node has left in a snapshot."""
    spec = snapshot.specs[node_id]
    assert spec is not None, node_id
    return FreeNode(
        node_id=node_id,
        spec=spec,
        cores=usable_cores(spec) & ~snapshot.cores_busy[node_id],
        mem_mib=snapshot.mem_free_mib[node_id],
        gres_busy=dict(snapshot.gres_busy[node_id]),
        gres_used=dict(snapshot.gres_used[node_id]),
        weight=snapshot.weights[node_id],
        is_idle=not snapshot.in_use[node_id],
        features=snapshot.features[node_id],
    )


def free_devices(node: FreeNode, name: str, kind: str) -> list[tuple[str, int, int]]:
    """Return (type, free count, free device mask) for each matching resource of a node."""
    free = []
    for gres in node.spec.gres:
        if gres.name != name or (kind and gres.type != kind):
            continue
        if is_indexed(gres):
            mask = free_whole(gres, node.gres_busy)
            free.append((gres.type, mask.bit_count(), mask))
        elif is_consumed(gres):
            free.append(
                (gres.type, gres.count - node.gres_used.get(f"{gres.name}:{gres.type}", 0), 0)
            )
        else:
            free.append((gres.type, gres.count, 0))
    return free
