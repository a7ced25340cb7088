"""Where the plugins of plugstack.conf run for a step: in the process that starts its tasks.

That process (`launcher`) loads the plugins as root, calls them before the tasks, and stays until
the step ends for the calls after them, so what a plugin keeps in `init` it has in `exit`. A task is
forked from it, so that a plugin can change the task's own process before the program begins.

The supervisor never waits for it: see `step_plugins`.
"""

import os
import resource
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pyslurm_ng.conf.plugstack import line_of
from pyslurm_ng.d.stepd.own_process import become, identity_of
from pyslurm_ng.daemon.process_tree import descendants, signal_below
from pyslurm_ng.kernels.process import set_dumpable, spawn
from pyslurm_ng.kernels.records import pack, unpack
from pyslurm_ng.policy.spank import REMOTE, Spank
from pyslurm_ng.policy.spank_stack import PluginFailed, Stack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.d.spool.step_contract import PluginsSpec, StepSpec, TaskSpec

_CALLS_OF_A_TASK = 2
_AFTER_LIMIT_S = 5.0
_READY = b"."
_MOST_REPORT = 1 << 16
_SAME_NICE = 100
_HIGHEST_NICE = 19


class PluginHost:
    """The plugins of one step.

    Args:
        spec: of the step; `begin` changes its environment.
        joins: descriptors of the step's control groups.
    """

    def __init__(self, spec: "StepSpec", plugins: "PluginsSpec", joins: "list[int]") -> None:
        self._spec = spec
        self._plugins = plugins
        self._joins = joins
        self._identity = identity_of(spec)
        self._spank = _spank_of(spec)
        self._stack: Stack | None = None
        self._tasks = {task["task"]: task for task in spec["tasks"]}

    # Before the tasks ---------------------------------------------------------------------------

    def begin(self) -> "dict[str, list[bytes]]":
        """Load the plugins and call what comes before tasks.

        Returns:
            `set`: the variables that they have set, `unset`: the names of those that are gone.

        Raises:
            PluginFailed: a required plugin failed.
        """
        spec = self._spec
        before = dict(self._spank.environ)
        lines = [line_of(fields) for fields in self._plugins["lines"]]
        owners = set(self._plugins["owners"])
        self._stack = Stack(lines, self._spank, owners, self._plugins["limit_s"])
        self._stack.begin()
        if self._stack.has("user_init"):
            with _as_user(self._identity):
                self._stack.call("user_init")
        after = self._spank.environ
        spec["env"] = _entries(after)
        new = {name: value for name, value in after.items() if before.get(name) != value}
        return {
            "set": _entries(new),
            "unset": [os.fsencode(name) for name in before if name not in after],
        }

    def taken_lines(self) -> "dict[str, list[str]]":
        """Return what plugins had to tell the user and the log, and forget it."""
        told, logged = list(self._spank.told), list(self._spank.logged)
        self._spank.told.clear()
        self._spank.logged.clear()
        return {"notes": told, "log": logged}

    # A task -------------------------------------------------------------------------------------

    def start(
        self,
        task: "TaskSpec",
        paths: "list[bytes]",
        argv: "list[bytes]",
        environment: "list[bytes]",
        how: "dict[str, Any]",
    ) -> "int | OSError | str":
        """Fork a task, call what comes before its program, and have it become the program.

        Args:
            how: the arguments of `spawn`.

        Returns:
            Its process id, or why the program did not begin: an error, or the line of a required
            plugin that failed; the task's process has ended then.
        """
        ours, theirs = os.pipe2(os.O_CLOEXEC)
        gate, opener = os.pipe2(os.O_CLOEXEC)
        try:
            pid = _fork_sibling(
                lambda: self._be_task(task, paths, argv, environment, how, gate, theirs)
            )
        except OSError as error:
            for descriptor in (ours, gate, opener, theirs):
                os.close(descriptor)
            error.filename = "fork"
            return error
        os.close(theirs)
        os.close(gate)
        try:
            self._of_task(task, pid)
            self._call("task_post_fork")
            os.write(opener, b"g")
            return self._begun(pid, ours)
        except PluginFailed as error:
            _kill(pid)
            return str(error)
        finally:
            os.close(opener)
            os.close(ours)

    def _begun(self, pid: int, report: int) -> "int | OSError":
        """Read what a task's process says before it becomes the program. Raises PluginFailed."""
        count = _CALLS_OF_A_TASK * len(self._plugins["lines"])
        give_up = time.monotonic() + count * self._plugins["limit_s"] + _AFTER_LIMIT_S
        poll = select.poll()
        poll.register(report, select.POLLIN)
        if not poll.poll(int(max(0.0, give_up - time.monotonic()) * 1000)):
            _kill(pid)
            raise PluginFailed("spank: a plugin kept a task from its start; the task was killed")
        body = b""
        while len(body) < _MOST_REPORT:
            part = os.read(report, _MOST_REPORT)
            if not part:
                break
            body += part
        if not body:
            raise PluginFailed("spank: a task's process ended in a plugin")
        words = body.partition(_READY)[2] if body[:1] == _READY else body
        if not words:
            return pid
        said = unpack(words)
        for text in said["notes"]:
            self._spank.tell(text)
        for text in said["log"]:
            self._spank.log(text)
        if "plugin" in said:
            raise PluginFailed(said["plugin"])
        if "errno" in said:
            return OSError(said["errno"], os.strerror(said["errno"]), said["where"])
        return pid

    def _be_task(
        self,
        task: "TaskSpec",
        paths: "list[bytes]",
        argv: "list[bytes]",
        environment: "list[bytes]",
        how: "dict[str, Any]",
        gate: int,
        report: int,
    ) -> None:
        """In the task's process: return only if the program did not begin."""
        if os.read(gate, 1) != b"g":
            return
        said: dict[str, Any] = {}
        try:
            program = self._before_program(task, environment, how)
            os.write(report, _READY + (pack(program[1]) if any(program[1].values()) else b""))
            spawn(paths, argv, program[0], in_place=True, **how)
        except PluginFailed as error:
            said = {"plugin": str(error)}
        except OSError as error:
            where = error.filename if isinstance(error.filename, str) else "start"
            said = {"errno": error.errno or 1, "where": where}
        os.write(report, pack({**said, **self.taken_lines()}))

    def _before_program(
        self, task: "TaskSpec", environment: "list[bytes]", how: "dict[str, Any]"
    ) -> "tuple[list[bytes], dict[str, list[str]]]":
        """Call plugins in the task's process, as root and then as the user.

        What a plugin may change is set before it is called, and taken out of `how`.
        """
        for number, stream in enumerate(("stdin", "stdout", "stderr")):
            os.dup2(how[stream], number)
            how[stream] = number
        for join in how.pop("cgroup_fds"):
            os.write(join, b"0")
        cpus = int.from_bytes(how.pop("cpus"), "little")
        if cpus:
            os.sched_setaffinity(0, [bit for bit in range(cpus.bit_length()) if cpus >> bit & 1])
        nice = how.pop("nice")
        if nice <= _HIGHEST_NICE:
            os.setpriority(os.PRIO_PROCESS, 0, nice)
        spank = self._spank
        spank.environ = _variables(environment)
        self._of_task(task, os.getpid())
        self._call("task_init_privileged")
        for name in ("uid", "gid", "groups"):
            how.pop(name, None)
        set_dumpable(False)
        become(self._identity)
        for number, soft, hard in how.pop("rlimits"):
            _limit(number, soft, hard)
        os.umask(how.pop("umask"))
        try:
            os.chdir(how.pop("cwd"))
        except OSError as error:
            error.filename = "chdir"
            raise
        self._call("task_init")
        return _entries(spank.environ), self.taken_lines()

    # After the tasks ----------------------------------------------------------------------------

    def task_exit(self, number: int, pid: int, status: int) -> None:
        """Call `task_exit` for a task that has ended."""
        task = self._tasks.get(number)
        if task is not None:
            self._of_task(task, pid)
            self._spank.exit_status = status
            self._call_last("task_exit")

    def exit(self) -> None:
        """Call `exit`, once nothing of the step runs."""
        self._spank.task_id = self._spank.local_task_id = self._spank.task_pid = -1
        self._call_last("exit")

    def _call(self, name: str) -> None:
        if self._stack is not None:
            self._stack.call(name)

    def _call_last(self, name: str) -> None:
        """Call what can no longer change how the step ends: a failure is only told."""
        try:
            self._call(name)
        except PluginFailed as error:
            self._spank.tell(str(error))
            self._spank.log(str(error))

    def _of_task(self, task: "TaskSpec", pid: int) -> None:
        spank = self._spank
        spank.task_id, spank.local_task_id, spank.task_pid = task["task"], task["local"], pid
        spank.exit_status = -1
        spank.argv = list(self._spec["programs"][task["program"]])


