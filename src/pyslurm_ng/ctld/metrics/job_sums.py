"""Jobs counted by state and by what they hold: in all, by partition, user and account."""

from __future__ import annotations

from collections.abc import Generator

from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model import task_ranges
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.kept_request import shared_part
from pyslurm_ng.model.sizes import least_counts
from pyslurm_ng.model.states import JobFlag, JobState, Reason

COLUMNS = (
    ("bootfail", "Jobs that ended because a node did not boot"),
    ("cancelled", "Jobs that were cancelled"),
    ("completed", "Jobs that completed"),
    ("completing", "Jobs whose nodes are being cleaned up"),
    ("configuring", "Jobs that wait for their nodes to boot or for a prolog"),
    ("cpus_alloc", "CPUs that jobs hold"),
    ("deadline", "Jobs that ended at their deadline"),
    ("expediting", "Jobs requeued in front of all others"),
    ("failed", "Jobs that failed"),
    ("fed_requeued", "Jobs requeued by a federation"),
    ("finished", "Jobs that have ended and are still known"),
    ("gpus_alloc", "GPUs that jobs hold"),
    ("hold", "Waiting jobs that are held"),
    ("", "Jobs that the controller knows; each task of an array is one"),
    ("memory_alloc", "Memory that jobs hold, in MiB"),
    ("node_failed", "Jobs that ended because a node failed"),
    ("nodes_alloc", "Nodes that jobs hold, counted once for each job"),
    ("outofmemory", "Jobs that ended because they ran out of memory"),
    ("pending", "Jobs that wait"),
    ("powerup_node", "Jobs that wait for nodes to be powered up"),
    ("preempted", "Jobs that ended because they were preempted"),
    ("requeued", "Jobs that are put back into the queue"),
    ("resizing", "Jobs that change their size"),
    ("revoked", "Jobs that were started by another cluster"),
    ("running", "Jobs that run"),
    ("signaling", "Jobs that are being signalled"),
    ("stageout", "Jobs whose data is being staged out"),
    ("started", "Jobs that have started, whether or not they have ended"),
    ("suspended", "Jobs that are suspended"),
    ("timeout", "Jobs that ended at their time limit"),
)
"""(suffix of the family's name, help); the names are those of Slurm 26.11."""
PARTITION_COLUMNS = (
    ("jobs_max_job_nodes", "The most nodes that a waiting job asks for"),
    ("jobs_max_job_nodes_nohold", "The most nodes that a waiting job that is not held asks for"),
    ("jobs_min_job_nodes", "The fewest nodes that a waiting job asks for"),
    ("jobs_min_job_nodes_nohold", "The fewest nodes that a waiting job that is not held asks for"),
    ("jobs_wait_part_node_limit", "Jobs that wait because the partition allows no such size"),
)

_AT = {suffix: index for index, (suffix, _) in enumerate(COLUMNS)}
_OF_STATE = {
    JobState.PENDING: "pending",
    JobState.RUNNING: "running",
    JobState.SUSPENDED: "suspended",
    JobState.COMPLETED: "completed",
    JobState.CANCELLED: "cancelled",
    JobState.FAILED: "failed",
    JobState.TIMEOUT: "timeout",
    JobState.NODE_FAIL: "node_failed",
    JobState.PREEMPTED: "preempted",
    JobState.BOOT_FAIL: "bootfail",
    JobState.DEADLINE: "deadline",
    JobState.OUT_OF_MEMORY: "outofmemory",
}
_OF_FLAG = (
    (JobFlag.COMPLETING, "completing"),
    (JobFlag.CONFIGURING, "configuring"),
    (JobFlag.EXPEDITING, "expediting"),
    (JobFlag.REQUEUE_FED, "fed_requeued"),
    (JobFlag.POWER_UP_NODE, "powerup_node"),
    (JobFlag.REQUEUED, "requeued"),
    (JobFlag.RESIZING, "resizing"),
    (JobFlag.REVOKED, "revoked"),
    (JobFlag.SIGNALING, "signaling"),
    (JobFlag.STAGE_OUT, "stageout"),
)
_MOST_IN_A_SLICE = 500


