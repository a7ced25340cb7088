"""The records that sacct selects, and their order."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa

from pyslurm_ng.base.hostlist import HostlistError, expand
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin.change import Actor, RefusedError
from pyslurm_ng.dbd.admin.wckeys import DEFAULT_MARK
from pyslurm_ng.dbd.job_parts import JOB_COLUMNS, STEP_COLUMNS, STEP_TOTALS, JobParts
from pyslurm_ng.dbd.statements import NUMBERS, Statement
from pyslurm_ng.dbd.updates import find_cluster
from pyslurm_ng.wire.dbd_messages import GetJobScript, JobRecords, JobSelector, ListJobRecords

PART_JOBS = 5_000
"""Jobs per part of a reply: about 2 MB, so neither side holds a whole year."""

MOST_JOBS = 300_000
MOST_JOBS_OF_OPERATORS = 3_000_000
"""The most jobs of one answer: the selection is sorted in memory, with 200 bytes for each."""

_CHUNK = 500

_jobs = schema.jobs

Clause = sa.ColumnElement[bool]
T = TypeVar("T")


_KEYS = (
    _jobs.c.job_index, _jobs.c.submit_us, _jobs.c.array_job_id, _jobs.c.array_task_id,
    _jobs.c.job_id, _jobs.c.attempt, _jobs.c.het_job_id, _jobs.c.het_job_offset,
)  # fmt: skip
_TRES = Statement(sa.select(schema.tres))
_QOS = Statement(sa.select(schema.qos.c.name, schema.qos.c.id))
_NAMED_ONLY = ListJobRecords(columns=[])


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
        is_behind: bool = False,
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
        most = MOST_JOBS_OF_OPERATORS if actor.is_operator else MOST_JOBS
        self._request = request
        self._cluster = cluster
        self._now_us = now_us
        self._is_behind = is_behind
        # A query that waits for its peer keeps it: 8 bytes for each job.
        if not is_private and _names_jobs_only(request):
            indexes = _named_indexes(connection, request, cluster_id, now_us, most)
        else:
            clause = sa.and_(*_clauses(request, now_us))
            if is_private:
                clause = sa.and_(clause, own_jobs(actor))
            indexes = _ordered_indexes(connection, request, cluster_id, clause, most)
        self._indexes = array("q", indexes)
        self._first = 0
        step_columns = request.step_columns if request.with_steps else []
        self._parts = JobParts(connection, request.columns, step_columns)
        self._tres = {
            f"{row.type}/{row.name}" if row.name else row.type: row.id
            for row in _TRES.run(connection, {})
        }
        self._qos = {row.name: row.id for row in _QOS.run(connection, {})}
        self.is_done = False

    def next_part(self, connection: sa.Connection) -> JobRecords:
        """Return the next part; the first may be empty."""
        request = self._request
        part = self._indexes[self._first : self._first + PART_JOBS]
        taken, records, step_records = self._parts.part(connection, part)
        self._first += taken
        self.is_done = self._first >= len(self._indexes)
        return JobRecords(
            now_us=self._now_us,
            cluster=self._cluster,
            fields=list(request.columns),
            records=records,
            step_fields=["job_position", *request.step_columns],
            step_records=step_records,
            tres=self._tres,
            qos=self._qos,
            is_behind=self._is_behind,
        )


def own_jobs(actor: Actor) -> Clause:
    """Return which jobs somebody sees with PrivateData=jobs."""
    if actor.is_operator:
        return sa.true()
    return sa.or_(_jobs.c.uid == actor.uid, _jobs.c.account.in_(sorted(actor.coordinates)))


def _check_columns(request: ListJobRecords) -> None:
    for name in request.columns:
        if name not in JOB_COLUMNS and name not in STEP_TOTALS:
            raise RefusedError(f"Unknown job column {name}")
    for name in request.step_columns:
        if name not in STEP_COLUMNS:
            raise RefusedError(f"Unknown step column {name}")
    for names in (request.columns, request.step_columns):
        if len(set(names)) < len(names):
            raise RefusedError("A column is named twice")


def _clauses(request: ListJobRecords, now_us: int) -> list[Clause]:
    jobs = _jobs.c
    clauses: list[Clause] = []
    if not request.duplicates:
        clauses.append(_is_newest())
    clauses.append(_window(request, now_us))
    for values, column in (
        (request.uids, jobs.uid),
        (request.gids, jobs.gid),
        (request.accounts, jobs.account),
        (request.association_ids, jobs.association_id),
        (request.qos, jobs.qos),
        (request.names, jobs.name),
        ([mark + key for key in request.wckeys for mark in ("", DEFAULT_MARK)], jobs.wckey),
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


def _is_newest() -> Clause:
    """Return which records stand for a job; those of a resized run are not repetitions of it."""
    return (_jobs.c.is_last == 1) | (_jobs.c.state == "RESIZING")


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
    whole = [selector for selector in selectors if selector.het_job_offset < 0]
    leaders = {selector.job_id for selector in selectors if selector.het_job_offset >= 0}
    ids = [selector.job_id for selector in whole if selector.job_id]
    for first in range(0, len(ids), _CHUNK):
        query = sa.select(_jobs.c.het_job_id).where(
            _jobs.c.cluster_id == cluster_id,
            _jobs.c.job_id.in_(ids[first : first + _CHUNK]),
            _jobs.c.het_job_id != 0,
        )
        leaders.update(connection.execute(query).scalars())
    return whole + [JobSelector(leader) for leader in sorted(leaders)]


def _window(request: ListJobRecords, now_us: int) -> Clause:
    jobs = _jobs.c
    start = request.start_us
    end = request.end_us or now_us
    if request.states:
        return sa.or_(*[_in_state(state, start, end) for state in request.states])
    if request.jobs:
        return _was_there(start, end)
    # A job that was held or waited for others until it was cancelled was never eligible, so it is
    # in no window.
    # Nearly all jobs were eligible: as a sum it is no reason to go by that index.
    return sa.and_(_was_known(start, end), jobs.eligible_us + 0 > 0)


def _was_known(start: Any, end: Any) -> Clause:
    """Return which jobs came before `end` and had not ended at `start`."""
    jobs = _jobs.c
    # A requeued job is eligible again only when its delay is over, but it was in the queue before.
    was_there = sa.or_(jobs.eligible_us <= end, sa.and_(jobs.attempt > 0, jobs.submit_us <= end))
    return sa.and_(was_there, sa.or_(jobs.end_us == 0, jobs.end_us >= start))


def _was_there(start: Any, end: Any) -> Clause:
    """Return which jobs that are named are shown: also those whose begin time is to come."""
    jobs = _jobs.c
    return sa.and_(jobs.submit_us <= end, sa.or_(jobs.end_us == 0, jobs.end_us >= start))


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
    columns: list[Any] = list(_KEYS)
    wanted_nodes = frozenset(request.nodes)
    if wanted_nodes:
        columns.append(jobs.node_list)
    keyed: list[tuple[int, ...]] = []
    read = 0
    for query, is_meant in _choices(connection, request, cluster_id):
        chosen = sa.select(*columns).where(clause)
        if query is None:
            chosen = chosen.where(jobs.cluster_id == cluster_id)
        else:
            # Not a choice between columns, for which databases read the whole table.
            chosen_rows = query.subquery()
            chosen = chosen.join_from(chosen_rows, _jobs, chosen_rows.c.job_index == jobs.job_index)
        chosen = chosen.limit(most + 1 - read)
        for row in connection.execute(chosen).all():
            read += 1
            if not is_meant(row) or (wanted_nodes and not _ran_on(row.node_list, wanted_nodes)):
                continue
            keyed.append(_print_key(row))
        _refuse_more_than(most, read)
    keyed.sort()
    # A job may be chosen by several words.
    return list(dict.fromkeys(key[-1] for key in keyed))


def _names_jobs_only(request: ListJobRecords) -> bool:
    """Return whether a request is the usual `sacct -j`, whose statement is compiled once."""
    return 0 < len(request.jobs) <= _CHUNK and request == msgspec.structs.replace(
        _NAMED_ONLY,
        columns=request.columns,
        step_columns=request.step_columns,
        clusters=request.clusters,
        jobs=[JobSelector(selector.job_id) for selector in request.jobs],
        start_us=request.start_us,
        end_us=request.end_us,
        with_steps=request.with_steps,
        after=request.after,
    )


def _named_indexes(
    connection: sa.Connection, request: ListJobRecords, cluster_id: int, now_us: int, most: int
) -> list[int]:
    """Return what `_ordered_indexes` returns for such a request."""
    values = {
        "cluster_id": cluster_id,
        "start_us": request.start_us,
        "end_us": request.end_us or now_us,
        "most": most + 1,
    }
    numbers = [selector.job_id for selector in request.jobs]
    keyed = [_print_key(row) for row in _NAMED.run(connection, values, numbers)]
    _refuse_more_than(most, len(keyed))
    return [key[-1] for key in sorted(keyed)]


def _print_key(row: Any) -> tuple[int, ...]:
    """Return what comes first when jobs are printed: less is earlier; the last is the job index."""
    # A waiting array's record comes after its tasks that have separate ids.
    task = row[3] if row[3] >= 0 or not row[2] else 2**62
    return row[1] // SECOND_US, row[2], task, row[4], row[5], row[0]


def _refuse_more_than(most: int, selected: int) -> None:
    if selected > most:
        raise RefusedError(
            f"More than {most} jobs are selected: name a shorter time with -S and -E"
        )


Choice = tuple["sa.CompoundSelect[Any] | None", Callable[[Any], bool]]
"""A query for rows that `-j` may select, and a test whether it selects one."""


def _choices(
    connection: sa.Connection, request: ListJobRecords, cluster_id: int
) -> Iterator[Choice]:
    """Yield conditions for what `-j` names, few jobs at a time; one for the time without `-j`."""
    if not request.jobs:
        yield _in_time(request, cluster_id), _any_row
        return
    selectors: Sequence[JobSelector] = request.jobs
    if request.whole_het_job:
        selectors = _whole_het_jobs(connection, cluster_id, selectors)
    jobs = _jobs.c
    sluids = dict.fromkeys(selector.sluid for selector in selectors if selector.sluid)
    whole: dict[int, None] = {}
    tasks: dict[tuple[int, int], None] = {}
    components: dict[tuple[int, int], None] = {}
    for selector in selectors:
        if selector.array_task_id >= 0:
            tasks[selector.job_id, selector.array_task_id] = None
        elif selector.het_job_offset >= 0:
            components[selector.job_id, selector.het_job_offset] = None
        elif not selector.sluid:
            whole[selector.job_id] = None
    row = sa.select(jobs.job_index).where(jobs.cluster_id == cluster_id)
    for ids in _chunks(list(whole)):
        columns = [jobs.job_id, jobs.array_job_id]
        if not request.only_named_components:
            columns.append(jobs.het_job_id)
        yield sa.union(*[row.where(column.in_(ids)) for column in columns]), _any_row
    for numbers in _chunks(list(sluids)):
        yield sa.union(row.where(jobs.sluid.in_(numbers))), _any_row
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


def _in_time(request: ListJobRecords, cluster_id: int) -> sa.CompoundSelect[Any] | None:
    """Return a query for rows that had not ended when the time began, None for all of them.

    `_window` asks for the same and more. Here it is some ranges of an index; as a choice between
    them databases read the whole table.
    """
    if request.start_us <= 0 or "SUSPENDED" in request.states:
        return None
    jobs = _jobs.c
    row = sa.select(jobs.job_index).where(jobs.cluster_id == cluster_id)
    if request.end_us and not request.states and not request.uids:
        return _known_then(row, request.start_us, request.end_us)
    if request.uids:
        row = row.where(jobs.uid.in_(request.uids))
    ended = row.where(jobs.end_us >= request.start_us)
    if request.end_us and not request.states:
        # The index alone tells which jobs came after the time.
        ended = ended.where(sa.or_(jobs.eligible_us <= request.end_us, jobs.attempt > 0))
    return sa.union_all(row.where(jobs.end_us == 0), ended)


def _known_then(row: sa.Select[Any], start_us: int, end_us: int) -> sa.CompoundSelect[Any]:
    """Return a query for rows of jobs that came before a time's end and ended after its begin.

    Of each class the ends are no later than the end and the longest of the class, so rows of other
    days are not read.
    """
    jobs = _jobs.c
    came = row.where(sa.or_(jobs.eligible_us <= end_us, jobs.attempt > 0))
    longest = len(schema.SPANS_US) + 1
    return sa.union_all(
        row.where(schema.span_class == 0),
        *[
            came.where(schema.span_class == number, jobs.end_us.between(start_us, end_us + most_us))
            for number, most_us in enumerate(schema.SPANS_US, 1)
        ],
        came.where(schema.span_class == longest, jobs.end_us >= start_us),
    )


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


def _ran_on(node_list: str, names: frozenset[str]) -> bool:
    if not node_list:
        return False
    try:
        return not names.isdisjoint(expand(node_list))
    except HostlistError:
        return False


def job_text(connection: sa.Connection, request: GetJobScript, actor: Actor) -> str | None:
    """Return a job's stored script or environment, empty if there is none.

    None means that the actor may see no such job: only operators and the owner may read it.
    """
    query = sa.select(_jobs.c.uid, _jobs.c.script_hash, _jobs.c.environment_hash).where(
        _jobs.c.cluster_id == find_cluster(connection, request.cluster)
    )
    if request.sluid:
        query = query.where(_jobs.c.sluid == request.sluid)
    else:
        query = query.where(_jobs.c.job_id == request.job_id, _jobs.c.is_last == 1)
    row = connection.execute(query).first()
    if row is None or (row.uid != actor.uid and not actor.is_operator):
        return None
    digest = row.environment_hash if request.want_environment else row.script_hash
    text_row = connection.execute(
        sa.select(schema.texts.c.text).where(schema.texts.c.hash == digest)
    ).scalar()
    return str(text_row or "")


def _named() -> sa.Select[Any]:
    """Return the rows of jobs, arrays and het jobs with some numbers."""
    jobs = _jobs.c
    cluster, start, end, most = (
        sa.bindparam(name, type_=sa.BigInteger())
        for name in ("cluster_id", "start_us", "end_us", "most")
    )
    chosen = sa.union(
        *[
            sa.select(jobs.job_index).where(jobs.cluster_id == cluster, column.in_([NUMBERS]))
            for column in (jobs.job_id, jobs.array_job_id, jobs.het_job_id)
        ]
    ).subquery()
    return (
        sa.select(*_KEYS)
        .join_from(chosen, _jobs, chosen.c.job_index == jobs.job_index)
        .where(_is_newest(), _was_there(start, end))
        .limit(most)
    )


_NAMED = Statement(_named())
