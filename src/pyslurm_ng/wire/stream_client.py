"""One daemon asks another over a stream: slurmctld asks slurmdbd, slurmd asks another node.

Unlike a command, a daemon signs with its own identity (its role, not a uid) and runs on a loop. It
believes no answer without a proof. Any user may listen at the port of a daemon that is away, and
slurmdbd tells slurmctld who the administrators are.
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
from pyslurm_ng.wire.auth import AuthError, body_digest, check_answer
from pyslurm_ng.wire.frame import BadFrame
from pyslurm_ng.wire.identity import Identity
from pyslurm_ng.wire.messages import ErrorReply, Ping
from pyslurm_ng.wire.table import MessageError

MAX_OUTSTANDING = 1024
_PROVEN_S = 10.0
_SAID_BEFORE_PROOF = frozenset(
    (
        Errno.SLURM_PROTOCOL_AUTHENTICATION_ERROR,
        Errno.SLURM_PROTOCOL_VERSION_ERROR,
        Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF,
    )
)
"""Why a daemon lets nobody in. It knows no sender then, so it cannot prove to him whose it is."""


class LinkError(Exception):
    """A request failed; `code` is Slurm's error number, `text` one line."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class NotAdmitted(LinkError):
    """Something answers, but it lets us not in, or it is not the daemon."""


@dataclass(slots=True)
class _Waiting:
    future: asyncio.Future[msgspec.Struct]
    on_part: Callable[[msgspec.Struct], None] | None
    credential: bytes  # of the request


class StreamLink(asyncio.Protocol):
    """A connection to another daemon's `StreamServer`; make it with `connect_link`."""

    def __init__(self, identity: Identity, audience: str, address: str) -> None:
        """`address` is for messages."""
        self._identity = identity
        self._audience = audience
        self._address = address
        self._transport: asyncio.Transport | None = None
        self._parser = frame.Parser(_admit, self._take)
        self._waiting: dict[int, _Waiting] = {}
        self._sequence = 0
        self._is_proven = identity.peer.role == "user"  # answers to users have no proof
        self._wants_proof = not self._is_proven
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
        self._waiting[sequence] = _Waiting(future, on_part, credential)
        self._transport.write(frame.pack_frame(kind, sequence, body, 0, credential))
        # Not `wait_for`: before Python 3.12 it swallows a cancellation that comes with the answer.
        timer = asyncio.get_running_loop().call_later(deadline_s, _too_late, future)
        try:
            return await future
        finally:
            timer.cancel()
            self._waiting.pop(sequence, None)

    async def prove(self) -> None:
        """Let the other end prove that it is the daemon: nothing else is sent before.

        Raises:
            NotAdmitted: it does not.
        """
        if self._is_proven:
            return
        try:
            await self.request(Ping(), _PROVEN_S)
        except LinkError as error:
            if not self._is_proven:
                raise NotAdmitted(error.code, error.text) from None

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

    def _take(self, kind: str, flags: int, sequence: int, proof: object, body: bytes) -> None:
        answer = table.decode_reply(kind, body)
        if sequence == 0 and isinstance(answer, ErrorReply):
            # The connection itself was refused.
            self._fail_all(self._refusal(answer))
            return
        waiting = self._waiting.get(sequence)
        if waiting is None or waiting.future.done():
            return
        assert isinstance(proof, bytes)
        if self._wants_proof and not (isinstance(answer, ErrorReply) and not proof):
            try:
                check_answer(
                    self._identity.authenticator, self._audience, waiting.credential, kind, proof,
                    body,
                )  # fmt: skip
            except AuthError as error:
                text = f"what answers at {self._address} is not {self._audience}: {error}"
                code = Errno.SLURM_PROTOCOL_AUTHENTICATION_ERROR
                self._fail_all(LinkError(code, text))
                self.close()
                return
            self._is_proven = True
        if flags & frame.FLAG_MORE:
            if waiting.on_part is not None:
                waiting.on_part(answer)
        elif isinstance(answer, ErrorReply):
            waiting.future.set_exception(self._refusal(answer))
        else:
            waiting.future.set_result(answer)

    def _fail_all(self, error: LinkError) -> None:
        for request in self._waiting.values():
            if not request.future.done():
                request.future.set_exception(error)

    def _refusal(self, answer: ErrorReply) -> LinkError:
        """Return what a refusal means: a stranger's number must not speak against a request."""
        is_believed = self._is_proven or answer.code in _SAID_BEFORE_PROOF
        code = answer.code if is_believed else int(Errno.SLURM_COMMUNICATIONS_CONNECTION_ERROR)
        return LinkError(code, answer.text)


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
    return bytes(credential)


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
        LinkError: nothing answers there, or what answers is not that daemon.
    """
    loop = asyncio.get_running_loop()
    address = path or f"{host}:{port}"

    def make() -> StreamLink:
        return StreamLink(identity, audience, address)

    try:
        if path is not None:
            connection = connect_unix(path)
            _, link = await loop.create_unix_connection(make, sock=connection)
        else:
            _, link = await asyncio.wait_for(loop.create_connection(make, host, port), timeout_s)
    except (OSError, asyncio.TimeoutError) as error:
        reason = getattr(error, "strerror", None) or "timed out"
        raise LinkError(
            Errno.SLURM_COMMUNICATIONS_CONNECTION_ERROR, f"{address}: {reason}"
        ) from None
    try:
        await link.prove()
    except BaseException:
        link.close()
        raise
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
        NotAdmitted: one does, but we are not let in.
        LinkError: none does; with the reason of each network address.
    """
    failures = []
    refusal: NotAdmitted | None = None
    for address, port in places:
        path = None if port else address
        try:
            return await connect_link(identity, audience, path=path, host=address, port=port)
        except NotAdmitted as error:
            refusal = refusal or error
        except LinkError as error:
            if port:
                failures.append(error)
    if refusal is not None:
        raise refusal
    raise LinkError(failures[0].code, "; ".join(error.text for error in failures))
