"""QOS whose limits on TRES are percentages: of the partition that has it as its own, or of all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.model.amounts import billing
from pyslurm_ng.model.assoc import Qos, with_limits
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.node import effective_cpus, schedulable_mem_mib
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.sched.frame.answers import answers

_PERCENTAGES = (
    "grp_tres",
    "max_tres_per_job",
    "max_tres_per_node",
    "max_tres_per_user",
    "max_tres_per_account",
    "min_tres_per_job",
)


def absolute_qos(cluster: Cluster) -> Mapping[str, Qos]:
    """Return all QOS with limits in amounts; those with flag Relative have percentages."""
    if not any("Relative" in qos.flags for qos in cluster.qos.values()):
        return cluster.qos
    return {name: _absolute(qos, cluster) for name, qos in cluster.qos.items()}


def owner_of(cluster: Cluster, name: str) -> Partition | None:
    """Return the partition that has a QOS as its own; with flag Relative it is the only one."""
    return next(
        (partition for partition in cluster.partitions.values() if partition.qos == name), None
    )


def _absolute(qos: Qos, cluster: Cluster) -> Qos:
    if "Relative" not in qos.flags:
        return qos
    owner = owner_of(cluster, qos.name)
    key = ("totals", owner.name if owner is not None else "")
    kept = answers(cluster)
    totals = kept.get(key)
    if totals is None:
        if owner is not None:
            totals = _totals(cluster, owner.node_ids, owner.billing_terms)
        else:
            totals = _totals(cluster, range(len(cluster.nodes)), "")
        kept[key] = totals
    assert isinstance(totals, dict)
    return with_limits(qos, **_amounts(qos, totals | _licenses(cluster)))


def _amounts(qos: Qos, totals: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Return percentages as amounts; of what the cluster has nothing there is no limit."""
    return {
        field: {
            name: percent if percent == INFINITE else totals[name] * percent // 100
            for name, percent in getattr(qos.limits, field).items()
            if name in totals
        }
        for field in _PERCENTAGES
    }


def _totals(cluster: Cluster, node_ids: Iterable[int], terms: str) -> dict[str, int]:
    """Return what jobs may have of some nodes, drained or not."""
    nodes = cluster.nodes_of(node_ids)
    totals = {
        "cpu": sum(effective_cpus(node.spec) for node in nodes),
        "mem": sum(schedulable_mem_mib(node.spec) for node in nodes),
        "node": len(nodes),
    }
    for node in nodes:
        for gres in node.spec.gres:
            for name in {f"gres/{gres.name}", f"gres/{gres.name}:{gres.type}".rstrip(":")}:
                totals[name] = totals.get(name, 0) + gres.count
    totals["billing"] = billing(totals, terms)
    return totals


def _licenses(cluster: Cluster) -> dict[str, int]:
    return {f"license/{name}": count for name, count in cluster.licenses.items()}
