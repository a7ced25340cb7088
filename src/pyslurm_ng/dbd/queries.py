"""The records that sacct selects, and their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa

from pyslurm_ng.base.hostlist import HostlistError, expand
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin.change import Actor, RefusedError
from pyslurm_ng.dbd.updates import find_cluster
from pyslurm_ng.wire.dbd_messages import JobRecords, JobSelector, ListJobRecords

PART_JOBS = 5_000
"""Jobs per part of a reply: about 2 MB, so neither side holds a whole year."""

MOST_JOBS = 300_000
MOST_JOBS_OF_OPERATORS = 3_000_000
"""The most jobs of one answer: the selection is sorted in memory, with 200 bytes for each."""

_CHUNK = 500
_encode = msgspec.msgpack.Encoder().encode

JOB_COLUMNS = frozenset(column.name for column in schema.jobs.columns)
STEP_COLUMNS = frozenset(column.name for column in schema.steps.columns)
STEP_TOTALS = ("total_user_cpu_us", "total_system_cpu_us", "total_energy_j")
"""Sums over a job's steps; -1 energy means that no step ended with a figure."""

_jobs = schema.jobs
_steps = schema.steps

Clause = sa.ColumnElement[bool]
T = TypeVar("T")


class JobListing:
    """One answer to `ListJobRecords`: the selection, then part by part.

    Each part may be read in a separate transaction; jobs that the database no longer has are left
    out.

    Attributes:
        is_done: whether the last part has been returned.
    """

    def __init__(
        self,
        connection: sa.Connection,
        request: ListJobRecords,
        actor: Actor,
        is_private: bool,
        now_us: int,
    ) -> None:
        """Select the jobs.

        Raises:
            RefusedError: an unknown column or cluster, or too much is selected.
        """
        _check_columns(request)
        cluster = request.clusters[0] if request.clusters else ""
        cluster_id = find_cluster(connection, cluster)
        if cluster_id is None:
            raise RefusedError(f"Cluster {cluster} is not known to accounting")
        clause = sa.and_(*_clauses(request, cluster_id, now_us))
        if is_private and not actor.is_operator:
            clause = sa.and_(
                clause,
                sa.or_(_jobs.c.uid == actor.uid, _jobs.c.account.in_(sorted(actor.coordinates))),
            )
        most = MOST_JOBS_OF_OPERATORS if actor.is_operator else MOST_JOBS
        self._request = request
        self._cluster = cluster
        self._now_us = now_us
        self._indexes = _ordered_indexes(connection, request, cluster_id, clause, most)
        self._first = 0
        self._tres = {
            f"{row.type}/{row.name}" if row.name else row.type: row.id
            for row in connection.execute(sa.select(schema.tres))
        }
        self._qos = {row.name: row.id for row in connection.execute(sa.select(schema.qos))}
        self.is_done = False

    def next_part(self, connection: sa.Connection) -> JobRecords:
        """Return the next part; the first may be empty."""
        request = self._request
        part = self._indexes[self._first : self._first + PART_JOBS]
        self._first += PART_JOBS
        self.is_done = self._first >= len(self._indexes)
        records, step_records = _records(connection, request, part)
        return JobRecords(
            now_us=self._now_us,
            cluster=self._cluster,
            fields=list(request.columns),
            records=records,
            step_fields=["job_position", *request.step_columns],
            step_records=step_records,
            tres=self._tres,
            qos=self._qos,
        )


def _check_columns(request: ListJobRecords) -> None:
    for name in request.columns:
        if name not in JOB_COLUMNS and name not in STEP_TOTALS:
            raise RefusedError(f"Unknown job column {name}")
    for name in request.step_columns:
        if name not in STEP_COLUMNS:
            raise RefusedError(f"Unknown step column {name}")


