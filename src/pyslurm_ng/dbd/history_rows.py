"""`sacctmgr list transaction` and `list event`: what has been changed, and what nodes did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import sqlalchemy as sa

from pyslurm_ng.base.dates import parse_date
from pyslurm_ng.base.numbers import DAY_US, SECOND_US
from pyslurm_ng.base.units import whole_number
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin.change import RefusedError
from pyslurm_ng.dbd.admin.words import Words
from pyslurm_ng.dbd.list_request import Asked
from pyslurm_ng.dbd.tree import Row

MOST_ROWS = 100_000
"""Of an answer to a user who is no operator: answers are made in memory."""


def transactions(asked: Asked) -> tuple[Iterable[str], list[Row]]:
    """Return who changed what in accounting."""
    where = asked.where
    table = schema.txn
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
    actions = where.values("Actions", lower=True)
    for action in actions:
        if action not in _ACTIONS:
            raise RefusedError(f"You gave a bad action '{action}'.")
    names = where.values("Accounts", lower=True) + where.values("Users", lower=True)
    shown: list[Row] = [
        {
            "TimeStamp": row.time_us,
            "Action": row.action,
            "Actor": row.actor,
            "Where": row.object,
            "Info": row.info,
            "Cluster": row.cluster,
            "ID": row.id,
        }
        for row in _bounded(asked, query)
        if (not actions or row.action.lower() in actions)
        and (not names or any(name in f"{row.object} {row.info}" for name in names))
    ]
    return ("TimeStamp", "Action", "Actor", "Where", "Info", "Cluster", "ID"), shown


def _bounded(asked: Asked, query: sa.Select[Any]) -> Iterator[sa.Row[Any]]:
    """Yield the rows of a query.

    Raises:
        RefusedError: there are too many for a user.
    """
    for number, row in enumerate(asked.connection.execute(query)):
        if number >= MOST_ROWS and not asked.actor.is_operator:
            raise RefusedError(
                f" More than {MOST_ROWS} records: name a shorter time with Start and End"
            )
        yield row


_ACTIONS = (
    "add accounts", "add account coord", "add associations", "add clusters", "add federations",
    "add qos", "add resources", "add tres", "add users", "add wckeys", "delete accounts",
    "delete associations", "delete clusters", "delete federations", "delete qos",
    "delete resources", "delete users", "fix runaway jobs", "modify accounts",
    "modify associations",
    "modify clusters", "modify federations", "modify job", "modify qos", "modify resources",
    "modify users", "remove account coord", "remove accounts", "remove associations",
    "remove clusters", "remove qos", "remove resources", "remove users",
)  # fmt: skip


def ids_of(where: Words, what: str) -> list[int]:
    """Return the numbers of the condition `IDs`.

    Raises:
        RefusedError: one is not a number; `what` says of what it should be.
    """
    numbers = []
    for word in where.values("IDs"):
        number = whole_number(word)
        if number is None:
            raise RefusedError(f"Invalid value for {what} ({word})")
        numbers.append(number)
    return numbers


def _kind(word: str) -> str:
    """Return the kind of events that a word or its beginning names."""
    for kind in ("cluster", "node"):
        if kind.startswith(word.lower()):
            return kind
    raise RefusedError(f" Unknown event type: '{word}'  Valid events are Cluster and Node.")


def _uid(word: str) -> int:
    from pwd import getpwnam

    number = whole_number(word)
    if number is not None:
        return number
    try:
        return getpwnam(word).pw_uid
    except KeyError:
        raise RefusedError(f"Invalid user id: {word}") from None


def window(asked: Asked, default_start_us: int) -> tuple[int, int]:
    """Return the period that `Start` and `End` name, in microseconds."""
    now_s = asked.now_us // SECOND_US
    times = [default_start_us, asked.now_us]
    for index, key in enumerate(("Start", "End")):
        text = asked.where.last(key)
        if text:
            try:
                times[index] = parse_date(text, now_s, past=True) * SECOND_US
            except ValueError as problem:
                raise RefusedError(f" {problem}") from None
    return times[0], times[1]


def events(asked: Asked) -> tuple[Iterable[str], list[Row]]:
    """Return what happened to nodes and clusters."""
    where = asked.where
    table = schema.node_events
    day_us = DAY_US
    default_us = 0 if "All_Time" in where or "all_time" in asked.flags else asked.now_us - day_us
    start_us, end_us = window(asked, default_us)
    nodes = set(where.values("Nodes"))
    kinds = [_kind(word) for word in where.values("Events")]
    users = [_uid(word) for word in where.values("Users")]
    states = [word.lower() for word in where.values("States")]
    reasons = where.values("Reason")
    is_open = any(word.lower() == "open" for word in where.values("CondFlags"))
    shown = []
    for cluster_id, cluster in asked.clusters():
        query = (
            sa.select(table)
            .where(
                table.c.cluster_id == cluster_id,
                table.c.start_us <= end_us,
                sa.or_(table.c.end_us == 0, table.c.end_us >= start_us),
            )
            .order_by(table.c.start_us, table.c.node_name)
        )
        for row in _bounded(asked, query):
            kind = "node" if row.node_name else "cluster"
            if (
                (nodes and row.node_name not in nodes)
                or (kinds and kind not in kinds)
                or (states and not any(row.state.lower().startswith(word) for word in states))
                or (reasons and row.reason not in reasons)
                or (users and (kind == "cluster" or row.reason_uid not in users))
                or (is_open and row.end_us)
            ):
                continue
            shown.append(
                {
                    "Cluster": cluster,
                    "NodeNames": row.node_name,
                    "ClusterNodes": row.cluster_nodes,
                    "TimeStart": row.start_us,
                    "TimeEnd": row.end_us,
                    "State": row.state,
                    "Reason": row.reason,
                    "User": row.reason_uid,
                    "Event": kind.capitalize(),
                    "TRES": row.tres,
                }
            )
    fields = ("Cluster", "NodeNames", "ClusterNodes", "TimeStart", "TimeEnd", "State", "Reason",
              "User", "Event", "TRES")  # fmt: skip
    return fields, shown
