"""``slurmctld --check``: all mistakes of all files, and the examples have none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pyslurm_ng.conf.check import check, check_here, check_warnings
from pyslurm_ng.conf.quick import find_conf, quick
from pyslurm_ng.conf.tables import keys as tables
from pyslurm_ng.ctld.__main__ import main
from pyslurm_ng.ctld.configuration import BadConfiguration, load_configuration
from pyslurm_ng.wire import munge

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).parent / "golden"
NAMES = ("slurm", "gres", "topology", "cgroup", "slurmdbd")


def copy(directory: Path, source: Path, suffix: str) -> Path:
    for name in NAMES:
        target = directory / f"{name}.conf"
        shutil.copyfile(source / f"{name}.conf{suffix}", target)
        target.chmod(0o600)
    return directory / "slurm.conf"


def test_the_examples_pass(tmp_path: Path) -> None:
    path = copy(tmp_path, ROOT / "etc", ".example")
    assert check(str(path)) == []
    for name in NAMES:
        assert check(str(tmp_path / f"{name}.conf")) == []


@pytest.mark.parametrize(
    ("name", "table"), [("slurm", "PARAMETERS"), ("slurm", "NODE"), ("slurm", "PARTITION"),
                        ("gres", "GRES"), ("topology", "TOPOLOGY"), ("cgroup", "CGROUP"),
                        ("slurmdbd", "SLURMDBD")]
)  # fmt: skip
def test_the_examples_name_every_key(name: str, table: str) -> None:
    text = (ROOT / "etc" / f"{name}.conf.example").read_text()
    assert [key.name for key in getattr(tables, table) if f"{key.name}=" not in text] == []


@pytest.mark.parametrize("name", ["slurm", "cgroup", "gres", "slurmdbd", "topology"])
def test_the_examples_have_nothing_without_effect(name: str) -> None:
    """What we ship is what works."""
    path = str(ROOT / "etc" / f"{name}.conf.example")
    assert check(path) == [] and check_warnings(path) == []


def test_a_real_cluster_passes(tmp_path: Path) -> None:
    path = copy(tmp_path, GOLDEN, "")
    assert check(str(path)) == []
    assert any("has no effect in pyslurm-ng" in line for line in check_warnings(str(path)))


def test_mistakes_of_all_files_are_reported_together(tmp_path: Path) -> None:
    path = copy(tmp_path, GOLDEN, "")
    for name, line in (
        ("slurm", "Bogus=1"),
        ("gres", "Name=gpu Count=x"),
        ("topology", "SwitchName=x Switches=x"),
        ("cgroup", "ConstrainCores=perhaps"),
        ("slurmdbd", "DbdPort=x"),
    ):
        with (tmp_path / f"{name}.conf").open("a") as stream:
            stream.write(f"\n{line}\n")
    lines = check(str(path))
    assert [Path(line.split(":")[0]).stem for line in lines] == [
        "slurm",
        "gres",
        "topology",
        "cgroup",
        "slurmdbd",
    ]
    assert any("slurm.conf:" in line and "Bogus" in line for line in lines)
    assert any("cgroup.conf:" in line and "ConstrainCores" in line for line in lines)


def test_neighbours_are_checked_against_the_cluster(tmp_path: Path) -> None:
    path = copy(tmp_path, GOLDEN, "")
    with (tmp_path / "topology.conf").open("a") as stream:
        stream.write('SwitchName=x Nodes=""\n')
    with (tmp_path / "gres.conf").open("a") as stream:
        stream.write("Name=gpu File=here\n")
    assert [line.partition("conf/")[2] or line for line in check(str(path))] == [
        f"{tmp_path}/gres.conf:3: Name: File=here is not an absolute path",
        f"{tmp_path}/topology.conf:4: SwitchName: Nodes= names no node",
    ]


def test_the_topology_must_be_of_the_plugins_kind(tmp_path: Path) -> None:
    path = copy(tmp_path, GOLDEN, "")
    (tmp_path / "topology.conf").write_text("BlockName=b Nodes=n[1-4]\n")
    assert check(str(path)) == [
        f"{tmp_path}/topology.conf:1: describes a block, but TopologyPlugin=topology/tree"
    ]
    (tmp_path / "topology.conf").write_text("# nothing\n")
    assert check(str(path)) == [
        f"{tmp_path}/topology.conf: is empty, but TopologyPlugin=topology/tree; "
        "describe the network in it, or set topology/flat"
    ]
    (tmp_path / "topology.conf").unlink()
    assert "TopologyPlugin=topology/tree needs this file" in check(str(path))[0]


def test_a_partition_may_name_no_network_that_is_not_there(tmp_path: Path) -> None:
    """Without topology.yaml there is one, which is called default."""
    path = copy(tmp_path, GOLDEN, "")
    text = path.read_text()
    path.write_text(text + "PartitionName=far Nodes=n1 Topology=nope\n")
    assert check(str(path)) == [
        f"{path}:57: Topology: partition far: {tmp_path}/topology.yaml has no nope"
    ]
    path.write_text(text + "PartitionName=far Nodes=n1 Topology=default\n")
    assert check(str(path)) == []


def test_an_incomplete_network_is_a_warning(tmp_path: Path) -> None:
    """Jobs cannot use nodes without a switch, or switches that are not connected, together."""
    path = copy(tmp_path, GOLDEN, "")
    (tmp_path / "topology.conf").write_text("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\n")
    assert check(str(path)) == []
    assert check_warnings(str(path))[-2:] == [
        f"{tmp_path}/topology.conf: no switch has n[3-4]",
        f"{tmp_path}/topology.conf: no switch joins a, b",
    ]


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    for name in ("slurm.conf", "slurm.toml"):
        lines = check(str(tmp_path / name))
        assert lines == [f"{tmp_path}/{name}: cannot be read: No such file or directory"]


def test_commands_find_their_few_keys(tmp_path: Path) -> None:
    (tmp_path / "more.conf").write_text("AuthType=auth/slurm # why\nKillWait=1 MinJobAge = 5\n")
    path = tmp_path / "slurm.conf"
    path.write_text(
        "# SlurmctldPort=1 \\\nClusterName=C1\nSlurmctldHost=a(1.2.3.4)\nslurmctldhost=b\n"
        "SlurmctldPort=\\\n7000\nInclude more.conf\nNodeName=n1 Port=9\n"
        'PartitionName=p AuthType=no\nMailProg="/bin/my mail"\n'
    )
    keys = ("ClusterName", "SlurmctldHost", "SlurmctldPort", "AuthType", "MinJobAge", "MailProg",
              "Port", "TmpFS")  # fmt: skip
    assert quick(str(path), keys) == {
        "ClusterName": "C1",
        "SlurmctldHost": "a(1.2.3.4),b",
        "SlurmctldPort": "7000",
        "AuthType": "auth/slurm",
        "MinJobAge": "5",
        "MailProg": "/bin/my mail",
    }


def test_commands_read_toml_too(tmp_path: Path) -> None:
    path = tmp_path / "slurm.toml"
    path.write_text('SlurmctldPort = 7000\nSlurmctldHost = ["a", "b"]\n[node.n1]\nPort = 9\n')
    assert quick(str(path), ("SlurmctldPort", "SlurmctldHost", "Port")) == {
        "SlurmctldPort": "7000",
        "SlurmctldHost": "a,b",
    }


def test_slurm_conf_in_the_environment_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", "/some/where/slurm.conf")
    assert find_conf() == "/some/where/slurm.conf"
    monkeypatch.delenv("SLURM_CONF")
    assert find_conf().endswith("/slurm.conf")


# What a host lacks -------------------------------------------------------------------------------

PLAIN = """ClusterName=c
SlurmctldHost=h
NodeName=n1 CPUs=1
PartitionName=p Nodes=n1
AuthType=auth/slurm
"""


@pytest.fixture(autouse=True)
def slurm_key(tmp_path: Path) -> Path:
    """slurm.key beside slurm.conf."""
    path = tmp_path / "slurm.key"
    path.write_bytes(bytes(1024))
    return path


def test_a_host_that_lacks_key_or_munge_is_named(
    tmp_path: Path, slurm_key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without them no daemon starts here; other hosts may have them, so each is a warning."""
    path = tmp_path / "slurm.conf"
    path.write_text(PLAIN)
    assert check_here(str(path)) == ([], [])
    slurm_key.unlink()
    assert check_here(str(path)) == ([], [f"AuthType=auth/slurm: {slurm_key}: not on this host"])
    assert main(["--check", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: no errors, warnings: 1\n"
    path.write_text(PLAIN.replace("AuthType=auth/slurm\n", ""))
    lacks = "this host has no libmunge.so.2; install munge or set AuthType=auth/slurm"
    problems = [] if munge.is_installed() else [f"AuthType=auth/munge: {lacks}"]
    assert check_here(str(path)) == ([], problems)


def test_a_user_that_is_not_there_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every daemon would refuse to start; that of slurmdbd.conf beside it counts, too."""
    path = tmp_path / "slurm.conf"
    path.write_text(f"{PLAIN}SlurmUser=nosuch\n")
    dbd = tmp_path / "slurmdbd.conf"
    dbd.write_text("StorageType=accounting_storage/sqlite\nSlurmUser=nobody-at-all\n")
    dbd.chmod(0o600)
    assert check_here(str(path))[0] == [
        f"{path}:6: SlurmUser: this host has no user nosuch",
        f"{dbd}:2: SlurmUser: this host has no user nobody-at-all",
    ]
    assert main(["--check", str(path)]) == 1
    assert f"{path}:6: SlurmUser: this host has no user nosuch\n" in capsys.readouterr().err
    with pytest.raises(BadConfiguration, match=f"{path}:6: SlurmUser: this host has no user"):
        load_configuration(str(path))
    path.write_text(f"{PLAIN}SlurmUser=root\n")
    dbd.unlink()
    assert check_here(str(path)) == ([], [])


PROGRAMS = (
    "Epilog", "EpilogSlurmctld", "HealthCheckProgram", "MailProg", "Prolog", "PrologSlurmctld",
    "ResvEpilog", "ResvProlog", "SrunEpilog", "SrunProlog", "TaskEpilog", "TaskProlog",
    "UnkillableStepProgram", "SlurmctldParameters",
)  # fmt: skip


@pytest.mark.parametrize("key", PROGRAMS)
def test_programs_that_cannot_be_run_are_named(tmp_path: Path, key: str) -> None:
    """They may be there on other hosts, so each is a warning, with file and line."""
    path = tmp_path / "slurm.conf"
    lead = "node_loss=confirmed,fence_program=" if key == "SlurmctldParameters" else ""
    good, plain = tmp_path / "good", tmp_path / "plain"
    for file, mode in ((good, 0o755), (plain, 0o644)):
        file.write_text("#!/bin/sh\n")
        file.chmod(mode)
    for program, problem in (
        (good, ""),
        (plain, "cannot be executed on this host"),
        (tmp_path, "is not a file on this host"),
        (tmp_path / "none", "No such file or directory on this host"),
    ):
        path.write_text(f"{PLAIN}{key}={lead}{program}\n")
        problems = [f"{path}:6: {key}: {program}: {problem}"] if problem else []
        assert check_here(str(path)) == ([], problems)


def test_patterns_and_relative_programs_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fence_program that is never found would let jobs wait for ever: that is an error."""
    path = tmp_path / "slurm.conf"
    path.write_text(f"{PLAIN}Prolog={tmp_path}/*.sh\nMailProg=mail\nTaskProlog=none\n")
    assert check_here(str(path))[1] == [
        f"{path}:6: Prolog: {tmp_path}/*.sh: nothing on this host matches",
        f"{path}:7: MailProg: mail: is not an absolute path",
    ]
    assert main(["--check", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: no errors, warnings: 2\n"
    path.write_text(f"{PLAIN}SlurmctldParameters=node_loss=confirmed,fence_program=fence\n")
    assert check_here(str(path))[0] == [
        f"{path}:6: SlurmctldParameters: fence_program=fence is not an absolute path"
    ]
