"""PyMySQL whose rows a kernel reads and writes: the driver takes 20 us to read one, 100 to write.

Only the packets of rows and columns are read otherwise, and the values are those that the driver
would give.
"""

from __future__ import annotations

import contextlib
import math
import select
import time
from collections.abc import Callable, Iterable
from functools import partial
from io import BufferedReader
from socket import AF_UNIX, SOCK_STREAM, socket
from typing import Any

import sqlalchemy as sa
from pymysql import err
from pymysql.connections import Connection, MySQLResult
from pymysql.constants import CR, SERVER_STATUS
from pymysql.protocol import MysqlPacket

from pyslurm_ng.kernels.records import database_rows, sql_values

_ASK_AFTER_S = 30.0
"""A connection that was used this long ago may have been lost without a word."""
_LIMIT_STEP = 1.25
_ROUNDING = 1e-9
_PIECE_BYTES = 256 << 10
_STATEMENT_BYTES = 1_000_000
_HEAD = 4
_MOST_OF_PACKET = 0xFFFFFF
_UTF8 = "utf8"


class RowConnection(Connection):
    """A connection that reads rows in pieces; all else is the driver's.

    The names below are the driver's own, and no part of what it documents.
    """

    _rfile: BufferedReader
    _sock: socket
    _next_seq_id: int
    _read_timeout: float | None
    _current_timeout: float | None
    _result: MySQLResult | None
    _force_close: Callable[[], None]
    _secure: bool
    _used_s = 0.0
    _limit_s = 0.0

    def connect(self, sock: socket | None = None) -> None:
        """Connect; the driver itself leaves a Unix socket open when its server is not there.

        Raises:
            err.OperationalError: nobody answers.
        """
        if sock is None and self.unix_socket:
            sock = socket(AF_UNIX, SOCK_STREAM)
            sock.settimeout(self.connect_timeout)
            try:
                sock.connect(self.unix_socket)
            except OSError as error:
                sock.close()
                text = f"Can't connect to MySQL server on {self.host!r} ({error})"
                raise err.OperationalError(CR.CR_CONN_HOST_ERROR, text) from error
            self.host_info = "Localhost via UNIX socket"
            self._secure = True
        super().connect(sock)

    def _read_query_result(self, unbuffered: bool = False) -> int:
        if unbuffered:
            return super()._read_query_result(unbuffered)  # type: ignore[misc,no-any-return]
        self._result = None
        result = _Result(self)
        result.read()
        self._result = result
        if result.server_status is not None:
            self.server_status = result.server_status
        return result.affected_rows or 0

    def ping(self, reconnect: Any = False) -> None:
        """Ask whether the server is there; not if the connection has just been used and is quiet.

        A server that ends closes its connections, which are then ready to be read.
        """
        quiet_s = time.monotonic() - self._used_s
        if quiet_s > _ASK_AFTER_S or self._sock is None or self._is_ready():
            super().ping(reconnect)
        self._used_s = time.monotonic()

    def limit(self, most_s: float, *, is_mariadb: bool) -> None:
        """Have the server end statements that take longer; or a fifth less, if that is set."""
        limit_s = _LIMIT_STEP ** math.floor(math.log(most_s, _LIMIT_STEP) + _ROUNDING)
        if limit_s == self._limit_s:
            return
        words = (
            f"SET SESSION max_statement_time={limit_s:.6f}"
            if is_mariadb
            else f"SET SESSION max_execution_time={max(int(limit_s * 1000), 1)}"
        )
        with contextlib.suppress(Exception), contextlib.closing(self.cursor()) as cursor:
            cursor.execute(words)
            self._limit_s = limit_s

    def _is_ready(self) -> bool:
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return bool(poll.poll(0))

    def packet_bytes(self) -> bytes:
        """Return what is in the next packet, which is shorter than a packet may be."""
        head = self._exactly(_HEAD)
        if head[3] != self._next_seq_id:
            self._force_close()
            raise _lost(f" (packet {head[3]} came in place of {self._next_seq_id})")
        self._next_seq_id = (head[3] + 1) % 256
        return self._exactly(int.from_bytes(head[:3], "little"))

    def _exactly(self, count: int) -> bytes:
        try:
            data = self._rfile.read(count)
        except OSError as error:
            self._force_close()
            raise _lost(f" ({error})") from error
        if len(data) < count:
            self._force_close()
            raise _lost("")
        return data

    def wait_as_long_as_allowed(self) -> None:
        """Set the time that the driver lets an answer take."""
        if self._current_timeout != self._read_timeout:
            self._sock.settimeout(self._read_timeout)
            self._current_timeout = self._read_timeout

    def read_piece(self, least: int) -> bytes:
        """Return what has come, at least so many bytes."""
        try:
            piece = self._rfile.read1(_PIECE_BYTES)
            if len(piece) < least:
                piece += self._rfile.read(least - len(piece))
        except OSError as error:
            self._force_close()
            raise _lost(f" ({error})") from error
        if len(piece) < least:
            self._force_close()
            raise _lost("")
        return piece


