"""Answers that follow from nodes and partitions alone, kept beside a Cluster until these change.

They are not part of the Cluster, because they can be computed again from it.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from pyslurm_ng.model.cluster import Cluster

_kept: WeakKeyDictionary[Cluster, tuple[int, dict[object, object]]] = WeakKeyDictionary()


def answers(cluster: Cluster) -> dict[object, object]:
    """Return what is kept for a cluster; it is empty after a change of its nodes or partitions.

    Callers may put answers in, under keys of their own, and may empty it. Only the thread that
    owns the cluster asks.
    """
    changes, kept = _kept.get(cluster, (-1, {}))
    if changes != cluster.node_changes:
        kept = {}
        _kept[cluster] = cluster.node_changes, kept
    return kept
