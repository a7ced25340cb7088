"""What odd command lines, streams, directories and servers get: what a direct start gives, once."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import resource
import shutil
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.daemons.faults import open_directory
from tests.launcher.installation import MAGIC, PROGRAM, Installation, end, install, is_over
from tests.world.waiting import wait_until

pytestmark = pytest.mark.skipif(
    not PROGRAM.exists(), reason="the launcher is not built: run `make build`"
)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

STRANGER = 54321
"""A uid that nobody has, so no server of it is in anybody's way."""
REPORT = struct.pack("=I2i", MAGIC, 0, 0)


def both_ways(installed: Installation, *words: str, **options: object) -> list[object]:
    """Return what a command prints and how it ends, started directly and with a server at hand."""
    ends: list[object] = []
    for setting in ("0", "1"):
        environment = dict(options.get("env", installed.environment()))  # type: ignore[call-overload]
        environment["PYSLURM_COMMAND_SERVER"] = setting
        done = installed.run(*words, **{**options, "env": environment})
        text = done.stdout.replace(f'COMMAND_SERVER": "{setting}"', 'COMMAND_SERVER": ""')
        ends.append((done.returncode, text, done.stderr))
    return ends


# Command lines and streams ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "variable_bytes"), [(10_000, 0), (10_000, 100_000), (1, 2 << 20)]
)
def test_long_command_lines_and_environments_arrive_whole(
    installed: Installation, arguments: int, variable_bytes: int
) -> None:
    def allow() -> None:
        resource.setrlimit(resource.RLIMIT_STACK, (64 << 20, resource.getrlimit(3)[1]))

    installed.warm()
    part = 100_000
    more = {
        f"LONG{at}": "x" * min(part, variable_bytes - at) for at in range(0, variable_bytes, part)
    }
    words = [str(number) for number in range(arguments)]
    direct, served = both_ways(
        installed, "show", *words, env=installed.environment(**more), preexec_fn=allow
    )
    assert served == direct
    assert isinstance(direct, tuple)
    assert json.loads(direct[1])["argv"][1] == ["show", *words]


@pytest.mark.parametrize("closed", [0, 1, 2])
@pytest.mark.parametrize("words", [("code", "3"), ("parent",), ("raise",)])
def test_closed_streams_are_as_in_a_direct_start(
    installed: Installation, closed: int, words: tuple[str, ...]
) -> None:
    installed.warm()
    direct, served = both_ways(installed, *words, preexec_fn=lambda: os.close(closed))
    assert served == direct


@pytest.mark.parametrize("are_hard", [False, True], ids=["soft", "hard"])
def test_few_descriptors_are_enough(installed: Installation, are_hard: bool) -> None:
    def limit() -> None:
        hard = 32 if are_hard else resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, hard))

    installed.warm()
    for _ in range(3):  # of a hard limit there is another server, which the second one starts
        direct, served = both_ways(installed, "show", preexec_fn=limit)
        assert served == direct


def test_no_terminal_and_one_of_another_session_are_as_in_a_direct_start(
    installed: Installation,
) -> None:
    installed.warm()
    direct, served = both_ways(installed, "show", start_new_session=True)
    assert served == direct
    with contextlib.ExitStack() as stack:
        ours, theirs = pty.openpty()
        for descriptor in (ours, theirs):
            stack.callback(os.close, descriptor)
        direct, served = both_ways(installed, "show", stdin=theirs, start_new_session=True)
    assert served == direct
    assert isinstance(served, tuple)
    assert json.loads(served[1])["terminal"] == ["No such device or address", True]


# Directories ------------------------------------------------------------------------------------


@pytest.fixture
def theirs() -> Iterator[Installation]:
    """Return an installation for a user without a directory yet; nothing of it stays."""
    with open_directory() as root:
        installation = install(root)
        installation.uid = STRANGER
        try:
            yield installation
        finally:
            pid = installation.server()
            if pid:
                end(pid)
                wait_until(lambda: is_over(pid), "the server's end")
            remove(installation.directories[1])


