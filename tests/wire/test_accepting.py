"""RELIABILITY 46: many connections of one user do not delay the connection of another."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise

import pytest

from pyslurm_ng.wire import accepting
from pyslurm_ng.wire.accepting import Acceptor
from pyslurm_ng.wire.listening import bind_tcp
from pyslurm_ng.wire.shares import ShareLimits

USUAL = ShareLimits()
CROWD, OTHER = "127.0.0.2", "127.0.0.3"


class Noted(asyncio.Protocol):
    """Writes down its connection."""

    def __init__(self, begun: list[asyncio.BaseTransport]) -> None:
        self._begun = begun

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._begun.append(transport)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    made = bind_tcp("127.0.0.1", 0)
    made.listen(4_096)
    with made:
        yield made


def connected(stack: ExitStack, listener: socket.socket, address: str, count: int) -> None:
    """Connect from an address; the kernel holds the connections until they are accepted."""
    for _ in range(count):
        made = stack.enter_context(socket.socket())
        made.bind((address, 0))
        made.connect(listener.getsockname())


def begun_until(
    listener: socket.socket, count: int, limits: ShareLimits = USUAL
) -> tuple[list[str], int]:
    """Return the addresses of connections in the order in which they begin, and how many others
    were refused; it ends when all are one or the other."""
    begun: list[asyncio.BaseTransport] = []
    addresses: list[str] = []
    refused: list[None] = []

    async def serve() -> None:
        acceptor = Acceptor(
            listener, limits, int, lambda: Noted(begun), lambda: refused.append(None)
        )
        while len(begun) + len(refused) < count:
            await asyncio.sleep(0)
        acceptor.close()
        for transport in begun:
            addresses.append(transport.get_extra_info("peername")[0])
            transport.close()
        await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(serve(), 60))
    return addresses, len(refused)


def test_a_crowd_lengthens_a_turn_by_few_connections(listener: socket.socket) -> None:
    """The other user's connection takes several turns, each as long as what a crowd does in it.

    With 16 in a turn a flood of one user cost another's request 18 ms of slurmctld's time in place
    of 7 (RELIABILITY 44).
    """
    begun: list[asyncio.BaseTransport] = []
    counts = [0]

    async def serve() -> None:
        acceptor = Acceptor(listener, USUAL, int, lambda: Noted(begun), lambda: None)
        while len(begun) < 200:
            await asyncio.sleep(0)
            counts.append(len(begun))
        acceptor.close()
        for transport in begun:
            transport.close()
        await asyncio.sleep(0)

    with ExitStack() as stack:
        connected(stack, listener, CROWD, 200)
        asyncio.run(asyncio.wait_for(serve(), 60))
    assert max(after - before for before, after in pairwise(counts)) <= 4


def test_a_crowd_is_begun_in_turn_with_others(listener: socket.socket) -> None:
    """Of 601 connections the last one is begun as soon as it is seen."""
    with ExitStack() as stack:
        connected(stack, listener, CROWD, 600)
        connected(stack, listener, OTHER, 1)
        begun, refused = begun_until(listener, 601)
    assert refused == 0 and begun.count(CROWD) == 600
    assert begun.index(OTHER) < 150


@pytest.mark.parametrize(
    "limits",
    [ShareLimits(connections_per_uid=8), ShareLimits(connections_waiting=16)],
    ids=["of a user", "in all"],
)
def test_too_many_of_one_are_closed(listener: socket.socket, limits: ShareLimits) -> None:
    """The others of the crowd, and those of other users, are served."""
    with ExitStack() as stack:
        connected(stack, listener, CROWD, 60)
        connected(stack, listener, OTHER, 3)
        begun, refused = begun_until(listener, 63, limits)
    assert begun.count(OTHER) == 3
    assert begun.count(CROWD) >= 8 and refused == 60 - begun.count(CROWD) > 0


def test_without_descriptors_it_waits_and_goes_on(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No room for one more open file: those that wait in the kernel are taken later."""
    monkeypatch.setattr(accepting, "_PAUSE_S", 0.01)
    refusals = [OSError(errno.EMFILE, "Too many open files")] * 2

    class Full(socket.socket):
        def accept(self) -> tuple[socket.socket, object]:
            if refusals:
                raise refusals.pop()
            return super().accept()

    with ExitStack() as stack, Full(fileno=listener.detach()) as full:
        full.setblocking(False)
        connected(stack, full, OTHER, 5)
        begun, refused = begun_until(full, 5)
    assert (begun, refused, refusals) == ([OTHER] * 5, 0, [])
