"""Signals as bytes in a pipe, so that a poll loop serves them like everything else."""

import os

# `signal` itself loads enum, which costs a start a millisecond.
from _signal import SIG_DFL, SIG_IGN, set_wakeup_fd, signal  # type: ignore[import-not-found]

from pyslurm_ng.base.numbers import SIGPIPE, SIGTTIN, SIGTTOU

CAUGHT = (1, 2, 3, 10, 12, 14, 15, 18, 28)
"""HUP INT QUIT USR1 USR2 ALRM TERM CONT WINCH."""


class Signals:
    """Catches signals from now on; `take` returns those that came, except ignored ones."""

    def __init__(self, ignored: "frozenset[int]" = frozenset()) -> None:
        self._ignored = ignored
        self.descriptor, self._end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        set_wakeup_fd(self._end, warn_on_full_buffer=False)
        for number in CAUGHT:
            signal(number, _noted)
        # Reading the terminal from the background gives an error instead of stopping us.
        signal(SIGTTIN, SIG_IGN)
        signal(SIGTTOU, SIG_IGN)
        signal(SIGPIPE, SIG_IGN)

    def take(self) -> "list[int]":
        """Return the signals that came since the last call, in order."""
        try:
            came = os.read(self.descriptor, 4096)
        except BlockingIOError:
            return []
        return [number for number in came if number not in self._ignored]

    def restore(self) -> None:
        """Restore the default of every signal, for a child or at the end."""
        set_wakeup_fd(-1)
        for number in (*CAUGHT, SIGTTIN, SIGTTOU, SIGPIPE):
            signal(number, SIG_DFL)


def _noted(number: int, frame: object) -> None:
    """Do nothing: the byte in the pipe is what counts."""
