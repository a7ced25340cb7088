"""A step's samples on one node: a file of root's that its supervisor appends to.

Each sample is a two-byte length and a msgpack list: series, task, seconds since the epoch, and the
amounts. The amounts of a series have the order of the tuples below; those of the network and the
file system, and a task's times and bytes, are totals, of which publishers take differences.
"""

import os
import struct

from pyslurm_ng.kernels.records import pack, unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

ENERGY, FILESYSTEM, NETWORK, TASK = 1, 2, 3, 4
MOST_BYTES = 64 << 20
"""A file that has this size gets no further samples: jobs need room in the spool, too."""
TASK_AMOUNTS = (
    "cpu_khz", "cpu_us", "rss_kib", "virtual_kib", "pages", "read_bytes", "written_bytes",
    "gpu_memory_kib", "gpu_percent",
)  # fmt: skip
TRAFFIC_AMOUNTS = ("in", "out", "in_bytes", "out_bytes")
"""Packets of a network, reads and writes of a file system; of energy it is one power for each label
of the step's `labels`, in milliwatts."""
_LENGTH = struct.Struct(">H")


class SampleFile:
    """The file while its step runs; what cannot be written is lost and counted.

    Attributes:
        lost: how many samples were not kept.
    """

    def __init__(self, path: str) -> None:
        """Begin the file. Raises OSError."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(path, flags, 0o600)
        self._size = 0
        self.lost = 0

    def add(self, series: int, task: int, epoch_s: int, amounts: "list[int]") -> None:
        """Append a sample."""
        body = pack([series, task, epoch_s, *amounts])
        if self._size + len(body) > MOST_BYTES:
            self.lost += 1
            return
        try:
            os.write(self._descriptor, _LENGTH.pack(len(body)) + body)
        except OSError:
            self.lost += 1  # the spool is full: the step goes on without
            return
        self._size += _LENGTH.size + len(body)

    def close(self) -> None:
        """Let go of the file; it stays until its samples are published."""
        os.close(self._descriptor)


class SampleReader:
    """Reads a file's samples, also while they are being written."""

    def __init__(self, path: str) -> None:
        """Open the file. Raises OSError."""
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        self._unread = bytearray()

    def new(self) -> "Iterator[list[int]]":
        """Yield the samples that were written since the last time."""
        while True:
            while len(self._unread) >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(self._unread)
                end = _LENGTH.size + length
                if len(self._unread) < end:
                    break
                yield unpack(bytes(self._unread[_LENGTH.size : end]))
                del self._unread[:end]
            part = os.read(self._descriptor, 1 << 20)
            if not part:
                return
            self._unread += part

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)
