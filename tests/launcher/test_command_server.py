"""The command server: the same results as a direct start, and neither end outlives the other."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.world.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build" / "launcher" / "pyslurm-launcher"
PACKAGE = ROOT / "src" / "pyslurm_ng"
DIRECTORIES = (
    Path(f"/run/user/{os.geteuid()}/pyslurm-ng"),
    Path(f"/tmp/.pyslurm-ng-{os.geteuid()}"),
)

pytestmark = pytest.mark.skipif(
    not PROGRAM.exists(), reason="the launcher is not built: run `make build`"
)

MAGIC = 0x32736370  # PROTOCOL_MAGIC of src/launcher/command_protocol.h
USR1 = 1 << (signal.SIGUSR1 - 1)

# A squeue that shows what it was called with, or does what its first argument says.
TRIAL = """
import json, os, resource, signal, sys, time
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
            "open": sorted(os.listdir("/proc/self/fd"))[:3], "input": sys.stdin.read(),
        }))
        return 0
    if what == "parent": print(os.getppid()); return 0
    if what == "code": return int(argv[1])
    if what == "raise": raise RuntimeError("broken")
    if what == "interrupt": raise KeyboardInterrupt
    if what == "signal": os.kill(os.getpid(), int(argv[1])); time.sleep(60)
    if what == "wait":
        print(os.getpid(), flush=True)
        time.sleep(600)
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


def signal_family(server: int, number: signal.Signals) -> list[int]:
    """Stop a server and its children, or let them go on; return the children.

    The server is stopped first and goes on last: as long as it is stopped, a child that ends stays.
    """
    if number == signal.SIGSTOP:
        os.kill(server, number)
    children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
    for child in children:
        os.kill(int(child), number)
    if number == signal.SIGCONT:
        os.kill(server, number)
    return [int(child) for child in children]


@dataclass
class Installation:
    """A made-up squeue with its launcher, a configuration, and the server that it starts."""

    root: Path

    def environment(self, **more: str) -> dict[str, str]:
        conf = str(self.root / "slurm.conf")
        return {"PATH": os.defpath, "SLURM_CONF": conf, "LANG": "C.UTF-8", **more}

    def run(self, *words: str, **options: object) -> subprocess.CompletedProcess[str]:
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("env", self.environment())
        return subprocess.run(
            [str(self.root / "bin" / "squeue"), *words],
            capture_output=True, text=True, check=False, timeout=60, **options,  # type: ignore[call-overload]
        )  # fmt: skip

    def popen(self, *words: str) -> subprocess.Popen[str]:
        """Start a command without waiting for it; the caller reads what it prints."""
        return subprocess.Popen(
            [str(self.root / "bin" / "squeue"), *words],
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
        for directory in DIRECTORIES:
            for path in directory.glob("*.socket"):
                try:
                    exe = os.readlink(f"/proc/{_peer(path)}/exe")
                except OSError:
                    continue
                if exe == str(program.resolve()):
                    return path
        return None

    def server(self) -> int:
        """Return the pid of the server; 0 where none listens."""
        path = self.socket_path()
        return _peer(path) if path is not None else 0

    def warm(self) -> int:
        """Use the command until its server runs it; return the server's pid."""

        def is_served() -> bool:
            parent = int(self.run("parent").stdout)
            return parent == self.server() != 0

        wait_until(is_served, "a command server")
        return self.server()


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Installation]:
    """Return an installation whose squeue is `TRIAL`; its server ends with the test."""
    library = tmp_path / "lib" / "pyslurm-ng"
    package = library / "pyslurm_ng"
    for name in ("__init__.py", "_run.py", "cli/__init__.py", "command_server.py",
                 "command_server_start.py", "cli/session_id.py", "conf/__init__.py",
                 "conf/quick.py", "base/__init__.py", "base/input_files.py"):  # fmt: skip
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PACKAGE / name, package / name)
    (package / "cli" / "squeue.py").write_text(TRIAL)
    for program in (tmp_path / "bin" / "squeue", library / "bin" / "pyslurm-command-server"):
        program.parent.mkdir(exist_ok=True)
        shutil.copy(PROGRAM, program)
    (tmp_path / "slurm.conf").write_text("ClusterName=trial\n")
    installation = Installation(tmp_path)
    yield installation
    pid = installation.server()
    if pid:
        end(pid)


def test_server_starts_with_the_second_command_and_runs_the_next_ones(
    installed: Installation,
) -> None:
    installed.run("code", "0")
    assert installed.server() == 0, "one command alone is worth no server"
    installed.warm()


