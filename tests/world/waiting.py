"""Waiting for what another process or thread does."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_until(
    condition: Callable[[], object],
    what: str = "what the test waits for",
    limit_s: float = 60.0,
    pause_s: float = 0.01,
) -> None:
    """Wait until a condition holds; the test fails by name if it does not in time.

    Args:
        pause_s: between two looks; longer where a look takes much of the machine.
    """
    ends_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < ends_s, f"{what}: not within {limit_s:.0f} s"
        time.sleep(pause_s)
