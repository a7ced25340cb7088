"""Rows of MariaDB that a kernel reads are those that PyMySQL itself would give."""

from __future__ import annotations

import gc
import struct
import warnings
from pathlib import Path
from typing import Any

import pymysql
import pytest
import sqlalchemy as sa
from hypothesis import given, strategies as st
from pymysql.connections import Connection
from pymysql.constants import SERVER_STATUS

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database_rows import RowConnection
from pyslurm_ng.kernels.records import database_rows, sql_values
from tests.dbd.mariadb import SharedStore

VALUES = (
    "SELECT 0, -1, 9223372036854775807, -9223372036854775808, 18446744073709551615, 1.25, 2e0, "
    "NULL, '', 'a \"quoted\" name', 'tab\\tline\\nend\\\\', '日本語 🚀', x'00ff10', "
    "DATE '2026-11-28', TIMESTAMP '2026-11-28 01:02:03', TIME '11:12:13', SUM(3), COUNT(*), "
    "CAST(7 AS UNSIGNED), REPEAT('x', 250), REPEAT('y', 251), REPEAT('z', 65536)"
)


@pytest.fixture
def connections(mariadb_socket: str) -> tuple[Connection, Connection]:
    """Ours, and one as the driver makes it."""
    words: dict[str, Any] = {
        "unix_socket": mariadb_socket,
        "user": "root",
        "charset": "utf8mb4",
    }
    return RowConnection(**words), pymysql.connect(**words)


def rows(connection: Connection, statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def test_values_of_all_kinds_are_the_drivers(
    connections: tuple[Connection, Connection],
) -> None:
    """Statements see no difference, whatever they ask for."""
    ours, plain = connections
    for statement in (VALUES, f"{VALUES} UNION ALL {VALUES}", f"{VALUES} LIMIT 0", "SET @a = 1"):
        got, expected = rows(ours, statement), rows(plain, statement)
        assert got == expected
        assert [list(map(type, row)) for row in got] == [list(map(type, row)) for row in expected]


def test_many_and_long_rows_come_whole(
    connections: tuple[Connection, Connection],
) -> None:
    """They come in pieces that end anywhere; a row may take several packets of 16 MB."""
    ours, plain = connections
    rows(plain, "SET GLOBAL max_allowed_packet = 67108864")
    many = "SELECT seq, CONCAT('name-', seq), REPEAT('x', seq % 300) FROM mysql.seq_1_to_20000"
    assert rows(ours, many) == rows(plain, many)
    ours.close()
    ours.connect()  # the bound of a packet is that of the begin of a connection
    lengths = (1, 300_000, 16_777_209, 16_777_210, 1)
    long = " UNION ALL ".join(f"SELECT REPEAT('x', {length}), 7" for length in lengths)
    assert [(len(text), number) for text, number in rows(ours, long)] == [
        (length, 7) for length in lengths
    ]
    assert rows(ours, "SELECT 1") == ((1,),), "nothing is left over"


def test_an_error_between_rows_is_the_databases(
    connections: tuple[Connection, Connection],
) -> None:
    """A statement that takes too long is ended after some of its rows have come."""
    ours, _ = connections
    rows(ours, "SET SESSION max_statement_time = 0.2")
    with pytest.raises(pymysql.err.OperationalError, match="max_statement_time"):
        rows(ours, "SELECT seq, SLEEP(seq > 5000) FROM mysql.seq_1_to_9999")
    rows(ours, "SET SESSION max_statement_time = 0")
    assert rows(ours, "SELECT 1") == ((1,),)


def packet(number: int, values: list[bytes | None]) -> bytes:
    """Return a row as the protocol has it."""
    body = b""
    for value in values:
        if value is None:
            body += b"\xfb"
        elif len(value) < 251:
            body += bytes([len(value)]) + value
        else:
            body += b"\xfc" + struct.pack("<H", len(value)) + value
    return struct.pack("<I", len(body))[:3] + bytes([number % 256]) + body


VALUE = st.none() | st.integers().map(lambda number: str(number).encode())


@given(st.lists(st.lists(VALUE, min_size=3, max_size=3), max_size=300), st.data())
def test_rows_are_cut_anywhere(values: list[list[bytes | None]], data: st.DataObject) -> None:
    """What is not there to its end stays for the next piece."""
    blob = b"".join(packet(number, row) for number, row in enumerate(values))
    first = data.draw(st.integers(0, len(blob)))
    got: list[Any] = []
    used, number = database_rows(blob[:first], 0, (int, str, bytes), got)
    used_then, number = database_rows(blob[used:], number, (int, str, bytes), got)
    assert used + used_then == len(blob) and number == len(values) % 256
    assert got == [
        tuple(
            None if value is None else kind(value) if kind is not str else value.decode()
            for kind, value in zip((int, str, bytes), row, strict=True)
        )
        for row in values
    ]


@pytest.mark.parametrize(
    "blob",
    [
        packet(1, [b"1"]),  # its number is not 0
        packet(0, [b"1", b"2"]),
        packet(0, []) + b"",
        b"\x03\x00\x00\x00\x05ab",
        b"\x02\x00\x00\x00\xfc\x01",
        b"\x09\x00\x00\x00\xfe" + b"\xff" * 8,
        packet(0, [b"no number"]),
        packet(0, [b""]),
        packet(0, [b"-"]),
    ],
)
def test_what_is_no_row_is_refused(blob: bytes) -> None:
    """It is never read beyond its end."""
    got: list[Any] = []
    try:
        used, _ = database_rows(blob, 0, (int,), got)
    except ValueError:
        used = 0
    assert used == 0 and got == []


@given(st.binary(max_size=64))
def test_any_bytes_do_no_harm(blob: bytes) -> None:
    """Rows or a ValueError come of them."""
    got: list[Any] = []
    try:
        used, _ = database_rows(blob, 0, (int, str), got)
    except ValueError:
        return
    assert used <= len(blob)


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "a": st.integers(-(2**63), 2**63 - 1) | st.none(),
            "b": st.text(st.characters(codec="utf-8")),
            "c": st.text(st.sampled_from("'\\\"\0\n\r\x1a%{}é🚀"), max_size=8),
        }
    ),
    min_size=1,
    max_size=20,
)
KEYS = ("c", "a", "b")


