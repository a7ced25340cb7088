"""One controller for each state directory: a lock that the kernel releases if its owner dies."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

from pyslurm_ng.journal.segment import JournalError

LOCK_NAME = "lock"
# struct flock of 64-bit Linux: type, whence, start, length, pid (0 for OFD locks)
_FLOCK = struct.Struct("hhqqi4x")


class StateLock:
    """An open-file-description lock on a directory's lock file; it lasts until `release`.

    It belongs to the open file, not to the process. So a daemon keeps it when it forks to the
    background, and to close another descriptor of the same file does not end it.
    """

    def __init__(self, directory: Path) -> None:
        """Take the lock without waiting.

        Raises:
            JournalError: another process holds it; the text names that process.
        """
        self.path = directory / LOCK_NAME
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        request = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        try:
            fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, request)
        except (BlockingIOError, PermissionError):
            holder = os.pread(self._fd, 200, 0).decode("utf-8", "replace").strip()
            os.close(self._fd)
            raise JournalError(
                f"{directory}: in use by another slurmctld ({holder or 'unknown process'}); "
                "one state directory serves one running controller"
            ) from None
        self.note_holder()

    def note_holder(self) -> None:
        """Write this process's id and host into the file, for another process's error message."""
        text = f"pid {os.getpid()} on {os.uname().nodename}\n".encode()
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, text, 0)

    def release(self) -> None:
        """Release the lock."""
        os.close(self._fd)
