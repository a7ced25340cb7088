"""The command server: the same results as a direct start, and neither end outlives the other."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TextIO

import pytest

from tests.launcher.installation import (
    MAGIC,
    PROGRAM,
    TRIAL,
    Installation,
    end,
    is_over,
    state,
)
from tests.world.waiting import wait_until

pytestmark = pytest.mark.skipif(
    not PROGRAM.exists(), reason="the launcher is not built: run `make build`"
)


@pytest.fixture(autouse=True)
def _signals_of_a_terminal() -> Iterator[None]:
    """Commands inherit what nohup, or a shell for its background, ignores where the tests run."""
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if handler == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


USR1 = 1 << (signal.SIGUSR1 - 1)


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


@contextlib.contextmanager
def launcher_by_hand(
    installed: Installation, *words: str, blocked: int = 0
) -> Iterator[tuple[socket.socket, TextIO]]:
    """Have a server run a command, as a launcher does that does not read its end by itself.

    Yields:
        The connection, and what the command prints.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as launcher:
        launcher.settimeout(60)
        launcher.connect(str(installed.socket_path()))
        launcher.recv(100)
        count = 1 + len(words)
        request = struct.pack(
            "=4I2i2Q", MAGIC, count, 1, 0o022, os.nice(0), os.getsid(0), 0, blocked
        )
        limits = [number for kind in range(16) for number in resource.getrlimit(kind)]
        cpus = sum(1 << cpu for cpu in os.sched_getaffinity(0))
        request += struct.pack("=32Q", *(limit % 2**64 for limit in limits))
        request += cpus.to_bytes(128, sys.byteorder)
        request += "".join(f"{word}\0" for word in ("squeue", *words, "A=b")).encode()
        reading, writing = os.pipe()
        null, root = os.open(os.devnull, os.O_RDWR), os.open("/", os.O_PATH)
        socket.send_fds(launcher, [request], [null, writing, null, root])
        for descriptor in (null, writing, root):
            os.close(descriptor)
        _, descriptors, _, _ = socket.recv_fds(launcher, 100, 2)
        launcher.send(b"go\0")
        with open(reading) as output:
            yield launcher, output
        for descriptor in descriptors:
            os.close(descriptor)


def test_server_starts_with_the_second_command_and_runs_the_next_ones(
    installed: Installation,
) -> None:
    installed.run("code", "0")
    assert installed.server() == 0, "one command alone is worth no server"
    installed.warm()


def test_a_command_that_failed_starts_no_server(installed: Installation) -> None:
    """The srun of a cancelled job started one, which missed SIGTERM: COMPLETING for KillWait."""
    for code in ("0", "1", "1"):
        assert installed.run("code", code).returncode == int(code)
    assert installed.server() == 0
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


def test_two_users_who_became_one_have_servers_of_their_own(installed: Installation) -> None:
    """Outside systemd two users of sudo have the same groups of everything else."""
    installed.warm()
    server = installed.server()
    theirs = installed.run("parent", env=installed.environment(SUDO_UID="54321"))
    assert int(theirs.stdout) != server
    assert int(installed.run("parent").stdout) == server


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
    with launcher_by_hand(installed, "import", "end", blocked=USR1) as (launcher, output):
        child = int(output.readline())
        launcher.send(b"another packet")
        os.kill(child, signal.SIGUSR1)
        assert output.readline() == "end\n"


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


def test_server_whose_children_wait_for_a_processor_stays(installed: Installation) -> None:
    """Where 64 begin at once on a busy machine, both ready children may get none for long."""
    server = installed.warm()
    launcher, spinning = installed.begin("spin")
    signal_family(server, signal.SIGSTOP)
    try:
        os.kill(spinning, signal.SIGCONT)
        assert installed.run("code", "4").returncode == 4, "it starts directly in the end"
        signal_family(server, signal.SIGCONT)
        assert installed.server() == server
    finally:
        end(spinning)
        signal_family(server, signal.SIGCONT)
        launcher.wait()


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
    directory = next(path for path in installed.directories if path.parent.is_dir())
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


