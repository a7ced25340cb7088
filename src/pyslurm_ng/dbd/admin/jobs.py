"""`sacctmgr modify job`: changes to the records of jobs."""

from __future__ import annotations

import re
from typing import Any

import sqlalchemy as sa

from pyslurm_ng.base.dates import format_date, parse_date
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.base.sluid import sluid_of
from pyslurm_ng.base.tres import TresError, parse_tres
from pyslurm_ng.base.units import whole_number
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin import conditions, wckeys
from pyslurm_ng.dbd.admin.change import BadValueError, Change, RefusedError, Row
from pyslurm_ng.dbd.admin.words import Words
from pyslurm_ng.dbd.columns import TEXT_CHARACTERS
from pyslurm_ng.dbd.rollup.rows import amounts
from pyslurm_ng.dbd.rollup.tables import ask_again, note_change
from pyslurm_ng.model.amounts import tres_text

MOST_JOBS = 2_000
"""Of one command: journals wait for its transaction."""
_MOST_EXIT_CODE = 0xFFFF
_MOST_TOLD = 1_000
"""Characters of a change in the log of transactions: it has a row for each job, for ever."""
_TEXTS = {
    "AdminComment": "admin_comment",
    "Comment": "comment",
    "Extra": "extra",
    "SystemComment": "system_comment",
}
_OF_ADMINISTRATORS = frozenset(("AdminComment", "Extra", "SystemComment", "TRES"))
_TOLD = ("tres_allocated", "wckey")
"""Columns whose new value is in the log for each job."""
_NOTHING = (
    "sacctmgr: Request didn't affect anything or your user doesn't have privilege to perform this "
    "action"
)
_JOB_ID = re.compile(r"(\d{1,10})(?:([_+])(\d{1,10}))?")
Clause = sa.ColumnElement[bool]


def modify(change: Change, where: Words, settings: Words) -> None:
    """Change the newest records of the jobs that the conditions select.

    Users may comment on their own jobs, correct their exit codes, and give them another key that
    the user has. Operators may change everything of all jobs.

    Raises:
        RefusedError: no rights, nothing to set, no such job, or too many.
        BadValueError: a value that cannot be taken.
    """
    values = _values(settings)
    resources = _resources(settings)
    if not values and settings.last("NewWCKey") is None and not resources:
        raise RefusedError(" You didn't give me anything to set")
    is_allowed = change.actor.is_operator or not any(key in settings for key in _OF_ADMINISTRATORS)
    jobs = [
        (cluster_id, cluster, job)
        for cluster_id, cluster in change.clusters(where)
        if is_allowed
        for job in _selected(change, cluster_id, where)
    ]
    if not jobs:
        raise _nothing(change)
    if len(jobs) > MOST_JOBS:
        raise RefusedError(f" More than {MOST_JOBS} jobs match; name fewer of them")
    info = ", ".join(f"{name}={value!r}" for name, value in values.items())
    for cluster_id, cluster, job in jobs:
        new = dict(values)
        if resources:
            new |= _held(job, resources)
            _count_again(change, cluster_id, job.start_us)
        if (key := settings.last("NewWCKey")) is not None:
            new["wckey"] = _new_key(change, cluster_id, cluster, job.user, key)
            if key != job.wckey.removeprefix(wckeys.DEFAULT_MARK):
                _count_again(change, cluster_id, job.start_us or job.submit_us)
        table = schema.jobs
        of_job = table.c.job_index == job.job_index
        change.connection.execute(
            table.update().where(of_job).values(**new, modified_us=change.now_us)
        )
        told = ", ".join(
            [info] * bool(info) + [f"{name}={new[name]!r}" for name in _TOLD if name in new]
        )
        change.log("Modify Job", cluster, f"job_db_inx={job.job_index}", told[:_MOST_TOLD])
    change.changed += len(jobs)
    change.lines.append(" Modified jobs...")
    change.lines += [
        f"  {job.job_id} submitted at {format_date(job.submit_us // SECOND_US)}"
        for _, _, job in jobs
    ]


def _values(settings: Words) -> dict[str, Any]:
    """Return the columns to change.

    Raises:
        BadValueError: a text that is too long or has control characters, or a bad exit code.
    """
    values: dict[str, Any] = {}
    for key, column in _TEXTS.items():
        text = settings.last(key)
        if text is None:
            continue
        text = "" if text == "''" else text
        if len(text) > TEXT_CHARACTERS or not text.isprintable():
            raise BadValueError(key, text, f"sacctmgr: error: Invalid value for {key}")
        values[column] = text
    code = settings.last("DerivedExitCode")
    if code is not None:
        # As Slurm 22.05: a status as wait(2) gives it, of which a signal behind a colon is no part.
        number = whole_number(code.partition(":")[0])
        if number is None or number > _MOST_EXIT_CODE:
            key = "DerivedExitCode"
            raise BadValueError(key, code, f"sacctmgr: error: Invalid value for {key} ({code})")
        values["derived_exit_code"] = number
    return values


