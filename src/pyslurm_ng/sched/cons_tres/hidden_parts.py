"""Hides the parts of a node that reservations keep from a job, while nodes are chosen for it."""

from __future__ import annotations

from typing import NamedTuple

from pyslurm_ng.model.reservation import NodePart
from pyslurm_ng.sched.cons_tres.free_node import FreeNode


class Hidden(NamedTuple):
    """Free cores and devices of a node that were taken out."""

    node: FreeNode
    part: NodePart

    def show(self) -> None:
        """Put them back."""
        node = self.node
        node.cores |= self.part.cores
        for key, mask in self.part.devices.items():
            node.gres_busy[key] &= ~mask


def hide(node: FreeNode, own: NodePart, kept: NodePart) -> Hidden | None:
    """Take out what is free but not for a job; return None if there is nothing.

    Args:
        own: what the job is bound to; devices of kinds not in it are not bound.
        kept: the part that it may not have.
    """
    cores = node.cores & (~own.cores | kept.cores)
    devices: dict[str, int] = {}
    for gres in node.spec.gres:
        key = f"{gres.name}:{gres.type}"
        if key in own.devices or key in kept.devices:
            free = ((1 << gres.count) - 1) << gres.first_index & ~node.gres_busy.get(key, 0)
            free &= ~own.devices.get(key, -1) | kept.devices.get(key, 0)
            if free:
                devices[key] = devices.get(key, 0) | free
    if not cores and not devices:
        return None
    node.cores &= ~cores
    for key, mask in devices.items():
        node.gres_busy[key] = node.gres_busy.get(key, 0) | mask
    return Hidden(node, NodePart(cores, devices))
