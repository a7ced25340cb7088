"""A pass that starts jobs in priority order on the first nodes that fit.

Strict inside a partition: once a job must wait for resources, those behind it in the same
partition wait for priority, and those behind it in others get none of that partition's nodes. A
job that waits inside a reservation holds up those of the same reservation only. The planner hands
over to it with SchedulerType=sched/builtin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pyslurm_ng.base.numbers import INFINITE, MINUTE_US, NO_VAL
from pyslurm_ng.model import task_ranges
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.model.license_server import license_counts
from pyslurm_ng.model.partition import Partition, opened
from pyslurm_ng.model.reservation import NOTHING, WHOLE, NodePart
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.cons_tres.allot import allot
from pyslurm_ng.sched.cons_tres.free_node import FreeNode, free_node
from pyslurm_ng.sched.cons_tres.hiding import Hidden, hide
from pyslurm_ng.sched.cons_tres.obstacle import (
    AWAY,
    kept as reserved_wait,
    kept_for_others,
    unplaceable,
)
from pyslurm_ng.sched.cons_tres.select import batch_node, choose
from pyslurm_ng.sched.cons_tres.topology import Layout, layouts_of
from pyslurm_ng.sched.demand import het, reason as why_wait
from pyslurm_ng.sched.demand.demand import limit_in, limit_us, verdict
from pyslurm_ng.sched.frame import reserved
from pyslurm_ng.sched.frame.job_records import NO_END_US, Waiting
from pyslurm_ng.sched.frame.measures import Ask, given, least
from pyslurm_ng.sched.frame.plan import JobFaults, Plan, Start, Wait
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.priority import Ranking
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.request.features import suits
from pyslurm_ng.sched.request.need import Need, need_of
from pyslurm_ng.sched.request.sharing import Neighbours, PartitionCores, Units, tenant_of


def plan(
    snapshot: Snapshot,
    policy: Policy,
    budget: int = 1 << 62,
    fairshare: Mapping[int, float] | None = None,
) -> Plan:
    """Return the jobs that start now and why each other eligible job waits.

    Args:
        budget: node tests to spend; jobs beyond it wait for `Priority`.
    """
    return _Pass(snapshot, policy, budget, fairshare).run()


_LOOKS_AT_OBSTACLES = 16  # each at every node of a partition
_ABOVE_TIERS = 1 << 16  # jobs with a reservation come before all others

# Of nodes that a job may use in part only: what it is bound to there, and what is kept from it.
Bounds = dict[int, tuple[NodePart, NodePart]]
# The nodes a job may use in one reservation or outside (None: any), those kept from it, the others.
Room = tuple[frozenset[int] | None, frozenset[int], Bounds]


class _Pass:
    """One pass; `free` holds the nodes as they will be after the starts decided so far."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        budget: int,
        fairshare: Mapping[int, float] | None,
    ) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.budget = budget
        self.ranking = Ranking(snapshot, policy, fairshare)
        self.plan = Plan()
        self.free: dict[int, FreeNode] = {}
        self._hidden: list[Hidden] = []  # what others keep from this job
        self.closed: dict[tuple[str, str], Wait] = {}  # by partition, or by reservation
        self.shut: set[int] = set()  # nodes of the partitions closed
        self.licenses = dict(snapshot.licenses_free)
        self.inside = {name: dict(one.left) for name, one in snapshot.licenses_inside.items()}
        self.components: dict[int, dict[int, tuple[Waiting, list[Partition]]]] = {}  # by leader
        self.layouts: dict[str, Layout] = {}
        self.neighbours = Neighbours(Units(snapshot.topologies, snapshot.partitions))
        self.looks = _LOOKS_AT_OBSTACLES
        self.caps = PartitionCores(snapshot.partitions, INFINITE)
        for item in snapshot.running:
            cpus = {alloc.node_id: alloc.cpus for alloc in item.nodes}
            self.neighbours.add(item.tenant, cpus, item.end_us)
            self.caps.add(item.tenant.partition, item.nodes)
        if snapshot.topologies:
            ids = [node_id for node_id, spec in enumerate(snapshot.specs) if spec is not None]
            ids.sort(key=lambda node_id: (snapshot.weights[node_id], node_id))
            position = {node_id: place for place, node_id in enumerate(ids)}
            weights = [snapshot.weights[node_id] for node_id in ids]
            self.layouts = layouts_of(
                snapshot.topologies, snapshot.partitions.values(), position, weights
            )

    def run(self) -> Plan:
        queue = sorted(self._entries(), key=lambda entry: entry[:5])
        done: set[int] = set()
        for _, _, _, job_id, _, job, partition in queue:
            if job_id in done:
                continue
            try:
                if job.het_job_id:
                    self._see_component(job, partition)
                    continue
                wait = self._try(job, partition)
            except Exception as error:
                raise JobFaults({job_id: error}) from error
            if wait is None:
                done.add(job_id)
                self.plan.waits.pop(job_id, None)
            else:
                self.plan.waits.setdefault(job_id, wait)
        return self.plan

    def _see_component(self, job: Waiting, partition: Partition) -> None:
        """Note a component and where it may run; with the last one, start all or none."""
        seen = self.components.setdefault(job.het_job_id, {})
        seen.setdefault(job.job_id, (job, []))[1].append(partition)
        places = sum(len(partitions) for _, partitions in seen.values())
        known = sum(
            name in self.snapshot.partitions
            for item, _ in seen.values()
            for name in item.partitions
        )
        if places < known:
            return
        waits = self.plan.waits
        if len(seen) < job.het_size:
            wait = het.incomplete([other for other, _ in seen.values()])
            waits.update(dict.fromkeys(seen, wait))
            return
        free = {
            node_id: replace(node, gres_busy=dict(node.gres_busy), gres_used=dict(node.gres_used))
            for node_id, node in self.free.items()
        }
        licenses, first = dict(self.licenses), len(self.plan.starts)
        for job_id in sorted(seen):
            blocked = self._try_places(*seen[job_id])
            if blocked is None:
                continue
            del self.plan.starts[first:]
            self.free, self.licenses = free, licenses
            waits.update(dict.fromkeys(seen, blocked))
            return
        starts = [replace(item, het_job_id=job.het_job_id) for item in self.plan.starts[first:]]
        self.plan.starts[first:] = starts
        for job_id in seen:
            waits.pop(job_id, None)

    def _try_places(self, job: Waiting, partitions: list[Partition]) -> Wait | None:
        first: Wait | None = None
        for partition in partitions:
            wait = self._try(job, partition)
            if wait is None:
                return None
            first = first or wait
        return first

    def _entries(self) -> Iterator[tuple[int, int, int, int, int, Waiting, Partition]]:
        """Yield one entry per job and partition, led by its place in the queue."""
        for job in self.snapshot.waiting:
            for place, name in enumerate(job.partitions):
                partition = self.snapshot.partitions.get(name)
                if partition is None:
                    self.plan.waits[job.job_id] = Wait(
                        Reason.PartitionDown, f"partition {name} no longer exists"
                    )
                    continue
                try:
                    priority = self.ranking.priority(job, partition)
                except Exception as error:
                    raise JobFaults({job.job_id: error}) from error
                self.plan.priorities.setdefault(job.job_id, priority)
                tier = -partition.priority_tier
                if job.request.reservation:
                    tier -= _ABOVE_TIERS
                yield tier, -priority, job.submit_us, job.job_id, place, job, partition

    def _try(self, job: Waiting, partition: Partition) -> Wait | None:
        """Start `job`, or as many tasks of it as fit; return why (the rest of) it waits."""
        partition = opened(partition, self.snapshot.qos.get(job.qos))
        need = self._need(job, partition)
        hopeless = verdict(self.snapshot, job, partition, need)
        if hopeless is not None:
            return hopeless
        if not job.tasks_left:
            return why_wait.ARRAY_LIMIT
        blocked = self.closed.get(_line(job, partition))
        if blocked is not None:
            return blocked
        if self.plan.tested >= self.budget:
            return why_wait.PASS_ENDED
        return self._start(job, partition, need)

    def _need(self, job: Waiting, partition: Partition) -> Need:
        need = need_of(
            job.request,
            partition,
            self.snapshot.node_by_name,
            self.policy.selection,
            self.snapshot.extras,
        )
        if job.switches:
            need = replace(need, switches=job.switches)
        return need

    def _start(self, job: Waiting, partition: Partition, need: Need) -> Wait | None:
        tasks = task_ranges.tasks(job.array_pending) if job.array_pending else iter((-1,))
        rooms = self._rooms(job, partition)
        if not rooms:
            return self._await_reservation(job)
        tenant = tenant_of(job.request, partition, job.uid)
        quotas = self.snapshot.limits
        own_min = limit_in(job.request, job.time_limit_min, partition)
        longest_us = limit_us(own_min, partition)
        limit_min = INFINITE if longest_us >= NO_END_US else longest_us // MINUTE_US
        ask = Ask(least(need, job.request.licenses, partition), partition, limit_min)
        for _ in range(job.tasks_left):
            if quotas is not None:
                over = quotas.may_start(job, ask)
                if over is not None:
                    return self._over(partition, over)
            missing = self._missing_license(job)
            if missing:
                return Wait(Reason.Licenses, f"licence {missing} is in use")
            chosen = self._choose(job, partition, need, rooms)
            if chosen is None:
                return self._blocked(job, partition, need, rooms)
            if quotas is not None:
                gets = given(_would_get(need, chosen), job.request.licenses, partition, limit_min)
                over = quotas.may_start(job, gets)
                if over is not None:
                    self._unhide()
                    return self._over(partition, over)
                quotas.took(job, gets)
            allocs = allot(need, chosen)
            self._unhide()
            self.neighbours.add(tenant, {alloc.node_id: alloc.cpus for alloc in allocs}, 0)
            licenses = self._licenses_of(job)
            self._take_licenses(job, licenses)
            self.plan.starts.append(
                Start(
                    job_id=job.job_id,
                    task_id=next(tasks),
                    partition=partition.name,
                    nodes=allocs,
                    batch_node_id=batch_node(job.request, allocs, self.snapshot.features),
                    total_tasks=max(need.tasks, sum(alloc.tasks for alloc in allocs)),
                    time_limit_min=own_min if own_min != job.time_limit_min else NO_VAL,
                    tenant=tenant,
                    licenses=licenses if "|" in job.request.licenses else "",
                )
            )
        if job.array_pending and task_ranges.count(job.array_pending) > job.tasks_left:
            return why_wait.ARRAY_LIMIT
        return None

    def _over(self, partition: Partition, wait: Wait) -> Wait:
        """With assoc_limit_stop, start no job behind one that waits for a limit."""
        if self.policy.stops_at_limits:
            text = f"a job before it in {partition.name} is over a limit: {wait.text}"
            self.closed.setdefault((partition.name, ""), Wait(Reason.Priority, text))
        return wait

    def _rooms(self, job: Waiting, partition: Partition) -> list[Room]:
        """Return the reservations a job may run in now, and outside; each with its nodes."""
        reservations, begin_us = self.snapshot.reservations, self.snapshot.now_us
        end_us = begin_us + limit_us(job.time_limit_min, partition)
        rooms = []
        for place in reserved.places(reservations, job, (partition.name,)):
            allowed = reserved.allowed_nodes(reservations, place)
            until_us = reserved.stay_us(
                reservations, job, place, begin_us, end_us, self.policy.over_run_us
            )
            if until_us and (allowed is None or allowed):
                kept = reserved.kept_parts(reservations, place, begin_us, until_us)
                blocked = frozenset(node_id for node_id, part in kept.items() if part == WHOLE)
                own = reserved.own_parts(reservations, place)
                bounds = {
                    node_id: (own.get(node_id, WHOLE), kept.get(node_id, NOTHING))
                    for node_id in {**own, **kept}
                }
                rooms.append((allowed, blocked, bounds))
        return rooms

    def _await_reservation(self, job: Waiting) -> Wait:
        """Say which reservations a job waits for, and when the next of them begins."""
        now_us = self.snapshot.now_us
        names = reserved.places(self.snapshot.reservations, job, job.partitions)
        begins = [
            begin_us
            for item in self.snapshot.reservations
            if item.name in names
            for begin_us, _ in item.occurrences()
            if begin_us > now_us
        ]
        if begins:
            self.plan.expected_start_us.setdefault(job.job_id, min(begins))
        what = "is not in force" if names else "is not for this job"
        return Wait(Reason.Reservation, f"reservation {job.request.reservation} {what}")

    def _choose(
        self, job: Waiting, partition: Partition, need: Need, rooms: list[Room]
    ) -> list[tuple[FreeNode, int]] | None:
        for allowed, blocked, bounds in rooms:
            candidates = [
                node
                for node in self._candidates(job, partition, need)
                if node.node_id not in blocked
                and (allowed is None or node.node_id in allowed)
                # The whole node is what it wants, and others have a part.
                and not (need.is_exclusive and allowed is None and node.node_id in bounds)
            ]
            self._hide(candidates, bounds)
            candidates = [node for node in candidates if node.cores]
            self.plan.tested += len(candidates)
            chosen = choose(need, candidates, self.layouts.get(partition.name))
            if chosen is not None:
                return chosen
            self._unhide()
        return None

    def _hide(self, nodes: list[FreeNode], bounds: Bounds) -> None:
        """Take out what is free but not for the job; `_unhide` puts it back."""
        for node in nodes if bounds else ():
            if node.node_id in bounds:
                hidden = hide(node, *bounds[node.node_id])
                if hidden is not None:
                    self._hidden.append(hidden)

    def _unhide(self) -> None:
        for hidden in self._hidden:
            hidden.show()
        self._hidden.clear()

    def _missing_license(self, job: Waiting) -> str:
        own = self._licenses_inside(job)
        for name, count in license_counts(self._licenses_of(job)):
            if self.licenses.get(name, 0) + own.get(name, 0) < count:
                return name
        return ""

    def _licenses_of(self, job: Waiting) -> str:
        """Return what a job asks for, of alternatives the first that is free or else the first."""
        ways = job.request.licenses.split("|")
        own = self._licenses_inside(job)
        for way in ways if len(ways) > 1 else ():
            if all(
                self.licenses.get(name, 0) + own.get(name, 0) >= count
                for name, count in license_counts(way)
            ):
                return way
        return ways[0]

    def _licenses_inside(self, job: Waiting) -> dict[str, int]:
        """Return what the first reservation that a job asks for keeps for it; changes count."""
        return self.inside.get(job.request.reservation.partition(",")[0], {})

    def _take_licenses(self, job: Waiting, licenses: str) -> None:
        own = self._licenses_inside(job)
        for name, count in license_counts(licenses):
            kept = min(count, own.get(name, 0))
            if kept:
                own[name] -= kept
            self.licenses[name] = self.licenses.get(name, 0) - count + kept

    def _candidates(self, job: Waiting, partition: Partition, need: Need) -> list[FreeNode]:
        snapshot, constraint = self.snapshot, job.request.constraint
        tenant = tenant_of(job.request, partition, job.uid)
        is_particular = self.neighbours.is_any_particular or bool(tenant.sharing)
        shut = () if job.request.reservation else self.shut
        nodes = []
        for node_id in partition.node_ids:
            if not snapshot.usable[node_id] or snapshot.cpus_free[node_id] <= 0:
                continue
            if node_id in shut or node_id in need.excluded_nodes:
                continue
            if constraint and not suits(job.request, snapshot.features[node_id]):
                continue
            if is_particular and not self.neighbours.is_open(node_id, tenant):
                continue
            node = self._free_node(node_id)
            if node.cores:
                nodes.append(node)
        return nodes

    def _free_node(self, node_id: int) -> FreeNode:
        node = self.free.get(node_id)
        if node is None:
            node = self.free[node_id] = free_node(self.snapshot, node_id)
            node.partition_cores = self.caps.on(node_id)
        return node

    def _blocked(self, job: Waiting, partition: Partition, need: Need, rooms: list[Room]) -> Wait:
        """Say why `job` does not fit, and close its partition for those behind it."""
        snapshot = self.snapshot
        allowed, blocked, bounds = rooms[-1]
        kept = blocked | frozenset(bounds) if allowed is None else blocked
        if kept and choose(need, self._candidates(job, partition, need)) is not None:
            # It would fit but for a reservation; those behind it may be shorter.
            end_us = snapshot.now_us + limit_us(job.time_limit_min, partition)
            closing = [
                closed
                for closed in reserved.closed_times(snapshot.reservations, reserved.OUTSIDE)
                if closed.begin_us < end_us
                and closed.end_us > snapshot.now_us
                and not kept.isdisjoint(closed.node_ids)
            ]
            if closing:
                return reserved_wait(closing, snapshot.now_us, end_us - snapshot.now_us)
        lasting: Wait | None = None
        if self.looks and all(room[0] is None for room in rooms):
            self.looks -= 1
            lasting = unplaceable(snapshot, partition, job.request, need)
            if lasting is not None and lasting.shown != AWAY:
                return lasting
        if lasting is None and self.shut and not job.request.reservation:
            lasting = kept_for_others(snapshot, partition, job.request, need, self.shut)
        if (
            lasting is None
            and partition.name in self.layouts
            and choose(need, self._candidates(job, partition, need)) is not None
        ):
            lasting = why_wait.topology(need)
        self._close(job, partition)
        if lasting is not None:
            return lasting
        idle = sum(1 for node_id in partition.node_ids if snapshot.usable[node_id])
        return Wait(
            Reason.Resources,
            f"needs {need.nodes_min} node{'s' * (need.nodes_min != 1)} for {need.tasks} "
            f"task{'s' * (need.tasks != 1)} of {need.cpus_per_task} CPU; "
            f"{idle} of {len(partition.node_ids)} nodes of {partition.name} are in service",
        )

    def _close(self, job: Waiting, partition: Partition) -> None:
        """Let those behind `job` wait: in its partition, or for its nodes."""
        self.closed[_line(job, partition)] = Wait(
            Reason.Priority, f"job {job.job_id} of higher priority waits in {partition.name}"
        )
        if not job.request.reservation:
            self.shut.update(partition.node_ids)


def _line(job: Waiting, partition: Partition) -> tuple[str, str]:
    """Return what a waiting job closes for those behind it: its partition, or its reservation."""
    name = job.request.reservation
    return ("", name) if name else (partition.name, "")


def _would_get(need: Need, chosen: list[tuple[FreeNode, int]]) -> tuple[NodeAlloc, ...]:
    """Return what a job would get; the nodes stay as they are."""
    copies = [
        (replace(node, gres_busy=dict(node.gres_busy), gres_used=dict(node.gres_used)), tasks)
        for node, tasks in chosen
    ]
    return allot(need, copies)
