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


@pytest.mark.parametrize("verb", ["ping", "reconfigure", "shutdown", "version"])
def test_commands_about_the_daemon_take_no_words(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`shutdown` of something else must not end slurmdbd."""
    with pytest.raises(SystemExit) as stop:
        sacctmgr.main([verb, "all"])
    assert stop.value.code == 1
    assert capsys.readouterr().err == f"too many arguments for {verb} keyword\n"


def test_the_end_of_a_session_takes_no_words(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        sacctmgr.main(["exit", "now"])
    assert capsys.readouterr().err == "too many arguments for keyword:exit\n"


def test_set_and_where_say_nothing_of_what_is_added() -> None:
    """`add qos high set priority=5` adds no QOS of the name set."""
    for word in ("set", "where"):
        parts = sacctmgr.assignments(["high", word, "priority=5"], "add")
        assert parts == ([["", "=", "high"], ["priority", "=", "5"]], [])


def test_a_name_that_is_no_text_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        sacctmgr.main(["-i", "add", "account", "x\udcff"])
    assert stop.value.code == 1
    assert capsys.readouterr().err == "sacctmgr: error: 'x\\udcff' is no UTF-8 text\n"


@pytest.mark.parametrize("word", ["quiet", "verbose", "oneliner", "parsable"])
def test_switches_of_a_session_are_commands_too(word: str) -> None:
    assert sacctmgr.main([word]) == 0
