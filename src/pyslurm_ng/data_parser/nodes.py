"""Nodes, partitions and licences."""

from pyslurm_ng.base.numbers import NO_VAL, SECOND_US
from pyslurm_ng.base.state_names import NODE_FLAGS, NODE_STATES
from pyslurm_ng.data_parser.json_text import limit, number, seconds
from pyslurm_ng.data_parser.records import user_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Row = dict[str, Any]


def state_words(row: "Row") -> "list[str]":
    """Return the base state and the flags as words."""
    return [NODE_STATES[row["state"]], *[name for bit, name in NODE_FLAGS if row["flags"] & bit]]


def words(text: str) -> "list[str]":
    """Return the words of a comma list."""
    return [word for word in text.split(",") if word]


def node_object(row: "Row", cluster: str) -> "dict[str, Any]":
    """Return one node with Slurm's keys."""
    return {
        "architecture": row["arch"],
        "burstbuffer_network_address": row["bcast_address"],
        "boards": row["boards"],
        "boot_time": seconds(row["boot_us"]),
        "tls_cert_last_renewal": number(0),
        "cert_flags": [],
        "cluster_name": cluster,
        "cores": row["cores"],
        "specialized_cores": row["core_spec_count"],
        "cpu_binding": 0,
        "cpu_load": max(0, row["cpu_load_hundredths"]),
        "free_mem": number(row["free_mem_mib"], is_set=row["free_mem_mib"] >= 0),
        "cpus": row["cpus"],
        "effective_cpus": row["cpus_effective"],
        "specialized_cpus": row["cpu_spec_list"],
        "energy": {
            "average_watts": row["mean_watts"],
            "base_consumed_energy": 0,
            "consumed_energy": 0,
            "current_watts": number(row["watts"]),
            "previous_consumed_energy": 0,
            "last_collected": 0,
        },
        "extra": row["extra"],
        "features": words(row["features"]),
        "active_features": words(row["active_features"]),
        "gpu_spec": "",
        "gres": row["gres"],
        "gres_drained": row["gres_drain"] or "N/A",
        "gres_used": row["gres_used"],
        "instance_id": row["instance_id"],
        "instance_type": row["instance_type"],
        "last_busy": seconds(row["last_busy_us"]),
        "mcs_label": row["mcs_label"],
        "specialized_memory": row["mem_spec_limit_mib"],
        "name": row["name"],
        "next_state_after_reboot": [row["next_state"] or "INVALID"],
        "address": row["address"],
        "hostname": row["hostname"],
        "state": state_words(row),
        "operating_system": row["os"].rstrip(),
        "owner": user_name(row["owner_uid"]) if row["owner_uid"] >= 0 else "",
        "partitions": row["partitions"],
        "port": row["port"],
        "real_memory": row["memory_mib"],
        "res_cores_per_gpu": 0,
        "comment": row["comment"],
        "reason": row["reason"],
        "reason_changed_at": seconds(row["reason_us"]),
        "reason_set_by_user": user_name(row["reason_uid"]) if row["reason_us"] else "",
        "resume_after": seconds(row["resume_after_us"]),
        "reservation": row["reservation"],
        "suspend_time": number(0, is_set=False, is_infinite=True),
        "alloc_memory": row["memory_alloc_mib"],
        "alloc_cpus": row["cpus_alloc"],
        "alloc_idle_cpus": row["cpus_effective"] - row["cpus_alloc"],
        "tres_used": row["tres_alloc"],
        "slurmd_start_time": seconds(row["slurmd_start_us"]),
        "sockets": row["sockets"],
        "threads": row["threads"],
        "temporary_disk": row["tmp_disk_mib"],
        "weight": row["weight"],
        "topology": row["topology"],
        "tres": row["tres"],
        "version": row["version"],
    }


def _bound(count: int) -> "dict[str, Any]":
    return number(count, is_set=count < NO_VAL, is_infinite=count >= NO_VAL)


def _wish(count: int) -> "dict[str, Any]":
    return number(count, is_set=bool(count))


_FLAGS = (
    ("is_default", "DEFAULT"),
    ("hidden", "HIDDEN"),
    ("disable_root_jobs", "NO_ROOT"),
    ("root_only", "ROOT_ONLY"),
    ("req_resv", "REQ_RESV"),
    ("lln", "LLN"),
    ("power_down_on_idle", "PDOI"),
)


def partition_object(row: "Row") -> "dict[str, Any]":
    """Return one partition with Slurm's keys."""
    mode = row["preempt_mode"]
    kinds = row["select_type_parameters"]
    has_cap = bool(row["max_mem_per_cpu_mib"])
    return {
        "nodes": {
            "allowed_allocation": row["alloc_nodes"],
            "configured": row["nodes"],
            "total": row["total_nodes"],
        },
        "accounts": {
            "allowed": ",".join(row["allow_accounts"]),
            "deny": ",".join(row["deny_accounts"]),
        },
        "groups": {"allowed": ",".join(row["allow_groups"])},
        "qos": {
            "allowed": ",".join(row["allow_qos"]),
            "deny": ",".join(row["deny_qos"]),
            "assigned": row["qos"],
        },
        "alternate": row["alternate"],
        "tres": {"billing_weights": row["tres_billing_weights"], "configured": row["tres"]},
        "cluster": "",
        "select_type": words(kinds.upper()) if kinds else ["NONE"],
        "cpus": {"task_binding": words(row["cpu_bind"]), "total": row["total_cpus"]},
        "defaults": {
            "partition_memory_per_cpu": _wish(row["def_mem_per_cpu_mib"]),
            "partition_memory_per_node": _wish(row["def_mem_per_node_mib"]),
            "time": limit(row["default_time_min"]),
            "job": row["job_defaults"],
        },
        "flags": [word for field, word in _FLAGS if row[field]],
        "partition": {
            "exclusive": row["exclusive"],
            "oversubscribe": row["oversubscribe"],
            "state": [row["state"]],
        },
        "grace_time": row["grace_time_s"],
        "maximums": {
            "cpus_per_node": _bound(row["max_cpus_per_node"]),
            "cpus_per_socket": _bound(row["max_cpus_per_socket"]),
            "partition_memory_per_cpu": _wish(row["max_mem_per_cpu_mib"]),
            "partition_memory_per_node": number(row["max_mem_per_node_mib"], is_set=not has_cap),
            "nodes": _bound(row["max_nodes"]),
            "time": limit(row["max_time_min"]),
            "over_time_limit": limit(row["over_time_limit_min"]),
        },
        "minimums": {"nodes": row["min_nodes"]},
        "name": row["name"],
        "node_sets": row["node_sets"],
        "preempt_mode": words(mode) if mode else ["CLUSTER_GLOBAL"],
        "priority": {"job_factor": row["priority_job_factor"], "tier": row["priority_tier"]},
        "timeouts": {
            "resume": limit(row["resume_timeout_s"]),
            "suspend": limit(row["suspend_timeout_s"]),
        },
        "topology": row["topology"],
        "suspend_time": limit(row["suspend_time_s"]),
    }


def license_object(row: "Row") -> "dict[str, Any]":
    """Return one licence with Slurm's keys."""
    return {
        "LicenseName": row["name"],
        "Total": row["total"],
        "Used": row["used"],
        "Free": row["free"],
        "Remote": row["remote"],
        "Reserved": row["reserved"],
        "LastConsumed": row["last_consumed"],
        "LastDeficit": row["last_deficit"],
        "LastUpdate": row["last_update_us"] // SECOND_US,
    }
