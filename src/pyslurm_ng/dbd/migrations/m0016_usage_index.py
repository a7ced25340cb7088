"""An index that has all that the roll-up adds up, in place of the one of eligible times.

Records that are there have an empty `summed_tres`: the roll-up reads them one by one, as before.
"""

import sqlalchemy as sa

from pyslurm_ng.dbd import schema

_COLUMN, _NAME, _BEFORE = "summed_tres", "ix_jobs_usage", "ix_jobs_eligible"


def upgrade(connection: sa.Connection) -> None:
    """Add what is missing, then drop the index that was the beginning of the new one."""
    inspector = sa.inspect(connection)
    if _COLUMN not in {column["name"] for column in inspector.get_columns("jobs")}:
        connection.exec_driver_sql(
            f"ALTER TABLE jobs ADD COLUMN {_COLUMN} VARCHAR(255) NOT NULL DEFAULT ''"
        )
    index_names = {index["name"] for index in inspector.get_indexes("jobs")}
    if _NAME not in index_names:
        next(index for index in schema.jobs.indexes if index.name == _NAME).create(connection)
    if _BEFORE in index_names:
        on_table = " ON jobs" if connection.dialect.name != "sqlite" else ""
        connection.exec_driver_sql(f"DROP INDEX {_BEFORE}{on_table}")
