"""The connection to the accounting database, and everything the two dialects do differently."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects import mysql, sqlite
from sqlalchemy.sql.compiler import SQLCompiler

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database_rows import RowConnection, written_values
from pyslurm_ng.dbd.migrations import LATEST, MIGRATIONS
from pyslurm_ng.dbd.pass_script import printed_password
from pyslurm_ng.kernels.records import picked

MYSQL_SOCKETS = ("/run/mysqld/mysqld.sock", "/var/lib/mysql/mysql.sock")
"""None is where every user can make files: a server over a socket may ask for the password."""

RETRYABLE_MYSQL = frozenset(
    {
        1020,  # record changed since last read
        1021,  # disk full
        1040,  # too many connections
        1053,  # shutdown in progress
        1114,  # table full
        1158, 1159, 1160, 1161,  # network
        1205,  # lock wait
        1213,  # deadlock
        1290, 1836, 3100,  # read only, before-commit hook
        2002, 2003, 2006, 2013, 2014, 2055,  # connection
    }
)  # fmt: skip
"""Numbers from MariaDB's and MySQL's manuals after which the same transaction may succeed."""

WHOLE_MYSQL = frozenset(
    {
        1044, 1045, 1049, 1142, 1143, 1227, 1698,  # rights, no such database
        1054, 1064, 1146, 1932,  # columns and tables
        1153,  # max_allowed_packet: rows are made to fit, so it is set too small for any
    }
)  # fmt: skip
"""Numbers that say that the database as a whole cannot be used as it is, whatever the row."""

_AWAY_MYSQL = frozenset({1053, 2002, 2003, 2006, 2013})  # no server, or one that is ending

_KEPT_CONNECTIONS = 12
"""More than there are threads: to connect takes 50 ms of processor time, for TLS."""
_PLACES_OF_VALUES = re.compile(r"%\((\w+)\)s")
_ROW_SHARE = 4
"""A row may take one in so many of the bytes of max_allowed_packet: quoting can double them."""
_SQLITE_ROW_BYTES = 64 << 20
_SQLITE_VALUES = 999
"""Of one statement: the most that all versions take."""
_SQLITE_STEPS = 20_000
"""Of SQLite's machine, between two questions whether a statement is still wanted: about 1 ms."""
_CUT_SHORT_MYSQL = frozenset({1317, 1969, 3024})  # interrupted, MariaDB's and MySQL's time limits


class SupersededError(Exception):
    """Another slurmdbd serves the database; nothing has been changed."""


class NewerStoreError(Exception):
    """The store was written by a newer slurmdbd; nothing has been changed."""


class _Upsert(NamedTuple):
    """A statement as its driver takes it: SQLAlchemy would work for longer than the database.

    Attributes:
        head, tail: what is before the values of rows and behind them.
        order: columns in the order of the values.
        defaults: of the columns that rows do not have.
    """

    head: str
    tail: str
    order: tuple[str, ...]
    defaults: dict[str, Any]

    def marked(self, table: sa.Table, usual: frozenset[str]) -> tuple[str, tuple[str, ...]]:
        """Return the values of one row for SQLite, and the columns whose values are marks.

        Columns that have their default in all rows are written into it: each value that is handed
        over takes the driver and SQLite a tenth of a microsecond.
        """
        marks = [_literal(table.c[name]) if name in usual else "?" for name in self.order]
        order = tuple([name for name in self.order if name not in usual])
        return f"({', '.join(marks)})", order


def _literal(column: sa.Column[Any]) -> str:
    """Return the default of a column as it is in a statement: a number, or an empty text."""
    return str(schema.default_of(column)) or "''"


