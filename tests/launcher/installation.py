"""A made-up installation of the launcher, whose command server is its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.world.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "launcher" / "pyslurm-launcher"
COMMAND = PROGRAM.with_name("pyslurm-command")
PACKAGE = ROOT / "src" / "pyslurm_ng"
MAGIC = 0x32736370  # PROTOCOL_MAGIC of src/launcher/command_protocol.h

# A squeue that shows what it was called with, or does what its first argument says.
TRIAL = """
import json, os, resource, signal, sys, time
kept = []
def leave(what):
    print(os.getpid(), flush=True)
    if what == "descriptor": kept.append(open("/dev/null"))
    if what == "handler": signal.signal(signal.SIGUSR1, lambda *_: None)
    if what == "niceness": os.nice(1)
    if what == "memory": kept.append(b"x" * (40 << 20))
    if what == "child" and os.fork() == 0:
        os.closerange(0, 3)
        time.sleep(20)
        os._exit(0)
    if what == "thread":
        import _thread
        _thread.start_new_thread(time.sleep, (600,))
    if what == "exception": raise RuntimeError("broken")
    return 0
def terminal():
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError as problem:
        return problem.strerror
    return "there is one"
def main(argv):
    what = argv[0]
    if what == "show":
        print(json.dumps({
            "argv": [sys.argv, argv], "cwd": os.getcwd(), "env": dict(os.environ),
            "umask": os.umask(0), "nice": os.nice(0), "cpus": sorted(os.sched_getaffinity(0)),
            "limits": [resource.getrlimit(kind) for kind in range(16)], "tz": time.tzname,
            "signals": [str(signal.getsignal(n)) for n in range(1, 65)],
            "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
            "streams": [[s.encoding, s.errors, s.line_buffering]
                        for s in (sys.stdin, sys.stdout, sys.stderr)],
            "open": sorted(os.listdir("/proc/self/fd"))[:3],
            "terminal": [os.access("/dev/tty", os.R_OK) and terminal(), os.isatty(0)],
            "input": "" if os.isatty(0) else sys.stdin.read(),
        }))
        return 0
    if what == "parent": print(os.getppid()); return 0
    if what == "leave": return leave(argv[1])
    if what == "spoil":
        os.umask(0o777)
        os.chdir("/tmp")
        os.environ["SPOILT"] = "yes"
        os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
        for kind, soft in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_NOFILE, 99)):
            resource.setrlimit(kind, (soft, resource.getrlimit(kind)[1]))
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
        signal.setitimer(signal.ITIMER_REAL, 3600)
        sys.stdout.write("x")
        sys.argv.append("y")
        return 0
    if what == "code": return int(argv[1])
    if what == "append":
        with open(argv[1], "a") as file: print(os.getpid(), file=file)
        return 0
    if what == "raise": raise RuntimeError("broken")
    if what == "interrupt": raise KeyboardInterrupt
    if what == "signal": os.kill(os.getpid(), int(argv[1])); time.sleep(60)
    if what == "wait":
        print(os.getpid(), flush=True)
        time.sleep(600)
    if what == "spin":
        print(os.getpid(), flush=True)
        while True: pass
    if what == "colors":
        print(os.getppid(), "colorsys" in sys.modules)
        import colorsys
        return 0
    if what == "import":
        print(os.getpid(), flush=True)
        signal.sigwait([signal.SIGUSR1])
        import colorsys
        if argv[1:]: print(*argv[1:], flush=True)
        return 3
"""


def state(pid: int) -> str:
    """Return the letter of a process's state; empty if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def is_over(pid: int) -> bool:
    """Return whether a process has ended; its parent may not have looked yet."""
    return state(pid) in ("", "Z")


