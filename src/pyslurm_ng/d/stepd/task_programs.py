"""Programs that a supervisor runs for its tasks: TaskProlog, TaskEpilog, the user's login shell.

All run as the user, in the step's control groups, with the task's environment. Before a task starts
the launcher waits for them, not the supervisor, so that a prolog that hangs can be cancelled; after
its end they run beside the others.
"""

import os
import select
import time
from _signal import SIGKILL  # type: ignore[import-not-found]

from pyslurm_ng.d.stepd.own_process import fork_own, identity_of
from pyslurm_ng.daemon.process_tree import descendants, signal_below
from pyslurm_ng.kernels.process import spawn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from pyslurm_ng.d.spool.step_contract import LoginShell, StepSpec
    from pyslurm_ng.d.stepd.task import Task

EPILOG_LIMIT_S = 5.0
"""As long as Slurm gives a task epilog before it and what it started are killed."""
_PROLOG_LIMIT_S = 300.0
_LOGIN_LIMIT_S = 120.0
_MOST_BYTES = 1 << 20
_NULL = "/dev/null"
_NOT_RUN = 1 << 8
_ENVIRONMENT_MARK = b"\n-- environment --\n"
_SHOW_ENVIRONMENT = b"/usr/bin/printf '\\n-- environment --\\n'; /usr/bin/env -0; exit 0"
_OF_THE_SHELL = {b"_", b"PWD", b"OLDPWD"}


class TaskPrograms:
    """Runs what comes before a task; `notes` gathers what the user should be told.

    Args:
        spec: of the step.
        joins: descriptors of the step's control groups.
    """

    def __init__(self, spec: "StepSpec", joins: "list[int]") -> None:
        self._spec = spec
        self._joins = joins
        self._identity = identity_of(spec)
        self.notes: list[str] = []

    def before(
        self, environment: "list[bytes]", cwd: str, stdout: int, stderr: int, pid: int
    ) -> "tuple[int, list[bytes]]":
        """Run all of them; return (wait status of one that failed, the task's environment).

        `pid` is the process that is to become the task; 0 if there is none yet.
        """
        # A step that a script starts has the script's here.
        own = [b"SLURM_TASK_PID=%d" % pid] if pid else []
        context = [*own, b"SLURM_SCRIPT_CONTEXT=prolog_task"]
        if self._spec["login"] is not None:
            environment = self._login(self._spec["login"], environment)
        for program in self._spec["task_prologs"]:
            status, environment = self._prolog(program, environment, context, cwd, stdout, stderr)
            if status:
                return status, environment
        return 0, environment

    def _prolog(
        self,
        program: "tuple[str, str]",
        environment: "list[bytes]",
        context: "list[bytes]",
        cwd: str,
        stdout: int,
        stderr: int,
    ) -> "tuple[int, list[bytes]]":
        """Run a task prolog and do what its output says; return (wait status, environment).

        `program` is what it is called in messages, and its path; `context` what it has beside the
        task's environment.
        """
        name, path = program
        argv = [os.fsencode(path)]
        others = [entry for entry in environment if not entry.startswith(b"SLURM_TASK_PID=")]
        own = others + context
        try:
            status, output = self._run(argv, argv, own, cwd, _PROLOG_LIMIT_S, stderr)
        except OSError as error:
            self.notes.append(f"{name} {path} can not be executed: {error.strerror}")
            return _NOT_RUN, environment
        environment = _obey(output, environment, stdout)
        if status:
            self.notes.append(f"{name} failed status={status_text(status)}")
        return status, environment

    def _login(self, login: "LoginShell", environment: "list[bytes]") -> "list[bytes]":
        """Return an environment with what the user's login shell sets, as `su -` would.

        What the job brought itself wins; `login` has the shell and the values made up for lack of
        anything better, which the shell's own replace.
        """
        base: list[bytes] = list(login["env"])
        # Every shell takes a dash before its name to mean a login.
        name = os.fsencode(f"-{os.path.basename(login['shell'])}")
        argv = [name, b"-c", _SHOW_ENVIRONMENT]
        path = [os.fsencode(login["shell"])]
        try:
            _, output = self._run(path, argv, base, login["home"], _LOGIN_LIMIT_S)
        except OSError as error:
            self.notes.append(f"Unable to run {login['shell']}: {error.strerror}")
            return environment
        _, mark, shown = output.rpartition(_ENVIRONMENT_MARK)
        if not mark:
            self.notes.append("Failed to load the user's login environment")
        made_up = set(base)
        kept = {variable.partition(b"=")[0] for variable in environment if variable not in made_up}
        shown_variables = [
            variable
            for variable in shown.split(b"\0")
            if b"=" in variable and variable.partition(b"=")[0] not in kept | _OF_THE_SHELL
        ]
        names = {variable.partition(b"=")[0] for variable in shown_variables}
        others = [variable for variable in environment if variable.partition(b"=")[0] not in names]
        return others + shown_variables

    def _run(
        self,
        paths: "list[bytes]",
        argv: "list[bytes]",
        environment: "list[bytes]",
        cwd: str,
        limit_s: float,
        stderr: int = -1,
    ) -> "tuple[int, bytes]":
        """Run to the end; return (wait status, output). Raises OSError if it cannot begin."""
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        null = os.open(_NULL, os.O_RDWR | os.O_CLOEXEC)
        try:
            pid = spawn(
                paths, argv, environment, stdin=null, stdout=theirs,
                stderr=stderr if stderr >= 0 else null, cwd=os.fsencode(cwd),
                cgroup_fds=self._joins, **self._identity,
            )  # fmt: skip
        except OSError:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
            os.close(null)
        output = b""
        give_up = time.monotonic() + limit_s
        while len(output) < _MOST_BYTES and _can_be_read(ours, give_up - time.monotonic()):
            data = os.read(ours, 65536)
            if not data:
                break
            output += data
        else:
            # Not waited for yet, so it is still this process.
            signal_below(os.getpid(), [pid, *descendants(pid)], SIGKILL)
        os.close(ours)
        _, status = os.waitpid(pid, 0)
        return status, output


