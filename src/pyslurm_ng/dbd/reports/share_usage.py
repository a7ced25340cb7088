"""What associations and QOS have used as it counts for fair-share, for a controller with new state.

Stored hours of the last days, days before them, and the jobs since the last stored hour. What is in
one row is taken to have been used evenly in its time. UsageFactor is that of the QOS now.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.registration import known_cluster
from pyslurm_ng.dbd.rollup.periods import day_of
from pyslurm_ng.dbd.rollup.rows import amounts
from pyslurm_ng.dbd.rollup.spans import Span
from pyslurm_ng.dbd.rollup.tables import NEXT
from pyslurm_ng.dbd.tree import Tree, qos_record
from pyslurm_ng.model.assoc import OwnerUsage, Qos
from pyslurm_ng.wire.dbd_messages import ReadUsage, StoredUsage

_HALF_LIVES = 20
"""Usage that is older than so many half-lives is not read: a millionth of it is left."""
_DAY_S = 86_400
_LN2 = 0.693  # as Slurm rounds it
_MOST = (1 << 63) - 1

Seconds = dict[str, float]


@dataclass(frozen=True, slots=True)
class _Used:
    """A row: an association and a QOS used so many TRES-seconds within a span."""

    association_id: int
    qos: str
    span: Span
    seconds: Mapping[str, int]


@dataclass(slots=True)
class _Sums:
    """Usage of associations and QOS, as it counts at one moment."""

    tree: Tree
    qos: dict[str, Qos]
    at_s: int
    lost_each_second: float
    by_owner: dict[tuple[str, int | str], Seconds] = field(default_factory=dict)

    def take(self, used: _Used) -> None:
        """Count a row for its QOS, its association, and all above."""
        factor = 1.0
        record = self.qos.get(used.qos)
        if record is not None:
            factor = record.usage_factor_millionths / 1e6
            rate = 0.0 if "NoDecay" in record.flags else self.lost_each_second
            self._add(("qos", used.qos), used, factor, rate, record.usage_reset_us)
        row = self.tree.rows.get(used.association_id)
        reset_us = row["usage_reset_us"] if row is not None else 0
        while row is not None:
            self._add(("assoc", row["id"]), used, factor, self.lost_each_second, reset_us)
            row = self.tree.parent(row)

    def _add(
        self, owner: tuple[str, int | str], used: _Used, factor: float, rate: float, reset_us: int
    ) -> None:
        span = used.span
        counted = Span(max(span.start_s, reset_us // SECOND_US), span.end_s)
        if not counted.seconds:
            return
        factor *= counted.seconds / span.seconds * _share_that_lasts(counted, self.at_s, rate)
        sums = self.by_owner.setdefault(owner, {})
        for name, seconds in used.seconds.items():
            sums[name] = sums.get(name, 0.0) + factor * seconds


def _share_that_lasts(span: Span, at_s: int, rate: float) -> float:
    """Return which part of an even use during a span still counts at a later moment."""
    if not rate:
        return 1.0
    log_kept = math.log1p(-rate)
    mean = math.expm1(span.seconds * log_kept) / (span.seconds * log_kept)
    return mean * math.exp(max(0, at_s - span.end_s) * log_kept)


def share_usage(connection: sa.Connection, request: ReadUsage) -> StoredUsage:
    """Return what each association and QOS of a cluster has used up to a moment."""
    cluster_id = known_cluster(connection, request.cluster)
    at_s = request.until_us // SECOND_US
    rate = _LN2 / request.half_life_s if request.half_life_s else 0.0
    span = Span(request.since_us // SECOND_US, at_s)
    if rate:
        span = Span(max(span.start_s, at_s - _HALF_LIVES * request.half_life_s), at_s)
    tree = Tree(connection, cluster_id)
    table = schema.qos
    rows = connection.execute(sa.select(table).where(table.c.is_deleted == 0))
    qos = {row.name: qos_record(dict(row._mapping), tree.qos_names) for row in rows}
    sums = _Sums(tree, qos, at_s, rate)
    for used in _used(connection, cluster_id, tree.qos_names, span):
        sums.take(used)
    return StoredUsage(
        [
            OwnerUsage(kind, owner, request.until_us, 0, _rounded(seconds))
            for (kind, owner), seconds in sums.by_owner.items()
        ]
    )


def _rounded(seconds: Seconds) -> dict[str, int]:
    return {name: min(_MOST, round(used)) for name, used in seconds.items()}


def _used(
    connection: sa.Connection, cluster_id: int, qos_names: Mapping[int, str], span: Span
) -> Iterator[_Used]:
    table = schema.last_ran
    done = connection.execute(sa.select(table).where(table.c.cluster_id == cluster_id)).first()
    hour_s = done.hour_us // SECOND_US if done is not None else 0
    day_s = day_of(done.day_us // SECOND_US - 2 * _DAY_S) if done is not None else 0
    tres = schema.tres
    names = {
        row.id: f"{row.type}/{row.name}" if row.name else row.type
        for row in connection.execute(sa.select(tres))
    }
    hours_s = max(day_s, span.start_s)
    for period, begin_s, end_s in (("day", span.start_s, day_s), ("hour", hours_s, hour_s)):
        for row in _rows(connection, cluster_id, period, Span(begin_s, min(end_s, span.end_s))):
            start_s = row.start_us // SECOND_US
            of_row = Span(start_s, NEXT[period](start_s))
            seconds = {names.get(row.tres_id, ""): row.allocated_s}
            yield _Used(row.association_id, qos_names.get(row.qos_id, ""), of_row, seconds)
    yield from _jobs(connection, cluster_id, Span(max(hour_s, span.start_s), span.end_s))


def _rows(
    connection: sa.Connection, cluster_id: int, period: str, span: Span
) -> sa.CursorResult[Any]:
    """Return stored usage by jobs; unused parts of reservations (QOS 0) do not count."""
    table = schema.association_usage[period]
    return connection.execute(
        sa.select(table).where(
            table.c.cluster_id == cluster_id,
            table.c.start_us >= span.start_s * SECOND_US,
            table.c.start_us < span.end_s * SECOND_US,
            table.c.qos_id != 0,
        )
    )


def _jobs(connection: sa.Connection, cluster_id: int, span: Span) -> Iterator[_Used]:
    """Yield what jobs have used since the last stored hour."""
    jobs = schema.jobs
    columns = ("association_id", "qos", "start_us", "end_us", "tres_allocated")
    query = sa.select(*[jobs.c[name] for name in columns]).where(
        jobs.c.cluster_id == cluster_id,
        jobs.c.start_us > 0,
        jobs.c.start_us < span.end_s * SECOND_US,
        jobs.c.end_us > span.start_s * SECOND_US,
    )
    for row in connection.execute(query):
        run = Span(row.start_us // SECOND_US, row.end_us // SECOND_US).within(span)
        if run.seconds:
            seconds = {
                name: count * run.seconds for name, count in amounts(row.tres_allocated).items()
            }
            yield _Used(row.association_id, row.qos, run, seconds)
