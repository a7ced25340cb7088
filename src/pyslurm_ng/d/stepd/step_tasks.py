"""Starting a step's tasks: files, terminal, task prolog, process."""

import os
import struct

from pyslurm_ng._process import spawn
from pyslurm_ng.d.stepd.own_process import identity_of
from pyslurm_ng.d.stepd.step_files import AsUser, OutputFiles, open_input
from pyslurm_ng.d.stepd.task_programs import TaskPrograms
from pyslurm_ng.daemon.process_tree import stamp
from pyslurm_ng.wire import step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Protocol

    class Tell(Protocol):
        """Sends a message and descriptors."""

        def __call__(self, fields: dict[str, Any], passed: Sequence[int] = ()) -> None: ...


_NULL = "/dev/null"
PIPE, TERMINAL = 1, 2
"""Where a task's standard input comes from, if the supervisor feeds it."""
FILES_STATUS = 53
"""How Slurm reports that a script's files could not be opened: 0:53."""


class CannotStart(Exception):
    """The step cannot run; `status` is the wait status that stands for it."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class Started:
    """One task while it is started; `passed` are the supervisor's ends of its streams."""

    __slots__ = ("inlet_kind", "is_over", "outlets", "passed", "pid", "spec", "status", "stderr")

    def __init__(self, spec: "dict[str, Any]") -> None:
        self.spec = spec
        self.pid = 0
        self.status = 0
        self.is_over = False
        self.inlet_kind = 0
        self.outlets: list[tuple[int, int]] = []
        self.passed: list[int] = []
        self.stderr = -1  # a copy for its epilogs, if there are any

    def close(self) -> None:
        """Close what the supervisor has by now."""
        for descriptor in (*self.passed, self.stderr):
            if descriptor >= 0:
                os.close(descriptor)


