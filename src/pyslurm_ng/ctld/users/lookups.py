"""Questions to the user directory, which may take their time and must not keep the loop waiting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class RunInThread(Protocol):
    """Runs a function elsewhere and calls back on the loop with what it returned."""

    def __call__(self, work: Callable[[], T], done: Callable[[T], None], /) -> None: ...
