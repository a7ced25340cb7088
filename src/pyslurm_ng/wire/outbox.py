"""Answers on their way to the peer of a stream."""

from __future__ import annotations

import asyncio
from collections import deque

from pyslurm_ng.wire.shares import Holder

PIECE_BYTES = 1 << 20
"""Given to the transport at once; to copy 150 MB took 0.4 s, in which nobody was served."""


class Outbox:
    """Frames that are queued here and in the transport; what the peer leaves unread is charged.

    Attributes:
        is_full: the transport takes no more until it says so.
        holder: the share that unread bytes count against.
        unread: what was queued or in the transport when that was last counted.
        written: all bytes that the transport was given.
    """

    __slots__ = ("_queued", "_queued_bytes", "_transport", "holder", "is_full", "unread", "written")

    def __init__(self, holder: Holder) -> None:
        self._queued: deque[bytes | memoryview] = deque()
        self._queued_bytes = 0
        self.is_full = False
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
        self._queued_bytes = 0
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
        size = len(head) + len(body)
        self._queued.append(head)
        self._queued.append(body)
        self._queued_bytes += size
        # At once: many answers may be queued before the first one is written.
        self.unread += size
        self.holder.unread_bytes += size
        return is_first

    def write(self) -> bool:
        """Give the transport a piece of what is queued; return whether it takes another one."""
        if self._transport is None or not self._queued or self.is_full:
            return False
        self._write(self._piece() if self._queued_bytes > PIECE_BYTES else self._all())
        return bool(self._queued) and not self.is_full

    def resume(self) -> None:
        """Note that the transport takes more."""
        self.is_full = False
        self.count_unread()

    def write_all(self) -> None:
        """Give the transport all that is queued: it is about to close."""
        if self._transport is not None and self._queued:
            self._write(self._all())

    def _write(self, piece: bytes) -> None:
        assert self._transport is not None
        self._queued_bytes -= len(piece)
        self.written += len(piece)
        self._transport.write(piece)
        self.count_unread()

    def _all(self) -> bytes:
        piece = b"".join(self._queued)
        self._queued.clear()
        return piece

    def _piece(self) -> bytes:
        taken: list[bytes | memoryview] = []
        size = 0
        while size < PIECE_BYTES:
            piece = self._queued.popleft()
            more = PIECE_BYTES - size
            if len(piece) > more:
                rest = memoryview(piece)
                self._queued.appendleft(rest[more:])
                piece = rest[:more]
            taken.append(piece)
            size += len(piece)
        return b"".join(taken)

    def count_unread(self) -> None:
        """Charge the holder for what the peer has not taken."""
        unread = self.unsent_bytes
        self.holder.unread_bytes += unread - self.unread
        self.unread = unread

    @property
    def is_read(self) -> bool:
        """Whether the peer has taken all that was written."""
        return self._transport is None or not self._transport.get_write_buffer_size()

    @property
    def unsent_bytes(self) -> int:
        """What the peer has not taken, queued or written."""
        return self._queued_bytes + self._buffered_bytes

    @property
    def _buffered_bytes(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def drained(self) -> int:
        """How many bytes the peer has taken so far."""
        return self.written - self._buffered_bytes
