"""Requests to other daemons that wait for their replies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.error_texts import error_text
from pyslurm_ng.wire.messages import ErrorReply

RETRY_S = 0.1


class PeerGone(Exception):
    """There is no connection to this peer now."""


class PeerBusy(Exception):
    """The peer's queue is full; try later."""


class RequestFailed(Exception):
    """A request had no answer in time (`code` 5004) or was refused (Slurm's error number)."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


Done = Callable[[msgspec.Struct | RequestFailed], None]


class Post(Protocol):
    """The type of a function that sends a message to a daemon."""

    def __call__(self, peer: str, message: msgspec.Struct, sequence: int) -> None:
        """Send it; raise PeerGone or PeerBusy if it was not sent."""


@dataclass(slots=True)
class _Request:
    """A request that waits for its reply."""

    peer: str
    message: msgspec.Struct
    done: Done
    give_up_s: float
    timer: asyncio.TimerHandle | None = None


class OpenRequests:
    """Requests by the sequence that their replies carry; each ends in time, one way or another."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, post: Post, is_dialled: Callable[[str], bool]
    ) -> None:
        """Send by `post`; requests to a dialled peer that is away are tried again."""
        self._loop = loop
        self._post = post
        self._is_dialled = is_dialled
        self._requests: dict[int, _Request] = {}

    def __len__(self) -> int:
        return len(self._requests)

    def begin(
        self, sequence: int, peer: str, message: msgspec.Struct, deadline_s: float, done: Done
    ) -> None:
        """Send a request and call `done` once, with the reply or a `RequestFailed`."""
        give_up_s = self._loop.time() + deadline_s
        self._requests[sequence] = _Request(peer, message, done, give_up_s)
        self._try(sequence)

    def settle(self, sequence: int, peer: str, reply: msgspec.Struct) -> bool:
        """Hand over a reply; return whether a request to this peer waited for it."""
        request = self._requests.get(sequence)
        if request is None or request.peer != peer:
            return False
        del self._requests[sequence]
        if request.timer is not None:
            request.timer.cancel()
        if isinstance(reply, ErrorReply):
            request.done(RequestFailed(reply.code, reply.text))
        else:
            request.done(reply)
        return True

    def close(self) -> None:
        """Fail all that are open: the daemon shuts down."""
        requests, self._requests = self._requests, {}
        for request in requests.values():
            if request.timer is not None:
                request.timer.cancel()
            code = Errno.SLURM_COMMUNICATIONS_SHUTDOWN_ERROR
            request.done(RequestFailed(code, error_text(code)))

    def _try(self, sequence: int) -> None:
        request = self._requests.get(sequence)
        if request is None:
            return
        now = self._loop.time()
        try:
            self._post(request.peer, request.message, sequence)
        except (PeerGone, PeerBusy) as error:
            if isinstance(error, PeerGone) and not self._is_dialled(request.peer):
                text = f"Communication connection failure: {error}"
                self._fail(sequence, Errno.SLURM_COMMUNICATIONS_CONNECTION_ERROR, text)
            elif now + RETRY_S >= request.give_up_s:
                request.timer = self._loop.call_at(request.give_up_s, self._expire, sequence)
            else:
                request.timer = self._loop.call_later(RETRY_S, self._try, sequence)
            return
        request.timer = self._loop.call_at(request.give_up_s, self._expire, sequence)

    def _expire(self, sequence: int) -> None:
        code = Errno.SLURM_PROTOCOL_SOCKET_IMPL_TIMEOUT
        self._fail(sequence, code, error_text(code))

    def _fail(self, sequence: int, code: int, text: str) -> None:
        request = self._requests.pop(sequence, None)
        if request is not None:
            request.done(RequestFailed(code, text))
