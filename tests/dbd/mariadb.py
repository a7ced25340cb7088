"""A private MariaDB server, and a store in it that one test after the other finds empty."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket as socket_module
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database import Database, mysql_url
from tests.dbd.accounting_room import Prepare
from tests.world.waiting import wait_until

# Where a machine stands still for a while, the driver's own ten seconds are too few.
_CONNECT_S = "120"


class Server:
    """A server of this test's own; skips the test if none is installed or can be started.

    Attributes:
        socket: where it listens, while it runs.
    """

    def __init__(self, *options: str) -> None:
        server, install = shutil.which("mariadbd"), shutil.which("mariadb-install-db")
        if not server or not install:
            pytest.skip("mariadbd is not installed")
        # Not below pytest's directory, which every session closes to other users.
        self._place = Path(tempfile.mkdtemp(prefix="pyslurm-ng-"))
        self._place.chmod(0o755)
        self.socket = f"{self._place}/socket"
        temporary = self._place / "tmp"  # one that starts removes what others have in a common one
        temporary.mkdir(mode=0o700)
        words = ["--no-defaults", f"--datadir={self._place}/data", f"--tmpdir={temporary}"]
        if os.geteuid() == 0:
            # The server refuses to run as root; any unprivileged account will do.
            account = pwd.getpwnam("nobody")
            for folder in (self._place, temporary):
                os.chown(folder, account.pw_uid, account.pw_gid)
            words.append("--user=nobody")
        subprocess.run(
            [install, *words, "--auth-root-authentication-method=normal", "--skip-test-db"],
            check=True,
            capture_output=True,
        )
        # From 11.4 on a server makes a certificate by itself; ours encrypt only if options say so.
        own = [f"--socket={self.socket}", "--skip-networking", "--skip-ssl"]
        self._words = [server, *words, *own, *options]
        self.start()

    def start(self) -> None:
        """Start the server; return when it takes connections."""
        self._process = subprocess.Popen(
            self._words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_until(lambda: self._answers() or self._process.poll() is not None, "MariaDB's start")
        if self._process.poll() is not None:
            pytest.skip("mariadbd does not start here")

    def url(self, name: str) -> sa.URL:
        """Return where its administrator finds a database of this name."""
        return mysql_url("localhost", 0, "root", None, name, self.socket)

    @contextmanager
    def connection(self) -> Iterator[sa.Connection]:
        """Open a connection of its administrator, for statements that are no tests."""
        engine = sa.create_engine(self.url("mysql"), poolclass=sa.NullPool)
        with engine.connect() as connection:
            yield connection

    def _answers(self) -> bool:
        with socket_module.socket(socket_module.AF_UNIX) as probe:
            return probe.connect_ex(self.socket) == 0

    def kill(self) -> None:
        """End the server as a crash would."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def remove(self) -> None:
        """End the server and remove what it has stored."""
        self._process.terminate()
        self._process.wait(30)
        shutil.rmtree(self._place)


class SharedStore:
    """A store that many tests use in turn: to make its tables takes most of a second.

    For each beginning that tests have, a second database on the server has a copy of its rows and a
    procedure that brings them back, so that few messages pass between a test and a server on a busy
    machine, and none of what led there is done again.
    """

    def __init__(self, socket: str) -> None:
        url = mysql_url("localhost", 0, "root", None, "acct", socket)
        # The server has no TLS; without being told, the driver reads all authorities each time.
        self._url = url.update_query_dict({"connect_timeout": _CONNECT_S, "ssl_disabled": "true"})
        self._tables: tuple[str, str] | None = None
        self._beginnings: dict[Prepare | None, str] = {}

    def open(self, prepare: Prepare | None = None) -> Database:
        """Return the store as `Database.open` makes it, whatever the test before has done to it.

        Args:
            prepare: what has been done to it, too; done once only.
        """
        database = Database(self._url)
        beginning = self._beginnings.get(prepare) or self._beginnings.get(None)
        if self._tables is not None:
            with database.engine.connect() as connection:
                if _definitions(connection) == self._tables:
                    connection.exec_driver_sql(f"CALL {beginning}.again()")
                else:
                    self._forget(connection)
                connection.commit()
            if self._tables is None:
                database.engine.dispose()  # a connection forgets a database that is dropped
        database.open()
        if self._tables is None:
            self._keep(database, None)
        if prepare not in self._beginnings:
            assert prepare is not None
            prepare(database)
            self._keep(database, prepare)
        return database

    def _keep(self, database: Database, prepare: Prepare | None) -> None:
        name = f"beginning_{len(self._beginnings)}"
        with database.engine.connect() as connection:
            _remember(connection, name)
            self._tables = _definitions(connection)
        self._beginnings[prepare] = name

    def _forget(self, connection: sa.Connection) -> None:
        for name in ("acct", *self._beginnings.values()):
            connection.exec_driver_sql(f"DROP DATABASE {name}")
        self._beginnings.clear()
        self._tables = None


def _remember(connection: sa.Connection, beginning: str) -> None:
    """Keep the rows that the store has, and a procedure that leaves only these."""
    steps = []
    connection.exec_driver_sql(f"CREATE DATABASE {beginning}")
    for table in schema.metadata.sorted_tables:
        name = table.name
        steps.append(f"DELETE FROM acct.{name};")
        if connection.execute(sa.select(sa.func.count()).select_from(table)).scalar():
            columns = ", ".join(
                f"`{column.name}`" for column in table.columns if not column.computed
            )
            source = f"SELECT {columns} FROM"
            connection.exec_driver_sql(f"CREATE TABLE {beginning}.{name} AS {source} acct.{name}")
            steps.append(f"INSERT INTO acct.{name} ({columns}) {source} {beginning}.{name};")
    steps.append("COMMIT;")
    for table in schema.metadata.sorted_tables:
        if table.autoincrement_column is not None:
            steps.append(f"ALTER TABLE acct.{table.name} AUTO_INCREMENT = 1;")
    connection.exec_driver_sql(f"CREATE PROCEDURE {beginning}.again() BEGIN {' '.join(steps)} END")
    connection.commit()


def _definitions(connection: sa.Connection) -> tuple[str, str]:
    """Return the columns and the indexes of all tables, as one text each."""
    connection.exec_driver_sql("SET SESSION group_concat_max_len = 1048576")
    columns = "table_name, column_name, column_type, IFNULL(column_default, '-'), is_nullable"
    indexes = "table_name, index_name, column_name, seq_in_index, non_unique"
    return tuple(  # type: ignore[return-value]
        connection.exec_driver_sql(
            f"SELECT GROUP_CONCAT(CONCAT_WS(' ', {names}) ORDER BY {order}) "
            f"FROM information_schema.{source} WHERE table_schema = 'acct'"
        ).scalar_one()
        for names, order, source in (
            (columns, "table_name, ordinal_position", "columns"),
            (indexes, "table_name, index_name, seq_in_index", "statistics"),
        )
    )