class Database:
    """One engine, its transactions, and upserts.

    `row_bytes` is what the texts of one row may take in all.

    `write()` takes the store's single write lock at once (SQLite: BEGIN IMMEDIATE), so that a
    transaction never fails half way for being second. Only the writing thread calls it.
    """

    def __init__(self, url: sa.URL, pass_script: str = "", backup_host: str = "") -> None:
        self.url = url
        self._pass_script = pass_script
        self._hosts = deque(filter(None, (url.host, backup_host)))  # the one to try first
        self.new_cluster_qos = "normal"  # DefaultQOS of slurmdbd.conf
        self.keeps_users = False  # PreserveCaseUser of slurmdbd.conf
        self.term = ""  # see `dbd.term`; "" if there is no other slurmdbd
        self.is_sqlite = url.get_backend_name() == "sqlite"
        self.row_bytes = _SQLITE_ROW_BYTES
        self._upserts: dict[tuple[str, tuple[str, ...], tuple[str, ...]], _Upsert] = {}
        if self.is_sqlite:
            self.engine = self._limited = sa.create_engine(url, connect_args={"timeout": 30})
            sa.event.listen(self.engine, "connect", _prepare_sqlite)
            sa.event.listen(self.engine, "begin", _begin_sqlite)
        else:
            # Connections whose statements have a limit keep it: to change it is a statement, too.
            self.engine, self._limited = self._pool(), self._pool()

    def _pool(self) -> sa.Engine:
        """Return a pool of connections to a server."""
        engine = sa.create_engine(
            self.url,
            pool_size=_KEPT_CONNECTIONS,
            pool_pre_ping=True,
            pool_recycle=3600,
            isolation_level="REPEATABLE READ",
        )
        sa.event.listen(engine, "do_connect", self._connect)
        return engine

    def _connect(
        self, dialect: sa.Dialect, _record: Any, _arguments: Any, parameters: dict[str, Any]
    ) -> RowConnection:
        """Connect to a server, to StorageBackupHost's if the other does not answer.

        All go to the host that answered last, so that no connection reads what another, to the
        other host, has not written there.
        """
        if self._pass_script:
            parameters["password"] = printed_password(self._pass_script)
        for _ in range(len(self._hosts) - 1):
            try:
                return self._connect_first(parameters)
            except dialect.loaded_dbapi.OperationalError as error:
                if error.args[0] not in _AWAY_MYSQL:
                    raise
            self._hosts.rotate()
        return self._connect_first(parameters)

    def _connect_first(self, parameters: dict[str, Any]) -> RowConnection:
        host = self._hosts[0]
        if host != self.url.host:
            parameters = {**parameters, "host": host, "unix_socket": None}
        return RowConnection(**parameters)

    def open(self) -> None:
        """Create the database and bring the schema up to date.

        Raises:
            NewerStoreError: the schema's number is higher than this program's.
            sqlalchemy.exc.SQLAlchemyError: the database cannot be used.
        """
        if self.is_sqlite:
            self._create_sqlite_file()
        else:
            self._create_mysql_database()
        with self.engine.connect() as connection:
            version = self.schema_version(connection)
            if not self.is_sqlite:
                packet = connection.exec_driver_sql("SELECT @@max_allowed_packet").scalar_one()
                self.row_bytes = packet // _ROW_SHARE
        if version > LATEST:
            raise NewerStoreError(
                f"the accounting database has schema {version}, this slurmdbd knows {LATEST}; "
                "use the newer slurmdbd"
            )
        for number, upgrade in MIGRATIONS:
            if number > version:
                with self.write() as connection:
                    upgrade(connection)
                    self.upsert(
                        connection,
                        schema.store,
                        ("name",),
                        [{"name": "schema_version", "value": str(number)}],
                    )

    def close(self) -> None:
        """Let go of all connections."""
        self.engine.dispose()
        self._limited.dispose()

    @contextlib.contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A transaction that commits at the end and rolls back on any exception."""
        with self.engine.connect() as connection:
            if self.is_sqlite:
                connection = connection.execution_options(pyslurm_write=True)
            with connection.begin():
                if self.term:
                    self._check_term(connection)
                yield connection

    def _check_term(self, connection: sa.Connection) -> None:
        """Refuse to write if another process serves; until the end none can take the term."""
        query = sa.select(schema.store.c.value).where(schema.store.c.name == schema.TERM)
        serving = connection.execute(query.with_for_update(read=True)).scalar()
        if serving != self.term:
            host = str(serving).rpartition(":")[0]
            raise SupersededError(f"slurmdbd on {host} serves the accounting database now")

    @contextlib.contextmanager
    def read(
        self, most_s: float = 0.0, is_wanted: Callable[[], bool] | None = None
    ) -> Iterator[sa.Connection]:
        """A consistent view; nothing is ever written through it.

        Args:
            most_s: a statement that takes longer is ended by the database; 0: none is.
            is_wanted: asked now and then by SQLite; False ends the statement, too.

        Raises:
            sqlalchemy.exc.OperationalError: see `is_cut_short`.
        """
        if not most_s:
            with self.engine.connect() as connection, connection.begin():
                yield connection
            return
        with self._limited.connect() as connection:
            driver: Any = connection.connection.driver_connection
            if self.is_sqlite:
                goes_on = is_wanted or (lambda: True)
                driver.set_progress_handler(lambda: 0 if goes_on() else 1, _SQLITE_STEPS)
            else:
                driver.limit(most_s, is_mariadb=getattr(connection.dialect, "is_mariadb", False))
            try:
                with connection.begin():
                    yield connection
            finally:
                if self.is_sqlite:
                    driver.set_progress_handler(None, 0)

    def upsert(
        self,
        connection: sa.Connection,
        table: sa.Table,
        keys: Sequence[str],
        rows: list[dict[str, Any]],
        usual: frozenset[str] = frozenset(),
    ) -> None:
        """Insert rows, or update all other given columns where `keys` exist already.

        All rows must have the same columns. `keys` must be a primary key or unique constraint.

        Args:
            usual: columns that have their default in all rows, if the caller knows
                (`lengths.fit`).
        """
        if not rows:
            return
        kind = (table.name, tuple(keys), tuple(rows[0]))
        upsert = self._upserts.get(kind)
        if upsert is None:
            upsert = self._upserts[kind] = self._upsert(table, keys, kind[2])
        if upsert.defaults:
            rows = [upsert.defaults | row for row in rows]
        if self.is_sqlite:
            self._insert_marked(connection, upsert, upsert.marked(table, usual), rows)
            return
        for values in written_values(connection, rows, upsert.order):
            text = f"{upsert.head}{values}{upsert.tail}"
            connection.exec_driver_sql(text, execution_options={"no_parameters": True})

    def _insert_marked(
        self,
        connection: sa.Connection,
        upsert: _Upsert,
        marked: tuple[str, tuple[str, ...]],
        rows: list[dict[str, Any]],
    ) -> None:
        """Write rows to SQLite, several by each statement: to begin one takes as long as a row."""
        marks, order = marked
        together = max(1, min(_SQLITE_VALUES // len(order), len(rows)))
        groups = picked(rows, order, together)
        whole = len(rows) // together
        for count, values in ((together, groups[:whole]), (len(rows) % together, groups[whole:])):
            if values:
                all_marks = ", ".join([marks] * count)
                connection.exec_driver_sql(f"{upsert.head}{all_marks}{upsert.tail}", values)

    def _upsert(self, table: sa.Table, keys: Sequence[str], names: tuple[str, ...]) -> _Upsert:
        others = [name for name in names if name not in keys]
        statement: sqlite.Insert | mysql.Insert
        if self.is_sqlite:
            statement = sqlite.insert(table)
            if others:
                statement = statement.on_conflict_do_update(
                    index_elements=[table.c[name] for name in keys],
                    set_={name: statement.excluded[name] for name in others},
                )
            else:
                statement = statement.on_conflict_do_nothing()
        else:
            statement = mysql.insert(table)
            changes = {name: statement.inserted[name] for name in others or keys}
            statement = statement.on_duplicate_key_update(changes)
        compiled = statement.compile(dialect=self.engine.dialect, column_keys=list(names))
        assert isinstance(compiled, SQLCompiler)
        defaults = {column.name: schema.default_of(column) for column in compiled.insert_prefetch}
        text = str(compiled)
        first, last = ("(?", "?)") if self.is_sqlite else ("(%(", ")s)")
        begin, end = text.index(first), text.index(last) + len(last)
        places = _PLACES_OF_VALUES.findall(text[begin:end])
        # The very objects that are keys of rows: kernels find those without a search.
        own = {name: name for name in names}
        inserted = compiled.positiontup or () if self.is_sqlite else places
        order = tuple([own.get(name, name) for name in inserted])
        return _Upsert(text[:begin], text[end:], order, defaults)

    def schema_version(self, connection: sa.Connection) -> int:
        """Return the number of the newest migration that is complete, 0 for an empty database."""
        if not sa.inspect(connection).has_table("store"):
            return 0
        value = connection.execute(
            sa.select(schema.store.c.value).where(schema.store.c.name == "schema_version")
        ).scalar()
        return int(value) if value else 0

    def has_tables_of_slurm(self) -> bool:
        """Return whether Slurm's slurmdbd keeps its records in the same database, or did."""
        with self.engine.connect() as connection:
            return sa.inspect(connection).has_table("table_defs_table")

    def _create_sqlite_file(self) -> None:
        path = self.url.database
        if path and path != ":memory:" and not os.path.exists(path):
            # Accounting holds job names and command lines: only the daemon's user reads it.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))

    def _create_mysql_database(self) -> None:
        server = sa.create_engine(self.url.set(database=""), poolclass=sa.NullPool)
        sa.event.listen(server, "do_connect", self._connect)
        quoted = server.dialect.identifier_preparer.quote_identifier(self.url.database or "")
        with server.connect() as connection:
            # An identifier cannot be a bound parameter; the dialect has quoted it.
            connection.exec_driver_sql(
                f"CREATE DATABASE IF NOT EXISTS {quoted.replace('%', '%%')} "
                "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
            )
        server.dispose()


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    # The driver's own implicit BEGIN is too late for a consistent read; see _begin_sqlite.
    connection.isolation_level = None
    connection.execute("PRAGMA journal_mode=WAL")
    # FULL: after the acknowledgement the controller's journal may drop the batch.
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA cache_size=-16384")


