"""Cluster -> the columns of one scheduling pass: the only file that knows both shapes.

A snapshot shares only frozen records and copied columns with the Cluster, so a pass may run in
another thread while the Cluster moves on.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from pyslurm_ng.model import gres_parts, task_ranges
from pyslurm_ng.model.assoc import Qos
from pyslurm_ng.model.cluster import Cluster, het_components, license_counts
from pyslurm_ng.model.ids import NO_VAL
from pyslurm_ng.model.job import SUSPENDED_BY_GANG, Job, JobRequest, NodeAlloc
from pyslurm_ng.model.kept_request import shared_part
from pyslurm_ng.model.node import NodeSpec, spec_as_found
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.model.rows import Load
from pyslurm_ng.model.states import JobFlag, JobState, Reason
from pyslurm_ng.model.topology import Topology
from pyslurm_ng.sched.history import History
from pyslurm_ng.sched.request.sharing import NOBODY, Tenant, tenant_of
from pyslurm_ng.sched.reservation.licenses import LicensesInside, kept_from, licenses_inside

if TYPE_CHECKING:  # it builds on this file
    from pyslurm_ng.sched.limits.measures import Limits

HELD_REASONS = frozenset(
    {Reason.JobHeldUser, Reason.JobHeldAdmin, Reason.JobHoldMaxRequeue, Reason.BadConstraints}
)

NO_END_US = 1 << 62
_MINUTE = 60_000_000
_SLICE = 200  # ten microseconds each


@dataclass(frozen=True, slots=True)
class Waiting:
    """One pending record as the pass sees it; for an array `tasks_left` bounds its starts now."""

    job_id: int
    request: JobRequest
    partitions: tuple[str, ...]
    time_limit_min: int
    submit_us: int
    accrue_us: int
    priority: int  # set by hand, or NO_VAL
    nice: int
    site_factor: int
    qos: str
    account: str
    assoc_id: int
    uid: int
    array_pending: tuple[tuple[int, int, int], ...]
    tasks_left: int
    user_name: str = ""
    switches: int = 0  # at most so many leaf switches; 0 once it has waited long enough
    patience_us: int = 0  # when that will be
    het_job_id: int = 0  # the leader of a heterogeneous job, itself included
    het_size: int = 0  # how many components that job has
    foreseen_us: int = 0  # how long it will probably run; 0: not known
    is_guest: bool = False  # in a reservation that draws it: takes what is free, is kept no room
    foreseen_cost: float = 0.0  # see `history`; 0: not known


class Victim(NamedTuple):
    """What decides whether a running job may be preempted; `job` is it as if it waited.

    `is_leaving`: it has been preempted already. `preemptor` is the job that suspended it, 0 for
    none, negative while others have their turn. So many as `rows` may have each of its cores.
    """

    job: Waiting
    partition: str
    start_us: int
    het_job_id: int
    is_leaving: bool
    preemptor: int
    rows: int


class Claim(NamedTuple):
    """What a waiting job has preempted others for; theirs are the ids in `leaving` still there.

    `is_free`: nothing stands in the way of its start any more.
    """

    job_id: int
    partition: str
    nodes: tuple[NodeAlloc, ...]
    total_tasks: int
    leaving: tuple[int, ...]
    is_free: bool


class Running(NamedTuple):
    """What a job holds and until when its limit lets it; `end_us` 0: it is over, nodes clean up."""

    job_id: int
    end_us: int
    nodes: tuple[NodeAlloc, ...]
    licenses: str
    is_suspended: bool = False
    victim: Victim | None = None  # None: nobody can preempt it
    foreseen_us: int = 0  # when it will probably end; 0: not known
    tenant: Tenant = NOBODY


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a pass may know. Node columns are indexed by node id.

    cores_busy: bit mask of cores in use; gres_busy: "name:type" -> device mask;
    gres_used: "name:type" -> count. Columns are copies; the records are frozen.
    """

    now_us: int
    specs: tuple[NodeSpec | None, ...]
    weights: array[int]
    features: tuple[tuple[str, ...], ...]
    usable: bytearray
    cpus_free: array[int]
    mem_free_mib: array[int]
    cores_busy: list[int]
    gres_busy: list[dict[str, int]]
    gres_used: list[dict[str, int]]
    in_use: bytearray  # 1 where any job holds anything
    partitions: dict[str, Partition]
    node_by_name: Mapping[str, int]
    waiting: list[Waiting]
    running: list[Running]
    licenses_free: dict[str, int]
    qos_priority: dict[str, int]
    total_cpus: int
    total_nodes: int
    reservations: tuple[Reservation, ...] = ()  # in order of creation; see `reserved`
    topologies: tuple[Topology, ...] = ()
    qos: Mapping[str, Qos] = field(default_factory=dict)
    claims: Mapping[int, Claim] = field(default_factory=dict)  # by job id
    assoc_priority: Mapping[int, int] = field(default_factory=dict)  # of those that have one
    fairshare: Mapping[int, float] = field(default_factory=dict)  # factors by association
    features_available: tuple[tuple[str, ...], ...] = ()
    licenses_inside: Mapping[str, LicensesInside] = field(default_factory=dict)  # of reservations
    limits: Limits | None = None  # this pass's own, for it counts; None: nothing is enforced


