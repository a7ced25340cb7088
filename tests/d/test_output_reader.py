"""Parts of a job's output, read by a process of the job's user."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.d.requests import output_reader
from pyslurm_ng.d.requests.output_reader import OutputReader
from pyslurm_ng.d.stepd import file_receiver
from pyslurm_ng.wire.auth import AuthError
from pyslurm_ng.wire.messages import ErrorReply
from pyslurm_ng.wire.output_messages import JobFilePart, ReadJobFile


def receive(theirs: socket.socket, work: Callable[[Any], None]) -> int:
    """Begin a child that stays this user; return its process id."""
    child = os.fork()
    if child == 0:
        try:
            file_receiver._become = lambda *who: None
            end = theirs.dup()
            os.closerange(3, end.fileno())
            work(end)
        finally:
            os._exit(0)
    theirs.close()
    return child


def read(
    path: str,
    offset: int = -1,
    length: int = 10,
    work: Callable[[Any], None] = file_receiver.receive,
    refused: str = "",
) -> object:
    """Return what a node answers."""
    children: list[int] = []

    def open_credential(blob: bytes) -> Any:
        if refused:
            raise AuthError("altered", refused)
        return SimpleNamespace(uid=1, gid=1)

    credentials: Any = SimpleNamespace(open=open_credential, check_time=lambda credential: None)
    account = SimpleNamespace(groups=())
    accounts: Any = SimpleNamespace(call=lambda credential, go_on, failed: go_on(account))
    node: Any = SimpleNamespace(faults=None)

    async def run() -> object:
        reader = OutputReader(
            node,
            credentials,
            accounts,
            lambda end: children.append(receive(end, work)),
            lambda known: None,
        )
        told: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        reader.read(ReadJobFile(1, b"", path, offset, length), told.set_result)
        return await told

    try:
        return asyncio.run(run())
    finally:
        for child in children:
            os.waitpid(child, 0)


@pytest.mark.parametrize(
    ("offset", "length", "part"),
    [
        (-1, 4, JobFilePart(10, 6, b"6789")),
        (-1, 99, JobFilePart(10, 0, b"0123456789")),
        (3, 4, JobFilePart(10, 3, b"3456")),
        (10, 4, JobFilePart(10, 10, b"")),
        (2**62, 4, JobFilePart(10, 2**62, b"")),
    ],
)
def test_parts_of_a_file(tmp_path: Path, offset: int, length: int, part: JobFilePart) -> None:
    """From a place on, or the end; what is not there yet is empty."""
    path = tmp_path / "out"
    path.write_bytes(b"0123456789")
    assert read(str(path), offset, length) == part


def test_only_files_are_read(tmp_path: Path) -> None:
    """A pipe would never answer or lose what is in it; devices have no end."""
    os.mkfifo(tmp_path / "pipe")
    for path, number in (
        (tmp_path / "pipe", 22), (tmp_path, 22), (tmp_path / "none", 2), (Path("/dev/zero"), 22),
    ):  # fmt: skip
        answer = read(str(path))
        assert isinstance(answer, ErrorReply) and answer.code == number, path


def test_the_reader_tells_nothing_of_itself(tmp_path: Path) -> None:
    """It is a fork of a process of root; a link may lead to what the kernel shows of it."""
    (tmp_path / "out").symlink_to("/proc/self/maps")
    assert read(str(tmp_path / "out")) == JobFilePart(0, 0, b"")
    assert read(str(tmp_path / "out"), 0, 4096) == JobFilePart(0, 0, b"")


@pytest.mark.parametrize("path", ["relative", "/tmp/a\0b", ""])
def test_odd_paths_are_refused(path: str) -> None:
    """Before a process is begun for them."""
    answer = read(path)
    assert isinstance(answer, ErrorReply) and answer.text == "the path must be absolute"


def test_only_the_controllers_word_counts() -> None:
    """The credential says whose rights the reader has."""
    answer = read("/etc/hostname", refused="signature")
    assert answer == ErrorReply(Errno.ESLURMD_CREDENTIAL_REVOKED, "signature")


def test_a_reader_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that is away costs seconds and one of the places."""
    monkeypatch.setattr(output_reader, "ANSWER_S", 0.2)

    def hang(channel: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        channel.send(file_receiver.pack(os.getpid()))
        signal.pause()

    answer = read(str(tmp_path), work=hang)
    assert isinstance(answer, ErrorReply) and answer.code == 110


def test_a_reader_that_dies_is_an_error(tmp_path: Path) -> None:
    """The user may kill it."""
    answer = read(str(tmp_path), work=lambda channel: None)
    assert isinstance(answer, ErrorReply) and answer.code == 5
