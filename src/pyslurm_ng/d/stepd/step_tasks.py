"""Starting a step's tasks: files, terminal, task prolog, process.

A task's own process opens the task's files before it becomes the task, so the user's files can keep
no other process waiting, and a task costs no more than one process.

`TaskStarter.take` returns what the supervisor has to know, maps with descriptors beside:

    {file}              a file to be written with labels: its number
    {stderr}            a copy of the step's stderr, for notices
    {task, pid, status, is_over, inlet (0: none, 1: a pipe, 2: a terminal), outlets (stream, file
     number or -1), has_stderr, has_pmi, notes}
                        with descriptors of inlet, outlets, stderr and the task's PMI
    {failed, text, notes, trace}    the step cannot start; trace only of a bug
    {done, notes}
    {}                  the end, without a word: it was cancelled or lost
"""

import errno
import os
import time
from stat import S_IROTH, S_ISREG

from pyslurm_ng.d.stepd.own_process import identity_of
from pyslurm_ng.d.stepd.task_streams import NULL, TERMINAL, Started, TaskStreams
from pyslurm_ng.daemon.process_tree import stamp
from pyslurm_ng.kernels.process import Background

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.d.spool.step_contract import StepSpec
    from pyslurm_ng.d.stepd.plugin_host import PluginHost
    from pyslurm_ng.d.stepd.task_programs import TaskPrograms

_LONGEST_INTERPRETER = 256  # so much of a script is read by the kernel
FILES_STATUS = 53
"""How Slurm reports that a script's files could not be opened: 0:53."""
PLUGIN_STATUS = 1 << 8
"""A required plugin of plugstack.conf failed: exit code 1, as in Slurm."""
FORK_LIMIT_S = 60.0
"""Another job may have all processes there are for a while."""
FORK_PAUSE_S = 0.1
_SPARE = "/tmp"


class CannotStart(Exception):
    """The step cannot run; `status` is the wait status that stands for it.

    `drain` says what is wrong with the node, where the job is not the cause; else it is "".
    """

    def __init__(self, status: int, text: str, drain: str = "") -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.drain = drain


