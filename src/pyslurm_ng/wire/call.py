"""One request that came over a stream, and the ways to answer it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from pyslurm_ng.wire import auth, frame, table
from pyslurm_ng.wire.admissions import refusal_code
from pyslurm_ng.wire.auth import Admission, AuthError
from pyslurm_ng.wire.list_pages import ListPages
from pyslurm_ng.wire.messages import Done, ErrorReply
from pyslurm_ng.wire.rate_limit import RateLimit
from pyslurm_ng.wire.shares import CALL_BYTES, Holder
from pyslurm_ng.wire.table import MessageError


class Sender(Protocol):
    """The connection that a call came over, as far as its answers need it.

    Attributes:
        address: the peer's IP address, "" on a Unix socket.
        holder: the share that new calls count against.
        is_closed: nothing is sent after this.
        pages: where the list goes on that was answered last.
    """

    address: str
    holder: Holder
    is_closed: bool
    pages: ListPages

    @property
    def unsent_bytes(self) -> int:
        """What the peer has not taken yet."""

    def awaits(self, call: Call) -> bool:
        """Return whether this call still has no final answer."""

    def send(self, call: Call, head: bytes, body: bytes) -> None:
        """Queue a frame for the client of a call that is not answered yet."""

    def answer(self, call: Call, kind: str, body: bytes, flags: int) -> None:
        """Queue the final answer of a call."""


class Call:
    """One request that waits for its answer.

    It is answered exactly once with `reply` or `error`, after any number of `part`s. Answers to a
    connection that has gone are dropped.

    Attributes:
        holder: the user or group whose share it is charged to.
        request: the decoded request, once the call's turn has come.
        body_bytes: length of the request's body.
        held_bytes: what the request takes of its holder's share until it is answered.
        stays_open: it is answered when an allocation or step ends, and counted as such.
    """

    __slots__ = (
        "_admission", "_body", "_on_gone", "_sender", "body_bytes", "held_bytes", "holder", "kind",
        "peer", "request", "sequence", "stays_open",
    )  # fmt: skip

    def __init__(
        self, sender: Sender, kind: str, sequence: int, admission: Admission, body: bytes
    ) -> None:
        self._sender = sender
        self._on_gone: Callable[[], None] | None = None
        self._admission = admission
        self._body = body
        self.kind = kind
        self.sequence = sequence
        self.peer = admission.peer
        self.holder = sender.holder
        self.request: msgspec.Struct = _NO_REQUEST
        self.body_bytes = len(body)
        self.held_bytes = len(body) + CALL_BYTES
        self.stays_open = False

    def read(self) -> None:
        """Check the body against its credential and decode it; thread-safe.

        Raises:
            AuthError, MessageError: it does not match its credential or its schema.
        """
        body, self._body = self._body, b""
        auth.check_digest(self._admission, self.kind, body)
        self.request = table.decode_request(self.kind, body)

    def is_over(self, limit: RateLimit) -> bool:
        """Return whether its user has to wait; the next page of a list counts for nobody."""
        pages = self._sender.pages
        return not (
            limit.words is None
            or pages.goes_on(self.kind, self._body)
            or limit.may_ask(self.holder.lane, self.kind)
        )

    @property
    def address(self) -> str:
        """The sender's network address, "" for one that came over a Unix socket."""
        return self._sender.address

    def reply(self, answer: msgspec.Struct | dict[str, Any] | bytes) -> None:
        """Send the final answer; bytes are a ready msgpack map."""
        kind, body = _answer(answer)
        self._sender.answer(self, kind, body, frame.FLAG_REPLY)

    def prepared(self, answer: msgspec.Struct | bytes) -> Callable[[], None]:
        """Return what sends the final answer later; until then its sender is charged for it."""
        kind, body = _answer(answer)
        if not isinstance(answer, bytes):
            self._sender.pages.answered(answer)
        holder, size = self.holder, len(body)
        holder.unread_bytes += size

        def send() -> None:
            holder.unread_bytes -= size
            self._sender.answer(self, kind, body, frame.FLAG_REPLY)

        return send

    def part(self, answer: msgspec.Struct | dict[str, Any] | bytes) -> None:
        """Send an answer that others follow (allocation notices, followers)."""
        kind, body = _answer(answer)
        self._sender.send(self, self.head(kind, body, _NOT_LAST), body)

    def head(self, kind: str, body: bytes, flags: int) -> bytes:
        """Return what stands before the body of an answer; to daemons with a proof whose it is."""
        proves = self._admission.proves
        proof = b"" if proves is None else proves(kind, body)
        return frame.pack_head(kind, self.sequence, flags, len(proof), len(body)) + proof

    def say_at_work(self) -> None:
        """Tell the client that the daemon lives and has its requests, unless it reads slowly."""
        if not self._sender.unsent_bytes:
            # Under no request's sequence: clients that do not know of it take no notice.
            self._sender.send(self, _AT_WORK, _NOTHING)

    def error(self, code: int, text: str) -> None:
        """Send the final answer: refused, with Slurm's number and one line of text."""
        body = table.encode(ErrorReply(code, text))
        self._sender.answer(self, "ErrorReply", body, frame.FLAG_REPLY | frame.FLAG_ERROR)

    def refuse(self, error: AuthError | MessageError) -> None:
        """Answer that the request itself is wrong."""
        self.error(refusal_code(error), error.text)

    def on_gone(self, callback: Callable[[], None]) -> None:
        """Call back once if the connection ends before the final answer."""
        self._on_gone = callback

    def gone(self) -> None:
        """Call the function given to `on_gone`: the connection has ended."""
        callback, self._on_gone = self._on_gone, None
        if callback is not None:
            callback()

    def forget(self) -> None:
        """Forget the function that waits for the connection's end."""
        self._on_gone = None

    def is_beside(self, other: Call) -> bool:
        """Return whether another call came over the same connection."""
        return self._sender is other._sender

    @property
    def is_answered(self) -> bool:
        """Whether the final answer was given, or the client no longer waits for it."""
        return not self._sender.awaits(self)

    @property
    def is_gone(self) -> bool:
        """Whether the connection has ended."""
        return self._sender.is_closed

    @property
    def unsent_bytes(self) -> int:
        """What the peer has not taken yet; senders of many parts wait while this is large."""
        return self._sender.unsent_bytes


_NO_REQUEST = ErrorReply(0, "")
_NOT_LAST = frame.FLAG_REPLY | frame.FLAG_MORE
_NOTHING = table.encode(Done())
_AT_WORK = frame.pack_head("Done", frame.ABOUT_CONNECTION, _NOT_LAST, 0, len(_NOTHING))


def _answer(answer: msgspec.Struct | dict[str, Any] | bytes) -> tuple[str, bytes]:
    if isinstance(answer, bytes):
        return "Reply", answer
    if isinstance(answer, dict):
        return "Reply", msgspec.msgpack.encode(answer)
    return table.kind_of(answer), table.encode(answer)
