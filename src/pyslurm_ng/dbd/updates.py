"""Associations, QOS and users for a controller: everything, or the changes.

Each administrative transaction gets the next version, and so does every row that it changes. So
"what changed after version v" is a query, and a controller that was away asks with its last
version. Limits and QOS lists are inherited, so a changed association is sent with its descendants.
"""

import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.statements import Statement
from pyslurm_ng.dbd.tree import Tree, qos_record, user_records
from pyslurm_ng.wire.dbd_messages import AssociationUpdate, LicenseServer

_CLUSTER_ID = Statement(
    sa.select(schema.clusters.c.id).where(
        schema.clusters.c.name == sa.bindparam("cluster", type_=sa.String()), schema.has_books()
    )
)


def store_value(connection: sa.Connection, name: str) -> str:
    """Return one value of the store table."""
    table = schema.store
    value: str = connection.execute(
        sa.select(table.c.value).where(table.c.name == name)
    ).scalar_one()
    return value


def next_version(connection: sa.Connection) -> int:
    """Count an administrative transaction; a rollback undoes the count."""
    version = int(store_value(connection, "version")) + 1
    connection.execute(
        schema.store.update().where(schema.store.c.name == "version").values(value=str(version))
    )
    return version


def find_cluster(connection: sa.Connection, name: str) -> int | None:
    """Return a cluster's id, None if it is unknown or its books are elsewhere."""
    cluster_id: int | None = _CLUSTER_ID.run(connection, {"cluster": name}).scalar()
    return cluster_id


def association_update(
    connection: sa.Connection, cluster: str, store_id: str, version: int
) -> AssociationUpdate | None:
    """Return the changes that a controller with `version` of store `store_id` lacks, or None."""
    own_store = store_value(connection, "store_id")
    newest = int(store_value(connection, "version"))
    is_full = store_id != own_store or version == 0 or version > newest
    if not is_full and version == newest:
        return None
    cluster_id = find_cluster(connection, cluster)
    if cluster_id is None:
        return None
    since = 0 if is_full else version
    tree = Tree(connection, cluster_id)
    concerned: dict[int, None] = {}
    for row in tree.rows.values():
        if row["version"] > since and row["id"] not in concerned:
            concerned.update(dict.fromkeys(below["id"] for below in tree.below(row["id"])))
    table = schema.associations
    removed = _removed(connection, table, table.c.id, since, table.c.cluster_id == cluster_id)
    qos = schema.qos
    qos_rows = connection.execute(
        sa.select(qos).where(qos.c.is_deleted == 0, qos.c.version > since).order_by(qos.c.id)
    )
    users = schema.users
    changed_users = list(
        connection.execute(
            sa.select(users.c.name).where(users.c.is_deleted == 0, users.c.version > since)
        ).scalars()
    )
    shares = schema.cluster_resources
    changed_licenses = connection.execute(
        sa.select(sa.func.max(schema.resources.c.version), sa.func.max(shares.c.version))
        .select_from(schema.resources)
        .outerjoin(shares, shares.c.resource_id == schema.resources.c.id)
    ).one()
    has_licenses = is_full or max(changed_licenses[0] or 0, changed_licenses[1] or 0) > since
    licenses, servers = _licenses(connection, cluster_id) if has_licenses else (None, [])
    tres = connection.execute(sa.select(schema.tres.c.type, schema.tres.c.name))
    return AssociationUpdate(
        store_id=own_store,
        version=newest,
        is_full=is_full,
        associations=[
            tree.record(tree.rows[assoc_id]) for assoc_id in tree.rows if assoc_id in concerned
        ],
        associations_removed=[] if is_full else removed,
        qos=[qos_record(dict(qos_row._mapping), tree.qos_names) for qos_row in qos_rows],
        qos_removed=[] if is_full else _removed(connection, qos, qos.c.name, since),
        users=user_records(connection, cluster_id, None if is_full else changed_users),
        users_removed=[] if is_full else _removed(connection, users, users.c.name, since),
        tres=[f"{kind}/{name}" if name else kind for kind, name in tres],
        licenses=licenses,
        license_servers=servers,
    )


def _licenses(
    connection: sa.Connection, cluster_id: int
) -> tuple[list[tuple[str, int]], list[LicenseServer]]:
    """Return the licences of licence servers that a cluster may use, and what is known of them."""
    table, shares = schema.resources, schema.cluster_resources
    rows = connection.execute(
        sa.select(table, shares.c.allowed)
        .join(shares, shares.c.resource_id == table.c.id)
        .where(table.c.is_deleted == 0, shares.c.is_deleted == 0, shares.c.cluster_id == cluster_id)
    )
    may: list[tuple[str, int]] = []
    servers: list[LicenseServer] = []
    for row in rows:
        name = f"{row.name}@{row.server}"
        is_count = row.flags == "Absolute"
        may.append((name, row.allowed if is_count else row.count * row.allowed // 100))
        total = row._mapping["count"]
        servers.append(LicenseServer(name, total, row.last_consumed, row.modified_us))
    return sorted(may), sorted(servers, key=lambda server: server.name)


def _removed(  # type: ignore[no-untyped-def]
    connection: sa.Connection, table: sa.Table, column, since: int, *where
) -> list:  # type: ignore[type-arg]
    query = sa.select(column).where(table.c.is_deleted != 0, table.c.version > since, *where)
    return list(connection.execute(query).scalars())
