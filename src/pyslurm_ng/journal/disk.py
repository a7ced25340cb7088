"""Steps on a file system that must be durable in their order, even if the power fails."""

from __future__ import annotations

import errno
import os
from pathlib import Path

# Errors that end when there is room again. EFBIG, a size limit of the process, is treated alike.
DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def sync_directory(directory: Path) -> None:
    """Make changes to the names in a directory durable."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_directory(directory: Path, mode: int = 0o700) -> None:
    """Create a directory durably if it is missing; its parent must exist."""
    try:
        os.mkdir(directory, mode)
    except FileExistsError:
        return
    sync_directory(directory.parent)


def write_fully(fd: int, content: bytes | memoryview, offset: int) -> None:
    """Write all bytes at an offset, in as many calls as it takes.

    Raises:
        OSError: as pwrite; the bytes written before stay.
    """
    rest = memoryview(content)
    while rest:
        written = os.pwrite(fd, rest, offset)
        rest = rest[written:]
        offset += written


def free_bytes(fd: int) -> int:
    """Return how many bytes this process may still write to the file system of `fd`."""
    status = os.fstatvfs(fd)
    blocks = status.f_bfree if os.geteuid() == 0 else status.f_bavail
    return blocks * status.f_frsize
