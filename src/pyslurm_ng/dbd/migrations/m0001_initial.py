"""The tables, the fixed TRES, the root account and user, and the QOS `normal`."""

import uuid

import sqlalchemy as sa

from pyslurm_ng.dbd import schema


def upgrade(connection: sa.Connection) -> None:
    """Create what is missing; rows are looked for first, so a killed run can be repeated."""
    schema.metadata.create_all(connection, checkfirst=True)
    _seed(connection, schema.store, {"name": "store_id"}, {"value": uuid.uuid4().hex})
    _seed(connection, schema.store, {"name": "version"}, {"value": "1"})
    _seed(connection, schema.store, {"name": "next_job_index"}, {"value": "1"})
    for tres_id, kind, name in schema.FIXED_TRES:
        _seed(connection, schema.tres, {"id": tres_id}, {"type": kind, "name": name, "version": 1})
    _seed(
        connection,
        schema.accounts,
        {"name": "root"},
        {"description": "default root account", "organization": "root", "version": 1},
    )
    _seed(connection, schema.users, {"name": "root"}, {"admin_level": 3, "version": 1})
    _seed(
        connection,
        schema.qos,
        {"name": "normal"},
        {
            "id": 1,
            "description": "Normal QOS default",
            "limits": "{}",
            "version": 1,
            "preempt_mode": "cluster",
        },
    )


def _seed(
    connection: sa.Connection, table: sa.Table, key: dict[str, object], rest: dict[str, object]
) -> None:
    where = sa.and_(*[table.c[name] == value for name, value in key.items()])
    if connection.execute(sa.select(sa.func.count()).select_from(table).where(where)).scalar() == 0:
        connection.execute(table.insert().values(**key, **rest))