class Views:
    """Records of pending and active jobs kept from pass to pass.

    Whoever sees events says what to `forget`; only that is made anew, and what changes by itself:
    how many tasks a throttled array may start, whose patience has ended, how long a suspended job
    has left, which nodes still clean up. A job keeps its place when its record is made anew.
    """

    def __init__(self, slice_size: int = _SLICE) -> None:
        """Nothing is known yet.

        Args:
            slice_size: records that `freshen` makes anew in one go.
        """
        self._slice_size = slice_size
        self._history: History | None = None
        self._waiting: dict[int, Waiting] = {}
        self._running: dict[int, Running] = {}
        self._stale: dict[int, None] = {}
        self._moving: dict[int, None] = {}
        self._knows_all = False
        self._preempts = True

    def heed_preemption(self, preempts: bool) -> None:
        """Have no records of jobs as victims, which are large, where nobody preempts others."""
        if preempts != self._preempts:
            self._preempts = preempts
            self._knows_all = False

    def foresee(self, history: History | None) -> None:
        """Say in records how long jobs will probably run; None: no more."""
        if history is not self._history:
            self._history = history
            self._knows_all = False

    def forget(self, job_ids: Iterable[int]) -> None:
        """Make the records of some jobs anew; -1 stands for all."""
        for job_id in job_ids:
            if job_id < 0:
                self._knows_all = False
            else:
                self._stale[job_id] = None

    @property
    def is_much_stale(self) -> bool:
        """Whether it pays to `freshen` records before the next pass wants them."""
        return self._knows_all and len(self._stale) >= self._slice_size

    def freshen(self, cluster: Cluster) -> Iterator[None]:
        """Make records anew before `renew` wants them all at once; some for each `yield`."""
        while self.is_much_stale:
            for job_id in [*islice(self._stale, self._slice_size)]:
                del self._stale[job_id]
                self._renew_waiting(cluster, job_id, cluster.time_us)
                self._renew_running(cluster, job_id, cluster.time_us)
            yield

    def renew(self, cluster: Cluster, now_us: int) -> tuple[list[Waiting], list[Running]]:
        """Return pending jobs that may be considered and active ones, as they are now."""
        if self._knows_all:
            stale = [*self._moving, *self._stale]
        else:
            self._waiting.clear()
            self._running.clear()
            stale = [*cluster.pending, *cluster.active]
        self._moving, self._stale = {}, {}
        self._knows_all = True
        for job_id in stale:
            self._renew_waiting(cluster, job_id, now_us)
            self._renew_running(cluster, job_id, now_us)
        return [*self._waiting.values()], [*self._running.values()]

    def _renew_waiting(self, cluster: Cluster, job_id: int, now_us: int) -> None:
        job = cluster.jobs[job_id] if job_id in cluster.pending else None
        if job is None or not may_be_considered(job):
            self._waiting.pop(job_id, None)
            return
        view = _waiting(cluster, job, now_us)
        if self._history is not None:
            history = self._history
            view = replace(
                view, foreseen_us=history.foreseen_us(job), foreseen_cost=history.cost(job)
            )
        self._waiting[job_id] = view
        is_throttled = job.array_pending and job.array_limit
        if is_throttled or job.request.switches or job.het_job_id:
            self._moving[job_id] = None

    def _renew_running(self, cluster: Cluster, job_id: int, now_us: int) -> None:
        if job_id not in cluster.active:
            self._running.pop(job_id, None)
            return
        job = cluster.jobs[job_id]
        view = _running(cluster, job, now_us, preempts=self._preempts)
        if self._history is not None and job.start_us:
            foreseen_us = self._history.foreseen_us(job)
            if foreseen_us:
                end_us = job.start_us + job.suspended_us + foreseen_us
                view = view._replace(foreseen_us=end_us)
        self._running[job_id] = view
        if job.flags & JobFlag.COMPLETING or job.state == JobState.SUSPENDED:
            self._moving[job_id] = None


