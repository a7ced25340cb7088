"""Programs that begin in background: their processes open the files, and nobody waits."""

from __future__ import annotations

import os
import resource
import select
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.kernels.process import Background

LIMIT_MS = 30_000
READ, WRITE = os.O_RDONLY, os.O_WRONLY | os.O_CREAT | os.O_TRUNC
NULL = (b"/dev/null", READ, False)


@pytest.fixture
def background() -> Iterator[Background]:
    made = Background()
    yield made
    made.close()


def next_of(background: Background) -> Any:
    """Return the next thing that is said."""
    poll = select.poll()
    while (said := background.take()) is None:
        poll.register(background, select.POLLIN)
        assert poll.poll(LIMIT_MS), "nothing is said"
    return said


def begin(background: Background, script: str, *opens: tuple[bytes, int, bool], **how: Any) -> None:
    streams = {"stdin": -1, "stdout": -2, "stderr": -2} | how
    background.begin(
        [b"/bin/sh"],
        [b"sh", b"-c", script.encode()],
        [b"PATH=/usr/bin:/bin"],
        opens=opens,
        **streams,
    )


def code_of(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_program_finds_its_files_open(background: Background, tmp_path: Path) -> None:
    """In its directory, with its umask. A second program gets files of its own."""
    for number in (1, 2):
        out = tmp_path / f"out{number}"
        begin(
            background, "pwd; ls /proc/self/fd | wc -l", NULL, (os.fsencode(out), WRITE, False),
            cwd=os.fsencode(tmp_path), umask=0o077,
        )  # fmt: skip
        assert code_of(next_of(background)) == 0
        # Three streams, and the directory that ls reads.
        assert out.read_text().split() == [str(tmp_path), "4"]
        assert out.stat().st_mode & 0o777 == 0o600
    assert background.take() is None


def test_files_are_passed_on(background: Background, tmp_path: Path) -> None:
    """We get those that are asked for, before the program begins."""
    out, err = os.fsencode(tmp_path / "out"), os.fsencode(tmp_path / "err")
    begin(background, "echo program >&2", NULL, (out, WRITE, False), (err, WRITE, True), stderr=-3)
    (passed,) = next_of(background)
    assert code_of(next_of(background)) == 0
    os.write(passed, b"we\n")
    assert os.readlink(f"/proc/self/fd/{passed}") == os.fsdecode(err)
    os.close(passed)
    assert Path(os.fsdecode(err)).read_text() == "program\nwe\n"


def test_files_are_opened_without_a_program(background: Background, tmp_path: Path) -> None:
    """For what runs before it, and writes into them."""
    out = os.fsencode(tmp_path / "out")
    background.begin([], [], [], stdin=-1, stdout=-2, stderr=-2,
                     opens=[(*NULL[:2], True), (out, WRITE, True)])  # fmt: skip
    passed = next_of(background)
    assert len(passed) == 2
    assert code_of(next_of(background)) == 0
    for descriptor in passed:
        os.close(descriptor)


@pytest.mark.parametrize("what", ["missing", "directory", "fifo"])
def test_a_file_that_cannot_be_opened_is_named(
    background: Background, tmp_path: Path, what: str
) -> None:
    """With the path. A FIFO without a reader is refused instead of waited for."""
    path = tmp_path / what
    if what == "directory":
        path.mkdir()
    elif what == "fifo":
        os.mkfifo(path)
    flags = os.O_WRONLY if what == "fifo" else READ
    begin(background, "true", NULL, (os.fsencode(path), flags, False))
    problem = next_of(background)
    assert isinstance(problem, OSError)
    assert problem.filename == os.fsencode(path)
    assert problem.errno == {"missing": 2, "directory": 21, "fifo": 6}[what]
    os.waitpid(-1, 0)


def test_a_directory_that_cannot_be_entered(background: Background, tmp_path: Path) -> None:
    """It is tried before files are opened."""
    out = tmp_path / "out"
    begin(background, "true", NULL, (os.fsencode(out), WRITE, True), cwd=b"/does-not-exist")
    problem = next_of(background)
    assert (problem.filename, problem.errno) == ("chdir", 2)
    assert not out.exists()
    os.waitpid(-1, 0)


def test_a_program_that_is_not_there(background: Background) -> None:
    background.begin([b"/does/not/exist"], [b"x"], [], stdin=-1, stdout=-1, stderr=-1, opens=[NULL])
    problem = next_of(background)
    assert (problem.filename, problem.errno) == ("exec", 2)
    os.waitpid(-1, 0)


def test_a_program_that_has_begun_is_not_cancelled(background: Background, tmp_path: Path) -> None:
    """It may have run for long before the supervisor knows."""
    out = tmp_path / "out"
    begin(background, "echo begun; read never", NULL, (os.fsencode(out), WRITE, False))
    poll = select.poll()
    poll.register(background, select.POLLIN)
    assert poll.poll(LIMIT_MS)
    background.cancel()
    assert code_of(next_of(background)) == 1
    assert out.read_text() == "begun\n"


def test_a_node_without_free_processes_says_so(tmp_path: Path) -> None:
    """Then there is nothing to read."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            background = Background()
            begin(background, "true", NULL, NULL)
            assert code_of(next_of(background)) == 0
            if os.geteuid() == 0:  # whom no limit of processes holds
                os.setuid(64_999)
            resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
            begin(background, "true", NULL, NULL)
            problem = next_of(background)
            assert isinstance(problem, OSError)
            assert (problem.filename, problem.errno) == ("fork", 11)
            poll = select.poll()
            poll.register(background, select.POLLIN)
            assert poll.poll(0) == []
            code = 0
        finally:
            os._exit(code)
    assert code_of(pid) == 0


def test_a_process_holds_until_it_is_told_its_program(
    background: Background, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    files = [(os.devnull.encode(), os.O_RDONLY, False), (bytes(out), os.O_RDWR | os.O_CREAT, False)]
    begin(background, "echo other", *files, holds=True)
    assert next_of(background) == []
    pid = background.pid
    assert out.read_text() == ""
    background.go_on([b"/bin/sh"], [b"sh", b"-c", b"echo $A $$"], [b"A=own"], b"first \1\n")
    assert next_of(background) == pid
    assert code_of(pid) == 0
    assert out.read_text() == f"first {pid}\nown {pid}\n"


def test_a_process_that_holds_may_end_without_a_program(background: Background) -> None:
    begin(background, "exit 3", *[(os.devnull.encode(), os.O_RDWR, False)] * 2, holds=True)
    assert next_of(background) == []
    background.go_on([], [], [])
    assert code_of(next_of(background)) == 0


def test_a_process_that_holds_ends_with_its_maker() -> None:
    """Whoever is to say the program may die first."""
    background = Background()
    begin(background, "exit 3", *[(os.devnull.encode(), os.O_RDWR, False)] * 2, holds=True)
    assert next_of(background) == []
    pid = background.pid
    background.close()
    assert code_of(pid) == 0
