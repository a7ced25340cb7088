"""What all requests share: how slowly an answer may be read, and that a body has one length."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import anyio

SEND_S = 60.0
"""Within this time a piece of an answer has to be taken."""
ANSWERED: Counter[int] = Counter()
"""Answers of this process by status, for its metrics."""
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


_TWO_LENGTHS = b"Content-Length and Transfer-Encoding exclude each other\n"


async def refuse_two_lengths(send: Send) -> None:
    """Refuse a body whose length is named twice: a proxy may believe the other one."""
    headers = [
        (b"connection", b"close"), (b"content-type", b"text/plain"),
        (b"content-length", str(len(_TWO_LENGTHS)).encode()),
    ]  # fmt: skip
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": _TWO_LENGTHS})


class SlowReaders:
    """Ends the connection of a reader that takes nothing."""

    def __init__(self, app: Callable[[Message, Receive, Send], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def send_in_time(message: Message) -> None:
            if message["type"] == "http.response.start":
                ANSWERED[message["status"]] += 1
            # A task for each piece, as `asyncio.wait_for` makes one, costs as much as sending it.
            with anyio.fail_after(SEND_S):
                await send(message)

        names = {name for name, _ in scope.get("headers", ())}
        try:
            if {b"content-length", b"transfer-encoding"} <= names:
                await refuse_two_lengths(send_in_time)
                return
            await self._app(scope, receive, send_in_time)
        except TimeoutError:
            # uvicorn closes a connection whose answer is not complete.
            return
