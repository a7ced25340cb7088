"""Room that is kept on the state file system so that running jobs can end when it is full."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from pyslurm_ng.journal import disk

RESERVE_BYTES = 8 << 20
# On a tiny file system (a test's, an appliance's) the reserve is a part of it, not all.
_SHARE = 16


class Reserve:
    """A file of allocated blocks that becomes a segment when the file system has no others.

    If the blocks were only freed, the program that filled the disk would take them. Submissions are
    refused while less than one more reserve is free, so the reserve itself is only ever used for
    the ends of jobs that run already.
    """

    def __init__(self, path: Path, size: int = RESERVE_BYTES) -> None:
        """Allocate the reserve; on a full file system it stays empty.

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
            # This includes file systems without fallocate: there only the limit below helps.
            if self._fd >= 0:
                os.ftruncate(self._fd, 0)
        else:
            self._is_held = True

    def become(self, path: Path, head: bytes) -> int:
        """Give the file another name; return its descriptor, -1 if there is no reserve.

        The file has `size` bytes: `head`, which is durable, then zeros.

        Raises:
            FileExistsError: the name is taken.
            OSError: the file cannot be synced; that is final.
        """
        if not self._is_held:
            return -1
        if path.exists():
            # Only this process writes this epoch, so no other creates the name before the renaming.
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
        """Free the blocks; return whether they were held."""
        if not self._is_held:
            return False
        os.ftruncate(self._fd, 0)
        self._is_held = False
        return True

    def is_low(self, free: int) -> bool:
        """Whether so little is free that submissions must wait; if not, allocates the reserve."""
        if not self._is_held and free > 3 * self.size:
            self._take()
            free -= self.size
        return free <= (self.size if self._is_held else 3 * self.size)

    def spare(self, free: int) -> int:
        """How far ahead the journal may allocate blocks that it does not need yet."""
        return max(free - 2 * self.size, 0) // 4

    def close(self) -> None:
        """Close the file and leave its blocks allocated for the next start."""
        if self._fd >= 0:
            os.close(self._fd)


def is_full(error: OSError) -> bool:
    """Whether an error means that the file system has no room."""
    return error.errno in disk.DISK_FULL
