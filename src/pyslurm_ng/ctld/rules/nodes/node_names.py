"""Nodes by the names that a request gives."""

from __future__ import annotations

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.node import Node


def find_nodes(cluster: Cluster, text: str) -> list[Node] | Reject:
    """Return the nodes a list or ALL names, or why there are none."""
    if text.upper() == "ALL":
        return cluster.living_nodes()
    try:
        names = hostlist.expand_unique(text)
    except hostlist.HostlistError:
        return Reject(Errno.ESLURM_INVALID_NODE_NAME, text)
    nodes = []
    for name in names:
        node_id = cluster.node_index.by_name.get(name)
        if node_id is None:
            return Reject(Errno.ESLURM_INVALID_NODE_NAME, name)
        nodes.append(cluster.node(node_id))
    if not nodes:
        return Reject(Errno.ESLURM_INVALID_NODE_NAME, text)
    return nodes
