"""Events in memory, for all listeners who may hear the same.

A feed has the newest events as lines that are ready to be sent. Listeners with the same words are
a group, which has those lines that its listeners want, and a listener is no more than a number in
its group: what it does not read is not kept for it. Everything here belongs to the loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import msgspec

from pyslurm_ng.data_parser.event_records import event_records
from pyslurm_ng.web.events.event_filter import EventFilter

MOST_LINES = 4096
MOST_AT_ONCE = 8192
"""More events in one message than this are not told one by one: lists are to be read again."""
MOST_PIECES = 256
MOST_GROUP_BYTES = 256 << 10
MOST_GROUPS = 512
MOST_LINE_BYTES = 64 << 10
"""An event of many nodes is longer than others; one beyond this is told without its nodes."""


@dataclass(frozen=True, slots=True)
class Line:
    """One event: what it is about, and its text as it is sent behind its id."""

    sequence: int
    kind: str
    record: dict[str, Any]
    text: bytes


class Dropped(Exception):
    """A listener is so far behind that events are gone which it has not read."""


@dataclass(eq=False)
class Group:
    """What listeners with the same words are sent, in pieces: one for each message of slurmctld.

    `end` is the number of the next piece; `came` is set when one comes, and is another one then.
    """

    event_filter: EventFilter
    pieces: deque[bytes] = field(default_factory=deque)
    end: int = 0
    listeners: int = 0
    came: asyncio.Event = field(default_factory=asyncio.Event)
    _bytes: int = 0

    def add(self, lines: list[Line]) -> None:
        """Take those that are event_filter."""
        text = text_of([line for line in lines if self.event_filter.agrees(line.kind, line.record)])
        if not text:
            return
        pieces = self.pieces
        pieces.append(text)
        self._bytes += len(text)
        while len(pieces) > MOST_PIECES or (len(pieces) > 1 and self._bytes > MOST_GROUP_BYTES):
            self._bytes -= len(pieces.popleft())
        self.end += 1
        self.wake()

    def wake(self) -> None:
        """Let all listeners look."""
        came, self.came = self.came, asyncio.Event()
        came.set()

    def piece(self, number: int) -> bytes:
        """Return the piece at a number, b"" for the one that has not come yet.

        Raises:
            Dropped: it is gone.
        """
        behind = self.end - number
        if behind > len(self.pieces):
            raise Dropped
        return self.pieces[-behind] if behind else b""


@dataclass(eq=False)
class Feed:
    """What all listeners of one audience may hear.

    Attributes:
        floor: all events behind this batch are in `lines`.
        newest: the newest batch that was told of.
        ended: why its listeners have to come again; "" while it goes on.
        resets: how often events were missed, so that lists have to be read again.
    """

    audience: str
    floor: int
    newest: int
    lines: deque[Line] = field(default_factory=deque)
    groups: dict[EventFilter, Group] = field(default_factory=dict)
    ended: str = ""
    resets: int = 0

    def listen(self, event_filter: EventFilter) -> Group | None:
        """Return a group of these words with one more listener; None if there are too many."""
        group = self.groups.get(event_filter)
        if group is None:
            if len(self.groups) >= MOST_GROUPS:
                return None
            group = self.groups[event_filter] = Group(event_filter)
        group.listeners += 1
        return group

    def leave(self, group: Group) -> None:
        """Forget a listener."""
        group.listeners -= 1
        if not group.listeners:
            self.groups.pop(group.event_filter, None)

    @property
    def listeners(self) -> int:
        """How many listen."""
        return sum(group.listeners for group in self.groups.values())

    def tell(self, told: dict[str, Any]) -> None:
        """Take a message of events."""
        if len(told.get("jobs", ())) + len(told.get("nodes", ())) > MOST_AT_ONCE:
            self.begin_again(told["sequence"])
            return
        lines = [_line(kind, record) for kind, record in event_records(told)]
        self.newest = max(self.newest, told["sequence"])
        self.lines.extend(lines)
        while len(self.lines) > MOST_LINES:
            self.floor = self.lines.popleft().sequence
        for group in list(self.groups.values()):
            group.add(lines)

    def begin_again(self, sequence: int) -> None:
        """Events were missed: all that comes is behind this batch."""
        self.resets += 1
        self.floor = self.newest = sequence
        self.lines.clear()
        self._wake()

    def end(self, why: str) -> None:
        """Let all listeners come again."""
        self.ended = self.ended or why
        self._wake()

    def _wake(self) -> None:
        for group in list(self.groups.values()):
            group.wake()

    def missed(self, after: int, event_filter: EventFilter) -> bytes:
        """Return the events behind a batch that are event_filter."""
        return text_of([
            line for line in self.lines
            if line.sequence > after and event_filter.agrees(line.kind, line.record)
        ])  # fmt: skip


def text_of(lines: list[Line]) -> bytes:
    """Return events as they are sent.

    Only the last one of a batch has its number as id: who is cut off before it gets all of the
    batch again.
    """
    parts: list[bytes] = []
    for at, line in enumerate(lines):
        if at + 1 == len(lines) or lines[at + 1].sequence != line.sequence:
            parts.append(b"id: %d\n" % line.sequence)
        parts.append(line.text)
    return b"".join(parts)


def _line(kind: str, record: dict[str, Any]) -> Line:
    data = msgspec.json.encode(record)
    if len(data) > MOST_LINE_BYTES:
        data = msgspec.json.encode({**record, "nodes": "", "is_cut": True})
    text = b"event: %s\ndata: %s\n\n" % (kind.encode(), data)
    return Line(record["sequence"], kind, record, text)
