"""A bound on how slowly an answer may be read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

SEND_S = 60.0
"""Within this time a piece of an answer has to be taken."""
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class SlowReaders:
    """Ends the connection of a reader that takes nothing."""

    def __init__(self, app: Callable[[Message, Receive, Send], Awaitable[None]]) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one request."""

        async def send_in_time(message: Message) -> None:
            await asyncio.wait_for(send(message), SEND_S)

        try:
            await self._app(scope, receive, send_in_time)
        except asyncio.TimeoutError:
            # uvicorn closes a connection whose answer is not complete.
            return
