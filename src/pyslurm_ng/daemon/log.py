"""A daemon's log, line by line as Slurm writes it: `[2026-11-21T14:00:00.123] error: text`.

A line goes to a file, to syslog and, in the foreground, to stderr as `slurmctld: error: text`. One
text is one line: control characters are escaped, so no user can forge a line.
"""

from __future__ import annotations

import os
import sys
import syslog
import time
from collections.abc import Callable

QUIET, FATAL, ERROR, INFO, VERBOSE, DEBUG, DEBUG2, DEBUG3, DEBUG4, DEBUG5 = range(10)

LEVELS = (
    "quiet", "fatal", "error", "info", "verbose",
    "debug", "debug2", "debug3", "debug4", "debug5",
)  # fmt: skip
_PREFIXES = ("", "fatal: ", "error: ", "", "", "debug:  ", "debug2: ", "debug3: ", "debug4: ",
             "debug5: ")  # fmt: skip


_PRIORITIES = {
    FATAL: syslog.LOG_CRIT,
    ERROR: syslog.LOG_ERR,
    INFO: syslog.LOG_INFO,
    VERBOSE: syslog.LOG_INFO,
}  # finer levels are LOG_DEBUG


def level_number(name: str) -> int:
    """Return the number of a SlurmctldDebug value: a name of LEVELS or a number in digits."""
    if name.isdecimal():
        return min(int(name), DEBUG5)
    return LEVELS.index(name.lower()) if name.lower() in LEVELS else INFO


def syslog_level(value: str, level: int, *, has_file: bool, foreground: bool) -> int:
    """Return the level for syslog: SlurmctldSyslogDebug or its default.

    By default syslog gets fatal lines. In the background without a log file it gets all lines, in
    the foreground none.

    Args:
        value: SlurmctldSyslogDebug, or SlurmdSyslogDebug; "" if slurm.conf does not give it.
        level: the level of the log file.
    """
    if value:
        return level_number(value)
    if foreground:
        return QUIET
    return FATAL if has_file else max(FATAL, level)


def _send(priority: int, text: str) -> None:
    syslog.syslog(priority, text)


class DaemonLog:
    """Where one daemon writes its lines. A line of a level that is not written costs little.

    Attributes:
        file_level, stderr_level, syslog_level: the finest level that is written there; QUIET means
            that nothing is.
    """

    def __init__(self, name: str, send: Callable[[int, str], None] = _send) -> None:
        """Write to stderr only, at first; `send(priority, text)` is what writes to syslog."""
        self._name = name
        self._send = send
        self.syslog_level = QUIET
        self._path = ""
        self._fd = -1
        self.file_level = QUIET
        self.stderr_level = INFO
        self._time_format = "iso8601_ms"
        self._second = -1
        self._second_text = ""

    def open(self, path: str, level: int, time_format: str = "iso8601_ms") -> None:
        """Append to a file from now on.

        Raises:
            OSError: the file cannot be opened; the log stays as it was.
        """
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        if self._fd >= 0:
            os.close(self._fd)
        self._path, self._fd, self.file_level = path, fd, level
        self._time_format = time_format or "iso8601_ms"
        self._second = -1

    def begin(
        self, level: int, path: str, time_format: str, syslog_debug: str, *, foreground: bool
    ) -> None:
        """Set what is written to stderr, to syslog and, if `path` is not empty, to a file.

        Args:
            level: FATAL or more; a level above DEBUG5 counts as DEBUG5.
            syslog_debug: see `syslog_level`.

        Raises:
            OSError: the file cannot be opened.
        """
        self.stderr_level = level
        self.open_syslog(
            syslog_level(syslog_debug, level, has_file=bool(path), foreground=foreground)
        )
        if not path:
            return
        if not foreground:
            # Until the daemon is in the background, a terminal shows only errors.
            self.stderr_level = min(level, ERROR)
        self.open(path, min(level, DEBUG5), time_format)

    def open_syslog(self, level: int) -> None:
        """Write lines up to a level to syslog, too."""
        self.syslog_level = level
        if level:
            syslog.openlog(self._name, syslog.LOG_PID, syslog.LOG_DAEMON)

    def set_level(self, level: int) -> None:
        """Write more or less wherever lines are written at all; fatal lines remain."""
        if self.file_level:
            self.file_level = max(FATAL, level)
        if self.stderr_level:
            self.stderr_level = max(FATAL, level)
        self.info(f"Set debug level to '{LEVELS[level]}'")

    def close(self) -> None:
        """Stop writing to a file."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self.file_level = -1, QUIET

    def reopen(self) -> None:
        """Open the log file again, after it was moved away."""
        if self._fd >= 0:
            self.open(self._path, self.file_level, self._time_format)

    @property
    def level(self) -> int:
        """The finest level that is written at all."""
        return max(self.file_level, self.stderr_level, self.syslog_level)

    def write(self, level: int, *texts: str) -> None:
        """Write lines wherever their level is written, all of them with one call."""
        if level > self.level:
            return
        lines = [_PREFIXES[level] + escape(text) for text in texts]
        if level <= self.file_level and self._fd >= 0:
            stamp = self._stamp()
            _put(self._fd, "".join([f"[{stamp}] {line}\n" for line in lines]))
        if level <= self.stderr_level:
            _put(2, "".join([f"{self._name}: {line}\n" for line in lines]))
        if level <= self.syslog_level:
            for line in lines:
                self._send(_PRIORITIES.get(level, syslog.LOG_DEBUG), line)

    def fatal(self, text: str) -> None:
        """Write why the daemon ends; the caller ends it."""
        self.write(FATAL, text)

    def error(self, text: str) -> None:
        """Write that something is wrong, so that an administrator should look."""
        self.write(ERROR, text)

    def info(self, *texts: str) -> None:
        """Write what an administrator wants to see every day."""
        self.write(INFO, *texts)

    def verbose(self, text: str) -> None:
        """Write what one more `-v` shows."""
        self.write(VERBOSE, text)

    def debug(self, text: str) -> None:
        """Write what two more `-v` show."""
        self.write(DEBUG, text)

    def _stamp(self) -> str:
        now = time.time()
        second = int(now)
        if second != self._second:
            self._second = second
            self._second_text = self._format(second)
        if self._time_format == "iso8601_ms":
            return f"{self._second_text}.{int(now * 1000) % 1000:03d}"
        if self._time_format in ("rfc5424_ms", "rfc3339"):
            zone = time.strftime("%z", time.localtime(second))
            part = f".{int(now * 1000) % 1000:03d}" if self._time_format == "rfc5424_ms" else ""
            return f"{self._second_text}{part}{zone[:3]}:{zone[3:]}"
        return self._second_text

    def _format(self, second: int) -> str:
        local = time.localtime(second)
        if self._time_format == "short":
            return time.strftime("%b %d %H:%M:%S", local)
        if self._time_format == "clock":
            return time.asctime(local)
        text = time.strftime("%Y-%m-%dT%H:%M:%S", local)
        if self._time_format == "rfc5424":
            zone = time.strftime("%z", local)
            return f"{text}{zone[:3]}:{zone[3:]}"
        return text


def escape(text: str) -> str:
    """Return the text with control characters, also line ends, written as \\xNN."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else f"\\x{ord(char):02x}" for char in text.rstrip("\n")
    )


def _put(fd: int, line: str) -> None:
    try:
        os.write(fd, line.encode("utf-8", "backslashreplace"))
    except OSError:
        # A full disk or a closed terminal must not stop the daemon. stderr is tried last.
        if fd != 2:
            try:
                sys.stderr.write(line)
            except OSError:
                return
