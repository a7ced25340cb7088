"""Nodes by the names that a request gives."""

from __future__ import annotations

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.node import Node


def find_nodes(cluster: Cluster, text: str) -> list[Node] | Reject:
    """Return the nodes a list or ALL names, or why there are none."""
    listed = find_known_nodes(cluster, text)
    if isinstance(listed, Reject):
        return listed
    nodes, unknown = listed
    return Reject(Errno.ESLURM_INVALID_NODE_NAME, unknown[0]) if unknown else nodes


def find_known_nodes(cluster: Cluster, text: str) -> tuple[list[Node], list[str]] | Reject:
    """Return the nodes a list or ALL names, one at least, and the names of no node."""
    if text.upper() == "ALL":
        return cluster.living_nodes(), []
    try:
        names = hostlist.expand_unique(text)
    except hostlist.HostlistError:
        return Reject(Errno.ESLURM_INVALID_NODE_NAME, text)
    by_name = cluster.node_index.by_name
    nodes = [cluster.node(by_name[name]) for name in names if name in by_name]
    unknown = [name for name in names if name not in by_name]
    if not nodes:
        return Reject(Errno.ESLURM_INVALID_NODE_NAME, unknown[0] if unknown else text)
    return nodes, unknown
