"""Which records each user may see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.ctld.rules.permission import coordinates
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.partition import Partition

if TYPE_CHECKING:
    from collections.abc import Sequence


class Audience:
    """What one caller may see: PrivateData, hidden partitions."""

    def __init__(
        self, cluster: Cluster, private_data: Sequence[str], caller: Caller, *, show_all: bool
    ) -> None:
        self.cluster = cluster
        self.caller = caller
        self.show_all = show_all or caller.is_operator
        words = {word.lower() for word in private_data}
        self.jobs_private = "jobs" in words and not caller.is_operator
        self.nodes_private = "nodes" in words and not caller.is_operator
        self.partitions_private = "partitions" in words and not caller.is_operator
        self.usage_private = "usage" in words and not caller.is_operator
        self._hidden = {
            partition.name
            for partition in cluster.partitions.values()
            if not self.sees_partition(partition)
        }

    def sees_partition(self, partition: Partition) -> bool:
        """Return whether a partition is listed: hidden ones and closed ones only with --all."""
        if self.partitions_private and not self._may_use(partition):
            return False
        if self.show_all:
            return True
        return not partition.hidden and self._may_use(partition)

    def _may_use(self, partition: Partition) -> bool:
        if not partition.allow_groups:
            return True
        return not set(partition.allow_groups).isdisjoint(self.caller.groups)

    def sees_job(self, job: Job) -> bool:
        """Return whether a job is listed."""
        if self.jobs_private and job.uid != self.caller.uid:
            return coordinates(self.cluster, self.caller, job.account)
        if not self._hidden:
            return True
        return any(name not in self._hidden for name in job.partition.split(","))

    @property
    def sees_all_jobs(self) -> bool:
        """Whether the caller may see everything, so that a listing need not check each job."""
        return not self.jobs_private and not self._hidden
