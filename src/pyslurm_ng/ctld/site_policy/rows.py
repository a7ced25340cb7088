"""Partitions, jobs and reservations as scripts see them: plain maps with Slurm's names."""

from __future__ import annotations

from typing import Any

import msgspec

from pyslurm_ng.base import hostlist
from pyslurm_ng.base.numbers import NO_VAL, SECOND_US
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.kept_request import whole_request
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.policy.constants import MEM_PER_CPU
from pyslurm_ng.policy.job_fields import FIELDS
from pyslurm_ng.policy.messages import Row

_STATES = {"UP": 3, "DOWN": 1, "DRAIN": 2, "INACTIVE": 0}
_SHARED_FORCE = 0x8000
_DEFAULT, _HIDDEN, _NO_ROOT, _ROOT_ONLY, _REQ_RESV, _LLN, _EXCLUSIVE_USER = (
    1 << bit for bit in range(7)
)


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
        "nodes": partition.nodes_text or hostlist.fold([node.spec.name for node in nodes]),
        "priority_job_factor": partition.priority_job_factor,
        "priority_tier": partition.priority_tier,
        "qos": partition.qos or None,
        "state_up": _STATES.get(partition.state, 0),
        "total_cpus": sum(node.spec.cpus for node in nodes),
        "total_nodes": len(nodes),
    }


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


def job_row(job: Job) -> Row:
    """Return what scripts see of a job in a listing."""
    return {
        "job_id": job.job_id,
        "array_job_id": job.array_job_id,
        "array_task_id": job.array_task_id,
        "name": job.request.name,
        "user_id": job.uid,
        "user_name": job.user_name,
        "group_id": job.gid,
        "account": job.account or None,
        "partition": job.partition,
        "qos": job.qos or None,
        "wckey": job.request.wckey or None,
        "job_state": job.state | job.flags,
        "time_limit": job.time_limit_min,
        "priority": job.priority,
        "comment": job.comment or None,
        "admin_comment": job.admin_comment or None,
        "reservation": job.reservation or job.request.reservation or None,
        "submit_time": job.submit_us // SECOND_US,
        "start_time": job.start_us // SECOND_US,
        "end_time": job.end_us // SECOND_US,
        "num_tasks": job.request.ntasks or NO_VAL,
        "total_nodes": len(job.nodes),
        "total_cpus": sum(alloc.charged_cpus for alloc in job.nodes),
    }


def job_record(job: Job) -> Row:
    """Return a whole job, for a change of it: what was asked for, and what became of it."""
    request: dict[str, Any] = msgspec.to_builtins(whole_request(job.request))
    asked = {name: field.read(request) for name, field in FIELDS.items()}
    return {**asked, **job_row(job)}


def reservation_row(reservation: Reservation) -> Row:
    """Return one reservation."""
    return {
        "name": reservation.name,
        "accounts": _list(reservation.accounts),
        "assoc_list": None,
        "comment": reservation.comment or None,
        "end_time": reservation.end_us // SECOND_US,
        "features": reservation.features or None,
        "flags": ",".join(reservation.flags),
        "full_nodes": int(not reservation.core_masks),
        "groups": _list(reservation.groups),
        "licenses": reservation.licenses or None,
        "node_cnt": len(reservation.node_ids),
        "partition": reservation.partition or None,
        "qos": _list(reservation.qos),
        "start_time": reservation.start_us // SECOND_US,
        "tres_str": reservation.tres or None,
        "users": _list(reservation.users),
    }
