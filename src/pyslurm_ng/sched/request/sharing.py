"""Which jobs may be on a node together: --exclusive=user, =mcs and =topo, and what partitions say.

On a timeline a job that shares only with its owner's jobs takes its nodes whole, and one of `topo`
the whole leaf switch or block. So all others are kept away without a check of their owners. Its
owner's jobs may join it on the free parts of those nodes, if no other job has been promised them
for as long: see `timeline.owner_room`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from pyslurm_ng.base.numbers import (
    REQ_EXCLUSIVE,
    REQ_EXCLUSIVE_MCS,
    REQ_EXCLUSIVE_TOPO,
    REQ_EXCLUSIVE_USER,
)
from pyslurm_ng.model.job import JobRequest, NodeAlloc
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.rows import exclusive_flags
from pyslurm_ng.model.topology import Topology, topology_of, units_in_order

USER, MCS, TOPO = "USER", "MCS", "TOPO"


class Tenant(NamedTuple):
    """Whose job it is, and with whom it shares nodes; `sharing` is empty: with anybody."""

    uid: int = -1
    sharing: str = ""
    label: str = ""
    partition: str = ""


NOBODY = Tenant()
_tenant = lru_cache(4096)(Tenant)  # jobs of one user share it


class Guest(NamedTuple):
    """One job on one node: until when, and how many CPUs the timeline has for it.

    `alloc` is what it has there, or None if no job needs to know; `start_us` is 0 if it runs.
    """

    tenant: Tenant
    end_us: int
    cpus: int
    alloc: NodeAlloc | None = None
    start_us: int = 0


def sharing_of(request: JobRequest, partition: Partition | None) -> str:
    """Return with whom a job shares: USER, MCS, TOPO; "" for anybody, or for whole nodes."""
    flags = exclusive_flags(request, partition)
    rule = partition.exclusive if partition is not None else "NO"
    if flags & REQ_EXCLUSIVE_TOPO or rule == TOPO:
        return TOPO
    if flags & REQ_EXCLUSIVE or rule == "NODE":
        return ""
    if flags & REQ_EXCLUSIVE_USER or rule == USER:
        return USER
    return MCS if flags & REQ_EXCLUSIVE_MCS else ""


def tenant_of(request: JobRequest, partition: Partition | None, uid: int) -> Tenant:
    """Return the tenant that a job of a user is in a partition."""
    name = partition.name if partition is not None else ""
    return _tenant(uid, sharing_of(request, partition), request.mcs_label, name)


def may_share(tenant: Tenant, other: Tenant) -> bool:
    """Return whether jobs of two tenants may be on a node at the same time."""
    rules = (tenant.sharing, other.sharing)
    if TOPO in rules or (USER in rules and tenant.uid != other.uid):
        return False
    return not (MCS in rules or USER in rules) or tenant.label == other.label


class Hosts:
    """Users, and labels, whose jobs share nodes with their own only: counted as jobs come and go.

    Both jobs that run and those that wait: others of the same owner are planned beside either.
    """

    def __init__(self) -> None:
        self._of: dict[int, frozenset[int | str]] = {}  # by job
        self._counts: Counter[int | str] = Counter()
        self._keys: frozenset[int | str] = frozenset()

    def note(self, job_id: int, tenants: Iterable[Tenant]) -> None:
        """Enter what tenant a job is or may become; none once it is over."""
        keys = frozenset(
            tenant.label if tenant.sharing == MCS else tenant.uid
            for tenant in tenants
            if tenant.sharing in (USER, MCS)
        )
        before = self._of.get(job_id)
        if (before is None and not keys) or before == keys:
            return
        self._of.pop(job_id, None)
        if keys:
            self._of[job_id] = keys
        for key in keys:
            self._counts[key] += 1
        for key in before or ():
            self._counts[key] -= 1
            if not self._counts[key]:
                del self._counts[key]

    def keys(self) -> frozenset[int | str]:
        """Return these users and labels, the same object as long as they are the same."""
        if self._keys != self._counts.keys():
            self._keys = frozenset(self._counts)
        return self._keys

    def clear(self) -> None:
        """Forget all jobs."""
        self._of, self._counts, self._keys = {}, Counter(), frozenset()


class Units:
    """The leaf switch or block of each node, as each partition sees the network."""

    def __init__(self, topologies: Sequence[Topology], partitions: Mapping[str, Partition]) -> None:
        self._topologies = topologies
        self._partitions = partitions
        self._known: dict[str, dict[int, tuple[int, ...]]] = {}

    def beside(self, partition_name: str, node_ids: Iterable[int]) -> set[int]:
        """Return some nodes and all others in their units."""
        known = self._known.get(partition_name)
        if known is None:
            known = self._known[partition_name] = {}
            topology = topology_of(self._topologies, self._partitions.get(partition_name))
            for unit in units_in_order(topology) if topology is not None else ():
                known |= dict.fromkeys(unit, unit)
        return {other for node_id in node_ids for other in known.get(node_id, (node_id,))}


class Neighbours:
    """The jobs on each node now."""

    def __init__(self, units: Units) -> None:
        self._units = units
        self._guests: dict[int, list[Guest]] = {}
        self.is_any_particular = False

    def add(
        self,
        tenant: Tenant,
        cpus: Mapping[int, int],
        end_us: int,
        allocs: Iterable[NodeAlloc] = (),
    ) -> None:
        """Enter a job; `cpus` it holds of each of its nodes, and as `allocs` all it has there."""
        node_ids: Iterable[int] = cpus
        if tenant.sharing:
            self.is_any_particular = True
            if tenant.sharing == TOPO:
                node_ids = self._units.beside(tenant.partition, cpus)
        alloc_of = {alloc.node_id: alloc for alloc in allocs}
        for node_id in node_ids:
            guest = Guest(tenant, end_us, cpus.get(node_id, 0), alloc_of.get(node_id))
            self._guests.setdefault(node_id, []).append(guest)

    def on(self, node_id: int) -> Sequence[Guest]:
        """Return the jobs on a node."""
        return self._guests.get(node_id, ())

    def nodes(self) -> list[int]:
        """Return the nodes with jobs."""
        return sorted(self._guests)

    def is_open(self, node_id: int, tenant: Tenant) -> bool:
        """Return whether a job of a tenant may go to a node now."""
        if tenant.sharing == TOPO:
            beside = self._units.beside(tenant.partition, (node_id,))
            return not any(self._guests.get(other) for other in beside)
        return all(may_share(tenant, guest.tenant) for guest in self._guests.get(node_id, ()))


class PartitionCores:
    """Cores that jobs of partitions with MaxCPUsPerNode or MaxCPUsPerSocket have of each node."""

    def __init__(self, partitions: Mapping[str, Partition], unlimited: int) -> None:
        self._capped = {
            name
            for name, partition in partitions.items()
            if min(partition.max_cpus_per_node, partition.max_cpus_per_socket) < unlimited
        }
        self._used: dict[int, dict[str, int]] = {}

    def add(self, partition_name: str, allocs: Iterable[NodeAlloc]) -> None:
        """Enter what a job has of its nodes."""
        if partition_name in self._capped:
            for alloc in allocs:
                used = self._used.setdefault(alloc.node_id, {})
                cores = int.from_bytes(alloc.cores, "little")
                used[partition_name] = used.get(partition_name, 0) | cores

    def on(self, node_id: int) -> dict[str, int]:
        """Return masks of the cores of a node that each of those partitions uses."""
        return dict(self._used.get(node_id, {}))
