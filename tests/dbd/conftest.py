"""Databases for the tests: SQLite always, MariaDB where its server is installed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyslurm_ng.dbd.database import Database
from tests.dbd.accounting_room import OpenStore, Prepare, at_noon, utc
from tests.dbd.mariadb import Server, SharedStore
from tests.dbd.sqlite import SqliteFiles


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
def sqlite_files(tmp_path_factory: pytest.TempPathFactory) -> SqliteFiles:
    """Stores to be copied: making their tables takes longer."""
    return SqliteFiles(tmp_path_factory.mktemp("sqlite"))


@pytest.fixture
def sqlite_database(sqlite_files: SqliteFiles, tmp_path: Path) -> Iterator[Database]:
    """An open, empty SQLite store, for what does not depend on the dialect."""
    with contextlib.closing(sqlite_files.open(tmp_path)) as database:
        yield database


@pytest.fixture(params=["sqlite", "mariadb"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    """Opens a store of either kind: an empty one, or one to which something has been done."""
    with contextlib.ExitStack() as opened:

        def open_store(prepare: Prepare | None = None) -> Database:
            if request.param == "sqlite":
                files: SqliteFiles = request.getfixturevalue("sqlite_files")
                return opened.enter_context(contextlib.closing(files.open(tmp_path, prepare)))
            shared: SharedStore = request.getfixturevalue("mariadb_store")
            return opened.enter_context(contextlib.closing(shared.open(prepare)))

        yield open_store


@pytest.fixture
def database(open_store: OpenStore) -> Database:
    """An open, empty store of either kind."""
    return open_store()


@pytest.fixture
def store(open_store: OpenStore) -> Database:
    """A store of either kind that knows cluster demo and its nodes since noon."""
    return open_store(at_noon)


@pytest.fixture
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Days begin at midnight UTC, wherever the test runs."""
    utc(monkeypatch)
    yield
    monkeypatch.undo()
    time.tzset()
