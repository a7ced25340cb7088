"""Journal batches into rows: everything of one message and its cursor in one transaction.

Exactly once: the cursor is read inside the transaction, frames at or before it are skipped, and
rows are written by their unique keys. Nothing is remembered between transactions, so a rolled
back one leaves no trace. Within one, the rows of all jobs concerned are read first, the events
are applied to them as plain dicts, and what changed is written by executemany.
"""

import time
from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.ingest import job_rows, node_rows
from pyslurm_ng.dbd.ingest.session import Session
from pyslurm_ng.model.events import AnyEvent, decode_batch


class GapError(Exception):
    """Frames between the cursor and the first one sent are missing."""


class Frame:
    """One journal frame: its position and its events."""

    __slots__ = ("epoch", "events", "sequence")

    def __init__(self, epoch: int, sequence: int, events: list[AnyEvent]) -> None:
        self.epoch = epoch
        self.sequence = sequence
        self.events = events


def decode_frames(frames: Iterable[tuple[int, int, bytes]]) -> list[Frame]:
    """Decode (epoch, sequence, payload) triples.

    Raises:
        msgspec.ValidationError: a payload of a newer version.
    """
    return [Frame(epoch, sequence, decode_batch(payload)) for epoch, sequence, payload in frames]


def ingest(
    database: Database, cluster_id: int, journal_id: str, after: int, frames: Sequence[Frame]
) -> tuple[int, int, int]:
    """Commit rows and cursor for the frames of one cluster's journal that follow `after`.

    Sequences may jump where the journal itself has a gap (after a repair).

    Returns:
        epoch and sequence of the cursor afterwards, and the number of events that were new.

    Raises:
        GapError: `after` is later than the cursor, so frames between are missing.
    """
    with database.write() as connection:
        cursor = read_cursor(connection, cluster_id)
        at = cursor if cursor is not None and cursor[0] == journal_id else (journal_id, 0, 0)
        fresh = [frame for frame in frames if frame.sequence > at[2]]
        if not fresh:
            return at[1], at[2], 0
        if after > at[2]:
            raise GapError(f"journal {journal_id}: {at[2]} is stored, what follows {after} came")
        session = Session(database, connection, cluster_id)
        job_ids: dict[int, None] = {}
        step_jobs: dict[int, None] = {}
        for frame in fresh:
            for event in frame.events:
                job_rows.collect_ids(event, job_ids, step_jobs)
        session.load(job_ids, step_jobs)
        count = 0
        for frame in fresh:
            for event in frame.events:
                if not job_rows.apply(session, event):
                    node_rows.apply(session, event)
                count += 1
        for row in session.dirty_jobs.values():
            job_rows.finish(row)
        session.save()
        last = fresh[-1]
        database.upsert(
            connection,
            schema.cursors,
            ("cluster_id",),
            [
                {
                    "cluster_id": cluster_id,
                    "journal_id": journal_id,
                    "epoch": last.epoch,
                    "sequence": last.sequence,
                    "updated_us": time.time_ns() // 1000,
                    "records": count,
                }
            ],
        )
        return last.epoch, last.sequence, count


def read_cursor(connection: sa.Connection, cluster_id: int) -> tuple[str, int, int] | None:
    """Return journal id, epoch and sequence up to which rows are stored, None for none."""
    table = schema.cursors
    found = connection.execute(sa.select(table).where(table.c.cluster_id == cluster_id)).first()
    return None if found is None else (found.journal_id, found.epoch, found.sequence)
