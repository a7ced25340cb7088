"""Unexpected errors of one supervisor: sent to slurmd's log, or written beside the step's file.

A fault costs the frame, command or file that led to it. The supervisor goes on, because nothing
else can end the step's processes.
"""

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MOST_FAULTS = 100
"""After so many faults a supervisor stops and leaves its step to slurmd."""
_MOST_WRITTEN = 8
_TRACE_LINES = 12


class TooManyFaults(Exception):
    """The supervisor stops; the last fault is the cause."""


class StepFaults:
    """Counts a supervisor's faults.

    Args:
        path: the path of the step's file.
        tell: sends a map to slurmd; returns whether it could.
    """

    def __init__(self, path: str, tell: "Callable[[dict[str, Any]], bool]") -> None:
        self._path = path
        self._tell = tell
        self.count = 0

    def note(self, what: str, error: BaseException) -> None:
        """Count and report one fault; `what` names the part of the code that had it.

        Raises:
            TooManyFaults: this is number MOST_FAULTS.
        """
        self.count += 1
        if self.count <= _MOST_WRITTEN:
            trace = trace_of(error)
            text = f"{what}: {type(error).__name__}: {str(error)[:500]}"
            if not self._tell({"did": "fault", "text": text, "trace": trace}):
                leave_trace(self._path, f"{text}\n{trace}")
        if self.count >= MOST_FAULTS:
            raise TooManyFaults(what) from error


def trace_of(error: BaseException) -> str:
    """Return the last part of an error's traceback."""
    import traceback

    return "".join(traceback.format_exception(error, limit=-_TRACE_LINES))[:4000]


def leave_trace(path: str, text: str) -> None:
    """Write a text beside the step's file, where slurmd looks when a supervisor is lost."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(path + ".bug", flags, 0o600)
    except OSError:
        return
    try:
        os.write(descriptor, text.encode("utf-8", "backslashreplace"))
    except OSError:
        return
    finally:
        os.close(descriptor)