def _spank_of(spec: "StepSpec") -> Spank:
    """Return what plugins see of a step, without a task."""
    environ = _variables(spec["env"])
    spank = Spank(REMOTE, environ)
    spank.job_id, spank.step_id, spank.restart_count = spec["job"], spec["step"], spec["attempt"]
    spank.uid, spank.gid, spank.groups = spec["uid"], spec["gid"], list(spec["groups"])
    spank.node_name, spank.node_id = spec["node"], spec["node_index"]
    spank.local_task_count = len(spec["tasks"])
    spank.array_job_id = _number(environ, "SLURM_ARRAY_JOB_ID")
    spank.array_task_id = _number(environ, "SLURM_ARRAY_TASK_ID")
    if spec["is_batch"]:
        spank.node_count = spank.total_task_count = 1
    else:
        spank.node_count = _number(environ, "SLURM_STEP_NUM_NODES")
        spank.total_task_count = _number(environ, "SLURM_STEP_NUM_TASKS")
    spank.argv = list(spec["programs"][0]) if spec["programs"] else []
    return spank


def _number(environ: "dict[str, str]", name: str) -> int:
    value = environ.get(name, "")
    return int(value) if value.isdecimal() else -1


def _variables(entries: "list[bytes]") -> "dict[str, str]":
    pairs = (os.fsdecode(entry).partition("=") for entry in entries)
    return {name: value for name, _, value in pairs}


