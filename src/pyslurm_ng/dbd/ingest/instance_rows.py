"""Which instances of a cloud nodes were: each time for which one was the same is a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.ingest.session import Session
from pyslurm_ng.model import events as ev

FIELDS = ("instance_id", "instance_type", "extra")
"""What tells instances apart; a node without any of it has no row."""
_CHUNK = 500
_table = schema.node_instances


def updated(session: Session, event: ev.NodeUpdated) -> None:
    """Keep what an administrator, or slurmd's command line, says of nodes."""
    new = {name: str(event.fields[name]) for name in FIELDS if name in event.fields}
    if new:
        names = [session.node_names.get(node_id, "") for node_id in event.node_ids]
        _change(session, [name for name in names if name], new, event.time_us)


def registered(session: Session, event: ev.NodeRegistered) -> None:
    """Keep what a node says of itself; what it does not say stays as it was."""
    said = {"instance_id": event.facts.instance_id, "instance_type": event.facts.instance_type}
    new = {name: value for name, value in said.items() if value}
    name = session.node_names.get(event.node_id)
    if new and name:
        _change(session, [name], new, event.time_us)


def ended(session: Session, node_name: str, time_us: int) -> None:
    """End the instance of a node that is no longer configured."""
    _change(session, [node_name], dict.fromkeys(FIELDS, ""), time_us)


def end_all(connection: sa.Connection, cluster_id: int, time_us: int) -> None:
    """End the instances of a cluster whose controller has begun anew."""
    of_cluster = sa.and_(_table.c.cluster_id == cluster_id, _table.c.end_us == 0)
    _end(connection, of_cluster, time_us)


def _change(session: Session, names: list[str], new: Mapping[str, str], time_us: int) -> None:
    """Close the present rows of nodes for which `new` says something else, and begin others."""
    for first in range(0, len(names), _CHUNK):
        chunk = names[first : first + _CHUNK]
        is_open = sa.and_(
            _table.c.cluster_id == session.cluster_id,
            _table.c.node_name.in_(chunk),
            _table.c.end_us == 0,
        )
        query = sa.select(_table).where(is_open)
        present = {row.node_name: row._mapping for row in session.connection.execute(query)}
        changed: dict[str, dict[str, str]] = {}
        for name in chunk:
            before: dict[str, str] = {
                field: present[name][field] if name in present else "" for field in FIELDS
            }
            after = {**before, **new}
            if after != before:
                changed[name] = after
        if changed:
            _end(session.connection, is_open & _table.c.node_name.in_(list(changed)), time_us)
            _begin(session, changed.items(), time_us)


def _begin(session: Session, instances: Iterable[tuple[str, dict[str, str]]], time_us: int) -> None:
    rows: list[dict[str, Any]] = [
        {
            "cluster_id": session.cluster_id,
            "node_name": name,
            "start_us": time_us,
            "end_us": 0,
            **fields,
        }
        for name, fields in instances
        if any(fields.values())
    ]
    session.upsert(_table, ("cluster_id", "node_name", "start_us"), rows)


def _end(connection: sa.Connection, of_rows: sa.ColumnElement[bool], time_us: int) -> None:
    """End rows at a time; those that began then were never true for a moment."""
    connection.execute(_table.delete().where(of_rows, _table.c.start_us >= time_us))
    connection.execute(_table.update().where(of_rows).values(end_us=time_us))
