"""One daemon asks another over a stream: slurmctld asks slurmdbd, slurmd asks another node.

Unlike a command, a daemon signs with its own identity (its role, not a uid) and runs on a loop.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.wire import frame, table
from pyslurm_ng.wire.auth import body_digest
from pyslurm_ng.wire.frame import BadFrame
from pyslurm_ng.wire.identity import Identity
from pyslurm_ng.wire.messages import ErrorReply
from pyslurm_ng.wire.table import MessageError

MAX_OUTSTANDING = 1024


class LinkError(Exception):
    """A request failed; `code` is Slurm's error number, `text` one line."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


@dataclass(slots=True)
class _Waiting:
    future: asyncio.Future[msgspec.Struct]
    on_part: Callable[[msgspec.Struct], None] | None


class StreamLink(asyncio.Protocol):
    """A connection to another daemon's `StreamServer`; make it with `connect_link`."""

    def __init__(self, identity: Identity, audience: str) -> None:
        self._identity = identity
        self._audience = audience
        self._transport: asyncio.Transport | None = None
        self._parser = frame.Parser(_admit, self._take)
        self._waiting: dict[int, _Waiting] = {}
        self._sequence = 0
        self._can_write = asyncio.Event()
        self._can_write.set()
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def request(
        self,
        message: msgspec.Struct,
        deadline_s: float,
        on_part: Callable[[msgspec.Struct], None] | None = None,
    ) -> msgspec.Struct:
        """Send a request and return its final answer; many may be outstanding.

        Args:
            deadline_s: for the final answer.
            on_part: called with each answer before the final one.

        Raises:
            LinkError: refused, lost or too late.
        """
        await self._can_write.wait()
        if self._transport is None or self.lost.done():
            raise LinkError(
                Errno.SLURM_COMMUNICATIONS_SHUTDOWN_ERROR, "Communication shutdown failure"
            )
        if len(self._waiting) >= MAX_OUTSTANDING:
            text = "Message send failure: too many requests outstanding"
            raise LinkError(Errno.SLURM_COMMUNICATIONS_SEND_ERROR, text)
        kind, body = table.kind_of(message), table.encode(message)
        credential = self._identity.authenticator.issue(
            self._identity.peer, self._audience, kind, body_digest(body)
        )
        self._sequence += 1
        sequence = self._sequence
        future: asyncio.Future[msgspec.Struct] = asyncio.get_running_loop().create_future()
        self._waiting[sequence] = _Waiting(future, on_part)
        self._transport.write(frame.pack_frame(kind, sequence, body, 0, credential))
        # Not `wait_for`: before Python 3.12 it swallows a cancellation that comes with the answer.
        timer = asyncio.get_running_loop().call_later(deadline_s, _too_late, future)
        try:
            return await future
        finally:
            timer.cancel()
            self._waiting.pop(sequence, None)

    def close(self) -> None:
        """End the connection; waiting requests fail."""
        if self._transport is not None:
            self._transport.abort()

    # -- asyncio.Protocol ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._can_write.set()
        if not self.lost.done():
            self.lost.set_result(None)
        waiting, self._waiting = self._waiting, {}
        for request in waiting.values():
            if not request.future.done():
                request.future.set_exception(
                    LinkError(Errno.SLURM_COMMUNICATIONS_RECEIVE_ERROR, "Message receive failure")
                )

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed(data)
        except (BadFrame, MessageError):
            # Our daemons never send this; nothing after it can be trusted.
            self.close()

    def _take(self, kind: str, flags: int, sequence: int, _: object, body: bytes) -> None:
        answer = table.decode_reply(kind, body)
        if sequence == 0 and isinstance(answer, ErrorReply):
            # The connection itself was refused.
            for request in self._waiting.values():
                if not request.future.done():
                    request.future.set_exception(LinkError(answer.code, answer.text))
            return
        waiting = self._waiting.get(sequence)
        if waiting is None or waiting.future.done():
            return
        if flags & frame.FLAG_MORE:
            if waiting.on_part is not None:
                waiting.on_part(answer)
        elif isinstance(answer, ErrorReply):
            waiting.future.set_exception(LinkError(answer.code, answer.text))
        else:
            waiting.future.set_result(answer)


def _too_late(future: asyncio.Future[msgspec.Struct]) -> None:
    if not future.done():
        future.set_exception(
            LinkError(
                Errno.SLURM_PROTOCOL_SOCKET_IMPL_TIMEOUT, "Socket timed out on send/recv operation"
            )
        )


def _admit(kind: str, flags: int, sequence: int, credential: bytes, body_bytes: int) -> object:
    row = table.find_row(kind)
    if row is None or not row.is_reply or not flags & frame.FLAG_REPLY:
        raise BadFrame("unknown_kind", f"unexpected message {kind}", sequence)
    if body_bytes > row.max_bytes:
        raise BadFrame("too_long", f"{kind}: {body_bytes} bytes", sequence)
    return row


async def connect_link(
    identity: Identity,
    audience: str,
    *,
    path: str | None = None,
    host: str = "",
    port: int = 0,
    timeout_s: float = 10.0,
) -> StreamLink:
    """Connect to a daemon's stream server, by Unix socket path or host and port.

    Raises:
        LinkError: nothing answers there.
    """
    loop = asyncio.get_running_loop()

    def make() -> StreamLink:
        return StreamLink(identity, audience)

    try:
        if path is not None:
            connection = connect_unix(path)
            _, link = await loop.create_unix_connection(make, sock=connection)
        else:
            _, link = await asyncio.wait_for(loop.create_connection(make, host, port), timeout_s)
    except (OSError, asyncio.TimeoutError) as error:
        where = path or f"{host}:{port}"
        reason = getattr(error, "strerror", None) or "timed out"
        raise LinkError(Errno.SLURM_COMMUNICATIONS_CONNECTION_ERROR, f"{where}: {reason}") from None
    return link


def connect_unix(path: str) -> socket.socket:
    """Return a connected Unix socket; the path may be longer than an address."""
    directory, name = os.path.split(path)
    folder = os.open(directory or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setblocking(False)
    try:
        connection.connect(f"/proc/self/fd/{folder}/{name}")
    except OSError:
        connection.close()
        raise
    finally:
        os.close(folder)
    return connection


async def connect_first(
    identity: Identity, audience: str, places: Sequence[tuple[str, int]]
) -> StreamLink:
    """Connect to the first place that answers: (path, 0) of a Unix socket, or (host, port).

    Raises:
        LinkError: none does; with the reason of each network address.
    """
    failures = []
    for address, port in places:
        path = None if port else address
        try:
            return await connect_link(identity, audience, path=path, host=address, port=port)
        except LinkError as error:
            if port:
                failures.append(error)
    raise LinkError(failures[0].code, "; ".join(error.text for error in failures))
