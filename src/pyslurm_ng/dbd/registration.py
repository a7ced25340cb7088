"""A controller's first contact: its cluster, its tracked TRES, its cursor."""

from __future__ import annotations

import time

import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin import clusters
from pyslurm_ng.dbd.admin.change import Change, RefusedError, actor_of
from pyslurm_ng.dbd.controllers import rival_text
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.ingest import instance_rows, reservation_rows
from pyslurm_ng.dbd.ingest.batches import read_cursor
from pyslurm_ng.dbd.tres_rows import track
from pyslurm_ng.dbd.updates import find_cluster, next_version, store_value
from pyslurm_ng.wire.dbd_messages import (
    ClusterRegistered,
    ComparedJob,
    CompareJobs,
    JobsCompared,
    RegisterCluster,
    RegisterExternal,
    RewindJournal,
)
from pyslurm_ng.wire.messages import Done

_CHUNK = 500
_NEWEST_ROWS = 10_000
"""The number of rows to search for the highest job id: rows of requeued jobs have old ids."""


def register(
    database: Database, request: RegisterCluster, *, others_may_return: bool = False
) -> ClusterRegistered:
    """Register the cluster and return the position from which its journal is wanted.

    If the journal has a new id, the controller was started with `slurmctld -c`: it does not know
    the open jobs, so they end here.

    Args:
        others_may_return: whether a controller at another address, with the known journal, may
            only be late.

    Raises:
        RefusedError: such a controller is known.
    """
    now_us = time.time_ns() // 1000
    with database.write() as connection:
        cluster_id = find_cluster(connection, request.cluster)
        if cluster_id is None:
            service = actor_of(connection, 0, "slurm", True)
            change = Change(database, connection, service, next_version(connection), now_us)
            cluster_id = clusters.register(change, request.cluster)
        cursor = read_cursor(connection, cluster_id)
        is_new = cursor is None or cursor[0] != request.journal_id
        if cursor is not None and is_new and others_may_return:
            _refuse_rival(connection, cluster_id, request)
        track(connection, request.tres)
        connection.execute(
            schema.clusters.update()
            .where(schema.clusters.c.id == cluster_id)
            .values(
                control_host=request.control_host,
                control_port=request.control_port,
                rpc_version=request.rpc_version,
                store_flags=",".join(request.store_flags),
            )
        )
        if cursor is None or is_new:
            _end_open(connection, cluster_id, now_us)
            epoch = cursor[1] if cursor is not None else 0
            cursor = (request.journal_id, epoch, 0, "")
            row = {
                "cluster_id": cluster_id,
                "journal_id": request.journal_id,
                "epoch": epoch,
                "sequence": 0,
                "updated_us": now_us,
                "records": 0,
                "checksum": "",
            }
            database.upsert(connection, schema.cursors, ("cluster_id",), [row])
        return ClusterRegistered(
            cluster_id=cluster_id,
            journal_id=cursor[0],
            epoch=cursor[1],
            sequence=cursor[2],
            store_id=store_value(connection, "store_id"),
            version=int(store_value(connection, "version")),
            checksum=cursor[3],
            newest_job_id=_newest_job_id(connection, cluster_id),
        )


def register_external(database: Database, request: RegisterExternal) -> Done:
    """Keep where the controller of a cluster is whose books another slurmdbd keeps.

    Raises:
        RefusedError: they are here.
    """
    name, table = request.cluster, schema.clusters
    address = {
        "control_host": request.control_host,
        "control_port": request.control_port,
        "rpc_version": request.rpc_version,
    }
    with database.write() as connection:
        known = connection.execute(sa.select(table).where(table.c.name == name)).first()
        if known is None or known.is_deleted:
            service = actor_of(connection, 0, "slurm", True)
            now_us = time.time_ns() // 1000
            change = Change(database, connection, service, next_version(connection), now_us)
            clusters.register_external(change, name)
        elif known.flags != schema.EXTERNAL:
            raise RefusedError(
                f"cluster {name} has its accounting here, so this slurmdbd is not external to it"
            )
        connection.execute(table.update().where(table.c.name == name).values(**address))
    return Done()


def _refuse_rival(connection: sa.Connection, cluster_id: int, request: RegisterCluster) -> None:
    """Refuse a controller that is not where the cluster's last one was."""
    table = schema.clusters
    known = connection.execute(
        sa.select(table.c.control_host, table.c.control_port).where(table.c.id == cluster_id)
    ).one()
    address = f"{known.control_host}:{known.control_port}"
    if known.control_port and address != f"{request.control_host}:{request.control_port}":
        raise RefusedError(rival_text(request, address))