class _Static(NamedTuple):
    """What changes only with nodes; kept in the Cluster's memo, which is emptied then."""

    specs: tuple[NodeSpec | None, ...]
    weights: array[int]
    features: tuple[tuple[str, ...], ...]
    node_by_name: dict[str, int]
    available: tuple[tuple[str, ...], ...]
    total_cpus: int
    total_nodes: int


def snapshot(cluster: Cluster, now_us: int, views: Views | None = None) -> Snapshot:
    """Return the columns of one pass at `now_us`."""
    static = cluster.memo.get("snapshot")
    if not isinstance(static, _Static):
        static = cluster.memo["snapshot"] = _static(cluster)
    columns = cluster.columns
    waiting, running = (views or Views()).renew(cluster, now_us)
    inside = licenses_inside(cluster, now_us) if cluster.reservations else {}
    kept = kept_from(inside, ())
    view = Snapshot(
        now_us=now_us,
        specs=static.specs,
        weights=static.weights,
        features=static.features,
        usable=columns.usable[:],
        cpus_free=columns.cpus_free[:],
        mem_free_mib=columns.mem_free_mib[:],
        cores_busy=columns.cores_busy[:],
        gres_busy=columns.gres_busy[:],
        gres_used=columns.gres_used[:],
        in_use=columns.in_use[:],
        partitions=dict(cluster.partitions),
        node_by_name=static.node_by_name,
        waiting=waiting,
        running=running,
        licenses_free={
            name: total - cluster.licenses_used.get(name, 0) - kept.get(name, 0)
            for name, total in cluster.licenses.items()
        },
        qos_priority={qos.name: qos.priority for qos in cluster.qos.values()},
        total_cpus=static.total_cpus,
        total_nodes=static.total_nodes,
        licenses_inside=inside,
        reservations=tuple(cluster.reservations.values()),
        topologies=cluster.topologies,
        qos=dict(cluster.qos),
        assoc_priority=_assoc_priority(cluster),
        features_available=static.available,
        claims={job_id: _claim(cluster, cluster.jobs[job_id]) for job_id in cluster.claims},
    )
    _keep_preempted(cluster, view)
    if view.claims:
        _keep_claims(cluster, view)
    return view


def outline(cluster: Cluster, now_us: int) -> Snapshot:
    """Return a snapshot without nodes and jobs: what priorities depend on."""
    static = cluster.memo.get("snapshot")
    if not isinstance(static, _Static):
        static = cluster.memo["snapshot"] = _static(cluster)
    return Snapshot(
        now_us=now_us,
        specs=static.specs,
        weights=array("q"),
        features=(),
        usable=bytearray(),
        cpus_free=array("i"),
        mem_free_mib=array("q"),
        cores_busy=[],
        gres_busy=[],
        gres_used=[],
        in_use=bytearray(),
        partitions=dict(cluster.partitions),
        node_by_name={},
        waiting=[],
        running=[],
        licenses_free={},
        qos_priority={qos.name: qos.priority for qos in cluster.qos.values()},
        total_cpus=static.total_cpus,
        total_nodes=static.total_nodes,
        assoc_priority=_assoc_priority(cluster),
    )


class _AssocPriorities(NamedTuple):
    version: tuple[int, int]
    priorities: dict[int, int]


def _assoc_priority(cluster: Cluster) -> dict[int, int]:
    """Return the priorities of associations, the same object as long as none has changed."""
    version = cluster.assoc_version, len(cluster.assocs)
    found = cluster.memo.get("assoc_priority")
    if not isinstance(found, _AssocPriorities) or found.version != version:
        priorities = {one.assoc_id: one.priority for one in cluster.assocs.values() if one.priority}
        found = cluster.memo["assoc_priority"] = _AssocPriorities(version, priorities)
    return found.priorities


def _static(cluster: Cluster) -> _Static:
    nodes = cluster.nodes
    return _Static(
        specs=tuple(spec_as_found(node) if node is not None else None for node in nodes),
        weights=array("q", [node.weight if node is not None else 0 for node in nodes]),
        features=tuple(node.features_active if node is not None else () for node in nodes),
        node_by_name=dict(cluster.node_by_name),
        available=tuple(node.features if node is not None else () for node in nodes),
        total_cpus=sum(node.spec.cpus for node in nodes if node is not None),
        total_nodes=sum(1 for node in nodes if node is not None),
    )


