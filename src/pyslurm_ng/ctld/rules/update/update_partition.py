"""`scontrol create|update|delete partition`."""

from __future__ import annotations

from typing import Any

import msgspec

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import INFINITE, NO_VAL
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.tables.keys import PARTITION
from pyslurm_ng.conf.values import BadValue, convert
from pyslurm_ng.ctld.rules.cluster_values import (
    MEMORY_FIELDS,
    MEMORY_GROUPS,
    MODEL_FIELDS,
    with_cluster_values,
)
from pyslurm_ng.ctld.rules.configure import billing_rule
from pyslurm_ng.ctld.rules.context import Context, Decision
from pyslurm_ng.ctld.rules.feature_nodes import members_of
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.sched.limits.relative import owner_of
from pyslurm_ng.wire.query_messages import DeletePartition, UpdatePartition

_KEYS = {key.name.lower(): key for key in PARTITION}
_KEYS["shared"] = _KEYS["oversubscribe"]

# Configuration attribute -> model field, where the names differ.
_FIELDS = {
    "default": "is_default",
    "max_time": "max_time_min",
    "default_time": "default_time_min",
    **MODEL_FIELDS,
    "over_subscribe": "oversubscribe",
    "over_time_limit": "over_time_limit_min",
    "grace_time": "grace_time_s",
    "resume_timeout": "resume_timeout_s",
    "suspend_time": "suspend_time_s",
    "suspend_timeout": "suspend_timeout_s",
}
_JOINED = ("preempt_mode", "select_type_parameters")


def update_partition(
    cluster: Cluster, request: UpdatePartition, context: Context
) -> Decision | Reject:
    """Create or change a partition."""
    if not context.caller.is_admin:
        return Reject(Errno.ESLURM_USER_ID_MISSING)
    current = cluster.partitions.get(request.name)
    if request.create:
        if current is not None:
            return Reject(Errno.ESLURM_INVALID_PARTITION_NAME)
        if not request.name or "," in request.name or request.name.upper() == "DEFAULT":
            return Reject(Errno.ESLURM_INVALID_PARTITION_NAME)
        current = Partition(
            name=request.name,
            min_nodes=1,
            billing_rule=billing_rule(context.conf),
            disable_root_jobs=context.conf.disable_root_jobs,
        )
        current = with_cluster_values(current, context.conf, tuple(MODEL_FIELDS.values()))
    elif current is None:
        return Reject(Errno.ESLURM_INVALID_PARTITION_NAME)
    changed = changed_partition(cluster, context.conf, current, request.settings)
    if isinstance(changed, Reject):
        return changed
    return Decision(events=[ev.PartitionUpdated(time_us=context.now_us, partition=changed)])


def changed_partition(
    cluster: Cluster, conf: SlurmConf, current: Partition, settings: dict[str, str]
) -> Partition | Reject:
    """Return a partition with settings as slurm.conf writes them, or what is wrong with one."""
    fields: dict[str, Any] = {}
    for name, value in settings.items():
        key = _KEYS.get(name.lower())
        if key is None or name.lower() == "partitionname":
            return Reject(Errno.ESLURM_NOT_SUPPORTED, name)
        if key.attribute == "nodes":
            nodes = _nodes(cluster, conf, current, value)
            if isinstance(nodes, Reject):
                return nodes
            fields |= nodes
            continue
        if key.attribute == "cpu_bind" and not value:
            fields["cpu_bind"] = ""  # CpuBind=off
            continue
        try:
            converted = convert(key, value)
        except BadValue as problem:
            return Reject(Errno.ESLURM_NOT_SUPPORTED, f"{key.name}: {problem}")
        _take(fields, key.attribute, converted)
    low = fields.get("min_nodes", current.min_nodes)
    if low > fields.get("max_nodes", current.max_nodes):
        return Reject(Errno.ESLURM_INVALID_NODE_COUNT)
    network = fields.get("topology", "")
    if network and network not in {topology.name for topology in cluster.topologies}:
        detail = f"Topology: there is no {network}"
        return Reject(Errno.ESLURM_REQUESTED_TOPO_CONFIG_UNAVAILABLE, detail)
    name = fields.get("qos", "")
    if name and cluster.qos and name not in cluster.qos:
        return Reject(Errno.ESLURM_INVALID_QOS)
    qos = cluster.qos.get(name)
    owner = owner_of(cluster, qos.name) if qos is not None and "Relative" in qos.flags else None
    if owner is not None and owner.name != current.name:
        detail = f"QOS {owner.qos} is relative to partition {owner.name}; no other one can have it"
        return Reject(Errno.ESLURM_INVALID_QOS, detail)
    changed = msgspec.structs.replace(current, **fields)
    return with_cluster_values(changed, conf, _inherited(current, fields, settings))


