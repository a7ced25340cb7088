"""Files that a user names are read as a whole, but an endless one is refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pyslurm_ng.cli import command
from pyslurm_ng.cli.control.show import show_hostlist
from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.step.multi_prog import MultiProgError, read_programs
from pyslurm_ng.cli.submit import option_names, submission
from pyslurm_ng.cli.submit.host_file import read_names
from pyslurm_ng.conf.lexer import read_conf
from pyslurm_ng.conf.quick import quick

ENDLESS = "/dev/zero"
LIMIT = "it holds more than 16 MiB"


@pytest.mark.parametrize(
    ("read", "option"),
    [
        (lambda: option_names._names_in("nodefile", ENDLESS), "--nodefile"),
        (lambda: option_names.burst_buffer_file(None, "bbf", ENDLESS), "--bbf"),  # type: ignore[arg-type]
        (lambda: submission._export_file(ENDLESS), "--export-file"),
        (lambda: read_names(ENDLESS), ENDLESS),
        (lambda: read_programs(ENDLESS, 1), ENDLESS),
    ],
    ids=["nodefile", "bbf", "export-file", "hostfile", "multi-prog"],
)
def test_an_endless_file_is_refused(read: Callable[[], object], option: str) -> None:
    """With what was given and the limit."""
    with pytest.raises((OptionError, MultiProgError)) as caught:
        read()
    assert option in str(caught.value) and LIMIT in str(caught.value)


def test_an_endless_list_of_hosts_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """By scontrol show hostlist, with the file's name."""
    with pytest.raises(SystemExit):
        show_hostlist(None, [ENDLESS])  # type: ignore[arg-type]
    assert capsys.readouterr().err == f"scontrol: error: {ENDLESS}: {LIMIT}\n"


def test_an_endless_configuration_is_refused() -> None:
    """By commands and by daemons: SLURM_CONF may name anything."""
    with pytest.raises(OSError, match="it holds more than 64 MiB"):
        quick(ENDLESS, ("ClusterName",))
    assert [error.text for error in read_conf(ENDLESS).errors] == [
        "cannot be read: it holds more than 64 MiB"
    ]


@pytest.mark.parametrize("text", ["", "root:x:0:0:root:/root:/bin/bash\n", "Color=blue\n"])
def test_a_file_that_is_no_configuration_is_refused(
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In Slurm's words, instead of a controller at a default address that does not answer."""
    path = tmp_path / "slurm.conf"
    path.write_text(text)
    monkeypatch.setenv("SLURM_CONF", str(path))
    with pytest.raises(SystemExit):
        command.read_conf("sinfo")
    assert capsys.readouterr().err == (
        "sinfo: error: ClusterName needs to be specified\n"
        "sinfo: fatal: Unable to process configuration file\n"
    )


def test_a_file_that_a_configuration_includes_is_named_if_it_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """slurm.conf itself is there: its name would lead astray."""
    (tmp_path / "slurm.conf").write_text("ClusterName=c\nInclude nodes.conf\n")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    with pytest.raises(SystemExit):
        command.read_conf("sinfo")
    assert f"unable to read '{tmp_path}/nodes.conf': No such file" in capsys.readouterr().err
