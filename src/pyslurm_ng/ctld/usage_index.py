"""What associations and QOS have used, for limits on minutes; and which running jobs are to stop.

Soft state of this controller: runs that ended while it looked on, those that the Cluster still
remembers at its begin, and what runs now. `past` adds what somebody else knows of earlier times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyslurm_ng.model import events as ev
from pyslurm_ng.model.assoc import Qos
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.ids import INFINITE, NO_VAL
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobFlag, JobState
from pyslurm_ng.sched.limits import quotas
from pyslurm_ng.sched.limits.headroom import Used
from pyslurm_ng.sched.limits.measures import Amounts, Ask, given, held
from pyslurm_ng.sched.limits.usage import Ledger, OwnerKey, Spent

_SECOND_US = 1_000_000
_CHECK_US = 10 * _SECOND_US  # how often running jobs are looked at


class UsageIndex:
    """Usage kept by the events it is shown; sums are made when asked for."""

    def __init__(self, cluster: Cluster, half_life_s: int = 0) -> None:
        """Count what the Cluster remembers."""
        self._cluster = cluster
        self._ledger = Ledger(half_life_s)
        self._holds: dict[int, tuple[int, tuple[OwnerKey, ...], Amounts]] = {}  # by job id
        self._checked_us = 0
        self.past: Callable[[OwnerKey], Spent] | None = None
        for job_id in cluster.active:
            self._begin(cluster.jobs[job_id])
        for job_id in cluster.ended:
            job = cluster.jobs[job_id]
            if job.start_us and job.nodes:
                self._add(
                    self._owners(job), self._amounts(job), job.end_us, _run_s(job, job.end_us)
                )

    def decay(self, half_life_s: int) -> None:
        """Let usage fade with this half-life in seconds; 0: never."""
        self._ledger.half_life_s = half_life_s

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """Note runs that begin and end."""
        for event in events:
            if isinstance(event, ev.JobAllocated):
                self._begin(self._cluster.jobs[event.job_id])
            elif isinstance(event, (ev.JobCompleting, ev.JobEnded, ev.JobRequeued)):
                self._end(event.job_id, event.time_us)

    def quotas(self, now_us: int, *, is_safe: bool = False) -> quotas.Quotas | None:
        """Return the limits of now with all that runs counted; None where nobody has any."""
        cluster = self._cluster
        if not quotas.any_limits(cluster.assocs, cluster.qos):
            return None
        running = (
            (job, self._ask(job, now_us)) for job in map(cluster.jobs.__getitem__, cluster.active)
        )
        spent = None
        if quotas.budgets_minutes(cluster.assocs, cluster.qos):
            spent = self._spending(now_us)
        return quotas.quotas(cluster.assocs, cluster.qos, running, spent, is_safe=is_safe)

    def counted(
        self, now_us: int
    ) -> tuple[Mapping[tuple[str | int, ...], Used], Callable[[OwnerKey], Spent]]:
        """Return what runs now by counter, and what owners have used, limits or not."""
        cluster = self._cluster
        found = quotas.Quotas(cluster.assocs, cluster.qos)
        for job in map(cluster.jobs.__getitem__, cluster.active):
            found.took(job, self._ask(job, now_us))
        return found.used(), self._spending(now_us)

    def run_out(self, now_us: int) -> tuple[int, ...]:
        """Return running jobs whose minutes are used up; looked for once in a while only."""
        if now_us - self._checked_us < _CHECK_US:
            return ()
        self._checked_us = now_us
        cluster = self._cluster
        if not quotas.budgets_minutes(cluster.assocs, cluster.qos):
            return ()
        limits = quotas.Quotas(cluster.assocs, cluster.qos, self._spending(now_us))
        found = []
        for job_id in cluster.active:
            job = cluster.jobs[job_id]
            if job.state != JobState.RUNNING or job.flags & JobFlag.COMPLETING:
                continue
            if limits.run_out(job, self._ask(job, now_us), _run_s(job, now_us) / 60) is not None:
                found.append(job_id)
        return tuple(found)

    def _spending(self, now_us: int) -> Callable[[OwnerKey], Spent]:
        """Return a function that says what an owner has used, running jobs included."""
        running: dict[OwnerKey, Spent] = {}
        for job_id, (_, owners, amounts) in self._holds.items():
            job = self._cluster.jobs[job_id]
            run_s = _run_s(job, now_us) * self._factor(job)
            for owner in owners:
                running.setdefault(owner, Spent()).add(run_s, amounts, run_s)

        def spent(owner: OwnerKey) -> Spent:
            total = self._ledger.of(owner, now_us, fades=self._fades(owner))
            for more in (running.get(owner), self.past(owner) if self.past is not None else None):
                if more is not None:
                    total.add(more.wall_s, more.tres_s, 1.0)
            return total

        return spent

    def _begin(self, job: Job) -> None:
        if not job.nodes or job.flags & JobFlag.COMPLETING:
            return
        owners = self._owners(job)
        if owners:
            self._holds[job.job_id] = job.start_us, owners, self._amounts(job)

    def _end(self, job_id: int, at_us: int) -> None:
        held_since = self._holds.pop(job_id, None)
        job = self._cluster.jobs.get(job_id)
        if held_since is None or job is None:
            return
        start_us, owners, amounts = held_since
        run_s = max(0, at_us - start_us - job.suspended_us) / _SECOND_US
        self._add(owners, amounts, at_us, run_s * self._factor(job))

    def _add(self, owners: Sequence[OwnerKey], amounts: Amounts, at_us: int, run_s: float) -> None:
        for owner in owners:
            self._ledger.add(owner, at_us, run_s, amounts, fades=self._fades(owner))

    def _amounts(self, job: Job) -> Amounts:
        partition = self._cluster.partitions.get(job.partition)
        return held(job.nodes, job.licenses_alloc, partition)

    def _owners(self, job: Job) -> tuple[OwnerKey, ...]:
        """Return who is charged: associations upwards, the job's QOS and the partition's."""
        cluster = self._cluster
        found: dict[OwnerKey, None] = {}
        item = cluster.assocs.get(job.assoc_id)
        while item is not None and ("assoc", item.assoc_id) not in found:
            found["assoc", item.assoc_id] = None
            item = cluster.assocs.get(item.parent_id)
        partition = cluster.partitions.get(job.partition)
        for name in (job.qos, partition.qos if partition is not None else ""):
            if name:
                found["qos", name] = None
        return tuple(found)

    def _qos(self, name: int | str) -> Qos | None:
        return self._cluster.qos.get(str(name))

    def _fades(self, owner: OwnerKey) -> bool:
        record = self._qos(owner[1]) if owner[0] == "qos" else None
        return record is None or "NoDecay" not in record.flags

    def _factor(self, job: Job) -> float:
        record = self._qos(job.qos)
        return record.usage_factor_millionths / 1e6 if record is not None else 1.0

    def _ask(self, job: Job, now_us: int) -> Ask:
        """Return what a job holds, and for how long still."""
        partition = self._cluster.partitions.get(job.partition)
        left_min = INFINITE
        if job.time_limit_min < NO_VAL:
            left_min = max(0, job.time_limit_min - int(_run_s(job, now_us) // 60))
        return given(job.nodes, job.licenses_alloc, partition, left_min)


def _run_s(job: Job, now_us: int) -> float:
    """Return for how long a job has run, without the time it was suspended."""
    suspended_us = job.suspended_us
    if job.state == JobState.SUSPENDED and job.suspend_us:
        suspended_us += now_us - job.suspend_us
    return max(0, now_us - job.start_us - suspended_us) / _SECOND_US
