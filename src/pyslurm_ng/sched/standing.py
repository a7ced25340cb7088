"""Waiting jobs whose account or QOS has been removed since they were submitted."""

from __future__ import annotations

from collections.abc import Sequence

from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.limits import Ask, Limits, Owner
from pyslurm_ng.sched.plan import Wait
from pyslurm_ng.sched.snapshot import Waiting


class Standing:
    """Keeps such jobs from starting; whatever else limits jobs is asked for all others.

    Nothing is written down: when the account or QOS is back, the job goes on as before.
    """

    def __init__(
        self, assoc_ids: frozenset[int] | None, qos: frozenset[str], inner: Limits | None
    ) -> None:
        """Know what there is; `assoc_ids` None: nobody needs one."""
        self._assoc_ids = assoc_ids
        self._qos = qos
        self._inner = inner

    def may_start(self, job: Waiting, ask: Ask, now_us: int) -> Wait | None:
        """Return why a job may not start now, or None."""
        known = self._assoc_ids
        if known is not None and job.assoc_id and job.assoc_id not in known:
            text = f"account {job.account} is not {job.user_name}'s any more"
            return Wait(Reason.InvalidAccount, text)
        if job.qos and job.qos not in self._qos:
            return Wait(Reason.InvalidQOS, f"QOS {job.qos} does not exist any more")
        return self._inner.may_start(job, ask, now_us) if self._inner is not None else None

    def may_start_all(self, asked: Sequence[tuple[Waiting, Ask]], now_us: int) -> Wait | None:
        """Return why some jobs may not all start at once now, or None."""
        for job, ask in asked:
            wait = self.may_start(job, ask, now_us)
            if wait is not None:
                return wait
        return self._inner.may_start_all(asked, now_us) if self._inner is not None else None

    def took(self, job: Owner, ask: Ask) -> None:
        """Count a start."""
        if self._inner is not None:
            self._inner.took(job, ask)

    def may_reserve(self, job: Waiting, partition: Partition, priority: int) -> bool:
        """Return whether a job that cannot start now may be promised room."""
        return self._inner is None or self._inner.may_reserve(job, partition, priority)


class Standings:
    """Sees whether any job has lost account or QOS; looks at jobs only when those have changed."""

    def __init__(self) -> None:
        self._key: tuple[object, ...] = ()
        self._is_any_lost = False

    def limits(
        self, cluster: Cluster, inner: Limits | None, *, enforces_associations: bool
    ) -> Limits | None:
        """Return limits that also keep back who has lost account or QOS; `inner` if nobody has."""
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
        if not self._is_any_lost:
            return inner
        return Standing(assocs, frozenset(cluster.qos), inner)


def _is_any_lost(cluster: Cluster, assocs: frozenset[int] | None) -> bool:
    """Return whether a job that waits, or may wait again, has no account or QOS any more."""
    qos = cluster.qos
    return any(
        (assocs is not None and job.assoc_id and job.assoc_id not in assocs)
        or (job.qos and job.qos not in qos)
        for job_ids in (cluster.pending, cluster.active)
        for job in map(cluster.jobs.__getitem__, job_ids)
    )
