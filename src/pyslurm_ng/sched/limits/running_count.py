"""What runs under each limit, kept up to date job by job for all passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pyslurm_ng.model.assoc import Association, Qos
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.states import JobFlag
from pyslurm_ng.sched.frame.measures import Ask
from pyslurm_ng.sched.limits.quotas import Counted, Quotas
from pyslurm_ng.sched.limits.relative import absolute_qos
from pyslurm_ng.sched.limits.usage import OwnerKey, Spent


class RunningCount:
    """Counts of the jobs of a Cluster that hold something.

    A follower of the events says which jobs to look at again. Minutes that jobs have left are not
    counted: those change by themselves.
    """

    def __init__(self, cluster: Cluster, measure: Callable[[Job], Ask]) -> None:
        """Know nothing yet; `measure` says what a job holds."""
        self._cluster = cluster
        self._measure = measure
        self._quotas: Quotas | None = None
        self._counted: dict[int, Counted] = {}
        self._stale: dict[int, None] = {}
        self._associations: Mapping[int, Association] = {}
        self._qos: Mapping[str, Qos] = {}
        self._partitions: Mapping[str, Partition] = {}

    def forget(self, job_ids: Iterable[int]) -> None:
        """Look at some jobs again; -1 stands for all."""
        if self._quotas is None:
            return  # all will be looked at
        for job_id in job_ids:
            if job_id < 0:
                self._quotas = None
                return
            self._stale[job_id] = None

    def quotas(self, spent: Callable[[OwnerKey], Spent] | None, *, is_safe: bool) -> Quotas:
        """Return the limits of now with all that runs counted, for one pass."""
        cluster, qos = self._cluster, absolute_qos(self._cluster)
        made_of = cluster.assocs, qos, cluster.partitions
        if self._quotas is None or made_of != (self._associations, self._qos, self._partitions):
            self._associations, self._qos = dict(cluster.assocs), dict(qos)
            self._partitions = dict(cluster.partitions)
            self._quotas = Quotas(self._associations, self._qos)
            self._counted = {}
            self._stale = dict.fromkeys(cluster.job_index.active)
        stale, self._stale = self._stale, {}
        for job_id in stale:
            self._count(self._quotas, job_id)
        return self._quotas.fork(spent, is_safe=is_safe)

    def _count(self, quotas: Quotas, job_id: int) -> None:
        before = self._counted.pop(job_id, None)
        if before is not None:
            quotas.left(before)
        if job_id in self._cluster.job_index.active:
            job = self._cluster.jobs[job_id]
            self._counted[job_id] = quotas.took(job, self._measure(job))
            if job.flags & JobFlag.COMPLETING:
                # The last of its nodes gives it back in an event that does not name it.
                self._stale[job_id] = None
