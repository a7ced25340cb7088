"""Ports of a step (--resv-ports): out of MpiParams=ports=..., the same on all its nodes. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.model.cluster import Cluster

_LOWEST, _HIGHEST = 1, 65535


def reserve_ports(
    cluster: Cluster, node_ids: Sequence[int], count: int, mpi_params: Sequence[str], turn: int
) -> tuple[int, ...] | Reject:
    """Return ports that no other step has on these nodes, ascending.

    Args:
        turn: where in the range to begin to look; steps that follow each other get different
            ports, as those of the one before may not be free at once in the kernel.
    """
    ports = _range(mpi_params)
    if not ports or count > len(ports):
        return Reject(Errno.ESLURM_PORTS_INVALID)
    taken: set[int] = set()
    for node_id in node_ids:
        for job_id in cluster.node_index.use[node_id].allocs:
            for step in cluster.jobs[job_id].steps.values():
                if step.ports and any(alloc.node_id == node_id for alloc in step.nodes):
                    taken.update(step.ports)
    start = turn % len(ports)
    free = [port for port in (*ports[start:], *ports[:start]) if port not in taken]
    if len(free) < count:
        return Reject(Errno.ESLURM_PORTS_BUSY)
    return tuple(sorted(free[:count]))


def has_ports(mpi_params: Sequence[str]) -> bool:
    """Return whether MpiParams names ports for steps."""
    return bool(_range(mpi_params))


def _range(mpi_params: Sequence[str]) -> range:
    """Return the ports of MpiParams; none where it names none."""
    for word in mpi_params:
        name, _, value = word.partition("=")
        low, _, high = value.partition("-")
        if name.lower() == "ports" and low.isdecimal() and high.isdecimal():
            return range(max(_LOWEST, int(low)), min(_HIGHEST, int(high)) + 1)
    return range(0)
