"""The calls of plugstack.conf's plugins, without a cluster."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pyslurm_ng.conf.plugstack import PlugLine
from pyslurm_ng.policy.spank import ALLOCATOR, REMOTE, Spank
from pyslurm_ng.policy.spank_stack import PluginFailed, Stack, unusable

OWNERS = {0, os.getuid()}


def line(tmp_path: Path, code: str, name: str = "site", *, is_required: bool = True) -> PlugLine:
    path = tmp_path / f"{name}.py"
    path.write_text(code)
    path.chmod(0o644)
    return PlugLine("plugstack.conf", 1, str(path), ["5"], is_required=is_required)


OPTIONS = """
from pyslurm_ng.policy.spank import Option
def init(spank, most):
    def check(value, is_remote):
        if int(value) > int(most):
            raise ValueError(f"at most {most}")
    spank.register(Option("level", "N", "how much", callback=check))
def init_post_opt(spank):
    spank.tell(f"level {spank.option('level')}")
"""


@pytest.mark.parametrize("context", [ALLOCATOR, REMOTE])
def test_an_option_is_a_variable(tmp_path: Path, context: str) -> None:
    """The same on both sides, so nothing else has to travel."""
    spank = Spank(context, {"_SLURM_SPANK_OPTION_site_level": "4"})
    stack = Stack([line(tmp_path, OPTIONS)], spank, OWNERS)
    stack.begin()
    assert spank.told == ["level 4"]
    assert [(plugin, option.name) for plugin, option in spank.options] == [("site", "level")]


@pytest.mark.parametrize("is_required", [True, False])
def test_a_refused_value_is_never_obeyed(tmp_path: Path, *, is_required: bool) -> None:
    """A user can set the variable without the command that would have refused it."""
    spank = Spank(REMOTE, {"_SLURM_SPANK_OPTION_site_level": "6"})
    stack = Stack([line(tmp_path, OPTIONS, is_required=is_required)], spank, OWNERS)
    with pytest.raises(PluginFailed, match=r"--level=6: ValueError: at most 5 \(site.py:6\)"):
        stack.begin()


def test_a_plugin_with_a_call_that_is_not_built_is_named(tmp_path: Path) -> None:
    """Nothing is silent: its prolog would never run."""
    code = "def job_prolog(spank): pass\n"
    with pytest.raises(PluginFailed, match="job_prolog is never called; use Prolog or Epilog"):
        Stack([line(tmp_path, code)], Spank(REMOTE, {}), OWNERS)
    spank = Spank(REMOTE, {})
    Stack([line(tmp_path, code, is_required=False)], spank, OWNERS)
    assert "job_prolog is never called" in spank.logged[0]


def test_options_come_in_init_only_and_once(tmp_path: Path) -> None:
    """Their names must be known before the command line is read, and be clear."""
    late = "from pyslurm_ng.policy.spank import Option\n"
    late += "def init_post_opt(spank): spank.register(Option('late'))\n"
    spank = Spank(ALLOCATOR, {})
    with pytest.raises(PluginFailed, match="options are registered by init"):
        Stack([line(tmp_path, late)], spank, OWNERS).begin()
    twice = [line(tmp_path, OPTIONS, "a"), line(tmp_path, OPTIONS, "b")]
    with pytest.raises(PluginFailed, match="--level is an option of plugin a already"):
        Stack(twice, Spank(ALLOCATOR, {}), OWNERS).begin()


def test_the_next_plugin_is_called_after_an_optional_one_failed(tmp_path: Path) -> None:
    broken = line(tmp_path, "def init(spank, x): 1 // 0", "broken", is_required=False)
    good = line(tmp_path, "def init(spank, x): spank.tell('good')", "good")
    spank = Spank(REMOTE, {})
    Stack([broken, good], spank, OWNERS).begin()
    assert spank.told == ["good"]
    (text,) = spank.logged
    assert text.startswith("spank: optional plugin broken: init() failed: ZeroDivisionError")


def test_files_that_others_could_have_written(tmp_path: Path) -> None:
    """Root runs them."""
    plugin = line(tmp_path, "x = 1")
    assert unusable(plugin, OWNERS) == ""
    assert unusable(plugin, {12345}).endswith("root or SlurmUser is allowed")
    Path(plugin.plugin).chmod(0o664)
    assert "can be written by others" in unusable(plugin, OWNERS)
    Path(plugin.plugin).chmod(0o644)
    tmp_path.chmod(0o777)
    assert "can be written by others" in unusable(plugin, OWNERS)
    tmp_path.chmod(0o755)
    Path(plugin.plugin).write_text("def (")
    assert "is no Python" in unusable(plugin, OWNERS)
    Path(plugin.plugin).unlink()
    assert "cannot be read: No such file" in unusable(plugin, OWNERS)
    os.mkfifo(plugin.plugin)
    assert "is no file" in unusable(plugin, OWNERS)


def test_lines_of_a_plugin_are_bounded(tmp_path: Path) -> None:
    """They travel to the supervisor in one message."""
    code = "def init(spank, x):\n for _ in range(1000): spank.tell('\\udcff\\n' * 1000)"
    spank = Spank(REMOTE, {})
    Stack([line(tmp_path, code)], spank, OWNERS).begin()
    assert (len(spank.told), {len(text) for text in spank.told}) == (20, {300})
    assert "\n" not in spank.told[0]
    assert spank.told[0].startswith("? ?")
