"""What a supervisor counted per task -> the record that accounting keeps of a step's node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyslurm_ng.model.job import Usage


def usage_of(end: Mapping[str, Any], node_name: str) -> Usage | None:
    """Return the usage in an `end` record, None where nothing was counted."""
    items = end.get("usage")
    if items is None:
        return None
    return usage_of_tasks(items, node_name, end.get("ntasks", 0))


def usage_of_tasks(
    items: list[tuple[int, Mapping[str, int]]], node_name: str, ntasks: int = 0
) -> Usage:
    """Return usage of tasks as sums, averages and extremes.

    Args:
        items: pairs of global task id and counts; see d.stepd.step_usage for their names.
    """
    by_task = [(task, dict(counts)) for task, counts in items]
    count = max(1, ntasks, len(by_task))

    def total(name: str) -> int:
        return sum(counts.get(name, 0) for _, counts in by_task)

    def largest(name: str) -> tuple[int, int]:
        return max(((counts.get(name, 0), -task) for task, counts in by_task), default=(0, 0))

    rss, rss_task = largest("rss_kib")
    virtual, virtual_task = largest("virtual_kib")
    pages, pages_task = largest("pages")
    read, read_task = largest("read_bytes")
    written, written_task = largest("written_bytes")
    cpu, cpu_task = min(
        ((counts.get("cpu_us", 0), task) for task, counts in by_task), default=(0, 0)
    )
    return Usage(
        user_us=total("user_us"),
        system_us=total("system_us"),
        max_rss_kib=rss,
        max_rss_node=node_name,
        max_rss_task=-rss_task,
        ave_rss_kib=total("rss_kib") // count,
        max_vmsize_kib=virtual,
        max_vmsize_node=node_name,
        max_vmsize_task=-virtual_task,
        ave_vmsize_kib=total("virtual_kib") // count,
        max_pages=pages,
        max_pages_node=node_name,
        max_pages_task=-pages_task,
        ave_pages=total("pages") // count,
        min_cpu_us=cpu,
        min_cpu_node=node_name,
        min_cpu_task=cpu_task,
        ave_cpu_us=total("cpu_us") // count,
        max_disk_read=read,
        max_disk_read_node=node_name,
        max_disk_read_task=-read_task,
        ave_disk_read=total("read_bytes") // count,
        max_disk_write=written,
        max_disk_write_node=node_name,
        max_disk_write_task=-written_task,
        ave_disk_write=total("written_bytes") // count,
        ntasks=count,
    )
