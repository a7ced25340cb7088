"""The rows of a cluster that overlap an hour, hour after hour, each found by an index once.

No index finds what began before a time and ended after it. So hours are read in their order: what
overlaps the next one is what still lasts, which is kept here, and what begins in it. Most of what
begins in an hour also ends in it: of such jobs only sums are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from operator import attrgetter
from typing import Any

import sqlalchemy as sa

from pyslurm_ng.base.hostlist import HostlistError, expand
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.rollup import job_sums
from pyslurm_ng.dbd.rollup.hour import Capacity, Down, Job, JobSum, Reserved
from pyslurm_ng.dbd.rollup.spans import Span

Runs = dict[str, list[Span]]
"""When jobs ran, by node."""

_CHUNK = 500
_ENDLESS_S = 2**62

_jobs = schema.jobs.c
_JOB_COLUMNS = (
    _jobs.job_index, _jobs.association_id, _jobs.qos, _jobs.user, _jobs.wckey, _jobs.eligible_us,
    _jobs.start_us, _jobs.end_us, _jobs.tres_allocated, _jobs.cpus_requested, _jobs.array_tasks,
    _jobs.suspended_us, _jobs.suspend_start_us, _jobs.reservation, _jobs.sluid,
    _jobs.original_sluid, _jobs.node_list,
)  # fmt: skip


class Sweep:
    """Rows of a table that overlap periods taken one after the other.

    The rows that last are as they were when they were read. So it serves only as long as no row of
    a time before the last period changes.

    Args:
        begin, end: the columns with the times of a row; an end of 0 has not come. Each has an
            index, behind the cluster's id.
        is_elsewhere: tells, by the end of a period, which rows that begin in it are left out.
    """

    def __init__(
        self,
        cluster_id: int,
        columns: Iterable[sa.Column[Any]],
        begin: sa.Column[int],
        end: sa.Column[int],
        is_elsewhere: Callable[[int], sa.ColumnElement[bool]] | None = None,
    ) -> None:
        self._query = sa.select(*columns).where(begin.table.c.cluster_id == cluster_id)
        self._begin, self._end = begin, end
        self._is_elsewhere = is_elsewhere
        self._lasting: list[sa.Row[Any]] = []
        self._reached_us = -1

    def read(self, connection: sa.Connection, start_us: int, end_us: int) -> list[sa.Row[Any]]:
        """Return the rows that overlap a period; it begins where the last one ended.

        Those left out are over by the period's end, so no later one misses them.
        """
        begin, end = self._begin, self._end
        ends = attrgetter(end.name)
        rows = [row for row in self._lasting if not 0 < ends(row) <= start_us]
        if self._reached_us != start_us:
            # The sum keeps databases from the index of the begin, which all earlier rows are in.
            earlier = sa.and_(begin + 0 > 0, begin + 0 < start_us)
            rows = [
                row
                for lasts in (end == 0, end > start_us)
                for row in connection.execute(self._query.where(lasts, earlier))
            ]
        begun = self._query.where(begin >= max(start_us, 1), begin < end_us)
        if self._is_elsewhere is not None:
            begun = begun.where(sa.not_(self._is_elsewhere(end_us)))
        rows += connection.execute(begun).all()
        self._lasting, self._reached_us = rows, end_us
        return rows


class HourRows:
    """Reads the jobs, node events and reservations of one cluster's hours."""

    def __init__(self, cluster_id: int) -> None:
        self._cluster_id = cluster_id
        events = schema.node_events
        times = (_jobs.eligible_us, _jobs.end_us)
        self._jobs = Sweep(cluster_id, _JOB_COLUMNS, *times, job_sums.is_plain)
        self._events = Sweep(cluster_id, events.c, events.c.start_us, events.c.end_us)
        kept = schema.reservations.c
        self._reservations = Sweep(cluster_id, kept, kept.start_us, kept.end_us)
        self._members: Members | None = None
        self._suspensions: dict[int, tuple[Span, ...]] = {}
        self._qos_ids: dict[str, int] = {}
        self._node_tres: dict[str, str] = {}

    def begin(self, connection: sa.Connection) -> None:
        """Read what does not depend on the hour."""
        qos, nodes = schema.qos, schema.cluster_nodes
        self._qos_ids = {
            row.name: row.id for row in connection.execute(sa.select(qos.c.name, qos.c.id))
        }
        of_cluster = nodes.c.cluster_id == self._cluster_id
        query = sa.select(nodes.c.name, nodes.c.tres).where(of_cluster).order_by(nodes.c.node_id)
        self._node_tres = {row.name: row.tres or "" for row in connection.execute(query)}

    def read(
        self, connection: sa.Connection, hour: Span
    ) -> tuple[list[Capacity], Iterator[Job], list[Down], list[Reserved], list[JobSum]]:
        """Return the rows of an hour; jobs, of which there are most, one at a time."""
        period = (hour.start_s * SECOND_US, hour.end_s * SECOND_US)
        rows = self._jobs.read(connection, *period)
        self._read_suspensions(connection, rows)
        jobs = map(self._job, rows)
        sums = job_sums.read_sums(connection, self._cluster_id, *period)
        events = self._events.read(connection, *period)
        capacities, downs = self._read_events(connection, events, rows, hour)
        reservations = self._read_reservations(connection, period)
        return capacities, jobs, downs, reservations, list(map(self._job_sum, sums))

    def _read_events(
        self,
        connection: sa.Connection,
        events: list[sa.Row[Any]],
        jobs: list[sa.Row[Any]],
        hour: Span,
    ) -> tuple[list[Capacity], list[Down]]:
        """Return what the cluster had, and when nodes were out of service."""
        capacities, downs = [], []
        drains_us = [row.start_us for row in events if row.state.startswith("DRAIN")]
        runs: Runs = {}
        if drains_us:
            drained = {row.node_name for row in events if row.state.startswith("DRAIN")}
            period = (hour.start_s * SECOND_US, hour.end_s * SECOND_US)
            times = (min(drains_us), max(drains_us))
            ended = job_sums.last_ends(connection, self._cluster_id, period, times)
            ran = [*(row for row in jobs if row.start_us), *ended]
            runs = _runs(ran, drained, hour)
        for row in events:
            start_s, end_s = _second(row.start_us), _second(row.end_us)
            if row.node_name:
                node_amounts = amounts(row.tres or self._node_tres.get(row.node_name, ""))
                if row.state.startswith("DRAIN"):
                    start_s = max(start_s, _busy_until_s(runs.get(row.node_name, ()), start_s))
                downs.append(Down(row.node_name, start_s, end_s, node_amounts))
            else:
                capacities.append(Capacity(start_s, end_s, amounts(row.tres)))
        return capacities, downs

    def _read_reservations(
        self, connection: sa.Connection, period: tuple[int, int]
    ) -> list[Reserved]:
        """Return the reservations of an hour."""
        reservations = []
        for row in self._reservations.read(connection, *period):
            flags = row.flags.split(",")
            if self._members is None:
                self._members = Members(connection, self._cluster_id)
            reservations.append(
                Reserved(
                    row.name,
                    _second(row.start_us),
                    _second(row.end_us),
                    amounts(row.tres),
                    self._members.of(row.users, row.accounts),
                    "MAINT" in flags,
                    "IGNORE_JOBS" in flags,
                )
            )
        return reservations

    def _read_suspensions(self, connection: sa.Connection, rows: list[sa.Row[Any]]) -> None:
        """Read the suspensions of jobs that had any, and keep them as long as the jobs."""
        indexes = [row.job_index for row in rows if row.suspended_us]
        known = self._suspensions
        self._suspensions = {index: known[index] for index in indexes if index in known}
        new = [index for index in indexes if index not in known]
        table = schema.suspensions
        for first in range(0, len(new), _CHUNK):
            some = table.c.job_index.in_(new[first : first + _CHUNK])
            for row in connection.execute(sa.select(table).where(some)):
                span = Span(_second(row.start_us), _second(row.end_us))
                before = self._suspensions.get(row.job_index, ())
                self._suspensions[row.job_index] = (*before, span)

    def _job_sum(self, row: sa.Row[Any]) -> JobSum:
        return JobSum(
            row.association_id,
            self._qos_ids.get(row.qos, 0),
            row.user,
            row.wckey.removeprefix("*"),
            amounts(row.summed_tres),
            int(row.used_s),
            int(row.waited_cpu_s),
        )

    def _job(self, row: sa.Row[Any]) -> Job:
        suspended = self._suspensions.get(row.job_index, ())
        if row.suspend_start_us:
            suspended = (*suspended, Span(_second(row.suspend_start_us), _ENDLESS_S))
        # The record of a run that has changed its size goes on with an earlier one.
        is_first = row.sluid == row.original_sluid
        tres = amounts(row.tres_allocated) if row.start_us else {}
        energy_j = tres.get("energy", 0)
        if energy_j:
            tres = {name: amount for name, amount in tres.items() if name != "energy"}
        return Job(
            row.association_id,
            self._qos_ids.get(row.qos, 0),
            row.user,
            row.wckey.removeprefix("*"),  # of a job that named none
            _second(row.eligible_us),
            _second(row.start_us),
            _second(row.end_us),
            tres,
            row.cpus_requested * waiting_tasks(row.array_tasks) if is_first else 0,
            suspended,
            row.reservation,
            energy_j,
        )


