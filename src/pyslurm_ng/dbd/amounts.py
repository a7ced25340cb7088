"""What jobs and steps ask for, hold and use, as the TRES texts of the accounting tables.

Texts are `name=amount` lists: memory in MiB for requests and allocations; in usage columns
CPU time in milliseconds and sizes in bytes, as Slurm's data parser gives them.
"""

from collections.abc import Iterable, Mapping

from pyslurm_ng.base.tres import TresError, parse_gres
from pyslurm_ng.model.job import JobRequest, NodeAlloc, Usage


def tres_text(amounts: Mapping[str, int]) -> str:
    """Return `name=amount,...` in alphabetical order of the words, zeros left out."""
    return ",".join(sorted(f"{name}={amount}" for name, amount in amounts.items() if amount))


def parse_amounts(text: str) -> dict[str, int]:
    """Undo `tres_text`."""
    pairs = (word.rpartition("=") for word in text.split(",") if word)
    return {name: int(amount) for name, _, amount in pairs}


def requested_counts(request: JobRequest) -> tuple[int, int]:
    """Return the nodes and CPUs a request needs at least, before anything is allocated."""
    nodes = max(1, request.nodes_min)
    tasks = request.ntasks
    if not tasks:
        tasks = nodes * request.ntasks_per_node if request.ntasks_per_node else nodes
    cpus = max(tasks, nodes) * max(1, request.cpus_per_task)
    cpus = max(cpus, nodes * request.mincpus)
    gpus = requested_gres(request, nodes, tasks).get("gres/gpu", 0)
    return nodes, max(cpus, gpus * request.cpus_per_gpu)


def requested_gres(request: JobRequest, nodes: int, tasks: int) -> dict[str, int]:
    """Return generic resources asked for in total, as `gres/NAME` and `gres/NAME:TYPE`."""
    amounts: dict[str, int] = {}
    parts = [(request.gres, nodes), (request.tres_per_task, tasks)]
    for text, factor in (
        (request.gpus, 1),
        (request.gpus_per_node, nodes),
        (request.gpus_per_task, tasks),
        (request.gpus_per_socket, nodes * max(1, request.sockets_per_node)),
    ):
        if text:
            lists = ",".join(word if "gpu" in word else f"gpu:{word}" for word in text.split(","))
            parts.append((lists, factor))
    for text, factor in parts:
        words = [word for word in text.split(",") if word and not word.startswith("cpu")]
        try:
            resources = parse_gres(",".join(words))
        except TresError:
            # The submit rule has checked it; a text of a newer grammar only loses its amount.
            continue
        for resource in resources:
            for name in {f"gres/{resource.name}", resource.tres_name}:
                amounts[name] = amounts.get(name, 0) + resource.amount * factor
    return amounts


def requested_tres(
    request: JobRequest, tracked: Iterable[str], weights: str
) -> tuple[int, int, dict[str, int]]:
    """Return requested nodes, CPUs and TRES; generic resources only if tracked."""
    nodes, cpus = requested_counts(request)
    mem_mib = request.mem_per_node_mib * nodes or request.mem_per_cpu_mib * cpus
    amounts = {"cpu": cpus, "mem": mem_mib, "node": nodes}
    wanted = requested_gres(request, nodes, request.ntasks or nodes)
    if not mem_mib and request.mem_per_gpu_mib:
        amounts["mem"] = request.mem_per_gpu_mib * wanted.get("gres/gpu", 0)
    amounts |= {name: wanted[name] for name in tracked if name in wanted}
    amounts["billing"] = billing(amounts, weights)
    return nodes, cpus, amounts


def allocated_tres(
    nodes: Iterable[NodeAlloc], tracked: Iterable[str], weights: str | None
) -> dict[str, int]:
    """Return the TRES held on nodes; billing only when `weights` is given (steps have none)."""
    amounts = {"cpu": 0, "mem": 0, "node": 0}
    held: dict[str, int] = {}
    for node in nodes:
        amounts["cpu"] += node.cpus
        amounts["mem"] += node.mem_mib
        amounts["node"] += 1
        for gres in node.gres:
            for name in {f"gres/{gres.name}", f"gres/{gres.name}:{gres.type}"}:
                if not name.endswith(":"):
                    held[name] = held.get(name, 0) + gres.count
    amounts |= {name: held[name] for name in tracked if name in held}
    if weights is not None:
        amounts["billing"] = billing(amounts, weights)
    return amounts


def billing(amounts: Mapping[str, int], weights: str) -> int:
    """Return the billing amount: CPUs, or the weighted sum of `TRESBillingWeights`.

    A weight may end in K, M, G, T: then it counts per that unit of memory (MiB is the base).
    """
    if not weights:
        return amounts.get("cpu", 0)
    total = 0.0
    for word in weights.split(","):
        name, _, weight = word.strip().partition("=")
        power = "MGTP".find(weight[-1:].upper()) if weight[-1:].isalpha() else 0
        number = weight.rstrip("KMGTPkmgtp")
        try:
            factor = float(number) * (1024 if weight[-1:].upper() == "K" else 1)
        except ValueError:
            continue
        total += amounts.get(name.lower(), 0) * factor / 1024 ** max(0, power)
    return int(total)


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
