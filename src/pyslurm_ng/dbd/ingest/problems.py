"""Events that could not be stored: kept with the reason for `sacctmgr show problem`."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.ingest.frames import Problem
from pyslurm_ng.dbd.lengths import fit

MOST_PROBLEMS = 10_000
"""Only so many are kept, the newest: rows that are never read must not fill the database."""


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
