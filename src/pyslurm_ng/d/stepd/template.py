"""slurmstepd: the template of supervisors, and what each of them does first.

slurmd starts one template when it starts itself. It is small and has one thread, so a fork of it
becomes a supervisor within a fraction of a millisecond, for any size of slurmd. It reads users and
names of step files (see `step_record`) from a socket, each with a descriptor of the supervisor's
channel, forks, and records the child's process id. A supervisor whose step has ended may be told
the next one (see `idle_supervisors`). Instead of a name there may be a request to receive a user's
file. A lock in the spool makes a restarted slurmd's template wait for its
predecessor, so that after the wait every step that was begun has its process id in its file.

It is the reaper of its supervisors' processes, too: when a supervisor dies, its processes become
children of the template and are killed, in any session, group or environment. Then the step's file
says `swept`. So it outlives slurmd as long as one of its supervisors runs; then it forks no other.
Where a job has taken all processes that the node can have, it tries again until one is to be had.
"""

import fcntl
import gc
import math
import os
import select
import sys
import time
from _signal import (  # type: ignore[import-not-found]
    SIG_DFL,
    SIG_IGN,
    SIGCHLD,
    SIGHUP,
    SIGINT,
    SIGKILL,
    SIGTERM,
    set_wakeup_fd,
    signal,
)
from _socket import AF_UNIX, SOCK_SEQPACKET, socket

from pyslurm_ng.d.spool import step_record
from pyslurm_ng.d.stepd.idle_supervisors import (
    ENDS,
    STAYS,
    IdleSupervisors,
    NextSteps,
    receive_request,
)
from pyslurm_ng.d.stepd.own_process import close_all_but
from pyslurm_ng.d.stepd.step_faults import leave_trace
from pyslurm_ng.d.stepd.supervisor import Step
from pyslurm_ng.daemon.process_tree import descendants, is_zombie, own_children, signal_below
from pyslurm_ng.kernels import process as _process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from pyslurm_ng.d.spool.step_contract import StepSpec

READY = b"ready"
RECEIVE_FILE = "file"
"""In place of a user's id and a step file's name: a process that writes a user's file."""
TITLE_ROOM = 64
_SWEEP_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 2.0
_FORK_PAUSE_S = 0.1
_NOTHING = (0, 0, 0)


