"""When the usage of associations and QOS was last set to zero."""

import sqlalchemy as sa

from pyslurm_ng.dbd import schema


def upgrade(connection: sa.Connection) -> None:
    """Add what is missing; a store made by this program has it from the start."""
    inspector = sa.inspect(connection)
    for table in (schema.associations, schema.qos):
        if "usage_reset_us" not in {column["name"] for column in inspector.get_columns(table.name)}:
            connection.exec_driver_sql(
                f"ALTER TABLE {table.name} ADD COLUMN usage_reset_us BIGINT NOT NULL DEFAULT 0"
            )
