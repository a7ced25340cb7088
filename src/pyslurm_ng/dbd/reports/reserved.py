"""What jobs used of reservations."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Any

import msgspec
import sqlalchemy as sa

from pyslurm_ng.base.hostlist import HostlistError, expand
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin.change import DeniedError
from pyslurm_ng.dbd.queries import own_jobs
from pyslurm_ng.dbd.reports.scope import Scope
from pyslurm_ng.dbd.rollup.rows import Members, amounts
from pyslurm_ng.dbd.rollup.spans import Span
from pyslurm_ng.wire.report_messages import ListReservationUsage, ReservationUsage

FIELDS = (
    "cluster", "id", "name", "start_s", "end_s", "flags", "nodes", "associations", "held", "used",
)  # fmt: skip

_encode = msgspec.msgpack.Encoder().encode


def list_reservation_usage(scope: Scope, request: ListReservationUsage) -> ReservationUsage:
    """Return the reservations of a time, by begin.

    Raises:
        DeniedError: PrivateData hides them from the caller.
    """
    if "reservations" in scope.private and not scope.actor.is_operator:
        raise DeniedError("Access/permission denied")
    records = []
    for cluster_id, cluster in scope.clusters(request.clusters):
        rows = _reservations(scope.connection, cluster_id, request)
        if not rows:
            continue
        members = Members(scope.connection, cluster_id)
        used = used_of(scope, cluster_id, rows)
        for row, seconds in zip(rows, used, strict=True):
            times = (row.start_us // SECOND_US, row.end_us // SECOND_US)
            who = members.of(row.users, row.accounts)
            records.append(
                _encode(
                    [cluster, row.reservation_id, row.name, *times, row.flags, row.node_list,
                     who, dict(amounts(row.tres)), seconds]
                )
            )  # fmt: skip
    return ReservationUsage(list(scope.tres().values()), list(FIELDS), b"".join(records))


def _reservations(
    connection: sa.Connection, cluster_id: int, request: ListReservationUsage
) -> list[sa.Row[Any]]:
    """Return the times for which reservations were the same that touch the time asked for."""
    kept = schema.reservations.c
    query = sa.select(*kept).where(
        kept.cluster_id == cluster_id,
        kept.start_us < request.end_s * SECOND_US,
        sa.or_(kept.end_us == 0, kept.end_us >= request.start_s * SECOND_US),
    )
    if request.names:
        query = query.where(kept.name.in_(request.names))
    rows = connection.execute(query.order_by(kept.start_us, kept.name)).all()
    nodes = frozenset(request.nodes)
    return [row for row in rows if not nodes or nodes.intersection(node_names(row.node_list))]


def node_names(node_list: str) -> list[str]:
    """Return the nodes of a list as it is stored."""
    try:
        return expand(node_list)
    except HostlistError:
        return []  # a list that was too long for its column


def used_of(scope: Scope, cluster_id: int, rows: list[sa.Row[Any]]) -> list[dict[str, int]]:
    """Return what jobs used of each reservation while they ran in it."""
    jobs = schema.jobs.c
    first_us = min(row.start_us for row in rows)
    ends_us = [row.end_us for row in rows]
    query = sa.select(jobs.reservation, jobs.start_us, jobs.end_us, jobs.tres_allocated).where(
        jobs.cluster_id == cluster_id, jobs.reservation != "", jobs.start_us > 0
    )
    if min(ends_us):
        query = query.where(jobs.start_us < max(ends_us))
    if "jobs" in scope.private:
        query = query.where(own_jobs(scope.actor))
    used = UsedWhile(rows)
    # Not a choice between columns, for which databases read the whole table.
    for lasts in (jobs.end_us == 0, jobs.end_us > first_us):
        for job in scope.connection.execute(query.where(lasts)):
            used.count(job)
    return used.seconds


class UsedWhile:
    """What jobs used of each row of a reservation.

    A job is compared only with the rows of its reservation that it can have run in: one that comes
    back every day has hundreds of them.

    Attributes:
        seconds: TRES-seconds of each row.
    """

    def __init__(self, rows: list[Any]) -> None:
        self.seconds: list[dict[str, int]] = [{} for _ in rows]
        self._spans = [
            Span(row.start_us // SECOND_US, row.end_us // SECOND_US or 2**62) for row in rows
        ]
        self._numbers: dict[str, list[int]] = {}
        for number in sorted(range(len(rows)), key=self._spans.__getitem__):
            self._numbers.setdefault(rows[number].name, []).append(number)
        # The latest end of a row and of all before it never falls, so it can be searched in.
        self._ends = {
            name: list(accumulate((self._spans[number].end_s for number in numbers), max))
            for name, numbers in self._numbers.items()
        }

    def count(self, job: Any) -> None:
        """Add what a job has used."""
        numbers = self._numbers.get(job.reservation, [])
        start_s, end_s = job.start_us // SECOND_US, job.end_us // SECOND_US
        first = bisect_right(self._ends.get(job.reservation, []), start_s)
        for number in numbers[first:]:
            own = self._spans[number]
            if end_s and own.start_s >= end_s:
                return
            ran = Span(start_s, end_s or own.end_s).within(own)
            sums = self.seconds[number]
            for name, amount in amounts(job.tres_allocated).items():
                sums[name] = sums.get(name, 0) + amount * ran.seconds
