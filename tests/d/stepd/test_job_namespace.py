"""Private directories of jobs: made once, shared, removed, whatever a user has put into them."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.conf.namespaces import Namespaces, PrivateDirectory
from pyslurm_ng.d.jobs.job_namespaces import _prepare
from pyslurm_ng.d.spool.step_contract import NamespaceSpec
from pyslurm_ng.d.stepd import job_namespace, namespace_end
from pyslurm_ng.kernels.process import mount, umount, unshare
from tests.d.mounts import can_mount, in_child, spec_of

DEEP = 3000
MEMORY = PrivateDirectory("/dev/shm", is_tmpfs=True)


AS_ROOT = pytest.mark.skipif(not can_mount(), reason="mount namespaces cannot be made here")


@pytest.fixture
def base(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "base"
    _prepare(str(directory), makes=True)
    yield directory
    for pin in directory.glob("*/.ns"):
        try:
            umount(bytes(pin), 2)
        except OSError:
            continue
    umount(bytes(directory), 2)


def private(tmp_path: Path) -> str:
    """A directory that jobs have for themselves, with something of the host in it."""
    folder = tmp_path / "folder"
    folder.mkdir(exist_ok=True)
    (folder / "hosts").write_text("host")
    return str(folder)


def entered(spec: NamespaceSpec, work: Callable[[], object]) -> str:
    def run() -> object:
        job_namespace.enter(spec)
        return work()

    return in_child(run)


def removed(spec: NamespaceSpec) -> str:
    said: list[bytes] = []

    class Channel:
        def send(self, data: bytes) -> None:
            said.append(data)

    def run() -> object:
        namespace_end.remove(Channel(), spec)  # type: ignore[arg-type]
        return namespace_end.pack("") == said[0] or said

    return in_child(run)


@AS_ROOT
def test_the_steps_of_a_job_share_one_and_the_host_sees_nothing(base: Path, tmp_path: Path) -> None:
    folder = private(tmp_path)
    spec = spec_of(base, 12, (PrivateDirectory(folder), MEMORY))

    def first() -> object:
        Path(folder, "mine").write_text("x")
        Path("/dev/shm/psng-mine").write_text("x")
        return sorted(os.listdir(folder)), stat.filemode(os.stat(folder).st_mode)

    assert entered(spec, first) == "(['mine'], 'drwxrwxrwt')"
    assert entered(spec, lambda: (os.listdir(folder), os.listdir("/dev/shm"))) == (
        "(['mine'], ['psng-mine'])"
    )
    other = spec_of(base, 13, (PrivateDirectory(folder),))
    assert entered(other, lambda: os.listdir(folder)) == "[]"
    assert os.listdir(folder) == ["hosts"]
    assert not os.path.exists("/dev/shm/psng-mine")
    assert stat.S_IMODE(os.stat(base / "12").st_mode) == 0o700
    assert removed(spec) == "True"
    assert os.listdir(base) == ["13"]
    assert entered(spec, lambda: os.listdir(folder)) == "[]"


@AS_ROOT
@pytest.mark.parametrize(("before", "after"), [(0o1777, 0o1755), (0o750, 0o750), (None, 0o755)])
def test_others_keep_their_rights_in_base_path_except_to_write(
    tmp_path: Path, before: int | None, after: int
) -> None:
    """A site may keep other things there; with the right to write users could be there first."""
    directory = tmp_path / "used"
    if before is not None:
        directory.mkdir()
        directory.chmod(before)
    _prepare(str(directory), makes=True)
    umount(bytes(directory), 2)
    assert stat.S_IMODE(directory.stat().st_mode) == after


@AS_ROOT
def test_it_can_be_made_on_each_cpu(base: Path, tmp_path: Path) -> None:
    """Linux 6.18 mounts a namespace of one CPU not always in that of another."""
    spec = spec_of(base, 12, (PrivateDirectory(private(tmp_path)),))
    cpus = os.sched_getaffinity(0)

    def run(slurmd: int, supervisor: int) -> object:
        os.sched_setaffinity(0, {slurmd})
        unshare(job_namespace.CLONE_NEWNS)
        mount(b"none", b"/", b"", job_namespace.MS_REC | job_namespace.MS_PRIVATE)
        os.sched_setaffinity(0, {supervisor})
        job_namespace.enter(spec)
        return os.sched_getaffinity(0) == {supervisor} and os.listdir(spec["places"][0]["path"])

    for slurmd in cpus:
        for supervisor in cpus:
            assert in_child(partial(run, slurmd, supervisor)) == "[]", (slurmd, supervisor)


@AS_ROOT
def test_an_error_keeps_no_other_step_waiting(base: Path, tmp_path: Path) -> None:
    """The supervisor of an extern step lives on when it could not make the namespace."""
    places = (PrivateDirectory(private(tmp_path)),)
    spec = spec_of(base, 12, places, init_script="/bin/false")

    def run() -> object:
        with pytest.raises(job_namespace.NamespaceError, match="failed with status 1"):
            job_namespace.enter(spec)
        with open(base / "12" / ".lock", "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return "free"

    assert in_child(run) == "free"


@AS_ROOT
def test_a_reader_makes_nothing(base: Path, tmp_path: Path) -> None:
    spec = spec_of(base, 12, (PrivateDirectory(private(tmp_path)),))
    assert in_child(lambda: job_namespace.enter(spec, makes=False)) == "False"
    assert os.listdir(base) == []


@AS_ROOT
def test_a_directory_of_another_is_not_used(base: Path, tmp_path: Path) -> None:
    """Where BasePath was open to all before, a user may have made what is to be the job's."""
    (tmp_path / "theirs").mkdir()
    (base / "12").symlink_to(tmp_path / "theirs")
    spec = spec_of(base, 12, (PrivateDirectory(private(tmp_path)),))
    assert "NamespaceError" in entered(spec, lambda: "in")
    assert os.listdir(tmp_path / "theirs") == []
    (base / "12").unlink()
    (base / "12").mkdir(mode=0o700)
    os.chown(base / "12", 65534, 65534)
    assert "is not this daemon's alone" in entered(spec, lambda: "in")


