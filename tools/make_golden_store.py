"""Write an accounting store of this schema into tests/golden/stores, to be upgraded ever after.

Usage: tools/make_golden_store.py SOCKET   (of a MariaDB server)

Each new migration needs it. Every table gets two rows. A file that exists is never written again:
it is what that version of slurmdbd made.
"""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database import Database, mysql_url, sqlite_url
from pyslurm_ng.dbd.migrations import LATEST

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "golden" / "stores"
BEGIN_US = 1_790_000_000_000_000
_SUSPENDED_US = 60_000_000
_ROWS = (101, 102)
"""Numbers that no row of a new store has."""


def value_of(column: sa.Column[Any], row: int, position: int) -> object:
    """Return what a column holds in a row: other than in every other column."""
    if isinstance(column.type, sa.String):
        text = f"{column.name} 'n' {row}" if column.name != "limits" else f'{{"GrpJobs":{row}}}'
        return text[: column.type.length or len(text)]
    if column.name == "suspended_us":
        return _SUSPENDED_US
    if column.name.endswith("_us"):
        return BEGIN_US + row * 1_000_000_000 + position * 1_000_000
    if column.name.startswith("is_"):
        return row % 2
    return row if column.primary_key or column.unique else row * 1000 + position


def fill(database: Database) -> None:
    """Give every table two rows; the first of those that can be deleted is."""
    with database.write() as connection:
        for table in schema.metadata.sorted_tables:
            for row in _ROWS:
                values = {
                    column.name: value_of(column, row, position)
                    for position, column in enumerate(table.columns)
                }
                connection.execute(table.insert().values(values))


def sqlite_text(folder: Path) -> str:
    """Return the statements that make such a store in SQLite."""
    path = folder / "store.sqlite"
    database = Database(sqlite_url(str(path)))
    with contextlib.closing(database):
        database.open()
        fill(database)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return "".join(f"{statement}\n" for statement in connection.iterdump())


def mariadb_text(socket: str) -> str:
    """Return the statements that make such a store in MariaDB."""
    name = f"golden_{LATEST}"
    database = Database(mysql_url("localhost", 0, "root", None, name, socket))
    with contextlib.closing(database):
        database.open()
        fill(database)
    dump = subprocess.run(
        ["mariadb-dump", "--no-defaults", f"--socket={socket}", "--user=root", "--compact",
         "--default-character-set=utf8mb4", "--skip-extended-insert", name],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    return dump.stdout


def main() -> None:
    """Write the files of this schema that are missing."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        texts = {"sqlite": sqlite_text(Path(folder)), "mariadb": mariadb_text(sys.argv[1])}
    for kind, text in texts.items():
        path = FOLDER / f"{LATEST:02d}.{kind}.sql"
        if path.exists():
            print(f"{path} is there already", file=sys.stderr)
        else:
            path.write_text(text)


if __name__ == "__main__":
    main()
