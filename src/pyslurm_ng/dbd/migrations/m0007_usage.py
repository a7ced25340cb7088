"""Usage by hour, day and month, and what an hour is read by: suspensions, nodes' TRES, an index."""

import sqlalchemy as sa

from pyslurm_ng.dbd import schema

_NAME = "ix_node_events_start"


def upgrade(connection: sa.Connection) -> None:
    """Add what is missing; a store made by this program has it from the start."""
    usage = [table for tables in schema.USAGE for table in tables.values()]
    new = [schema.suspensions, schema.last_ran, *usage]
    schema.metadata.create_all(connection, tables=new, checkfirst=True)
    inspector = sa.inspect(connection)
    table = schema.cluster_nodes
    if "tres" not in {column["name"] for column in inspector.get_columns(table.name)}:
        kind = (
            "TEXT NOT NULL DEFAULT ''"
            if connection.dialect.name == "sqlite"
            else "LONGTEXT NOT NULL"
        )
        connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN tres {kind}")
    events = schema.node_events
    if _NAME not in {index["name"] for index in inspector.get_indexes(events.name)}:
        next(index for index in events.indexes if index.name == _NAME).create(connection)
    _keep_suspensions(connection)


def _keep_suspensions(connection: sa.Connection) -> None:
    """Take the suspended time of jobs that are over as the end of their runs.

    Earlier versions kept only how long it was, so the hours are a guess, but the sum is right.
    """
    jobs, suspensions = schema.jobs, schema.suspensions
    begin = jobs.c.end_us - jobs.c.suspended_us
    known = sa.select(suspensions.c.job_index).where(suspensions.c.job_index == jobs.c.job_index)
    query = sa.select(jobs.c.job_index, begin, jobs.c.end_us).where(
        jobs.c.suspended_us > 0, jobs.c.end_us > 0, ~known.exists()
    )
    columns = ["job_index", "start_us", "end_us"]
    connection.execute(suspensions.insert().from_select(columns, query))
