"""Reservations, whose unused time is charged to their members; and the threads of nodes' cores."""

import sqlalchemy as sa

from pyslurm_ng.dbd import schema


def upgrade(connection: sa.Connection) -> None:
    """Add what is missing; a store made by this program has it from the start."""
    schema.metadata.create_all(connection, tables=[schema.reservations], checkfirst=True)
    table = schema.cluster_nodes
    column_names = {column["name"] for column in sa.inspect(connection).get_columns(table.name)}
    if "threads" not in column_names:
        connection.exec_driver_sql(
            f"ALTER TABLE {table.name} ADD COLUMN threads BIGINT NOT NULL DEFAULT 0"
        )