class _Title:
    """The process's command line as ps shows it, overwritten in place."""

    def __init__(self) -> None:
        with open("/proc/self/stat", "rb") as file:
            stat = file.read()
        fields = stat[stat.rindex(b")") + 2 :].split()
        self._begin, end = int(fields[45]), int(fields[46])
        self._room = end - self._begin
        self._memory = -1

    def hold(self) -> None:
        """Open this process's memory: only root's could, once it is not dumpable."""
        try:
            self._memory = os.open("/proc/self/mem", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            self._memory = -1  # the title is only for people's eyes

    def show(self, text: str) -> None:
        """Show `text` in a process that only root may look into, for which this has to be root."""
        self.hold()
        self.set(text)

    def set(self, text: str) -> None:
        """Show `text`, as much of it as there is room for; once for each `hold`."""
        if self._memory < 0:
            return
        raw = os.fsencode(text)[: self._room - 1]
        try:
            os.pwrite(self._memory, raw.ljust(self._room, b"\0"), self._begin)
        except OSError:
            return
        finally:
            os.close(self._memory)
            self._memory = -1


def main(argv: "Sequence[str]") -> int:
    """Serve as the template: `slurmstepd FD SPOOL`, started only by slurmd.

    `slurmstepd container ...` is a task instead, see `d.container.task`.
    """
    if argv and argv[0] in ("-V", "--version"):
        from pyslurm_ng import SLURM_VERSION

        print(f"slurm {SLURM_VERSION}")
        return 0
    if argv and argv[0] == "container":
        from pyslurm_ng.d.container.task import main as run_container

        return run_container(argv[1:])
    if len(argv) < 2 or not argv[0].isdecimal():
        sys.stderr.write("slurmstepd: error: started by slurmd only\n")
        return 1
    control = socket(AF_UNIX, SOCK_SEQPACKET, 0, int(argv[0]))
    control.setblocking(True)
    os.set_inheritable(control.fileno(), False)
    lock = os.open(f"{argv[1]}/stepd.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.lockf(lock, fcntl.LOCK_EX)
    for number in (SIGHUP, SIGINT, SIGTERM):
        signal(number, SIG_IGN)
    _process.become_subreaper()
    title = _Title()
    title.hold()
    title.set("slurmstepd: template")
    _process.set_name(b"slurmstepd")
    os.chdir("/")
    os.umask(0o022)
    gc.collect()
    gc.freeze()
    gc.disable()
    template = _Template(control, lock, title)
    control.send(READY)
    _let_go_of_streams()
    template.serve()
    return 0


class _Template:
    """Forks supervisors on request, and ends what those that died have left."""

    def __init__(self, control: socket, lock: int, title: _Title) -> None:
        self._control: socket | None = control
        self._lock = lock
        self._title = title
        self._boot = step_record.boot_id()
        self._reaper = step_record.start_ticks(os.getpid())
        self._poll = select.poll()
        self._running: dict[int, tuple[str, int]] = {}  # step's file and user, by process id
        self._idle = IdleSupervisors()
        self._talking: dict[int, int] = {}  # process ids by descriptor of our end
        self._own: set[int] = set()  # all that were forked here and are not collected
        self._lost: list[str] = []  # files of steps with processes that are being ended
        self._used = _NOTHING  # by orphans: user and system time in microseconds, peak in KiB
        self._has_orphans = False
        # Requests and their channels, while the node has no process for them.
        self._unforked: list[tuple[str, int]] = []
        self._wakeup, theirs = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        set_wakeup_fd(theirs)
        signal(SIGCHLD, lambda number, frame: None)

    def serve(self) -> None:
        """Return when slurmd has gone and nothing is left to reap."""
        poll = self._poll
        poll.register(self._wakeup, select.POLLIN)
        control = self._control
        if control is not None:
            poll.register(control, select.POLLIN)
        pause_s = _SWEEP_PAUSE_S
        while self._control is not None or self._running or self._has_orphans or self._unforked:
            if self._unforked:
                if self._fork(*self._unforked[0]):
                    del self._unforked[0]
                else:
                    for pid in self._idle.overdue(math.inf):
                        self._forget(pid)  # one process less, and this may be another user's
                    time.sleep(_FORK_PAUSE_S)
                self._reap()
                continue
            limit_ms = self._idle.wait_ms(time.monotonic())
            if self._has_orphans:
                limit_ms = int(pause_s * 1000)
            ready = {descriptor for descriptor, _ in poll.poll(limit_ms)}
            if self._wakeup in ready:
                self._reap()
            if self._has_orphans:
                self._sweep()
                pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
            else:
                pause_s = _SWEEP_PAUSE_S
            for descriptor in ready:
                if descriptor in self._talking:
                    self._hear(descriptor)
            if self._control is not None and self._control.fileno() in ready:
                words, channel = receive_request(self._control)
                if words:
                    self._begin(words, channel)
                else:
                    self._let_go()
            for pid in self._idle.overdue(time.monotonic()):
                self._forget(pid)

    def _let_go(self) -> None:
        """Take no further request: slurmd has gone."""
        assert self._control is not None
        self._poll.unregister(self._control)
        self._control.close()
        self._control = None
        os.close(self._lock)
        for pid in self._idle.all():
            self._forget(pid)

    def _begin(self, words: str, channel: int) -> None:
        """Have a request done by a supervisor that waits, or by a new process."""
        uid, _, path = words.partition(" ")
        pid = self._idle.choose(int(uid)) if path else 0
        if pid:
            # Before it can begin: no step runs whose supervisor its file does not name.
            self._began(pid, int(uid), path)
            if self._idle.give(pid, path, channel):
                return
            del self._running[pid]
            self._forget(pid)
        if not self._fork(words, channel):
            self._unforked.append((words, channel))

    def _fork(self, words: str, channel: int) -> bool:
        """Have a request done by a new process; return whether there is one."""
        uid, _, path = words.partition(" ")
        ours, theirs = self._idle.pair()
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            return False
        if pid == 0:
            set_wakeup_fd(-1)
            # Ends of other supervisors' sockets, too: theirs must end when the template does.
            close_all_but([channel, theirs.fileno()])
            if words == RECEIVE_FILE:
                _receive_file(channel, self._title)
            _supervise(path, channel, self._title, theirs)
        self._own.add(pid)
        os.close(channel)
        theirs.close()
        if words == RECEIVE_FILE:
            ours.close()
            return True
        descriptor = self._idle.add(pid, ours)
        self._talking[descriptor] = pid
        self._poll.register(descriptor, select.POLLIN)
        self._began(pid, int(uid), path)
        return True

    def _began(self, pid: int, uid: int, path: str) -> None:
        self._running[pid] = path, uid
        try:
            record = {
                "kind": "pid", "pid": pid, "start": step_record.start_ticks(pid),
                "boot": self._boot, "reaper": os.getpid(), "reaper_start": self._reaper,
            }  # fmt: skip
            step_record.append(path, record)
        except OSError:
            return  # slurmd has removed the step's file already, or the spool is full

    def _hear(self, descriptor: int) -> None:
        """Take what a supervisor says of its step."""
        pid = self._talking[descriptor]
        _, uid = self._running.get(pid, ("", -1))
        news = ENDS
        if self._control is not None:
            news = self._idle.news_of(pid, uid, time.monotonic())
        if news == STAYS:
            del self._running[pid]
        elif news == ENDS:
            self._forget(pid)

    def _forget(self, pid: int) -> None:
        """Close the socket of a supervisor, which ends if it waits for a step."""
        descriptor = self._idle.forget(pid)
        if descriptor >= 0:
            del self._talking[descriptor]
            self._poll.unregister(descriptor)

    def _reap(self) -> None:
        """Collect supervisors that have ended, and orphans."""
        try:
            os.read(self._wakeup, 4096)
        except BlockingIOError:
            pass
        self._collect()
        if self._has_orphans:
            self._sweep()

    def _collect(self) -> None:
        while True:
            try:
                pid, status, rusage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                break
            if pid not in self._own:
                self._count(rusage)
            self._own.discard(pid)
            channel = self._idle.not_taken(pid)
            self._forget(pid)
            path, uid = self._running.pop(pid, ("", -1))
            if channel >= 0 and self._control is not None:
                self._unforked.append((f"{uid} {path}", channel))
            elif path:
                # Even one that ended well may have left what nothing could end in its time.
                self._has_orphans = True
                if status:
                    self._lost.append(path)

    def _count(self, rusage: "Any") -> None:
        """Add what an orphan has used, with the descendants that it waited for."""
        user_us, system_us, peak_kib = self._used
        self._used = (
            user_us + int(rusage.ru_utime * 1e6),
            system_us + int(rusage.ru_stime * 1e6),
            max(peak_kib, int(rusage.ru_maxrss)),
        )

    def _sweep(self) -> None:
        """Kill what supervisors that are gone have left to us; say so when nothing is left."""
        alive = False
        for orphan in own_children():
            if orphan in self._own:
                continue
            # Supervisors and their tasks are below us, too, so "below us" is no proof that an id
            # in the list is still the orphan's.
            below = [pid for pid in descendants(orphan) if not is_zombie(pid)]
            signal_below(orphan, below, SIGKILL)
            if not is_zombie(orphan):
                os.kill(orphan, SIGKILL)  # not reaped yet, so it is this process
                alive = True
            alive = alive or bool(below)
        self._has_orphans = alive
        if not alive:
            self._collect()  # what has ended counts, too
        if self._has_orphans:
            return
        lost, self._lost = self._lost, []
        used, self._used = self._used, _NOTHING
        for path in lost:
            # Orphans do not tell whose they were: of two steps neither is told.
            record = {"kind": "swept", "used": used if len(lost) == 1 else _NOTHING}
            try:
                step_record.append(path, record)
            except OSError:
                continue


def _let_go_of_streams() -> None:
    """Free the terminal or pipe that slurmd was started from; its reader may wait for the end."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def _supervise(path: str, channel: int, title: _Title, theirs: socket) -> None:
    """In the child: be the supervisor of one step after the other; never returns."""
    code = 1
    try:
        os.setsid()
        signal(SIGCHLD, SIG_DFL)
        _process.become_subreaper()
        following = NextSteps(theirs, lambda: title.show("slurmstepd: idle"))
        while path:
            title.hold()
            _process.set_dumpable(False)
            spec: StepSpec = step_record.read(path)["spec"]
            title.set(f"slurmstepd: [{spec['name']}]")
            step = Step(path, spec, socket(AF_UNIX, SOCK_SEQPACKET, 0, channel))
            step.run()
            is_as_new = step.leaves_nothing
            del step, spec
            path, channel = following.wait(is_as_new=is_as_new)
        code = 0
    except BaseException:  # noqa: BLE001 - the last resort: it must be seen, and must not go on
        import traceback

        leave_trace(path, traceback.format_exc())
    finally:
        os._exit(code)


def _receive_file(channel: int, title: _Title) -> None:
    """In the child: write a file that a user sends; never returns."""
    try:
        from pyslurm_ng.d.stepd.file_receiver import receive

        title.hold()
        title.set("slurmstepd: receiving a file")
        _process.set_dumpable(False)
        receive(socket(AF_UNIX, SOCK_SEQPACKET, 0, channel))
    finally:
        os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