def _begin_sqlite(connection: sa.Connection) -> None:
    options = connection.get_execution_options()
    connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get("pyslurm_write") else "BEGIN")


def mysql_url(
    host: str,
    port: int,
    user: str,
    password: str | None,
    database: str,
    socket: str | None = None,
    tls: Mapping[str, str] | None = None,
) -> sa.URL:
    """The URL of a MySQL or MariaDB server; `localhost` means its Unix socket, as for mysql(1).

    Args:
        tls: files and ciphers of an encrypted connection, by ssl_ca, ssl_capath, ssl_cert,
            ssl_cipher and ssl_key.
    """
    query: dict[str, str] = {"charset": "utf8mb4", **(tls or {})}
    if socket is None and host == "localhost":
        socket = next((path for path in MYSQL_SOCKETS if os.path.exists(path)), None)
    if socket:
        query["unix_socket"] = socket
    return sa.URL.create("mysql+pymysql", user, password, host, port or 3306, database, query=query)


def sqlite_url(path: str) -> sa.URL:
    """Return where a file of SQLite is, as SQLAlchemy wants it."""
    return sa.URL.create("sqlite", database=path)


def is_retryable(error: BaseException) -> bool:
    """Whether the same transaction may succeed later with nothing changed by hand here."""
    if not isinstance(error, sa.exc.DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    original = error.orig
    if isinstance(original, sqlite3.OperationalError):
        text = str(original)
        return any(
            sign in text for sign in ("locked", "full", "readonly", "disk I/O", "unable to open")
        )
    if isinstance(original, sqlite3.Error):
        return False
    return mysql_number(error) in RETRYABLE_MYSQL or isinstance(error, sa.exc.InterfaceError)


def is_cut_short(error: BaseException) -> bool:
    """Whether a statement was ended because it took too long or its client is gone."""
    if not isinstance(error, sa.exc.DBAPIError):
        return False
    if isinstance(error.orig, sqlite3.OperationalError):
        return str(error.orig) == "interrupted"
    return mysql_number(error) in _CUT_SHORT_MYSQL


def mysql_number(error: sa.exc.DBAPIError) -> object:
    """Return the number that MariaDB or MySQL gave an error, None without one."""
    original = error.orig
    return original.args[0] if original is not None and original.args else None


def is_of_one_row(error: BaseException) -> bool:
    """Whether an error may come from what was to be stored, so that the rest can be.

    The others say that the database cannot be used now, whatever is to be stored.
    """
    if not isinstance(error, sa.exc.DBAPIError):
        return isinstance(error, Exception) and not isinstance(error, SupersededError)
    if isinstance(error, (sa.exc.DataError, sa.exc.IntegrityError)):
        return True
    if is_retryable(error):
        return False
    if isinstance(error.orig, sqlite3.Error):
        # What remains: values that cannot be bound. A missing table is an OperationalError.
        return isinstance(error.orig, (sqlite3.InterfaceError, sqlite3.ProgrammingError))
    is_of_all = isinstance(error, sa.exc.ProgrammingError) or mysql_number(error) in WHOLE_MYSQL
    return not is_of_all


def error_text(error: BaseException) -> str:
    """Return what the database said, in one line, without the statement and its values."""
    cause = getattr(error, "orig", None) or error
    return " ".join(str(cause).split())[:500]


def with_retries(
    action: Callable[[], Any],
    pause: Callable[[int], bool],
    on_error: Callable[[BaseException], None],
) -> Any:
    """Run `action` until it succeeds.

    Args:
        action: one whole transaction, safe to repeat.
        pause: waits before attempt n (from 1); returns False to give up (shutting down).
        on_error: told each failure.

    Raises:
        the last error, when it cannot be retried or `pause` says stop.
    """
    attempt = 0
    while True:
        try:
            return action()
        except sa.exc.SQLAlchemyError as error:
            on_error(error)
            attempt += 1
            if not is_retryable(error) or not pause(attempt):
                raise