def _claim(cluster: Cluster, job: Job) -> Claim:
    """Return what a waiting job claims, and who is still in its way."""
    leaving: dict[int, None] = {}
    is_free = True
    for alloc in job.claim:
        is_free = is_free and is_free_now(cluster, alloc)
        held = cluster.use[alloc.node_id].allocs
        leaving.update(dict.fromkeys(victim for victim in job.claim_victims if victim in held))
    licenses = license_counts(job.request.licenses)
    for name, count in licenses:
        left = cluster.licenses.get(name, 0) - cluster.licenses_used.get(name, 0)
        is_free = is_free and left >= count
    if licenses:
        leaving.update(dict.fromkeys(one for one in job.claim_victims if one in cluster.active))
    return Claim(
        job.job_id, job.claim_partition, job.claim, job.claim_tasks, tuple(leaving), is_free
    )


def is_free_now(cluster: Cluster, alloc: NodeAlloc, partition: str = "", rows: int = 1) -> bool:
    """Return whether nobody holds any of this and its node takes jobs.

    Args:
        partition, rows: so many jobs of that partition may have each core, if all of them share.
    """
    columns, use = cluster.columns, cluster.use[alloc.node_id]
    if not columns.usable[alloc.node_id]:
        return False
    if columns.mem_free_mib[alloc.node_id] < alloc.mem_mib:
        return False
    if rows > 1:
        if not _has_row(cluster, alloc, partition, rows):
            return False
    elif columns.cpus_free[alloc.node_id] < alloc.cpus or use.cores & int.from_bytes(
        alloc.cores, "little"
    ):
        return False
    if not alloc.gres:
        return True
    resources = spec_as_found(cluster.node(alloc.node_id)).gres
    return all(
        gres_parts.has_room(resources, use.gres, use.gres_count, held) for held in alloc.gres
    )


def _has_row(cluster: Cluster, alloc: NodeAlloc, partition: str, rows: int) -> bool:
    """Return whether each of these cores has less than `rows` jobs, all of that partition."""
    wanted = int.from_bytes(alloc.cores, "little")
    load = Load()
    for job_id, held in cluster.use[alloc.node_id].allocs.items():
        cores = wanted & int.from_bytes(held.cores, "little")
        job = cluster.jobs[job_id]
        if not cores or (job_id in cluster.suspended and job.suspended_by != SUSPENDED_BY_GANG):
            continue
        if job.rows <= 1 or job.partition != partition:
            return False
        load.add(cores)
    return not load.with_jobs(rows)


def _keep_preempted(cluster: Cluster, view: Snapshot) -> None:
    """Keep the cores of jobs suspended for others from all who did not preempt them."""
    for job_id in cluster.suspended:
        job = cluster.jobs[job_id]
        if job.suspended_by and job.state == JobState.SUSPENDED:
            for alloc in job.nodes:
                _keep_cores(view, alloc)


def _keep_cores(view: Snapshot, alloc: NodeAlloc) -> None:
    node_id, spec = alloc.node_id, view.specs[alloc.node_id]
    assert spec is not None, node_id
    before = view.cores_busy[node_id]
    wanted = int.from_bytes(alloc.cores, "little")
    view.cores_busy[node_id] = before | wanted
    view.cpus_free[node_id] -= (wanted & ~before).bit_count() * max(1, spec.threads_per_core)


def _keep_claims(cluster: Cluster, view: Snapshot) -> None:
    """Let claims be in use: nobody else may have what their jobs preempted others for.

    Those others still hold some of it: a node has left what it has now, or what it will have when
    they are gone and the claim's job runs, whichever is less.
    """
    for claim in view.claims.values():
        job = cluster.jobs[claim.job_id]
        leaving = frozenset(claim.leaving)
        for alloc in claim.nodes:
            _keep(view, alloc, [cluster.use[alloc.node_id].allocs[one] for one in leaving
                                if one in cluster.use[alloc.node_id].allocs])  # fmt: skip
        for name, count in license_counts(job.request.licenses):
            view.licenses_free[name] = view.licenses_free.get(name, 0) - count
        end_us = view.now_us + (job.time_limit_min if job.time_limit_min < NO_VAL else 0) * _MINUTE
        if job.time_limit_min >= NO_VAL:
            end_us = NO_END_US
        partition = cluster.partitions.get(job.partition.partition(",")[0])
        tenant = tenant_of(job.request, partition, job.uid)
        view.running.append(
            Running(claim.job_id, end_us, claim.nodes, job.request.licenses, tenant=tenant)
        )


