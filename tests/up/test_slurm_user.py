"""Which account `pyslurm-ng up` runs slurmctld and slurmdbd as."""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path

import psutil
import pytest

from pyslurm_ng.up import cluster, programs, slurm_user
from pyslurm_ng.up.layout import BadRequest, Layout

NOBODY = pwd.getpwnam("nobody")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(tmp_path / "c")


def test_an_unknown_user_is_named(layout: Layout) -> None:
    with pytest.raises(BadRequest, match="no-such-user: there is no such user"):
        slurm_user.choose_user("no-such-user", layout)


def test_the_caller_is_the_default_without_a_user_slurm(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_user, "USUAL_NAME", "no-such-user")
    caller = pwd.getpwuid(os.geteuid()).pw_name
    assert slurm_user.choose_user("", layout) == (caller, "")


@as_root
def test_a_closed_directory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemons would start as root and then fail to find their own modules."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    layout = Layout(closed / "c")
    with pytest.raises(BadRequest, match="user nobody may not enter /"):
        slurm_user.choose_user("nobody", layout)
    monkeypatch.setattr(slurm_user, "USUAL_NAME", "nobody")
    name, remark = slurm_user.choose_user("", layout)
    assert name == "root"
    assert "since user nobody may not enter" in remark


@as_root
def test_what_may_be_somebody_elses_is_not_given(tmp_path: Path) -> None:
    """A file with a second name, or behind a link, may be one that matters to root."""
    state, outside = tmp_path / "state", tmp_path / "outside"
    (state / "journal").mkdir(parents=True)
    (state / "journal" / "1").touch()
    outside.touch()
    os.link(outside, state / "second-name")
    (state / "link").symlink_to(outside)
    slurm_user.give_to(state, NOBODY)
    assert (state / "journal" / "1").stat().st_uid == NOBODY.pw_uid
    assert (state / "journal").stat().st_uid == NOBODY.pw_uid
    assert state.stat().st_uid == NOBODY.pw_uid
    assert outside.stat().st_uid == 0


@as_root
def test_root_believes_and_removes_nothing_that_a_user_prepared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands would bring root's token to that user, and a link leads to other pid files."""
    layout = Layout(tmp_path / "c")
    outside = tmp_path / "run"
    for made in (layout.run, layout.etc, outside):
        made.mkdir(parents=True, exist_ok=True)
    (outside / "sshd.pid").touch()
    layout.service_run.symlink_to(outside)
    (layout.run / "slurmctld.pid").touch()
    alive = programs.Running("slurmctld", psutil.Process())
    monkeypatch.setattr(programs, "running", lambda layout: [alive])
    monkeypatch.setattr(programs, "end", lambda *_: [])
    monkeypatch.setattr(programs, "step_daemons", lambda layout: [])
    monkeypatch.setattr(cluster, "pages_of", lambda layout: "http://127.0.0.1:1/")
    asked: list[list[str]] = []
    monkeypatch.setattr(cluster, "_finished", lambda argv, env: asked.append(argv))
    said: list[str] = []
    os.chown(layout.directory, NOBODY.pw_uid, NOBODY.pw_gid)
    try:
        cluster.down(layout, said.append)
        assert cluster.login_of(layout) == ""
        assert asked == [] and "its files stay" in said[-1]
        assert (outside / "sshd.pid").exists() and (layout.run / "slurmctld.pid").exists()
        os.chown(layout.directory, 0, 0)
        cluster.login_of(layout)
        assert asked
    finally:
        shutil.rmtree(layout.run, ignore_errors=True)


@as_root
def test_a_users_directory_names_no_process_of_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else `down` of root would end the site's slurmctld by a pid file that a user has written."""
    layout = Layout(tmp_path / "c")
    layout.run.mkdir(parents=True)
    layout.directory.mkdir(exist_ok=True)
    path = layout.run / "slurmctld.pid"
    path.write_text(f"{os.getpid()}\n")
    monkeypatch.setattr(programs, "DAEMONS", (psutil.Process().name(),))
    try:
        assert [known.process for known in programs.running(layout)] == [psutil.Process()]
        for owned in (path, layout.run, layout.directory):
            os.chown(owned, NOBODY.pw_uid, NOBODY.pw_gid)
            assert [known.process for known in programs.running(layout)] == [None]
            os.chown(owned, 0, 0)
        path.unlink()
        path.symlink_to("/proc/self/stat")
        os.chown(path, NOBODY.pw_uid, NOBODY.pw_gid, follow_symlinks=False)
        assert [known.process for known in programs.running(layout)] == [None]
    finally:
        shutil.rmtree(layout.run, ignore_errors=True)  # elsewhere when this path is long
