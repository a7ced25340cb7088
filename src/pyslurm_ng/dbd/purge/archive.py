"""Archive files: rows as lines of JSON behind a line that says whose they are.

A file is never changed once it is whole. It has a name of its own, only SlurmUser may read it, and
it is on disk before its rows are deleted. A row that is in two files, because the daemon was killed
between the two, is loaded once.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import time
from collections.abc import Iterator
from typing import Any

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.purge.old_rows import Row, Rows

_FORMAT = 1
_MOST_LINE_BYTES = 256 << 20
"""More than the rows of one transaction can take."""


class ArchiveError(Exception):
    """An archive that cannot be written or read; the text is for an administrator."""


class ArchiveFile:
    """The file of one kind of records of one cluster, made when the first rows come."""

    def __init__(self, directory: str, cluster: str, kind: str, store_id: str) -> None:
        self._directory = directory
        self._cluster = cluster
        self._kind = kind
        self._store_id = store_id
        self._file = -1

    def write(self, rows: Rows, before_us: int) -> None:
        """Append rows; return when they are on disk.

        Raises:
            ArchiveError: they cannot be written.
        """
        try:
            if self._file < 0:
                self._make(rows, before_us)
            lines = [
                json.dumps({"table": table.name, "rows": table_rows}, separators=(",", ":"))
                for table, table_rows in rows.items()
            ]
            self._append("\n".join([*lines, ""]))
        except OSError as error:
            raise ArchiveError(
                f"archive of {self._kind} records in {self._directory}: {error.strerror}"
            ) from None

    def _make(self, rows: Rows, before_us: int) -> None:
        begin_us = min(_begin(row) for table_rows in rows.values() for row in table_rows)
        name = (
            f"{self._directory}/{self._cluster or 'all'}_{self._kind}_archive_"
            f"{_stamp(begin_us)}_{_stamp(before_us)}"
        )
        for number in itertools.count():
            path = f"{name}.{number}" if number else name
            with contextlib.suppress(FileExistsError):
                self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                break
        head = {
            "pyslurm_ng_archive": _FORMAT,
            "cluster": self._cluster,
            "kind": self._kind,
            "store": self._store_id,
        }
        self._append(json.dumps(head) + "\n")
        folder = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _append(self, text: str) -> None:
        content = memoryview(text.encode("utf-8", "surrogatepass"))
        while content:
            content = content[os.write(self._file, content) :]
        os.fsync(self._file)

    def close(self) -> None:
        """Close the file; nothing more is written into it."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _begin(row: Row) -> int:
    for name in ("start_us", "submit_us", "time_us", "last_used_us"):
        if row.get(name):
            return int(row[name])
    return 0


def _stamp(time_us: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time_us // SECOND_US))


def read_archive(path: str) -> tuple[str, Iterator[Rows]]:
    """Return the cluster of an archive file, and its rows a few at a time.

    Raises:
        OSError: it cannot be read.
        ArchiveError: it is no archive, also while it is read.
    """
    with open(path, "rb") as file:
        head = _parse(path, 1, file.readline(1 << 16))
        if not isinstance(head, dict) or head.get("pyslurm_ng_archive") != _FORMAT:
            raise ArchiveError(f"{path}: line 1: this is no archive of pyslurm-ng")
        cluster = head.get("cluster")
        if not isinstance(cluster, str):
            raise ArchiveError(f"{path}: line 1: it names no cluster")
    return cluster, _read_rows(path)


def _read_rows(path: str) -> Iterator[Rows]:
    with open(path, "rb") as file:
        file.readline()
        for number in itertools.count(2):
            line = file.readline(_MOST_LINE_BYTES)
            if not line:
                return
            if not line.endswith(b"\n"):
                return  # the daemon was killed while it wrote this, and deleted nothing of it
            part = _parse(path, number, line)
            yield _checked(path, number, part)


def _parse(path: str, number: int, line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise ArchiveError(f"{path}: line {number}: this is no JSON") from None


def _checked(path: str, number: int, part: Any) -> Rows:
    """Return the rows of a line, checked against the columns of their table."""
    bad = ArchiveError(f"{path}: line {number}: these are no rows of accounting")
    if not isinstance(part, dict):
        raise bad
    table = schema.metadata.tables.get(str(part.get("table")))
    rows = part.get("rows")
    if table is None or table.name not in _TABLES or not isinstance(rows, list) or not rows:
        raise bad
    kinds = {column.name: column.type.python_type for column in table.columns}
    keys = {column.name for column in table.primary_key.columns}
    for row in rows:
        if not isinstance(row, dict) or not keys <= row.keys() or row.keys() != rows[0].keys():
            raise bad
        for name, value in row.items():
            if name not in kinds or type(value) is not kinds[name]:
                raise bad
    return {table: rows}


_TABLES = frozenset(
    table.name
    for table in (
        schema.jobs, schema.steps, schema.suspensions, schema.node_events, schema.node_instances,
        schema.reservations, schema.texts, schema.txn,
        *(table for tables in schema.USAGE for table in tables.values()),
    )
)  # fmt: skip
