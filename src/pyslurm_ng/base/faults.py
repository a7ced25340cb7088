"""Faults that cost one job, node, message or row only: counted for `sdiag`, logged sparingly.

A fault is an unexpected exception while the daemon dealt with one thing. That thing is
held, set aside or answered, and everything else goes on. An exception that means a broken cluster
state is not such a fault: it still stops the daemon.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from typing import Protocol

LOG_INTERVAL_S = 60.0
"""Each kind is logged at most once in this time; further faults of the kind are only counted."""


class ErrorLog(Protocol):
    """Where faults are logged; `DaemonLog` is one."""

    def error(self, text: str, /) -> None:
        """Say that something is wrong."""


class Faults:
    """Counts faults by kind and logs each kind at most once a minute.

    Attributes:
        counts: faults by kind since the start or the last `reset`, in order of first appearance.
    """

    def __init__(self, log: ErrorLog, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self.counts: dict[str, int] = {}
        self._log = log
        self._monotonic_s = monotonic_s
        self._logged_s: dict[str, float] = {}
        self._unlogged: dict[str, int] = {}

    def note(self, kind: str, text: str, error: BaseException | None = None) -> None:
        """Count one fault, and log it unless its kind was logged within the last minute.

        Args:
            kind: a short constant of the code, such as `pass` or `dbd_row`. It is never a user's
                text, because each kind is kept for ever.
            text: one sentence that names the job, node or message it cost.
            error: the exception; its traceback goes to the log with the text.
        """
        self.counts[kind] = self.counts.get(kind, 0) + 1
        now_s = self._monotonic_s()
        last_s = self._logged_s.get(kind)
        if last_s is not None and now_s - last_s < LOG_INTERVAL_S:
            self._unlogged[kind] = self._unlogged.get(kind, 0) + 1
            return
        self._logged_s[kind] = now_s
        unlogged = self._unlogged.pop(kind, 0)
        more = f" ({unlogged} more of this kind since the last line)" if unlogged else ""
        cause = "" if error is None else f": {type(error).__name__}: {str(error)[:500]}"
        self._log.error(f"fault ({kind}): {text}{cause}{more}")
        if error is None:
            return
        for part in traceback.format_exception(error, limit=-12):
            for line in part.splitlines():
                self._log.error("  " + line[:500])

    def on_loop(self, loop: object, context: Mapping[str, object]) -> None:
        """Note an exception that only an event loop of asyncio has seen; its exception handler."""
        error = context.get("exception")
        text = str(context.get("message", "error on the loop"))
        self.note("loop", text, error if isinstance(error, BaseException) else None)

    def reset(self) -> None:
        """Set all counts to zero; `sdiag --reset`."""
        self.counts.clear()
