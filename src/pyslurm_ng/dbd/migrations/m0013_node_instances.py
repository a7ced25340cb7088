"""Which instances of a cloud nodes were."""

import sqlalchemy as sa

from pyslurm_ng.dbd import schema


def upgrade(connection: sa.Connection) -> None:
    """Add what is missing; a store made by this program has it from the start."""
    schema.metadata.create_all(connection, tables=[schema.node_instances], checkfirst=True)