def _inherited(
    current: Partition, fields: dict[str, Any], settings: dict[str, str]
) -> tuple[str, ...]:
    """Return the fields that the cluster's keys give a partition after a change of others.

    No memory per node, `DefMemPerNode=0`, is the word for the cluster's default.
    """
    named = {name.lower() for name in settings}
    names = {name for name in current.inherited if name not in fields}
    for key, group in zip(("defmempernode", "maxmempernode"), MEMORY_GROUPS, strict=True):
        if key in named and not any(fields[name] for name in group):
            names.update(group)
    return tuple(name for name in MODEL_FIELDS.values() if name in names)


def _take(fields: dict[str, Any], attribute: str, value: Any) -> None:
    name = _FIELDS.get(attribute, attribute)
    if (attribute, str(value).upper()) in (("alloc_nodes", "ALL"), ("alternate", "NONE")):
        value = ""
    if attribute in _JOINED:
        value = ",".join(value)
    elif attribute == "over_subscribe" and value == "EXCLUSIVE":
        fields["oversubscribe"], fields["exclusive"] = "NO", "NODE"
        return
    elif attribute in ("exclusive_user", "exclusive_topo"):
        fields["exclusive"] = attribute.partition("_")[2].upper() if value else "NO"
        return
    if name in MEMORY_FIELDS and value in (NO_VAL, INFINITE):
        value = 0
    for group in MEMORY_GROUPS:
        if name in group:
            fields |= dict.fromkeys(group, 0)
    fields[name] = value


def _nodes(
    cluster: Cluster, conf: SlurmConf, current: Partition, value: str
) -> dict[str, Any] | Reject:
    """Read `Nodes=`: nodes and node sets, ALL, or with a leading + or - an edit of what there is.

    A partition that is told node sets keeps their names, and follows the features of nodes.
    """
    sets = {nodeset.name for nodeset in conf.nodesets}
    shown = ""
    sign = value[:1] if value[:1] in "+-" else ""
    text = value[len(sign) :]
    if text.upper() == "ALL":
        ids = [node.node_id for node in cluster.living_nodes()]
        shown = "" if sign else "ALL"
    else:
        try:
            names = hostlist.expand_unique(text) if text else []
        except hostlist.HostlistError:
            return Reject(Errno.ESLURM_INVALID_NODE_NAME)
        by_name = cluster.node_index.by_name
        unknown = next((name for name in names if name not in by_name and name not in sets), "")
        if unknown:
            return Reject(Errno.ESLURM_INVALID_NODE_NAME)
        features = {node.node_id: node.features for node in cluster.living_nodes()}
        ids = sorted(members_of(conf, names, features, by_name))
        shown = "" if sign or sets.isdisjoint(names) else hostlist.fold(names)
    if sign == "+":
        ids = [*current.node_ids, *ids]
    elif sign == "-":
        gone = set(ids)
        ids = [node_id for node_id in current.node_ids if node_id not in gone]
    members = tuple(sorted(set(ids)))
    shown = shown or hostlist.fold(cluster.node_names(members))
    return {"node_ids": members, "nodes_text": shown}


def delete_partition(
    cluster: Cluster, request: DeletePartition, context: Context
) -> Decision | Reject:
    """Delete a partition unless a job still waits or runs there."""
    if not context.caller.is_admin:
        return Reject(Errno.ESLURM_USER_ID_MISSING)
    if request.name not in cluster.partitions:
        return Reject(Errno.ESLURM_INVALID_PARTITION_NAME)
    for index in (cluster.job_index.pending, cluster.job_index.active):
        for job_id in index:
            if request.name in cluster.jobs[job_id].partition.split(","):
                return Reject(Errno.ESLURM_PARTITION_IN_USE)
    return Decision(events=[ev.PartitionDeleted(time_us=context.now_us, name=request.name)])
