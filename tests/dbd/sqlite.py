"""SQLite stores that tests begin with, each made once and copied then."""

from __future__ import annotations

import shutil
from pathlib import Path

from pyslurm_ng.dbd.database import Database, sqlite_url
from tests.dbd.accounting_room import Prepare


class SqliteFiles:
    """One file for each beginning that tests have."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files: dict[Prepare | None, Path] = {}

    def open(self, directory: Path, prepare: Prepare | None = None) -> Database:
        """Return a store in a directory as `Database.open` makes it.

        Args:
            prepare: what has been done to it, too; done once only.
        """
        if prepare not in self._files:
            self._files[prepare] = self._make(prepare)
        copied = shutil.copyfile(self._files[prepare], directory / "accounting.sqlite")
        database = Database(sqlite_url(str(copied)))
        database.open()
        return database

    def _make(self, prepare: Prepare | None) -> Path:
        path = self._directory / f"{len(self._files)}.sqlite"
        for part in self._directory.glob(f"{path.name}*"):
            part.unlink()  # of a set-up that has failed: the next one begins anew
        database = Database(sqlite_url(str(path)))
        database.open()
        if prepare is not None:
            prepare(database)
        with database.engine.connect() as connection:
            # Only this file is copied, so all rows must be in it, whenever connections close.
            moved = connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").one()
        assert moved[0] == 0, "another connection holds the store that is to be copied"
        database.close()
        return path