def test_all_that_a_command_is_called_with_arrives(installed: Installation, tmp_path: Path) -> None:
    def prepare() -> None:
        os.umask(0o027)
        os.nice(3)
        resource.setrlimit(resource.RLIMIT_NOFILE, (77, resource.getrlimit(7)[1]))
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])

    def shown(setting: str) -> dict[str, object]:
        directory = tmp_path / "a directory"
        directory.mkdir(exist_ok=True)
        more = {
            "PYSLURM_COMMAND_SERVER": setting,
            "TZ": "Asia/Tokyo",
            "LINES": "a\nb=c",
            "EMPTY": "",
        }
        with open(directory / "input", "w+") as text:
            text.write("some input\n")
            text.seek(0)
            done = installed.run(
                "show", "", "--x=y z", "\udcff", stdin=text, cwd=directory,
                env=installed.environment(**more), preexec_fn=prepare,
            )  # fmt: skip
        assert done.stderr == ""
        answer: dict[str, object] = json.loads(done.stdout)
        assert isinstance(answer["env"], dict)
        assert answer["env"].pop("PYSLURM_COMMAND_SERVER") == setting
        return answer

    installed.warm()
    assert shown("1") == shown("0")


@pytest.mark.parametrize(
    "words",
    [("code", "0"), ("code", "3"), ("code", "255"), ("raise",), ("interrupt",), ("signal", "9"),
     ("signal", "15"), ("signal", "11")],
)  # fmt: skip
def test_commands_end_as_they_do_without_a_server(
    installed: Installation, words: tuple[str, ...]
) -> None:
    installed.warm()
    direct = installed.run(*words, env=installed.environment(PYSLURM_COMMAND_SERVER="0"))
    served = installed.run(*words)
    assert (served.returncode, served.stdout, served.stderr) == (
        direct.returncode,
        direct.stdout,
        direct.stderr,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_signals_reach_the_command(installed: Installation, number: signal.Signals) -> None:
    installed.warm()
    launcher, child = installed.begin("wait")
    launcher.send_signal(number)
    assert launcher.wait(60) == -number
    wait_until(lambda: is_over(child), "the child's end")


def test_command_stops_and_goes_on_with_its_launcher(installed: Installation) -> None:
    installed.warm()
    launcher, child = installed.begin("wait")
    launcher.send_signal(signal.SIGTSTP)
    wait_until(lambda: state(child) == "T" and state(launcher.pid) == "T", "both to stop")
    launcher.send_signal(signal.SIGCONT)
    wait_until(lambda: state(child) == "S" and state(launcher.pid) == "S", "both to go on")
    launcher.send_signal(signal.SIGTERM)
    assert launcher.wait(60) == -signal.SIGTERM


def test_command_ends_with_a_launcher_that_is_killed(installed: Installation) -> None:
    installed.warm()
    launcher, child = installed.begin("wait")
    launcher.kill()
    launcher.wait()
    wait_until(lambda: is_over(child), "the child's end")
    assert launcher.returncode == -signal.SIGKILL


def test_launcher_ends_as_a_command_that_is_killed(installed: Installation) -> None:
    installed.warm()
    launcher, child = installed.begin("wait")
    os.kill(child, signal.SIGKILL)
    assert launcher.wait(60) == -signal.SIGKILL


def test_command_goes_on_without_its_server_and_the_next_is_started_directly(
    installed: Installation,
) -> None:
    server = installed.warm()
    launcher, child = installed.begin("wait")
    os.kill(server, signal.SIGKILL)
    assert installed.run("code", "4").returncode == 4
    launcher.send_signal(signal.SIGTERM)
    assert launcher.wait(60) == -signal.SIGTERM
    wait_until(lambda: is_over(child), "the child's end")
    assert installed.warm() != server


def test_only_the_end_of_its_launcher_ends_a_command(installed: Installation) -> None:
    """The kernel announces a packet when it is there already: GO once killed the command that had
    read it, which then ended without a word."""
    installed.warm()
    path = installed.socket_path()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as launcher:
        launcher.settimeout(60)
        launcher.connect(str(path))
        launcher.recv(100)
        request = struct.pack("=4I2i2Q", MAGIC, 3, 1, 0o022, os.nice(0), os.getsid(0), 0, USR1)
        limits = [number for kind in range(16) for number in resource.getrlimit(kind)]
        cpus = sum(1 << cpu for cpu in os.sched_getaffinity(0))
        request += struct.pack("=32Q", *(limit % 2**64 for limit in limits))
        request += cpus.to_bytes(128, sys.byteorder) + b"squeue\0import\0end\0A=b\0"
        reading, writing = os.pipe()
        null, root = os.open(os.devnull, os.O_RDWR), os.open("/", os.O_PATH)
        socket.send_fds(launcher, [request], [null, writing, null, root])
        for descriptor in (null, writing, root):
            os.close(descriptor)
        _, descriptors, _, _ = socket.recv_fds(launcher, 100, 2)
        launcher.send(b"go\0")
        with open(reading) as output:
            child = int(output.readline())
            launcher.send(b"another packet")
            os.kill(child, signal.SIGUSR1)
            assert output.readline() == "end\n"
        for descriptor in descriptors:
            os.close(descriptor)


def test_no_end_is_lost_with_a_server_that_has_ended(installed: Installation) -> None:
    """A launcher on a busy machine gives its server up, while commands that it began still run."""
    server = installed.warm()
    blocked = [signal.SIGUSR1]
    signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
    try:
        launcher, child = installed.begin("import")
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
    os.kill(server, signal.SIGKILL)
    wait_until(lambda: is_over(server), "the server's end")
    os.kill(child, signal.SIGUSR1)
    assert launcher.wait(60) == 3


def test_server_that_does_not_answer_is_replaced(installed: Installation) -> None:
    server = installed.warm()
    children = signal_family(server, signal.SIGSTOP)
    assert installed.run("code", "5").returncode == 5
    try:
        assert installed.warm() != server
    finally:
        for pid in (server, *children):
            end(pid)


def test_server_that_takes_other_commands_is_waited_for_and_stays(installed: Installation) -> None:
    """64 that began at once took their server for hung and ended it, again and again."""
    server = installed.warm()
    path = installed.socket_path()
    assert path is not None
    signal_family(server, signal.SIGSTOP)
    with installed.popen("parent") as command:
        while command.poll() is None:
            os.utime(path.with_suffix(".lock"))  # as the server does with each command
    signal_family(server, signal.SIGCONT)
    assert command.returncode == 0
    assert installed.server() == server


def test_server_begins_with_the_modules_of_the_command_that_started_it(
    installed: Installation,
) -> None:
    """Else each of many commands that begin at once would import all of them by itself."""
    lines: list[list[str]] = []

    def is_served() -> bool:
        lines.append(installed.run("colors").stdout.split())
        return int(lines[-1][0]) == installed.server()  # those before start directly

    wait_until(is_served, "a command server")
    assert lines[-1][1] == "True"


def test_children_that_wait_bring_what_commands_write_to(installed: Installation) -> None:
    """Copied page by page at the first write, it was a fifth of a command's time."""

    def own_kib() -> int:
        """Return how much memory the newest child shares with nobody."""
        server = installed.warm()
        children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        try:
            facts = Path(f"/proc/{children[-1]}/smaps_rollup").read_text()
        except (IndexError, OSError):  # it has run a command since
            return 0
        return int(facts.partition("Private_Dirty:")[2].split()[0])

    before = own_kib()
    wait_until(lambda: own_kib() > before + 400, "children that bring pages")


def test_what_dead_servers_left_is_removed_with_a_new_start(installed: Installation) -> None:
    """Servers of steps are killed with them; no file of a living one is touched."""
    directory = next(path for path in DIRECTORIES if path.parent.is_dir())
    directory.mkdir(mode=0o700, exist_ok=True)
    names = [f"test{os.getpid()}{kind}" for kind in ("dead", "alive", "new")]
    files = [directory / f"{name}.{end}" for name in names for end in ("lock", "socket")]
    for file in files:
        file.write_text("used\n")
        if "new" not in file.name:
            os.utime(file, (1, 1))
    (directory / "swept").unlink(missing_ok=True)
    try:
        with files[2].open() as alive:
            fcntl.flock(alive, fcntl.LOCK_EX)
            installed.run("code", "0")
            wait_until(lambda: not (files[0].exists() or files[1].exists()))
        assert all(file.exists() for file in files[2:])
    finally:
        for file in files:
            file.unlink(missing_ok=True)


def test_server_ends_when_a_module_has_changed(installed: Installation) -> None:
    server = installed.warm()
    module = installed.root / "lib" / "pyslurm-ng" / "pyslurm_ng" / "cli" / "squeue.py"
    module.write_text(TRIAL.replace("return int(argv[1])", "return int(argv[1]) + 1"))

    def is_replaced() -> bool:
        # The server may have imported the new module only now.
        os.utime(module)
        assert installed.run("code", "6").returncode == 7
        return is_over(server)

    wait_until(is_replaced, "the server's end")


def test_site_turns_servers_off_by_a_word_of_slurm_conf(installed: Installation) -> None:
    conf = installed.root / "slurm.conf"
    conf.write_text("SlurmctldParameters=rl_enable,no_command_server\n")
    for _ in range(3):
        assert installed.run("code", "0").returncode == 0
    assert installed.server() == 0


def test_long_command_lines_and_closed_streams_are_run_directly(installed: Installation) -> None:
    server = installed.warm()
    many = installed.environment(LONG="x" * 100_000, LONGER="y" * 100_000)
    assert int(installed.run("parent", env=many).stdout) == os.getpid()
    done = installed.run("code", "8", preexec_fn=lambda: os.close(0))
    assert done.returncode == 8
    assert installed.server() == server


def test_requests_that_are_none_cost_a_child_only(installed: Installation) -> None:
    server = installed.warm()
    path = installed.socket_path()
    for packet in (b"", b"x", b"pcs2" + b"\xff" * 4000, b"\0" * 100_000):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
            stranger.settimeout(60)
            stranger.connect(str(path))
            stranger.recv(100)
            stranger.send(packet)
            assert stranger.recv(100) == b"", "it was taken for a command"
    assert installed.run("code", "9").returncode == 9
    assert installed.server() == server


def _peer(path: Path) -> int:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return 0
        peer: int = struct.unpack(
            "3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        )[0]
        return peer
