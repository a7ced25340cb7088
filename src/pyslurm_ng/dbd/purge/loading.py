"""`sacctmgr archive load`: archived rows back into the database, a transaction for each line."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from pyslurm_ng.dbd.database import Database
from pyslurm_ng.dbd.lengths import fit
from pyslurm_ng.dbd.purge.archive import ArchiveError, read_archive
from pyslurm_ng.dbd.purge.old_rows import Row, Rows
from pyslurm_ng.dbd.updates import find_cluster

_NAMES = {"jobs": ("cluster_id", "job_id", "submit_us")}
"""What tells whether a row of the same number is the same; of other tables the key does."""


def load(database: Database, path: str, run: Callable[[Callable[[], int]], int]) -> int:
    """Store the rows of a file that are not there; return how many.

    Args:
        run: does a transaction in the writing thread.

    Raises:
        OSError: the file cannot be read.
        ArchiveError: it is no archive, of no known cluster, or of another database.
    """
    cluster, parts = read_archive(path)
    with database.read() as connection:
        cluster_id = find_cluster(connection, cluster) if cluster else 0
    if cluster_id is None:
        raise ArchiveError(f"{path}: cluster {cluster} is not in accounting")
    # Looked through once before anything is stored: a broken file changes nothing.
    for part in parts:
        with database.read() as connection:
            _check(connection, path, cluster_id, part)
    return sum(
        run(lambda part=part: _store(database, cluster_id, part))  # type: ignore[misc]
        for part in read_archive(path)[1]
    )


def _check(connection: sa.Connection, path: str, cluster_id: int, part: Rows) -> None:
    """Refuse rows that would stand for others that are there."""
    for table, rows in part.items():
        names = _NAMES.get(table.name)
        if names is None:
            continue
        numbers = [row["job_index"] for row in rows]
        query = sa.select(table.c.job_index, *(table.c[name] for name in names)).where(
            table.c.job_index.in_(numbers)
        )
        present = {row[0]: tuple(row[1:]) for row in connection.execute(query)}
        for row in rows:
            own = tuple((row | {"cluster_id": cluster_id})[name] for name in names)
            if present.get(row["job_index"], own) != own:
                raise ArchiveError(
                    f"{path}: job {row['job_id']} has the number of another job: "
                    "this archive is of another database"
                )


def _store(database: Database, cluster_id: int, part: Rows) -> int:
    with database.write() as connection:
        return sum(
            _insert(connection, database, table, cluster_id, rows) for table, rows in part.items()
        )


def _insert(
    connection: sa.Connection, database: Database, table: sa.Table, cluster_id: int, rows: list[Row]
) -> int:
    """Insert the rows whose keys are not there."""
    if "cluster_id" in table.c:
        rows = [row | {"cluster_id": cluster_id} for row in rows]
    keys = [column.name for column in table.primary_key.columns]
    first = table.c["start_us" if keys[0] == "cluster_id" else keys[0]]
    query = sa.select(*(table.c[name] for name in keys)).where(
        first.in_({row[first.name] for row in rows})
    )
    if keys[0] == "cluster_id":
        query = query.where(table.c.cluster_id == cluster_id)
    present = {tuple(row) for row in connection.execute(query)}
    new = [row for row in rows if tuple(row[name] for name in keys) not in present]
    if new:
        fit(table, new, database.row_bytes)
        connection.execute(table.insert(), new)
    return len(new)
