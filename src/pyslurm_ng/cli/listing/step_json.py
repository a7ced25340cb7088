"""Running steps as JSON, for squeue --steps and scontrol show step."""

from pyslurm_ng.base.numbers import NO_VAL, SECOND_US
from pyslurm_ng.base.state_names import JOB_STATES
from pyslurm_ng.cli.documents import print_records
from pyslurm_ng.cli.listing.list_format import STEP_ID, long_time, step_id_text
from pyslurm_ng.data_parser.job_values import expanded
from pyslurm_ng.data_parser.json_text import limit, number, seconds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Row = dict[str, Any]


def print_steps(argv: "list[str]", reply: "dict[str, Any]", rows: "list[Row]") -> int:
    """Print rows of a reply; return the exit code."""
    cluster = reply["cluster_name"]
    steps = [_object(row, cluster, reply["now_us"]) for row in rows]
    return print_records(argv, "steps", steps, reply)


def _object(row: "Row", cluster: str, now_us: int) -> "dict[str, Any]":
    start_us = row["start_us"]
    run_s = max(0, now_us // SECOND_US - start_us // SECOND_US - row["suspended_us"] // SECOND_US)
    unset = number(0, is_set=False)
    task_id = row["array_task_id"]
    streams = {name: row[f"std_{name[3:]}"] for name in ("stderr", "stdin", "stdout")}
    return {
        "array": {
            "job_id": row["array_job_id"] or row["job_id"],
            "task_id": task_id if task_id < NO_VAL else NO_VAL,
        },
        "cluster": cluster,
        "container": row["container"],
        "container_id": row["container_id"],
        "cpu": {"frequency": {"min": unset, "max": unset, "governor": unset}},
        "tres": {
            "per": {
                "cpu": "",
                "memory": "",
                "step": "",
                "node": row["tres_per_node"],
                "socket": "",
                "task": "",
            },
            "allocation": row["tres"],
            "binding": "",
            "frequency": "",
        },
        "name": row["name"],
        "network": row["network"],
        "nodes": row["nodes"],
        "number_cpus": row["cpus"],
        "number_tasks": row["tasks"],
        "partition": row["partition"],
        "reserved_ports": row["ports"],
        "time": {
            "running": number(run_s),
            "start": seconds(start_us),
            "limit": limit(row["time_limit_min"]),
        },
        "runtime": long_time(run_s),
        "srun": {"host": row["srun_host"], "pid": row["srun_pid"]},
        "state": [JOB_STATES[row["state"]][0]],
        "sluid": row["sluid"],
        "id": step_id_text(*[row[name] for name in STEP_ID]),
        **streams,
        **{
            f"{name}_expanded": expanded(text, row, row["step_id"], row["nodes"])
            for name, text in streams.items()
        },
        "submit_line": row["submit_line"],
        "task": {"distribution": row["distribution"]},
        "user": row["user_name"],
    }
