"""The association tree of one cluster, with inherited values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.dbd import limits, removed, schema
from pyslurm_ng.model.assoc import Association, Qos, UserRecord

ADMIN_LEVELS = {1: "None", 2: "Operator", 3: "Administrator"}

USERS_ARE_COORDINATORS = "UsersAreCoords"
"""The flag of an account whose users all coordinate it."""

Row = dict[str, Any]


class Tree:
    """Associations by id, parents before children, ordered by lineage as sacctmgr lists them.

    It has no deleted associations. `row` dicts have the columns of `schema.associations`, with
    `limits` parsed.
    """

    def __init__(self, connection: sa.Connection, cluster_id: int) -> None:
        table = schema.associations
        query = sa.select(table).where(table.c.cluster_id == cluster_id, table.c.is_deleted == 0)
        rows = in_order(_rows(connection, query))
        self.rows: dict[int, Row] = {row["id"]: row for row in rows}
        self._by_names = {_names(row): row for row in rows}
        self.children: dict[int, list[int]] = {}
        for row in rows:
            self.children.setdefault(row["parent_id"], []).append(row["id"])
        qos = schema.qos
        self.qos_names: dict[int, str] = {
            row.id: row.name
            for row in connection.execute(
                sa.select(qos.c.id, qos.c.name).where(qos.c.is_deleted == 0)
            )
        }
        self._qos: dict[int, tuple[int, ...]] = {}
        self._limits: dict[int, limits.Stored] = {}

    def put(self, row: Row) -> None:
        """Take an association that has just been made; its limits are parsed."""
        self.rows[row["id"]] = row
        self._by_names[_names(row)] = row
        below = self.children.setdefault(row["parent_id"], [])
        if row["id"] not in below:
            below.append(row["id"])

    def forget_inherited(self) -> None:
        """Work out anew what associations inherit: one of them has changed."""
        self._qos.clear()
        self._limits.clear()

    def find(self, account: str, user: str = "", partition: str = "") -> Row | None:
        """Return one association, None if it does not exist."""
        return self._by_names.get((account, user, partition))

    def parent(self, row: Row) -> Row | None:
        """Return the association above, None for the root."""
        return self.rows.get(row["parent_id"])

    def parent_account(self, row: Row) -> str:
        """Return the account above an account; users and root have none."""
        above = self.parent(row)
        return above["account"] if above is not None and not row["user"] else ""

    def below(self, row_id: int) -> Iterable[Row]:
        """Yield the association and all its descendants, parents first."""
        row = self.rows.get(row_id)
        if row is not None:
            yield row
            for child in self.children.get(row_id, ()):
                yield from self.below(child)

    def qos_ids(self, row: Row) -> tuple[int, ...]:
        """Return the QOS ids effective at an association, ascending."""
        known = self._qos.get(row["id"])
        if known is not None:
            return known
        if row["qos"]:
            ids = {int(word) for word in row["qos"].split(",")}
        else:
            above = self.parent(row)
            ids = set(self.qos_ids(above)) if above is not None else set()
            for word in filter(None, row["delta_qos"].split(",")):
                if word[0] == "+":
                    ids.add(int(word[1:]))
                else:
                    ids.discard(int(word[1:]))
        qos_ids = tuple(sorted(qos_id for qos_id in ids if qos_id in self.qos_names))
        self._qos[row["id"]] = qos_ids
        return qos_ids

    def default_qos(self, row: Row | None) -> str:
        """Return the name of the default QOS, inherited when not set."""
        while row is not None:
            if row["default_qos_id"] in self.qos_names:
                return self.qos_names[row["default_qos_id"]]
            row = self.parent(row)
        return ""

    def limits_of(self, row: Row) -> limits.Stored:
        """Return its limits and priority; Max limits and the priority may be the parent's."""
        known = self._limits.get(row["id"])
        if known is not None:
            return known
        above = self.parent(row)
        own_limits = dict(row["limits"])
        if above is not None:
            inherited = self.limits_of(above)
            for spec in limits.ASSOCIATION_LIMITS:
                if spec.is_inherited and spec.name in inherited:
                    own_limits.setdefault(spec.name, inherited[spec.name])
            if "Priority" in inherited:
                own_limits.setdefault("Priority", inherited["Priority"])
        self._limits[row["id"]] = own_limits
        return own_limits

    def record(self, row: Row) -> Association:
        """Return an association as the controller mirrors it."""
        effective = self.limits_of(row)
        shares = row["shares"]
        return Association(
            assoc_id=row["id"],
            account=row["account"],
            user=row["user"],
            partition=row["partition"],
            parent_id=row["parent_id"],
            lineage=row["lineage"],
            shares=INFINITE if shares == schema.USE_PARENT_SHARES else shares,
            priority=effective.get("Priority", 0),
            default_qos=self.default_qos(row),
            qos=tuple(self.qos_names[qos_id] for qos_id in self.qos_ids(row)),
            is_default=bool(row["is_default"]),
            limits=limits.model_limits(effective, limits.ASSOCIATION_LIMITS),
            comment=row["comment"],
            usage_reset_us=row["usage_reset_us"],
        )