def end(pid: int) -> None:
    """Kill a process, unless it has ended by itself or with another one."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@dataclass
class Installation:
    """A made-up squeue with its launcher, a configuration, and the server that it starts.

    Attributes:
        uid: the user who runs it, another one than ours only as root.
    """

    root: Path
    uid: int = os.geteuid()

    @property
    def directories(self) -> tuple[Path, Path]:
        """Return where servers of the user may have their sockets."""
        return Path(f"/run/user/{self.uid}/pyslurm-ng"), Path(f"/tmp/.pyslurm-ng-{self.uid}")

    @property
    def other_uid(self) -> int | None:
        """Return the user to become, None for ourselves."""
        return None if self.uid == os.geteuid() else self.uid

    def environment(self, **more: str) -> dict[str, str]:
        conf = str(self.root / "slurm.conf")
        return {"PATH": os.defpath, "SLURM_CONF": conf, "LANG": "C.UTF-8", **more}

    def run(self, *words: str, **options: object) -> subprocess.CompletedProcess[str]:
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("env", self.environment())
        options.setdefault("user", self.other_uid)
        return subprocess.run(
            [str(self.root / "bin" / "squeue"), *words],
            capture_output=True, text=True, check=False, timeout=60, **options,  # type: ignore[call-overload]
        )  # fmt: skip

    def popen(self, *words: str) -> subprocess.Popen[str]:
        """Start a command without waiting for it; the caller reads what it prints."""
        return subprocess.Popen(
            [str(self.root / "bin" / "squeue"), *words], user=self.other_uid,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=self.environment(),
        )  # fmt: skip

    def begin(self, *words: str) -> tuple[subprocess.Popen[str], int]:
        """Start a command that waits, by the server; return its launcher and its child's pid."""
        while True:
            launcher = self.popen(*words)
            assert launcher.stdout is not None
            with launcher.stdout:
                child = int(launcher.stdout.readline())
            if child != launcher.pid:
                return launcher, child
            launcher.kill()  # on a busy machine it has started directly
            launcher.wait()
            self.warm()

    def socket_path(self) -> Path | None:
        """Return the socket of the server; None where none listens."""
        program = self.root / "lib" / "pyslurm-ng" / "bin" / "pyslurm-command-server"
        for directory in self.directories:
            for path in directory.glob("*.socket"):
                try:
                    exe = os.readlink(f"/proc/{peer_of(path)}/exe")
                except OSError:
                    continue
                if exe == str(program.resolve()):
                    return path
        return None

    def server(self) -> int:
        """Return the pid of the server; 0 where none listens."""
        path = self.socket_path()
        return peer_of(path) if path is not None else 0

    def warm(self) -> int:
        """Use the command until its server runs it; return the server's pid."""

        def is_served() -> bool:
            parent = int(self.run("parent").stdout)
            return parent == self.server() != 0

        wait_until(is_served, "a command server")
        return self.server()


def install(root: Path) -> Installation:
    """Install the launcher, with `TRIAL` as squeue, below a directory."""
    library = root / "lib" / "pyslurm-ng"
    package = library / "pyslurm_ng"
    for name in ("__init__.py", "_run.py", "cli/__init__.py", "command_server.py",
                 "command_server_start.py", "cli/session_id.py", "conf/__init__.py",
                 "conf/quick.py", "base/__init__.py", "base/input_files.py",
                 "base/word_values.py"):  # fmt: skip
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGE / name, package / name)
    (package / "cli" / "squeue.py").write_text(TRIAL)
    for directory in (root / "bin", library / "bin"):
        directory.mkdir(exist_ok=True)
    shutil.copy(COMMAND, root / "bin" / "squeue")
    for name in ("squeue", "pyslurm-command-server"):
        shutil.copy(PROGRAM, library / "bin" / name)
    (root / "slurm.conf").write_text("ClusterName=trial\n")
    return Installation(root)


def peer_of(path: Path) -> int:
    """Return the pid that listens at a socket, 0 where none does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return 0
        peer: int = struct.unpack(
            "3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        )[0]
        return peer
