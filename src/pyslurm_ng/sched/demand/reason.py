"""Why jobs wait, in a sentence with numbers."""

from __future__ import annotations

from collections.abc import Sequence

from pyslurm_ng.base.numbers import MINUTE_US, SECOND_US
from pyslurm_ng.base.units import plural
from pyslurm_ng.model.states import Reason
from pyslurm_ng.model.topology import Topology
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame.plan import Wait
from pyslurm_ng.sched.request.need import Need

_NEAR = {
    "block": "in one block",
    "ring": "side by side on one ring",
    "torus3d": "in one of the shapes of a torus",
    "tree": "below one switch",
}
PASS_ENDED = Wait(Reason.Priority, "the pass ended before this job's turn")
ARRAY_LIMIT = Wait(Reason.JobArrayTaskLimit, "as many tasks run as the array's limit allows")


def preempting(job_ids: Sequence[int]) -> Wait:
    """Return the reason of a job for which others are leaving."""
    names = ",".join(map(str, job_ids[:8])) + ("..." if len(job_ids) > 8 else "")
    if not job_ids:
        return Wait(Reason.Resources, "starts when what it preempted others for is free")
    return Wait(Reason.Resources, f"starts when preempted job{'s' * (len(job_ids) > 1)} {names} "
                f"{'have' if len(job_ids) > 1 else 'has'} left")  # fmt: skip


def minutes(duration_us: int) -> str:
    """Return a time as people say it: 20 s, 45 min, 3 h 5 min, 2 days 4 h; parts are rounded up."""
    if 0 < duration_us < MINUTE_US:
        return f"{-(-duration_us // SECOND_US)} s"
    whole = max(0, -(-duration_us // MINUTE_US))
    hours, minute_count = divmod(whole, 60)
    days, hours = divmod(hours, 24)
    if days:
        return plural(days, "day") + (f" {hours} h" if hours else "")
    if hours:
        return f"{hours} h" + (f" {minute_count} min" if minute_count else "")
    return f"{minute_count} min"


def needs(need: Need) -> str:
    """Return what a job needs, in words."""
    words = [_nodes(need)]
    words.append(f"for {plural(need.tasks, 'task')} of {plural(need.cpus_per_task, 'CPU')}")
    if need.mem_per_node_mib:
        words.append(f"and {need.mem_per_node_mib} MiB per node")
    elif need.mem_per_cpu_mib:
        words.append(f"and {need.mem_per_cpu_mib} MiB per CPU")
    for where, wants in (
        ("per node", need.gres_per_node),
        ("per task", need.gres_per_task),
        ("in all", need.gres_total),
    ):
        for name, kind, count in wants:
            words.append(f"with {count} x {kind or name} {where}")
    words += _choice(need)
    return " ".join(words)


def _nodes(need: Need) -> str:
    """Return how many nodes a job may have, in words."""
    what = "whole node" if need.is_exclusive else "node"
    most = min(need.nodes_max, max(need.tasks, need.nodes_min))
    if most == need.nodes_min:
        return plural(most, what)
    if most == need.tasks:
        return f"{need.nodes_min} or more {what}s"
    return f"{need.nodes_min} to {most} {what}s"


def _choice(need: Need) -> list[str]:
    """Return what else a job asks of its nodes together."""
    words = []
    counts = [sum(count for _, count in way.counts) for way in need.features]
    if any(counts):
        words.append(f"with features on {plural(max(counts), 'node')} of them")
    elif len(need.features) > 1 and all(way.every is not None for way in need.features):
        words.append("all with the same of several features")
    if need.contiguous:
        words.append("side by side")
    sharing = {
        "USER": "shared with jobs of its user only",
        "MCS": "shared with jobs of its label only",
        "TOPO": "in leaf switches or blocks without other jobs",
    }
    if need.sharing:
        words.append(sharing[need.sharing])
    return words


def resources(demand: Demand) -> Wait:
    """Return the reason of the first job of a partition that has to wait for room."""
    return Wait(Reason.Resources, f"needs {needs(demand.need)}; {_in_service(demand)}")


def _in_service(demand: Demand) -> str:
    """Return how many nodes of its partition a job could have, in words."""
    suitable, total, name = demand.suitable, len(demand.partition.node_ids), demand.partition.name
    if total == 1:
        return f"the one node of {name} " + (
            "is in service and suits" if suitable else "is out of service or does not suit"
        )
    if suitable == 1:
        return f"1 of {total} nodes of {name} is in service and suits"
    return f"{suitable} of {total} nodes of {name} are in service and suit"


def topology(need: Need, network: Topology | None, partition_name: str = "") -> Wait:
    """Return the reason of a job with enough nodes free, but not near one another.

    Args:
        partition_name: its nodes never lie as the job needs, with any other jobs there.
    """
    whole = need.segment or need.nodes_min
    words = f"room for {plural(whole, 'node')} {_NEAR[network.kind if network else 'tree']}"
    if need.switches:
        words = f"{plural(need.nodes_min, 'node')} below {plural(need.switches, 'leaf switch')}"
    elif need.segment:
        words += f", {plural(need.nodes_min // need.segment, 'time')}"
    room = f"{partition_name} has as many" if partition_name else "as many are free"
    text = f"needs {needs(need)}; {room}, but it needs {words}"
    return Wait(Reason.No_suitable_topology_unit_found, text)


def licenses(demand: Demand, free: dict[str, int]) -> Wait:
    """Return the reason of a job that has to wait for licences."""
    for name, count in demand.licenses:
        if free.get(name, 0) < count:
            text = f"needs {plural(count, 'licence')} {name}; {max(0, free.get(name, 0))} free"
            return Wait(Reason.Licenses, text)
    return Wait(Reason.Licenses, "the licences it needs are promised to jobs before it")


def behind(job_id: int, partition_name: str) -> Wait:
    """Return the reason of the jobs that wait behind another one."""
    text = f"job {job_id} of higher priority waits in {partition_name}"
    return Wait(Reason.Priority, text)


def never(demand: Demand) -> Wait:
    """Return the reason of a job for which there is no room in the whole window."""
    text = f"needs {needs(demand.need)}; {_in_service(demand)}, and no time was found"
    return Wait(Reason.Resources, text)


def never_together(demands: Sequence[Demand]) -> Wait:
    """Return the reason of components that have room one by one, but never all at once."""
    needed = [demand.need for demand in demands]
    amounts = [
        plural(sum(need.nodes_min for need in needed), "node"),
        plural(sum(need.tasks * need.cpus_per_task for need in needed), "CPU"),
    ]
    licences: dict[str, int] = {}
    for demand in demands:
        for name, count in demand.licenses:
            licences[name] = licences.get(name, 0) + count
    amounts += [f"{plural(count, 'licence')} {name}" for name, count in sorted(licences.items())]
    text = f"no time was found when all components have room: together they need {amounts[0]}"
    return Wait(Reason.Resources, ", ".join([text, *amounts[1:]]))


def deadline(deadline_us: int, now_us: int) -> Wait:
    """Return the reason of a job that no start found would let end by its deadline."""
    duration = minutes(deadline_us - now_us)
    text = f"its deadline is {duration} away; there is no room for it before that"
    return Wait(Reason.DeadLine, text)
