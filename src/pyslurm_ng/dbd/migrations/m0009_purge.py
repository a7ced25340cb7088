"""What old records are found by, and until when they are gone."""

import sqlalchemy as sa

from pyslurm_ng.dbd import schema

_INDICES = (
    (schema.jobs, "ix_jobs_script"),
    (schema.jobs, "ix_jobs_environment"),
    (schema.steps, "ix_steps_end"),
    (schema.suspensions, "ix_suspensions_end"),
)


def upgrade(connection: sa.Connection) -> None:
    """Add what is missing; a store made by this program has it from the start."""
    inspector = sa.inspect(connection)
    for table, name in _INDICES:
        if name not in {index["name"] for index in inspector.get_indexes(table.name)}:
            next(index for index in table.indexes if index.name == name).create(connection)
    present = {column["name"] for column in inspector.get_columns(schema.last_ran.name)}
    for name in ("purged_us", "usage_purged_us"):
        if name not in present:
            connection.exec_driver_sql(
                f"ALTER TABLE {schema.last_ran.name} ADD COLUMN {name} BIGINT NOT NULL DEFAULT 0"
            )