def _resources(settings: Words) -> dict[str, int]:
    """Return what jobs are to have held of each TRES that is named.

    Raises:
        BadValueError: it is no list of TRES.
    """
    text = settings.last("TRES")
    if text is None:
        return {}
    try:
        return parse_tres(text)
    except TresError as error:
        raise BadValueError(
            "TRES", text, f"sacctmgr: error: Invalid value for TRES ({text}): {error}"
        ) from None


def _held(job: Any, resources: dict[str, int]) -> Row:
    """Return the columns of a job that held so much of some TRES, and of the others as before.

    Raises:
        RefusedError: it has not run.
    """
    if not job.start_us:
        raise RefusedError(f" Job {job.job_id} has not run: it held no TRES")
    held_amounts = {**amounts(job.tres_allocated), **resources}
    # The roll-up reads such a job itself, not a sum that it is part of.
    columns: Row = {"tres_allocated": tres_text(held_amounts), "summed_tres": ""}
    if "cpu" in resources:
        columns["cpus_allocated"] = resources["cpu"]
    return columns


def _selected(change: Change, cluster_id: int, where: Words) -> list[Any]:
    """Return the newest records of the jobs of a cluster that the user may change."""
    jobs = schema.jobs.c
    clauses = [jobs.cluster_id == cluster_id, jobs.is_last == 1]
    if not change.actor.is_operator:
        # The sum keeps SQLite from reading all jobs of the user for each job that is named.
        owner = jobs.uid + 0 if "JobIDs" in where else jobs.uid
        clauses.append(owner == change.actor.uid)
    if conditions.is_nothing(where):
        return []
    if users := where.users("Users"):
        clauses.append(jobs.user.in_(users))
    if keys := where.values("WCKeys"):
        marks = ("", wckeys.DEFAULT_MARK)
        clauses.append(jobs.wckey.in_([mark + key for key in keys for mark in marks]))
    if (start := where.last("Start")) is not None:
        clauses.append(jobs.start_us >= _time_us(change, start))
    if (end := where.last("End")) is not None:
        clauses += [jobs.start_us > 0, jobs.start_us <= _time_us(change, end)]
        clauses.append((jobs.end_us == 0) | (jobs.end_us <= _time_us(change, end)))
    columns = (jobs.job_index, jobs.job_id, jobs.submit_us, jobs.start_us, jobs.user, jobs.wckey,
               jobs.tres_allocated)  # fmt: skip
    query = sa.select(*columns).where(*clauses).limit(MOST_JOBS + 1)
    if "JobIDs" in where:
        records = _named_jobs(change, query, where.values("JobIDs"))
    else:
        records = list(change.connection.execute(query))
    return sorted(records, key=lambda job: (job.job_id, job.job_index))


def _named_jobs(change: Change, query: sa.Select[Any], texts: list[str]) -> list[Any]:
    """Return the records of a query that numbers, JOB_TASK, JOB+OFFSET or SLUIDs name.

    Raises:
        RefusedError: a text names no job, or there are too many.
    """
    if len(texts) > MOST_JOBS:
        raise RefusedError(f" More than {MOST_JOBS} jobs are named; name fewer of them")
    records: dict[int, Any] = {}
    for clause in [clause for text in texts for clause in _named(text)]:
        # Not one query with OR, for which databases read the whole table.
        records.update(
            (job.job_index, job) for job in change.connection.execute(query.where(clause))
        )
        if len(records) > MOST_JOBS:
            break
    return list(records.values())


def _named(text: str) -> list[Clause]:
    """Return the conditions of the records that one word names."""
    jobs = schema.jobs.c
    if number := sluid_of(text):
        return [jobs.sluid == number]
    match = _JOB_ID.fullmatch(text)
    if match is None:
        raise RefusedError(f"sacctmgr: fatal: Bad job/step specified: {text}")
    job_id, part = int(match[1]), int(match[3] or 0)
    if match[2] == "_":
        return [(jobs.array_job_id == job_id) & (jobs.array_task_id == part)]
    if match[2] == "+":
        return [(jobs.het_job_id == job_id) & (jobs.het_job_offset == part)]
    return [jobs.job_id == job_id, jobs.array_job_id == job_id, jobs.het_job_id == job_id]


def _time_us(change: Change, text: str) -> int:
    try:
        return parse_date(text, change.now_us // SECOND_US, past=True) * SECOND_US
    except ValueError as problem:
        raise RefusedError(f" {problem}") from None


def _count_again(change: Change, cluster_id: int, since_us: int) -> None:
    if change.actor.is_operator:
        note_change(change.connection, cluster_id, since_us)
    else:
        ask_again(change.connection, change.database, cluster_id, since_us)


def _nothing(change: Change) -> RefusedError:
    """Return what refuses a change of no job: the reason is an error, the outcome is output."""
    change.error_lines.append(_NOTHING)
    return RefusedError(" Nothing modified", is_output=True)


def _new_key(change: Change, cluster_id: int, cluster: str, user: str, key: str) -> str:
    """Return a job's new key; operators give it to the user with it.

    Raises:
        RefusedError: a bad key, or one that the user does not have.
    """
    wckeys.check_name(key)
    if wckeys.has(change, cluster_id, user, key):
        return key
    if not change.actor.is_operator:
        raise _nothing(change)
    wckeys.add(change, cluster_id, cluster, [user], [key])
    return key
