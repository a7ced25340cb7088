"""Workload characterisation keys: which users have which on each cluster, and their defaults.

A job that has its user's default key shows it as `*KEY`; it is the same key.
"""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from pyslurm_ng.base.numbers import DAY_US
from pyslurm_ng.dbd import removed, schema
from pyslurm_ng.dbd.admin import removed_records
from pyslurm_ng.dbd.admin.change import Change, RefusedError, Row

NO_KEY = ("''", '""', "-1")
"""Values that take a default key away."""
DEFAULT_MARK = "*"
"""Begins the key of a job that named none."""


def check_name(key: str) -> None:
    """Refuse a key that no user may have."""
    bad = not key.isprintable() or any(char in key for char in ",'\" ")
    if bad or not 0 < len(key) <= 128 or key.startswith(DEFAULT_MARK):
        raise RefusedError(f" Bad wckey {key!r}")


def add(change: Change, cluster_id: int, cluster: str, names: list[str], keys: list[str],
        *, is_new: bool = False) -> list[str]:  # fmt: skip
    """Give users keys on a cluster; return the lines for what is new.

    Args:
        is_new: the first key of a user that had none becomes the user's default.
    """
    present = _present(change, cluster_id, names)
    new = [(name, key) for name in names for key in keys if key not in present.get(name, ())]
    rows: list[Row] = [
        {
            "cluster_id": cluster_id,
            "name": key,
            "user": name,
            "is_default": int(is_new and name not in present and key == keys[0]),
            **change.stamp(is_new=True),
        }
        for name, key in new
    ]
    change.database.upsert(change.connection, schema.wckeys, ("cluster_id", "name", "user"), rows)
    for name, key in new:
        change.log("Add WCKeys", cluster, key, f"user='{name}'")
    return [f"  U = {name:<9s} W = {key:<10s} C = {cluster:<10s}" for name, key in new]


def _present(change: Change, cluster_id: int, names: Iterable[str]) -> dict[str, set[str]]:
    table = schema.wckeys
    query = sa.select(table.c.user, table.c.name).where(
        table.c.cluster_id == cluster_id, table.c.is_deleted == 0, table.c.user.in_(list(names))
    )
    keys: dict[str, set[str]] = {}
    for name, key in change.connection.execute(query):
        keys.setdefault(name, set()).add(key)
    return keys


def owners(
    connection: sa.Connection,
    clusters: Iterable[tuple[int, str]],
    keys: list[str],
    *,
    as_default: bool = False,
) -> set[str]:
    """Return the users that have one of the keys on one of the clusters.

    Args:
        as_default: only those whose default key it is there.
    """
    table = schema.wckeys
    query = sa.select(table.c.user).where(
        table.c.cluster_id.in_([cluster_id for cluster_id, _ in clusters]),
        table.c.name.in_(keys),
        table.c.is_deleted == 0,
    )
    if as_default:
        query = query.where(table.c.is_default == 1)
    return set(connection.execute(query).scalars())


def has(change: Change, cluster_id: int, name: str, key: str) -> bool:
    """Return whether a user has a key on a cluster."""
    return key in _present(change, cluster_id, [name]).get(name, ())


def default_of(change: Change, cluster_id: int, name: str) -> str:
    """Return a user's default key on a cluster, empty if there is none."""
    table = schema.wckeys
    query = sa.select(table.c.name).where(
        table.c.cluster_id == cluster_id, table.c.user == name, table.c.is_default == 1
    )
    return change.connection.execute(query).scalar() or ""


def set_default(change: Change, clusters: list[tuple[int, str]], names: list[str], key: str
                ) -> None:  # fmt: skip
    """Make a key that users have their default on clusters; `NO_KEY` takes a default away.

    Raises:
        RefusedError: a user does not have it.
    """
    lacking = [
        f"  U = {name} C = {cluster}"
        for cluster_id, cluster in clusters
        for present in [_present(change, cluster_id, names)]
        for name in names
        if key not in NO_KEY and key not in present.get(name, ())
    ]
    if lacking:
        raise RefusedError(
            " Can't modify because these users aren't associated with new default wckey "
            f"'{key}'...",
            *lacking,
            is_output=True,
        )
    table = schema.wckeys
    for cluster_id, cluster in clusters:
        of_users = sa.and_(table.c.cluster_id == cluster_id, table.c.user.in_(names))
        for is_default, condition in ((0, table.c.name != key), (1, table.c.name == key)):
            change.connection.execute(
                table.update()
                .where(of_users, condition, table.c.is_deleted == 0)
                .values(is_default=is_default, **change.stamp())
            )
        change.log("Modify Users", cluster, ",".join(names), f"default_wckey='{key}'")


def remove_some(
    change: Change, cluster_id: int, cluster: str, names: list[str], keys: list[str]
) -> list[str]:
    """Take keys from users on a cluster; return the lines for those that they had."""
    present = _present(change, cluster_id, names)
    old = [(name, key) for name in names for key in keys if key in present.get(name, ())]
    table = schema.wckeys
    _mark(change, sa.and_(table.c.cluster_id == cluster_id, table.c.user.in_(names),
                          table.c.name.in_(keys)))  # fmt: skip
    for name, key in old:
        change.log("Remove WCKeys", cluster, key, f"user='{name}'")
    return [f"  C = {cluster:<10s} W = {key:<20s} U = {name:<9s}" for name, key in old]


def remove(change: Change, names: list[str]) -> None:
    """Take all keys from users that are deleted."""
    _mark(change, schema.wckeys.c.user.in_(names))


def _mark(change: Change, condition: sa.ColumnElement[bool]) -> None:
    """Mark keys of users as removed; which jobs had them, jobs say by the key's name."""
    table, jobs = schema.wckeys, schema.jobs.c
    query = sa.select(table.c.id, table.c.name).where(condition, table.c.is_deleted == 0)
    of_ids = {row.id: row.name for row in change.connection.execute(query)}
    in_use = removed_records.with_jobs(
        change,
        jobs.wckey,
        {mark + key for key in of_ids.values() for mark in ("", DEFAULT_MARK)},
        change.now_us - DAY_US,
    )
    used = [at for at, key in of_ids.items() if {key, DEFAULT_MARK + key} & in_use]
    change.connection.execute(
        table.update()
        .where(table.c.id.in_(used))
        .values(is_deleted=removed.DELETED, is_default=0, **change.stamp())
    )
    unused = [at for at in of_ids if at not in used]
    removed_records.remove(change, table.c.id, unused, is_default=0)
