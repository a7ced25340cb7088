"""Where the streams of a step's tasks go, before their processes open the files."""

import os
import struct
from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_STREAM, socketpair

from pyslurm_ng.wire import step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.d.spool.step_contract import StepSpec, TaskSpec

NULL = "/dev/null"
PIPE, TERMINAL = 1, 2
"""Where a task's standard input comes from, if the supervisor feeds it."""


class Started:
    """One task while it is started; `passed` are the supervisor's ends of its streams.

    `streams` are descriptors or, below 0, files among `opens`: -1 is the first.
    """

    __slots__ = (
        "inlet_kind", "is_over", "opens", "outlets", "passed", "pid", "pmi", "pmi_ours", "spec",
        "status", "stderr", "streams", "temporary",
    )  # fmt: skip

    def __init__(self, spec: "TaskSpec") -> None:
        self.spec = spec
        self.pid = 0
        self.status = 0
        self.is_over = False
        self.inlet_kind = 0
        self.outlets: list[tuple[int, int]] = []
        self.passed: list[int] = []
        self.stderr = -1  # a copy for its epilogs, if there are any
        self.streams: list[int] = []
        self.opens: list[tuple[str, int, bool]] = []
        self.temporary: list[int] = []  # ours until it has begun
        self.pmi = self.pmi_ours = -1  # the task's and our end of a socket for its MPI library

    def open_pmi(self) -> None:
        """Make the socket over which its MPI library asks for PMI. Raises OSError."""
        theirs, ours = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC)
        self.pmi, self.pmi_ours = theirs.detach(), ours.detach()
        self.temporary.append(self.pmi)

    def message(self, notes: "list[str]") -> "tuple[dict[str, Any], list[int]]":
        """Return what the supervisor is told of it, and its descriptors."""
        for descriptor in self.temporary:
            os.close(descriptor)
        fields = {
            "task": self.spec["local"], "pid": self.pid, "status": self.status,
            "is_over": self.is_over, "inlet": self.inlet_kind, "outlets": self.outlets,
            "has_stderr": self.stderr >= 0, "has_pmi": self.pmi_ours >= 0, "notes": notes,
        }  # fmt: skip
        others = [number for number in (self.stderr, self.pmi_ours) if number >= 0]
        return fields, self.passed + others


class TaskStreams:
    """Chooses the streams of a step's tasks, one task after another.

    Args:
        spec: of the step.
        is_routed: whether streams without a file go to srun.
    """

    def __init__(self, spec: "StepSpec", *, is_routed: bool) -> None:
        self._spec = spec
        self._is_routed = is_routed
        self._shared = _shared(spec["tasks"])
        self._files: dict[str, int] = {}  # shared files, by name
        self._labelled: list[str] = []  # files that are written with labels, by number

    def choose(self, task: Started, *, wants_stderr: bool) -> None:
        """Return where a task's streams go, and open the supervisor's files. Raises OSError."""
        spec = task.spec
        if self._spec["pty"] and spec["local"] == 0 and spec["in"] is None:
            self._make_terminal(task)
            return
        if spec["in"] is not None or not self._is_routed:
            task.opens.append((_from_root(spec["in"] or NULL), os.O_RDONLY, False))
            task.streams.append(-1)
        else:
            theirs, ours = os.pipe2(os.O_CLOEXEC)
            task.inlet_kind = PIPE
            task.passed.append(ours)
            task.temporary.append(theirs)
            task.streams.append(theirs)
        stdout = self._output(task, spec["out"], step_io.STDOUT, passes=False)
        task.streams.append(stdout)
        task.streams.append(self._output(task, spec["err"], step_io.STDERR, passes=wants_stderr))

    def _output(self, task: Started, path: "str | None", stream: int, *, passes: bool) -> int:
        """Return where an output stream goes, as `streams` has it."""
        number = -1
        if path is None and not self._is_routed:
            path = NULL
        if path is not None:
            path = _from_root(path)
            if not self._spec["label"] or path == NULL:
                return self._open_output(task, path, passes=passes)
            if path not in self._labelled:
                self._labelled.append(path)
                self._open_output(task, path, passes=True)
            number = self._labelled.index(path)
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        task.outlets.append((stream, number))
        task.passed.append(ours)
        task.temporary.append(theirs)
        return theirs

    def _open_output(self, task: Started, path: str, *, passes: bool) -> int:
        if path in self._files:
            return self._files[path]
        passes = (passes and path != NULL) or path in self._shared
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND  # as in Slurm: others write and cut it, too
        if not self._spec["append"] and path != NULL:
            flags |= os.O_TRUNC
        for number, (known, known_flags, is_passed) in enumerate(task.opens):
            if (known, known_flags) == (path, flags):
                task.opens[number] = (path, flags, passes or is_passed)
                return -1 - number
        task.opens.append((path, flags, passes))
        return -len(task.opens)

    def _make_terminal(self, task: Started) -> None:
        import fcntl
        import termios

        master, slave = os.openpty()
        os.set_inheritable(master, False)
        size = struct.pack("HHHH", self._spec["rows"] or 24, self._spec["columns"] or 80, 0, 0)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, size)
        if os.geteuid() == 0:
            os.fchown(slave, self._spec["uid"], self._spec["gid"])
        task.inlet_kind = TERMINAL
        task.outlets.append((step_io.STDOUT, -1))
        task.passed += [master, os.dup(master)]
        task.temporary.append(slave)
        task.streams = [slave, slave, slave]

    def opened(self, path: str, descriptor: int) -> "tuple[int, bool]":
        """Take a file that was passed on; return its number for labels or -1, and if it is kept."""
        is_labelled = self._spec["label"] and path in self._labelled
        if path in self._shared:
            self._files[path] = descriptor
        return self._labelled.index(path) if is_labelled else -1, path in self._shared


def _shared(tasks: "list[TaskSpec]") -> "set[str]":
    """Return the output files that several tasks write: they are opened once."""
    seen: set[str] = set()
    shared: set[str] = set()
    for task in tasks:
        paths = (task["out"], task["err"])
        own = {_from_root(path) for path in paths if path is not None and path != NULL}
        shared |= own & seen
        seen |= own
    return shared


def _from_root(path: str) -> str:
    """Return a path that means the same in any directory."""
    return os.path.join("/", path)
