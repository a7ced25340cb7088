"""The supervisor of one step on one node: has its tasks started, serves their streams, ends all.

One poll loop, no library: it may run for weeks and must stay small. It obeys slurmd
over its channel and, for a step of srun, srun over its own connection. Its last
act is the `end` record in the step's file, so it never waits for slurmd. Nothing of the user's can
make it wait, either: each task's process opens its own files (`step_tasks`), programs that run
before a task have a `launcher`, lines of the supervisor's own are written by its `step_writer`, and
what goes wrong with one frame or command costs that one only.

Orders come over the channel as `d.step_contract` has them. Answers go back as maps, by "did":
start, attach (pids), slow (text), unkillable, fault (text, trace), or as the order.
"""

import os
import resource  # noqa: F401 - os.wait4 would load it in every supervisor anew, at a millisecond
import select
import time
from _signal import (  # type: ignore[import-not-found]
    SIG_DFL,
    SIG_IGN,
    SIGCHLD,
    SIGCONT,
    SIGHUP,
    SIGINT,
    SIGKILL,
    SIGPIPE,
    SIGSTOP,
    SIGTERM,
    SIGTSTP,
    set_wakeup_fd,
    signal,
)
from _socket import socket

from pyslurm_ng.base.numbers import END_CLEAN, END_KILLED, END_OUT_OF_MEMORY, END_OVER_MEMORY
from pyslurm_ng.base.poll_loop import PollLoop
from pyslurm_ng.d import step_record
from pyslurm_ng.d.stepd.launcher import Launcher, launch
from pyslurm_ng.d.stepd.own_process import identity_of
from pyslurm_ng.d.stepd.slurmd_channel import SlurmdChannel
from pyslurm_ng.d.stepd.step_cgroup import CgroupError, StepCgroup
from pyslurm_ng.d.stepd.step_faults import StepFaults, leave_trace
from pyslurm_ng.d.stepd.step_files import remove_script, write_script
from pyslurm_ng.d.stepd.step_streams import Inlet, Outlet, SrunLink
from pyslurm_ng.d.stepd.step_tasks import (
    FILES_STATUS,
    CannotStart,
    TaskStarter,
    notice,
)
from pyslurm_ng.d.stepd.step_writer import StepWriter
from pyslurm_ng.d.stepd.task import Task
from pyslurm_ng.d.stepd.task_programs import TaskEpilogs
from pyslurm_ng.d.stepd.task_streams import TERMINAL
from pyslurm_ng.daemon.process_tree import (
    descendants,
    is_zombie,
    own_descendants,
    own_peak_kib,
    sample,
    signal_below,
    stamp,
)
from pyslurm_ng.wire import step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pyslurm_ng.d.step_contract import Order, Route, StepSpec

OOM_STATUS = 125
_CONNECT_S = 30.0
_LAST_WORDS_S = 1.0
_SLOW_LAUNCH_S = 30.0
_FLUSH_S = 300.0
_FLUSH_KILLED_S = 5.0
_KILL_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 1.0
_CHILDREN_PAUSE_S = 0.2


