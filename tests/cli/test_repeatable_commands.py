"""Commands whose process may run the next one keep nothing in their modules (ADR 0114).

That one command prints the same behind another is shown by all tests of this folder, which run many
hundreds in one process, each beside what Slurm printed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.submit import plugins
from pyslurm_ng.command_server import REPEATABLE
from tests.cli.reference_cluster import queue
from tests.cli.run_command import run_command

COMMANDS = [
    ["sbatch", "--hold", "-n", "2", "--export=A=b", "--wrap", "true"],
    ["sbatch", "--time", "nonsense", "--wrap", "true"],
    ["scancel", "22"],
    ["scancel", "--me", "--state", "pending"],
    ["squeue", "-o", "%i %u %T", "--sort=-i"],
    ["squeue", "-j", "22", "--long"],
    ["sinfo", "-N", "-l"],
    ["sinfo", "-o", "%P %a"],
    ["scontrol", "-o", "show", "job", "22"],
    ["scontrol", "show", "node"],
    ["scontrol", "update", "jobid=22", "priority=5"],
    ["sacct", "-X"],
]


def names() -> dict[tuple[str, str], object]:
    """Return what the names of all our modules stand for; texts of values that can change."""
    values: dict[tuple[str, str], object] = {}
    for module_name, module in list(sys.modules.items()):
        if not module_name.startswith("pyslurm_ng.") or not isinstance(module, ModuleType):
            continue
        for name, value in vars(module).items():
            if isinstance(value, (dict, list, set, bytearray)) and not name.startswith("__"):
                values[module_name, name] = repr(value)
            else:
                values[module_name, name] = id(value)
    return values


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_command_changes_no_name_of_a_module(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = queue()
    run_command(monkeypatch, reference, "alice", words)  # its modules are imported by now
    before = names()
    run_command(monkeypatch, reference, "bob", words)
    after = names()
    assert after == before


def test_plugins_of_one_slurm_conf_are_none_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a plugin was told by one sbatch would be sent with the next."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "slurm.conf").write_text("ClusterName=trial\n")
    (tmp_path / "other" / "plugstack.conf").write_text("nonsense\n")
    plugins.has_plugins()
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "one" / "slurm.conf"))
    assert plugins.load_plugins("sbatch") is None
    assert not plugins.has_plugins()
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "other" / "slurm.conf"))
    with pytest.raises(OptionError):
        plugins.load_plugins("sbatch")
    monkeypatch.setitem(plugins._known, "sbatch", object())
    assert plugins.has_plugins()
    assert not plugins.has_plugins()


def test_each_of_them_is_tried() -> None:
    assert {words[0].encode() for words in COMMANDS} == REPEATABLE