def remove(path: Path) -> None:
    """Remove whatever is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def link(path: Path) -> None:
    target = path.with_name(path.name + "-target")
    target.mkdir(mode=0o700, exist_ok=True)
    os.chown(target, STRANGER, STRANGER)
    path.symlink_to(target)


def foreign(path: Path) -> None:
    path.mkdir(mode=0o700)


def open_to_all(path: Path) -> None:
    path.mkdir()
    os.chown(path, STRANGER, STRANGER)
    path.chmod(0o777)


def file(path: Path) -> None:
    path.touch(mode=0o600)
    os.chown(path, STRANGER, STRANGER)


@as_root
@pytest.mark.root
@pytest.mark.parametrize("make", [link, foreign, open_to_all, file])
def test_directory_that_is_not_only_the_users_is_left_alone(
    theirs: Installation, make: Callable[[Path], None]
) -> None:
    directory = theirs.directories[1]
    make(directory)
    try:
        for _ in range(3):
            done = theirs.run("code", "3")
            assert (done.returncode, done.stderr) == (3, "")
        assert theirs.run("code", "3", "-v").stderr == (
            f"squeue: {directory} is not a directory of only this user: no command server\n"
        )
        assert directory.is_file() or not list(directory.iterdir())
    finally:
        remove(directory.with_name(directory.name + "-target"))


@as_root
@pytest.mark.root
@pytest.mark.parametrize("files", [1, 2, 3])
def test_directory_of_a_full_file_system_costs_the_server_only(
    theirs: Installation, files: int
) -> None:
    """There is room for the directory itself, for an empty lock, or for a socket beside it."""
    directory = theirs.directories[1]
    directory.mkdir(mode=0o700)
    squeue = theirs.root / "bin" / "squeue"
    script = (
        f"mount -t tmpfs -o size=4096,nr_inodes={files},mode=700,uid={STRANGER} full {directory}"
        f" && dd if=/dev/zero of={directory}/filler bs=4096 count=1 2>/dev/null;"
        f" for number in 3 3 3; do setpriv --reuid={STRANGER} {squeue} code $number;"
        " echo $?; done"
    )
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script],
        env=theirs.environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "mount" in done.stderr or "unshare" in done.stderr:
        pytest.skip(done.stderr)
    assert (done.stdout.split(), done.stderr) == (["3"] * 3, "")


# Servers ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def odd_server(
    installed: Installation, serve: Callable[[socket.socket], None], uid: int = -1
) -> Iterator[list[int]]:
    """Put a server in the place of the real one; it serves one launcher by a function.

    Yields:
        how many launchers came so far, in a list.
    """
    real = installed.warm()
    path = installed.socket_path()
    assert path is not None
    end(real)
    wait_until(lambda: is_over(real), "the server's end")
    path.unlink(missing_ok=True)
    came: list[int] = []

    def accept() -> None:
        try:
            launcher, _ = listener.accept()
        except OSError:  # nobody comes
            return
        with launcher:
            launcher.settimeout(60)
            came.append(1)
            serve(launcher)

    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(path))
        os.seteuid(uid if uid >= 0 else os.geteuid())
        try:
            listener.listen()  # whose socket it is, says who listens
        finally:
            if uid >= 0:
                os.seteuid(0)
        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield came
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            path.unlink(missing_ok=True)


def close(launcher: socket.socket) -> None:
    pass


def garble(launcher: socket.socket) -> None:
    launcher.send(b"no report at all")


def take_and_close(launcher: socket.socket) -> None:
    launcher.send(REPORT)
    launcher.recv(1 << 17)


def report_all_taken(launcher: socket.socket) -> None:
    """Do as a child that has taken over all, and waits for the launcher's word."""
    process = os.pidfd_open(os.getpid())
    reading, writing = os.pipe()
    socket.send_fds(launcher, [REPORT], [process, writing])
    for descriptor in (process, reading, writing):
        os.close(descriptor)


def end_before_the_word(launcher: socket.socket) -> None:
    take_and_close(launcher)
    launcher.shutdown(socket.SHUT_RD)  # so that the word cannot be sent
    report_all_taken(launcher)


def end_after_the_word(launcher: socket.socket) -> None:
    take_and_close(launcher)
    report_all_taken(launcher)
    launcher.recv(100)


@pytest.mark.parametrize("serve", [close, garble, take_and_close, end_before_the_word])
def test_command_of_a_server_that_fails_is_started_directly_once(
    installed: Installation, serve: Callable[[socket.socket], None], tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with odd_server(installed, serve) as came:
        done = installed.run("append", str(log))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (len(log.read_text().splitlines()), came) == (1, [1])


def test_command_that_may_have_begun_is_not_started_again(
    installed: Installation, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    with odd_server(installed, end_after_the_word):
        done = installed.run("append", str(log))
    assert done.returncode == -signal.SIGKILL
    assert done.stderr == "squeue: error: the process that ran this command was killed\n"
    assert not log.exists()


def test_command_that_cannot_be_told_to_begin_starts_with_its_own_signals(
    installed: Installation,
) -> None:
    """The launcher's handlers, which pass signals on to a child, once stayed."""
    environment = installed.environment(PYSLURM_COMMAND_SERVER="1")
    with odd_server(installed, end_before_the_word) as came:
        served = installed.run("show", env=environment)
    direct = installed.run("show", env={**environment, "PYSLURM_COMMAND_SERVER": "0"})
    assert came == [1]
    assert json.loads(served.stdout)["signals"] == json.loads(direct.stdout)["signals"]


@as_root
@pytest.mark.root
def test_server_of_another_user_is_not_told_anything(
    installed: Installation, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    heard: list[bytes] = []

    def listen(launcher: socket.socket) -> None:
        with contextlib.suppress(ConnectionError):
            launcher.send(REPORT)
            heard.append(launcher.recv(1 << 17))

    with odd_server(installed, listen, STRANGER):
        assert installed.run("append", str(log)).returncode == 0
    assert len(log.read_text().splitlines()) == 1
    assert heard in ([], [b""])