class Members:
    """The associations that pay for reservations."""

    def __init__(self, connection: sa.Connection, cluster_id: int) -> None:
        table = schema.associations
        query = sa.select(table.c.id, table.c.account, table.c.user).where(
            table.c.cluster_id == cluster_id, table.c.is_deleted == 0
        )
        self._of_account: dict[str, list[int]] = {}
        self._of_user: dict[str, list[tuple[int, str]]] = {}
        for row in connection.execute(query.order_by(table.c.id)):
            if row.user:
                self._of_user.setdefault(row.user, []).append((row.id, row.account))
            else:
                self._of_account.setdefault(row.account, []).append(row.id)

    def of(self, users: str, accounts: str) -> tuple[int, ...]:
        """Return the associations that a reservation names: of users, or else of accounts.

        Lists of those that may not use it name nobody who does.
        """
        names = [name for name in accounts.split(",") if name and not name.startswith("-")]
        chosen = [
            association_id
            for user in users.split(",")
            for association_id, account in self._of_user.get(user, ())
            if not names or account in names
        ]
        if not users:
            chosen = [number for name in names for number in self._of_account.get(name, ())]
        return tuple(dict.fromkeys(chosen))


def _runs(jobs: Iterable[sa.Row[Any]], drained: set[str], hour: Span) -> Runs:
    """Return when jobs ran on drained nodes."""
    runs: Runs = {}
    for row in jobs:
        run = Span(_second(row.start_us), _second(row.end_us) or hour.end_s)
        for name in drained.intersection(_names(row.node_list)):
            runs.setdefault(name, []).append(run)
    return runs


def _busy_until_s(runs: Iterable[Span], drain_s: int) -> int:
    """Return when the jobs of a node end that ran when it was drained.

    It is out of service only then. Later ones waited until it was back.
    """
    return max((run.end_s for run in runs if run.start_s <= drain_s), default=0)


@lru_cache(1024)
def _names(node_list: str) -> frozenset[str]:
    try:
        return frozenset(expand(node_list))
    except HostlistError:
        return frozenset()  # a list that was too long for its column


def _second(time_us: int) -> int:
    return time_us // SECOND_US


@lru_cache(4096)
def amounts(text: str) -> Mapping[str, int]:
    """Return a `name=amount,...` list as a table."""
    pairs = (word.rpartition("=") for word in text.split(",") if word)
    return {name: int(amount) for name, _, amount in pairs if amount.isdecimal()}


@lru_cache(4096)
def waiting_tasks(text: str) -> int:
    """Return how many tasks a `first-last:step,...%limit` list has; without one it is one job."""
    count = 0
    for word in filter(None, text.partition("%")[0].split(",")):
        ends, _, step = word.partition(":")
        first, _, last = ends.partition("-")
        count += (int(last or first) - int(first)) // int(step or 1) + 1
    return count or 1
