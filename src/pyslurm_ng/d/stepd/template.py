"""slurmstepd: the template of supervisors, and what each of them does first.

slurmd starts one template when it starts itself. It is small and has one thread, so a fork of it
is a supervisor within a fraction of a millisecond whatever the size of slurmd. It reads names of
step files (see `step_record`) from a socket, each with a descriptor of the new supervisor's
channel, forks, and writes down the child's process id; in place of a name it may read that a file
of a user's is to be received. It ends when slurmd does; the supervisors go on. A lock in the spool
makes a restarted slurmd's template wait for its predecessor, so that after the wait every step that
was begun has its process id in its file.
"""

import fcntl
import gc
import os
import struct
import sys
from _signal import (  # type: ignore[import-not-found]
    SIG_DFL,
    SIG_IGN,
    SIGCHLD,
    SIGHUP,
    SIGINT,
    SIGTERM,
    signal,
)
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_SEQPACKET, SOL_SOCKET, socket

from pyslurm_ng import _process
from pyslurm_ng.d import step_record
from pyslurm_ng.d.stepd.supervisor import Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

REQUEST_BYTES = 8192
READY = b"ready"
RECEIVE_FILE = "file"
"""In place of a step file's name, which is absolute: a process that writes a user's file."""
TITLE_ROOM = 64


class _Title:
    """The process's command line as ps shows it, overwritten in place."""

    def __init__(self) -> None:
        with open("/proc/self/stat", "rb") as file:
            stat = file.read()
        fields = stat[stat.rindex(b")") + 2 :].split()
        self._begin, end = int(fields[45]), int(fields[46])
        self._room = end - self._begin

    def set(self, text: str) -> None:
        """Show `text`, as much of it as there is room for."""
        raw = os.fsencode(text)[: self._room - 1]
        try:
            with open("/proc/self/mem", "r+b", buffering=0) as memory:
                memory.seek(self._begin)
                memory.write(raw.ljust(self._room, b"\0"))
        except OSError:
            return  # only for people's eyes


def main(argv: "Sequence[str]") -> int:
    """Serve as the template: `slurmstepd FD SPOOL`, started by slurmd and nobody else."""
    if argv and argv[0] in ("-V", "--version"):
        from pyslurm_ng import __version__

        print(f"slurm {__version__}")
        return 0
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
    signal(SIGCHLD, SIG_IGN)  # no zombies: supervisors report by their files
    boot = step_record.boot_id()
    title = _Title()
    title.set("slurmstepd: template")
    _process.set_name(b"slurmstepd")
    os.chdir("/")
    os.umask(0o022)
    gc.collect()
    gc.freeze()
    gc.disable()
    control.send(READY)
    _let_go_of_streams()
    while True:
        path, channel = _receive(control)
        if not path:
            return 0
        pid = os.fork()
        if pid == 0:
            control.close()
            os.close(lock)
            if path == RECEIVE_FILE:
                _receive_file(channel, title)
            _supervise(path, channel, title)
        os.close(channel)
        if path == RECEIVE_FILE:
            continue
        try:
            record = {
                "kind": "pid", "pid": pid, "start": step_record.start_ticks(pid), "boot": boot,
            }  # fmt: skip
            step_record.append(path, record)
        except OSError:
            continue  # slurmd has removed the step's file already, or the spool is full


def _let_go_of_streams() -> None:
    """Free the terminal or pipe of whoever started slurmd; he may wait for its end."""
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
        _process.set_dumpable(False)
        spec = step_record.read(path)["spec"]
        title.set(f"slurmstepd: [{spec['name']}]")
        Step(path, spec, socket(AF_UNIX, SOCK_SEQPACKET, 0, channel)).run()
        code = 0
    except BaseException:  # noqa: BLE001 - the last resort: it must be seen, and must not go on
        _leave_trace(path)
    finally:
        os._exit(code)


def _receive_file(channel: int, title: _Title) -> None:
    """In the child: write a file that a user sends; never returns."""
    try:
        from pyslurm_ng.d.stepd.file_receiver import receive

        _process.set_dumpable(False)
        title.set("slurmstepd: receiving a file")
        receive(socket(AF_UNIX, SOCK_SEQPACKET, 0, channel))
    finally:
        os._exit(0)


def _leave_trace(path: str) -> None:
    """Write a bug where the administrator looks, beside the step's file."""
    import traceback

    try:
        with open(path + ".bug", "w") as file:
            traceback.print_exc(file=file)
    except OSError:
        return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