class TaskStarter:
    """Starts tasks, one after another, without a wait for any.

    Processes that are to become tasks are the step's from the beginning: a signal that one gets
    while it opens its files is the task's.

    Args:
        spec: of the step.
        joins: descriptors of its control groups.
        is_routed: whether streams without a file go to srun.
        programs: what has to run before each task, and may be waited for: we are the launcher
            then, and the tasks are our parent's children.
        plugins: of plugstack.conf, which start the tasks then; only with `programs`.
    """

    def __init__(
        self,
        spec: "StepSpec",
        joins: "list[int]",
        *,
        is_routed: bool,
        programs: "TaskPrograms | None" = None,
        plugins: "PluginHost | None" = None,
    ) -> None:
        """Begin with the first task. Raises OSError."""
        self._spec = spec
        self._joins = joins
        self._is_routed = is_routed
        self._streams = TaskStreams(spec, is_routed=is_routed)
        self._programs = programs
        self._plugins = plugins
        self._started: int | OSError | str | None = None  # what has become of a task of `plugins`
        self._identity = identity_of(spec)
        self._environment = spec["env"]
        self._cwd: str = spec["cwd"]
        self.notes: list[str] = []
        self._stderr = -1
        self._messages: list[tuple[dict[str, Any], list[int]]] = []
        self._is_cancelled = False
        self._todo = iter(spec["tasks"])
        self._task: Started | None = None
        self._is_opening = False  # and does nothing else
        self._holds = False  # it is there, but waits for its programs
        self._again_at = 0.0  # when a fork that failed is tried again
        self._give_up = 0.0
        self._background = Background()
        try:
            self._next()
        except CannotStart as problem:
            self._fail(problem)

    # What the supervisor calls ----------------------------------------------------------------

    def fileno(self) -> int:
        """Return what is ready to read when there is a message."""
        return self._background.fileno()

    def take(self) -> "tuple[dict[str, Any] | None, list[int]]":
        """Return the next message and its descriptors; None if there is none yet."""
        while not self._messages:
            started, self._started = self._started, None
            event = self._background.take() if started is None else started
            is_due = self._again_at and (time.monotonic() > self._again_at or self._is_cancelled)
            if event is None and not is_due:
                return None, []
            try:
                if event is None:
                    self._try_again()
                elif event == []:
                    self._prepare()
                elif isinstance(event, list):
                    self._on_opened(event)
                else:
                    self._on_begun(event)
            except CannotStart as problem:
                self._fail(problem)
        return self._messages.pop(0)

    pid = 0  # as `Launcher` has one

    @property
    def next_task_pid(self) -> int:
        """The process that becomes a task, or has become it by now; 0 if there is none."""
        return self._background.pid

    def kill(self) -> None:
        """Start nothing more. Only before the supervisor reaps."""
        self._is_cancelled = True
        self._background.cancel()

    def close(self) -> None:
        """Close the channel.

        Files stay open: to close one may take for ever, too, and has to wait until we end.
        """
        self._background.close()

    # One task after another -------------------------------------------------------------------

    def _fail(self, problem: CannotStart) -> None:
        fields = {"failed": problem.status, "text": problem.text, "notes": self._taken_notes()}
        self._messages.append((fields, []))

    def _next(self) -> None:
        """Begin with the next task's files. Raises CannotStart."""
        spec = None if self._is_cancelled else next(self._todo, None)
        if spec is None:
            end = {} if self._is_cancelled else {"done": True, "notes": self._taken_notes()}
            self._messages.append((end, []))
            return
        self._task = task = Started(spec)
        try:
            wants_stderr = self._stderr < 0 or bool(self._spec["task_epilogs"])
            self._streams.choose(task, wants_stderr=wants_stderr)
            if self._spec["mpi"] is not None and self._spec["mpi"]["kind"] == "pmi2":
                task.open_pmi()
        except OSError as error:
            raise CannotStart(
                FILES_STATUS, f"Could not open stdio file stdio: {error.strerror}"
            ) from None
        self._keep_stderr(task, task.streams[2])
        self._begin(task)

    def _begin(self, task: Started) -> None:
        """Have a task's files opened and, if nothing has to be done in between, start it.

        Plugins fork the task themselves.
        """
        self._is_opening = self._plugins is not None or bool(task.spec["problem"])
        self._holds = self._programs is not None and not self._is_opening
        if self._is_opening or self._holds:
            task.opens = [(path, flags, True) for path, flags, _ in task.opens]
        if self._is_opening:
            self._start(task, [], [b"open"], self._environment)
        else:
            self._start_program(task, self._task_environment(task))

    def _try_again(self) -> None:
        """Make the process that could not be had. Raises CannotStart."""
        self._again_at = 0.0
        assert self._task is not None
        if self._is_cancelled:
            self._messages.append(({}, []))
        else:
            self._begin(self._task)

    def _task_environment(self, task: Started) -> "list[bytes]":
        pmi = [b"PMI_FD=%d" % task.pmi] if task.pmi >= 0 else []
        return self._environment + task.spec["env"] + pmi

    def _program(self, task: Started) -> "list[str]":
        """Return a task's program and its arguments; many tasks have the same."""
        program: list[str] = self._spec["programs"][task.spec["program"]]
        return program

    def _start_program(self, task: Started, environment: "list[bytes]") -> None:
        argv = [os.fsencode(word) for word in self._program(task)]
        self._start(task, _candidates(argv[0], environment), argv, environment)

    def _start(
        self, task: Started, paths: "list[bytes]", argv: "list[bytes]", environment: "list[bytes]"
    ) -> None:
        """Begin a process. Raises CannotStart."""
        how: dict[str, Any] = {
            **_how(self._spec, task),
            "cwd": os.fsencode(self._cwd),
            "report": self._report(task),
            "cgroup_fds": self._joins,
            "is_sibling": self._programs is not None,
            "kept": -1 if self._is_opening else task.pmi,
            **self._identity,
        }
        try:
            if self._plugins is not None and not self._is_opening:
                self._started = self._plugins.start(task.spec, paths, argv, environment, how)
                return
            opens = [(os.fsencode(path), flags, passes) for path, flags, passes in task.opens]
            self._background.begin(paths, argv, environment, opens=opens, holds=self._holds, **how)
        except (OSError, ValueError) as error:
            self._on_begun(error)

    def _report(self, task: Started) -> bytes:
        """Return what stands before all that the task writes: what is noted by now, too."""
        notes = [] if self._is_routed or self._spec["label"] else self.notes
        return b"".join(map(notice, notes)) + task.spec["report"].encode()

    def _on_opened(self, descriptors: "list[int]") -> None:
        """Take the files that we get, too: for notices, labels, epilogs and other tasks."""
        task = self._task
        assert task is not None
        numbers = [number for number, (_, _, passes) in enumerate(task.opens) if passes]
        passed = dict(zip(numbers, descriptors, strict=True))
        for number, descriptor in passed.items():
            file, is_shared = self._streams.opened(task.opens[number][0], descriptor)
            if file >= 0:
                self._messages.append(({"file": file}, [os.dup(descriptor)]))
            if not is_shared and self._programs is not None:
                task.temporary.append(descriptor)
        stderr = task.streams[2]
        stderr = passed.get(-1 - stderr, -1) if stderr < 0 else stderr
        self._keep_stderr(task, stderr)
        if self._is_opening or self._holds:
            task.streams = [
                passed[-1 - stream] if stream < 0 else stream for stream in task.streams
            ]
            task.opens = []

    def _keep_stderr(self, task: Started, stderr: int) -> None:
        if stderr < 0:
            return
        if self._stderr < 0 and task.spec["err"] not in (None, NULL) and not self._spec["label"]:
            self._stderr = os.dup(stderr)
            self._messages.append(({"stderr": True}, [os.dup(stderr)]))
        if self._spec["task_epilogs"] and task.stderr < 0:
            task.stderr = os.dup(stderr)

    def _on_begun(self, what: "int | OSError | ValueError | str") -> None:
        """Take that a task's process has begun, or opened its files. Raises CannotStart."""
        task = self._task
        assert task is not None
        if isinstance(what, OSError) and what.filename == "chdir" and self._cwd != _SPARE:
            self.notes.append(
                f"couldn't chdir to `{self._cwd}': {what.strerror}: going to {_SPARE} instead"
            )
            self._cwd = _SPARE
            self._begin(task)
            return
        if isinstance(what, OSError) and what.filename == "fork" and what.errno == errno.EAGAIN:
            now = time.monotonic()
            self._give_up = self._give_up or now + FORK_LIMIT_S
            if now > self._give_up:
                raise CannotStart(FILES_STATUS, f"fork: {what.strerror}")
            self._again_at = now + FORK_PAUSE_S
            return
        self._give_up = 0.0
        if not isinstance(what, int):
            self._not_started(task, what)
        elif self._is_opening:
            self._is_opening = False
            self._prepare()
            if not task.is_over:
                return
        elif not task.is_over:
            if not self._is_routed:
                self.notes.clear()  # they are written
            task.pid = what
        self._messages.append(task.message(self._taken_notes()))
        self._next()

    def _prepare(self) -> None:
        """Run what comes before a task that has its files, then start it."""
        task = self._task
        assert task is not None
        environment = self._task_environment(task)
        if task.spec["problem"]:
            self.notes.append(task.spec["problem"])
            task.status, task.is_over = 1 << 8, True
        elif self._programs is not None:
            task.status, environment = self._programs.before(
                environment, self._cwd, task.streams[1], task.streams[2],
                self._background.pid if self._holds else 0,
            )  # fmt: skip
            task.is_over = bool(task.status)
            self.notes += self._programs.notes
            self._programs.notes.clear()
        if self._holds:
            argv = [os.fsencode(word) for word in self._program(task)]
            paths = [] if task.is_over else _candidates(argv[0], environment)
            self._background.go_on(paths, argv, environment, self._report(task))
        elif not task.is_over:
            self._start_program(task, environment)

    def _not_started(self, task: Started, error: "OSError | ValueError | str") -> None:
        """Give a task that could not begin the exit code that Slurm gives it: the errno.

        A text is the line of a plugin that would not have it.
        """
        if isinstance(error, str):
            self.notes.append(error)
            task.status, task.is_over = PLUGIN_STATUS, True
            return
        where = getattr(error, "filename", None) or "start"
        why = getattr(error, "strerror", error)
        if isinstance(where, bytes):
            text = f"Could not open stdio file {os.fsdecode(where)}: {why}"
            raise CannotStart(FILES_STATUS, text)
        if not isinstance(error, OSError) or where not in ("exec", "chdir", "fork"):
            raise CannotStart(FILES_STATUS, f"{where}: {why}")
        if where == "exec" and not self._is_routed:
            self.notes.clear()
        subject = _subject(self._program(task)[0], self._spec, error.errno)
        self.notes.append(f"execve(): {subject}: {why}")
        task.status = (error.errno or 1) << 8
        task.is_over = True

    def _taken_notes(self) -> "list[str]":
        """Return what the user is to be told by the supervisor, and forget it."""
        notes = list(self.notes)
        self.notes.clear()
        return notes


