"""What a script looks at besides the request: partitions, which it has, and jobs on demand."""

from __future__ import annotations

from pyslurm_ng.base.units import whole_number
from pyslurm_ng.ctld.site_policy import rows
from pyslurm_ng.ctld.site_policy.job_rows import JobRows
from pyslurm_ng.ctld.site_policy.walks import Passage
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.policy.messages import AskRows, Partitions, Rows

_ROWS = 100


class Lookups:
    """Answers what a process of scripts asks while it works on a question."""

    def __init__(self, cluster: Cluster, job_rows: JobRows) -> None:
        self._cluster = cluster
        self._job_rows = job_rows
        self._sent: list[object] = []

    def partitions(self) -> Partitions | None:
        """Return all partitions if any is another object than last time."""
        cluster, sent = self._cluster, self._sent
        present: list[object] = [*cluster.partitions.values()]
        if len(sent) == len(present) and all(map(lambda a, b: a is b, sent, present)):
            return None
        self._sent = present
        every = [rows.partition_row(cluster, each) for each in cluster.partitions.values()]
        return Partitions(every)

    def rows(self, asked: AskRows, passage: Passage | None) -> Rows:
        """Return what a script asks for."""
        cluster = self._cluster
        if asked.kind == "reservations":
            by_name = cluster.reservations
            chosen = [by_name[asked.name]] if asked.name in by_name else []
            chosen = chosen if asked.name else [*by_name.values()]
            return Rows([rows.reservation_row(cluster, each) for each in chosen])
        if asked.kind == "qos":
            every = cluster.qos
            several = [every[asked.name]] if asked.name in every else []
            several = several if asked.name else [*every.values()]
            return Rows([{"name": qos.name, "priority": qos.priority} for qos in several])
        if asked.name:
            job_id = whole_number(asked.name)
            job = cluster.jobs.get(job_id) if job_id is not None else None
            return Rows([self._job_rows.row(job)] if job is not None else [])
        return Rows([]) if passage is None else self._some_jobs(passage, asked.first)

    def _some_jobs(self, passage: Passage, first: int) -> Rows:
        """Return jobs in the order of the table, a part of it in one turn of the loop."""
        jobs = self._cluster.jobs
        if not first:
            passage.job_ids = list(jobs)
        part = passage.job_ids[first : first + _ROWS]
        next_id = first + _ROWS if first + _ROWS < len(passage.job_ids) else 0
        row = self._job_rows.row
        return Rows([row(jobs[job_id]) for job_id in part if job_id in jobs], next_id)
