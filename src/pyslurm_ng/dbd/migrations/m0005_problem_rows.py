"""Rows that could not be stored, and the checksum of the newest stored record."""

import sqlalchemy as sa

from pyslurm_ng.dbd import schema


def upgrade(connection: sa.Connection) -> None:
    """Add what is missing; a store made by this program has it from the start."""
    schema.metadata.create_all(connection, tables=[schema.problem_rows], checkfirst=True)
    table = schema.cursors
    column_names = {column["name"] for column in sa.inspect(connection).get_columns(table.name)}
    if "checksum" not in column_names:
        connection.exec_driver_sql(
            f"ALTER TABLE {table.name} ADD COLUMN checksum VARCHAR(16) NOT NULL DEFAULT ''"
        )
