"""The priorities of jobs that passes leave out, such as held ones."""

from __future__ import annotations

from collections.abc import Callable

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.sched.frame.job_views import waiting_record
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.priority import Ranking
from pyslurm_ng.sched.frame.snapshot import outline

_RANKING_LIFE_US = SECOND_US


class JobPriorities:
    """Works out priorities one by one, with tables that are made anew once a second at most."""

    def __init__(
        self, cluster: Cluster, soft: Soft, faults: Faults, now_us: Callable[[], int]
    ) -> None:
        self._cluster = cluster
        self._soft = soft
        self._faults = faults
        self._now_us = now_us
        self._ranking: Ranking | None = None
        self._ranking_us = 0

    def forget(self) -> None:
        """Make the tables anew: the clock was moved."""
        self._ranking = None

    def priority(self, job: Job, policy: Policy) -> int:
        """Return the priority that a job would have now."""
        cluster, now_us = self._cluster, self._now_us()
        if self._ranking is None or now_us - self._ranking_us > _RANKING_LIFE_US:
            view = outline(cluster, now_us)
            self._ranking = Ranking(view, policy, self._soft.fairshare)
            self._ranking_us = now_us
        try:
            waiting = waiting_record(cluster, job)
            partition = cluster.partitions.get(waiting.partitions[0])
            return self._ranking.priority(waiting, partition) if partition is not None else 0
        except Exception as error:  # noqa: BLE001 - it costs this job's priority only
            self._faults.note("priority", f"job {job.job_id} has no priority", error)
            return 0
