"""Databases for the tests: SQLite always, MariaDB where its server is installed."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.dbd.database import Database, sqlite_url
from tests.dbd.accounting_room import at, configured, record, register, utc
from tests.dbd.mariadb import Server, SharedStore


@pytest.fixture(scope="session")
def mariadb_socket() -> Iterator[str]:
    """A private MariaDB server; skips where none can be started."""
    # Nobody pulls the plug: a busy disk does not stop it.
    server = Server("--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync")
    yield server.socket
    server.remove()


@pytest.fixture(scope="session")
def mariadb_store(mariadb_socket: str) -> SharedStore:
    """The store that tests find empty, one after the other."""
    return SharedStore(mariadb_socket)


@pytest.fixture(scope="session")
def sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty store, to be copied: making its tables takes longer."""
    path = tmp_path_factory.mktemp("sqlite") / "accounting.sqlite"
    database = Database(sqlite_url(str(path)))
    database.open()
    database.close()
    return path


@pytest.fixture
def sqlite_database(sqlite_file: Path, tmp_path: Path) -> Iterator[Database]:
    """An open, empty SQLite store, for what does not depend on the dialect."""
    database = Database(sqlite_url(str(shutil.copy2(sqlite_file, tmp_path))))
    database.open()
    yield database
    database.close()


@pytest.fixture(params=["sqlite", "mariadb"])
def database(request: pytest.FixtureRequest) -> Iterator[Database]:
    """An open, empty store of either kind."""
    if request.param == "sqlite":
        yield request.getfixturevalue("sqlite_database")
        return
    store: SharedStore = request.getfixturevalue("mariadb_store")
    database = store.open()
    yield database
    database.close()


@pytest.fixture
def store(database: Database) -> Database:
    """A store of either kind that knows cluster demo and its nodes since noon."""
    register(database)
    record(database, configured(at("12:00:00")))
    return database


@pytest.fixture
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Days begin at midnight UTC, wherever the test runs."""
    utc(monkeypatch)
    yield
    monkeypatch.undo()
    time.tzset()