@AS_ROOT
def test_scripts_run_outside_and_enter_by_slurm_ns(base: Path, tmp_path: Path) -> None:
    """As Slurm's manual has it: CloneNSScript and CloneNSEpilog get SLURM_NS to join."""
    folder = private(tmp_path)
    log = tmp_path / "log"
    script = tmp_path / "script"
    script.write_text(
        f'#!/bin/sh\nls {folder} | tr "\\n" " " >> {log}\nenv | grep -c LD_PRELOAD >> {log}\n'
        f"echo $SLURM_JOB_ID >> {log}\n"
    )
    inner = tmp_path / "inner"
    inner.write_text(
        f"#!/bin/sh\nexec nsenter --mount=$SLURM_NS sh -c '{script}; >{folder}/made'\n"
    )
    script.chmod(0o755)
    inner.chmod(0o755)
    words: dict[str, Any] = {
        "init_script": str(script), "script": str(inner), "epilog": str(inner),
    }  # fmt: skip
    spec = spec_of(base, 12, (PrivateDirectory(folder),), **words)
    os.environ["LD_PRELOAD"] = ""
    try:
        assert entered(spec, lambda: os.listdir(folder)) == "['made']"
    finally:
        del os.environ["LD_PRELOAD"]
    assert removed(spec) == "True"
    # It found the host's files, then none, then its own.
    assert log.read_text().split() == "hosts 0 12 0 12 made 0 12".split()


@AS_ROOT
@pytest.mark.parametrize(
    ("body", "text"), [("exit 3", "failed with status 3"), ("sleep 60", "took longer than 1 s")]
)
def test_a_script_that_fails_or_hangs_is_named(
    base: Path, tmp_path: Path, body: str, text: str
) -> None:
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(0o755)
    spec = spec_of(
        base, 12, (PrivateDirectory(private(tmp_path)),), script=str(script), script_wait_s=1
    )
    assert entered(spec, lambda: "in") == f"NamespaceError: CloneNSScript {script} {text}"
    assert not os.path.ismount(base / "12" / ".ns")


