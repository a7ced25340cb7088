"""How long jobs of each size ran: sums of job records, made by the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import sqlalchemy as sa

from pyslurm_ng.base.hostlist import HostlistError, expand
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin.change import RefusedError
from pyslurm_ng.dbd.queries import own_jobs
from pyslurm_ng.dbd.reports.scope import Scope
from pyslurm_ng.dbd.rollup.rows import amounts
from pyslurm_ng.dbd.rollup.spans import Span, covered
from pyslurm_ng.wire.report_messages import JobSizes, ListJobSizes

FIELDS = ("cluster", "account", "wckey", "cpus", "jobs", "seconds")
MOST_SIZES = 300_000
"""The most rows of one answer."""

_jobs = schema.jobs.c
_encode = msgspec.msgpack.Encoder().encode

Size = tuple[str, str, int]
"""Account, wckey and CPUs."""


def list_job_sizes(scope: Scope, request: ListJobSizes, now_s: int) -> JobSizes:
    """Return what the reports of job sizes need.

    Raises:
        RefusedError: an ordinary user asks for wckeys, or there are too many sizes.
    """
    if request.by_wckey:
        scope.refuse_ordinary_users()
    tres = scope.tres()
    span = Span(request.start_s, min(request.end_s, now_s))
    parents: dict[str, dict[str, str]] = {}
    records: list[bytes] = []
    for cluster_id, cluster in scope.clusters(request.clusters):
        parents[cluster] = _accounts_above(scope.connection, cluster_id)
        counts: Counter[Size] = Counter()
        seconds: Counter[Size] = Counter()
        for size, number, used in _sizes(scope, request, cluster_id, span):
            counts[size] += number
            seconds[size] += used
        records += [
            _encode([cluster, *size, counts[size], seconds[size]]) for size in sorted(counts)
        ]
        if len(records) > MOST_SIZES:
            raise RefusedError(f"More than {MOST_SIZES} sizes: name a shorter time")
    return JobSizes(list(tres.values()), parents, list(FIELDS), b"".join(records))


def _accounts_above(connection: sa.Connection, cluster_id: int) -> dict[str, str]:
    """Return the account above each account of a cluster, also of deleted ones."""
    table = schema.associations
    query = sa.select(table.c.id, table.c.parent_id, table.c.account).where(
        table.c.cluster_id == cluster_id, table.c.user == ""
    )
    rows = connection.execute(query).all()
    names = {row.id: row.account for row in rows}
    return {row.account: names[row.parent_id] for row in rows if row.parent_id in names}


def _sizes(
    scope: Scope, request: ListJobSizes, cluster_id: int, span: Span
) -> Iterator[tuple[Size, int, int]]:
    """Yield size, number of jobs and seconds times amount; a size may come repeatedly.

    As in Slurm, jobs that ran for less than a second are no jobs here.
    """
    clauses = [
        _jobs.cluster_id == cluster_id,
        _jobs.start_us > 0,
        _jobs.start_us < span.end_s * SECOND_US,
        *_clauses(scope, request),
    ]
    # Not a choice between columns, for which databases read the whole table.
    for lasts in (_jobs.end_us == 0, _jobs.end_us > span.start_s * SECOND_US):
        yield from _whole_runs(scope.connection, request, [lasts, *clauses], span)
        yield from _suspended_runs(scope.connection, request, [lasts, *clauses], span)


def _whole_runs(
    connection: sa.Connection,
    request: ListJobSizes,
    clauses: Iterable[sa.ColumnElement[bool]],
    span: Span,
) -> Iterator[tuple[Size, int, int]]:
    """Yield the sums of jobs that were not suspended."""
    first_us, last_us = span.start_s * SECOND_US, span.end_s * SECOND_US
    begin_s = sa.case((_jobs.start_us < first_us, span.start_s), else_=_jobs.start_us // SECOND_US)
    is_over = sa.and_(_jobs.end_us > 0, _jobs.end_us < last_us)
    end_s = sa.case((is_over, _jobs.end_us // SECOND_US), else_=span.end_s)
    keys = _keys(request)
    query = sa.select(*keys, sa.func.count(), sa.func.sum(end_s - begin_s)).where(
        _jobs.suspended_us == 0, _jobs.suspend_start_us == 0, end_s > begin_s, *clauses
    )
    for row in connection.execute(query.group_by(*keys)):
        if _ran_there(row, request):
            yield _size(row), int(row[-2]), int(row[-1]) * _amount(row, request.tres)


def _suspended_runs(
    connection: sa.Connection,
    request: ListJobSizes,
    clauses: Iterable[sa.ColumnElement[bool]],
    span: Span,
) -> Iterator[tuple[Size, int, int]]:
    """Yield the jobs that were suspended, without the time for which they were."""
    kept = schema.suspensions.c
    columns = (_jobs.job_index, _jobs.start_us, _jobs.end_us, _jobs.suspend_start_us)
    query = sa.select(*_keys(request), *columns).where(
        sa.or_(_jobs.suspended_us > 0, _jobs.suspend_start_us > 0), *clauses
    )
    for row in connection.execute(query).all():
        if not _ran_there(row, request):
            continue
        end_s = row.end_us // SECOND_US if row.end_us else span.end_s
        ran = Span(row.start_us // SECOND_US, end_s).within(span)
        periods = connection.execute(
            sa.select(kept.start_us, kept.end_us).where(kept.job_index == row.job_index)
        )
        still = [Span(begin // SECOND_US, end // SECOND_US) for begin, end in periods]
        if row.suspend_start_us:
            still.append(Span(row.suspend_start_us // SECOND_US, span.end_s))
        seconds = ran.seconds - covered(period.within(ran) for period in still)
        if seconds > 0:
            yield _size(row), 1, seconds * _amount(row, request.tres)


def _keys(request: ListJobSizes) -> list[sa.Column[Any]]:
    """Return the columns by which the request tells jobs apart."""
    keys = [_jobs.account, _jobs.wckey, _jobs.cpus_allocated]
    if request.tres != "cpu":
        keys.append(_jobs.tres_allocated)
    if request.nodes:
        keys.append(_jobs.node_list)
    return keys


def _size(row: Any) -> Size:
    return row.account, row.wckey, row.cpus_allocated


def _amount(row: Any, tres: str) -> int:
    return row.cpus_allocated if tres == "cpu" else amounts(row.tres_allocated).get(tres, 0)


def _ran_there(row: Any, request: ListJobSizes) -> bool:
    if not request.nodes:
        return True
    try:
        return not set(request.nodes).isdisjoint(expand(row.node_list))
    except HostlistError:
        return False  # a list that was too long for its column


def _clauses(scope: Scope, request: ListJobSizes) -> Iterator[sa.ColumnElement[bool]]:
    for values, column in (
        (request.uids, _jobs.uid),
        (request.gids, _jobs.gid),
        (request.partitions, _jobs.partition),
        (request.wckeys, _jobs.wckey),
    ):
        if values:
            yield column.in_(values)
    if request.jobs:
        columns = (_jobs.job_id, _jobs.array_job_id, _jobs.het_job_id)
        yield sa.or_(*[column.in_(request.jobs) for column in columns])
    if "jobs" in scope.private:
        yield own_jobs(scope.actor)
