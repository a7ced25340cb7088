"""A free node with devices."""

from __future__ import annotations

from pyslurm_ng.model.node import NodeGres, NodeSpec
from pyslurm_ng.sched.cons_tres.free_node import FreeNode, empty_node

# Two sockets of 8 cores; GPUs 0 and 1 are near the first, 2 and 3 near the second. 0-2 and 1-3 are
# joined by four links, all others by one.
LEFT, RIGHT = b"\xff", b"\x00\xff"

GPUS = NodeGres("gpu", "", 4, cores=(LEFT, LEFT, RIGHT, RIGHT))


def node(gres: NodeGres, busy_cores: int = 0, busy_gpus: int = 0) -> FreeNode:
    spec = NodeSpec("g", cpus=16, sockets=2, cores_per_socket=8, gres=(gres,))
    free = empty_node(0, spec)
    free.cores &= ~busy_cores
    free.gres_busy["gpu:"] = busy_gpus
    return free
