"""What is raised if a node cannot be set up."""

from __future__ import annotations


class BadSetup(Exception):
    """The node cannot be set up so; `lines` name every problem."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__(lines[0] if lines else "bad configuration")
        self.lines = lines