def written_values(
    connection: sa.Connection, rows: Iterable[dict[str, Any]], names: tuple[str, ...]
) -> list[str]:
    """Return rows as `(value,...),...`, in texts of a megabyte, as the driver would escape them."""
    driver: Any = connection.connection.driver_connection
    plain = driver.server_status & SERVER_STATUS.SERVER_STATUS_NO_BACKSLASH_ESCAPES
    return sql_values(rows, names, _STATEMENT_BYTES, not plain)


def _lost(why: str) -> err.OperationalError:
    text = f"Lost connection to MySQL server during query{why}"
    return err.OperationalError(CR.CR_SERVER_LOST, text)


_COLUMNS: dict[Any, tuple[list[Any], list[Any], Any]] = {}
"""What the driver made of the packets that describe columns: 25 us of work for each column."""
_MOST_COLUMNS = 500


class _Replay:
    """Gives the driver packets again that have been read already."""

    def __init__(self, connection: RowConnection, packets: tuple[bytes, ...]) -> None:
        self.encoding = connection.encoding
        self.use_unicode = connection.use_unicode
        self.decoders = connection.decoders
        self._packets = iter(packets)

    def _read_packet(self, kind: type[MysqlPacket] = MysqlPacket) -> MysqlPacket:
        return kind(next(self._packets), self.encoding)


class _Result(MySQLResult):
    """The answer to one statement."""

    connection: RowConnection | None
    field_count: int
    fields: list[Any]
    description: Any
    converters: list[tuple[str | None, Callable[[Any], Any] | None]]
    _check_packet_is_eof: Callable[[MysqlPacket], bool]
    _read_row_from_packet: Callable[[MysqlPacket], tuple[Any, ...]]

    def _get_descriptions(self) -> None:
        """Read what the columns are; most answers have the same as one before."""
        connection = self.connection
        assert connection is not None
        connection.wait_as_long_as_allowed()
        packets = tuple([connection.packet_bytes() for _ in range(self.field_count + 1)])
        last = MysqlPacket(packets[-1], connection.encoding)
        if not last.is_eof_packet():
            connection._force_close()
            raise _lost(" (the columns do not end)")
        kind = (connection.encoding, packets[:-1])
        known = _COLUMNS.get(kind)
        if known is None:
            if len(_COLUMNS) >= _MOST_COLUMNS:
                _COLUMNS.clear()
            self.connection = _Replay(connection, packets)  # type: ignore[assignment]
            try:
                super()._get_descriptions()  # type: ignore[misc]
            finally:
                self.connection = connection
            known = _COLUMNS[kind] = (self.fields, self.converters, self.description)
        self.fields, self.converters, self.description = known

    def _read_rowdata_packet(self) -> None:
        connection, self.connection = self.connection, None
        assert connection is not None
        try:
            rows = self._rows_of(connection)
        except ValueError as error:
            connection._force_close()
            raise err.InternalError(str(error)) from error
        self.affected_rows = len(rows)
        self.rows = tuple(rows)

    def _rows_of(self, connection: RowConnection) -> list[tuple[Any, ...]]:
        connection.wait_as_long_as_allowed()
        kinds = tuple(_kind(*converter) for converter in self.converters)
        rows: list[tuple[Any, ...]] = []
        data = b""
        while True:
            used, connection._next_seq_id = database_rows(
                data, connection._next_seq_id, kinds, rows
            )
            data = data[used:]
            missing = _missing(data)
            if missing:
                data += connection.read_piece(missing)
                continue
            packet, data = _first_packet(connection, data)
            if packet.is_error_packet():
                packet.raise_for_error()
            if self._check_packet_is_eof(packet):
                return rows
            rows.append(self._read_row_from_packet(packet))  # of more bytes than a packet may have


def _missing(data: bytes) -> int:
    """Return how many bytes there have to be at least before it can go on; 0 for none."""
    if len(data) < _HEAD:
        return _HEAD - len(data)
    return max(_HEAD + int.from_bytes(data[:3], "little") - len(data), 0)


def _first_packet(connection: RowConnection, data: bytes) -> tuple[MysqlPacket, bytes]:
    """Return the first packet, put together if it came in several, and what follows it."""
    parts = []
    while True:
        missing = _missing(data)
        if missing:
            data += connection.read_piece(missing)
            continue
        size = int.from_bytes(data[:3], "little")
        if data[3] != connection._next_seq_id and not (data[3] == 0 and data[4:5] == b"\xff"):
            raise ValueError(f"packet {data[3]} came in place of {connection._next_seq_id}")
        connection._next_seq_id = (data[3] + 1) % 256
        parts.append(data[_HEAD : _HEAD + size])
        data = data[_HEAD + size :]
        if size < _MOST_OF_PACKET:
            break
    whole = b"".join(parts)
    if not whole:
        raise ValueError("packet is empty")
    return MysqlPacket(whole, connection.encoding), data


def _kind(encoding: str | None, converter: Callable[[Any], Any] | None) -> Callable[[bytes], Any]:
    """Return what makes a value of the bytes of a column."""
    if encoding is None:
        return bytes if converter is None else converter
    if converter is None and encoding == _UTF8:
        return str
    if converter is int:
        return int
    return partial(_decoded, encoding, converter)


def _decoded(encoding: str, converter: Callable[[Any], Any] | None, data: bytes) -> Any:
    text = data.decode(encoding)
    return text if converter is None else converter(text)