def _newest_job_id(connection: sa.Connection, cluster_id: int) -> int:
    """Return the highest job id among the cluster's newest rows; some day ids begin again at 1."""
    jobs = schema.jobs
    newest = connection.execute(sa.select(sa.func.max(jobs.c.job_index))).scalar()
    newest_row = connection.execute(
        sa.select(sa.func.max(jobs.c.job_id)).where(
            jobs.c.job_index > (newest or 0) - _NEWEST_ROWS, jobs.c.cluster_id == cluster_id
        )
    ).scalar()
    return int(newest_row or 0)


def compare(database: Database, request: CompareJobs) -> JobsCompared:
    """Return what is known of a controller's jobs, and the open jobs that it does not know."""
    jobs = schema.jobs
    columns = [jobs.c[name] for name in ComparedJob.__struct_fields__]
    compared: list[ComparedJob] = []
    with database.read() as connection:
        cluster_id = known_cluster(connection, request.cluster)
        ids = request.jobs
        for first in range(0, len(ids), _CHUNK):
            query = sa.select(*columns).where(
                jobs.c.cluster_id == cluster_id,
                jobs.c.job_id.in_(ids[first : first + _CHUNK]),
                jobs.c.is_last == 1,
            )
            compared += [ComparedJob(*row) for row in connection.execute(query)]
        unknown = [job_id for _, job_id in _open_rows(connection, cluster_id, set(ids))]
    return JobsCompared(compared, sorted(set(unknown)))


def rewind(database: Database, request: RewindJournal) -> None:
    """Take events after a record as new, and end the open jobs that the controller has lost."""
    now_us = time.time_ns() // 1000
    with database.write() as connection:
        cluster_id = known_cluster(connection, request.cluster)
        rows = [row for row, _ in _open_rows(connection, cluster_id, set(request.jobs))]
        for first in range(0, len(rows), _CHUNK):
            _end_rows(connection, schema.jobs.c.job_index.in_(rows[first : first + _CHUNK]), now_us)
        cursor = {
            "cluster_id": cluster_id,
            "journal_id": request.journal_id,
            "epoch": request.epoch,
            "sequence": request.sequence,
            "updated_us": now_us,
            "records": 0,
            "checksum": request.checksum,
        }
        database.upsert(connection, schema.cursors, ("cluster_id",), [cursor])


def known_cluster(connection: sa.Connection, name: str) -> int:
    """Return the id of a cluster.

    Raises:
        RefusedError: it is not registered.
    """
    cluster_id = find_cluster(connection, name)
    if cluster_id is None:
        raise RefusedError(f"cluster {name} is not registered")
    return cluster_id


def _open_rows(connection: sa.Connection, cluster_id: int, but: set[int]) -> list[tuple[int, int]]:
    """Return row and id of the jobs that have not ended, except some."""
    jobs = schema.jobs
    query = sa.select(jobs.c.job_index, jobs.c.job_id).where(
        jobs.c.cluster_id == cluster_id, jobs.c.end_us == 0
    )
    return [(row[0], row[1]) for row in connection.execute(query) if row[1] not in but]


def _end_open(connection: sa.Connection, cluster_id: int, now_us: int) -> None:
    """End jobs and steps that the journal before this one left open; forget its node numbers."""
    jobs = schema.jobs
    still_open = sa.and_(jobs.c.cluster_id == cluster_id, jobs.c.end_us == 0)
    _end_rows(connection, still_open, now_us)
    reservation_rows.end_all(connection, cluster_id, now_us)
    instance_rows.end_all(connection, cluster_id, now_us)
    nodes = schema.cluster_nodes
    connection.execute(nodes.delete().where(nodes.c.cluster_id == cluster_id))


def _end_rows(connection: sa.Connection, of_jobs: sa.ColumnElement[bool], now_us: int) -> None:
    """End jobs that no controller knows, and their steps."""
    jobs, steps = schema.jobs, schema.steps
    connection.execute(
        steps.update()
        .where(
            steps.c.end_us == 0,
            steps.c.job_index.in_(sa.select(jobs.c.job_index).where(of_jobs)),
        )
        .values(end_us=now_us, state="CANCELLED")
    )
    connection.execute(
        jobs.update().where(of_jobs).values(end_us=now_us, state="CANCELLED", kill_uid=0)
    )
