"""Room that is kept on the state file system so that running jobs can end when it is full."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from pyslurm_ng.journal import disk

RESERVE_BYTES = 8 << 20
# On a small file system the reserve is at most this part of it.
_PART = 16


class Reserve:
    """A file of allocated blocks that becomes a segment when the file system has no others.

    If its blocks were only freed, the program that filled the disk would take them. Submissions are
    refused while less than one more reserve is free, so only the ends of running jobs use the
    reserve itself.
    """

    def __init__(self, path: Path, size: int = RESERVE_BYTES) -> None:
        """Allocate the reserve; on a full file system it stays empty.

        Raises:
            OSError: the file cannot be opened.
        """
        self._path = path
        self._fd = self._open()
        status = os.fstatvfs(self._fd)
        self.size = min(size, status.f_blocks * status.f_frsize // _PART)
        self._is_allocated = False
        self._take()

    def _open(self) -> int:
        return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _take(self) -> None:
        try:
            if self._fd < 0:
                self._fd = self._open()
            os.posix_fallocate(self._fd, 0, max(self.size, 1))
        except OSError:
            # File systems without fallocate come here, too. There only `is_low` helps.
            if self._fd >= 0:
                os.ftruncate(self._fd, 0)
        else:
            self._is_allocated = True

    def become(self, path: Path, head: bytes) -> int:
        """Rename the file to `path`; return its descriptor, or -1 if there is no reserve.

        The file has `size` bytes: `head`, which is durable, then zeros.

        Raises:
            FileExistsError: the name is taken.
            OSError: the file cannot be synced; that is final.
        """
        if not self._is_allocated:
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
        segment_fd, self._fd, self._is_allocated = self._fd, -1, False
        return segment_fd

    def give_up(self) -> bool:
        """Free the blocks; return whether there were any."""
        if not self._is_allocated:
            return False
        os.ftruncate(self._fd, 0)
        self._is_allocated = False
        return True

    def is_low(self, free: int) -> bool:
        """Return whether so little is free that submissions must wait; if not, fill the reserve."""
        if not self._is_allocated and free > 3 * self.size:
            self._take()
            free -= self.size
        return free <= (self.size if self._is_allocated else 3 * self.size)

    def spare(self, free: int) -> int:
        """Return how many bytes the journal may allocate before it needs them."""
        return max(free - 2 * self.size, 0) // 4

    def close(self) -> None:
        """Close the file and leave its blocks allocated for the next start."""
        if self._fd >= 0:
            os.close(self._fd)


def is_full(error: OSError) -> bool:
    """Return whether an error means that the file system has no room."""
    return error.errno in disk.DISK_FULL
