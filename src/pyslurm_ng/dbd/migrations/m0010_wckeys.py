"""Keys of users; a default that was a word of its own becomes one of them on each cluster."""

import sqlalchemy as sa

from pyslurm_ng.dbd import schema


def upgrade(connection: sa.Connection) -> None:
    """Add what is missing; a store made by this program has it from the start."""
    schema.metadata.create_all(connection, tables=[schema.wckeys], checkfirst=True)
    table, users, clusters = schema.wckeys, schema.users, schema.clusters
    is_there = sa.exists().where(
        table.c.cluster_id == clusters.c.id,
        table.c.name == users.c.default_wckey,
        table.c.user == users.c.name,
    )
    columns = ["cluster_id", "name", "user", "is_default", "created_us", "modified_us", "version"]
    of_each_cluster = users.join(clusters, sa.true())
    query = sa.select(
        clusters.c.id,
        users.c.default_wckey,
        users.c.name,
        sa.literal(1),
        users.c.created_us,
        users.c.modified_us,
        users.c.version,
    )
    query = query.select_from(of_each_cluster).where(
        users.c.default_wckey != "", users.c.is_deleted == 0, ~is_there
    )
    connection.execute(table.insert().from_select(columns, query, include_defaults=False))
