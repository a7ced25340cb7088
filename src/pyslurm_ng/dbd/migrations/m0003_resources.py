"""Resources: licences of licence servers, and how many of them each cluster may use."""

import sqlalchemy as sa

from pyslurm_ng.dbd import schema


def upgrade(connection: sa.Connection) -> None:
    """Create the tables; a store made by this program has them from the start."""
    tables = [schema.resources, schema.cluster_resources]
    schema.metadata.create_all(connection, tables=tables, checkfirst=True)
