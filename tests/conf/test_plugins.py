"""What a site's plugins would decide is never left out in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyslurm_ng.conf.check import check, check_warnings
from pyslurm_ng.conf.plugstack import read_plugstack

CONF = "ClusterName=t\nSlurmctldHost=h\nNodeName=n1\nPartitionName=p Nodes=n1\n"


def problems(tmp_path: Path, more: str, stack: str | None = None) -> list[str]:
    """Return what is wrong with a configuration, without its directory."""
    path = tmp_path / "slurm.conf"
    path.write_text(CONF + more)
    if stack is not None:
        (tmp_path / "plugstack.conf").write_text(stack)
    return [line.removeprefix(f"{tmp_path}/") for line in check(str(path))]


@pytest.mark.parametrize(
    "line",
    [
        "JobSubmitPlugins=require_timelimit,all_partitions,logging",
        "JobSubmitPlugins=lua,python,partition,defaults,pbs",
        "JobSubmitPlugins=none",
        "CliFilterPlugins=cli_filter/syslog,lua,python,user_defaults",
        "",
    ],
)
def test_what_is_built_in_or_decides_nothing_is_allowed(tmp_path: Path, line: str) -> None:
    """A log more or less changes no job."""
    assert problems(tmp_path, line + "\n") == []


def test_spank_plugins_that_are_required(tmp_path: Path) -> None:
    """Optional ones may be missing, as in Slurm; included files count."""
    (tmp_path / "more.d").mkdir()
    (tmp_path / "more.d" / "a.conf").write_text("required tmp.so\n")
    stack = "# required old.so\noptional x11.so\nrequired  lua.so /lua.d\ninclude more.d/*\n"
    refusals = problems(tmp_path, "", stack)
    assert refusals == [
        "plugstack.conf:3: required: lua.so cannot be loaded by this version; make it optional "
        "or leave it out",
        "more.d/a.conf:1: required: tmp.so cannot be loaded by this version; make it optional "
        "or leave it out",
    ]
    assert problems(tmp_path, "", "optional x11.so\n") == []


def test_another_stack_may_be_named(tmp_path: Path) -> None:
    """PlugStackConfig."""
    other = tmp_path / "other.conf"
    other.write_text("required a.so\n")
    (problem,) = problems(tmp_path, f"PlugStackConfig={other}\n")
    assert problem.startswith("other.conf:1: required: a.so")


def test_the_lines_of_a_stack(tmp_path: Path) -> None:
    """Files begin where their line is; a C library that is optional is left out by name."""
    (tmp_path / "more.d").mkdir()
    (tmp_path / "more.d" / "a.conf").write_text("optional b.py x y  # why\n")
    path = tmp_path / "plugstack.conf"
    path.write_text(
        "required /opt/a.py\ninclude more.d/*.conf\noptional tmp.so\noptional site_tmp\n"
    )
    stack = read_plugstack(str(path))
    assert [(line.plugin, line.name, line.arguments, line.is_required) for line in stack.lines] == [
        ("/opt/a.py", "a", [], True),
        (f"{tmp_path}/more.d/b.py", "b", ["x", "y"], False),
        ("site_tmp", "site_tmp", [], False),
    ]
    assert stack.problems == []
    conf = tmp_path / "slurm.conf"
    conf.write_text(CONF)
    assert (
        f"{path}:3: optional: tmp.so is left out: plugins are Python files here, not C libraries"
        in (check_warnings(str(conf)))
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("maybe a.py", "maybe: is not known; required, optional and include are allowed"),
        ("required", "required: names nothing; it is followed by a plugin or, for include, by a"),
        (
            "optional /a/b",
            "optional: /a/b is no plugin: a file NAME.py or an entry point is allowed",
        ),
        (
            "include plugstack.conf",
            "include: plugstack.conf: files may include each other 16 times",
        ),
    ],
)
def test_wrong_lines_of_a_stack(tmp_path: Path, line: str, problem: str) -> None:
    """By file, line and word, with what is allowed."""
    refusals = problems(tmp_path, "", f"# first\n{line}\n")
    assert refusals
    assert all(text.startswith(f"plugstack.conf:2: {problem}") for text in refusals)
