"""Rows of MariaDB that a kernel reads are those that PyMySQL itself would give."""

from __future__ import annotations

import struct
from typing import Any

import pymysql
import pytest
from hypothesis import given, strategies as st
from pymysql.connections import Connection

from pyslurm_ng.dbd.database_rows import RowConnection
from pyslurm_ng.kernels.records import database_rows

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