def in_order(rows: list[Row]) -> list[Row]:
    """Return associations as sacctmgr lists them."""
    return sorted(rows, key=lambda row: (row["lineage"], row["partition"], row["id"]))


def removed_rows(connection: sa.Connection, cluster_id: int) -> list[Row]:
    """Return the associations of a cluster that were removed and are still listed."""
    table = schema.associations
    query = sa.select(table).where(
        table.c.cluster_id == cluster_id, table.c.is_deleted == removed.DELETED
    )
    return _rows(connection, query)


def _rows(connection: sa.Connection, query: sa.Select[Any]) -> list[Row]:
    rows = [dict(row._mapping) for row in connection.execute(query)]
    for row in rows:
        row["limits"] = limits.load(row["limits"])
    return rows


def _names(row: Row) -> tuple[str, str, str]:
    return row["account"], row["user"], row["partition"]


def qos_record(row: Row, names: dict[int, str]) -> Qos:
    """Return a QOS row (limits as text) as the controller mirrors it."""
    stored = limits.load(row["limits"])
    preempt = [int(word) for word in row["preempt"].split(",") if word]
    return Qos(
        qos_id=row["id"],
        name=row["name"],
        description=row["description"],
        priority=row["priority"],
        flags=tuple(word for word in row["flags"].split(",") if word),
        grace_time_s=row["grace_time_s"],
        preempt=tuple(names[qos_id] for qos_id in preempt if qos_id in names),
        preempt_mode=row["preempt_mode"],
        preempt_exempt_s=stored.get("PreemptExemptTime", INFINITE),
        usage_factor_millionths=stored.get("UsageFactor", 1_000_000),
        usage_threshold_millionths=stored.get("UsageThreshold", INFINITE),
        limit_factor_millionths=stored.get("LimitFactor", 0),
        limits=limits.model_limits(stored, limits.QOS_LIMITS),
        usage_reset_us=row["usage_reset_us"],
    )


def accounts_below(connection: sa.Connection, accounts: Iterable[str]) -> set[str]:
    """Return accounts with all those below them, of every cluster."""
    named = set(accounts)
    all_names = set(named)
    for cluster_id in (
        connection.execute(sa.select(schema.clusters.c.id)).scalars() if named else ()
    ):
        tree = Tree(connection, cluster_id)
        for account in named:
            row = tree.find(account)
            if row is not None:
                all_names.update(below["account"] for below in tree.below(row["id"]))
    return all_names


