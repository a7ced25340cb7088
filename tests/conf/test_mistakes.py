"""Mistakes of an administrator: each has one line, which names file, line and key."""

from __future__ import annotations

import grp
from pathlib import Path

import pytest

from pyslurm_ng.conf.check import check, check_here, check_warnings

HEAD = "SlurmctldHost=h\nAuthType=auth/slurm\nGresTypes=gpu\n"


def conf_of(directory: Path, lines: str) -> str:
    """Write a slurm.conf; ours are lines 1 to 3, those of a test begin with line 4."""
    text = HEAD + lines
    for key, line in (
        ("ClusterName=", "ClusterName=c\n"),
        ("NodeName=", "NodeName=n[1-2] CPUs=4\n"),
        ("PartitionName=", "PartitionName=p Nodes=n1\n"),
    ):
        if key not in text:
            text += line
    path = directory / "slurm.conf"
    path.write_text(text)
    (directory / "slurm.key").write_bytes(bytes(1024))
    return str(path)


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("ClusterName=a/b", "4: ClusterName: expected 1 to 40 letters"),
        ("SlurmUser=a,b", "4: SlurmUser: expected a user name or uid"),
        ("NodeName=n1 Port=x", "4: Port: expected ports within 1 to 65535"),
        ("NodeName=n1 Port=70000", "4: Port: expected ports within 1 to 65535"),
        ("NodeName=n[1-2] Port=[7000-7002]", "4: Port: 3 values for 2 nodes"),
        ("NodeName=n[1-2] NodeAddr=a[1-3]", "4: NodeAddr: 3 values for 2 nodes"),
        ("NodeName=n1 CPUs=2 CoreSpecCount=5", "4: NodeName: CoreSpecCount=5 leaves no core"),
        ("NodeName=n[1-2", "4: NodeName: Invalid hostlist"),
        ("PreemptType=preempt/qos", "4: PreemptType: preempt/qos needs PreemptMode="),
        ("PreemptType=preempt/qos\nPreemptMode=bogus", "5: PreemptMode: 'bogus' is unknown"),
        ("PartitionName=p Nodes=n1 Topology=far", "4: Topology: partition p: "),
        ("MpiParams=ports=x", "4: MpiParams: ports=x is not a range a-b"),
        ("MpiParams=ports=9-", "4: MpiParams: ports=9- is not a range a-b"),
        ("MpiParams=ports=9-70000", "4: MpiParams: ports=9-70000 is not a range a-b"),
        ("SlurmSchedLogFile=a.log", "4: SlurmSchedLogFile: 'a.log' is not an absolute path"),
        ("JobCompType=jobcomp/filetxt\nJobCompLoc=a.log", "5: JobCompLoc: 'a.log' is not an absol"),
        ("AuthType=none", "4: AuthType: 'none' is unknown; allowed: auth/munge, auth/slurm"),
        ("SelectType=select/none", "4: SelectType: 'select/none' is unknown"),
    ],
)
def test_a_mistake_in_slurm_conf_is_one_line(tmp_path: Path, lines: str, problem: str) -> None:
    """What follows from it is not a second one."""
    path = conf_of(tmp_path, lines + "\n")
    (line,) = check_here(path)[0]
    assert line.startswith(f"{path}:{problem}")


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("Name=gpu Count=x", "1: Count: 'x' is not a count"),
        ("AutoDetect=bogus", "1: AutoDetect: 'bogus' is unknown"),
        ("NodeName=n1 AutoDetect=bogus", "1: AutoDetect: 'bogus' is unknown"),
    ],
)
def test_a_mistake_in_gres_conf_is_one_line(tmp_path: Path, lines: str, problem: str) -> None:
    path = conf_of(tmp_path, "NodeName=n1 Gres=gpu:4\n")
    (tmp_path / "gres.conf").write_text(lines + "\n")
    (line,) = check(path)
    assert line.startswith(f"{tmp_path}/gres.conf:{problem}")


def test_a_topology_of_another_kind_names_its_first_line(tmp_path: Path) -> None:
    path = conf_of(tmp_path, "TopologyPlugin=topology/tree\n")
    (tmp_path / "topology.conf").write_text("# ours\nBlockName=b Nodes=n[1-2]\n")
    problem = "describes a block, but TopologyPlugin=topology/tree"
    assert check(path) == [f"{tmp_path}/topology.conf:2: {problem}"]


@pytest.mark.parametrize(
    ("line", "warnings"),
    [
        ("MpiParams=bogus", ["MpiParams: 'bogus' is unknown and ignored"]),
        (
            "MCSParameters=bogus",
            ["MCSParameters: 'bogus' is unknown and ignored; names of groups stand behind a colon"],
        ),
        ("JobAcctGatherFrequency=task=9,energy=3,network=5,filesystem=0", []),
        ("JobAcctGatherFrequency=30", []),
        (
            "NodeName=n[1-2] Topology=t:s",
            ["Topology=t:s of n[1-2]: no topology has such a switch, block, ring or torus"],
        ),
        (
            "PartitionName=p Nodes=n1 AllowGroups=no-such-group,ALL",
            ["AllowGroups: this host has no group no-such-group"],
        ),
        (f"PartitionName=p Nodes=n1 AllowGroups={grp.getgrgid(0).gr_name}", []),
    ],
)
def test_what_has_no_effect_is_a_warning(tmp_path: Path, line: str, warnings: list[str]) -> None:
    path = conf_of(tmp_path, line + "\n")
    assert check_here(path) == ([], [f"{path}:4: {warning}" for warning in warnings])


@pytest.mark.parametrize(
    ("key", "word", "name"),
    [
        ("JobSubmitPlugins", "lua", "job_submit.lua"),
        ("BurstBufferType", "burst_buffer/lua", "burst_buffer.lua"),
    ],
)
def test_a_script_of_the_site_that_is_missing_is_named(
    tmp_path: Path, key: str, word: str, name: str
) -> None:
    path = conf_of(tmp_path, f"{key}={word}\n")
    script = tmp_path / name
    problem = f"{path}:4: {key}: {word} needs {script}, which this host lacks"
    assert check_here(path) == ([], [problem])
    script.touch()
    assert check_here(path) == ([], [])


def test_a_group_that_is_not_here_is_not_a_fault_of_the_file(tmp_path: Path) -> None:
    """Other hosts may have it: what the file alone says has no warning."""
    path = conf_of(tmp_path, "PartitionName=p Nodes=n1 AllowGroups=none-such\n")
    assert check_warnings(path) == []
