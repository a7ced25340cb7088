"""What a pass is given: a snapshot, made mostly of records that are kept from pass to pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from pyslurm_ng.ctld.followers.usage_index import UsageIndex
from pyslurm_ng.ctld.slices import Slices
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.touched import touched_jobs
from pyslurm_ng.sched.frame.history import History
from pyslurm_ng.sched.frame.job_views import Views
from pyslurm_ng.sched.frame.measures import Limits
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.snapshot import Snapshot, snapshot
from pyslurm_ng.sched.limits.account_checks import AccountWatch

_MANY = 2000  # records: 20 ms


class PassInput:
    """Keeps views, limits and run times of before, and puts snapshots together."""

    def __init__(
        self,
        cluster: Cluster,
        soft: Soft,
        usage: UsageIndex,
        slices: Slices,
        faulted: Callable[[int, Exception], None],
    ) -> None:
        """`faulted` is told of a job that no record can be made of, and why."""
        self._cluster = cluster
        self._soft = soft
        self._usage = usage
        self._slices = slices
        self._views = Views(faulted=faulted)
        self._is_freshening = False
        self._account_watch = AccountWatch()
        self._history: History | None = None

    def catch_up(self, policy: Policy, then: Callable[[], None]) -> bool:
        """Make the records of a long queue in slices, if none is known, and call `then`.

        After a start all of them are wanted at once: that took seconds, in which nobody was heard.

        Returns:
            Whether there are so many; else nothing is done.
        """
        self._heed(policy)
        if self._views.begin(self._cluster) < _MANY or self._is_freshening:
            return False
        self._is_freshening = True

        def work() -> Iterator[None]:
            yield from self._freshen()
            then()

        self._slices.run(work())
        return True

    def _heed(self, policy: Policy) -> None:
        self._views.foresee(self._foresight(policy))
        self._views.heed_preemption(bool(policy.preempt_by))
        self._views.heed_over_run(policy.over_run_us)

    def look(self, policy: Policy, now_us: int) -> Snapshot:
        """Return what a pass under this policy sees."""
        self._heed(policy)
        view = snapshot(self._cluster, now_us, self._views)
        limits = self.limits(policy, now_us)
        if limits is None and not self._soft.fairshare:
            return view
        return replace(view, fairshare=self._soft.fairshare, limits=limits)

    def limits(self, policy: Policy, now_us: int) -> Limits | None:
        """Return the limits in force, with what runs now counted; None without any."""
        limits: Limits | None = None
        if policy.enforces_limits:
            limits = self._usage.quotas(now_us, is_safe=policy.is_safe)
        return self._account_watch.limits(
            self._cluster,
            limits,
            enforces_associations=policy.enforces_associations,
            fairshare=self._soft.fairshare if policy.enforces_limits else None,
        )

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """Forget records that events have changed."""
        for event in events:
            if isinstance(event, ev.JobEnded):
                self._views.forget_ended(event.job_id)
                if self._history is not None:
                    self._history.ended(self._cluster.jobs[event.job_id])
            elif not isinstance(event, ev.JobSubmitted) or (event.eligible_us and event.priority):
                self._views.forget(touched_jobs(event))
        if self._views.is_much_stale and not self._is_freshening:
            self._is_freshening = True
            self._slices.run(self._freshen())

    def _freshen(self) -> Iterator[None]:
        yield from self._views.freshen(self._cluster)
        self._is_freshening = False

    def _foresight(self, policy: Policy) -> History | None:
        """Return what is known of users' run times, if the policy asks for it."""
        if not policy.is_smart:
            self._history = None
        elif self._history is None:
            self._history = History()
            self._history.read(self._cluster)
        return self._history
