"""A controller's first contact: its cluster, its tracked TRES, its cursor."""

from __future__ import annotations

import time

import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin import clusters
from pyslurm_ng.dbd.admin.change import Change, actor_of
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.ingest.batches import read_cursor
from pyslurm_ng.dbd.updates import find_cluster, next_version, store_value
from pyslurm_ng.wire.dbd_messages import ClusterRegistered, RegisterCluster


def register(database: Database, request: RegisterCluster) -> ClusterRegistered:
    """Make the cluster known and return where its journal is wanted from.

    A journal with another id than before is a controller started anew (`slurmctld -c`): it knows
    nothing of the jobs that were open, so these end here.
    """
    now_us = time.time_ns() // 1000
    with database.write() as connection:
        cluster_id = find_cluster(connection, request.cluster)
        if cluster_id is None:
            service = actor_of(connection, 0, "slurm", True)
            change = Change(database, connection, service, next_version(connection), now_us)
            cluster_id = clusters.register(change, request.cluster)
        _track(connection, request.tres)
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
        cursor = read_cursor(connection, cluster_id)
        if cursor is None or cursor[0] != request.journal_id:
            _end_open(connection, cluster_id, now_us)
            cursor = (request.journal_id, 0, 0, "")
            row = {
                "cluster_id": cluster_id,
                "journal_id": request.journal_id,
                "epoch": 0,
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
        )


def _track(connection: sa.Connection, names: list[str]) -> None:
    """Give ids to TRES that the controller counts and nobody counted before."""
    table = schema.tres
    known = {(row.type, row.name) for row in connection.execute(sa.select(table))}
    newest = connection.execute(sa.select(sa.func.max(table.c.id))).scalar_one()
    next_id = max(newest + 1, schema.FIRST_DYNAMIC_TRES_ID)
    version = 0
    for name in names:
        kind, _, rest = name.partition("/")
        if (kind, rest) in known:
            continue
        version = version or next_version(connection)
        connection.execute(table.insert().values(id=next_id, type=kind, name=rest, version=version))
        known.add((kind, rest))
        next_id += 1


def _end_open(connection: sa.Connection, cluster_id: int, now_us: int) -> None:
    """End jobs and steps that the former journal left open, and forget its node numbers."""
    jobs, steps = schema.jobs, schema.steps
    still_open = sa.and_(jobs.c.cluster_id == cluster_id, jobs.c.end_us == 0)
    connection.execute(
        steps.update()
        .where(
            steps.c.end_us == 0,
            steps.c.job_index.in_(sa.select(jobs.c.job_index).where(still_open)),
        )
        .values(end_us=now_us, state="CANCELLED")
    )
    connection.execute(
        jobs.update().where(still_open).values(end_us=now_us, state="CANCELLED", kill_uid=0)
    )
    nodes = schema.cluster_nodes
    connection.execute(nodes.delete().where(nodes.c.cluster_id == cluster_id))
