"""What jobs and steps ask for, hold and use, as the TRES texts of the accounting tables.

Texts are `name=amount` lists: memory in MiB for requests and allocations; in usage columns
CPU time in milliseconds and sizes in bytes, as Slurm's data parser gives them.
"""

from collections.abc import Iterable, Mapping

from pyslurm_ng.model import amounts
from pyslurm_ng.model.job import JobRequest, Usage
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.sizes import job_sizes


def tres_text(counts: Mapping[str, int]) -> str:
    """Return `name=amount,...` in alphabetical order of the words, zeros left out."""
    return ",".join(sorted(f"{name}={amount}" for name, amount in counts.items() if amount))


def parse_amounts(text: str) -> dict[str, int]:
    """Undo `tres_text`."""
    pairs = (word.rpartition("=") for word in text.split(",") if word)
    return {name: int(amount) for name, _, amount in pairs}


def requested_tres(
    request: JobRequest, partition: Partition | None, tracked: Iterable[str]
) -> tuple[int, int, dict[str, int]]:
    """Return requested nodes, CPUs and TRES; generic resources only if tracked."""
    sizes = job_sizes(request, partition)
    return sizes.nodes_min, sizes.cpus, amounts.requested_tres(request, partition, tracked)


def usage_columns(usage: Usage | None) -> dict[str, str]:
    """Return the sixteen `tres_usage_*` columns of a step.

    Without samples (a step over before the first poll) only energy is known, as in Slurm.
    """
    if usage is None or not (usage.max_rss_kib or usage.max_vmsize_kib):
        return {
            f"tres_usage_{way}_{what}": "energy=0" if what in ("ave", "tot") else ""
            for way in ("in", "out")
            for what in ("ave", "max", "max_node", "max_task", "min", "min_node", "min_task", "tot")
        }
    tasks = max(1, usage.ntasks)
    most = (
        ("mem", usage.max_rss_kib * 1024, usage.max_rss_node, usage.max_rss_task),
        ("vmem", usage.max_vmsize_kib * 1024, usage.max_vmsize_node, usage.max_vmsize_task),
        ("pages", usage.max_pages, usage.max_pages_node, usage.max_pages_task),
        ("fs/disk", usage.max_disk_read, usage.max_disk_read_node, usage.max_disk_read_task),
    )
    cpu = (usage.min_cpu_us // 1000, usage.min_cpu_node, usage.min_cpu_task)
    means = {
        "cpu": usage.ave_cpu_us // 1000,
        "energy": 0,
        "fs/disk": usage.ave_disk_read,
        "mem": usage.ave_rss_kib * 1024,
        "pages": usage.ave_pages,
        "vmem": usage.ave_vmsize_kib * 1024,
    }
    total = {name: amount * tasks for name, amount in means.items()}
    total["cpu"] = (usage.user_us + usage.system_us) // 1000
    highest = {"cpu": cpu[0], "energy": 0} | {name: amount for name, amount, _, _ in most}
    nodes = {"cpu": cpu[1], "energy": cpu[1]} | {name: node for name, _, node, _ in most}
    ranks = {"cpu": cpu[2]} | {name: rank for name, _, _, rank in most}
    written = usage.max_disk_write
    out_node = usage.max_disk_write_node
    out = {"energy": 0, "fs/disk": written}
    columns: dict[str, Mapping[str, int | str]] = {
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
    return {
        f"tres_usage_{name}": ",".join(f"{key}={value}" for key, value in sorted(pairs.items()))
        for name, pairs in columns.items()
    }
