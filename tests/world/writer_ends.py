"""What a writer has around it: a disk that the test moves, and a command that is answered."""

from __future__ import annotations

from collections.abc import Callable
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
    """A command's open request that remembers what it was told.

    Attributes:
        parts: the answers before the final one.
        told: final answers; a refusal is (code, text).
    """

    def __init__(self, request: Any = None) -> None:
        self.request = request
        self.parts: list[Any] = []
        self.told: list[Any] = []
        self._gone: Callable[[], None] = lambda: None

    @property
    def last(self) -> Any:
        """The final answer; None while there is none."""
        return self.told[-1] if self.told else None

    def part(self, answer: Any) -> None:
        assert not self.told, "an answer after the final one"
        self.parts.append(answer)

    def reply(self, answer: Any) -> None:
        assert not self.told, "a second final answer"
        self.told.append(answer)

    def prepared(self, answer: Any) -> Callable[[], None]:
        return lambda: self.reply(answer)

    def error(self, code: int, text: str) -> None:
        self.reply((code, text))

    def on_gone(self, callback: Callable[[], None]) -> None:
        self._gone = callback

    def leave(self) -> None:
        """End the connection."""
        self._gone()