def _keep(view: Snapshot, alloc: NodeAlloc, leaving: list[NodeAlloc]) -> None:
    node_id = alloc.node_id
    _keep_cores(view, alloc)
    view.in_use[node_id] = 1
    freed_mib = sum(one.mem_mib for one in leaving)
    view.mem_free_mib[node_id] -= max(0, alloc.mem_mib - freed_mib)
    busy, used = dict(view.gres_busy[node_id]), dict(view.gres_used[node_id])
    gres_parts.keep(busy, used, alloc.gres, (held for one in leaving for held in one.gres))
    view.gres_busy[node_id], view.gres_used[node_id] = busy, used


def _victim(cluster: Cluster, job: Job) -> Victim:
    return Victim(
        job=_waiting(cluster, job, 0),
        partition=job.partition,
        start_us=job.start_us,
        het_job_id=job.het_job_id,
        is_leaving=bool(job.preempt_end_us),
        preemptor=job.suspended_by,
        rows=job.rows,
    )


def _running(cluster: Cluster, job: Job, now_us: int, *, preempts: bool) -> Running:
    """Return what an active job holds; a suspended one goes on as long as it has left.

    Args:
        preempts: any job may be a victim; else those only that share cores or were one already.
    """
    nodes = job.nodes
    tenant = tenant_of(job.request, cluster.partitions.get(job.partition), job.uid)
    if job.flags & JobFlag.COMPLETING:
        held = frozenset(job.nodes_pending)
        nodes = tuple(alloc for alloc in nodes if alloc.node_id in held)
        return Running(job.job_id, 0, nodes, job.licenses_alloc, tenant=tenant)
    is_suspended = job.state == JobState.SUSPENDED
    is_victim = preempts or job.rows > 1 or bool(job.suspended_by)
    victim = _victim(cluster, job) if is_victim else None
    if job.preempt_end_us:
        end_us = job.preempt_end_us
    elif job.time_limit_min >= NO_VAL:
        end_us = NO_END_US
    else:
        end_us = max(1, job.start_us + job.suspended_us + job.time_limit_min * _MINUTE)
        if is_suspended:
            end_us += now_us - job.suspend_us
    return Running(
        job.job_id, end_us, nodes, job.licenses_alloc, is_suspended, victim, tenant=tenant
    )


def may_be_considered(job: Job) -> bool:
    """Return whether a pending job is eligible and not held."""
    return bool(job.eligible_us) and job.priority != 0 and job.reason not in HELD_REASONS


def waiting_record(cluster: Cluster, job: Job) -> Waiting:
    """Return a pending job as a pass would see it, whether it may be considered or not."""
    return _waiting(cluster, job, cluster.time_us)


def _waiting(cluster: Cluster, job: Job, now_us: int) -> Waiting:
    left = 1
    if job.array_pending:
        left = task_ranges.count(job.array_pending)
        if job.array_limit:
            running = cluster.array_active.get(job.array_job_id, 0)
            left = min(left, max(0, job.array_limit - running))
    patience_us = _patience_us(job) if job.request.switches else 0
    return Waiting(
        job_id=job.job_id,
        request=shared_part(job.request),
        partitions=_names(job.partition),
        time_limit_min=job.time_limit_min,
        submit_us=job.submit_us,
        accrue_us=job.accrue_us,
        priority=job.priority,
        nice=job.nice,
        site_factor=job.site_factor,
        qos=job.qos,
        account=job.account,
        assoc_id=job.assoc_id,
        uid=job.uid,
        array_pending=job.array_pending,
        tasks_left=left,
        user_name=job.user_name,
        switches=job.request.switches if now_us < patience_us else 0,
        patience_us=patience_us,
        het_job_id=job.het_job_id,
        het_size=_het_size(cluster, job) if job.het_job_id else 0,
    )


def _het_size(cluster: Cluster, job: Job) -> int:
    """Return how many components of a heterogeneous job are not over for good."""
    return sum(1 for part in het_components(cluster, job) if part.job_id not in cluster.ended)


@lru_cache(4096)
def _names(partitions: str) -> tuple[str, ...]:
    """Return the partitions of a job; jobs of one partition share the names."""
    return tuple(partitions.split(","))


def _patience_us(job: Job) -> int:
    """Return until when a job waits for few leaf switches."""
    return (job.eligible_us or job.submit_us) + job.request.switches_wait_s * 1_000_000
