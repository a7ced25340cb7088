"""ShowNodes and ShowPartitions."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.hostlist import expand, fold
from pyslurm_ng.base.numbers import INFINITE, NO_VAL, SHOW_ALL, SHOW_FUTURE
from pyslurm_ng.base.tres import format_tres
from pyslurm_ng.ctld.node_tenants import blocked_nodes, tenant_of_node
from pyslurm_ng.ctld.queries.job_fields import ids_of_mask
from pyslurm_ng.ctld.records import array_head, elements, record
from pyslurm_ng.ctld.rules.nodes.node_names import find_nodes
from pyslurm_ng.ctld.rules.private_data import Audience
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model import amounts
from pyslurm_ng.model.cluster import Cluster, node_state
from pyslurm_ng.model.node import (
    Node,
    NodeGres,
    effective_cpus,
    is_consumed,
    is_part,
    restricted_cores,
    spec_with_facts,
    topology_setting,
)
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.states import NodeState
from pyslurm_ng.wire.query_messages import Records, ShowNodes, ShowPartitions

if TYPE_CHECKING:
    from pyslurm_ng.conf.slurm_conf import SlurmConf
    from pyslurm_ng.ctld.rules.context import Caller

NODE_FIXED = (
    "name",
    "node_id",
    "state",
    "flags",
    "cpus",
    "cpus_effective",
    "cpus_alloc",
    "boards",
    "sockets",
    "cores",
    "threads",
    "memory_mib",
    "memory_alloc_mib",
    "tmp_disk_mib",
    "weight",
    "features",
    "active_features",
    "gres",
    "gres_used",
    "hostname",
    "address",
    "port",
    "arch",
    "os",
    "version",
    "reason",
    "reason_us",
    "reason_uid",
    "boot_us",
    "slurmd_start_us",
    "last_busy_us",
    "resume_after_us",
    "next_state",
    "partitions",
    "tres",
    "tres_alloc",
    "comment",
    "extra",
    "instance_id",
    "instance_type",
    "core_spec_count",
    "cpu_spec_list",
    "mem_spec_limit_mib",
    "topology",
    "owner_uid",
    "bcast_address",
    "registered_us",
    "gres_drain",
    "reservation",
    "restricted_cores",
    "mcs_label",
    "suspend_time_s",
    "cpu_bind",
)
NODE_SOFT = (
    "cpu_load_hundredths", "free_mem_mib", "last_seen_us", "watts", "mean_watts", "is_planned",
    "is_blocked",
)  # fmt: skip
NODE_FIELDS = [*NODE_FIXED, *NODE_SOFT]
ADDRESS_FIELDS = ["name", "address", "hostname", "port"]
_NODE_HEAD = array_head(len(NODE_FIELDS))
_NO_LOAD = (-1, -1, 0, 0, 0)

PARTITION_FIELDS = [
    "name",
    "is_default",
    "state",
    "nodes",
    "node_ids",
    "node_sets",
    "total_cpus",
    "total_nodes",
    "tres",
    "max_time_min",
    "default_time_min",
    "min_nodes",
    "max_nodes",
    "max_cpus_per_node",
    "max_cpus_per_socket",
    "def_mem_per_cpu_mib",
    "def_mem_per_node_mib",
    "max_mem_per_cpu_mib",
    "max_mem_per_node_mib",
    "allow_groups",
    "allow_accounts",
    "deny_accounts",
    "allow_qos",
    "deny_qos",
    "alloc_nodes",
    "alternate",
    "disable_root_jobs",
    "root_only",
    "req_resv",
    "hidden",
    "lln",
    "exclusive",
    "oversubscribe",
    "over_time_limit_min",
    "grace_time_s",
    "preempt_mode",
    "priority_tier",
    "priority_job_factor",
    "qos",
    "select_type_parameters",
    "tres_billing_weights",
    "job_defaults",
    "resume_timeout_s",
    "suspend_time_s",
    "suspend_timeout_s",
    "power_down_on_idle",
    "topology",
    "cpu_bind",
]


def show_nodes(
    cluster: Cluster,
    soft: Soft,
    conf: SlurmConf,
    request: ShowNodes,
    caller: Caller,
    now_us: int,
) -> Records | Reject:
    """Return node records in configuration order, or of the nodes named."""
    audience = Audience(cluster, conf, caller, show_all=bool(request.flags & SHOW_ALL))
    nodes = _asked_for(cluster, request, audience)
    if isinstance(nodes, Reject):
        return nodes
    nodes = _seen(cluster, audience, nodes)
    if request.addresses:
        fields, records = ADDRESS_FIELDS, b"".join(map(_address_record, nodes))
    else:
        fields, records = NODE_FIELDS, _node_records(cluster, soft, conf, nodes)
    return Records(
        now_us=now_us,
        fields=fields,
        records=records,
        cluster_name=cluster.cluster_name,
        last_update_us=cluster.time_us,
    )


def _asked_for(cluster: Cluster, request: ShowNodes, audience: Audience) -> list[Node] | Reject:
    """Return the nodes that a request is about and its caller may see.

    PrivateData=nodes hides all nodes, but owners of jobs get the addresses of the jobs' nodes:
    slurmd tells them about these jobs, as to Slurm's users, who read addresses in slurm.conf.
    """
    own = audience.nodes_of_own_jobs() if audience.nodes_private and request.addresses else None
    if request.nodes:
        nodes = find_nodes(cluster, request.nodes)
        if isinstance(nodes, Reject) or not audience.nodes_private:
            return nodes
        if own is None or any(node.node_id not in own for node in nodes):
            # As for a name that no node has.
            return Reject(Errno.ESLURM_INVALID_NODE_NAME, request.nodes)
        return nodes
    if audience.nodes_private:
        return [node for node in cluster.living_nodes() if own and node.node_id in own]
    is_wanted = request.flags & SHOW_FUTURE
    return [node for node in cluster.living_nodes() if is_wanted or node.state != NodeState.FUTURE]


def _seen(cluster: Cluster, audience: Audience, nodes: list[Node]) -> list[Node]:
    """Return the nodes that are not kept for an MCS label which the caller must not see."""
    if not audience.hides_labels:
        return nodes
    return [node for node in nodes if audience.sees_label(tenant_of_node(cluster, node)[1])]


def _address_record(node: Node) -> bytes:
    return record((node.spec.name, _address(node), _hostname(node), node.spec.port))


def _hostname(node: Node) -> str:
    return node.spec.hostname or node.spec.name


def _address(node: Node) -> str:
    return node.facts.addr or node.spec.addr or _hostname(node)


def _node_records(cluster: Cluster, soft: Soft, conf: SlurmConf, nodes: list[Node]) -> bytes:
    cache = soft.records.nodes
    planned = planned_nodes(soft)
    blocked = blocked_nodes(cluster, soft.records.keepers(cluster))
    partitions: dict[int, list[str]] | None = None
    tracked: tuple[str, ...] = ()
    parts: list[bytes] = []
    for node in nodes:
        fixed = cache.get(node.node_id)
        if fixed is None:
            if partitions is None:
                partitions, tracked = partitions_by_node(cluster), conf.tracked_tres()
            try:
                values = _node_values(cluster, node, partitions.get(node.node_id, []), tracked)
                fixed = cache[node.node_id] = _NODE_HEAD + elements(values)
            except Exception as error:  # noqa: BLE001 - all others are listed
                soft.spared(f"node {node.spec.name} is not listed", error)
                continue
        parts.append(fixed)
        load = soft.node_load.get(node.node_id)
        fresh = (
            _NO_LOAD
            if load is None
            else (
                load.cpu_load_hundredths,
                load.free_mem_mib,
                load.last_seen_us,
                load.watts,
                load.mean_watts,
            )
        )
        parts.append(elements((*fresh, node.node_id in planned, node.node_id in blocked)))
    return b"".join(parts)


def planned_nodes(soft: Soft) -> frozenset[int]:
    """Return the nodes that the last pass means for waiting jobs; counted once a pass."""
    cache = soft.records
    if cache.planned_generation != soft.plan_generation or not soft.plan_generation:
        cache.planned_nodes = soft.sched_nodes.all_nodes()
        cache.planned_generation = soft.plan_generation
    return cache.planned_nodes


def partitions_by_node(cluster: Cluster) -> dict[int, list[str]]:
    """Return the names of each node's partitions, in configuration order."""
    names: dict[int, list[str]] = {}
    for partition in cluster.partitions.values():
        for node_id in partition.node_ids:
            names.setdefault(node_id, []).append(partition.name)
    return names


