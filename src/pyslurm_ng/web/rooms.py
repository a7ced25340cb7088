"""Room in slurmrestd: what each user may hold of its threads, requests and bytes.

A user's requests count from the moment that a daemon believes their token, before the body is
read, until the last byte of the answer is taken. All that nobody has believed yet is one share.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, MutableMapping
from typing import Any

import anyio
from starlette.requests import Request

from pyslurm_ng.daemon.process_settings import return_memory
from pyslurm_ng.web.refusal import TOO_MANY, Refusal

THREADS = 32
"""Requests that daemons are asked at the same time."""
THREADS_OF_ONE = 8
"""Of these for one user; others wait."""
MOST_OPEN = 512
OPEN_OF_ONE = 64
MOST_BYTES = 1 << 30
BYTES_OF_ONE = 128 << 20
"""Bodies that came in, and answers that have not been taken."""
RETURN_S = 2.0
LEAST_RETURNED = 8 << 20
"""So often, and when so many bytes have been held since, free memory is given back."""
NOBODY = b""
"""The share of those whom no daemon has believed; no user's name is empty."""
OPEN_OF_NOBODY = 32
BYTES_OF_NOBODY = 32 << 20
_HOLDING = "holding"
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Holding:
    """What one request holds."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._share: bytes | None = None
        self._bytes = 0

    def enter(self, share: bytes) -> None:
        """Count as one of a share's requests.

        Raises:
            Refusal: the share has too many.
        """
        if self._share is None:
            self._rooms.open_one(share)
            self._share = share

    def hold(self, count: int) -> None:
        """Count bytes that are kept until the request has ended.

        Raises:
            Refusal: the share holds too many.
        """
        share = NOBODY if self._share is None else self._share
        self._rooms.hold(share, count)
        self._bytes += count

    def leave(self) -> None:
        """Give back all that was held."""
        share = NOBODY if self._share is None else self._share
        self._rooms.hold(share, -self._bytes)
        self._bytes = 0
        if self._share is not None:
            self._rooms.close_one(share)
            self._share = None

    async def in_thread(self, work: Callable[[], Any]) -> Any:
        """Return what blocking work gives; a user has only so many threads."""
        return await self._rooms.in_thread(NOBODY if self._share is None else self._share, work)

    async def iterate(self, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
        """Yield pieces that are made in threads."""
        while (piece := await self.in_thread(lambda: next(pieces, None))) is not None:
            yield piece


class Rooms:
    """What all requests hold, by share."""

    def __init__(self, threads: int = THREADS) -> None:
        self._threads = threads
        self._room: anyio.CapacityLimiter | None = None
        self._rooms: dict[bytes, anyio.CapacityLimiter] = {}
        self._working: Counter[bytes] = Counter()
        self._open: Counter[bytes] = Counter()
        self._bytes: Counter[bytes] = Counter()
        self._let_go = 0  # bytes since memory was given back
        self._is_returning = False

    def open_one(self, share: bytes) -> None:
        """Count one request more.

        Raises:
            Refusal: there are too many.
        """
        most = OPEN_OF_ONE if share else OPEN_OF_NOBODY
        if self._open[share] >= most or self._open.total() >= MOST_OPEN:
            raise _busy("requests")
        self._open[share] += 1

    def close_one(self, share: bytes) -> None:
        """Count one request less."""
        self._open[share] -= 1
        if not self._open[share]:
            del self._open[share]

    def hold(self, share: bytes, count: int) -> None:
        """Count bytes, or give them back.

        Raises:
            Refusal: they are too many.
        """
        most = BYTES_OF_ONE if share else BYTES_OF_NOBODY
        if count > 0 and (
            self._bytes[share] + count > most or self._bytes.total() + count > MOST_BYTES
        ):
            raise _busy("bytes of requests and answers")
        self._bytes[share] += count
        self._let_go -= min(count, 0)
        if not self._bytes[share]:
            del self._bytes[share]

    @property
    def counts(self) -> tuple[int, int]:
        """Requests that are being answered, and bytes that they hold."""
        return self._open.total(), self._bytes.total()

    def return_memory(self) -> None:
        """Give free memory back soon, where much was held: the allocator would keep it for ever."""
        if self._is_returning or self._let_go < LEAST_RETURNED:
            return
        self._is_returning = True
        asyncio.get_running_loop().call_later(RETURN_S, self._begin_return)

    def _begin_return(self) -> None:
        self._is_returning = False
        self._let_go = 0
        asyncio.get_running_loop().run_in_executor(None, return_memory)

    async def in_thread(self, share: bytes, work: Callable[[], Any]) -> Any:
        """Return what blocking work gives."""
        if self._room is None:
            self._room = anyio.CapacityLimiter(self._threads)
        own = self._rooms.setdefault(share, anyio.CapacityLimiter(THREADS_OF_ONE))
        self._working[share] += 1
        try:
            async with own:
                return await anyio.to_thread.run_sync(work, limiter=self._room)
        finally:
            self._working[share] -= 1
            if not self._working[share]:
                del self._working[share]
                self._rooms.pop(share, None)


def _busy(what: str) -> Refusal:
    return Refusal(TOO_MANY, f"slurmrestd is busy: too many {what}", source="slurmrestd")


def holding_of(request: Request) -> Holding:
    """Return the holding of a request, which `Holdings` has made."""
    holding = request.scope["state"][_HOLDING]
    assert isinstance(holding, Holding)
    return holding


class Holdings:
    """Gives each request a holding, and takes it back at the end of the answer."""

    def __init__(
        self, app: Callable[[Message, Receive, Send], Awaitable[None]], rooms: Rooms
    ) -> None:
        self._app = app
        self._rooms = rooms

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one request."""
        holding = Holding(self._rooms)
        scope.setdefault("state", {})[_HOLDING] = holding
        try:
            await self._app(scope, receive, send)
        finally:
            holding.leave()
            self._rooms.return_memory()