def _clauses(request: ListJobRecords, cluster_id: int, now_us: int) -> list[Clause]:
    jobs = _jobs.c
    clauses: list[Clause] = [jobs.cluster_id == cluster_id]
    if not request.duplicates:
        # The records of a resized run are not repetitions of it.
        clauses.append((jobs.is_last == 1) | (jobs.state == "RESIZING"))
    clauses.append(_window(request, now_us))
    for values, column in (
        (request.uids, jobs.uid),
        (request.gids, jobs.gid),
        (request.accounts, jobs.account),
        (request.association_ids, jobs.association_id),
        (request.qos, jobs.qos),
        (request.names, jobs.name),
        (request.wckeys, jobs.wckey),
        (request.reasons, jobs.reason),
    ):
        if values:
            clauses.append(column.in_(values))
    if request.partitions:
        # A waiting job may name several partitions.
        names = [(sa.literal(",") + jobs.partition + ",").contains(f",{name},", autoescape=True)
                 for name in request.partitions]  # fmt: skip
        clauses.append(sa.or_(*names))
    clauses += [jobs.constraints.contains(word, autoescape=True) for word in request.constraints]
    if request.flags:
        clauses.append(sa.or_(*[jobs.flags.contains(word) for word in request.flags]))
    clauses += _range(jobs.time_limit_min, request.time_limit_min, request.time_limit_max)
    clauses += _range(jobs.nodes_allocated, request.nodes_min, request.nodes_max)
    clauses += _range(jobs.cpus_allocated, request.cpus_min, request.cpus_max)
    return clauses


def _range(column: Any, least: int, most: int) -> list[Clause]:
    """A minimum without a maximum means exactly that number, as in Slurm."""
    if least < 0 and most < 0:
        return []
    if most < 0:
        return [column == least]
    return [column >= max(least, 0), column <= most]


def _whole_het_jobs(
    connection: sa.Connection, cluster_id: int, selectors: Sequence[JobSelector]
) -> list[JobSelector]:
    """Return selectors that mean all components of a job if one selects any of them."""
    found = [one for one in selectors if one.het_job_offset < 0]
    leaders = {one.job_id for one in selectors if one.het_job_offset >= 0}
    ids = [one.job_id for one in found]
    for first in range(0, len(ids), _CHUNK):
        query = sa.select(_jobs.c.het_job_id).where(
            _jobs.c.cluster_id == cluster_id,
            _jobs.c.job_id.in_(ids[first : first + _CHUNK]),
            _jobs.c.het_job_id != 0,
        )
        leaders.update(connection.execute(query).scalars())
    return found + [JobSelector(leader) for leader in sorted(leaders)]


def _window(request: ListJobRecords, now_us: int) -> Clause:
    jobs = _jobs.c
    start = request.start_us
    end = request.end_us or now_us
    if not request.states:
        # A requeued job is eligible again only when its delay is over, but it was in the queue
        # before.
        was_there = sa.or_(
            jobs.eligible_us <= end, sa.and_(jobs.attempt > 0, jobs.submit_us <= end)
        )
        if not request.jobs:
            # It was held or waited for others until it was cancelled: it was never eligible, so it
            # is in no window.
            was_there = sa.and_(was_there, jobs.eligible_us > 0)
        return sa.and_(was_there, sa.or_(jobs.end_us == 0, jobs.end_us >= start))
    return sa.or_(*[_in_state(state, start, end) for state in request.states])


def _in_state(state: str, start: int, end: int) -> Clause:
    """Whether a job was in a state at some time between `start` and `end`."""
    jobs = _jobs.c
    if state == "PENDING":
        # From eligible to the start, or to the end if it never started.
        waited_until = sa.case(
            (jobs.start_us > 0, jobs.start_us), (jobs.end_us > 0, jobs.end_us), else_=2**62
        )
        return sa.and_(jobs.eligible_us > 0, jobs.eligible_us <= end, waited_until >= start)
    if state == "RUNNING":
        return sa.and_(
            jobs.start_us > 0,
            jobs.start_us <= end,
            sa.or_(jobs.end_us == 0, jobs.end_us >= start),
        )
    if state == "SUSPENDED":
        return sa.and_(
            sa.or_(jobs.state == state, jobs.suspended_us > 0),
            jobs.start_us <= end,
            sa.or_(jobs.end_us == 0, jobs.end_us >= start),
        )
    return sa.and_(jobs.state == state, jobs.end_us >= start, jobs.end_us <= end)