def coordinated_accounts(
    connection: sa.Connection,
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the accounts of each coordinator in their order: as recorded, and with those below.

    What users coordinate because they are in an account is among the latter only.
    """
    own = _of_users(connection, named_coordinators())
    everywhere = _of_users(connection, all_coordinators())
    return own, {
        user: sorted(accounts_below(connection, names)) for user, names in everywhere.items()
    }


def named_coordinators() -> sa.Select[Any]:
    """Return the query for users and the accounts that they were made coordinators of."""
    pairs = schema.coordinators
    return sa.select(pairs.c.user, pairs.c.account)


def all_coordinators() -> sa.CompoundSelect[Any]:
    """Return the same query with the users of accounts whose users are all coordinators."""
    accounts, clusters, tied = schema.accounts, schema.clusters, schema.associations
    of_members = (
        sa.select(tied.c.user, tied.c.account)
        .select_from(accounts)
        .join(clusters, sa.true())
        # Its cluster is named so that the index of names finds an association.
        .join(tied, sa.and_(tied.c.cluster_id == clusters.c.id, tied.c.account == accounts.c.name))
        .where(
            accounts.c.flags == USERS_ARE_COORDINATORS,
            accounts.c.is_deleted == 0,
            tied.c.is_deleted == 0,
            tied.c.user != "",
        )
    )
    return named_coordinators().union(of_members)


def _of_users(
    connection: sa.Connection,
    query: sa.Select[Any] | sa.CompoundSelect[Any],
) -> dict[str, list[str]]:
    accounts_of: dict[str, list[str]] = {}
    for user, account in sorted((row[0], row[1]) for row in connection.execute(query)):
        accounts_of.setdefault(user, []).append(account)
    return accounts_of


def user_records(
    connection: sa.Connection,
    cluster_id: int,
    names: list[str] | None = None,
    *,
    with_deleted: bool = False,
) -> list[UserRecord]:
    """Return users with their default account on this cluster and what they coordinate.

    Args:
        names: only these.
        with_deleted: also users that were removed.
    """
    table, tied = schema.users, schema.associations
    query = sa.select(table).where(removed.is_listed(table, with_deleted)).order_by(table.c.name)
    if names is not None:
        query = query.where(table.c.name.in_(names))
    defaults = dict(
        connection.execute(
            sa.select(tied.c.user, tied.c.account).where(
                tied.c.cluster_id == cluster_id, tied.c.is_default == 1, tied.c.is_deleted == 0
            )
        ).all()
    )
    keys, default_keys = _wckeys(connection, cluster_id)
    coordinated = _of_users(connection, all_coordinators())
    return [
        UserRecord(
            name=row.name,
            default_account=defaults.get(row.name, ""),
            admin_level=ADMIN_LEVELS.get(row.admin_level, "None"),
            coordinator_of=tuple(coordinated.get(row.name, ())),
            default_wckey=default_keys.get(row.name, ""),
            wckeys=tuple(keys.get(row.name, ())),
        )
        for row in connection.execute(query)
    ]


def _wckeys(
    connection: sa.Connection, cluster_id: int
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the wckeys of each user on a cluster, and the defaults."""
    table = schema.wckeys
    query = sa.select(table.c.user, table.c.name, table.c.is_default).where(
        table.c.cluster_id == cluster_id, table.c.is_deleted == 0
    )
    keys: dict[str, list[str]] = {}
    defaults: dict[str, str] = {}
    for name, key, is_default in connection.execute(query.order_by(table.c.name)):
        keys.setdefault(name, []).append(key)
        if is_default:
            defaults[name] = key
    return keys, defaults


def names_of(ids: str, names: Mapping[int, str]) -> str:
    """Return the names for a list of ids, sorted."""
    return ",".join(sorted(names[int(word)] for word in ids.split(",") if word))


def qos_given(row: Row, names: Mapping[int, str]) -> str:
    """Return the QOS that an association names: a list, or what it adds and removes."""
    if row["qos"]:
        return names_of(row["qos"], names)
    words = [word for word in row["delta_qos"].split(",") if word]
    return ",".join(sorted(word[0] + names[int(word[1:])] for word in words))
