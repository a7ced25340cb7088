"""Ends the process where memory may be ahead of the journal, before a client sees the difference.

What costs one job or message only is a fault: see `base.faults`.
"""

from __future__ import annotations

import os
import traceback
from typing import NoReturn

from pyslurm_ng.daemon.log import DaemonLog


class Failures:
    """Ends the process after fatal errors."""

    def __init__(self, log: DaemonLog) -> None:
        self._log = log

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
