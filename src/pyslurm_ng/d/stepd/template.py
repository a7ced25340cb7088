"""slurmstepd: the template of supervisors, and what each of them does first.

slurmd starts one template when it starts itself. It is small and has one thread, so a fork of it
becomes a supervisor within a fraction of a millisecond, for any size of slurmd. It reads names of
step files (see `step_record`) from a socket, each with a descriptor of the new supervisor's
channel, forks, and records the child's process id. Instead of a name it may read a request to
receive a user's file. A lock in the spool makes a restarted slurmd's template wait for its
predecessor, so that after the wait every step that was begun has its process id in its file.

It is the reaper of its supervisors' processes, too: when a supervisor dies, its processes become
children of the template and are killed, in any session, group or environment. Then the step's file
says `swept`. So it outlives slurmd as long as one of its supervisors runs; then it forks no other.
Where a job has taken all processes that the node can have, it tries again until one is to be had.
"""

import fcntl
import gc
import os
import select
import struct
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
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_SEQPACKET, SOL_SOCKET, socket

from pyslurm_ng.d.spool import step_record
from pyslurm_ng.d.stepd.step_faults import leave_trace
from pyslurm_ng.d.stepd.supervisor import Step
from pyslurm_ng.daemon.process_tree import descendants, is_zombie, own_children, signal_below
from pyslurm_ng.kernels import process as _process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyslurm_ng.d.spool.step_contract import StepSpec

REQUEST_BYTES = 8192
READY = b"ready"
RECEIVE_FILE = "file"
"""In place of a step file's name, which is absolute: a process that writes a user's file."""
TITLE_ROOM = 64
_SWEEP_PAUSE_S = 0.02
_LONGEST_PAUSE_S = 2.0
_FORK_PAUSE_S = 0.1


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
        from pyslurm_ng import __version__

        print(f"slurm {__version__}")
        return 0
    if argv and argv[0] == "container":
        from pyslurm_ng.d.container.task import main as run_container

        return run_container(argv[1:])
    if len(argv) < 2 or not argv[0].isdigit():
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
        self._running: dict[int, str] = {}  # the step's file of each supervisor, by process id
        self._receivers: set[int] = set()
        self._lost: list[str] = []  # files of steps with processes that are being ended
        self._has_orphans = False
        self._unforked: tuple[str, int] | None = (
            None  # a step's file and channel, while the node has no process for it
        )
        self._wakeup, theirs = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        set_wakeup_fd(theirs)
        signal(SIGCHLD, lambda number, frame: None)

    def serve(self) -> None:
        """Return when slurmd has gone and nothing is left to reap."""
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        assert self._control is not None
        poll.register(self._control, select.POLLIN)
        pause_s = _SWEEP_PAUSE_S
        while self._control is not None or self._running or self._has_orphans:
            if self._unforked is not None:
                time.sleep(_FORK_PAUSE_S)
                self._fork(*self._unforked)
                self._reap()
                continue
            limit_ms = int(pause_s * 1000) if self._has_orphans else -1
            ready = {descriptor for descriptor, _ in poll.poll(limit_ms)}
            if self._wakeup in ready:
                self._reap()
            if self._has_orphans:
                self._sweep()
                pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
            else:
                pause_s = _SWEEP_PAUSE_S
            if self._control is not None and self._control.fileno() in ready:
                path, channel = _receive(self._control)
                if path:
                    self._fork(path, channel)
                else:
                    poll.unregister(self._control)
                    self._control.close()
                    self._control = None
                    os.close(self._lock)

    def _fork(self, path: str, channel: int) -> None:
        try:
            pid = os.fork()
        except OSError:
            self._unforked = (path, channel)
            return
        self._unforked = None
        if pid == 0:
            assert self._control is not None
            set_wakeup_fd(-1)
            self._control.close()
            os.close(self._lock)
            os.close(self._wakeup)
            if path == RECEIVE_FILE:
                _receive_file(channel, self._title)
            _supervise(path, channel, self._title)
        os.close(channel)
        if path == RECEIVE_FILE:
            self._receivers.add(pid)
            return
        self._running[pid] = path
        try:
            record = {
                "kind": "pid", "pid": pid, "start": step_record.start_ticks(pid),
                "boot": self._boot, "reaper": os.getpid(), "reaper_start": self._reaper,
            }  # fmt: skip
            step_record.append(path, record)
        except OSError:
            return  # slurmd has removed the step's file already, or the spool is full

    def _reap(self) -> None:
        """Collect supervisors that have ended, and orphans."""
        try:
            os.read(self._wakeup, 4096)
        except BlockingIOError:
            pass
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not pid:
                break
            self._receivers.discard(pid)
            path = self._running.pop(pid, "")
            if path:
                # Even one that ended well may have left what nothing could end in its time.
                self._has_orphans = True
                if status:
                    self._lost.append(path)
        if self._has_orphans:
            self._sweep()

    def _sweep(self) -> None:
        """Kill what supervisors that are gone have left to us; say so when nothing is left."""
        own = self._running.keys() | self._receivers
        alive = False
        for orphan in own_children():
            if orphan in own:
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
        if alive:
            return
        lost, self._lost = self._lost, []
        for path in lost:
            try:
                step_record.append(path, {"kind": "swept"})
            except OSError:
                continue


def _let_go_of_streams() -> None:
    """Free the terminal or pipe that slurmd was started from; its reader may wait for the end."""
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)


def _receive(control: socket) -> "tuple[str, int]":
    """Return the next step's file and its channel; "" when slurmd has gone."""
    while True:
        room = 64
        try:
            body, ancillary, _, _ = control.recvmsg(REQUEST_BYTES, room)
        except InterruptedError:
            continue
        except OSError:
            return "", -1
        if not body:
            return "", -1
        channel = -1
        for level, kind, content in ancillary:
            if level == SOL_SOCKET and kind == SCM_RIGHTS:
                (channel,) = struct.unpack("i", content[:4])
        if channel >= 0:
            os.set_inheritable(channel, False)
            return os.fsdecode(body), channel


def _supervise(path: str, channel: int, title: _Title) -> None:
    """In the child: be the supervisor; never returns."""
    code = 1
    try:
        os.setsid()
        signal(SIGCHLD, SIG_DFL)
        _process.become_subreaper()
        title.hold()
        _process.set_dumpable(False)
        spec: StepSpec = step_record.read(path)["spec"]
        title.set(f"slurmstepd: [{spec['name']}]")
        Step(path, spec, socket(AF_UNIX, SOCK_SEQPACKET, 0, channel)).run()
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
