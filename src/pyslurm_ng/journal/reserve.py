"""Room kept back on the state file system, so that running work can end when it is full."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from pyslurm_ng.journal import disk

RESERVE_BYTES = 8 << 20
# A reserve for a tiny file system (a test's, an appliance's) is a part of it, not all of it.
_SHARE = 16


class Reserve:
    """A file of allocated blocks that becomes a segment when the journal finds no others.

    Blocks that were merely freed would go to whatever has filled the disk. Submissions are refused
    while less than one more reserve is free, so the reserve itself is only ever used for the ends
    of jobs that run already.
    """

    def __init__(self, path: Path, size: int = RESERVE_BYTES) -> None:
        """Allocate as much as is sensible; a full file system leaves the reserve empty.

        Raises:
            OSError: the file cannot be opened.
        """
        self._path = path
        self._fd = self._open()
        status = os.fstatvfs(self._fd)
        self.size = min(size, status.f_blocks * status.f_frsize // _SHARE)
        self._is_held = False
        self._take()

    def _open(self) -> int:
        return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _take(self) -> None:
        try:
            if self._fd < 0:
                self._fd = self._open()
            os.posix_fallocate(self._fd, 0, max(self.size, 1))
        except OSError:
            # Also a file system without fallocate: then the limit below is all there is.
            if self._fd >= 0:
                os.ftruncate(self._fd, 0)
        else:
            self._is_held = True

    def become(self, path: Path, head: bytes) -> int:
        """Give the file another name; return its descriptor, -1 if there is none to give.

        It begins with `head`, durably, and is zeros behind that, `size` bytes in all.

        Raises:
            FileExistsError: the name is taken.
            OSError: the file cannot be synced, which is final.
        """
        if not self._is_held:
            return -1
        if path.exists():
            # Only this process writes this epoch, so the name cannot appear before the renaming.
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        disk.write_fully(self._fd, head, 0)
        os.fsync(self._fd)
        try:
            os.rename(self._path, path)
        except OSError:
            return -1  # no room for the name
        disk.sync_directory(path.parent)
        disk.sync_directory(self._path.parent)
        given, self._fd, self._is_held = self._fd, -1, False
        return given

    def give_up(self) -> bool:
        """Free the blocks; False when they were not held."""
        if not self._is_held:
            return False
        os.ftruncate(self._fd, 0)
        self._is_held = False
        return True

    def is_low(self, free: int) -> bool:
        """Whether so little is free that submissions must wait; takes the reserve again."""
        if not self._is_held and free > 3 * self.size:
            self._take()
            free -= self.size
        return free <= (self.size if self._is_held else 3 * self.size)

    def spare(self, free: int) -> int:
        """How far ahead the journal may claim blocks it does not need yet."""
        return max(free - 2 * self.size, 0) // 4

    def close(self) -> None:
        """Close the file and leave its blocks allocated for the next start."""
        if self._fd >= 0:
            os.close(self._fd)


def is_full(error: OSError) -> bool:
    """Whether an error means that the file system has no room."""
    return error.errno in disk.DISK_FULL