class TaskStarter:
    """Opens what tasks need and starts them, in the launcher's process (see `launcher`).

    Args:
        spec: of the step.
        joins: descriptors of its control groups.
        tell: sends a message with descriptors to the supervisor.
        is_routed: whether streams without a file go to srun.
    """

    def __init__(
        self, spec: "dict[str, Any]", joins: "list[int]", tell: "Tell", *, is_routed: bool
    ) -> None:
        self._spec = spec
        self._joins = joins
        self._tell = tell
        self._is_routed = is_routed
        self._as_user = AsUser(spec["uid"], spec["gid"], spec["groups"], spec["umask"])
        self._files = OutputFiles(append=spec["append"])
        self._identity = identity_of(spec)
        self._programs = TaskPrograms(spec, joins)
        self._environment = [item if isinstance(item, bytes) else os.fsencode(item)
                             for item in spec["env"]]  # fmt: skip
        self._cwd: str = spec["cwd"]
        self._notes = self._programs.notes
        self._stderr = -1

    def run(self) -> None:
        """Start all tasks. Raises CannotStart."""
        self._find_directory()
        try:
            for task in self._spec["tasks"]:
                self._start(Started(task))
        finally:
            self._say_notes()

    def notes_for_srun(self) -> "list[str]":
        """Return what the user is to be told by the supervisor, and forget it."""
        notes = list(self._notes)
        self._notes.clear()
        return notes

    def _say_notes(self) -> None:
        """Write what has been noted, as soon as there is a place to write it to."""
        if self._is_routed:
            return
        for text in self.notes_for_srun():
            if self._stderr >= 0:
                try:
                    os.write(self._stderr, notice(text))
                except OSError:
                    continue

    def _find_directory(self) -> None:
        """Use /tmp when the user cannot enter the working directory, and say so."""
        with self._as_user:
            try:
                folder = os.open(self._cwd, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                allowed = os.access(self._cwd, os.X_OK, effective_ids=True)
                os.close(folder)
                problem = "" if allowed else "Permission denied"
            except OSError as error:
                problem = error.strerror or str(error)
        if problem:
            self._notes.append(f"couldn't chdir to `{self._cwd}': {problem}: going to /tmp instead")
            self._cwd = "/tmp"

    def _start(self, task: "Started") -> None:
        """Open one task's files and start it.

        Raises:
            CannotStart: its files cannot be opened, or identity and limits not be set.
        """
        if self._spec["pty"] and task.spec["local"] == 0:
            streams = self._open_terminal(task)
        else:
            streams = self._open_streams(task)
            self._say_notes()
        if self._spec["task_epilogs"]:
            task.stderr = os.dup(streams[2])
        self._spawn(task, *streams)
        for descriptor in set(streams):
            os.close(descriptor)
        self._say_notes()
        self._tell(
            {
                "task": task.spec["local"], "pid": task.pid, "status": task.status,
                "is_over": task.is_over, "inlet": task.inlet_kind, "outlets": task.outlets,
                "has_stderr": task.stderr >= 0, "notes": self.notes_for_srun(),
            },
            task.passed + ([task.stderr] if task.stderr >= 0 else []),
        )  # fmt: skip
        task.close()

    # Streams ----------------------------------------------------------------------------------

    def _open_streams(self, task: "Started") -> "tuple[int, int, int]":
        spec = task.spec
        try:
            stdin = self._open_stdin(task, spec["in"])
            stdout = self._open_stdout(task, spec["out"], step_io.STDOUT)
            if spec["err"] == spec["out"] and spec["out"] is not None and not self._spec["label"]:
                stderr = os.dup(stdout)
            else:
                stderr = self._open_stdout(task, spec["err"], step_io.STDERR)
        except OSError as error:
            name = error.filename or "stdio"
            text = f"Could not open stdio file {name}: {error.strerror}"
            raise CannotStart(FILES_STATUS, text) from None
        if self._stderr < 0 and spec["err"] is not None and not self._spec["label"]:
            self._stderr = os.dup(stderr)
            self._tell({"stderr": True}, [self._stderr])
        return stdin, stdout, stderr

    def _open_stdin(self, task: "Started", path: "str | None") -> int:
        if path is not None:
            with self._as_user:
                return open_input(path)
        if not self._is_routed:
            return os.open(_NULL, os.O_RDONLY | os.O_CLOEXEC)
        theirs, ours = os.pipe2(os.O_CLOEXEC)
        task.inlet_kind = PIPE
        task.passed.append(ours)
        return theirs

    def _open_stdout(self, task: "Started", path: "str | None", stream: int) -> int:
        label = self._spec["label"]
        file = -1
        if path is not None:
            with self._as_user:
                opened = self._files.get(path)
            if not label or path == _NULL:
                return os.dup(opened)
            file, is_new = self._files.number(path)
            if is_new:
                self._tell({"file": file}, [opened])
        elif not self._is_routed:
            return os.open(_NULL, os.O_WRONLY | os.O_CLOEXEC)
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        task.outlets.append((stream, file))
        task.passed.append(ours)
        return theirs

    def _open_terminal(self, task: "Started") -> "tuple[int, int, int]":
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
        return slave, slave, slave

    # Process ----------------------------------------------------------------------------------

    def _spawn(self, task: "Started", stdin: int, stdout: int, stderr: int) -> None:
        spec = self._spec
        if task.spec["problem"]:
            self._notes.append(task.spec["problem"])
            task.status, task.is_over = 1 << 8, True
            return
        environment = self._environment + [os.fsencode(item) for item in task.spec["env"]]
        if spec.get("login"):
            environment = self._programs.login(spec["login"], environment)
        for prolog in spec["task_prologs"]:
            status, environment = self._programs.prolog(
                prolog, environment, self._cwd, stdout, stderr
            )
            if status:
                task.status, task.is_over = status, True
                return
        argv = [os.fsencode(word) for word in spec["programs"][task.spec["program"]]]
        try:
            task.pid = spawn(
                self._candidates(argv[0], environment),
                argv,
                environment,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=os.fsencode(self._cwd),
                umask=spec["umask"],
                rlimits=[tuple(limit) for limit in spec["rlimits"]],
                cpus=task.spec["cpus"],
                memory_mode=task.spec["memory_mode"],
                memory_nodes=task.spec["memory_nodes"],
                report=task.spec["report"].encode(),
                cgroup_fds=self._joins,
                terminal=task.inlet_kind == TERMINAL,
                is_sibling=True,
                nice=spec["nice"],
                pid_name=b"SLURM_TASK_PID",
                **self._identity,
            )
        except (OSError, ValueError) as error:
            self._not_started(task, argv[0], error)

    def _not_started(self, task: "Started", program: bytes, error: "OSError | ValueError") -> None:
        """Give a task that could not begin the exit code that Slurm gives it: the errno."""
        if not isinstance(error, OSError) or error.filename not in ("exec", "chdir", "fork"):
            where = getattr(error, "filename", None) or "start"
            raise CannotStart(FILES_STATUS, f"{where}: {getattr(error, 'strerror', error)}")
        self._notes.append(f"execve(): {os.fsdecode(program)}: {error.strerror}")
        task.status = (error.errno or 1) << 8
        task.is_over = True

    @staticmethod
    def _candidates(program: bytes, environment: "list[bytes]") -> "list[bytes]":
        """Return where to look for a program: itself, or in the directories of the task's PATH."""
        if b"/" in program:
            return [program]
        path = b"/usr/local/bin:/usr/bin:/bin"
        for entry in environment:
            if entry.startswith(b"PATH="):
                path = entry[5:]
        return [(folder or b".") + b"/" + program for folder in path.split(b":")]


def notice(text: str) -> bytes:
    """Return a line as Slurm's supervisor writes it into a job's stderr."""
    return f"[{stamp()}] error: {text}\n".encode("utf-8", "surrogateescape")
