"""The supervisor of one step on one node: starts its tasks, serves their streams, ends them all.

One thread, one poll loop, no library: it may run for weeks and must stay small. It obeys slurmd
over its channel (`commands` below) and, for a step of srun, srun over its own connection. Its last
act is the `end` record in the step's file, so it never waits for slurmd.

Commands on the channel, msgpack maps by "do": signal (number, scope script|all), terminate (why,
wait_s), suspend, resume, say (text, to stderr), pids, usage. Answers go back on the channel.
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
from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_SEQPACKET, socket

from pyslurm_ng._records import pack, unpack
from pyslurm_ng.base.process_tree import (
    descendants,
    is_zombie,
    own_peak_kib,
    sample,
    signal_all,
    stamp,
)
from pyslurm_ng.d import step_record
from pyslurm_ng.d.stepd.step_cgroup import CgroupError, StepCgroup
from pyslurm_ng.d.stepd.step_files import remove_script, write_script
from pyslurm_ng.d.stepd.step_streams import Poller, SrunLink
from pyslurm_ng.d.stepd.step_tasks import CannotStart, TaskStarter, notice
from pyslurm_ng.d.stepd.task import Task
from pyslurm_ng.d.stepd.task_programs import TaskEpilogs
from pyslurm_ng.wire import step_io

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

FLAG_OUT_OF_MEMORY = 1
FLAG_CLEAN = 2
FLAG_KILLED = 8
FLAG_OVER_MEMORY = 16
FLAG_UNKILLABLE = 1 << 16
OOM_STATUS = 125
_COMMAND_BYTES = 65536
_FLUSH_S = 300.0
_KILL_PAUSE_S = 0.02
_CHILDREN_PAUSE_S = 0.2


class Step:
    """One step; `run` returns when nothing of it is left."""

    def __init__(self, path: str, spec: "dict[str, Any]", channel: "socket | None") -> None:
        self._path = path
        self._spec = spec
        self._poller = Poller()
        self._tasks = [Task(task) for task in spec["tasks"]]
        self._by_pid: dict[int, Task] = {}
        self._epilogs = TaskEpilogs(spec, self._later, self._say, self._tell_exit)
        self._link: SrunLink | None = None
        self._cgroup = StepCgroup(spec["cgroup"]) if spec["cgroup"] else None
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self._channel: socket | None = None
        self._listener: socket | None = None
        self._stderr = -1
        self._flags = 0
        self._error = ""
        self._status = 0
        self._is_dying = False
        self._kill_at = 0.0  # when those who had SIGTERM get SIGKILL
        self._kill_began = 0.0
        self._stdin_taken = 0
        self._usage: dict[int, dict[str, int]] = {}
        self._start_us = time.time_ns() // 1000
        self._end_us = 0
        self._own_rss_kib = own_peak_kib()
        self._watch_children()
        if channel is not None:
            self._attach(channel)

    # Life -------------------------------------------------------------------------------------

    def run(self) -> None:
        """Start the tasks, serve until the last one ended, clean up, leave the end record."""
        try:
            self._start()
        except CannotStart as problem:
            self._status, self._error = problem.status, problem.text
            if problem.text:
                self._say(problem.text)
            if self._link is not None:
                fields = {"code": problem.status, "text": problem.text}
                self._link.tell(step_io.FAILED, fields)
        while any((task.pid and not task.is_over) or task.epilog for task in self._tasks):
            self._turn()
        while self._spec["waits_for_children"] and not self._is_dying and self._processes():
            self._turn(_CHILDREN_PAUSE_S)
        self._end_us = time.time_ns() // 1000
        self._end_processes()
        self._end_streams()
        self._finish()

    def _turn(self, limit_s: float = 3600.0) -> None:
        """Serve once: what is ready, then timers."""
        now = time.monotonic()
        due = min((at for at, _ in self._timers), default=now + limit_s)
        wait_s = max(0.0, min(due - now, limit_s))
        self._poller.run(int(wait_s * 1000) + 1 if wait_s else 0)
        self._run_timers()

    def _run_timers(self) -> None:
        now = time.monotonic()
        ready = [timer for timer in self._timers if timer[0] <= now]
        if ready:
            self._timers = [timer for timer in self._timers if timer[0] > now]
            for _, callback in ready:
                callback()

    def _wait_for(self, descriptor: int, limit_s: float) -> bool:
        """Return whether a descriptor can be read in time; orders of slurmd are obeyed meanwhile.

        Not those of srun: standard input must find all tasks started.
        """
        give_up = time.monotonic() + limit_s
        while True:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            channel = self._channel.fileno() if self._channel is not None else -1
            if channel >= 0:
                poll.register(channel, select.POLLIN)
            left_s = give_up - time.monotonic()
            ready = {one for one, _ in poll.poll(int(1000 * max(0.0, min(left_s, 1.0))))}
            if channel in ready:
                self._on_command(0)
            self._run_timers()
            if descriptor in ready or left_s <= 0:
                return descriptor in ready

    def _later(self, delay_s: float, callback: "Callable[[], None]") -> None:
        self._timers.append((time.monotonic() + delay_s, callback))

    def _start(self) -> None:
        """Confine, connect, open, start. Raises CannotStart."""
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
            self._connect()
        starter = TaskStarter(spec, self._poller, self._link, joins, self._taken, self._say,
                              self._wait_for)  # fmt: skip
        try:
            starter.find_directory()
            for task in self._tasks:
                if self._is_dying:
                    raise CannotStart(SIGTERM, "")
                starter.start(task)
                if task.pid:
                    self._by_pid[task.pid] = task
        finally:
            self._stderr = starter.stderr
            starter.say_notes()
            starter.close()
        self._tell_started()
        if spec["acct_every"] or spec["memory_limit_kib"]:
            self._later(min(1.0, spec["acct_every"] or 1.0), self._sample)

    def _write_script(self) -> None:
        spec = self._spec
        try:
            path = write_script(spec["spool"], spec["script"], spec["uid"], spec["gid"])
        except OSError as error:
            raise CannotStart(53, f"{spec['spool']}: {error.strerror}") from None
        self._tasks[0].spec["argv"][0] = path

    def _connect(self) -> None:
        spec = self._spec
        try:
            self._link = SrunLink(self._poller, spec["route"], self._on_frame, self._srun_gone)
        except OSError as error:
            raise CannotStart(SIGKILL, f"cannot connect to srun: {error}") from None
        self._link.hello(
            {
                "key": spec["route"]["key"],
                "node": spec["node"],
                "node_index": spec["node_index"],
                "tasks": [task.task for task in self._tasks],
                "pid": os.getpid(),
            }
        )

    def _tell_started(self) -> None:
        pids = {task.task: task.pid for task in self._tasks if task.pid}
        if not self._spec["is_batch"]:
            try:
                step_record.append(self._path, {"kind": "tasks", "pids": pids})
            except OSError:
                pass  # the leftovers of a lost supervisor are found by their control group, too
        self._answer({"did": "start", "pids": pids})
        if self._link is None:
            return
        self._link.tell(step_io.STARTED, {"pids": pids})
        for task in self._tasks:
            if task.is_over:
                self._task_over(task)

    # Children ---------------------------------------------------------------------------------

    def _watch_children(self) -> None:
        ours, theirs = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._wakeup = ours
        set_wakeup_fd(theirs)
        signal(SIGCHLD, lambda number, frame: None)
        for number in (SIGHUP, SIGINT, SIGPIPE):
            signal(number, SIG_IGN)
        signal(SIGTERM, lambda number, frame: self._terminate("", 0.0))
        self._poller.watch(ours, select.POLLIN, self._reap)

    def _reap(self, events: int = 0) -> None:
        """Collect every dead child: tasks, and orphans that came to us."""
        try:
            os.read(self._wakeup, 4096)
        except BlockingIOError:
            pass
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
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
        """Return the step's living processes."""
        pids = descendants(os.getpid())
        if self._cgroup is not None:
            known = set(pids)
            pids += [pid for pid in self._cgroup.pids() if pid not in known]
        return [pid for pid in pids if not is_zombie(pid)]

    def _end_processes(self) -> None:
        """End what the tasks left behind, with SIGKILL, until nothing is left or it is hopeless.

        After SIGTERM all have the same time to end by themselves: an srun whose script is gone at
        once still has to hear how its tasks ended.
        """
        while self._processes() and time.monotonic() < self._kill_at:
            self._turn(_KILL_PAUSE_S)
            self._reap()
        give_up = time.monotonic() + self._spec["unkillable_s"]
        while True:
            self._reap()
            pids = self._processes()
            if not pids:
                self._flags |= FLAG_CLEAN
                return
            if time.monotonic() > give_up:
                self._flags |= FLAG_UNKILLABLE
                return
            if self._cgroup is not None:
                self._cgroup.kill()
            signal_all(pids, SIGKILL)
            self._turn(_KILL_PAUSE_S)

    # Ending by order --------------------------------------------------------------------------

    def _terminate(self, why: str, wait_s: float) -> None:
        """End every process: TERM (after CONT) now, KILL after the wait.

        Args:
            why: why in the job's stderr; a second line has more of it.
        """
        if why:
            why, _, more = why.partition("\n")
            what = f"JOB {self._spec['job']}" if self._spec["is_batch"] else self._step_text()
            when = stamp()[:19]
            self._say(f"*** {what} ON {self._spec['node']} CANCELLED AT {when} {why} ***")
            if more:
                self._say(f"*** {more} ***")
        self._flags |= FLAG_KILLED
        if not self._is_dying:
            self._is_dying = True
            pids = self._processes()
            signal_all(pids, SIGCONT)
            if wait_s > 0:
                self._kill_at = time.monotonic() + wait_s
                signal_all(pids, SIGTERM)
        if wait_s > 0:
            self._later(wait_s, self._kill)
        else:
            self._kill()

    def _step_text(self) -> str:
        return f"STEP {self._spec['name']}"

    def _kill(self) -> None:
        """Send SIGKILL now, and again while something of the tasks lives."""
        if self._cgroup is not None:
            self._cgroup.kill()
        signal_all(self._processes(), SIGKILL)
        now = time.monotonic()
        self._kill_began = self._kill_began or now
        if now - self._kill_began > self._spec["unkillable_s"]:
            self._flags |= FLAG_UNKILLABLE
            for task in self._tasks:
                if not task.is_over:
                    task.status, task.is_over = SIGKILL, True
            return
        if self._by_pid:
            self._later(0.5, self._kill)

    def _signal(self, number: int, scope: str) -> None:
        if number == SIGKILL and scope == "all":
            self._terminate("" if self._spec["is_batch"] else "DUE to SIGNAL Killed", 0.0)
        elif scope == "script":
            signal_all([task.pid for task in self._tasks if not task.is_over and task.pid], number)
        else:
            signal_all(self._processes(), number)

    def _suspend(self, *, suspended: bool) -> None:
        pids = self._processes()
        if suspended:
            signal_all(pids, SIGTSTP)
            signal_all(pids, SIGSTOP)
        else:
            signal_all(pids, SIGCONT)

    # slurmd -----------------------------------------------------------------------------------

    def _attach(self, channel: socket) -> None:
        channel.setblocking(False)
        self._channel = channel
        self._poller.watch(channel.fileno(), select.POLLIN, self._on_command)

    def _on_command(self, events: int) -> None:
        assert self._channel is not None
        try:
            body = self._channel.recv(_COMMAND_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            body = b""
        if not body:
            self._detach()
            return
        try:
            self._obey(unpack(body))
        except (ValueError, KeyError, TypeError) as error:
            self._answer({"did": "nothing", "error": f"{type(error).__name__}: {error}"})

    def _obey(self, command: "dict[str, Any]") -> None:
        what = command["do"]
        if what == "signal":
            self._signal(command["number"], command["scope"])
        elif what == "terminate":
            self._terminate(command["why"], command["wait_s"])
        elif what in ("suspend", "resume"):
            self._suspend(suspended=what == "suspend")
        elif what == "say":
            self._tell_user(command["text"])
        elif what == "pids":
            pids = {task.task: task.pid for task in self._tasks if not task.is_over}
            answer = {"did": what, "tag": command["tag"], "tasks": pids, "all": self._processes()}
            self._answer(answer)
        elif what == "usage":
            self._measure()
            answer = {"did": what, "tag": command["tag"], "usage": list(self._usage.items())}
            self._answer(answer | {"pids": self._processes()})

    def _answer(self, fields: "dict[str, Any]") -> None:
        if self._channel is None:
            return
        try:
            self._channel.send(pack(fields))
        except OSError:
            return  # it is gone or swamped; the file says all that matters

    def _detach(self) -> None:
        """slurmd has gone: wait for the next one on a socket beside the step's file."""
        if self._channel is not None:
            self._poller.drop(self._channel.fileno())
            self._channel.close()
            self._channel = None
        if self._listener is None:
            listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC)
            path = self._path + ".sock"
            folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            # A socket's address is short; by the directory's number only the name counts.
            short = f"/proc/self/fd/{folder}/{os.path.basename(path)}"
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass
            try:
                listener.bind(short)
                os.chmod(path, 0o600)
            except OSError:
                listener.close()
                return
            finally:
                os.close(folder)
            listener.listen(4)
            listener.setblocking(False)
            self._listener = listener
            self._poller.watch(listener.fileno(), select.POLLIN, self._accept)

    def _accept(self, events: int) -> None:
        assert self._listener is not None
        try:
            descriptor, _ = self._listener._accept()  # type: ignore[attr-defined]
        except OSError:
            return
        channel = socket(AF_UNIX, SOCK_SEQPACKET, 0, descriptor)
        if self._channel is not None:
            channel.close()
            return
        self._attach(channel)
        self._answer({"did": "attach", "pids": {t.task: t.pid for t in self._tasks if t.pid}})

    # srun -------------------------------------------------------------------------------------

    def _on_frame(self, kind: int, task_id: int, body: bytes) -> None:
        if kind == step_io.STDIN:
            self._stdin(task_id, body)
        elif kind == step_io.SIGNAL:
            self._signal_tasks(task_id, step_io.numbers(body)[0])
        elif kind == step_io.TERMINATE:
            why = body.decode("utf-8", "replace")
            self._terminate(f"DUE TO {why}" if why else "", float(self._spec["kill_wait"]))
        elif kind == step_io.WINDOW:
            self._resize(body)
        elif kind == step_io.PING and self._link is not None:
            self._link.send(step_io.pack(step_io.PONG))

    def _signal_tasks(self, task_id: int, number: int) -> None:
        if task_id == step_io.ALL:
            self._signal(number, "all")
            return
        for task in self._tasks:
            if task.task == task_id and task.pid and not task.is_over:
                signal_all([task.pid, *descendants(task.pid)], number)

    def _stdin(self, task_id: int, body: bytes) -> None:
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
            # Nobody reads any more: let srun empty its side, whatever it still has.
            taken = self._stdin_taken + step_io.STDIN_WINDOW // 2
        else:
            taken = min(inlet.taken for inlet in open_inlets)
        if taken - self._stdin_taken >= step_io.STDIN_WINDOW // 4:
            credit = taken - self._stdin_taken
            self._stdin_taken = taken
            self._link.send(step_io.pack_number(step_io.CREDIT, step_io.ALL, credit))

    def _resize(self, body: bytes) -> None:
        import fcntl
        import struct
        import termios

        rows, columns = step_io.window(body)
        first = self._tasks[0]
        if first.inlet is not None and not first.inlet.is_over:
            size = struct.pack("HHHH", rows, columns, 0, 0)
            fcntl.ioctl(first.inlet.descriptor, termios.TIOCSWINSZ, size)

    def _srun_gone(self) -> None:
        if not self._spec["no_kill"] and self._by_pid:
            self._terminate("", float(self._spec["kill_wait"]))

    def _say(self, text: str, stderr: int = -1) -> None:
        """Write a line where the step's stderr goes."""
        stderr = stderr if stderr >= 0 else self._stderr
        line = notice(text)
        if self._link is not None and self._link.is_open:
            self._link.send(step_io.pack(step_io.NOTICE, step_io.ALL, line))
        elif stderr >= 0:
            try:
                os.write(stderr, line)
            except OSError:
                return

    def _tell_user(self, text: str) -> None:
        """Write what somebody wants the job's owner to read (`scontrol notify`)."""
        if self._stderr >= 0:
            try:
                os.write(self._stderr, f"{text}\n".encode("utf-8", "surrogateescape"))
            except OSError:
                return

    # Usage ------------------------------------------------------------------------------------

    def _sample(self) -> None:
        self._measure()
        if self._by_pid:
            self._later(max(1.0, float(self._spec["acct_every"] or 30)), self._sample)

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
            self._flags |= FLAG_OVER_MEMORY
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
        self._check_memory()
        link = self._link
        if link is None:
            return
        link.send(step_io.pack(step_io.DONE))
        give_up = time.monotonic() + _FLUSH_S
        while link.is_open and not link.is_flushed and time.monotonic() < give_up:
            self._turn(1.0)
        link.finish()
        link.close()

    def _check_memory(self) -> None:
        kills = self._cgroup.oom_kills() if self._cgroup is not None else 0
        if kills > 0:
            self._flags |= FLAG_OUT_OF_MEMORY
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
        if self._flags & FLAG_OUT_OF_MEMORY:
            status = OOM_STATUS
        if self._cgroup is not None:
            self._cgroup.leave()
        if self._spec["script"]:
            remove_script(self._spec["spool"])
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
            if self._listener is not None:
                os.unlink(self._path + ".sock")
            signal(SIGCHLD, SIG_DFL)
