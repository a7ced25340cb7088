"""What a supervisor counted per task -> the record that accounting keeps of a step's node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyslurm_ng.model.bounds import MOST_TRAFFIC
from pyslurm_ng.model.job import Traffic, Usage

_MOST_JOULES = 10**15
"""A megawatt for thirty years: a counter that says more is wrong."""


_MOST_BYTES = 2**60
"""An exbibyte: a card that says more has counted wrongly."""


def usage_of(end: Mapping[str, Any], node_name: str) -> Usage | None:
    """Return the usage in an `end` record, None where nothing was counted."""
    return None if end.get("usage") is None else usage_now(end, node_name)


def usage_now(answer: Mapping[str, Any], node_name: str) -> Usage:
    """Return the usage in a supervisor's answer about a step that runs, or in its end."""
    rows = list(answer["usage"])
    return usage_of_tasks(
        rows,
        node_name,
        answer.get("ntasks", 0),
        energy_j=answer.get("energy_j", 0),
        traffic=answer.get("traffic", ()),
    )


def usage_of_tasks(
    counted_tasks: list[tuple[int, Mapping[str, int]]],
    node_name: str,
    ntasks: int = 0,
    *,
    energy_j: int = 0,
    traffic: Sequence[Sequence[Any]] = (),
) -> Usage:
    """Return usage of tasks as sums, averages and extremes.

    Args:
        counted_tasks: pairs of global task id and counts; see d.stepd.step_usage for their names.
        traffic: TRES of networks and file systems, with bytes in and out of the whole node.
    """
    by_task = [(task, dict(counts)) for task, counts in counted_tasks]
    count = max(1, ntasks, len(by_task))

    def total(name: str) -> int:
        return sum(counts.get(name, 0) for _, counts in by_task)

    def largest(name: str, field: str, unit: str = "") -> dict[str, Any]:
        """Return the most that a task has, on which node and which task, and the average."""
        most = ((counts.get(name, 0), -task) for task, counts in by_task)
        amount, task = max(most, default=(0, 0))
        return {
            f"max_{field}{unit}": amount,
            f"max_{field}_node": node_name,
            f"max_{field}_task": -task,
            f"ave_{field}{unit}": total(name) // count,
        }

    cpu, cpu_task = min(
        ((counts.get("cpu_us", 0), task) for task, counts in by_task), default=(0, 0)
    )
    gpus: dict[str, Any] = {}
    if any("gpu_percent" in counts for _, counts in by_task):
        gpus = {
            **largest("gpu_percent", "gpu_util"),
            **largest("gpu_memory_kib", "gpu_mem", "_kib"),
        }
        gpus["ave_gpu_util"] = total("gpu_mean_percent") // count
    return Usage(
        user_us=total("user_us"),
        system_us=total("system_us"),
        min_cpu_us=cpu,
        min_cpu_node=node_name,
        min_cpu_task=cpu_task,
        ave_cpu_us=total("cpu_us") // count,
        ntasks=count,
        **largest("rss_kib", "rss", "_kib"),
        **largest("virtual_kib", "vmsize", "_kib"),
        **largest("pages", "pages"),
        **largest("read_bytes", "disk_read"),
        **largest("written_bytes", "disk_write"),
        **gpus,
        energy_j=min(max(0, energy_j), _MOST_JOULES),
        traffic=_traffic_of(traffic, node_name, min((task for task, _ in by_task), default=0)),
    )


def _traffic_of(
    traffic: Sequence[Sequence[Any]], node_name: str, first_task: int
) -> tuple[Traffic, ...]:
    return tuple(
        Traffic(tres, read, written, read, node_name, first_task, written, node_name, first_task)
        for tres, read, written in (
            (tres, min(max(0, read), _MOST_BYTES), min(max(0, written), _MOST_BYTES))
            for tres, read, written in traffic[:MOST_TRAFFIC]
        )
    )
