"""An index by which records are found by their SLUIDs."""

import sqlalchemy as sa

from pyslurm_ng.dbd import schema

_NAME = "ix_jobs_sluid"


def upgrade(connection: sa.Connection) -> None:
    """Add what is missing; a store made by this program has it from the start."""
    index_names = {index["name"] for index in sa.inspect(connection).get_indexes(schema.jobs.name)}
    if _NAME not in index_names:
        next(index for index in schema.jobs.indexes if index.name == _NAME).create(connection)
