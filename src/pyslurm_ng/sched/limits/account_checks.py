"""Holds back waiting jobs whose account or QOS is gone or whose usage is over their QOS's bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.measures import Ask, Limits, Owner
from pyslurm_ng.sched.frame.plan import Wait


class AccountChecks:
    """Keeps such jobs from starting; all other jobs go on to the other limits.

    Nothing is recorded: when the account or QOS is back, the job goes on as before.
    """

    def __init__(
        self,
        assoc_ids: frozenset[int] | None,
        qos: frozenset[str],
        inner: Limits | None,
        thresholds: Mapping[str, float] | None = None,
        fairshare: Mapping[int, float] | None = None,
    ) -> None:
        """Set the existing records; `assoc_ids` None: no job needs an association.

        Args:
            thresholds: by QOS the least fair-share factor with which its jobs may start.
            fairshare: factors by association.
        """
        self._thresholds = thresholds or {}
        self._fairshare = fairshare or {}
        self._assoc_ids = assoc_ids
        self._qos = qos
        self._inner = inner

    def may_start(self, job: Waiting, ask: Ask) -> Wait | None:
        """Return why a job may not start now, or None."""
        lost = self._lost(job)
        if lost is not None or self._inner is None:
            return lost
        return self._inner.may_start(job, ask)

    def is_clear(self, job: Waiting, ask: Ask) -> bool:
        """Return whether it is plain that a job may start and be promised room."""
        if self._lost(job) is not None:
            return False
        return self._inner is None or self._inner.is_clear(job, ask)

    def _lost(self, job: Waiting) -> Wait | None:
        """Return why a job may no longer run: its account, its QOS or its fair share; else None."""
        known = self._assoc_ids
        if known is not None and job.assoc_id and job.assoc_id not in known:
            text = f"account {job.account} is no longer {job.user_name}'s"
            return Wait(Reason.InvalidAccount, text)
        if job.qos and job.qos not in self._qos:
            return Wait(Reason.InvalidQOS, f"QOS {job.qos} no longer exists")
        least = self._thresholds.get(job.qos)
        if least is not None and self._fairshare.get(job.assoc_id, 1.0) < least:
            text = (
                f"QOS {job.qos} needs a fair-share factor of {least:.4g}; it is "
                f"{self._fairshare[job.assoc_id]:.4g}"
            )
            return Wait(Reason.QOSUsageThreshold, text)
        return None

    def may_start_all(self, asked: Sequence[tuple[Waiting, Ask]]) -> Wait | None:
        """Return why some jobs may not all start at once now, or None."""
        for job, ask in asked:
            wait = self.may_start(job, ask)
            if wait is not None:
                return wait
        return self._inner.may_start_all(asked) if self._inner is not None else None

    def took(self, job: Owner, ask: Ask) -> None:
        """Count a start."""
        if self._inner is not None:
            self._inner.took(job, ask)

    def may_reserve(self, job: Waiting, partition: Partition, priority: int) -> bool:
        """Return whether a job that cannot start now may be promised room."""
        return self._inner is None or self._inner.may_reserve(job, partition, priority)

    def fork(self) -> AccountChecks:
        """Return the same limits, which count on their own from here."""
        inner = self._inner.fork() if self._inner is not None else None
        return AccountChecks(self._assoc_ids, self._qos, inner, self._thresholds, self._fairshare)

    def unused(self) -> AccountChecks:
        """Return the same limits with no job counted and nothing used up so far."""
        inner = self._inner.unused() if self._inner is not None else None
        return AccountChecks(self._assoc_ids, self._qos, inner)


class AccountWatch:
    """Sees whether any job has lost account or QOS; looks at jobs only when those have changed."""

    def __init__(self) -> None:
        self._key: tuple[object, ...] = ()
        self._is_any_lost = False

    def limits(
        self,
        cluster: Cluster,
        inner: Limits | None,
        *,
        enforces_associations: bool,
        fairshare: Mapping[int, float] | None = None,
    ) -> Limits | None:
        """Return limits that also hold back jobs that lost account or QOS; `inner` if there are
        none.

        Args:
            fairshare: factors by association, where UsageThreshold is enforced.
        """
        if not cluster.assocs and not cluster.qos:
            return inner
        key = (
            cluster.assoc_version,
            len(cluster.assocs),
            tuple(cluster.qos),
            enforces_associations,
        )
        assocs = frozenset(cluster.assocs) if enforces_associations else None
        if key != self._key:
            self._key = key
            self._is_any_lost = _is_any_lost(cluster, assocs)
        thresholds = {
            qos.name: qos.usage_threshold_millionths / 1e6
            for qos in cluster.qos.values()
            if fairshare
            and "EnforceUsageThreshold" in qos.flags
            and qos.usage_threshold_millionths != INFINITE
        }
        if not self._is_any_lost and not thresholds:
            return inner
        return AccountChecks(assocs, frozenset(cluster.qos), inner, thresholds, fairshare)


def _is_any_lost(cluster: Cluster, assocs: frozenset[int] | None) -> bool:
    """Return whether a job that waits, or may wait again, has lost its account or QOS."""
    qos = cluster.qos
    return any(
        (assocs is not None and job.assoc_id and job.assoc_id not in assocs)
        or (job.qos and job.qos not in qos)
        for job_ids in (cluster.job_index.pending, cluster.job_index.active)
        for job in map(cluster.jobs.__getitem__, job_ids)
    )