def burst(installed: Installation, *commands: tuple[str, ...]) -> list[str]:
    """Run commands at once; return what each printed.

    More than wait for a launcher, so that the last ones come to processes that have run one. One
    by one, a loaded machine gives the next command too late for the process that waits for it.
    """
    with ThreadPoolExecutor(len(commands)) as threads:
        ended = list(threads.map(lambda words: installed.run(*words), commands))
    assert all(command.returncode == 0 for command in ended)
    return [command.stdout for command in ended]


def test_a_process_runs_the_commands_of_a_burst(installed: Installation, tmp_path: Path) -> None:
    """To fork for each, and to copy what it writes to, was two thirds of an sbatch."""
    installed.warm()
    file = tmp_path / "pids"

    def is_one_twice() -> bool:
        burst(installed, *[("append", str(file))] * 12)
        pids = file.read_text().split()
        return len(set(pids)) < len(pids)

    wait_until(is_one_twice, "a process that runs a second command")


def test_a_command_meets_nothing_of_the_one_before(installed: Installation, tmp_path: Path) -> None:
    installed.warm()
    words = ("show", "", "more")
    direct = installed.run(*words, env=installed.environment(PYSLURM_COMMAND_SERVER="0"))
    shown = json.loads(direct.stdout)
    del shown["env"]["PYSLURM_COMMAND_SERVER"]
    file = tmp_path / "pids"

    def are_shared() -> bool:
        spoil, append = ("spoil",), ("append", str(file))
        said = burst(installed, *[append, spoil, words] * 4)
        assert said[1::3] == ["x"] * 4
        assert [json.loads(text) for text in said[2::3]] == [shown] * 4
        pids = file.read_text().split()
        # With a process of its own for each command nothing would be shown.
        return len(pids) >= 20 and len(set(pids)) < len(pids)

    wait_until(are_shared, "commands that share a process")


@pytest.mark.parametrize(
    "what", ["descriptor", "handler", "niceness", "memory", "child", "thread", "exception"]
)
def test_a_process_with_something_left_runs_no_other_command(
    installed: Installation, what: str
) -> None:
    installed.warm()
    wait_until(lambda: is_kept(installed), "a process that waits for its launcher's end")
    process = int(installed.run("leave", what).stdout)
    wait_until(lambda: is_over(process), "the end of the process")


def test_nothing_of_a_command_is_held_when_its_end_is_told(installed: Installation) -> None:
    """Whoever waits for the end of its output, or unmounts its directory, need not wait longer."""
    installed.warm()
    # Its modules have been imported by then, and five commands have said what they write to.
    wait_until(lambda: is_kept(installed), "a process that waits for its launcher's end")
    with launcher_by_hand(installed, "leave", "nothing") as (launcher, output):
        process = int(output.readline())
        assert output.read() == ""
        assert len(launcher.recv(100)) == 12
        links = [os.readlink(f"/proc/{process}/{name}") for name in ("cwd", "fd/0", "fd/1", "fd/2")]
        assert links == ["/", "/dev/null", "/dev/null", "/dev/null"]


def is_kept(installed: Installation) -> bool:
    """Return whether the process of a command is there after it has told the command's end."""
    with launcher_by_hand(installed, "leave", "nothing") as (launcher, output):
        process = int(output.readline())
        launcher.recv(100)
        return not reaches_end(process)


def reaches_end(process: int) -> bool:
    """Wait until a process has ended or sleeps; return whether it has ended."""
    wait_until(lambda: state(process) in ("S", "", "Z"), "a process that does nothing")
    return is_over(process)


def test_a_late_signal_is_not_for_the_next_command(installed: Installation) -> None:
    """A launcher forwards signals until it has ended, and its command may have ended before."""
    installed.warm()
    wait_until(lambda: is_kept(installed), "a process that waits for its launcher's end")
    with launcher_by_hand(installed, "leave", "nothing") as (launcher, output):
        process = int(output.readline())
        launcher.recv(100)
        assert not reaches_end(process)
        os.kill(process, signal.SIGINT)
    wait_until(lambda: is_over(process), "its end")


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


def test_command_without_its_launcher_is_one_line(installed: Installation) -> None:
    launcher = installed.root / "lib" / "pyslurm-ng" / "bin" / "squeue"
    launcher.unlink()
    done = installed.run("code", "0")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"squeue: error: cannot start {launcher}: No such file or directory\n"


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
