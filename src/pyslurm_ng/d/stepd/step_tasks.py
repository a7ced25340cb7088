"""Starting a step's tasks: files, terminal, task prolog, process."""

import os
import struct

from pyslurm_ng._process import spawn
from pyslurm_ng.base.process_tree import stamp
from pyslurm_ng.d.stepd.step_files import AsUser, OutputFiles, open_input
from pyslurm_ng.d.stepd.step_streams import Inlet, Outlet, Poller, SrunLink
from pyslurm_ng.d.stepd.task import Task
from pyslurm_ng.d.stepd.task_programs import TaskPrograms, identity_of
from pyslurm_ng.wire import step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pyslurm_ng.d.stepd.task_programs import Wait

_NULL = "/dev/null"
_FILES_STATUS = 53  # how Slurm reports that a script's files could not be opened: 0:53


class CannotStart(Exception):
    """The step cannot run; `status` is the wait status that stands for it."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class TaskStarter:
    """Opens what tasks need and starts them; made once for a step, then done with."""

    def __init__(
        self,
        spec: "dict[str, Any]",
        poller: Poller,
        link: "SrunLink | None",
        joins: "list[int]",
        on_taken: "Callable[[], None]",
        say: "Callable[[str, int], None]",
        wait: "Wait",
    ) -> None:
        self._say = say
        self._spec = spec
        self._poller = poller
        self._link = link
        self._joins = joins
        self._on_taken = on_taken
        self._as_user = AsUser(spec["uid"], spec["gid"], spec["groups"])
        self._files = OutputFiles(append=spec["append"])
        self._identity = identity_of(spec)
        self._programs = TaskPrograms(spec, joins, wait)
        self._environment = [item if isinstance(item, bytes) else os.fsencode(item)
                             for item in spec["env"]]  # fmt: skip
        self.cwd = spec["cwd"]
        self.notes = self._programs.notes
        self.stderr = -1

    def find_directory(self) -> None:
        """Use /tmp when the user cannot enter the working directory, and say so."""
        with self._as_user:
            try:
                folder = os.open(self.cwd, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
                allowed = os.access(self.cwd, os.X_OK, effective_ids=True)
                os.close(folder)
                problem = "" if allowed else "Permission denied"
            except OSError as error:
                problem = error.strerror or str(error)
        if problem:
            self.notes.append(f"couldn't chdir to `{self.cwd}': {problem}: going to /tmp instead")
            self.cwd = "/tmp"

    def start(self, task: Task) -> None:
        """Open one task's files and start it.

        Raises:
            CannotStart: its files cannot be opened, or identity and limits not be set.
        """
        if self._spec["pty"] and task.spec["local"] == 0:
            self._start_on_terminal(task)
            return
        stdin, stdout, stderr = self._open_streams(task)
        self.say_notes()
        try:
            self._spawn(task, stdin, stdout, stderr)
        finally:
            for descriptor in {stdin, stdout, stderr}:
                os.close(descriptor)

    def say_notes(self) -> None:
        """Write what has been noted, as soon as there is a place to write it to."""
        for text in self.notes:
            self._say(text, self.stderr)
        self.notes.clear()

    def close(self) -> None:
        """Close our copies of shared files."""
        self._files.close()
        for descriptor in self._joins:
            os.close(descriptor)

    # Streams ----------------------------------------------------------------------------------

    def _open_streams(self, task: Task) -> "tuple[int, int, int]":
        spec = task.spec
        opened: list[int] = []
        try:
            stdin = self._open_stdin(task, spec["in"])
            opened.append(stdin)
            stdout = self._open_stdout(task, spec["out"], step_io.STDOUT)
            opened.append(stdout)
            if spec["err"] == spec["out"] and spec["out"] is not None and not self._spec["label"]:
                stderr = os.dup(stdout)
            else:
                stderr = self._open_stdout(task, spec["err"], step_io.STDERR)
            opened.append(stderr)
            if self.stderr < 0 and spec["err"] is not None and not self._spec["label"]:
                self.stderr = os.dup(stderr)
        except OSError as error:
            for descriptor in opened:
                os.close(descriptor)
            name = error.filename or "stdio"
            text = f"Could not open stdio file {name}: {error.strerror}"
            raise CannotStart(_FILES_STATUS, text) from None
        return stdin, stdout, stderr

    def _open_stdin(self, task: Task, path: "str | None") -> int:
        if path is not None:
            with self._as_user:
                return open_input(path)
        if self._link is None:
            return os.open(_NULL, os.O_RDONLY | os.O_CLOEXEC)
        theirs, ours = os.pipe2(os.O_CLOEXEC)
        task.inlet = Inlet(self._poller, ours, self._on_taken, is_terminal=False)
        return theirs

    def _open_stdout(self, task: Task, path: "str | None", kind: int) -> int:
        label = self._spec["label"]
        if path is not None and not (label and path != _NULL):
            with self._as_user:
                return os.dup(self._files.get(path))
        file = -1
        prefix = b""
        if path is not None:
            with self._as_user:
                file = os.dup(self._files.get(path))
            prefix = b"%*d: " % (self._spec["label_width"], task.task)
        elif self._link is None:
            return os.open(_NULL, os.O_WRONLY | os.O_CLOEXEC)
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        link = self._link if path is None else None
        outlet = Outlet(
            self._poller, ours, task=task.task, kind=kind, link=link, file=file, label=prefix
        )
        task.outlets.append(outlet)
        return theirs

    def _start_on_terminal(self, task: Task) -> None:
        import fcntl
        import termios

        master, slave = os.openpty()
        os.set_inheritable(master, False)
        size = struct.pack("HHHH", self._spec["rows"] or 24, self._spec["columns"] or 80, 0, 0)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, size)
        if os.geteuid() == 0:
            os.fchown(slave, self._spec["uid"], self._spec["gid"])
        link = self._link
        task.outlets.append(
            Outlet(self._poller, os.dup(master), task=task.task, kind=step_io.STDOUT, link=link)
        )
        task.inlet = Inlet(self._poller, master, self._on_taken, is_terminal=True)
        try:
            self._spawn(task, slave, slave, slave, terminal=True)
        finally:
            os.close(slave)

    # Process ----------------------------------------------------------------------------------

    def _spawn(
        self, task: Task, stdin: int, stdout: int, stderr: int, *, terminal: bool = False
    ) -> None:
        spec = self._spec
        if spec["task_epilogs"]:
            task.stderr = os.dup(stderr)
        if task.spec["problem"]:
            self.notes.append(task.spec["problem"])
            task.status, task.is_over = 1 << 8, True
            return
        environment = self._environment + [os.fsencode(item) for item in task.spec["env"]]
        if spec.get("login"):
            environment = self._programs.login(spec["login"], environment)
        for prolog in spec["task_prologs"]:
            status, environment = self._programs.prolog(
                prolog, environment, self.cwd, stdout, stderr
            )
            if status:
                task.status, task.is_over = status, True
                return
        argv = [os.fsencode(word) for word in task.spec["argv"]]
        try:
            task.pid = spawn(
                self._candidates(argv[0], environment),
                argv,
                environment,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                cwd=os.fsencode(self.cwd),
                umask=spec["umask"],
                rlimits=[tuple(limit) for limit in spec["rlimits"]],
                cpus=task.spec["cpus"],
                memory_mode=task.spec["memory_mode"],
                memory_nodes=task.spec["memory_nodes"],
                report=task.spec["report"].encode(),
                cgroup_fds=self._joins,
                terminal=terminal,
                nice=spec["nice"],
                pid_name=b"SLURM_TASK_PID",
                **self._identity,
            )
        except (OSError, ValueError) as error:
            self._not_started(task, argv[0], error)

    def _not_started(self, task: Task, program: bytes, error: "OSError | ValueError") -> None:
        """Give a task that could not begin the exit code that Slurm gives it: the errno."""
        if not isinstance(error, OSError) or error.filename not in ("exec", "chdir", "fork"):
            where = getattr(error, "filename", None) or "start"
            raise CannotStart(_FILES_STATUS, f"{where}: {getattr(error, 'strerror', error)}")
        self.notes.append(f"execve(): {os.fsdecode(program)}: {error.strerror}")
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
