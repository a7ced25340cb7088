"""Jobs without an end in the records; `sacctmgr show runawayjobs` finds the runaway ones.

A job's records follow the controller's journal. They stay open when that journal is lost, when
the controller began anew (`slurmctld -c`), or when the database was put back from a copy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.rollup.tables import note_change

FIELDS = ("ID", "Name", "Partition", "Cluster", "State", "TimeSubmit", "TimeStart", "TimeEnd")
_AT_ONCE = 500


def is_open() -> sa.ColumnElement[bool]:
    """Return the condition for the newest record of a job that is not over."""
    return (schema.jobs.c.end_us == 0) & (schema.jobs.c.is_last == 1)


def rows(
    connection: sa.Connection, clusters: Iterable[tuple[int, str]], job_ids: Collection[int]
) -> Iterator[dict[str, object]]:
    """Yield the open jobs of clusters as `sacctmgr` shows them, of these ids if there are any."""
    jobs = schema.jobs
    columns = (jobs.c.job_id, jobs.c.name, jobs.c.partition, jobs.c.state, jobs.c.submit_us,
               jobs.c.start_us)  # fmt: skip
    for cluster_id, cluster in clusters:
        of_cluster = (jobs.c.cluster_id == cluster_id) & is_open()
        query = sa.select(*columns).where(of_cluster).order_by(jobs.c.job_id)
        for job_id, name, partition, state, submit_us, start_us in connection.execute(query):
            if not job_ids or job_id in job_ids:
                values = (job_id, name, partition, cluster, state, submit_us, start_us, 0)
                yield dict(zip(FIELDS, values, strict=True))


def end(connection: sa.Connection, cluster_id: int, job_ids: Collection[int]) -> int:
    """End open jobs and their steps; return how many jobs there were.

    As Slurm does it, the state becomes COMPLETED, and the end the latest of start, eligible and
    submit time.
    """
    jobs, ids, count = schema.jobs, sorted(job_ids), 0
    for first in range(0, len(ids), _AT_ONCE):
        chosen = jobs.c.job_id.in_(ids[first : first + _AT_ONCE])
        query = sa.select(
            jobs.c.job_index, jobs.c.submit_us, jobs.c.eligible_us, jobs.c.start_us
        ).where(jobs.c.cluster_id == cluster_id, is_open(), chosen)
        for row in connection.execute(query).all():
            end_us = max(row.submit_us, row.eligible_us, row.start_us)
            _end_one(connection, row.job_index, end_us)
            note_change(connection, cluster_id, end_us)
            count += 1
    return count


def _end_one(connection: sa.Connection, job_index: int, end_us: int) -> None:
    jobs, steps = schema.jobs, schema.steps
    connection.execute(
        jobs.update()
        .where(jobs.c.job_index == job_index)
        .values(end_us=end_us, state="COMPLETED", suspend_start_us=0)
    )
    of_job = (steps.c.job_index == job_index) & (steps.c.end_us == 0)
    last_us = sa.case((steps.c.start_us > end_us, steps.c.start_us), else_=end_us)
    connection.execute(steps.update().where(of_job).values(end_us=last_us, state="COMPLETED"))
