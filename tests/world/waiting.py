"""Waiting for what another process or thread does."""

from __future__ import annotations

import time
from collections.abc import Callable

_GROWTH = 1.2
_LONGEST_PAUSE_S = 0.25


def wait_until(
    condition: Callable[[], object],
    what: str = "what the test waits for",
    limit_s: float = 60.0,
    pause_s: float = 0.01,
) -> None:
    """Wait until a condition holds; the test fails by name if it does not in time.

    Args:
        pause_s: between the first two looks; each pause is a little longer than the one before,
            since looking takes processor time from what is waited for.
    """
    ends_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < ends_s, f"{what}: not within {limit_s:.0f} s"
        time.sleep(pause_s)
        pause_s = min(pause_s * _GROWTH, max(pause_s, _LONGEST_PAUSE_S))
