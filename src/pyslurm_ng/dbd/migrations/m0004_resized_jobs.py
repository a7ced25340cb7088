"""Several records of one run: a job that gives up nodes goes on in a new record."""

import sqlalchemy as sa

from pyslurm_ng.dbd import schema

_KEPT = "jobs_kept"
_RENAME = f"ALTER TABLE {_KEPT} RENAME TO jobs"


def upgrade(connection: sa.Connection) -> None:
    """Drop the key that allows one record for each run; a new store does not have it."""
    inspector = sa.inspect(connection)
    if connection.dialect.name == "sqlite":
        # SQLite cannot drop a key: the rows move to a table without it.
        if not inspector.has_table("jobs"):
            connection.exec_driver_sql(_RENAME)
        elif any(key["name"] == "uq_job" for key in inspector.get_unique_constraints("jobs")):
            _move(connection)
    elif any(index["name"] == "uq_job" for index in inspector.get_indexes("jobs")):
        connection.exec_driver_sql("ALTER TABLE jobs DROP INDEX uq_job")
    present = _columns(connection)
    for index in schema.jobs.indexes:
        if present.issuperset(index.columns.keys()):  # of later columns there are others to come
            index.create(connection, checkfirst=True)


def _columns(connection: sa.Connection) -> set[str]:
    return {column["name"] for column in sa.inspect(connection).get_columns("jobs")}


def _move(connection: sa.Connection) -> None:
    present = _columns(connection)
    columns = [column for column in schema.jobs.columns if column.name in present]
    kept = schema.jobs.to_metadata(sa.MetaData(), name=_KEPT)
    kept.indexes.clear()  # they have the names of the table that still exists
    kept.drop(connection, checkfirst=True)
    kept.create(connection)
    names = [column.name for column in columns]
    query = sa.select(*columns)
    connection.execute(kept.insert().from_select(names, query, include_defaults=False))
    connection.exec_driver_sql("DROP TABLE jobs")
    connection.exec_driver_sql(_RENAME)