def test_links_are_not_followed_and_deep_trees_end(tmp_path: Path) -> None:
    """RELIABILITY 62."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    top = tmp_path / "top"
    top.mkdir()
    (top / "link").symlink_to(outside)
    (top / "in").mkdir()
    (top / "in" / "link").symlink_to(outside)
    os.link(outside / "kept", top / "in" / "hard")
    os.mkfifo(top / "in" / "fifo")
    here = os.open(top, os.O_RDONLY)
    deepest = os.dup(here)
    for _ in range(DEEP):
        os.mkdir("d" * 200, dir_fd=deepest)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=deepest)
        os.close(deepest)
        deepest = below
    os.close(deepest)
    before = len(os.listdir("/proc/self/fd"))
    namespace_end.remove_tree(here)
    assert len(os.listdir("/proc/self/fd")) == before
    os.close(here)
    assert os.listdir(top) == []
    assert (outside / "kept").read_text() == "x"


def test_a_removal_that_was_killed_is_done_again(tmp_path: Path) -> None:
    """What it has moved up already is in the way of nothing."""
    top = tmp_path / "top"
    for name in ("a/a/a/a", "a/b", "c/d/e"):
        (top / name).mkdir(parents=True)
        (top / name / "f").write_text("x")
    here = os.open(top, os.O_RDONLY)
    for moves in range(6):
        killed = os.fork()
        if killed == 0:
            _remove_and_die(here, moves)
        os.waitpid(killed, 0)
    namespace_end.remove_tree(here)
    os.close(here)
    assert os.listdir(top) == []


def _remove_and_die(directory: int, moves: int) -> None:
    """Be killed after so many directories have been moved up."""
    done: list[str] = []
    real = os.rename

    def rename(*words: Any, **more: Any) -> None:
        done.append(words[0])
        if len(done) > moves:
            os._exit(0)
        real(*words, **more)

    os.rename = rename
    try:
        namespace_end.remove_tree(directory)
    finally:
        os._exit(1)


@AS_ROOT
def test_who_writes_on_from_outside_is_locked_out(tmp_path: Path) -> None:
    """A job may hand its directory to a process of its user's that outlives it."""
    top = tmp_path / "top"
    inner = top / "in"
    inner.mkdir(parents=True)
    top.chmod(0o700)
    os.chown(inner, 65534, 65534)
    directory = os.open(inner, os.O_RDONLY)
    begun, begins = os.pipe()
    writer = os.fork()
    if writer == 0:
        _write_on(directory, begins)
    os.close(directory)
    os.read(begun, 1)
    here = os.open(top, os.O_RDONLY)
    try:
        namespace_end.remove_tree(here)
        assert os.listdir(top) == []
        assert os.waitpid(writer, 0)[1] == 0, "it could write on"
    finally:
        for descriptor in (here, begun, begins):
            os.close(descriptor)


def _write_on(directory: int, begins: int) -> None:
    """As a user, make files and directories in a directory; end with 0 when refused."""
    os.setgid(65534)
    os.setuid(65534)
    number = 0
    try:
        for number in range(20_000):
            os.close(os.open(f"f{number % 500}", os.O_CREAT | os.O_WRONLY, dir_fd=directory))
            os.mkdir(f"d{number}", dir_fd=directory)
            if number == 1000:
                os.write(begins, b"x")
    except OSError:
        os._exit(0)
    finally:
        os._exit(1)


def test_attempts_have_directories_of_their_own(tmp_path: Path) -> None:
    places = Namespaces().directories
    names = [spec_of(tmp_path, 12, places, attempt=n)["directories"] for n in (0, 1)]
    assert names == [[f"{tmp_path}/12"], [f"{tmp_path}/12.1"]]
