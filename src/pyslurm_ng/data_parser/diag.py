"""The counters of sdiag."""

from pyslurm_ng.base.numbers import MINUTE_US
from pyslurm_ng.data_parser.json_text import number, seconds
from pyslurm_ng.data_parser.records import user_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def statistics(reply: "dict[str, Any]") -> "dict[str, Any]":
    """Return the counters with Slurm's keys; counters that we do not have are 0."""
    counters = reply["counters"]
    count = counters.get
    cycles = count("schedule_cycles", 0)
    minutes = max(1, (reply["now_us"] - reply["since_us"]) // MINUTE_US)
    return {
        "req_time": seconds(reply["now_us"]),
        "req_time_start": seconds(reply["since_us"]),
        "server_thread_count": 1,
        "agent_queue_size": count("agent_queue", 0),
        "agent_count": count("agents", 0),
        "agent_thread_count": 0,
        "dbd_agent_queue_size": count("dbd_queue", 0),
        "gettimeofday_latency": count("clock_latency_us", 0),
        "schedule_cycle_max": count("schedule_max_us", 0),
        "schedule_cycle_last": count("schedule_last_us", 0),
        "schedule_cycle_sum": count("schedule_total_us", 0),
        "schedule_cycle_total": cycles,
        "schedule_cycle_mean": _of_cycle(counters, "schedule_total_us"),
        "schedule_cycle_mean_depth": _of_cycle(counters, "schedule_depth"),
        "schedule_cycle_per_minute": cycles // minutes,
        "schedule_cycle_depth": count("schedule_depth", 0),
        "schedule_exit": {
            "end_job_queue": cycles,
            "default_queue_depth": 0,
            "max_job_start": 0,
            "max_rpc_cnt": 0,
            "max_sched_time": 0,
            "licenses": 0,
        },
        "schedule_queue_length": count("schedule_queue", 0),
        "jobs_submitted": count("jobs_submitted", 0),
        "jobs_started": count("jobs_started", 0),
        "jobs_completed": count("jobs_completed", 0),
        "jobs_canceled": count("jobs_canceled", 0),
        "jobs_failed": count("jobs_failed", 0),
        "jobs_pending": count("jobs_pending", 0),
        "jobs_running": count("jobs_running", 0),
        "job_states_ts": seconds(reply["now_us"]),
        **_backfill(counters),
        **_calls(reply),
        "pending_rpcs": _waiting_calls(reply),
        "pending_rpcs_by_hostlist": [],
    }


def _of_cycle(counters: "dict[str, int]", name: str) -> int:
    """Return a sum over all passes as the mean of one."""
    cycles = counters.get("schedule_cycles", 0)
    return int(counters.get(name, 0) // cycles) if cycles else 0


def _backfill(counters: "dict[str, int]") -> "dict[str, Any]":
    """Return the counters of backfill; one pass does what Slurm does in two, so it counts twice."""
    count = counters.get
    cycles = count("schedule_cycles", 0)
    return {
        "bf_backfilled_jobs": count("backfilled_ever", 0),
        "bf_last_backfilled_jobs": count("backfilled", 0),
        "bf_backfilled_het_jobs": count("backfilled_het", 0),
        "bf_cycle_counter": cycles,
        "bf_cycle_mean": _of_cycle(counters, "schedule_total_us"),
        "bf_depth_mean": _of_cycle(counters, "schedule_depth"),
        "bf_depth_mean_try": _of_cycle(counters, "schedule_tried"),
        "bf_cycle_sum": count("schedule_total_us", 0),
        "bf_cycle_last": count("schedule_last_us", 0),
        "bf_cycle_max": count("schedule_max_us", 0),
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
        "bf_depth_sum": count("schedule_depth", 0),
        "bf_depth_try_sum": count("schedule_tried", 0),
        "bf_queue_len": count("schedule_queue", 0),
        "bf_queue_len_mean": _of_cycle(counters, "schedule_queue_total"),
        "bf_queue_len_sum": count("schedule_queue_total", 0),
        "bf_table_size": count("schedule_slots", 0),
        "bf_table_size_sum": count("schedule_slots_total", 0),
        "bf_table_size_mean": _of_cycle(counters, "schedule_slots_total"),
        "bf_when_last_cycle": seconds(count("schedule_when_us", 0)),
        "bf_active": False,
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
                "user": name or user_name(uid),
                "count": calls,
                "total_time": used,
                "average_time": number(used // max(1, calls)),
            }
            for uid, name, calls, used in reply["users"]
        ],
        **_faults(reply),
    }


def _waiting_calls(reply: "dict[str, Any]") -> "list[dict[str, Any]]":
    numbers = {kind: number for number, (kind, *_) in enumerate(reply["messages"])}
    return [
        {"type_id": numbers.get(kind, 0), "message_type": kind, "count": waiting}
        for kind, waiting in reply["pending"]
    ]


def _faults(reply: "dict[str, Any]") -> "dict[str, Any]":
    """Return counters that Slurm does not have; {} if all of them are 0."""
    faults = {
        "faults_by_kind": [{"kind": kind, "count": count} for kind, count in reply["faults"]],
        "connections": dict(reply["connections"]),
        "backed_off_by_user": [
            {"user_id": uid, "user": name or user_name(uid), "count": count}
            for uid, name, count in reply["limited"]
        ],
    }
    return {name: rows for name, rows in faults.items() if rows}
