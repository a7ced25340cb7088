"""What associations and QOS have used, for limits on minutes; and which running jobs are to stop.

The Cluster has the usage up to some moment (`UsageKept`), and the jobs that ended since then or run
now. This adds them up as events come, and says when to record the sums again: often enough that no
job is purged before its usage is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.followers.usage_charges import (
    Charge,
    Charging,
    charge_run,
    charged_s,
    time_run_s,
)
from pyslurm_ng.ctld.followers.usage_reset import (
    reset_owners,
    runs_of,
    take_away,
)
from pyslurm_ng.ctld.rules.calendar import Calendar, next_reset_us
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.assoc import OwnerUsage
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobFlag, JobState
from pyslurm_ng.model.touched import touched_jobs
from pyslurm_ng.sched.limits import quotas
from pyslurm_ng.sched.limits.relative import absolute_qos
from pyslurm_ng.sched.limits.running_amounts import Used
from pyslurm_ng.sched.limits.running_count import RunningCount
from pyslurm_ng.sched.limits.usage import Ledger, OwnerKey, Spent

Events: TypeAlias = list[ev.AnyEvent]
_CHECK_US = 10 * SECOND_US  # how often running jobs are looked at
_STEP_S = 300  # how often sums are written down where nothing else is said
_MOST = (1 << 63) - 1  # what a journal can hold


class UsageIndex:
    """Usage kept by the events it is shown; sums are made when asked for."""

    def __init__(self, cluster: Cluster, conf: SlurmConf | None = None) -> None:
        """Count what the Cluster remembers."""
        self._cluster = cluster
        self._charging = charging = Charging(cluster)
        self._ledger = Ledger(conf.priority_decay_half_life if conf is not None else 0)
        self._holds: dict[int, Charge] = {}  # by job id
        self._changed: dict[OwnerKey, None] = {}  # since the sums were written down
        self._begun_us = self._kept_us = cluster.time_us
        self._must_keep = False
        self._running = RunningCount(cluster, lambda job: charging.ask(job, 0))
        self._checked_us = 0
        self._charged_until_us = cluster.usage_until_us
        self._keep_us = _STEP_S * SECOND_US
        self._reset_period = ""
        self._resets_now = False
        if conf is not None:
            self.adopt(conf)
        self._remember()

    def _remember(self) -> None:
        cluster = self._cluster
        for owner, kept in cluster.usage.items():
            spent = Spent(float(kept.wall_s), {name: float(s) for name, s in kept.tres_s.items()})
            self._ledger.put(owner, kept.at_us, spent)
        for job_id in cluster.job_index.active:
            self._begin(cluster.jobs[job_id])
        for job_id in cluster.job_index.ended:
            job = cluster.jobs[job_id]
            if job.start_us and job.nodes and job.end_us > cluster.usage_until_us:
                self._charge(job, self._charge_of(job), job.end_us)

    def adopt(self, conf: SlurmConf) -> None:
        """Go by the half-life, step and reset period of a configuration from now on."""
        if conf.priority_decay_half_life != self._ledger.half_life_s:
            # What has faded so far did so with the half-life of before.
            now_us = self._cluster.time_us
            for owner in self._ledger.owners():
                spent = self._ledger.of(owner, now_us, fades=self._charging.fades(owner))
                self._ledger.put(owner, now_us, spent)
                self._changed[owner] = None
            self._ledger.half_life_s = conf.priority_decay_half_life
        least_s = min(conf.priority_calc_period or _STEP_S, conf.min_job_age or _STEP_S)
        self._keep_us = least_s * SECOND_US
        self._reset_period = conf.priority_usage_reset_period
        self._resets_now = self._reset_period == "NOW"

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """Note runs that begin and end."""
        for event in events:
            self._running.forget(touched_jobs(event))
            if isinstance(event, ev.JobAllocated):
                self._begin(self._cluster.jobs[event.job_id])
            elif isinstance(event, (ev.JobResized, ev.JobUpdated)):
                self._change(self._cluster.jobs[event.job_id], event.time_us)
            elif isinstance(event, (ev.JobCompleting, ev.JobEnded)):
                self._end(event.job_id, event.time_us)
            elif isinstance(event, ev.JobRequeued):
                # The record no longer says anything about this run.
                self._end(event.job_id, event.time_us)
                self._must_keep = True
            elif isinstance(event, ev.UsageReset):
                self._forget(event)
            elif isinstance(event, ev.TimesMoved):
                self._move(event)

    def due(self, now_us: int, calendar: Calendar) -> list[ev.AnyEvent]:
        """Return UsageReset when its time has come, else UsageKept once in a while."""
        last_us = self._cluster.usage_since_us or self._begun_us
        next_us = next_reset_us(self._reset_period, last_us, calendar)
        if self._resets_now or 0 < next_us <= now_us:
            self._resets_now = False
            return [ev.UsageReset(now_us, (), is_all=True)]
        if not self._changed or now_us <= self._charged_until_us:
            return []  # the sums are of before this moment, and would miss a charge of now
        if not self._must_keep and now_us - self._kept_us < self._keep_us:
            return []
        self._kept_us, self._must_keep = now_us, False
        # More may end in this very microsecond.
        until_us = max(now_us - 1, self._cluster.usage_until_us)
        kept = tuple(
            self._kept(self._ledger, owner, until_us)
            for owner in self._changed
            if self._charging.is_known(owner)
        )
        self._changed.clear()
        return [ev.UsageKept(now_us, until_us, kept)]

    def _kept(self, ledger: Ledger, owner: OwnerKey, at_us: int) -> OwnerUsage:
        spent = ledger.of(owner, at_us, fades=self._charging.fades(owner))
        tres_s = {name: min(_MOST, round(used)) for name, used in spent.tres_s.items()}
        return OwnerUsage(
            owner[0], owner[1], at_us, round(spent.wall_s), tres_s, self._charging.since_us(owner)
        )

    def quotas(self, now_us: int, *, is_safe: bool = False) -> quotas.Quotas | None:
        """Return the present limits with all running jobs counted; None if there are no limits."""
        cluster, qos = self._cluster, absolute_qos(self._cluster)
        if not quotas.any_limits(cluster.assocs, qos):
            return None
        spent = None
        if quotas.budgets_minutes(cluster.assocs, qos):
            spent = self._spending(now_us)
        if not quotas.counts_minutes(cluster.assocs, qos, is_safe=is_safe):
            return self._running.quotas(spent, is_safe=is_safe)
        running = (
            (job, self._charging.ask(job, now_us))
            for job in map(cluster.jobs.__getitem__, cluster.job_index.active)
        )
        return quotas.quotas(cluster.assocs, qos, running, spent, is_safe=is_safe)

    def counted(
        self, now_us: int
    ) -> tuple[Mapping[tuple[str | int, ...], Used], Callable[[OwnerKey], Spent]]:
        """Return what runs now by counter, and what owners have used, limits or not."""
        cluster = self._cluster
        quota = quotas.Quotas(cluster.assocs, cluster.qos, counts_nodes=True)
        for job in map(cluster.jobs.__getitem__, cluster.job_index.active):
            quota.took(job, self._charging.ask(job, now_us))
        return quota.used(), self._spending(now_us)

    def run_out(self, now_us: int) -> tuple[int, ...]:
        """Return running jobs without minutes left; it searches only once in a while."""
        if now_us - self._checked_us < _CHECK_US:
            return ()
        self._checked_us = now_us
        cluster = self._cluster
        if not quotas.budgets_minutes(cluster.assocs, cluster.qos):
            return ()
        limits = quotas.Quotas(cluster.assocs, cluster.qos, self._spending(now_us))
        job_ids = []
        for job_id in cluster.job_index.active:
            job = cluster.jobs[job_id]
            if job.state != JobState.RUNNING or job.flags & JobFlag.COMPLETING:
                continue
            ask, run_min = self._charging.ask(job, now_us), time_run_s(job, now_us) / 60
            if limits.run_out(job, ask, run_min) is not None:
                job_ids.append(job_id)
        return tuple(job_ids)

    def billing_s(self, now_us: int) -> dict[int, float]:
        """Return the billing-seconds of associations that have any, running jobs included."""
        seconds = self._ledger.assoc_seconds("billing", now_us)
        for owner, counted_s, charge in self._running_charges(now_us):
            if owner[0] == "assoc":
                assoc_id = int(owner[1])
                used_s = counted_s * charge.amounts.get("billing", 0)
                seconds[assoc_id] = seconds.get(assoc_id, 0.0) + used_s
        return seconds

    def billing_rates(self) -> dict[int, float]:
        """Return the billing-seconds that running jobs add each second, by association."""
        rates: dict[int, float] = {}
        for job_id, charge in self._holds.items():
            if self._cluster.jobs[job_id].state != JobState.RUNNING:
                continue
            rate = self._charging.factor(charge.qos) * charge.amounts.get("billing", 0)
            for kind, owner in charge.owners:
                if kind == "assoc":
                    rates[int(owner)] = rates.get(int(owner), 0.0) + rate
        return rates

    def lost_each_second(self) -> float:
        """Return the part of usage that fades in a second; 0 where usage lasts."""
        return self._ledger.lost_each_second()

    def _running_charges(self, now_us: int) -> Iterator[tuple[OwnerKey, float, Charge]]:
        """Yield what running jobs are charged so far: owner, seconds that count, and for what."""
        for job_id, charge in self._holds.items():
            job = self._cluster.jobs[job_id]
            factor, run_s = self._charging.factor(charge.qos), charged_s(job, charge, now_us)
            for owner in charge.owners:
                counted_s = self._charging.counted_s(owner, charge.start_us, run_s, now_us)
                lasting_s = self._ledger.lasting_s(counted_s, fades=self._charging.fades(owner))
                yield owner, factor * lasting_s, charge

    def _spending(self, now_us: int) -> Callable[[OwnerKey], Spent]:
        """Return a function that says what an owner has used, running jobs included."""
        running: dict[OwnerKey, Spent] = {}
        for owner, counted_s, charge in self._running_charges(now_us):
            running.setdefault(owner, Spent()).add(counted_s, charge.amounts, counted_s)

        def spent(owner: OwnerKey) -> Spent:
            total = self._ledger.of(owner, now_us, fades=self._charging.fades(owner))
            more = running.get(owner)
            if more is not None:
                total.add(more.wall_s, more.tres_s, 1.0)
            return total

        return spent

    def _begin(self, job: Job) -> None:
        if not job.nodes or job.flags & JobFlag.COMPLETING:
            return
        charge = self._charge_of(job)
        if charge.owners:
            self._holds[job.job_id] = charge

    def _charge_of(self, job: Job) -> Charge:
        """Return what a job is charged for from its start, or from when that last changed."""
        owners, amounts = self._charging.owners(job), self._charging.amounts(job)
        if 0 < job.charged_us <= self._charged_until_us:
            return Charge(job.charged_us, job.charged_suspended_us, job.qos, owners, amounts)
        # The sums do not have what it was before, and that is no longer known.
        return Charge(job.start_us, 0, job.qos, owners, amounts)

    def _change(self, job: Job, at_us: int) -> None:
        """Charge a run so far as it was, if it has changed."""
        charge = self._holds.get(job.job_id)
        if charge is None or job.charged_us != at_us:
            return
        self._charge(job, charge, at_us)
        del self._holds[job.job_id]
        self._charged_until_us = at_us
        self._must_keep = True
        self._begin(job)

    def _end(self, job_id: int, at_us: int) -> None:
        charge = self._holds.pop(job_id, None)
        job = self._cluster.jobs.get(job_id)
        if charge is None or job is None:
            return
        end_us = min(at_us, job.end_us or at_us)
        if end_us <= self._cluster.usage_until_us:
            self._must_keep = True  # it was over before the sums were made, but this was not known
        self._charge(job, charge, end_us)

    def _charge(self, job: Job, charge: Charge, end_us: int) -> None:
        """Count a run that is over."""
        charge_run(self._charging, self._ledger, job, charge, end_us)
        self._changed.update(dict.fromkeys(charge.owners))

    def reset(self, assoc_ids: Sequence[int], qos: Sequence[str], now_us: int) -> Events:
        """Return the events that set usage to zero, for accounts with all that is below them.

        The second one has what the accounts above have used: a restart must not find their old
        sums.
        """
        event = ev.UsageReset(now_us, tuple(assoc_ids), tuple(qos))
        ledger = self._ledger.copy()
        zero = set(reset_owners(event))
        changed = {**self._changed, **take_away(self._charging, ledger, self._holds, event)}
        kept = tuple(
            self._kept(ledger, owner, now_us)
            for owner in changed
            if owner not in zero and self._charging.is_known(owner)
        )
        return [event, ev.UsageKept(now_us, now_us, kept)]

    def restored(self, owners: Sequence[OwnerUsage], now_us: int) -> Events:
        """Return the event for what was used before this state began; it is added here, too."""
        until_us = max(now_us - 1, self._cluster.usage_until_us)
        for kept in owners:
            owner: OwnerKey = (kept.kind, kept.owner)
            spent = self._ledger.of(owner, now_us, fades=self._charging.fades(owner))
            spent.add(kept.wall_s, kept.tres_s, 1.0)
            self._ledger.put(owner, now_us, spent)
            self._changed[owner] = None
        known = [owner for owner in self._changed if self._charging.is_known(owner)]
        kept_now = tuple(self._kept(self._ledger, owner, until_us) for owner in known)
        return [ev.UsageKept(now_us, until_us, kept_now)]

    def _forget(self, event: ev.UsageReset) -> None:
        """Begin the counts again for associations and QOS with usage that was reset."""
        if event.is_all:
            self._ledger.clear()
            self._changed.clear()
            return
        self._changed.update(take_away(self._charging, self._ledger, self._holds, event))
        for owner in reset_owners(event):
            self._changed.pop(owner, None)
        self._charged_until_us = max(self._charged_until_us, event.time_us)
        for job_id in runs_of(self._cluster, self._holds, event):
            del self._holds[job_id]
            self._begin(self._cluster.jobs[job_id])

    def _move(self, event: ev.TimesMoved) -> None:
        """Have what was counted be as old as before, by a clock that has been moved."""
        shift_us = event.shift_us
        for job_id in event.job_ids:
            charge = self._holds.get(job_id)
            if charge is not None:
                self._holds[job_id] = charge._replace(start_us=charge.start_us + shift_us)
        if event.is_all:
            self._ledger.move(shift_us)
            self._begun_us += shift_us
            self._kept_us += shift_us
            self._checked_us += shift_us
            self._charged_until_us += shift_us
