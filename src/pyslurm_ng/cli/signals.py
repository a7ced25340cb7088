"""Signals as bytes in a pipe, so that a poll loop serves them like everything else."""

import os

# `signal` itself loads enum, which costs a start a millisecond.
from _signal import SIG_DFL, SIG_IGN, set_wakeup_fd, signal  # type: ignore[import-not-found]

from pyslurm_ng.base.numbers import SIGPIPE, SIGTTIN, SIGTTOU

CAUGHT = (1, 2, 3, 10, 12, 14, 15, 18, 28)
"""HUP INT QUIT USR1 USR2 ALRM TERM CONT WINCH."""

_ENDING = (1, 2, 3, 15)
"""HUP INT QUIT TERM."""


class Interrupted(Exception):
    """A signal that ends programs came while a command waited for something."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by signal {number}")
        self.number = number


class Signals:
    """Catches signals from now on; `take` returns those that came, except ignored ones."""

    def __init__(self, ignored: "frozenset[int]" = frozenset()) -> None:
        self._ignored = ignored
        self._came: list[int] = []
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
        came, self._came = self._came, []
        try:
            came += os.read(self.descriptor, 4096)
        except BlockingIOError:
            pass
        return [number for number in came if number not in self._ignored]

    def breaking(self) -> "Breaking":
        """Return a context within which a signal that ends programs raises `Interrupted`.

        Calls that may wait for ever belong there, such as opening a FIFO: elsewhere they go on
        after a signal.
        """
        return Breaking(self, [number for number in _ENDING if number not in self._ignored])

    def look(self) -> "list[int]":
        """Return what `take` will return."""
        self._came = self.take()
        return self._came

    def restore(self) -> None:
        """Restore the default of every signal, for a child or at the end."""
        set_wakeup_fd(-1)
        for number in (*CAUGHT, SIGTTIN, SIGTTOU, SIGPIPE):
            signal(number, SIG_DFL)


class Breaking:
    """See `Signals.breaking`."""

    def __init__(self, signals: Signals, numbers: "list[int]") -> None:
        self._signals = signals
        self._numbers = numbers
        self._raises = True

    def __enter__(self) -> None:
        """Raise from now on, and at once if a signal has come already."""
        try:
            for number in self._numbers:
                signal(number, self._on_signal)
            for number in self._signals.look():
                if number in self._numbers:
                    raise Interrupted(number)
        except Interrupted:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        """Only note signals again."""
        self._raises = False
        for number in self._numbers:
            signal(number, _noted)

    def _on_signal(self, number: int, frame: object) -> None:
        """Raise once: a further signal would break what deals with the first."""
        if self._raises:
            self._raises = False
            raise Interrupted(number)


def _noted(number: int, frame: object) -> None:
    """Do nothing: the byte in the pipe is what counts."""
