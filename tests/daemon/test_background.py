"""What daemons do before they serve: directories that belong to SlurmUser."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyslurm_ng.daemon.background import is_of_this_unit, make_directory

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives directories away")
SLURM_USER = 64_030


@pytest.mark.root
@AS_ROOT
def test_a_new_directory_is_the_slurm_users(tmp_path: Path) -> None:
    directory = tmp_path / "new"
    make_directory(str(directory), SLURM_USER)
    assert directory.stat().st_uid == SLURM_USER
    assert directory.stat().st_mode & 0o777 == 0o755


@pytest.mark.root
@AS_ROOT
def test_a_directory_slurmd_made_first_is_taken_only_when_it_is_ours(tmp_path: Path) -> None:
    """slurmctld could not listen after slurmd had made the directory as root."""
    tmp_path.chmod(0o755)
    make_directory(str(tmp_path), SLURM_USER)
    assert tmp_path.stat().st_uid == 0
    make_directory(str(tmp_path), SLURM_USER, take=True)
    assert tmp_path.stat().st_uid == SLURM_USER
    make_directory(str(tmp_path), SLURM_USER + 1, take=True)
    assert tmp_path.stat().st_uid == SLURM_USER


def test_what_systemd_made_for_the_unit_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A unit without User= leaves RuntimeDirectory= to root: SlurmUser could not listen there."""
    own, other = tmp_path / "slurmctld", tmp_path / "other"
    own.mkdir()
    (tmp_path / "var").symlink_to(tmp_path)
    monkeypatch.setenv("RUNTIME_DIRECTORY", f"{tmp_path / 'more'}:{own}")
    assert is_of_this_unit(str(own))
    assert is_of_this_unit(str(tmp_path / "var" / "slurmctld"))
    assert not is_of_this_unit(str(other))
    monkeypatch.delenv("RUNTIME_DIRECTORY")
    assert not is_of_this_unit(str(own))
    assert not is_of_this_unit("")


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        make_directory(str(tmp_path / "file" / "below"), -1)
