"""`slurmd -F`: a host that becomes one of the nodes that slurm.conf has with State=FUTURE.

A node keeps its host over restarts of both daemons, until it is set to FUTURE again: then it has
the address of slurm.conf, and another host may become it.
"""

from __future__ import annotations

from msgspec.structs import replace

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.values import has_option
from pyslurm_ng.ctld.rules.context import Context, Decision
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.node import Node, NodeSpec
from pyslurm_ng.model.states import NodeFlag, NodeState
from pyslurm_ng.wire.future_node_messages import FutureNode, TakeFutureNode


def take_future_node(
    cluster: Cluster, request: TakeFutureNode, context: Context
) -> Decision | Reject:
    """Give a host the node that it was before, or the first FUTURE one with its hardware."""
    if not context.caller.is_admin:
        return Reject(Errno.ESLURM_USER_ID_MISSING)
    taken = (node for node in cluster.living_nodes() if _is_of(node, request.hostname))
    free = (node for node in cluster.living_nodes() if _fits(node, request, context.conf))
    node = next(taken, None) or next(free, None)
    if node is None:
        what = f" with feature {request.feature}" if request.feature else ""
        hardware = (
            f"Sockets={request.sockets} CoresPerSocket={request.cores_per_socket} "
            f"ThreadsPerCore={request.threads_per_core}"
        )
        text = f"no FUTURE node{what} of slurm.conf has the hardware {hardware}"
        return Reject(Errno.ESLURM_INVALID_NODE_NAME, text)
    spec = replace(node.spec, hostname=request.hostname, addr=request.address)
    fields: dict[str, object] = {
        "spec": spec,
        "flags": int(node.flags | NodeFlag.DYNAMIC_FUTURE),
    }
    events: list[ev.AnyEvent] = []
    if spec != node.spec or not node.flags & NodeFlag.DYNAMIC_FUTURE:
        events.append(ev.NodeUpdated(context.now_us, (node.node_id,), fields))
    return Decision(events, FutureNode(node.spec.name))


def _is_of(node: Node, hostname: str) -> bool:
    return bool(node.flags & NodeFlag.DYNAMIC_FUTURE) and node.spec.hostname == hostname


def _fits(node: Node, request: TakeFutureNode, conf: SlurmConf) -> bool:
    """Return whether a node is free and described as the host is.

    Where nodes pretend to have what slurm.conf says, the feature alone decides.
    """
    if node.state != NodeState.FUTURE or node.flags & NodeFlag.DYNAMIC_FUTURE:
        return False
    if request.feature and request.feature not in node.features:
        return False
    if has_option(conf.slurmd_parameters, "config_overrides"):
        return True
    spec = node.spec
    return (spec.sockets, spec.cores_per_socket, spec.threads_per_core) == (
        request.sockets, request.cores_per_socket, request.threads_per_core,
    )  # fmt: skip


def without_host(node: Node, conf: SlurmConf) -> NodeSpec:
    """Return a node as slurm.conf describes it, for another host to become it."""
    if not node.flags & NodeFlag.DYNAMIC_FUTURE:
        return node.spec
    for line in conf.nodes:
        if line.name == node.spec.name:
            return replace(node.spec, hostname=line.hostname, addr=line.address)
    return node.spec
