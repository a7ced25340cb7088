"""Small words of sacctmgr, as Slurm 22.05 takes them."""

from __future__ import annotations

import pytest

from pyslurm_ng.cli import sacctmgr


@pytest.fixture(autouse=True)
def without_daemons(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """Nothing here asks slurmdbd."""
    monkeypatch.setenv("SLURM_CONF", f"{tmp_path}/slurm.conf")


@pytest.mark.parametrize("word", ["exit", "quit"])
def test_the_end_of_a_session_is_a_command_too(word: str) -> None:
    assert sacctmgr.main([word]) == 0


def test_reconfigure_takes_no_words(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        sacctmgr.main(["reconfigure", "all"])
    assert stop.value.code == 1
    assert capsys.readouterr().err == "too many arguments for reconfigure keyword\n"
