"""Partitions of node sets, and of ALL nodes, follow the nodes and the features there are now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from pyslurm_ng.base import hostlist
from pyslurm_ng.conf.node_lines import NodeSetConf
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.partition import Partition


def with_members(
    conf: SlurmConf,
    partition: Partition,
    features: Mapping[int, Sequence[str]],
    node_ids: Mapping[str, int],
) -> Partition:
    """Return a partition with the nodes that ALL, and its node sets by features, mean now.

    Args:
        features: of each node there is, by node id.
        node_ids: by name.
    """
    sets = {nodeset.name: nodeset for nodeset in conf.nodesets}
    try:
        words = hostlist.expand(partition.nodes_text)
    except hostlist.HostlistError:
        return partition
    if not any(_follows(sets.get(word), word) for word in words):
        return partition
    members = members_of(conf, words, features, node_ids)
    return replace(partition, node_ids=tuple(sorted(members)))


def _follows(nodeset: NodeSetConf | None, word: str) -> bool:
    """Return whether a word of a partition's nodes may mean other nodes later."""
    if nodeset is None:
        return word.upper() == "ALL"
    return bool(nodeset.feature) or nodeset.nodes.upper() == "ALL"


def members_of(
    conf: SlurmConf,
    words: Sequence[str],
    features: Mapping[int, Sequence[str]],
    node_ids: Mapping[str, int],
) -> set[int]:
    """Return the nodes of a list of nodes and node sets; names of neither are left out.

    Args:
        features: of each node there is, by node id.
        node_ids: by name.
    """
    sets = {nodeset.name: nodeset for nodeset in conf.nodesets}
    members: set[int] = set()
    for word in words:
        nodeset = sets.get(word)
        if nodeset is not None and nodeset.feature:
            members |= {node for node, known in features.items() if nodeset.feature in known}
        listed = nodeset.nodes if nodeset is not None else word
        if listed.upper() == "ALL":
            members |= set(features)
        elif listed:
            members |= {node_ids[name] for name in hostlist.expand(listed) if name in node_ids}
    return members


def after_features(
    cluster: Cluster, conf: SlurmConf, changed: Mapping[int, Sequence[str]], now_us: int
) -> list[ev.PartitionUpdated]:
    """Return the partitions that get or lose nodes when the features of some nodes change."""
    features: dict[int, Sequence[str]] = {
        node.node_id: node.features for node in cluster.living_nodes()
    }
    features.update(changed)
    events = []
    for partition in cluster.partitions.values():
        updated = with_members(conf, partition, features, cluster.node_index.by_name)
        if updated.node_ids != partition.node_ids:
            events.append(ev.PartitionUpdated(time_us=now_us, partition=updated))
    return events