def _how(spec: "StepSpec", task: Started) -> "dict[str, Any]":
    """Return how a task's process is started, as far as that is the step's and the task's own."""
    stdin, stdout, stderr = task.streams
    return {
        "stdin": stdin,
        "stdout": stdout,
        "stderr": stderr,
        "umask": spec["umask"],
        "rlimits": [(number, soft, hard) for number, soft, hard in spec["rlimits"]],
        "cpus": task.spec["cpus"],
        "memory_mode": task.spec["memory_mode"],
        "memory_nodes": task.spec["memory_nodes"],
        "terminal": task.inlet_kind == TERMINAL,
        "nice": spec["nice"],
        "pid_name": b"SLURM_TASK_PID",
    }


def _candidates(program: bytes, environment: "list[bytes]") -> "list[bytes]":
    """Return where to look for a program: in the directories of the task's PATH, then as it is.

    A name without a slash that is in none of them is looked for in the working directory. As in
    Slurm no directory stands for a PATH that the task has not got.
    """
    if b"/" in program or not program:
        return [program]
    path = next((entry[5:] for entry in environment if entry.startswith(b"PATH=")), None)
    folders = [] if path is None else [folder or b"." for folder in path.split(b":")]
    return [*(folder + b"/" + program for folder in folders), program]


