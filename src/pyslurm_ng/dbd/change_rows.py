"""`sacctmgr list transaction`: who changed what in accounting, and of which associations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin.change import RefusedError
from pyslurm_ng.dbd.history_rows import bounded, ids_of, window
from pyslurm_ng.dbd.list_request import Asked
from pyslurm_ng.dbd.tree import Row

FIELDS = ("TimeStamp", "Action", "Actor", "Where", "Info", "User", "Account", "Cluster", "ID")
_ASSOCIATION = re.compile(r"\bid_assoc=(\d+)")
_ACTIONS = (
    "add accounts", "add account coord", "add associations", "add clusters", "add federations",
    "add qos", "add resources", "add tres", "add users", "add wckeys", "fix runaway jobs",
    "modify accounts", "modify associations", "modify clusters", "modify federations",
    "modify job", "modify qos", "modify resources", "modify users", "remove account coords",
    "remove accounts", "remove associations", "remove clusters", "remove federations",
    "remove qos", "remove resources", "remove users", "remove wckeys",
)  # fmt: skip


class _Tied(NamedTuple):
    """The association that a change was about."""

    user: str
    account: str


def transactions(asked: Asked) -> tuple[Iterable[str], list[Row]]:
    """Return who changed what in accounting."""
    where = asked.where
    actions = where.values("Actions", lower=True)
    for action in actions:
        if action not in _ACTIONS:
            raise RefusedError(f"You gave a bad action '{action}'.")
    users, accounts = where.users("Users"), where.values("Accounts", lower=True)
    is_tied = bool(users or accounts or asked.flags & {"withassoc", "withassocinfo"})
    associations = _associations(asked.connection) if is_tied else {}
    shown = []
    for row in bounded(asked, _query(asked)):
        action = _action(row.action)
        tied = _tied(row.object, associations)
        if (
            (actions and action.lower() not in actions)
            or (users and not _is_about(row.object, tied.user, users))
            or (accounts and not _is_about(row.object, tied.account, accounts))
        ):
            continue
        shown.append(
            {
                "TimeStamp": row.time_us,
                "Action": action,
                "Actor": row.actor,
                "Where": row.object,
                "Info": row.info,
                "User": tied.user,
                "Account": tied.account,
                "Cluster": row.cluster,
                "ID": row.id,
            }
        )
    return FIELDS, shown


def _query(asked: Asked) -> sa.Select[Any]:
    where, table = asked.where, schema.txn
    query = sa.select(table).order_by(table.c.time_us, table.c.id)
    if "Actors" in where:
        query = query.where(table.c.actor.in_(where.values("Actors")))
    if "IDs" in where:
        query = query.where(table.c.id.in_(ids_of(where, "Transaction ID")))
    if "Clusters" in where:
        query = query.where(table.c.cluster.in_(where.values("Clusters", lower=True)))
    start_us, end_us = window(asked, 0)
    query = query.where(table.c.time_us >= start_us, table.c.time_us <= end_us)
    if not asked.actor.is_operator:
        query = query.where(table.c.actor == asked.actor.name)
    return query


def _action(stored: str) -> str:
    """Return Slurm's name of an action; earlier releases of ours stored some under another."""
    name = stored.replace("Delete ", "Remove ", 1)
    return "Remove Account Coords" if name == "Remove Account Coord" else name


def _associations(connection: sa.Connection) -> dict[int, _Tied]:
    """Return users and accounts of all associations, also of those that are deleted."""
    table = schema.associations
    return {
        row.id: _Tied(row.user, row.account)
        for row in connection.execute(sa.select(table.c.id, table.c.user, table.c.account))
    }


def _tied(text: str, associations: dict[int, _Tied]) -> _Tied:
    match = _ASSOCIATION.search(text)
    return associations.get(int(match[1]), _Tied("", "")) if match else _Tied("", "")


def _is_about(text: str, tied: str, names: list[str]) -> bool:
    """Return whether a change names a user or account, or is of an association of it."""
    return tied in names or any(name in names for name in text.split(","))