@given(ROWS, st.booleans(), st.integers(1, 200))
def test_values_are_escaped_as_the_driver_does(
    written: list[dict[str, Any]], backslashes: bool, most: int
) -> None:
    """No text ends its quotes, in either mode of the server; each piece has whole rows."""
    driver = Connection(defer_connect=True, charset="utf8mb4")
    plain = SERVER_STATUS.SERVER_STATUS_NO_BACKSLASH_ESCAPES
    vars(driver)["server_status"] = 0 if backslashes else plain
    expected = [f"({','.join(driver.escape(row[name]) for name in KEYS)})" for row in written]
    pieces = sql_values(written, KEYS, most, backslashes)
    assert ",".join(pieces) == ",".join(expected)
    for piece in pieces:
        assert piece in expected or len(piece.encode()) <= most


def test_other_values_are_refused() -> None:
    """What is neither a number nor a text has no literal."""
    with pytest.raises(TypeError, match="a is neither a text nor an integer"):
        sql_values([{"a": 1.5}], ("a",), 100, True)
    with pytest.raises(KeyError):
        sql_values([{"a": 1}], ("b",), 100, True)
    with pytest.raises(ValueError, match="no column"):
        sql_values([{}], (), 100, True)


@pytest.mark.parametrize("mode", ["", "NO_BACKSLASH_ESCAPES"])
def test_what_is_written_is_read_again(mariadb_store: SharedStore, mode: str) -> None:
    """Whatever is in the texts of users, with each mode that a site may set."""
    database = mariadb_store.open()
    texts = [
        "'); DROP TABLE texts; --",
        "\\' OR 1=1",
        "100 % %s %(a)s",
        "日本語 🚀\0\x1a",
        '"\n\r\t',
    ]
    rows = [{"hash": f"h{number}", "text": text, "last_used_us": number}
            for number, text in enumerate(texts)]  # fmt: skip
    with database.engine.connect() as connection:
        connection.exec_driver_sql(f"SET SESSION sql_mode = '{mode}'")
        for _ in range(2):
            database.upsert(connection, schema.texts, ("hash",), rows)
        query = sa.select(schema.texts.c.hash, schema.texts.c.text)
        stored = {row.hash: row.text for row in connection.execute(query)}
        connection.invalidate()
    database.close()
    assert [stored[row["hash"]] for row in rows] == texts


def test_columns_of_a_kind_seen_before_are_those_of_the_answer(
    connections: tuple[Connection, Connection],
) -> None:
    """What describes them is kept; two answers that differ in one column are not mixed up."""
    for statement in (
        "SELECT 1 AS a, 'x' AS b",
        "SELECT 1 AS a, 'x' AS c",
        "SELECT 1 AS a, x'00' AS b",
        "SELECT 1 AS a, 'x' AS b",
    ):
        described = []
        for connection in connections:
            with connection.cursor() as cursor:
                cursor.execute(statement)
                described.append((cursor.description, cursor.fetchall()))
        assert described[0] == described[1]


def test_a_connection_that_the_server_has_closed_is_noticed_at_once(
    mariadb_socket: str, connections: tuple[Connection, Connection]
) -> None:
    """The pool asks before each use; only a quiet connection is taken to be alive unasked."""
    ours, plain = connections
    ours.ping()
    sent = count_of_commands(plain)
    ours.ping(False)
    assert count_of_commands(plain) == sent
    rows(plain, f"KILL {ours.thread_id()}")
    with pytest.raises(pymysql.err.Error):
        ours.ping(False)


def count_of_commands(connection: Connection) -> int:
    ((_, count),) = rows(connection, "SHOW GLOBAL STATUS LIKE 'Com_admin_commands'")
    return int(count)


def test_no_socket_is_left_open_where_no_server_listens(tmp_path: Path) -> None:
    """slurmdbd tries again for as long as its database is away."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(3):
            with pytest.raises(pymysql.err.OperationalError, match="Can't connect") as caught:
                RowConnection(unix_socket=str(tmp_path / "none"))
            assert caught.value.args[0] == 2003
        del caught
        gc.collect()
    assert said == []
