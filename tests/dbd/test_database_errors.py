"""RELIABILITY 50: whatever is wrong with the database, records wait, are tried again and stored.

The errors are a real MariaDB's and SQLite's own; the log has a line for each kind and minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from pyslurm_ng.ctld.followers import dbd_link
from pyslurm_ng.dbd import schema, service
from pyslurm_ng.dbd.database import Database, mysql_url, sqlite_url
from pyslurm_ng.model import events as ev
from tests.ctld.followers.dbd_sides import Accounting, SendingController, play, until
from tests.dbd.accounting_room import at, configured, rows, submitted

T = at("12:00:00")
_numbers = itertools.count()


class Server:
    """The MariaDB of the tests as its administrator sees it, and one database for slurmdbd."""

    def __init__(self, socket: str) -> None:
        self._root = sa.create_engine(
            mysql_url("localhost", 0, "root", None, "mysql", socket), isolation_level="AUTOCOMMIT"
        )
        name = f"errors_{next(_numbers)}"
        # Who has SUPER is not stopped by read_only.
        self.do(
            f"CREATE USER {name}@localhost",
            f"CREATE DATABASE {name} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            f"GRANT ALL ON {name}.* TO {name}@localhost",
        )
        self.name = name
        self.database = Database(mysql_url("localhost", 0, name, None, name, socket))

    def do(self, *statements: str) -> None:
        with self._root.connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    @contextlib.contextmanager
    def having(self, variable: str, value: int) -> Iterator[None]:
        """Change a global variable for a while."""
        with self._root.connect() as connection:
            before = connection.exec_driver_sql(f"SELECT @@GLOBAL.{variable}").scalar_one()
        self.do(f"SET GLOBAL {variable}={value}")
        try:
            yield
        finally:
            self.do(f"SET GLOBAL {variable}={before}")

    @contextlib.contextmanager
    def read_only(self) -> Iterator[None]:
        with self.having("read_only", 1):
            yield

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Somebody else's transaction holds what each batch needs."""
        with self.having("innodb_lock_wait_timeout", 1), self._root.connect() as connection:
            self.database.engine.dispose()  # so that the sessions have the shorter time
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                connection.exec_driver_sql(f"SELECT * FROM {self.name}.store FOR UPDATE")
                connection.exec_driver_sql(f"SELECT * FROM {self.name}.cursors FOR UPDATE")
                yield

    @contextlib.contextmanager
    def small_packets(self) -> Iterator[None]:
        with self.having("max_allowed_packet", 1024):
            self.database.engine.dispose()
            yield

    @contextlib.contextmanager
    def without_rights(self) -> Iterator[None]:
        self.do(f"REVOKE ALL ON {self.name}.* FROM {self.name}@localhost")
        self.database.engine.dispose()
        try:
            yield
        finally:
            self.do(f"GRANT ALL ON {self.name}.* TO {self.name}@localhost")

    @contextlib.contextmanager
    def without_a_table(self) -> Iterator[None]:
        self.do(f"RENAME TABLE {self.name}.jobs TO {self.name}.gone")
        try:
            yield
        finally:
            self.do(f"RENAME TABLE {self.name}.gone TO {self.name}.jobs")

    def waiting(self) -> int:
        """Return how many transactions wait for a lock."""
        with self._root.connect() as connection:
            # Not the tables of lock waits: they stand still while they are read often.
            query = "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'"
            return int(connection.exec_driver_sql(query).one()[1])

    def close(self) -> None:
        self.database.close()
        self.do(f"DROP DATABASE {self.name}", f"DROP USER {self.name}@localhost")
        self._root.dispose()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch is refused soon, and the link comes back soon."""
    monkeypatch.setattr(service, "PATIENCE_S", 0.2)
    monkeypatch.setattr(dbd_link, "RECONNECT_S", (0.02,))


async def fault_and_mend(
    accounting: Accounting,
    controller: SendingController,
    fault: contextlib.AbstractContextManager[None],
) -> None:
    """Store a job, record more during the fault, mend it, and wait for all."""
    faults = accounting._service.faults
    last = await controller.write(configured(T), submitted(T, 1))
    await until(lambda: controller.link.acknowledged == last)
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, fault.__enter__)
    try:
        for job_id in range(2, 12):
            # Longer than net_buffer_length, below which no packet is too large.
            last = await controller.write(submitted(T, job_id, comment="x" * 40_000))
        await until(lambda: faults.counts.get("database", 0) >= 3)
        assert controller.link.acknowledged < last
    finally:
        await loop.run_in_executor(None, fault.__exit__, None, None, None)
    await until(lambda: controller.link.acknowledged == last)
    assert set(faults.counts) == {"database"}
    assert faults._unlogged["database"] >= 2  # one line was written, within a minute no more


@pytest.mark.parametrize(
    "kind", ["read_only", "locked", "small_packets", "without_rights", "without_a_table"]
)
def test_mariadb_that_takes_nothing_loses_nothing(
    mariadb_socket: str, tmp_path: Path, impatient: None, kind: str
) -> None:
    """Read-only (1290), lock wait timeout (1205), packets (1153), rights (1142), a table (1146)."""
    server = Server(mariadb_socket)

    async def story(accounting: Accounting, controller: SendingController) -> None:
        await fault_and_mend(accounting, controller, getattr(server, kind)())

    try:
        accounting = play(tmp_path, story, database=server.database)
        assert accounting.job_ids() == list(range(1, 12))
        assert rows(server.database, schema.problem_rows, "id") == []
    finally:
        server.close()


def test_a_deadlock_is_tried_again(mariadb_socket: str, tmp_path: Path, impatient: None) -> None:
    """InnoDB ends one of two transactions that wait for each other (1213): that with less to undo.

    A batch writes its jobs, then the number of the next one; the other one goes the other way.
    """
    server = Server(mariadb_socket)
    name = server.name

    async def story(accounting: Accounting, controller: SendingController) -> None:
        last = await controller.write(configured(T), submitted(T, 1))
        await until(lambda: controller.link.acknowledged == last)
        loop = asyncio.get_running_loop()
        with server._root.connect() as connection:
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                # Much to undo, so that the batch is the one that is ended.
                for number in range(300):
                    connection.exec_driver_sql(
                        f"INSERT INTO {name}.coordinators VALUES ({number}, 1)"
                    )
                connection.exec_driver_sql(f"SELECT * FROM {name}.store FOR UPDATE")
                last = await controller.write(
                    ev.JobUpdated(T, 1, {"comment": "c"}), submitted(T, 2)
                )
                await until(lambda: server.waiting() > 0)
                lock = f"SELECT * FROM {name}.jobs WHERE job_id=1 FOR UPDATE"
                await loop.run_in_executor(None, connection.exec_driver_sql, lock)
                await until(lambda: accounting._service.faults.counts.get("database", 0) > 0)
        await until(lambda: controller.link.acknowledged == last)
        assert accounting._service.retries >= 1

    try:
        assert play(tmp_path, story, database=server.database).job_ids() == [1, 2]
    finally:
        server.close()


def test_no_socket_in_tmp_is_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any user can listen there before the database does, and a server may ask for the password."""
    monkeypatch.setattr(os.path, "exists", lambda path: str(path).startswith("/tmp/"))
    assert "unix_socket" not in mysql_url("localhost", 0, "slurm", "secret", "acct").query
    monkeypatch.setattr(os.path, "exists", lambda path: True)
    url = mysql_url("localhost", 0, "slurm", "secret", "acct")
    assert url.query["unix_socket"] == "/run/mysqld/mysqld.sock"


