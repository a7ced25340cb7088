"""Records of jobs kept from pass to pass: only changed ones are made again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import islice

from pyslurm_ng._select import untracked
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.model import task_ranges
from pyslurm_ng.model.cluster import Cluster, het_components
from pyslurm_ng.model.job import Job, limit_end_us
from pyslurm_ng.model.kept_request import shared_part
from pyslurm_ng.model.states import JobFlag, JobState, Reason
from pyslurm_ng.sched.frame.history import History
from pyslurm_ng.sched.frame.job_records import NO_END_US, Running, Victim, Waiting
from pyslurm_ng.sched.frame.reserved import cut_of_us
from pyslurm_ng.sched.request.sharing import Hosts, tenant_of

HELD_REASONS = frozenset(
    {Reason.JobHeldUser, Reason.JobHeldAdmin, Reason.JobHoldMaxRequeue, Reason.BadConstraints}
)
_SLICE = 200  # ten microseconds each


class Views:
    """Records of pending and active jobs kept from pass to pass.

    The code that sees events says what to `forget`. Only these records are made again, and those
    that change by themselves: how many tasks a throttled array may start, jobs that have waited
    long enough, how long a suspended job has left, nodes that still clean up. A job keeps its place
    when its record is made again.
    """

    def __init__(
        self,
        slice_size: int = _SLICE,
        faulted: Callable[[int, Exception], None] | None = None,
    ) -> None:
        """Begin without records.

        Args:
            slice_size: how many records `freshen` makes in one piece.
            faulted: called with jobs that passes do not see because making their record raised.
                Without it the caller gets the exception.
        """
        self._slice_size = slice_size
        self._faulted = faulted
        self._history: History | None = None
        self._waiting: dict[int, Waiting] = {}
        self._running: dict[int, Running] = {}
        self._stale: dict[int, None] = {}
        self._moving: dict[int, None] = {}
        self._hosts = Hosts()
        self._knows_all = False
        self._preempts = True
        self._over_run_us = 0

    def heed_preemption(self, preempts: bool) -> None:
        """Make no records of jobs as victims, which are large, if no job preempts others."""
        if preempts != self._preempts:
            self._preempts = preempts
            self._knows_all = False

    def heed_over_run(self, over_run_us: int) -> None:
        """Have jobs in reservations outlive these by so much."""
        self._over_run_us = over_run_us

    def foresee(self, history: History | None) -> None:
        """Put the probable run times of jobs into records; None: no longer."""
        if history is not self._history:
            self._history = history
            self._knows_all = False

    def forget(self, job_ids: Iterable[int]) -> None:
        """Make the records of some jobs again; -1 means all."""
        for job_id in job_ids:
            if job_id < 0:
                self._knows_all = False
            else:
                self._stale[job_id] = None

    def forget_ended(self, job_id: int) -> None:
        """Remove the records of a job that is over; a job that was held has none."""
        if job_id in self._waiting or job_id in self._running:
            self._stale[job_id] = None

    @property
    def is_much_stale(self) -> bool:
        """Whether it pays to `freshen` records before the next pass wants them."""
        return self._knows_all and len(self._stale) >= self._slice_size

    def begin(self, cluster: Cluster) -> int:
        """Have all records made, if none is known; return how many are to be made anew then."""
        if self._knows_all:
            return 0
        for table in (self._waiting, self._running, self._moving):
            table.clear()
        self._hosts.clear()
        self._stale = dict.fromkeys((*cluster.job_index.pending, *cluster.job_index.active))
        self._knows_all = True
        return len(self._stale)

    def freshen(self, cluster: Cluster) -> Iterator[None]:
        """Make records before `renew` needs them all together; some for each `yield`."""
        while self.is_much_stale:
            for job_id in [*islice(self._stale, self._slice_size)]:
                del self._stale[job_id]
                self._renew(cluster, job_id, cluster.time_us)
            yield

    @property
    def hosts(self) -> frozenset[int | str]:
        """Users, and labels, whose jobs share nodes with their own only; see `Hosts`."""
        return self._hosts.keys()

    def renew(self, cluster: Cluster, now_us: int) -> tuple[list[Waiting], list[Running]]:
        """Return pending jobs that may be considered and active ones, as they are now."""
        self.begin(cluster)
        stale = [*self._moving, *self._stale]
        self._moving, self._stale = {}, {}
        for job_id in stale:
            self._renew(cluster, job_id, now_us)
        return untracked([*self._waiting.values()]), untracked([*self._running.values()])

    def _renew(self, cluster: Cluster, job_id: int, now_us: int) -> None:
        try:
            self._renew_waiting(cluster, job_id, now_us)
            self._renew_running(cluster, job_id, now_us)
            self._note_hosts(cluster, job_id)
        except Exception as error:
            if self._faulted is None:
                raise
            # An active job without a record keeps what it has for ever, as far as passes know.
            for table in (self._waiting, self._running):
                table.pop(job_id, None)
            self._faulted(job_id, error)

    def _note_hosts(self, cluster: Cluster, job_id: int) -> None:
        running, waiting = self._running.get(job_id), self._waiting.get(job_id)
        if running is not None:
            self._hosts.note(job_id, (running.tenant,))
        elif waiting is not None:
            request, partitions = waiting.request, map(cluster.partitions.get, waiting.partitions)
            tenants = [tenant_of(request, partition, waiting.uid) for partition in partitions]
            self._hosts.note(job_id, tenants)
        else:
            self._hosts.note(job_id, ())

    def _renew_waiting(self, cluster: Cluster, job_id: int, now_us: int) -> None:
        job = cluster.jobs[job_id] if job_id in cluster.job_index.pending else None
        waits = job is None or not may_be_considered(job) or cluster.waits_for_buffer(job_id)
        if job is None or waits:
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
        self._running.pop(-job_id, None)
        if job_id not in cluster.job_index.active:
            self._running.pop(job_id, None)
            return
        job = cluster.jobs[job_id]
        if job.nodes_leaving and not job.flags & JobFlag.COMPLETING:
            self._running[-job_id] = _leaving(cluster, job)
        view = _running(cluster, job, now_us, preempts=self._preempts)
        if job.reservation and view.end_us:
            cut_us = cut_of_us(cluster, job, self._over_run_us)
            view = view._replace(end_us=min(view.end_us, cut_us))
        if self._history is not None and job.start_us:
            foreseen_us = self._history.foreseen_us(job)
            if foreseen_us:
                end_us = job.start_us + job.suspended_us + foreseen_us
                view = view._replace(foreseen_us=end_us)
        self._running[job_id] = view
        is_suspended = job.state == JobState.SUSPENDED
        moves = is_suspended or job.reservation or job.nodes_leaving
        if job.flags & JobFlag.COMPLETING or moves:
            self._moving[job_id] = None


def _victim(cluster: Cluster, job: Job) -> Victim:
    return Victim(
        job=_waiting(cluster, job, 0),
        partition=job.partition,
        start_us=job.start_us,
        het_job_id=job.het_job_id,
        is_leaving=bool(job.preempt_end_us),
        preemptor=job.suspended_by,
    )


def _leaving(cluster: Cluster, job: Job) -> Running:
    """Return what a job still holds on nodes that it has given up: it ends at any moment."""
    return Running(
        job_id=job.job_id,
        end_us=0,
        nodes=job.nodes_leaving,
        licenses="",
        tenant=tenant_of(job.request, cluster.partitions.get(job.partition), job.uid),
        rows=job.rows,
    )


def _running(cluster: Cluster, job: Job, now_us: int, *, preempts: bool) -> Running:
    """Return what an active job holds; a suspended one goes on as long as it has left.

    Args:
        preempts: any job may be a victim; else those only that were one already.
    """
    nodes = job.nodes
    tenant = tenant_of(job.request, cluster.partitions.get(job.partition), job.uid)
    if job.flags & JobFlag.COMPLETING:
        node_ids = frozenset(job.nodes_pending)
        return _leaving(cluster, job)._replace(
            nodes=tuple(alloc for alloc in job.nodes_held if alloc.node_id in node_ids),
            licenses=job.licenses_alloc,
            array_job_id=job.array_job_id,
        )
    is_suspended = job.state == JobState.SUSPENDED
    is_victim = preempts or bool(job.suspended_by)
    victim = _victim(cluster, job) if is_victim else None
    if job.preempt_end_us:
        end_us = job.preempt_end_us
    else:
        end_us = min(max(0, limit_end_us(job)) or NO_END_US, NO_END_US)
        if is_suspended and end_us < NO_END_US:
            end_us += now_us - job.suspend_us
    return Running(
        job_id=job.job_id,
        end_us=end_us,
        nodes=nodes,
        licenses=job.licenses_alloc,
        is_suspended=is_suspended,
        victim=victim,
        tenant=tenant,
        rows=job.rows,
        array_job_id=job.array_job_id,
    )


def may_be_considered(job: Job) -> bool:
    """Return whether a pending job is eligible and not held."""
    return bool(job.eligible_us) and job.priority != 0 and job.reason not in HELD_REASONS


def waiting_record(cluster: Cluster, job: Job) -> Waiting:
    """Return a pending job as a pass would see it, whether it may be considered or not."""
    return _waiting(cluster, job, cluster.time_us)


def _waiting(cluster: Cluster, job: Job, now_us: int) -> Waiting:
    task_count = 1
    if job.array_pending:
        task_count = task_ranges.count(job.array_pending)
        if job.array_limit:
            running = cluster.job_counts.array_active.get(job.array_job_id, 0)
            task_count = min(task_count, max(0, job.array_limit - running))
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
        tasks_left=task_count,
        user_name=job.user_name,
        switches=job.request.switches if now_us < patience_us else 0,
        patience_us=patience_us,
        het_job_id=job.het_job_id,
        het_size=_het_size(cluster, job) if job.het_job_id else 0,
        throttled_by=job.array_job_id if job.array_pending and job.array_limit else 0,
    )


def _het_size(cluster: Cluster, job: Job) -> int:
    """Return how many components of a heterogeneous job are not over for good."""
    return sum(
        1 for part in het_components(cluster, job) if part.job_id not in cluster.job_index.ended
    )


@lru_cache(4096)
def _names(partitions: str) -> tuple[str, ...]:
    """Return the partitions of a job; jobs of one partition share the names."""
    return tuple(partitions.split(","))


def _patience_us(job: Job) -> int:
    """Return until when a job waits for few leaf switches."""
    return (job.eligible_us or job.submit_us) + job.request.switches_wait_s * SECOND_US
