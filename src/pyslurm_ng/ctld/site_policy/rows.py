"""Partitions and reservations as scripts see them: plain maps with Slurm's names."""

from __future__ import annotations

from collections.abc import Sequence

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.numbers import MINUTE_US, SECOND_US
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.policy.constants import MEM_PER_CPU
from pyslurm_ng.policy.messages import Row

_STATES = {"UP": 3, "DOWN": 1, "DRAIN": 2, "INACTIVE": 0}
_SHARED_FORCE = 0x8000
_DEFAULT, _HIDDEN, _NO_ROOT, _ROOT_ONLY, _REQ_RESV, _LLN, _EXCLUSIVE_USER = (
    1 << bit for bit in range(7)
)

# As 22.05 gives them to scripts; it does not know the flags that are missing here.
_RESERVATION_FLAGS = {
    word: 1 << bit
    for word, bit in (
        ("MAINT", 0), ("DAILY", 2), ("WEEKLY", 4), ("IGNORE_JOBS", 6), ("ANY_NODES", 8),
        ("STATIC", 10), ("PART_NODES", 12), ("OVERLAP", 14), ("SPEC_NODES", 15),
        ("FIRST_CORES", 16), ("TIME_FLOAT", 17), ("REPLACE", 18), ("PURGE_COMP", 20),
        ("WEEKDAY", 21), ("WEEKEND", 23), ("FLEX", 25), ("NO_HOLD_JOBS_AFTER_END", 29),
        ("REPLACE_DOWN", 30), ("MAGNETIC", 32), ("HOURLY", 35),
    )
}  # fmt: skip


def partition_row(cluster: Cluster, partition: Partition) -> Row:
    """Return one partition."""
    nodes = [node for node_id in partition.node_ids if (node := cluster.nodes[node_id]) is not None]
    flags = (
        (_DEFAULT if partition.is_default else 0)
        | (_HIDDEN if partition.hidden else 0)
        | (_NO_ROOT if partition.disable_root_jobs else 0)
        | (_ROOT_ONLY if partition.root_only else 0)
        | (_REQ_RESV if partition.req_resv else 0)
        | (_LLN if partition.lln else 0)
        | (_EXCLUSIVE_USER if partition.exclusive == "USER" else 0)
    )
    return {
        "name": partition.name,
        "allow_accounts": _list(partition.allow_accounts),
        "allow_alloc_nodes": partition.alloc_nodes or None,
        "allow_groups": _list(partition.allow_groups),
        "allow_qos": _list(partition.allow_qos),
        "alternate": partition.alternate or None,
        "billing_weights_str": partition.tres_billing_weights or None,
        "default_time": partition.default_time_min,
        "def_mem_per_cpu": partition.def_mem_per_cpu_mib or None,
        "def_mem_per_node": _memory(partition.def_mem_per_cpu_mib, partition.def_mem_per_node_mib),
        "deny_accounts": _list(partition.deny_accounts),
        "deny_qos": _list(partition.deny_qos),
        "flag_default": int(partition.is_default),
        "flags": flags,
        "max_cpus_per_node": partition.max_cpus_per_node,
        "max_mem_per_cpu": partition.max_mem_per_cpu_mib or None,
        "max_mem_per_node": _memory(partition.max_mem_per_cpu_mib, partition.max_mem_per_node_mib),
        "max_nodes": partition.max_nodes,
        "max_nodes_orig": partition.max_nodes,
        "max_share": _share(partition),
        "max_time": partition.max_time_min,
        "min_nodes": partition.min_nodes,
        "min_nodes_orig": partition.min_nodes,
        "nodes": _names(cluster, partition.node_ids),
        "priority_job_factor": partition.priority_job_factor,
        "priority_tier": partition.priority_tier,
        "qos": partition.qos or None,
        "state_up": _STATES.get(partition.state, 0),
        "total_cpus": sum(node.spec.cpus for node in nodes),
        "total_nodes": len(nodes),
    }


def _names(cluster: Cluster, node_ids: Sequence[int]) -> str | None:
    return hostlist.fold([node.spec.name for node in cluster.nodes_of(node_ids)]) or None


def _list(names: tuple[str, ...]) -> str | None:
    return ",".join(names) or None


def _memory(per_cpu_mib: int, per_node_mib: int) -> int:
    return MEM_PER_CPU + per_cpu_mib if per_cpu_mib else per_node_mib


def _share(partition: Partition) -> int:
    word, _, count = partition.oversubscribe.partition(":")
    if word == "EXCLUSIVE":
        return 0
    share = int(count or 4) if word in ("YES", "FORCE") else 1
    return share | _SHARED_FORCE if word == "FORCE" else share


def reservation_row(cluster: Cluster, reservation: Reservation) -> Row:
    """Return one reservation."""
    return {
        "name": reservation.name,
        "accounts": _list(reservation.accounts),
        "assoc_list": None,
        "comment": reservation.comment or None,
        "end_time": reservation.end_us // SECOND_US,
        "features": reservation.features or None,
        "duration": (reservation.end_us - reservation.start_us) // MINUTE_US,
        "flags": sum(_RESERVATION_FLAGS.get(word, 0) for word in reservation.flags),
        "full_nodes": not reservation.core_masks,
        "groups": _list(reservation.groups),
        "licenses": reservation.licenses or None,
        "node_cnt": len(reservation.node_ids),
        "node_list": _names(cluster, reservation.node_ids),
        "partition": reservation.partition or None,
        "qos": _list(reservation.qos),
        "start_time": reservation.start_us // SECOND_US,
        "tres_str": reservation.tres or None,
        "users": _list(reservation.users),
    }
