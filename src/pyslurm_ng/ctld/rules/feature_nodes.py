"""Partitions whose nodes are those with a feature follow the features that nodes have now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from pyslurm_ng.base import hostlist
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
    """Return a partition with the nodes that its node sets have by some nodes' features.

    Args:
        features: of each node there is, by node id.
        node_ids: by name.
    """
    sets = {nodeset.name: nodeset for nodeset in conf.nodesets}
    try:
        words = hostlist.expand(partition.nodes_text)
    except hostlist.HostlistError:
        return partition
    if not any(word in sets and sets[word].feature for word in words):
        return partition
    members = members_of(conf, words, features, node_ids)
    return replace(partition, node_ids=tuple(sorted(members)))


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
