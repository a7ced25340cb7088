"""What nobody foresaw: told in the log; where memory may be ahead of the journal, the end."""

from __future__ import annotations

import asyncio
import os
import traceback
from typing import NoReturn

from pyslurm_ng.base.daemon_log import DaemonLog


class Failures:
    """Tells of bugs, and ends the process before anybody notices what was not recorded."""

    def __init__(self, log: DaemonLog) -> None:
        self._log = log

    def bug(self, text: str, error: BaseException) -> None:
        """Log an error that nobody foresaw."""
        self._log.error(f"{text}: {type(error).__name__}: {error}")
        for part in traceback.format_exception(error):
            for line in part.splitlines():
                self._log.error("  " + line)

    def bug_in_core(self, text: str, error: BaseException) -> NoReturn:
        """Memory is ahead of the journal: end before anybody notices."""
        self.bug(text, error)
        self._log.fatal("stopping; the journal holds the state before this event")
        os._exit(1)

    def journal_failed(self, why: str) -> NoReturn:
        """In the journal's thread: nothing unrecorded has been promised, so just stop."""
        self._log.fatal(why)
        os._exit(1)

    def on_loop(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """Tell what the event loop found nobody to tell; its exception handler."""
        error = context.get("exception")
        text = str(context.get("message", "error on the loop"))
        if isinstance(error, BaseException):
            self.bug(text, error)
        else:
            self._log.error(text)
