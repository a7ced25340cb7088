"""What a writer has around it: a disk that the test moves, and a command that is answered."""

from __future__ import annotations

from typing import Any


class HeldJournal:
    """A disk that is done when the test says so."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.space_low = False
        self.is_stalled = False
        self.is_busy = False

    @property
    def appended(self) -> int:
        return len(self.payloads)

    def append(self, payload: bytes) -> int:
        self.payloads.append(payload)
        return len(self.payloads)


class Heard:
    """A command that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def reply(self, answer: Any) -> None:
        self.told.append(answer)

    def error(self, code: int, text: str) -> None:
        self.told.append((code, text))
