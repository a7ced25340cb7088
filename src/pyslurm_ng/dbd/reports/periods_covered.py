"""Which stored periods add up to a span of time: months inside, days and hours at its ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import sqlalchemy as sa

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.rollup.spans import Span
from pyslurm_ng.dbd.rollup.tables import BEGIN_OF, NEXT

COARSEST_FIRST = ("month", "day", "hour")

Piece = tuple[str, Span]
"""The name of a period, and the time that rows of such periods are taken for."""


def pieces(connection: sa.Connection, cluster_id: int, span: Span) -> list[Piece]:
    """Return the pieces of a span that are stored for a cluster, in their order."""
    table = schema.last_ran
    row = connection.execute(sa.select(table).where(table.c.cluster_id == cluster_id)).first()
    if row is None:
        return []
    stored_s = {period: row._mapping[f"{period}_us"] // SECOND_US for period in COARSEST_FIRST}
    return list(_pieces(span, stored_s, COARSEST_FIRST))


def _pieces(span: Span, stored_s: Mapping[str, int], periods: Sequence[str]) -> Iterator[Piece]:
    if not span.seconds:
        return
    period, *finer = periods
    if not finer:
        yield period, span
        return
    begin_of = BEGIN_OF[period]
    begin_s = begin_of(span.start_s)
    if begin_s < span.start_s:
        begin_s = NEXT[period](begin_s)
    end_s = begin_of(min(span.end_s, stored_s[period]))
    if end_s <= begin_s:
        yield from _pieces(span, stored_s, finer)
        return
    yield from _pieces(Span(span.start_s, begin_s), stored_s, finer)
    yield period, Span(begin_s, end_s)
    yield from _pieces(Span(end_s, span.end_s), stored_s, finer)
