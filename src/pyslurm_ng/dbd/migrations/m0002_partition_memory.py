"""Default memory of partitions, for jobs that name no amount (ReqMem, ReqTRES)."""

import sqlalchemy as sa

from pyslurm_ng.dbd import schema


def upgrade(connection: sa.Connection) -> None:
    """Add the columns that are missing; a store made by this program has them from the start."""
    table = schema.cluster_partitions
    _complete(connection)
    column_names = {column["name"] for column in sa.inspect(connection).get_columns(table.name)}
    for name in ("def_mem_per_cpu_mib", "def_mem_per_node_mib", "def_mem_per_gpu_mib"):
        if name not in column_names:
            # Neither name comes from outside.
            connection.exec_driver_sql(
                f"ALTER TABLE {table.name} ADD COLUMN {name} BIGINT NOT NULL DEFAULT 0"
            )


def _complete(connection: sa.Connection) -> None:
    """Add what the first stores of version 1 did not have."""
    new = [schema.cluster_partitions, schema.cluster_nodes]
    schema.metadata.create_all(connection, tables=new, checkfirst=True)
    table = schema.clusters.name
    names = {column["name"] for column in sa.inspect(connection).get_columns(table)}
    if "store_flags" not in names:
        connection.exec_driver_sql(
            f"ALTER TABLE {table} ADD COLUMN store_flags VARCHAR(255) NOT NULL DEFAULT ''"
        )
