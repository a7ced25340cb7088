"""An index by end that also says when jobs came, for the listings of a time that is over."""

import sqlalchemy as sa

from pyslurm_ng.dbd import schema

_NAME, _BEFORE = "ix_jobs_window", "ix_jobs_end"


def upgrade(connection: sa.Connection) -> None:
    """Replace the index by the end alone, which was the beginning of this one."""
    index_names = {index["name"] for index in sa.inspect(connection).get_indexes(schema.jobs.name)}
    if _NAME not in index_names:
        next(index for index in schema.jobs.indexes if index.name == _NAME).create(connection)
    if _BEFORE in index_names:
        on_table = " ON jobs" if connection.dialect.name != "sqlite" else ""
        connection.exec_driver_sql(f"DROP INDEX {_BEFORE}{on_table}")
