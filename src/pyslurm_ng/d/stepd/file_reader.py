"""Reads a part of one file for a user: the output of a job, for a page.

It runs in a process that `file_receiver` began, which has one task only. It becomes the user for
ever before it touches the path, so the user's rights decide what may be read. Only regular files
are read: a device or a pipe could be emptied, or never answer.
"""

import os
import stat
from _socket import socket

from pyslurm_ng.kernels.records import pack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.d.spool.step_contract import ReadSpec

_NOT_REGULAR = 22  # EINVAL


def read(channel: socket, spec: "ReadSpec") -> None:
    """Send errno, size, offset and data of a part of a file; the caller has become the user."""
    try:
        file = os.open(spec["path"], os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            channel.send(pack([_NOT_REGULAR, 0, 0, b""]))
            return
        size, offset, length = status.st_size, spec["offset"], spec["length"]
        if offset < 0:
            offset = max(0, size - length)
        # Files of /proc are regular, have no size, and would tell of this process, once root's.
        length = min(length, max(0, size - offset))
        channel.send(pack([0, size, offset, os.pread(file, length, offset)]))
    except OSError as error:
        channel.send(pack([error.errno or _NOT_REGULAR, 0, 0, b""]))
