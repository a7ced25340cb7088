"""What a node keeps on its disk, and what it does when that is full."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from pyslurm_ng.d.core.node_core import NodeCore
from pyslurm_ng.d.spool import step_record
from pyslurm_ng.d.spool.batch_script import write_script
from pyslurm_ng.d.spool.spool import Spool, SpoolFull
from pyslurm_ng.d.spool.suspended_jobs import SuspendedJobs
from pyslurm_ng.model.ids import STEP_BATCH
from tests.d.credentials import credential


def full(*words: object, **more: object) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def statvfs(free_bytes: int, free_files: int = 1000, all_files: int = 2000) -> os.statvfs_result:
    blocks = free_bytes // 512
    return os.statvfs_result(
        (512, 512, 8 << 20, blocks, blocks, all_files, free_files, free_files, 0, 255)
    )


@pytest.mark.parametrize(
    ("size", "usage", "word"),
    [
        (0, statvfs(2 << 20), ""),
        (1 << 20, statvfs(2 << 20), ""),
        ((1 << 20) + 1, statvfs(2 << 20), "1048577 bytes are needed"),
        (0, statvfs((1 << 20) - 512), "1048064 are free"),
        (0, statvfs(2 << 20, free_files=3), "3 files are free"),
        (0, statvfs(2 << 20, free_files=0, all_files=0), ""),  # btrfs counts no files
    ],
)
def test_a_launch_needs_room_and_leaves_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, usage: os.statvfs_result, word: str
) -> None:
    """RELIABILITY 32: quota by size, checked before anything is written."""
    spool = Spool(str(tmp_path / "spool"))
    monkeypatch.setattr(os, "statvfs", lambda path: usage)
    if not word:
        spool.check_room(size)
        return
    with pytest.raises(SpoolFull, match=f"^SlurmdSpoolDir is full: .*{word}"):
        spool.check_room(size)


def test_users_pass_through_it_and_list_nothing(tmp_path: Path) -> None:
    """Its directories name jobs that PrivateData hides. One that was there stays as it is."""
    before = os.umask(0o077)
    try:
        Spool(str(tmp_path / "spool"))
    finally:
        os.umask(before)
    assert (tmp_path / "spool").stat().st_mode & 0o777 == 0o711
    there = tmp_path / "there"
    there.mkdir()
    there.chmod(0o755)
    Spool(str(there))
    assert there.stat().st_mode & 0o777 == 0o755


def test_a_tiny_file_system_is_not_full_when_it_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a tiny file system less is kept free, so that a launch fits."""
    spool = Spool(str(tmp_path / "spool"))
    tiny = os.statvfs_result((512, 512, 512, 400, 400, 100, 90, 90, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: tiny)
    spool.check_room(100 << 10)
    with pytest.raises(SpoolFull, match="4096 kept free"):
        spool.check_room(200 << 10)


def test_the_epoch_is_kept_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """I6: a node that forgot it would obey a controller that was replaced."""
    spool = Spool(str(tmp_path / "spool"))
    spool.keep_epoch(7)
    monkeypatch.setattr(os, "write", full)
    spool.keep_epoch(12)
    assert spool.epoch() == 12
    assert sorted(os.listdir(spool.directory)) == ["epoch", "prologs", "stepmgr", "steps"]


def test_scripts_of_dead_supervisors_are_removed_and_other_folders_stay(tmp_path: Path) -> None:
    """The spool may be /tmp, where other programs have folders with such names."""
    spool = Spool(str(tmp_path / "spool"))
    for job_id in (1, 2, 123456):
        write_script(f"{spool.directory}/job{job_id:05d}", b"#!/bin/sh\n", os.getuid(), os.getgid())
    others = tmp_path / "spool" / "job00003"
    others.mkdir()
    (others / "work").write_text("of a week")
    spool.remove_scripts({2})
    assert sorted(os.listdir(spool.directory)) == [
        "job00002",
        "job00003",
        "prologs",
        "stepmgr",
        "steps",
    ]


def test_a_finished_step_is_not_launched_again(tmp_path: Path) -> None:
    """RELIABILITY 59: its credential lives longer than the step's records.

    Only the name of its file stays.
    """
    spool = Spool(str(tmp_path / "spool"))
    path = spool.step_path(1, 2, 0)
    step_record.create(path, {"job": 1, "tasks": []})
    step_record.append(path, {"kind": "reported"})
    spool.empty_step(path)
    assert step_record.read(path) == {}
    with pytest.raises(FileExistsError):
        step_record.create(path, {"job": 1, "tasks": []})
    assert [key for _, key in spool.step_files()] == [(1, 2, 0)]


def test_the_newest_job_id_survives_a_restart(tmp_path: Path) -> None:
    """RELIABILITY 8: a file that cannot be read counts as none."""
    directory = str(tmp_path / "spool")
    Spool(directory).keep_newest_job_id(4_711)
    assert Spool(directory).newest_job_id() == 4_711
    (tmp_path / "spool" / "newest_job").write_text("")
    assert Spool(directory).newest_job_id() == 0


def test_a_large_file_is_emptied_once_its_end_is_known(tmp_path: Path) -> None:
    """Only its name is kept, so that it is not started again; a small one may be looked at."""
    spool = Spool(str(tmp_path))
    for job_id, size in ((1, 100), (2, 1 << 20)):
        path = spool.step_path(job_id, 0, 0)
        step_record.create(path, {"env": [b"x" * size]})
        spool.mark_reported(path)
    assert "reported" in step_record.read(spool.step_path(1, 0, 0))
    assert step_record.read(spool.step_path(2, 0, 0)) == {}
    with pytest.raises(FileExistsError):
        step_record.create(spool.step_path(2, 0, 0), {})


def test_the_end_of_a_step_is_read_without_its_spec(tmp_path: Path) -> None:
    """A spec may hold a thousand tasks; it is of use only where the supervisor has left no end."""
    path = Spool(str(tmp_path)).step_path(1, 0, 0)
    step_record.create(path, {"env": [b"x" * 5000], "tasks": []})
    step_record.append(path, {"kind": "pid", "pid": 7})
    assert step_record.read_end(path) == step_record.read(path)
    assert {*step_record.read_end(path)} == {"spec", "pid"}
    step_record.append(path, {"kind": "end", "status": 3})
    assert {*step_record.read_end(path)} == {"pid", "end"}
    with open(path, "ab") as file:
        file.write(b"\0\0\1\0half a record")
    assert step_record.read_end(path)["end"]["status"] == 3
    os.truncate(path, 0)
    assert step_record.read_end(path) == {}


def test_suspended_jobs_are_known_to_the_next_slurmd(tmp_path: Path) -> None:
    """After a restart of slurmd, srun in a suspended job got a share and ran."""
    file = SuspendedJobs(str(tmp_path))
    assert file.read() == set()
    file.keep({(7, 0), (3, 2)})
    again = SuspendedJobs(str(tmp_path))
    assert again.read() == {(7, 0), (3, 2)}
    node = NodeCore(has_prolog=False, has_epilog=False, kill_wait_s=30)
    node.suspended = again.read()
    node.adopt(credential(7), STEP_BATCH, 0)
    node.adopt(credential(8), STEP_BATCH, 0)
    assert (node.jobs[7].is_suspended, node.jobs[8].is_suspended) == (True, False)
    again.keep(set())
    assert SuspendedJobs(str(tmp_path)).read() == set()
    (tmp_path / "suspended").write_text("torn")
    assert SuspendedJobs(str(tmp_path)).read() == set()
