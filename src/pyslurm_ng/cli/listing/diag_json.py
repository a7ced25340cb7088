"""sdiag as JSON."""

from pyslurm_ng.base.numbers import MINUTE_US
from pyslurm_ng.cli.command import read_conf, write_bytes
from pyslurm_ng.cli.listing.json_text import encode, number, seconds, tail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def statistics(reply: "dict[str, Any]") -> "dict[str, Any]":
    """Return the counters with Slurm's keys; what we have no such thing of is 0."""
    count = reply["counters"].get
    cycles = count("schedule_cycles", 0)

    def of_cycle(name: str) -> int:
        return int(count(name, 0) // cycles) if cycles else 0

    total, depth = count("schedule_total_us", 0), count("schedule_depth", 0)
    minutes = max(1, (reply["now_us"] - reply["since_us"]) // MINUTE_US)
    mean, mean_depth = of_cycle("schedule_total_us"), of_cycle("schedule_depth")
    last, longest = count("schedule_last_us", 0), count("schedule_max_us", 0)
    queue = count("schedule_queue", 0)
    return {
        "req_time": seconds(reply["now_us"]),
        "req_time_start": seconds(reply["since_us"]),
        "server_thread_count": 1,
        "agent_queue_size": count("agent_queue", 0),
        "agent_count": count("agents", 0),
        "agent_thread_count": 0,
        "dbd_agent_queue_size": count("dbd_queue", 0),
        "gettimeofday_latency": count("clock_latency_us", 0),
        "schedule_cycle_max": longest,
        "schedule_cycle_last": last,
        "schedule_cycle_sum": total,
        "schedule_cycle_total": cycles,
        "schedule_cycle_mean": mean,
        "schedule_cycle_mean_depth": mean_depth,
        "schedule_cycle_per_minute": cycles // minutes,
        "schedule_cycle_depth": depth,
        "schedule_exit": {
            "end_job_queue": cycles,
            "default_queue_depth": 0,
            "max_job_start": 0,
            "max_rpc_cnt": 0,
            "max_sched_time": 0,
            "licenses": 0,
        },
        "schedule_queue_length": queue,
        "jobs_submitted": count("jobs_submitted", 0),
        "jobs_started": count("jobs_started", 0),
        "jobs_completed": count("jobs_completed", 0),
        "jobs_canceled": count("jobs_canceled", 0),
        "jobs_failed": count("jobs_failed", 0),
        "jobs_pending": count("jobs_pending", 0),
        "jobs_running": count("jobs_running", 0),
        "job_states_ts": seconds(reply["now_us"]),
        "bf_backfilled_jobs": count("backfilled_ever", 0),
        "bf_last_backfilled_jobs": count("backfilled", 0),
        "bf_backfilled_het_jobs": count("backfilled_het", 0),
        "bf_cycle_counter": cycles,
        "bf_cycle_mean": mean,
        "bf_depth_mean": mean_depth,
        "bf_depth_mean_try": of_cycle("schedule_tried"),
        "bf_cycle_sum": total,
        "bf_cycle_last": last,
        "bf_cycle_max": longest,
        "bf_exit": {
            "end_job_queue": cycles - count("cut_by_start", 0) - count("cut_by_test", 0),
            "bf_max_job_start": count("cut_by_start", 0),
            "bf_max_job_test": count("cut_by_test", 0),
            "bf_max_time": 0,
            "bf_node_space_size": 0,
            "state_changed": 0,
        },
        "bf_last_depth": count("tested_last_pass", 0),
        "bf_last_depth_try": count("tried_last_pass", 0),
        "bf_depth_sum": depth,
        "bf_depth_try_sum": count("schedule_tried", 0),
        "bf_queue_len": queue,
        "bf_queue_len_mean": of_cycle("schedule_queue_total"),
        "bf_queue_len_sum": count("schedule_queue_total", 0),
        "bf_table_size": count("schedule_slots", 0),
        "bf_table_size_sum": count("schedule_slots_total", 0),
        "bf_table_size_mean": of_cycle("schedule_slots_total"),
        "bf_when_last_cycle": seconds(count("schedule_when_us", 0)),
        "bf_active": False,
        **_calls(reply),
        "pending_rpcs": [],
        "pending_rpcs_by_hostlist": [],
    }


def _calls(reply: "dict[str, Any]") -> "dict[str, Any]":
    return {
        "rpcs_by_message_type": [
            {
                "type_id": index,
                "message_type": kind,
                "count": calls,
                "queued": 0,
                "dropped": 0,
                "cycle_last": 0,
                "cycle_max": 0,
                "total_time": used,
                "average_time": number(used // max(1, calls)),
            }
            for index, (kind, calls, used) in enumerate(reply["messages"])
        ],
        "rpcs_by_user": [
            {
                "user_id": uid,
                "user": name,
                "count": calls,
                "total_time": used,
                "average_time": number(used // max(1, calls)),
            }
            for uid, name, calls, used in reply["users"]
        ],
        **_faults(reply),
    }


def _faults(reply: "dict[str, Any]") -> "dict[str, Any]":
    """Return what Slurm has no such thing of, so nothing where there is nothing to tell."""
    found = {
        "faults_by_kind": [{"kind": kind, "count": count} for kind, count in reply["faults"]],
        "connections": dict(reply["doors"]),
        "backed_off_by_user": [
            {"user_id": uid, "user": name, "count": count} for uid, name, count in reply["limited"]
        ],
    }
    return {name: rows for name, rows in found.items() if rows}


def print_diagnostics(reply: "dict[str, Any]", argv: "list[str]") -> int:
    """Print the counters as one document."""
    cluster = read_conf("sdiag").get("ClusterName", "cluster")
    body = {"statistics": statistics(reply), **tail(["sdiag", *argv], cluster)}
    write_bytes((encode(body, 0) + "\n").encode())
    return 0