class TaskEpilogs:
    """Runs the epilogs of tasks that have ended, one after another for each.

    What they leave running ends with the step. Task's `epilog` is the one that runs, 0 for none.

    Args:
        later: calls back after so many seconds.
        say: tells the user something.
        done: called with a task when its epilogs are over.
    """

    def __init__(
        self,
        spec: "StepSpec",
        later: "Callable[[float, Callable[[], None]], None]",
        say: "Callable[[str], None]",
        done: "Callable[[Task], None]",
    ) -> None:
        self._spec = spec
        self._later = later
        self._say = say
        self._done = done
        self._running: dict[int, tuple[Task, str, str, list[tuple[str, str]]]] = {}
        self._problems: dict[int, int] = {}  # where one that cannot begin says why

    def begin(self, task: "Task") -> None:
        """Start with the first of a task's epilogs."""
        self._go_on(task, list(self._spec["task_epilogs"]))

    def ended(self, pid: int, status: int) -> bool:
        """Take a child's end; return whether it was an epilog."""
        if pid not in self._running:
            return False
        task, name, path, others = self._running.pop(pid)
        problem = self._problem(pid)
        if problem:
            self._say(f"{name} {path} can not be executed: {problem}")
        elif status:
            self._say(f"{name} failed status={status_text(status)}")
        self._go_on(task, others)
        return True

    def _go_on(self, task: "Task", programs: "list[tuple[str, str]]") -> None:
        task.epilog = 0
        while programs and not task.epilog:
            name, path = programs.pop(0)
            try:
                task.epilog = pid = self._spawn(task, path)
            except OSError as problem:
                self._say(f"{name} {path} can not be executed: {problem.strerror}")
            else:
                self._running[pid] = (task, name, path, programs)
                self._limit(pid)
        if task.epilog:
            return
        if task.stderr >= 0:
            os.close(task.stderr)
            task.stderr = -1
        self._done(task)

    def _spawn(self, task: "Task", path: str) -> int:
        """Fork and become the program there: a path of the user's may take for ever."""
        own = [*self._spec["env"], *task.spec["env"]]
        null = os.open(_NULL, os.O_RDWR | os.O_CLOEXEC)
        argv = [os.fsencode(path)]
        stderr = task.stderr if task.stderr >= 0 else null
        ours, theirs = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

        def work() -> None:
            try:
                spawn(
                    argv, argv, [*own, b"SLURM_SCRIPT_CONTEXT=epilog_task"], stdin=null,
                    stdout=null, stderr=stderr, cwd=b"/", in_place=True, **identity_of(self._spec),
                )  # fmt: skip
            except OSError as problem:
                os.write(theirs, str(problem.strerror).encode())

        try:
            pid = fork_own(work, [null, stderr, theirs])
        except OSError:
            os.close(ours)
            raise
        finally:
            os.close(null)
            os.close(theirs)
        self._problems[pid] = ours
        return pid

    def _problem(self, pid: int) -> str:
        """Return why a program that has ended did not even begin; "" if it did."""
        descriptor = self._problems.pop(pid)
        try:
            return os.read(descriptor, 256).decode()
        except BlockingIOError:
            return ""
        finally:
            os.close(descriptor)

    def _limit(self, pid: int) -> None:
        self._later(EPILOG_LIMIT_S, lambda: self._kill(pid))

    def _kill(self, pid: int) -> None:
        """End an epilog that is not over by now, and what it has started."""
        if pid in self._running:
            signal_below(os.getpid(), [pid, *descendants(pid)], SIGKILL)


def _can_be_read(descriptor: int, limit_s: float) -> bool:
    """Return whether there is something to read within so many seconds."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return limit_s > 0 and bool(poll.poll(int(limit_s * 1000) + 1))


def status_text(status: int) -> str:
    """Return a wait status as messages show it: the exit code, or the signal."""
    return f"signal {status & 0x7F}" if status & 0x7F else str(status >> 8)


def _obey(output: bytes, environment: "list[bytes]", stdout: int) -> "list[bytes]":
    """Do what a prolog's lines say: `print`, `export` and `unset`; other lines say nothing."""
    for line in output.splitlines():
        line = line.partition(b"\0")[0]  # where a text ends for C
        word, _, rest = line.partition(b" ")
        if word == b"print":
            os.write(stdout, rest + b"\n")
            continue
        if word not in (b"export", b"unset"):
            continue
        name = rest.strip().partition(b"=")[0].strip()
        environment = [variable for variable in environment if not variable.startswith(name + b"=")]
        if word == b"export":
            environment.append(name + b"=" + rest.partition(b"=")[2])
    return environment
