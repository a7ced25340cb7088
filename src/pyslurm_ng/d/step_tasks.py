"""Starting a step's tasks: files, terminal, task prolog, process."""

import os
import select
import struct
from signal import SIGKILL

from pyslurm_ng._process import spawn
from pyslurm_ng.base.process_tree import stamp
from pyslurm_ng.d.step_files import AsUser, OutputFiles, open_input
from pyslurm_ng.d.step_streams import Inlet, Outlet, Poller, SrunLink
from pyslurm_ng.wire import step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_NULL = "/dev/null"
_PROLOG_LIMIT_S = 300
_LOGIN_LIMIT_S = 120
_ENVIRONMENT_MARK = b"\n-- environment --\n"
_SHOW_ENVIRONMENT = b"/usr/bin/printf '\\n-- environment --\\n'; /usr/bin/env -0; exit 0"
_OF_THE_SHELL = {b"_", b"PWD", b"OLDPWD"}
_FILES_STATUS = 53  # how Slurm reports that a script's files could not be opened: 0:53


class CannotStart(Exception):
    """The step cannot run; `status` is the wait status that stands for it."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


class Task:
    """One task of the step on this node."""

    __slots__ = ("inlet", "is_over", "outlets", "pid", "spec", "status", "task")

    def __init__(self, spec: "dict[str, Any]") -> None:
        self.spec = spec
        self.task: int = spec["task"]
        self.pid = 0
        self.status = 0
        self.is_over = False
        self.inlet: Inlet | None = None
        self.outlets: list[Outlet] = []


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
    ) -> None:
        self._say = say
        self._spec = spec
        self._poller = poller
        self._link = link
        self._joins = joins
        self._on_taken = on_taken
        self._as_user = AsUser(spec["uid"], spec["gid"], spec["groups"])
        self._files = OutputFiles(append=spec["append"])
        self._identity = {}
        if os.geteuid() == 0:
            self._identity = {"uid": spec["uid"], "gid": spec["gid"], "groups": spec["groups"]}
        self._environment = [item if isinstance(item, bytes) else os.fsencode(item)
                             for item in spec["env"]]  # fmt: skip
        self.cwd = spec["cwd"]
        self.notes: list[str] = []
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
        if task.spec["problem"]:
            self.notes.append(task.spec["problem"])
            task.status, task.is_over = 1 << 8, True
            return
        environment = self._environment + [os.fsencode(item) for item in task.spec["env"]]
        if spec.get("login"):
            environment = self._with_login(spec["login"], environment)
        for prolog in spec["task_prologs"]:
            environment = self._run_prolog(prolog, environment, stdout, stderr)
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

    def _with_login(self, login: "dict[str, Any]", environment: "list[bytes]") -> "list[bytes]":
        """Return an environment with what the user's login shell sets, as `su -` would.

        What the job brought itself wins; `login` has the shell and the values made up for lack of
        anything better, which the shell's own replace.
        """
        base: list[bytes] = list(login["env"])
        name = os.path.basename(login["shell"])
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        null = os.open(_NULL, os.O_RDWR | os.O_CLOEXEC)
        try:
            pid = spawn(
                [os.fsencode(login["shell"])],
                # Every shell takes a dash before its name to mean a login.
                [os.fsencode(f"-{name}"), b"-c", _SHOW_ENVIRONMENT],
                base, stdin=null, stdout=theirs, stderr=null, cwd=os.fsencode(login["home"]),
                cgroup_fds=self._joins, **self._identity,
            )  # fmt: skip
        except OSError as error:
            self.notes.append(f"Unable to run {login['shell']}: {error.strerror}")
            os.close(ours)
            return environment
        finally:
            os.close(theirs)
            os.close(null)
        said = _read_all(ours, _LOGIN_LIMIT_S)
        os.close(ours)
        _, found, shown = said.rpartition(_ENVIRONMENT_MARK)
        if not found:
            os.kill(pid, SIGKILL)  # not waited for yet, so it is still this process
            self.notes.append("Failed to load the user's login environment")
        os.waitpid(pid, 0)
        made_up = set(base)
        kept = {item.partition(b"=")[0] for item in environment if item not in made_up}
        got = [item for item in shown.split(b"\0") if b"=" in item]
        got = [item for item in got if item.partition(b"=")[0] not in kept | _OF_THE_SHELL]
        names = {item.partition(b"=")[0] for item in got}
        return [item for item in environment if item.partition(b"=")[0] not in names] + got

    def _run_prolog(
        self, program: str, environment: "list[bytes]", stdout: int, stderr: int
    ) -> "list[bytes]":
        """Run a task prolog as the user and do what its output says; return the environment."""
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        null = os.open(_NULL, os.O_RDONLY | os.O_CLOEXEC)
        path = os.fsencode(program)
        try:
            pid = spawn(
                [path], [path], environment, stdin=null, stdout=theirs, stderr=stderr,
                cwd=os.fsencode(self.cwd), cgroup_fds=self._joins, **self._identity,
            )  # fmt: skip
        except OSError as error:
            self.notes.append(f"Unable to run task prolog {program}: {error.strerror}")
            os.close(ours)
            return environment
        finally:
            os.close(theirs)
            os.close(null)
        said = _read_all(ours, _PROLOG_LIMIT_S)
        os.close(ours)
        _, status = os.waitpid(pid, 0)
        if status:
            raise CannotStart(status, f"TaskProlog {program} failed with status {status}")
        return self._obey(said, environment, stdout)

    def _obey(self, said: bytes, environment: "list[bytes]", stdout: int) -> "list[bytes]":
        for line in said.splitlines():
            word, _, rest = line.partition(b" ")
            if word == b"print":
                os.write(stdout, rest + b"\n")
                continue
            if word not in (b"export", b"unset"):
                continue
            name = rest.strip().partition(b"=")[0].strip()
            environment = [item for item in environment if not item.startswith(name + b"=")]
            if word == b"export":
                environment.append(name + b"=" + rest.partition(b"=")[2])
        return environment


def _read_all(descriptor: int, limit_s: int) -> bytes:
    """Read up to the end, at most 1 MiB, at most so long."""
    said = b""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while len(said) < 1 << 20 and poll.poll(limit_s * 1000):
        data = os.read(descriptor, 65536)
        if not data:
            break
        said += data
    return said


def notice(text: str) -> bytes:
    """Return a line as Slurm's supervisor writes it into a job's stderr."""
    return f"[{stamp()}] error: {text}\n".encode("utf-8", "surrogateescape")