def test_a_full_sqlite_file_loses_nothing(tmp_path: Path, impatient: None) -> None:
    """`database or disk is full` is waited for, and nothing is set aside for it."""
    pages = {"most": 0}

    def bounded(connection: object, _record: object, _proxy: object) -> None:
        if pages["most"]:
            connection.execute(f"PRAGMA max_page_count={pages['most']}")  # type: ignore[attr-defined]

    database = Database(sqlite_url(f"{tmp_path}/full.sqlite"))
    sa.event.listen(database.engine, "checkout", bounded)

    @contextlib.contextmanager
    def full() -> Iterator[None]:
        with database.read() as connection:
            pages["most"] = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        yield
        pages["most"] = 1_000_000

    async def story(accounting: Accounting, controller: SendingController) -> None:
        last = await controller.write(configured(T), submitted(T, 1))
        await until(lambda: controller.link.acknowledged == last)
        fault = full()
        fault.__enter__()
        for job_id in range(2, 40):
            last = await controller.write(submitted(T, job_id, comment="x" * 5000))
        faults = accounting._service.faults
        await until(lambda: faults.counts.get("database", 0) >= 3)
        assert controller.link.acknowledged < last
        fault.__exit__(None, None, None)
        await until(lambda: controller.link.acknowledged == last)
        assert set(faults.counts) == {"database"}

    accounting = play(tmp_path, story, database=database)
    assert accounting.job_ids() == list(range(1, 40))
    assert rows(database, schema.problem_rows, "id") == []
    database.close()