def _ordered_indexes(
    connection: sa.Connection, request: ListJobRecords, cluster_id: int, clause: Clause, most: int
) -> list[int]:
    """Return the job indexes selected, in print order.

    The order is by second of submission, then single jobs before arrays, then by array and task,
    as sacct's recorded output shows.
    """
    jobs = _jobs.c
    columns: list[Any] = [
        jobs.job_index, jobs.submit_us, jobs.array_job_id, jobs.array_task_id, jobs.job_id,
        jobs.attempt, jobs.het_job_id, jobs.het_job_offset,
    ]  # fmt: skip
    wanted_nodes = frozenset(request.nodes)
    if wanted_nodes:
        columns.append(jobs.node_list)
    keyed: list[tuple[int, ...]] = []
    read = 0
    for query, is_meant in _choices(connection, request, cluster_id):
        chosen = sa.select(*columns).where(clause)
        if query is not None:
            # Not a choice between columns, for which databases read the whole table.
            found = query.subquery()
            chosen = chosen.join_from(found, _jobs, found.c.job_index == jobs.job_index)
        for row in connection.execute(chosen.limit(most + 1 - read)):
            read += 1
            if not is_meant(row) or (wanted_nodes and not _ran_on(row.node_list, wanted_nodes)):
                continue
            # A waiting array's record comes after its tasks that have separate ids.
            task = row[3] if row[3] >= 0 or not row[2] else 2**62
            keyed.append((row[1] // SECOND_US, row[2], task, row[4], row[5], row[0]))
        if read > most:
            raise RefusedError(
                f"More than {most} jobs are selected: name a shorter time with -S and -E"
            )
    keyed.sort()
    # A job may be chosen by several words.
    return list(dict.fromkeys(key[-1] for key in keyed))


Choice = tuple["sa.CompoundSelect[Any] | None", Callable[[Any], bool]]
"""A query for rows that `-j` may select, and a test whether it selects one."""


def _choices(
    connection: sa.Connection, request: ListJobRecords, cluster_id: int
) -> Iterator[Choice]:
    """Yield conditions for what `-j` names, few jobs at a time; one for everything without `-j`."""
    if not request.jobs:
        yield None, _any_row
        return
    selectors: Sequence[JobSelector] = request.jobs
    if request.whole_het_job:
        selectors = _whole_het_jobs(connection, cluster_id, selectors)
    jobs = _jobs.c
    whole: dict[int, None] = {}
    tasks: dict[tuple[int, int], None] = {}
    components: dict[tuple[int, int], None] = {}
    for one in selectors:
        if one.array_task_id >= 0:
            tasks[one.job_id, one.array_task_id] = None
        elif one.het_job_offset >= 0:
            components[one.job_id, one.het_job_offset] = None
        else:
            whole[one.job_id] = None
    row = sa.select(jobs.job_index).where(jobs.cluster_id == cluster_id)
    for ids in _chunks(list(whole)):
        columns = (jobs.job_id, jobs.array_job_id, jobs.het_job_id)
        yield sa.union(*[row.where(column.in_(ids)) for column in columns]), _any_row
    for pairs in _chunks(list(tasks)):
        arrays, numbers = (sorted(set(part)) for part in zip(*pairs, strict=True))
        of_arrays = row.where(jobs.array_job_id.in_(arrays))
        # Waiting tasks are one record, which is shown for each of these tasks.
        query = sa.union(
            of_arrays.where(jobs.array_tasks != ""),
            of_arrays.where(jobs.array_task_id.in_(numbers)),
        )
        yield query, _is_task_of(frozenset(pairs))
    for pairs in _chunks(list(components)):
        leaders, offsets = (sorted(set(part)) for part in zip(*pairs, strict=True))
        of_jobs = row.where(jobs.het_job_id.in_(leaders))
        query = sa.union(of_jobs.where(jobs.het_job_offset.in_(offsets)))
        yield query, _is_component_of(frozenset(pairs))


def _any_row(_: Any) -> bool:
    return True


def _is_task_of(pairs: frozenset[tuple[int, int]]) -> Callable[[Any], bool]:
    def is_meant(row: Any) -> bool:
        return row.array_task_id < 0 or (row.array_job_id, row.array_task_id) in pairs

    return is_meant


def _is_component_of(pairs: frozenset[tuple[int, int]]) -> Callable[[Any], bool]:
    return lambda row: (row.het_job_id, row.het_job_offset) in pairs


def _chunks(ids: list[T]) -> Iterator[list[T]]:
    return (ids[first : first + _CHUNK] for first in range(0, len(ids), _CHUNK))


def _ran_on(node_list: str, wanted: frozenset[str]) -> bool:
    if not node_list:
        return False
    try:
        return not wanted.isdisjoint(expand(node_list))
    except HostlistError:
        return False


def _records(
    connection: sa.Connection, request: ListJobRecords, indexes: list[int]
) -> tuple[bytes, bytes]:
    """Return the packed job and step records of one part."""
    plain = [name for name in request.columns if name in JOB_COLUMNS]
    sums_wanted = any(name in STEP_TOTALS for name in request.columns)
    found: dict[int, Any] = {}
    sums: dict[int, tuple[int, int, int]] = {}
    steps: dict[int, list[Any]] = {}
    for first in range(0, len(indexes), _CHUNK):
        ids = indexes[first : first + _CHUNK]
        query = sa.select(_jobs.c.job_index, *[_jobs.c[name].label(f"c_{name}") for name in plain])
        for row in connection.execute(query.where(_jobs.c.job_index.in_(ids))):
            found[row[0]] = row[1:]
        if sums_wanted:
            sums.update(_sums(connection, ids))
        if request.with_steps and request.step_columns:
            wanted = [_steps.c[name].label(f"c_{name}") for name in request.step_columns]
            step_query = (
                sa.select(_steps.c.job_index, *wanted)
                .where(_steps.c.job_index.in_(ids))
                .order_by(_steps.c.job_index, _steps.c.step_id, _steps.c.het_component)
            )
            for row in connection.execute(step_query):
                steps.setdefault(row[0], []).append(row[1:])
    records: list[bytes] = []
    step_records: list[bytes] = []
    positions = [plain.index(name) if name in JOB_COLUMNS else None for name in request.columns]
    for index in indexes:
        values = found.get(index)
        if values is None:
            continue
        if sums_wanted:
            total = dict(zip(STEP_TOTALS, sums.get(index, (0, 0, -1)), strict=True))
            record = [
                total[name] if at is None else values[at]
                for name, at in zip(request.columns, positions, strict=True)
            ]
        else:
            record = list(values)
        place = len(records)
        records.append(_encode(record))
        step_records += [_encode([place, *step]) for step in steps.get(index, ())]
    return b"".join(records), b"".join(step_records)


def _sums(connection: sa.Connection, ids: list[int]) -> Iterator[tuple[int, tuple[int, int, int]]]:
    query = (
        sa.select(
            _steps.c.job_index,
            sa.func.sum(_steps.c.user_cpu_us),
            sa.func.sum(_steps.c.system_cpu_us),
            sa.func.max(_steps.c.energy_j),
        )
        .where(_steps.c.job_index.in_(ids))
        .group_by(_steps.c.job_index)
    )
    for index, user_us, system_us, energy_j in connection.execute(query):
        yield index, (int(user_us), int(system_us), int(energy_j))


def job_text(
    connection: sa.Connection, cluster: str, job_id: int, environment: bool, actor: Actor
) -> str:
    """Return a job's stored script or environment, empty if there is none.

    Raises:
        RefusedError: another user's job; only operators and the owner may read it.
    """
    cluster_id = find_cluster(connection, cluster)
    query = sa.select(_jobs.c.uid, _jobs.c.script_hash, _jobs.c.environment_hash).where(
        _jobs.c.cluster_id == cluster_id, _jobs.c.job_id == job_id, _jobs.c.is_last == 1
    )
    row = connection.execute(query).first()
    if row is None:
        return ""
    if row.uid != actor.uid and not actor.is_operator:
        raise RefusedError("Access/permission denied")
    digest = row.environment_hash if environment else row.script_hash
    found = connection.execute(
        sa.select(schema.texts.c.text).where(schema.texts.c.hash == digest)
    ).scalar()
    return str(found or "")
