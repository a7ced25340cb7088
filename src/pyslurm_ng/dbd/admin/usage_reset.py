"""sacctmgr modify account, user or qos set RawUsage=0: as a command of its own, as in Slurm 22.05.

What an account and all below it have used is zero from now on. Controllers take it away from the
accounts above, too.
"""

from __future__ import annotations

import re

import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin.change import Change, RefusedError, Row, refuse_denied
from pyslurm_ng.dbd.admin.words import Words

_KEY = "RawUsage"


def is_asked(settings: Words) -> bool:
    """Return whether the command sets usage to zero; its other settings are then refused.

    Raises:
        RefusedError: another value, or another setting beside it.
    """
    values = [value for key, _, value in settings.items if key == _KEY]
    if not values:
        return False
    for value in values:
        if not re.fullmatch(r"\s*[-+]?[0-9]*", value, re.ASCII):
            raise RefusedError(
                f"sacctmgr: error: Invalid value for RawUsage ({value})",
                " You didn't give me anything to set",
            )
        if value.strip("+-0 "):
            raise RefusedError("sacctmgr: error: Raw usage can only be set to 0 (zero)")
    others = [f"{key}{op}{value}" for key, op, value in settings.items if key != _KEY]
    if others:
        raise RefusedError(f"sacctmgr: error: RawUsage=0 cannot be set together with {others[0]}")
    return True


def reset_accounts(change: Change, where: Words) -> None:
    """Set the usage of accounts to zero."""
    names = where.values("Names", lower=True)
    if not names:
        raise RefusedError("sacctmgr: error: An association name is required to remove usage")
    _reset(change, where, [(name, "") for name in names])


def reset_users(change: Change, where: Words) -> None:
    """Set the usage of users in some accounts to zero."""
    names = where.users("Names")
    accounts = where.values("Accounts", lower=True)
    if not accounts:
        raise RefusedError("sacctmgr: error: An account must be specified")
    if not names:
        raise RefusedError("sacctmgr: error: A user name is required to remove usage")
    _reset(change, where, [(account, name) for name in names for account in accounts])


def _reset(change: Change, where: Words, pairs: list[tuple[str, str]]) -> None:
    if not change.actor.is_operator:
        raise refuse_denied()
    known = change.clusters(where)
    missing = [
        name
        for name in where.values("Clusters", lower=True)
        if name not in {cluster for _, cluster in known}
    ]
    if missing:
        raise RefusedError(f"sacctmgr: error: Failed to find cluster {missing[0]} in database")
    partitions = where.values("Partitions")
    table = schema.associations
    for cluster_id, cluster in known:
        tree = change.tree(cluster_id)
        for account, user in pairs:
            rows = [
                row
                for row in tree.rows.values()
                if (row["account"], row["user"]) == (account, user)
                and (not partitions or row["partition"] in partitions)
            ]
            if not rows:
                what = f"account {account}" + (f" user {user}" if user else "")
                text = f"Failed to find cluster {cluster} {what} association in database"
                raise RefusedError(f"sacctmgr: error: {text}")
            below = [lower["id"] for row in rows for lower in tree.below(row["id"])]
            _store(change, table, below)
            for row in rows:
                change.log("Modify Associations", cluster, f"id_assoc={row['id']}", "raw_usage=0")
            change.changed += len(rows)


def reset_qos(change: Change, where: Words, rows: list[Row]) -> None:
    """Set the usage of QOS to zero; `rows` are those that the conditions name."""
    names = where.values("Names", lower=True)
    if not names and "IDs" not in where:
        raise RefusedError("sacctmgr: error: A QOS name is required to remove usage")
    known = {row["name"] for row in rows}
    for name in names:
        if name not in known:
            raise RefusedError(f"sacctmgr: error: Failed to find QOS {name}")
    _store(change, schema.qos, [row["id"] for row in rows])
    for row in rows:
        change.log("Modify QOS", "", row["name"], "raw_usage=0")
    change.changed += len(rows)


def _store(change: Change, table: sa.Table, ids: list[int]) -> None:
    for first in range(0, len(ids), 500):
        change.connection.execute(
            table.update()
            .where(table.c.id.in_(ids[first : first + 500]))
            .values(usage_reset_us=change.now_us, **change.stamp())
        )