class Step:
    """One step; `run` returns when nothing of it is left."""

    def __init__(self, path: str, spec: "StepSpec", channel: "socket | None") -> None:
        self._path = path
        self._spec = spec
        self._loop = PollLoop(self._fault)
        self._slurmd = SlurmdChannel(self._loop, path, self._obey, self._greeting)
        self._faults = StepFaults(path, self._slurmd.tell)
        self._tasks = [Task(task) for task in spec["tasks"]]
        self._by_pid: dict[int, Task] = {}
        self._epilogs = TaskEpilogs(spec, self._loop.later, self._say, self._tell_exit)
        self._link: SrunLink | None = None
        self._launch: Launcher | TaskStarter | None = None
        self._writer = StepWriter(self._loop, identity_of(spec))
        self._files: dict[int, int] = {}  # by the starter's number: the writer's
        self._stderr = -1  # the writer's number of the step's stderr
        self._cgroup = StepCgroup(spec["cgroup"]) if spec["cgroup"] else None
        self._early_lines: list[bytes] = []  # for that stderr, until it is there
        self._flags = 0
        self._error = ""
        self._status = 0
        self._early_stdin: list[tuple[int, bytes]] | None = []  # None: all tasks are there
        self._is_dying = False
        self._is_unkillable = False
        self._kill_at = 0.0  # when processes that had SIGTERM get SIGKILL
        self._kill_began = 0.0
        self._stdin_taken = 0
        self._usage: dict[int, dict[str, int]] = {}
        self._start_us = time.time_ns() // 1000
        self._started_s = time.monotonic()
        self._end_us = 0
        self._own_rss_kib = own_peak_kib()
        self._watch_signals()
        if channel is not None:
            self._slurmd.attach(channel)

    # Life -------------------------------------------------------------------------------------

    def run(self) -> None:
        """Have the tasks started, serve until the last one ended, clean up, leave the end record.

        Whatever goes wrong in one part, the next ones are done.
        """
        self._try(self._start)
        self._try(self._serve)
        # Not the wall clock once more: it may have been set meanwhile.
        self._end_us = self._start_us + int((time.monotonic() - self._started_s) * 1e6)
        self._try(self._end_processes)
        self._try(self._end_streams)
        self._finish()

    def _try(self, part: "Callable[[], None]") -> None:
        try:
            part()
        except CannotStart as problem:
            self._cannot_start(problem.status, problem.text)
        except Exception as error:  # noqa: BLE001 - the step has to be ended all the same
            self._fault(error)
            if not self._error:
                self._cannot_start(FILES_STATUS, f"slurmstepd: {type(error).__name__}: {error}")
            self._is_dying = True
            self._loop.later(0.0, self._kill)

    def _fault(self, error: BaseException) -> None:
        self._faults.note(f"StepId={self._spec['name']}", error)

    def _cannot_start(self, status: int, text: str) -> None:
        self._status, self._error = status, text
        if text:
            self._say(text)
        if self._link is not None:
            self._link.tell(step_io.FAILED, {"code": status, "text": text})

    def _serve(self) -> None:
        if self._is_dying:
            # Tasks that were started just then have not heard of it.
            self._signal_all(self._processes(), SIGTERM)
            if self._kill_at <= time.monotonic():
                self._kill()
        while self._is_serving():
            self._loop.turn()
        while self._spec["waits_for_children"] and not self._is_dying and self._processes():
            self._loop.turn(_CHILDREN_PAUSE_S)

    def _is_serving(self) -> bool:
        """Return whether a task, or the epilog of one, has not ended yet."""
        return any((task.pid and not task.is_over) or task.epilog for task in self._tasks)

    # Start ------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Confine, connect, have files opened and tasks started. Raises CannotStart."""
        spec = self._spec
        joins: list[int] = []
        if self._cgroup is not None:
            try:
                joins = self._cgroup.make()
            except CgroupError as error:
                raise CannotStart(SIGKILL, str(error)) from None
        if spec["script"]:
            self._write_script()
        if spec["route"] is not None:
            self._connect(spec["route"])
        if self._is_dying:
            raise CannotStart(SIGTERM, "")

        def goes_on(limit_s: float) -> bool:
            self._loop.turn(limit_s)
            return not self._is_dying

        self._launch = launch(spec, joins, goes_on, is_routed=self._link is not None)
        try:
            self._wait_for_launch(self._launch)
        finally:
            for descriptor in joins:
                os.close(descriptor)
            self._launch.close()
            self._launch = None
            for line in self._early_lines:
                self._writer.say(self._stderr, line)
            self._loop.watch(self._wakeup, select.POLLIN, self._on_signal)
        self._tell_started()
        if spec["acct_every"] or spec["memory_limit_kib"]:
            self._loop.later(min(1.0, spec["acct_every"] or 1.0), self._sample)

    def _write_script(self) -> None:
        spec = self._spec
        try:
            path = write_script(spec["spool"], spec["script"], spec["uid"], spec["gid"])
        except OSError as error:
            raise CannotStart(FILES_STATUS, f"{spec['spool']}: {error.strerror}") from None
        self._spec["programs"][0][0] = path

    def _connect(self, route: "Route") -> None:
        spec = self._spec
        try:
            self._link = link = SrunLink(
                self._loop, route, self._on_frame, self._on_bad_frame, self._srun_gone
            )
        except OSError as error:
            raise CannotStart(SIGKILL, f"cannot connect to srun: {error}") from None
        link.hello(
            {
                "node": spec["node"],
                "node_index": spec["node_index"],
                "pid": os.getpid(),
            }
        )
        give_up = time.monotonic() + _CONNECT_S
        while link.is_connecting and not self._is_dying and time.monotonic() < give_up:
            self._loop.turn(1.0)
        if link.problem or link.is_connecting:
            link.close()
            problem = link.problem or "no answer"
            raise CannotStart(SIGKILL, f"cannot connect to srun: {problem}")

    def _wait_for_launch(self, launch: "Launcher | TaskStarter") -> None:
        """Serve until all tasks have begun. Raises CannotStart.

        Nothing is reaped meanwhile: how a task ended is of use only once it is known to be one.
        """
        self._loop.drop(self._wakeup)
        self._loop.watch(launch.fileno(), select.POLLIN, lambda events: None)
        slow_at = time.monotonic() + _SLOW_LAUNCH_S
        give_up = 0.0
        try:
            while True:
                message, passed = launch.take()
                if message is None:
                    if self._is_dying and not give_up:
                        # What it did before it was killed is still to be heard.
                        launch.kill()
                        give_up = time.monotonic() + _LAST_WORDS_S
                    elif give_up and time.monotonic() > give_up:
                        raise CannotStart(SIGTERM, "")
                    self._loop.turn(_LAST_WORDS_S)
                    if time.monotonic() > slow_at:
                        slow_at += 3600.0
                        text = "its files, its directory or a program of it keep its start waiting"
                        self._slurmd.tell({"did": "slow", "text": text})
                elif "done" in message:
                    self._say_all(message["notes"])
                    return
                elif message and "failed" not in message:
                    self._on_launched(message, passed)
                else:
                    self._launch_failed(message)
        finally:
            self._loop.drop(launch.fileno())

    def _launch_failed(self, message: "dict[str, Any]") -> None:
        if not message:
            if self._is_dying:
                raise CannotStart(SIGTERM, "")
            raise CannotStart(FILES_STATUS, "the process that starts tasks was lost")
        self._say_all(message["notes"])
        if "trace" in message and not self._slurmd.tell(
            {"did": "fault", "text": message["text"], "trace": message["trace"]}
        ):
            leave_trace(self._path, message["trace"])
        raise CannotStart(message["failed"], message["text"])

    def _on_launched(self, message: "dict[str, Any]", passed: "list[int]") -> None:
        """Take a task that was started, or a file that it needs."""
        if "file" in message:
            self._files[message["file"]] = self._writer.add(passed[0])
            return
        if "stderr" in message:
            self._stderr = self._writer.add(passed[0])
            return
        task = self._tasks[message["task"]]
        task.pid, task.status = message["pid"], message["status"]
        task.is_over = message["is_over"]
        if task.pid:
            self._by_pid[task.pid] = task
        if message["inlet"]:
            is_terminal = message["inlet"] == TERMINAL
            task.inlet = Inlet(self._loop, passed.pop(0), self._taken, is_terminal=is_terminal)
        for stream, file in message["outlets"]:
            task.outlets.append(self._outlet(task, passed.pop(0), stream, file))
        if message["has_stderr"]:
            task.stderr = passed.pop(0)
        self._say_all(message["notes"])

    def _outlet(self, task: Task, descriptor: int, stream: int, file: int) -> Outlet:
        if file < 0:
            return Outlet(self._loop, descriptor, task=task.task, kind=stream, link=self._link)
        label = b"%*d: " % (self._spec["label_width"], task.task)
        return Outlet(
            self._loop, descriptor, task=task.task, kind=stream, link=None,
            writer=self._writer, file=self._files[file], label=label,
        )  # fmt: skip

    def _tell_started(self) -> None:
        pids = {task.task: task.pid for task in self._tasks if task.pid}
        if not self._spec["is_batch"]:
            try:
                step_record.append(self._path, {"kind": "tasks", "pids": pids})
            except OSError:
                pass  # the leftovers of a lost supervisor are found without it, too
        self._slurmd.tell({"did": "start", "pids": pids})
        early, self._early_stdin = self._early_stdin, None
        for task_id, body in early or ():
            self._stdin(task_id, body)
        if self._link is not None:
            self._link.tell(step_io.STARTED, {"pids": pids})
        for task in self._tasks:
            if task.is_over:
                self._task_over(task)

    # Children ---------------------------------------------------------------------------------

    def _watch_signals(self) -> None:
        ours, theirs = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._wakeup = ours
        set_wakeup_fd(theirs)
        signal(SIGCHLD, lambda number, frame: None)
        for number in (SIGHUP, SIGINT, SIGPIPE):
            signal(number, SIG_IGN)
        signal(SIGTERM, lambda number, frame: None)
        self._loop.watch(ours, select.POLLIN, self._on_signal)

    def _on_signal(self, events: int = 0) -> None:
        try:
            numbers = os.read(self._wakeup, 4096)
        except BlockingIOError:
            numbers = b""
        self._reap()
        if SIGTERM in numbers:
            self._terminate("", 0.0)

    def _reap(self) -> None:
        """Collect every dead child: tasks, processes of our own, orphans that came to us."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if pid == self._writer.pid:
                self._writer.ended()
                continue
            if self._epilogs.ended(pid, status):
                continue
            task = self._by_pid.pop(pid, None)
            if task is None:
                continue
            task.status = status
            task.is_over = True
            self._count(task, used)
            self._task_over(task)

    def _task_over(self, task: Task) -> None:
        oom = self._cgroup is not None and bool(self._cgroup.oom_kills())
        if oom and task.status & 0x7F == SIGKILL:
            task.status = OOM_STATUS
            if self._spec["oom_kill_step"]:
                self._kill()
        self._epilogs.begin(task)

    def _tell_exit(self, task: Task) -> None:
        """Tell srun how a task ended, when its epilogs are over, too."""
        if self._link is None:
            return
        flags = 0
        if task.status == OOM_STATUS:
            ends_step = step_io.EXIT_ENDS_STEP * self._spec["oom_kill_step"]
            flags = step_io.EXIT_OUT_OF_MEMORY | ends_step
        self._link.send(step_io.pack_number(step_io.EXIT, task.task, task.status, flags))

    def _processes(self) -> "list[int]":
        """Return the step's living processes; those of our own are none of them."""
        pids = own_descendants()
        if self._cgroup is not None:
            known = set(pids)
            pids += [pid for pid in self._cgroup.pids() if pid not in known]
        own = {self._writer.pid}
        if self._launch is not None:
            own.add(self._launch.pid)
        return [pid for pid in pids if pid not in own and not is_zombie(pid)]

    def _belongs(self, pid: int) -> bool:
        """Return whether a process is of the step at this moment."""
        return self._cgroup is not None and pid in self._cgroup.pids()

    def _signal_all(self, pids: "list[int]", number: int) -> None:
        signal_below(os.getpid(), pids, number, self._belongs)

    def _end_processes(self) -> None:
        """End what the tasks left behind, with SIGKILL, until nothing is left.

        After SIGTERM all have the same time to end by themselves: an srun whose script is gone at
        once still has to hear how its tasks ended. While something outlives SIGKILL the step is
        not over, and what it holds is not free; srun does not have to wait for that.
        """
        while self._processes() and time.monotonic() < self._kill_at:
            self._loop.turn(_KILL_PAUSE_S)
            self._reap()
        self._kill_began = self._kill_began or time.monotonic()
        pause_s = _KILL_PAUSE_S
        while True:
            self._reap()
            pids = self._processes()
            if not pids:
                break
            if not self._is_unkillable and self._is_hopeless():
                self._is_unkillable = True
                self._slurmd.tell({"did": "unkillable"})
                self._try(self._end_streams)
            if self._cgroup is not None:
                self._cgroup.kill()
            self._signal_all(pids, SIGKILL)
            self._loop.turn(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
        if not self._is_unkillable:
            self._flags |= END_CLEAN

    def _is_hopeless(self) -> bool:
        return bool(time.monotonic() - self._kill_began > self._spec["unkillable_s"])

    # Ending by order --------------------------------------------------------------------------

    def _terminate(self, why: str, wait_s: float) -> None:
        """End every process: TERM (after CONT) now, KILL after the wait.

        Signals come first: what is written to the user may never arrive.

        Args:
            why: why in the job's stderr; a second line has more of it.
        """
        self._flags |= END_KILLED
        if not self._is_dying:
            self._is_dying = True
            pids = self._processes()
            self._signal_all(pids, SIGCONT)
            if wait_s > 0:
                self._kill_at = time.monotonic() + wait_s
                self._signal_all(pids, SIGTERM)
        if wait_s > 0:
            self._loop.later(wait_s, self._kill)
        else:
            self._kill_at = 0.0
            self._kill()
        if why:
            self._say_cancelled(why)

    def _say_cancelled(self, why: str) -> None:
        why, _, more = why.partition("\n")
        what = f"JOB {self._spec['job']}" if self._spec["is_batch"] else self._step_text()
        when = stamp()[:19]
        self._say(f"*** {what} ON {self._spec['node']} CANCELLED AT {when} {why} ***")
        if more:
            self._say(f"*** {more} ***")

    def _step_text(self) -> str:
        return f"STEP {self._spec['name']}"

    def _kill(self) -> None:
        """Send SIGKILL now, and again while something of the tasks lives."""
        self._kill_began = self._kill_began or time.monotonic()
        if self._cgroup is not None:
            self._cgroup.kill()
        self._signal_all(self._processes(), SIGKILL)
        if self._is_hopeless():
            for task in self._tasks:
                if not task.is_over:
                    task.status, task.is_over = SIGKILL, True
                task.epilog = 0
        elif self._is_serving():
            self._loop.later(0.5, self._kill)

    def _signal(self, number: int, scope: str) -> None:
        if number == SIGKILL and scope == "all":
            self._terminate("" if self._spec["is_batch"] else "DUE to SIGNAL Killed", 0.0)
        elif scope == "script":
            pids = [task.pid for task in self._tasks if not task.is_over and task.pid]
            if self._launch is not None and self._launch.next_task_pid:
                pids.append(self._launch.next_task_pid)
            self._signal_all(pids, number)
        else:
            self._signal_all(self._processes(), number)

    def _suspend(self, *, suspended: bool) -> None:
        pids = self._processes()
        if suspended:
            self._signal_all(pids, SIGTSTP)
            self._signal_all(pids, SIGSTOP)
        else:
            self._signal_all(pids, SIGCONT)

    # slurmd -----------------------------------------------------------------------------------

    def _obey(self, command: "Order") -> None:
        if command["do"] == "signal":
            self._signal(command["number"], command["scope"])
        elif command["do"] == "terminate":
            self._terminate(command["why"], command["wait_s"])
        elif command["do"] == "suspend" or command["do"] == "resume":
            self._suspend(suspended=command["do"] == "suspend")
        elif command["do"] == "say":
            text = f"{command['text']}\n".encode("utf-8", "surrogateescape")
            self._writer.say(self._stderr, text)
        elif command["do"] == "ping":
            self._slurmd.tell({"did": "ping", "tag": command["tag"]})
        elif command["do"] == "pids":
            pids = {task.task: task.pid for task in self._tasks if not task.is_over}
            answer = {"did": "pids", "tag": command["tag"], "tasks": pids, "all": self._processes()}
            self._slurmd.tell(answer)
        elif command["do"] == "usage":
            self._measure()
            answer = {"did": "usage", "tag": command["tag"], "usage": list(self._usage.items())}
            self._slurmd.tell(answer | {"pids": self._processes()})

    def _greeting(self) -> "list[dict[str, Any]]":
        pids = {task.task: task.pid for task in self._tasks if task.pid}
        first: dict[str, Any] = {"did": "attach", "pids": pids}
        return [first, {"did": "unkillable"}] if self._is_unkillable else [first]

    # srun -------------------------------------------------------------------------------------

    def _on_frame(self, kind: int, task_id: int, body: bytes) -> None:
        """Do what srun asks. Raises BadStepFrame."""
        if kind == step_io.STDIN:
            self._stdin(task_id, body)
        elif kind == step_io.SIGNAL:
            self._signal_tasks(task_id, step_io.numbers(body)[0])
        elif kind == step_io.TERMINATE:
            text = body.decode("utf-8", "replace")
            why = "".join(char if char.isprintable() else "?" for char in text)
            self._terminate(f"DUE TO {why}" if why else "", float(self._spec["kill_wait"]))
        elif kind == step_io.WINDOW:
            self._resize(*step_io.window(body))
        elif kind == step_io.PING and self._link is not None:
            self._link.send(step_io.pack(step_io.PONG))

    def _on_bad_frame(self, problem: str) -> None:
        self._say(f"malformed message of srun: {problem}")

    def _signal_tasks(self, task_id: int, number: int) -> None:
        if task_id == step_io.ALL:
            self._signal(number, "all")
            return
        for task in self._tasks:
            if task.task == task_id and task.pid and not task.is_over:
                self._signal_all([task.pid, *descendants(task.pid)], number)

    def _stdin(self, task_id: int, body: bytes) -> None:
        """Pass on input; it must find all tasks started. Raises BadStepFrame."""
        if self._early_stdin is not None:
            self._early_stdin.append((task_id, body))
            if sum(len(kept) + 64 for _, kept in self._early_stdin) > 4 * step_io.STDIN_WINDOW:
                raise step_io.BadStepFrame("more standard input than there was credit for")
            return
        for task in self._tasks:
            if task.inlet is not None and task_id in (step_io.ALL, task.task):
                task.inlet.put(body)
        self._taken()

    def _taken(self) -> None:
        """Give srun credit for what the slowest task has taken."""
        open_inlets = [
            task.inlet for task in self._tasks if task.inlet is not None and not task.inlet.is_over
        ]
        if self._link is None:
            return
        if not open_inlets:
            # The reader is gone: let srun empty its side, whatever it still has.
            taken = self._stdin_taken + step_io.STDIN_WINDOW // 2
        else:
            taken = min(inlet.taken for inlet in open_inlets)
        if taken - self._stdin_taken >= step_io.STDIN_WINDOW // 4:
            credit = taken - self._stdin_taken
            self._stdin_taken = taken
            self._link.send(step_io.pack_number(step_io.CREDIT, step_io.ALL, credit))

    def _resize(self, rows: int, columns: int) -> None:
        import fcntl
        import struct
        import termios

        first = self._tasks[0]
        if self._spec["pty"] and first.inlet is not None and not first.inlet.is_over:
            size = struct.pack("HHHH", rows, columns, 0, 0)
            fcntl.ioctl(first.inlet.descriptor, termios.TIOCSWINSZ, size)

    def _srun_gone(self) -> None:
        if not self._spec["no_kill"] and (self._by_pid or self._launch is not None):
            self._terminate("", float(self._spec["kill_wait"]))

    def _say(self, text: str) -> None:
        """Write a line where the step's stderr goes."""
        line = notice(text)
        if self._link is not None and self._link.is_open:
            self._link.send(step_io.pack(step_io.NOTICE, step_io.ALL, line))
        elif self._stderr < 0 and self._launch is not None:
            self._early_lines.append(line)
        else:
            self._writer.say(self._stderr, line)

    def _say_all(self, texts: "list[str]") -> None:
        for text in texts:
            self._say(text)

    # Usage ------------------------------------------------------------------------------------

    def _sample(self) -> None:
        self._measure()
        if self._by_pid:
            self._loop.later(max(1.0, float(self._spec["acct_every"] or 30)), self._sample)

    def _measure(self) -> None:
        total_kib = 0
        for pid, task in self._by_pid.items():
            seen = sample([pid, *descendants(pid)])
            total_kib += seen.rss_kib
            used = self._usage.setdefault(task.task, {})
            for name in ("rss_kib", "virtual_kib", "pages", "cpu_us", "read_bytes",
                         "written_bytes"):  # fmt: skip
                used[name] = max(used.get(name, 0), getattr(seen, name))
        limit_kib = self._spec["memory_limit_kib"]
        if limit_kib and total_kib > limit_kib and not self._is_dying:
            step = f"StepId={self._spec['name']}"
            self._say(
                f"{step} exceeded memory limit ({total_kib * 1024} > {limit_kib * 1024}), "
                "being killed"
            )
            self._say("Exceeded job memory limit")
            self._flags |= END_OVER_MEMORY
            self._terminate("DUE to SIGNAL Killed", 0.0)

    def _count(self, task: Task, used: "Any") -> None:
        """Keep what the kernel counted for a task and the descendants it waited for."""
        kept = self._usage.setdefault(task.task, {})
        kept["user_us"] = int(used.ru_utime * 1e6)
        kept["system_us"] = int(used.ru_stime * 1e6)
        # Between vfork and exec a task shares our memory, and the kernel counts that as its peak.
        if used.ru_maxrss > self._own_rss_kib:
            kept["rss_kib"] = max(kept.get("rss_kib", 0), int(used.ru_maxrss))
        kept["pages"] = max(kept.get("pages", 0), int(used.ru_majflt))
        kept["cpu_us"] = max(kept.get("cpu_us", 0), kept["user_us"] + kept["system_us"])

    # The end ----------------------------------------------------------------------------------

    def _end_streams(self) -> None:
        """Pass on what is left of the output, say DONE, wait until srun has it."""
        for task in self._tasks:
            if task.inlet is not None:
                task.inlet.close()
            for outlet in task.outlets:
                outlet.drain()
                outlet.close()
            task.outlets = []
        self._check_memory()
        link = self._link
        if link is not None:
            link.send(step_io.pack(step_io.DONE))
        self._writer.finish()
        began = time.monotonic()
        while (link is not None and not link.is_flushed) or self._writer.pid:
            # slurmd takes what is not over by UnkillableStepTimeout for a fault of the node.
            killed_s = min(_FLUSH_KILLED_S, self._spec["unkillable_s"] / 2)
            limit_s = killed_s if self._is_dying else _FLUSH_S
            if time.monotonic() > began + limit_s:
                break
            self._loop.turn(1.0)
        self._writer.kill()
        if link is not None:
            link.finish()
            link.close()

    def _check_memory(self) -> None:
        kills = self._cgroup.oom_kills() if self._cgroup is not None else 0
        if kills > 0:
            self._flags |= END_OUT_OF_MEMORY
            plural = "event" if kills == 1 else "events"
            self._say(
                f"Detected {kills} oom_kill {plural} in StepId={self._spec['name']}. "
                "Some of the step tasks have been OOM Killed."
            )

    def _finish(self) -> None:
        status = self._status
        for task in self._tasks:
            # As in Slurm the highest counts, and any signal more than any exit code.
            status = max(status, task.status, key=lambda one: (one & 0x7F, one))
        if self._flags & END_OUT_OF_MEMORY:
            status = OOM_STATUS
        if self._cgroup is not None:
            self._try(self._cgroup.leave)
        if self._spec["script"]:
            self._try(lambda: remove_script(self._spec["spool"]))
        end = {
            "kind": "end",
            "status": status,
            "flags": self._flags,
            "error": self._error,
            "start_us": self._start_us,
            "end_us": self._end_us,
            "usage": list(self._usage.items()) if self._spec["acct"] else None,
            "ntasks": len(self._tasks),
        }
        try:
            try:
                step_record.append(self._path, end)
            except OSError:
                # A full spool: better an end without usage than a job that counts as lost.
                step_record.append(self._path, {**end, "usage": None})
        finally:
            self._slurmd.close()
            signal(SIGCHLD, SIG_DFL)
