"""srun's ends of a step's streams: output written on this host, and input read from stdin.

Output never blocks srun, so that signals are served while a reader is slow: a descriptor is
written only as far as poll says, and while much is unwritten srun stops reading from the nodes.
"""

import os
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

HIGH_BYTES = 1 << 20
LOW_BYTES = 256 << 10
_PIPE_BYTES = 4096
"""How much a ready pipe takes without blocking (PIPE_BUF)."""
_S_IFMT, _S_IFREG, _S_IFDIR = 0o170000, 0o100000, 0o040000


class Sink:
    """A descriptor to write to: a file, or the terminal or pipe that is our stdout or stderr."""

    def __init__(self, descriptor: int, path: str = "") -> None:
        """Write to `descriptor`, of `path` if it is a file of ours; -1 throws everything away."""
        self.descriptor = descriptor
        self.path = path
        self._queue: list[bytes] = []
        self._at = 0
        self.unwritten = 0
        self.on_broken: Callable[[OSError], None] | None = None
        self._is_file = True
        self._poll = select.poll()
        if descriptor >= 0:
            try:
                self._is_file = os.fstat(descriptor).st_mode & _S_IFMT == _S_IFREG
                self._poll.register(descriptor, select.POLLOUT)
            except OSError:
                self.descriptor = -1

    def write(self, data: bytes) -> None:
        """Queue bytes and write what can be written."""
        if self.descriptor >= 0 and data:
            self._queue.append(data)
            self.unwritten += len(data)
            self.advance()

    def advance(self, *, wait: bool = False) -> None:
        """Write as much as is possible without waiting, or everything."""
        while self._queue and self.descriptor >= 0:
            if not self._is_file and not self._poll.poll(None if wait else 0):
                return
            head = self._queue[0]
            end = len(head) if self._is_file else min(len(head), self._at + _PIPE_BYTES)
            try:
                written = os.write(self.descriptor, memoryview(head)[self._at : end])
            except BlockingIOError:
                # Another process made it non-blocking, and it takes less than poll says.
                if wait:
                    continue
                return
            except InterruptedError:
                continue
            except OSError as problem:
                self._break(problem)
                return
            self._at += written
            self.unwritten -= written
            if self._at == len(head):
                del self._queue[0]
                self._at = 0

    def _break(self, problem: OSError) -> None:
        """The reader is gone, or the disk is full: drop all further output."""
        self.descriptor = -1
        self._queue.clear()
        self.unwritten = 0
        if self.on_broken is not None:
            self.on_broken(problem)


class Labels:
    """Puts `T: ` before each line; a line is kept until it is whole.

    Ranks begin at `first`.
    """

    def __init__(self, tasks: int, first: int = 0) -> None:
        self._first = first
        self._width = len(str(max(0, tasks - 1)))
        self._partial: dict[tuple[int, int], bytearray] = {}

    def put(self, kind: int, task: int, data: bytes) -> bytes:
        """Return the labelled lines that `data` completes; no data is the stream's end."""
        label = b"%*d: " % (self._width, self._first + task)
        key = (kind, task)
        partial = self._partial.get(key)
        if not data:
            self._partial.pop(key, None)
            return label + bytes(partial) + b"\n" if partial else b""
        if partial is None:
            partial = self._partial[key] = bytearray()
        partial += data
        end = partial.rfind(b"\n") + 1
        if not end:
            return b""
        lines = bytes(partial[: end - 1]).split(b"\n")
        del partial[:end]
        return b"".join(label + line + b"\n" for line in lines)


def open_local(path: str, *, append: bool) -> int:
    """Open an output file of srun's own, in folders that are made if need be. Raises OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY
    if not append:
        flags |= os.O_TRUNC
    try:
        return os.open(path, flags, 0o666)
    except FileNotFoundError:
        _make_folders(path)
        return os.open(path, flags, 0o666)


def _make_folders(path: str) -> None:
    """Make the folders above a file, as slurmd does for the files of tasks. Raises OSError."""
    end = path.find("/", 1)
    while end > 0:
        try:
            os.mkdir(path[:end], 0o755)
        except FileExistsError:
            pass
        end = path.find("/", end + 1)


def open_input(path: str) -> int:
    """Open an input file of srun's own. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    if os.fstat(descriptor).st_mode & _S_IFMT == _S_IFDIR:
        os.close(descriptor)
        raise IsADirectoryError(21, "Is a directory", path)
    return descriptor


class StepIo:
    """The settings of one step's input and output.

    Tasks are -1 for all; sinks may be the same object.
    """

    __slots__ = ("err", "err_task", "in_descriptor", "in_task", "labels", "out", "out_task", "pty")

    def __init__(self, out: Sink, err: Sink) -> None:
        self.out = out
        self.err = err
        self.out_task = -1
        self.err_task = -1
        self.in_descriptor = 0
        self.in_task = -1
        self.labels: Labels | None = None
        self.pty = False
