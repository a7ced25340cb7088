"""Usage of several nodes or tasks merged into one record, and its columns in accounting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from .job import Traffic, Usage

# Extremes: the field of the value, and whether the larger one counts. Its place is kept with it.
_EXTREMES = (
    ("max_rss_kib", "max_rss", True),
    ("max_vmsize_kib", "max_vmsize", True),
    ("max_pages", "max_pages", True),
    ("min_cpu_us", "min_cpu", False),
    ("max_disk_read", "max_disk_read", True),
    ("max_disk_write", "max_disk_write", True),
    ("max_gpu_util", "max_gpu_util", True),
    ("max_gpu_mem_kib", "max_gpu_mem", True),
)
_MOST = 2**63 - 1  # that accounting can store: a node may report any number
_AVERAGES = (
    "ave_rss_kib",
    "ave_vmsize_kib",
    "ave_pages",
    "ave_cpu_us",
    "ave_disk_read",
    "ave_disk_write",
    "ave_gpu_util",
    "ave_gpu_mem_kib",
)


def merge(left: Usage | None, right: Usage) -> Usage:
    """Return the usage of two disjoint sets of tasks together.

    Sums are added, extremes keep their place, averages are weighted by tasks.
    """
    if left is None:
        return right
    tasks = left.ntasks + right.ntasks
    values: dict[str, Any] = {
        "user_us": min(left.user_us + right.user_us, _MOST),
        "system_us": min(left.system_us + right.system_us, _MOST),
        "ntasks": tasks,
        "energy_j": min(left.energy_j + right.energy_j, _MOST),
    }
    for value, highest, is_maximum in _EXTREMES:
        first, second = getattr(left, value), getattr(right, value)
        keeps = first >= second if is_maximum else first <= second
        source = left if keeps else right
        for name in (value, f"{highest}_node", f"{highest}_task"):
            values[name] = getattr(source, name)
    for name in _AVERAGES:
        both = getattr(left, name) * left.ntasks + getattr(right, name) * right.ntasks
        values[name] = both // tasks if tasks else 0
    values["traffic"] = _merged_traffic(left.traffic, right.traffic)
    return Usage(**values)


def _merged_traffic(left: tuple[Traffic, ...], right: tuple[Traffic, ...]) -> tuple[Traffic, ...]:
    """Return the traffic of two sets of nodes together."""
    by_tres = {moved.tres: moved for moved in left}
    for more in right:
        moved = by_tres.get(more.tres)
        by_tres[more.tres] = more if moved is None else _both(moved, more)
    return tuple(by_tres.values())


def _both(left: Traffic, right: Traffic) -> Traffic:
    reader = left if left.max_read >= right.max_read else right
    writer = left if left.max_written >= right.max_written else right
    return Traffic(
        tres=left.tres,
        read=min(left.read + right.read, _MOST),
        written=min(left.written + right.written, _MOST),
        max_read=reader.max_read,
        max_read_node=reader.max_read_node,
        max_read_task=reader.max_read_task,
        max_written=writer.max_written,
        max_written_node=writer.max_written_node,
        max_written_task=writer.max_written_task,
    )


@lru_cache(64)
def _columns_of_energy(energy_j: int, tasks: int) -> Mapping[str, str]:
    """Return the columns of a step of which nothing but energy is known: mostly, that it is 0."""
    known = {
        "in_ave": energy_j // max(1, tasks), "in_tot": energy_j, "out_ave": 0, "out_tot": 0,
    }  # fmt: skip
    return {
        f"tres_usage_{way}_{what}": f"energy={known[f'{way}_{what}']}"
        if what in ("ave", "tot")
        else ""
        for way in ("in", "out")
        for what in ("ave", "max", "max_node", "max_task", "min", "min_node", "min_task", "tot")
    }


def usage_from(fields: Sequence[Any]) -> Usage:
    """Return the usage of a message as a command reads it, a list of its fields."""
    *plain, last = fields
    if not isinstance(last, (list, tuple)):
        return Usage(*fields)  # of an older slurmd
    return Usage(*[*plain, tuple(Traffic(*moved) for moved in last)])


def usage_columns(usage: Usage | None) -> Mapping[str, str]:
    """Return the sixteen `tres_usage_*` columns of a step as `name=amount` lists.

    CPU time is in milliseconds, sizes in bytes, as Slurm's data parser gives them.
    Without samples (the step ended before the first poll) only energy is known, as in Slurm.
    """
    if usage is None or not (usage.max_rss_kib or usage.max_vmsize_kib):
        return _columns_of_energy(usage.energy_j if usage else 0, usage.ntasks if usage else 0)
    tasks = max(1, usage.ntasks)
    most = [
        ("mem", usage.max_rss_kib * 1024, usage.max_rss_node, usage.max_rss_task),
        ("vmem", usage.max_vmsize_kib * 1024, usage.max_vmsize_node, usage.max_vmsize_task),
        ("pages", usage.max_pages, usage.max_pages_node, usage.max_pages_task),
        ("fs/disk", usage.max_disk_read, usage.max_disk_read_node, usage.max_disk_read_task),
    ]
    cpu = (usage.min_cpu_us // 1000, usage.min_cpu_node, usage.min_cpu_task)
    means = {
        "cpu": usage.ave_cpu_us // 1000,
        "energy": usage.energy_j // tasks,
        "fs/disk": usage.ave_disk_read,
        "mem": usage.ave_rss_kib * 1024,
        "pages": usage.ave_pages,
        "vmem": usage.ave_vmsize_kib * 1024,
    }
    if usage.max_gpu_util or usage.max_gpu_mem_kib:
        util_node, memory_node = usage.max_gpu_util_node, usage.max_gpu_mem_node
        memory = usage.max_gpu_mem_kib * 1024
        most.append(("gres/gpuutil", usage.max_gpu_util, util_node, usage.max_gpu_util_task))
        most.append(("gres/gpumem", memory, memory_node, usage.max_gpu_mem_task))
        means["gres/gpuutil"] = usage.ave_gpu_util
        means["gres/gpumem"] = usage.ave_gpu_mem_kib * 1024
    total = {name: amount * tasks for name, amount in means.items()}
    total["cpu"] = (usage.user_us + usage.system_us) // 1000
    total["energy"] = usage.energy_j
    highest = {"cpu": cpu[0], "energy": usage.energy_j} | {
        name: amount for name, amount, _, _ in most
    }
    nodes = {"cpu": cpu[1], "energy": cpu[1]} | {name: node for name, _, node, _ in most}
    ranks = {"cpu": cpu[2]} | {name: rank for name, _, _, rank in most}
    written = usage.max_disk_write
    out_node = usage.max_disk_write_node
    out = {"energy": 0, "fs/disk": written}
    columns: dict[str, dict[str, Any]] = {
        "in_ave": means,
        "in_max": highest,
        "in_max_node": nodes,
        "in_max_task": ranks,
        "in_min": highest | {"cpu": cpu[0]},
        "in_min_node": nodes,
        "in_min_task": ranks,
        "in_tot": total,
        "out_ave": {"energy": 0, "fs/disk": usage.ave_disk_write},
        "out_max": out,
        "out_max_node": {"energy": out_node, "fs/disk": out_node},
        "out_max_task": {"fs/disk": usage.max_disk_write_task},
        "out_min": out,
        "out_min_node": {"energy": out_node, "fs/disk": out_node},
        "out_min_task": {"fs/disk": usage.max_disk_write_task},
        "out_tot": {"energy": 0, "fs/disk": usage.ave_disk_write * tasks},
    }
    _add_traffic(columns, usage.traffic, tasks)
    return {
        f"tres_usage_{name}": ",".join(f"{key}={value}" for key, value in sorted(pairs.items()))
        for name, pairs in columns.items()
    }


def _add_traffic(
    columns: dict[str, dict[str, Any]], traffic: tuple[Traffic, ...], tasks: int
) -> None:
    """Add what nodes moved; what they have at most is told with their first task."""
    for moved in traffic:
        for way, total, most, node, task in (
            ("in", moved.read, moved.max_read, moved.max_read_node, moved.max_read_task),
            (
                "out", moved.written, moved.max_written, moved.max_written_node,
                moved.max_written_task,
            ),
        ):  # fmt: skip
            columns[f"{way}_ave"][moved.tres] = total // tasks
            columns[f"{way}_tot"][moved.tres] = total
            for what in ("max", "min"):
                columns[f"{way}_{what}"][moved.tres] = most
                columns[f"{way}_{what}_node"][moved.tres] = node
                columns[f"{way}_{what}_task"][moved.tres] = task
