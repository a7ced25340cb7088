"""What keeps nodes and licences from a waiting job until it starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from pyslurm_ng.model.license_server import license_counts
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.explain.probe import Probe
from pyslurm_ng.sched.frame.job_records import NO_END_US, Running
from pyslurm_ng.sched.frame.reserved import END, OUTSIDE, REST, closed_times
from pyslurm_ng.sched.frame.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Holder:
    """What keeps nodes, or licences, that the job is to get.

    `kind`: "job" runs there, "cleaning" is one that is over and whose nodes clean up, "planned" a
    waiting job that goes first, "reservation" an advance reservation, "end" that of the job's own
    one. `until_us` is NO_END_US for no end, 0 where nodes clean up.
    """

    kind: str
    job_id: int
    name: str
    node_ids: tuple[int, ...]
    cpus: int
    from_us: int
    until_us: int
    licenses: str = ""


def holders(snapshot: Snapshot, probed: Probe) -> list[Holder]:
    """Return the holders of nodes that a job shall get; those that leave last come first.

    A job that finds no room at all is kept from any node that suits it.
    """
    node_ids = frozenset(probed.nodes) or _suitable(probed.demand)
    until_us = probed.start_us
    holders_found = [*_running(snapshot, node_ids, until_us), *_planned(snapshot, probed, node_ids)]
    end_us = probed.demand.end_us(max(probed.start_us, snapshot.now_us))
    for closed in closed_times(snapshot.reservations, OUTSIDE):
        nodes = tuple(node_id for node_id in closed.node_ids if node_id in node_ids)
        is_end = closed.name.startswith(END)
        if closed.name == REST or (is_end and closed.begin_us <= snapshot.now_us):
            continue
        if nodes and closed.begin_us < end_us and closed.end_us > snapshot.now_us:
            kind = "end" if is_end else "reservation"
            name = closed.name.removeprefix(END)
            holders_found.append(Holder(kind, 0, name, nodes, 0, closed.begin_us, closed.end_us))
    reservation = snapshot.only_reservation
    if reservation is not None and probed.start_us >= NO_END_US > snapshot.until_us:
        nodes = tuple(node_id for node_id in reservation.node_ids if node_id in node_ids)
        holders_found.append(
            Holder("end", 0, reservation.name, nodes, 0, snapshot.until_us, NO_END_US)
        )
    if probed.start_us >= NO_END_US:
        # What ends makes no room for it, so that is not what holds it.
        holders_found = [holder for holder in holders_found if holder.until_us >= NO_END_US]
    return sorted(holders_found, key=lambda holder: (-holder.until_us, holder.kind, holder.job_id))


def license_holders(snapshot: Snapshot, probed: Probe, names: frozenset[str]) -> list[Holder]:
    """Return the jobs that have these licences until the job is to get them, those that end last
    first."""

    def of_these(counts: Iterable[tuple[str, int]]) -> str:
        return ",".join(f"{name}:{count}" for name, count in counts if name in names)

    until_us, now_us, rows = probed.start_us, snapshot.now_us, []
    for job in snapshot.running:
        licences = of_these(license_counts(job.licenses)) if job.licenses else ""
        if licences and job.end_us <= until_us:
            nodes = tuple(alloc.node_id for alloc in job.nodes)
            rows.append(replace(holder_of(job, nodes), licenses=licences))
    starting = {start.job_id for start in probed.plan.starts}
    for job_id, demand in dict(reversed(probed.before)).items():
        licences = of_these(demand.licenses) if demand.licenses else ""
        known_us = probed.plan.expected_start_us.get(job_id, NO_END_US)
        start_us = now_us if job_id in starting else known_us
        if licences and now_us <= start_us < until_us:
            end_us = demand.end_us(start_us)
            rows.append(Holder("planned", job_id, "", (), 0, start_us, end_us, licences))
    return sorted(rows, key=lambda holder: (-holder.until_us, holder.kind, holder.job_id))


def _suitable(demand: Demand) -> frozenset[int]:
    return frozenset(node_id for node_id, suits in enumerate(demand.mask) if suits)


def _running(snapshot: Snapshot, node_ids: frozenset[int], until_us: int) -> Iterator[Holder]:
    for job in snapshot.running:
        if job.end_us <= until_us or until_us >= NO_END_US:
            nodes = tuple(alloc.node_id for alloc in job.nodes if alloc.node_id in node_ids)
            if nodes:
                yield holder_of(job, nodes)


def holder_of(job: Running, nodes: tuple[int, ...]) -> Holder:
    """Return what an active job keeps of some nodes."""
    kind = "job" if job.end_us else "cleaning"
    cpus = sum(alloc.cpus for alloc in job.nodes if alloc.node_id in nodes)
    return Holder(kind, job.job_id, "", nodes, cpus, 0, job.end_us)


def _planned(snapshot: Snapshot, probed: Probe, node_ids: frozenset[int]) -> Iterator[Holder]:
    """Yield the jobs ahead that are to use the same nodes before."""
    plan, now_us = probed.plan, snapshot.now_us
    demands = dict(reversed(probed.before))
    for start in plan.starts:
        nodes = tuple(alloc.node_id for alloc in start.nodes if alloc.node_id in node_ids)
        if nodes and start.job_id in demands:
            end_us = demands[start.job_id].end_us(now_us)
            cpus = sum(alloc.cpus for alloc in start.nodes if alloc.node_id in node_ids)
            yield Holder("planned", start.job_id, "", nodes, cpus, now_us, end_us)
    for job_id, demand in demands.items():
        start_us = plan.expected_start_us.get(job_id, NO_END_US)
        if job_id not in plan.planned_nodes or not now_us <= start_us < probed.start_us:
            continue
        nodes = tuple(node_id for node_id in plan.planned_nodes[job_id] if node_id in node_ids)
        if nodes:
            end_us = demand.end_us(start_us)
            yield Holder("planned", job_id, "", nodes, 0, start_us, end_us)