def _entries(variables: "dict[str, str]") -> "list[bytes]":
    return [os.fsencode(f"{name}={value}") for name, value in variables.items()]


def _limit(number: int, soft: int, hard: int) -> None:
    """Set a limit of the user's, never above the node's."""
    most = resource.getrlimit(number)[1]
    if most != resource.RLIM_INFINITY:
        hard = min(hard, most) if hard >= 0 else most
        soft = min(soft, hard) if soft >= 0 else hard
    elif hard >= 0:
        soft = min(soft, hard) if soft >= 0 else hard
    try:
        resource.setrlimit(number, (soft, hard))
    except (OSError, ValueError) as error:
        raise OSError(getattr(error, "errno", 0) or 22, str(error), "limits") from None


@contextmanager
def _as_user(identity: "dict[str, Any]") -> "Iterator[None]":
    """Have the user's rights for a while; root's come back."""
    if not identity:
        yield
        return
    groups, gid = os.getgroups(), os.getegid()
    os.setgroups(identity["groups"])
    os.setegid(identity["gid"])
    os.seteuid(identity["uid"])
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(gid)
        os.setgroups(groups)


def _fork_sibling(work: "Any") -> int:
    """Fork a process that becomes our parent's child, as tasks are: it adopts orphans."""
    ours, theirs = os.pipe2(os.O_CLOEXEC)
    between = os.fork()
    if not between:
        code = 1
        try:
            # A signal for tasks that comes here must not run a handler of this program.
            pid = os.fork()
            if pid:
                os.write(theirs, b"%d" % pid)
            else:
                os.close(theirs)
                os.close(ours)
                work()
            code = 0
        except OSError as error:
            os.write(theirs, b"-%d" % (error.errno or 1))
        finally:
            os._exit(code)
    os.close(theirs)
    os.waitpid(between, 0)
    words = os.read(ours, 32)
    os.close(ours)
    number = int(words or b"-11")
    if number < 0:
        raise OSError(-number, os.strerror(-number), "fork")
    return number


def _kill(pid: int) -> None:
    """Kill a task's process that has not become the program, and what it has started."""
    signal_below(os.getppid(), [*descendants(pid), pid], signal.SIGKILL)
