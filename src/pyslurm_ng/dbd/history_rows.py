"""`sacctmgr list event`: what nodes and clusters did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from typing import Any

import sqlalchemy as sa

from pyslurm_ng.base.dates import parse_date
from pyslurm_ng.base.hostlist import HostlistError, expand_of_user
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.base.state_names import NODE_FLAGS, NODE_STATES
from pyslurm_ng.base.units import format_seconds, whole_number
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin.change import RefusedError
from pyslurm_ng.dbd.admin.words import Words
from pyslurm_ng.dbd.list_request import Asked
from pyslurm_ng.dbd.rollup.rows import amounts
from pyslurm_ng.dbd.tree import Row

_NODES_KNOWN = 0
"""How many nodes there are the database does not know; lists have 65,536 names at most."""
_CLUSTER_EVENT, _NODE_EVENT = 1, 2
MOST_ROWS = 100_000
"""Of an answer to users that are not operators: answers are made in memory."""


def bounded(asked: Asked, query: sa.Select[Any]) -> Iterator[sa.Row[Any]]:
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


def nodes_of(where: Words) -> set[str]:
    """Return the names of the condition `Nodes`.

    Raises:
        RefusedError: it is no list of hosts.
    """
    try:
        return set(expand_of_user(where.last("Nodes") or "", _NODES_KNOWN))
    except HostlistError as error:
        raise RefusedError(f" Nodes={where.last('Nodes')}: {error}") from None


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


class _Choice:
    """The conditions of `list event`.

    Args:
        has_time: whether a time is given; otherwise states mean what nodes are in now.

    Raises:
        RefusedError: a value that no event can have.
    """

    def __init__(self, where: Words, *, has_time: bool) -> None:
        self._kinds = [_kind(word) for word in where.values("Events")]
        self._states = [_state(word) for word in where.values("States")]
        self._reasons = where.values("Reason")
        self._users = [_uid(word) for word in where.values("Users")]
        self._least, self._most = _cpus(where, "MinCPUs"), _cpus(where, "MaxCPUs")
        self._is_open = bool(self._states) and not has_time
        for word in where.values("CondFlags"):
            if word.lower() != "open":
                raise RefusedError(f"Unknown condition flag {word}")
            self._is_open = True
        self._nodes = nodes_of(where)

    def has(self, row: Any) -> bool:
        """Return whether an event is meant."""
        kind = "node" if row.node_name else "cluster"
        if self._least is not None or self._most is not None:
            cpus = amounts(row.tres).get("cpu", 0)
            if cpus < (self._least or 0) or (self._most is not None and cpus > self._most):
                return False
        return (
            (not self._nodes or row.node_name in self._nodes)
            and (not self._kinds or kind in self._kinds)
            and (not self._states or bool(set(self._states) & set(_states_of(row.state))))
            and (not self._reasons or row.reason in self._reasons)
            and (not self._users or (kind == "node" and row.reason_uid in self._users))
            and not (self._is_open and row.end_us)
        )


_STATES = (*NODE_STATES, *(name for _, name in NODE_FLAGS))


def _state(word: str) -> str:
    """Return the state of nodes that a word or its beginning names."""
    name = word.upper()
    meant = name if name in _STATES else next(
        (state for state in _STATES if len(name) > 2 and state.startswith(name)), ""
    )  # fmt: skip
    if not meant:
        raise RefusedError(f"Invalid state: {word}", f"Valid node states are: {' '.join(_STATES)}")
    return meant


def _states_of(text: str) -> list[str]:
    """Return the states in what an event has stored: DOWN*, DOWN+DRAIN, or DRAIN of a node in use.

    As in Slurm, such a node counts as idle, too.
    """
    words = text.upper().rstrip("*~#!%$@^-").split("+") if text else []
    return words if not words or set(words) & set(NODE_STATES) else ["IDLE", *words]


def _cpus(where: Words, key: str) -> int | None:
    text = where.last(key)
    if text is None:
        return None
    number = whole_number(text)
    if number is None:
        raise RefusedError(f"Invalid value for {key} ({text})")
    return number


def _state_number(text: str) -> int:
    """Return the number of a node's state, with the bits of its flags."""
    flags = {name: bit for bit, name in NODE_FLAGS}
    number = 0
    for word in _states_of(text):
        number |= NODE_STATES.index(word) if word in NODE_STATES else flags.get(word, 0)
    return number


def midnight_us(now_us: int, days_ago: int = 0) -> int:
    """Return when a day began, by the local clock."""
    day = date.fromtimestamp(now_us // SECOND_US) - timedelta(days=days_ago)
    return int(datetime.combine(day, time()).timestamp()) * SECOND_US


def events(asked: Asked) -> tuple[Iterable[str], list[Row]]:
    """Return what happened to nodes and clusters."""
    table = schema.node_events
    is_all = "All_Time" in asked.where or "all_time" in asked.flags
    start_us, end_us = window(asked, 0 if is_all else midnight_us(asked.now_us, days_ago=1))
    choice = _Choice(asked.where, has_time=is_all or "Start" in asked.where or "End" in asked.where)
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
        shown += [
            {
                "Cluster": cluster,
                "NodeNames": row.node_name,
                "ClusterNodes": row.cluster_nodes,
                "TimeStart": row.start_us,
                "TimeEnd": row.end_us,
                "State": row.state.rpartition("+")[2],  # flags say more
                "Reason": row.reason,
                "User": row.reason_uid,
                "Event": "Node" if row.node_name else "Cluster",
                "EventRaw": _NODE_EVENT if row.node_name else _CLUSTER_EVENT,
                "StateRaw": _state_number(row.state) if row.node_name else 0,
                "Duration": format_seconds(
                    ((row.end_us or asked.now_us) - row.start_us) // SECOND_US
                ),
                "CPUCount": amounts(row.tres).get("cpu", 0),
                "TRES": row.tres,
            }
            for row in bounded(asked, query)
            if choice.has(row)
        ]
    fields = ("Cluster", "NodeNames", "ClusterNodes", "TimeStart", "TimeEnd", "State", "Reason",
              "User", "Event", "EventRaw", "StateRaw", "Duration", "CPUCount",
              "TRES")  # fmt: skip
    return fields, shown