def configured_tres(
    nodes: list[Node], tracked: tuple[str, ...], billing: Callable[[dict[str, int]], int]
) -> dict[str, int]:
    """Return what nodes have in all as TRES, node count not included.

    Args:
        billing: makes an amount of all the others.
    """
    total = {"cpu": 0, "mem": 0}
    totals: dict[str, int] = {}
    for node in nodes:
        total["cpu"] += node.spec.cpus
        total["mem"] += node.spec.real_memory_mib
        for gres in node.spec.gres:
            for name in sorted({f"gres/{gres.name}", _typed(gres.name, gres.type)}):
                totals[name] = totals.get(name, 0) + gres.count
    total["billing"] = billing({**total, **totals})
    total |= {name: totals[name] for name in tracked if name in totals}
    return total


def _typed(name: str, kind: str) -> str:
    return f"gres/{name}:{kind}" if kind else f"gres/{name}"


def _restricted_shown(node: Node) -> str:
    """Return RestrictedCoresPerGPU with the cores it means: `2(0-3,6-9)`."""
    mask = restricted_cores(spec_with_facts(node))
    cores = ids_of_mask(mask.to_bytes((mask.bit_length() + 7) // 8, "little"))
    return f"{node.spec.restricted_cores_per_gpu}({cores})"


def _gres_shown(node: Node) -> str:
    """Return Gres as configured, with the sockets that devices are near: `gpu:tesla:2(S:0-1)`."""
    spec = spec_with_facts(node)
    if not any(gres.cores for gres in spec.gres):
        return spec.gres_text
    return _with_sockets(spec.gres_text, spec.gres, max(1, spec.cores_per_socket))


@lru_cache(maxsize=256)
def _with_sockets(text: str, resources: tuple[NodeGres, ...], per_socket: int) -> str:
    words = []
    for word, gres in zip(text.split(","), resources, strict=False):
        sockets = 0
        for cores in gres.cores:
            mask = int.from_bytes(cores, "little")
            for core in range(mask.bit_length()):
                if mask >> core & 1:
                    sockets |= 1 << (core // per_socket)
        size = (sockets.bit_length() + 7) // 8
        shown = ids_of_mask(sockets.to_bytes(size, "little"))
        words.append(f"{word}(S:{shown})" if shown and "(" not in word else word)
    return ",".join(words)


def gres_used_text(cluster: Cluster, node: Node) -> str:
    """Return GresUsed: `gpu:a100:2(IDX:0-1)`, `gpu:(null):0(IDX:N/A)`, `gpu:1`, `r1:1`.

    As in Slurm, devices without a type have their numbers here only if they are near some cores.
    """
    use = cluster.node_index.use[node.node_id]
    words = []
    for gres in spec_with_facts(node).gres:
        key = f"{gres.name}:{gres.type}"
        count = use.gres_count.get(key, 0) if is_consumed(gres) else 0
        has_numbers = bool(gres.type or any(gres.cores))
        name = f"{gres.name}:{gres.type or '(null)'}" if has_numbers else gres.name
        mask = use.gres.get(key, 0)
        text = f"{name}:{count}"
        if is_part(gres.name):
            shares = (
                f"{use.gres_count.get(f'{key}:{number}', 0)}/{whole}"
                for number, whole in enumerate(gres.parts)
                if whole
            )
            text += f"({','.join(shares)})"
        elif has_numbers and (gres.name == "gpu" or gres.files or mask):
            size = (mask.bit_length() + 7) // 8
            text += f"(IDX:{ids_of_mask(mask.to_bytes(size, 'little')) or 'N/A'})"
        words.append(text)
    return ",".join(words)


def _node_values(
    cluster: Cluster, node: Node, partitions: list[str], tracked: tuple[str, ...]
) -> tuple[object, ...]:
    spec, facts = node.spec, node.facts
    base, flags = node_state(cluster, node)
    use = cluster.node_index.use[node.node_id]
    allocated = amounts.allocated_tres(use.allocs.values(), tracked, None) if use.allocs else {}
    owner_uid, mcs_label = tenant_of_node(cluster, node)
    allocated.pop("node", None)
    terms = [cluster.partitions[name].billing_terms for name in partitions]
    configured = configured_tres([node], tracked, lambda has: amounts.billing_of_node(has, terms))
    if allocated:
        allocated["cpu"] = use.cpus
    values = (
        spec.name,
        node.node_id,
        int(base),
        int(flags),
        spec.cpus,
        effective_cpus(spec),
        use.cpus,
        spec.boards,
        spec.sockets,
        spec.cores_per_socket,
        spec.threads_per_core,
        spec.real_memory_mib,
        use.mem_mib,
        spec.tmp_disk_mib,
        node.weight,
        ",".join(node.features),
        ",".join(node.features_active),
        _gres_shown(node),
        gres_used_text(cluster, node),
        _hostname(node),
        _address(node),
        spec.port,
        facts.arch,
        facts.os,
        facts.version,
        node.reason,
        node.reason_us,
        node.reason_uid,
        facts.boot_us,
        facts.daemon_start_us,
        node.last_busy_us,
        node.resume_after_us,
        node.next_state,
        partitions,
        format_tres(configured),
        format_tres(allocated),
        node.comment,
        node.extra,
        node.instance_id,
        node.instance_type,
        spec.core_spec_count,
        spec.cpu_spec_list,
        spec.mem_spec_limit_mib,
        topology_setting(node),
        owner_uid,
        spec.bcast_addr if spec.bcast_addr != spec.addr else "",
        node.registered_us,
        "",
        cluster.node_index.reserved.get(node.node_id, ""),
        _restricted_shown(node) if spec.restricted_cores_per_gpu else "",
        mcs_label,
        INFINITE if spec.suspend_time_s == NO_VAL else spec.suspend_time_s,
        spec.cpu_bind,
    )
    assert len(values) == len(NODE_FIXED)
    return values


def show_partitions(
    cluster: Cluster,
    soft: Soft,
    conf: SlurmConf,
    request: ShowPartitions,
    caller: Caller,
    now_us: int,
) -> Records | Reject:
    """Return partition records, and with them the nodes' for sinfo."""
    audience = Audience(cluster, conf, caller, show_all=bool(request.flags & SHOW_ALL))
    tracked, cluster_mode = conf.tracked_tres(), ",".join(conf.preempt_mode)
    sets = frozenset(nodeset.name for nodeset in conf.nodesets)
    kept = soft.records.partitions
    records = []
    for partition in cluster.partitions.values():
        if not audience.sees_partition(partition):
            continue
        packed = kept.get(partition.name)
        if packed is None:
            try:
                values = _partition_values(cluster, partition, sets, tracked, cluster_mode)
                packed = kept[partition.name] = array_head(len(PARTITION_FIELDS)) + elements(values)
            except Exception as error:  # noqa: BLE001 - all others are listed
                soft.spared(f"partition {partition.name} is not listed", error)
                continue
        records.append(packed)
    nodes: list[Node] = []
    if request.with_nodes and not audience.nodes_private:
        nodes = [
            node
            for node in cluster.living_nodes()
            if request.flags & SHOW_FUTURE or node.state != NodeState.FUTURE
        ]
        nodes = _seen(cluster, audience, nodes)
    return Records(
        now_us=now_us,
        fields=PARTITION_FIELDS,
        records=b"".join(records),
        cluster_name=cluster.cluster_name,
        more_fields=NODE_FIELDS if request.with_nodes else [],
        more_records=_node_records(cluster, soft, conf, nodes) if nodes else b"",
        last_update_us=cluster.time_us,
    )


def _job_defaults(partition: Partition) -> str:
    fields = {"DefCpuPerGPU": "def_cpus_per_gpu", "DefMemPerGPU": "def_mem_per_gpu_mib"}
    own = {word: name for word, name in fields.items() if name not in partition.inherited}
    amounts = {word: getattr(partition, name) for word, name in own.items()}
    return ",".join(f"{word}={amount}" for word, amount in amounts.items() if amount)


def _partition_values(
    cluster: Cluster,
    partition: Partition,
    sets: frozenset[str],
    tracked: tuple[str, ...],
    cluster_mode: str,
) -> tuple[object, ...]:
    node_sets = [word for word in expand(partition.nodes_text) if word in sets] if sets else []
    ids = sorted(partition.node_ids)
    nodes = [node for node_id in ids if (node := cluster.nodes[node_id]) is not None]
    count = {"node": len(nodes)}
    terms = partition.billing_terms
    total = configured_tres(nodes, tracked, lambda has: amounts.billing(has | count, terms))
    total |= count
    # As in Slurm: licences belong to no partition, so each shows all that are counted.
    total |= {f"license/{name}": count for name, count in cluster.licenses.items()}
    total = {name: total[name] for name in tracked if name in total}
    own: dict[str, object] = {
        **dict.fromkeys(partition.inherited, 0),
        # ALL, node sets and names out of order are shown as the nodes that they are.
        "nodes": fold([node.spec.name for node in nodes]),
        "node_sets": ",".join(node_sets),
        "node_ids": list(partition.node_ids),
        "total_cpus": total["cpu"],
        "total_nodes": len(nodes),
        "tres": format_tres(total),
        "job_defaults": _job_defaults(partition),
        # Empty for the cluster's own, which every partition that names none has been given.
        "preempt_mode": "" if partition.preempt_mode == cluster_mode else partition.preempt_mode,
    }
    return tuple(
        own[name] if name in own else getattr(partition, name) for name in PARTITION_FIELDS
    )
