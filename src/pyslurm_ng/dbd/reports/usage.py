"""Stored usage of a span of time: of clusters, of the association tree, of wckeys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.reports.periods_covered import Piece, pieces
from pyslurm_ng.dbd.reports.scope import Scope
from pyslurm_ng.dbd.rollup.spans import Span
from pyslurm_ng.wire.report_messages import CLUSTER_SUMS, ListUsage, UsageRows

Amounts = dict[int, int]
"""Seconds times amount by the id of the TRES."""
Records = Iterator[list[Any]]

ASSOCIATION_FIELDS = (
    "cluster", "id", "account", "user", "partition", "qos", "depth", "amounts"
)  # fmt: skip
WCKEY_FIELDS = ("cluster", "wckey", "user", "amounts")

_encode = msgspec.msgpack.Encoder().encode


def list_usage(scope: Scope, request: ListUsage) -> UsageRows:
    """Return what a report of stored usage needs.

    Raises:
        RefusedError: an ordinary user asks for wckeys.
    """
    if request.what == "wckey":
        scope.refuse_ordinary_users()
    tres = scope.tres()
    clusters: list[tuple[str, list[tuple[int, ...]]]] = []
    records: list[bytes] = []
    for cluster_id, cluster in scope.clusters(request.clusters):
        parts = pieces(scope.connection, cluster_id, Span(request.start_s, request.end_s))
        clusters.append((cluster, cluster_sums(scope.connection, cluster_id, parts, tres)))
        if request.what == "association":
            rows = _association_records(scope, cluster_id, parts, tres, request.by_qos)
        elif request.what == "wckey":
            rows = _wckey_records(scope, cluster_id, parts, tres)
        else:
            continue
        records += [_encode([cluster, *row]) for row in rows]
    fields = WCKEY_FIELDS if request.what == "wckey" else ASSOCIATION_FIELDS
    return UsageRows(list(tres.values()), clusters, list(fields), b"".join(records))


def cluster_sums(
    connection: sa.Connection, cluster_id: int, parts: Iterable[Piece], tres: Iterable[int]
) -> list[tuple[int, ...]]:
    """Return the row of each TRES; none at all if nothing is stored of that time."""
    sums: dict[int, list[int]] = {}
    names = ["count", *[f"{name}_s" for name in CLUSTER_SUMS[1:]]]
    for key, amounts in _summed(connection, schema.cluster_usage, cluster_id, parts, names):
        known = sums.setdefault(key[0], [0] * len(names))
        known[0] = max(known[0], amounts[0])
        for index in range(1, len(names)):
            known[index] += amounts[index]
    if not sums:
        return []
    return [tuple(sums.get(tres_id, [0] * len(names))) for tres_id in tres]


def _summed(
    connection: sa.Connection,
    tables: Mapping[str, sa.Table],
    cluster_id: int,
    parts: Iterable[Piece],
    names: Iterable[str],
) -> Iterator[tuple[tuple[Any, ...], tuple[int, ...]]]:
    """Yield sums of columns by what rows are about, for each piece; the TRES is the last key."""
    for period, span in parts:
        table = tables[period]
        keys = [key for key in table.primary_key if key.name not in ("cluster_id", "start_us")]
        values = [
            sa.func.max(table.c[name]) if name == "count" else sa.func.sum(table.c[name])
            for name in names
        ]
        query = sa.select(*keys, *values).where(
            table.c.cluster_id == cluster_id,
            table.c.start_us >= span.start_s * SECOND_US,
            table.c.start_us < span.end_s * SECOND_US,
        )
        for row in connection.execute(query.group_by(*keys)):
            yield tuple(row[: len(keys)]), tuple(map(int, row[len(keys) :]))


def _amounts_by(
    connection: sa.Connection,
    tables: Mapping[str, sa.Table],
    cluster_id: int,
    parts: Iterable[Piece],
) -> dict[tuple[Any, ...], Amounts]:
    """Return what each key without its TRES has used."""
    used: dict[tuple[Any, ...], Amounts] = {}
    for key, (seconds,) in _summed(connection, tables, cluster_id, parts, ["allocated_s"]):
        _add(used.setdefault(key[:-1], {}), {key[-1]: seconds})
    return used


def _add(sums: Amounts, more: Amounts) -> None:
    for tres_id, seconds in more.items():
        sums[tres_id] = sums.get(tres_id, 0) + seconds


def _wckey_records(
    scope: Scope, cluster_id: int, parts: Iterable[Piece], tres: Iterable[int]
) -> Records:
    used = _amounts_by(scope.connection, schema.wckey_usage, cluster_id, parts)
    for wckey, user in sorted(used):
        yield [wckey, user, [used[wckey, user].get(tres_id, 0) for tres_id in tres]]


def _association_records(
    scope: Scope, cluster_id: int, parts: Iterable[Piece], tres: Iterable[int], by_qos: bool
) -> Records:
    """Yield associations that have used something, with all below them counted, as a tree."""
    used = _amounts_by(scope.connection, schema.association_usage, cluster_id, parts)
    tree = UsageTree(scope, cluster_id, used)
    names = _qos_names(scope.connection) if by_qos else {}
    for row, depth in tree.walk():
        own = tree.used[row.id]
        total: Amounts = {}
        for amounts in own.values():
            _add(total, amounts)
        if by_qos and row.user:
            continue
        named = [row.id, row.account, row.user, row.partition]
        yield [*named, "", depth, [total.get(tres_id, 0) for tres_id in tres]]
        for qos_id in sorted(own, key=lambda qos_id: names.get(qos_id, "")) if by_qos else ():
            if qos_id:  # 0 is the unused part of reservations
                used_by = [own[qos_id].get(tres_id, 0) for tres_id in tres]
                yield [*named, names.get(qos_id, str(qos_id)), depth + 1, used_by]


def _qos_names(connection: sa.Connection) -> dict[int, str]:
    table = schema.qos
    return {row.id: row.name for row in connection.execute(sa.select(table.c.id, table.c.name))}


def _place(row: sa.Row[Any]) -> tuple[bool, str, int]:
    """Return where an association stands among those below the same account.

    Of those of one user in several partitions the newest comes first.
    """
    return not row.user, row.user or row.account, -row.id


class UsageTree:
    """The associations of a cluster with what each and all below it have used, by QOS.

    Deleted associations are included if they have used something.
    """

    def __init__(
        self, scope: Scope, cluster_id: int, used: Mapping[tuple[Any, ...], Amounts]
    ) -> None:
        table = schema.associations
        columns = ("id", "parent_id", "account", "user", "partition", "is_deleted")
        query = sa.select(*[table.c[name] for name in columns])
        rows = scope.connection.execute(query.where(table.c.cluster_id == cluster_id)).all()
        self.used: dict[int, dict[int, Amounts]] = {row.id: {} for row in rows}
        self._below: dict[int, list[sa.Row[Any]]] = {}
        # Users come before the accounts below the same account, as in Slurm.
        for row in sorted(rows, key=_place):
            self._below.setdefault(row.parent_id, []).append(row)
        above = {row.id: row.parent_id for row in rows}
        for (association_id, qos_id), amounts in used.items():
            while association_id in self.used:
                _add(self.used[association_id].setdefault(qos_id, {}), amounts)
                association_id = above[association_id]
        self._seen: set[int] = set()
        for row in rows:
            # Users who may see an association also see the sums of the accounts above it.
            association_id = row.id
            if scope.sees(row.user, row.account):
                while association_id in above and association_id not in self._seen:
                    self._seen.add(association_id)
                    association_id = above[association_id]

    def walk(self, parent_id: int = 0, depth: int = 0) -> Iterator[tuple[sa.Row[Any], int]]:
        """Yield what has used something, parents first, with its depth."""
        for row in self._below.get(parent_id, ()):
            if self.used[row.id] and row.id in self._seen:
                yield row, depth
                yield from self.walk(row.id, depth + 1)
