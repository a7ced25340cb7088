"""Connections of a step manager to other node daemons: one each, made when it is needed."""

from __future__ import annotations

import asyncio

import msgspec

from pyslurm_ng.wire.identity import Identity
from pyslurm_ng.wire.stream_client import LinkError, StreamLink, connect_link

_CONNECT_LIMIT_S = 5.0
_ANSWER_LIMIT_S = 60.0


class NodeLinks:
    """Sends requests to node daemons as this node."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity
        self._links: dict[str, StreamLink] = {}
        self._making: dict[str, asyncio.Lock] = {}

    async def request(
        self, name: str, address: tuple[str, int], message: msgspec.Struct
    ) -> msgspec.Struct:
        """Ask a node; raises LinkError."""
        link = self._links.get(name)
        if link is None or link.lost.done():
            link = await self._connected(name, address)
        return await link.request(message, _ANSWER_LIMIT_S)

    async def _connected(self, name: str, address: tuple[str, int]) -> StreamLink:
        lock = self._making.setdefault(name, asyncio.Lock())
        async with lock:
            link = self._links.get(name)
            if link is None or link.lost.done():
                link = await connect_link(
                    self._identity,
                    f"slurmd:{name}",
                    host=address[0],
                    port=address[1],
                    timeout_s=_CONNECT_LIMIT_S,
                )
                self._links[name] = link
            return link

    def close(self) -> None:
        """End all connections."""
        for link in self._links.values():
            link.close()
        self._links.clear()


__all__ = ["LinkError", "NodeLinks"]
