"""The terminal that srun runs in: raw for --pty, and its size."""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class RawTerminal:
    """The terminal without echo, line editing and signals, until `restore`."""

    def __init__(self) -> None:
        self._old: list[Any] | None = None
        if not os.isatty(0):
            return
        import termios

        self._old = termios.tcgetattr(0)
        raw = list(self._old)
        raw[0] &= ~(termios.BRKINT | termios.ICRNL | termios.INPCK | termios.ISTRIP | termios.IXON)
        raw[1] &= ~termios.OPOST
        raw[2] = raw[2] & ~(termios.CSIZE | termios.PARENB) | termios.CS8
        raw[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG)
        termios.tcsetattr(0, termios.TCSADRAIN, raw)  # keys typed before count

    def restore(self) -> None:
        """Restore the terminal's settings."""
        if self._old is not None:
            import termios

            termios.tcsetattr(0, termios.TCSADRAIN, self._old)


def window_size() -> "tuple[int, int]":
    """Return rows and columns of the terminal on stdin or stdout; zeros for none."""
    for descriptor in (0, 1, 2):
        try:
            columns, rows = os.get_terminal_size(descriptor)
        except OSError:
            continue
        return rows, columns
    return 0, 0
