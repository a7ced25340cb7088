"""Default memory of partitions, for jobs that name no amount (ReqMem, ReqTRES)."""

import sqlalchemy as sa

from pyslurm_ng.dbd import schema


def upgrade(connection: sa.Connection) -> None:
    """Add the columns that are missing; a store made by this program has them from the start."""
    table = schema.cluster_partitions
    column_names = {column["name"] for column in sa.inspect(connection).get_columns(table.name)}
    for name in ("def_mem_per_cpu_mib", "def_mem_per_node_mib", "def_mem_per_gpu_mib"):
        if name not in column_names:
            # Neither name comes from outside.
            connection.exec_driver_sql(
                f"ALTER TABLE {table.name} ADD COLUMN {name} BIGINT NOT NULL DEFAULT 0"
            )
