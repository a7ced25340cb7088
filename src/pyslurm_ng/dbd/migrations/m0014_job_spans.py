"""A class of each job by how long it was known, and an index by class: for times long ago.

The database computes the column, so no row is written, and no program that writes rows knows it.
"""

import sqlalchemy as sa

from pyslurm_ng.dbd import schema

_INDEX = "ix_jobs_span_class"


def upgrade(connection: sa.Connection) -> None:
    """Add what is missing."""
    column = schema.span_class.name
    if column not in _columns(connection):
        came_us = (
            "CASE WHEN attempt > 0 AND submit_us < eligible_us THEN submit_us ELSE eligible_us END"
        )
        classes = " ".join(
            f"WHEN end_us - {came_us} <= {most_us} THEN {number}"
            for number, most_us in enumerate(schema.SPANS_US, 1)
        )
        longest = len(schema.SPANS_US) + 1
        connection.exec_driver_sql(
            f"ALTER TABLE jobs ADD COLUMN {column} INTEGER GENERATED ALWAYS AS "
            f"(CASE WHEN end_us = 0 THEN 0 {classes} ELSE {longest} END) VIRTUAL"
        )
    if _INDEX not in {index["name"] for index in sa.inspect(connection).get_indexes("jobs")}:
        connection.exec_driver_sql(
            f"CREATE INDEX {_INDEX} ON jobs (cluster_id, {column}, end_us, eligible_us, attempt)"
        )


def _columns(connection: sa.Connection) -> set[str]:
    if connection.dialect.name == "sqlite":  # whose plain list leaves computed columns out
        rows = connection.exec_driver_sql("SELECT name FROM pragma_table_xinfo('jobs')")
        return set(rows.scalars())
    return {column["name"] for column in sa.inspect(connection).get_columns("jobs")}
