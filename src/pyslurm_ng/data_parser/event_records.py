"""Events as objects in JSON: what slurmrestd sends and `--json` of scontrol watch prints."""

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.base.state_names import JOB_FLAGS, JOB_STATES, NODE_FLAGS, NODE_STATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any


def job_event_record(event: "Mapping[str, Any]") -> "dict[str, Any]":
    """Return an event about a job, from what slurmctld tells."""
    state, flags = event["state"], event.get("flags", 0)
    status = event.get("exit_code", 0)
    return {
        "sequence": event["sequence"],
        "time": event["time_us"] / SECOND_US,
        "event": event["what"],
        "job_id": event["job_id"],
        "id": event["id"],
        "array_job_id": event.get("array_job_id", 0),
        "array_task_id": event.get("array_task_id", -1),
        "name": event["name"],
        "user_id": event["uid"],
        "user_name": event["user"],
        "account": event["account"],
        "partition": event["partition"],
        "qos": event.get("qos", ""),
        "job_state": [
            JOB_STATES[state][0], *[name for bit, name, _ in JOB_FLAGS if flags & bit]
        ],
        "state_reason": event.get("reason", "None"),
        "nodes": event.get("nodes", ""),
        "exit_code": {"return_code": status >> 8 & 0xFF, "signal": status & 0x7F},
    }  # fmt: skip


def node_event_record(event: "Mapping[str, Any]") -> "dict[str, Any]":
    """Return an event about nodes, from what slurmctld tells."""
    state, flags = event["state"], event.get("flags", 0)
    return {
        "sequence": event["sequence"],
        "time": event["time_us"] / SECOND_US,
        "event": event["what"],
        "nodes": event["nodes"],
        "state": [NODE_STATES[state], *[name for bit, name in NODE_FLAGS if flags & bit]],
        "reason": event.get("reason", ""),
    }


def event_records(told: "Mapping[str, Any]") -> "list[tuple[str, dict[str, Any]]]":
    """Return (`job` or `node`, record) of each event of a message, in order."""
    records = [("job", job_event_record(event)) for event in told.get("jobs", ())]
    records += [("node", node_event_record(event)) for event in told.get("nodes", ())]
    records.sort(key=lambda kind_and_record: kind_and_record[1]["sequence"])
    return records
