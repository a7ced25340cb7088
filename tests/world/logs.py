"""A daemon's log that a test reads."""

from __future__ import annotations


class LineLog:
    """Keeps lines.

    Attributes:
        level: how much the daemon would log.
        lines: what was logged, in order; an error has `mark` before it.
    """

    def __init__(self, level: int = 3, mark: str = "") -> None:
        self.level = level
        self.mark = mark
        self.lines: list[str] = []

    def info(self, *texts: str) -> None:
        self.lines += texts

    verbose = info

    def error(self, text: str) -> None:
        self.lines.append(self.mark + text)


class NotedFaults:
    """What `base.faults.Faults.note` was told: each kind and text, in order."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def note(self, kind: str, text: str, /) -> None:
        self.told.append((kind, text))
