"""Answers on their way to the peer of a stream."""

from __future__ import annotations

import asyncio

from pyslurm_ng.wire.shares import Holder


class Outbox:
    """Frames that are queued here and in the transport; what the peer leaves unread is charged.

    Attributes:
        holder: the share that unread bytes count against.
        unread: what the transport held when that was last counted.
        written: all bytes that the transport was given.
    """

    __slots__ = ("_queued", "_transport", "holder", "unread", "written")

    def __init__(self, holder: Holder) -> None:
        self._queued: list[bytes] = []
        self._transport: asyncio.Transport | None = None
        self.written = 0
        self.holder = holder
        self.unread = 0

    def open(self, transport: asyncio.Transport) -> None:
        """Write to this transport from now on."""
        self._transport = transport

    def close(self) -> None:
        """Forget what is queued and charge nobody for it."""
        self._queued.clear()
        self._transport = None
        self.count_unread()

    def move(self, holder: Holder) -> None:
        """Charge another share, also for what is unread already."""
        self.holder.unread_bytes -= self.unread
        holder.unread_bytes += self.unread
        self.holder = holder

    def put(self, head: bytes, body: bytes) -> bool:
        """Queue a frame; return whether it is the first one, so that a `write` must follow."""
        is_first = not self._queued
        self._queued.append(head)
        self._queued.append(body)
        return is_first

    def write(self) -> None:
        """Hand all that is queued to the transport, in one piece."""
        if self._transport is None or not self._queued:
            return
        piece = b"".join(self._queued)
        self._queued.clear()
        self.written += len(piece)
        self._transport.write(piece)
        if self.unread or self._transport.get_write_buffer_size():
            self.count_unread()

    def count_unread(self) -> None:
        """Charge the holder for what the peer has not taken."""
        unread = 0 if self._transport is None else self._transport.get_write_buffer_size()
        self.holder.unread_bytes += unread - self.unread
        self.unread = unread

    @property
    def is_read(self) -> bool:
        """Whether the peer has taken all that was written."""
        return self._transport is None or not self._transport.get_write_buffer_size()

    @property
    def unsent_bytes(self) -> int:
        """What the peer has not taken, queued or written."""
        written = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return sum(map(len, self._queued)) + written

    @property
    def drained(self) -> int:
        """How many bytes the peer has taken so far."""
        return self.written - self.unsent_bytes
