"""Journal batches to rows: all rows of one message and its cursor in one transaction.

Exactly once: the cursor is read inside the transaction, frames at or before it are skipped, and
rows are written by their unique keys. A transaction that is rolled back leaves no trace, also not
in what is kept between transactions (`ingest.cluster_facts`). A transaction first reads the rows of
all its jobs, then applies the events to them as plain dicts, and writes the changed rows by
executemany.

No event can stop the others: if the database refuses a batch, it is halved until the one event is
found that it refuses. That event is set aside (`store_problems`), and the cursor goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from pyslurm_ng.daemon.process_settings import no_collections
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.admin.change import RefusedError
from pyslurm_ng.dbd.database import Database, error_text, is_of_one_row
from pyslurm_ng.dbd.ingest import job_rows, node_rows, reservation_rows
from pyslurm_ng.dbd.ingest.cluster_facts import ClusterFacts, keep_facts, read_facts, take_facts
from pyslurm_ng.dbd.ingest.frames import Frame, Problem, problem_of
from pyslurm_ng.dbd.ingest.jobs_of_events import Concerned
from pyslurm_ng.dbd.ingest.position import Position, read_position
from pyslurm_ng.dbd.ingest.session import Session
from pyslurm_ng.dbd.lengths import MOST, fit
from pyslurm_ng.model.events import AnyEvent

MOST_PROBLEMS = 10_000
"""The most that are kept, the newest: rows that are never read must not fill the database."""

Note = Callable[[Problem, BaseException | None], None]


class GapError(Exception):
    """Frames between the cursor and the first one sent are missing."""


def ingest(
    database: Database,
    cluster_id: int,
    journal_id: str,
    after: int,
    frames: Sequence[Frame],
    note: Note | None = None,
) -> tuple[int, int, int]:
    """Commit rows and cursor for the frames of one cluster's journal that follow `after`.

    Sequences may jump where the journal itself has a gap (after a repair).

    Args:
        note: called for each event that is set aside, with the error if it is new.

    Returns:
        epoch and sequence of the cursor afterwards, and the number of events that were new.

    Raises:
        GapError: `after` is later than the cursor, so frames between are missing.
        SQLAlchemyError: the database cannot be used now; the controller may send the same again.
    """
    note_problem = note or _untold
    try:
        return _together(database, cluster_id, journal_id, after, frames, note_problem)
    except GapError:
        raise
    except Exception as error:
        if not is_of_one_row(error):
            raise
    if len(frames) == 1:
        return _apart(database, cluster_id, journal_id, after, frames[0], note_problem)
    middle = len(frames) // 2
    first = ingest(database, cluster_id, journal_id, after, frames[:middle], note_problem)
    second = ingest(
        database, cluster_id, journal_id, frames[middle - 1].sequence, frames[middle:], note_problem
    )
    return second[0], second[1], first[2] + second[2]


def _untold(problem: Problem, error: BaseException | None) -> None:
    """For callers that look into the table."""


def _together(
    database: Database,
    cluster_id: int,
    journal_id: str,
    after: int,
    frames: Sequence[Frame],
    note: Note,
) -> tuple[int, int, int]:
    """Store frames in one transaction, all or none."""
    with no_collections(), database.write() as connection:
        at, fresh = _fresh(connection, cluster_id, journal_id, after, frames)
        if not fresh:
            return at.epoch, at.sequence, 0
        facts = take_facts(database, cluster_id, at.version)
        if facts is None:
            facts = read_facts(connection, cluster_id, at.store_flags)
        events = [event for frame in fresh for event in frame.events]
        _store(database, connection, cluster_id, at, facts, events, {})
        problems = [problem for frame in fresh for problem in frame.problems]
        store_problems(connection, cluster_id, journal_id, problems, database.row_bytes)
        cursor = _move_cursor(database, connection, cluster_id, journal_id, fresh[-1], len(events))
    keep_facts(database, cluster_id, at.moved_to(cursor), facts)
    for problem in problems:
        note(problem, None)
    return fresh[-1].epoch, fresh[-1].sequence, len(events)


def _apart(
    database: Database, cluster_id: int, journal_id: str, after: int, frame: Frame, note: Note
) -> tuple[int, int, int]:
    """Store one frame event by event; events that cannot be stored are set aside."""
    with database.write() as connection:
        at, fresh = _fresh(connection, cluster_id, journal_id, after, [frame])
        if not fresh:
            return at.epoch, at.sequence, 0
        texts: dict[str, Any] = {}
        set_aside: list[tuple[Problem, BaseException | None]] = [
            (problem, None) for problem in frame.problems
        ]
        for event in frame.events:
            try:
                with connection.begin_nested():
                    now_at = read_position(connection, cluster_id)
                    facts = read_facts(connection, cluster_id, now_at.store_flags)
                    _store(database, connection, cluster_id, now_at, facts, [event], texts)
            except Exception as error:
                if not is_of_one_row(error):
                    raise
                reason = f"{type(error).__name__}: {error_text(error)}"
                set_aside.append((problem_of(frame.sequence, event, reason), error))
        problems = [problem for problem, _ in set_aside]
        store_problems(connection, cluster_id, journal_id, problems, database.row_bytes)
        _move_cursor(database, connection, cluster_id, journal_id, frame, len(frame.events))
    for problem, cause in set_aside:
        note(problem, cause)
    return frame.epoch, frame.sequence, len(frame.events)


def _fresh(
    connection: sa.Connection,
    cluster_id: int,
    journal_id: str,
    after: int,
    frames: Sequence[Frame],
) -> tuple[Position, list[Frame]]:
    """Return where the journal is, and the frames behind that."""
    at = read_position(connection, cluster_id)
    if not at.has_books:
        raise RefusedError(f"cluster {at.name} is not registered")
    if at.journal_id not in (None, journal_id):
        raise GapError(f"journal {journal_id} is not the one that this cluster is registered with")
    fresh = [frame for frame in frames if frame.sequence > at.sequence]
    if fresh and after > at.sequence:
        raise GapError(f"journal {journal_id}: {at.sequence} is stored, what follows {after} came")
    return at, fresh


def _store(
    database: Database,
    connection: sa.Connection,
    cluster_id: int,
    position: Position,
    facts: ClusterFacts,
    events: Sequence[AnyEvent],
    texts: dict[str, Any],
) -> None:
    """Write the rows of some events; `texts` keeps scripts for later jobs."""
    session = Session(database, connection, cluster_id, position, facts)
    session.texts = texts
    concerned = Concerned(events)
    session.load(concerned.known, concerned.with_steps, concerned.new)
    session.changed_at(min([event.time_us for event in events], default=MOST))
    for event in events:
        if not (job_rows.apply(session, event) or node_rows.apply(session, event)):
            reservation_rows.apply(session, event)
    for row in session.dirty_jobs.values():
        job_rows.finish(row)
    session.save()


def store_problems(
    connection: sa.Connection,
    cluster_id: int,
    journal_id: str,
    problems: Iterable[Problem],
    row_bytes: int,
) -> None:
    """Keep some problems of a cluster's journal; the oldest make room."""
    rows = [
        {"cluster_id": cluster_id, "journal_id": journal_id, **problem._asdict()}
        for problem in problems
    ]
    if not rows:
        return
    table = schema.problem_rows
    fit(table, rows, row_bytes)
    connection.execute(table.insert(), rows)
    newest = connection.execute(sa.select(sa.func.max(table.c.id))).scalar_one()
    connection.execute(table.delete().where(table.c.id <= newest - MOST_PROBLEMS))


def _move_cursor(
    database: Database,
    connection: sa.Connection,
    cluster_id: int,
    journal_id: str,
    last: Frame,
    count: int,
) -> dict[str, Any]:
    """Write where the journal is now, and return the row."""
    row = {
        "cluster_id": cluster_id,
        "journal_id": journal_id,
        "epoch": last.epoch,
        "sequence": last.sequence,
        "updated_us": time.time_ns() // 1000,
        "records": count,
        "checksum": last.checksum,
    }
    database.upsert(connection, schema.cursors, ("cluster_id",), [row])
    return row


def read_cursor(connection: sa.Connection, cluster_id: int) -> tuple[str, int, int, str] | None:
    """Return journal id, epoch, sequence and checksum of the newest record stored, or None."""
    table = schema.cursors
    cursor_row = connection.execute(
        sa.select(table).where(table.c.cluster_id == cluster_id)
    ).first()
    return None if cursor_row is None else (
        cursor_row.journal_id, cursor_row.epoch, cursor_row.sequence, cursor_row.checksum
    )  # fmt: skip
