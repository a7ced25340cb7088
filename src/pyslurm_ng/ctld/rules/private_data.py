"""Which records each user may see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.ctld.rules.permission import coordinates
from pyslurm_ng.ctld.rules.submission import mcs
from pyslurm_ng.model.assoc import Association
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.partition import Partition

if TYPE_CHECKING:
    from pyslurm_ng.conf.slurm_conf import SlurmConf


class Audience:
    """What one caller may see: PrivateData, hidden partitions, MCS labels."""

    def __init__(
        self, cluster: Cluster, conf: SlurmConf, caller: Caller, *, show_all: bool
    ) -> None:
        self.cluster = cluster
        self.caller = caller
        self.show_all = show_all or caller.is_operator
        words = {word.lower() for word in conf.private_data}
        self.jobs_private = "jobs" in words and not caller.is_operator
        self.nodes_private = "nodes" in words and not caller.is_operator
        self.partitions_private = "partitions" in words and not caller.is_operator
        self.usage_private = "usage" in words and not caller.is_operator
        self._labels = mcs.visible_labels(cluster, caller, conf)
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
        if not self.sees_label(job.request.mcs_label):
            return False
        if self.jobs_private and job.uid != self.caller.uid:
            return coordinates(self.cluster, self.caller, job.account)
        if not self._hidden:
            return True
        return any(name not in self._hidden for name in job.partition.split(","))

    def nodes_of_own_jobs(self) -> set[int]:
        """Return the ids of nodes on which the caller has jobs now."""
        index = self.cluster.job_index
        own = index.by_user.get(self.caller.uid, {})
        return {
            alloc.node_id
            for states in (index.active, index.suspended)
            for job_id in (own if len(own) < len(states) else states)
            if job_id in own and job_id in states
            for alloc in self.cluster.jobs[job_id].nodes
        }

    @property
    def sees_all_jobs(self) -> bool:
        """Whether the caller may see everything, so that a listing need not check each job."""
        return not self.jobs_private and not self._hidden and not self.hides_labels

    @property
    def hides_labels(self) -> bool:
        """Whether there are MCS labels that the caller must not see."""
        return self._labels is not None

    def sees_label(self, label: str) -> bool:
        """Return whether jobs, and nodes, with an MCS label are shown."""
        return self._labels is None or label in self._labels


class AssociationAudience:
    """Which associations one caller may see, and with them usage and shares.

    With PrivateData=users or usage these are the caller's own, and all of the accounts that the
    caller coordinates. With users alone the accounts above them are seen, too: without them sshare
    would show no tree. With usage they are not, since they add up what others have used.

    Attributes:
        sees_all: whether nothing is hidden.
        sees_users: whether other users are listed: PrivateData=users hides them, from coordinators,
            too.
    """

    def __init__(self, cluster: Cluster, conf: SlurmConf, caller: Caller) -> None:
        words = {word.lower() for word in conf.private_data}
        self.sees_users = caller.is_operator or "users" not in words
        self.sees_all = self.sees_users and (caller.is_operator or "usage" not in words)
        self._name = caller.user_name
        user = cluster.users.get(caller.user_name)
        led = user.coordinator_of if user is not None else ()
        self._led = frozenset(cluster.assoc_index.with_accounts_below(led))
        self._above: set[str] = set()
        if not self.sees_all and "usage" not in words:
            above = cluster.assoc_index.account_above
            own = {account for account, name, _ in cluster.assoc_index.by_key if name == self._name}
            for account in own | self._led:
                name: str | None = account
                while name is not None and name not in self._above:
                    self._above.add(name)
                    name = above.get(name)

    def sees(self, assoc: Association) -> bool:
        """Return whether an association is listed."""
        if self.sees_all or assoc.user == self._name or assoc.account in self._led:
            return True
        return not assoc.user and assoc.account in self._above

    def sees_account(self, account: str) -> bool:
        """Return whether it is listed what an account has of each QOS."""
        return self.sees_all or account in self._led or account in self._above
