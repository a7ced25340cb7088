"""Ends the process where memory may be ahead of the journal, before a client sees the difference.

What costs one job or message only is a fault: see `base.faults`.
"""

from __future__ import annotations

import asyncio
import os
import traceback
from typing import NoReturn

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.daemon.log import DaemonLog


class Failures:
    """Ends the process after fatal errors, and is told of exceptions that are caught nowhere
    else."""

    def __init__(self, log: DaemonLog, faults: Faults) -> None:
        self._log = log
        self._faults = faults

    def bug_in_core(self, text: str, error: BaseException) -> NoReturn:
        """Memory is ahead of the journal: end before a client sees the difference."""
        self._log.error(f"{text}: {type(error).__name__}: {error}")
        for part in traceback.format_exception(error):
            for line in part.splitlines():
                self._log.error("  " + line)
        self._log.fatal("stopping; the journal holds the state before this event")
        os._exit(1)

    def journal_failed(self, why: str) -> NoReturn:
        """In the journal's thread: nothing unrecorded has been promised, so just stop."""
        self._log.fatal(why)
        os._exit(1)

    def on_loop(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """Note an exception that only the event loop has seen; its exception handler."""
        error = context.get("exception")
        text = str(context.get("message", "error on the loop"))
        self._faults.note("loop", text, error if isinstance(error, BaseException) else None)