class JobSums:
    """Sums over jobs, in the order of `COLUMNS`, by partition, user and account.

    Attributes:
        sizes: for each partition the largest and smallest node counts of waiting jobs, with and
            without held ones, and how many wait for its limits, as in `PARTITION_COLUMNS`.
    """

    def __init__(self, partitions: list[str]) -> None:
        self.all = [0] * len(COLUMNS)
        self.by_partition = {name: [0] * len(COLUMNS) for name in partitions}
        self.by_user: dict[str, list[int]] = {}
        self.by_account: dict[str, list[int]] = {}
        self.sizes = {name: [0] * len(PARTITION_COLUMNS) for name in partitions}

    def add(self, cluster: Cluster, job: Job, reason: int) -> None:
        """Count one job, or all tasks of an array that have not started."""
        terms = _terms(job)
        groups = [
            self.all,
            self.by_user.setdefault(job.user_name or str(job.uid), [0] * len(COLUMNS)),
            self.by_account.setdefault(job.account, [0] * len(COLUMNS)),
        ]
        names = [name for name in job.partition.split(",") if name in self.by_partition]
        for name in names:
            groups.append(self.by_partition[name])
            if job.state == JobState.PENDING:
                self._add_sizes(cluster, job, name, reason)
        for sums in groups:
            for index, amount in terms:
                sums[index] += amount

    def _add_sizes(self, cluster: Cluster, job: Job, name: str, reason: int) -> None:
        sizes = self.sizes[name]
        nodes = least_counts(shared_part(job.request), cluster.partitions.get(name))[0]
        for index in (0,) if job.priority == 0 else (0, 1):
            sizes[index] = max(sizes[index], nodes)
            least = sizes[index + 2]
            sizes[index + 2] = min(least, nodes) if least else nodes
        sizes[4] += reason == Reason.PartitionNodeLimit


def count_jobs(cluster: Cluster, soft: Soft) -> Generator[None, None, JobSums]:
    """Return the sums over all jobs; yields wherever messages may go first.

    Jobs that come or go meanwhile may be counted or not.
    """
    sums = JobSums(list(cluster.partitions))
    for index, job_id in enumerate(list(cluster.jobs)):
        if index % _MOST_IN_A_SLICE == _MOST_IN_A_SLICE - 1:
            yield
        job = cluster.jobs.get(job_id)
        if job is not None:
            wait = soft.reason.get(job_id)
            sums.add(cluster, job, job.reason or (int(wait.reason) if wait else 0))
    return sums


def _terms(job: Job) -> list[tuple[int, int]]:
    """Return (column, amount) of what a job adds to each sum."""
    weight = task_ranges.count(job.array_pending) if job.array_pending else 1
    terms = [(_AT[""], weight), (_AT[_OF_STATE[JobState(job.state)]], weight)]
    if job.flags:
        terms += [(_AT[suffix], weight) for flag, suffix in _OF_FLAG if job.flags & flag]
    if job.state == JobState.PENDING:
        if job.priority == 0:
            terms.append((_AT["hold"], weight))
        return terms
    if job.state >= JobState.COMPLETED:
        terms.append((_AT["finished"], weight))
    if job.start_us:
        terms.append((_AT["started"], weight))
    if job.state in (JobState.RUNNING, JobState.SUSPENDED) or job.nodes_pending:
        terms += _held(job)
    return terms


def _held(job: Job) -> list[tuple[int, int]]:
    gpus = sum(gres.count for alloc in job.nodes for gres in alloc.gres if gres.name == "gpu")
    return [
        (_AT["cpus_alloc"], sum(alloc.charged_cpus for alloc in job.nodes)),
        (_AT["gpus_alloc"], gpus),
        (_AT["memory_alloc"], sum(alloc.mem_mib for alloc in job.nodes)),
        (_AT["nodes_alloc"], len(job.nodes)),
    ]