def notice(text: str) -> bytes:
    """Return a line as Slurm's supervisor writes it into a job's stderr."""
    return f"[{stamp()}] error: {text}\n".encode("utf-8", "surrogateescape")


def _subject(program: str, spec: "StepSpec", number: "int | None") -> str:
    """Return what a program that cannot begin fails for: itself, or the interpreter it names."""
    # A batch script is its user's, but the file is root's.
    owners = {spec["uid"], 0} if spec["is_batch"] else {spec["uid"]}
    missing = _interpreter(program, owners) if number == errno.ENOENT else ""
    return f"bad interpreter({missing})" if missing else program


def _interpreter(path: str, owners: "set[int]") -> str:
    """Return what the first line of a script calls its interpreter, "" for what is no script.

    The supervisor has more rights than the user, so only what the user may read is looked at.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, ValueError):
        return ""
    try:
        status = os.fstat(file)
        is_theirs = status.st_uid in owners or bool(status.st_mode & S_IROTH)
        line = os.read(file, _LONGEST_INTERPRETER) if S_ISREG(status.st_mode) and is_theirs else b""
    except OSError:
        return ""
    finally:
        os.close(file)
    return os.fsdecode(line[2:].partition(b"\n")[0].strip()) if line.startswith(b"#!") else ""
