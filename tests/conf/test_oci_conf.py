"""oci.conf: its keys, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyslurm_ng.conf.check import check
from pyslurm_ng.conf.lexer import ConfErrors
from pyslurm_ng.conf.oci_conf import load_oci_conf, parse_oci_conf

RUN = 'RunTimeRun="runc run %n.%u.%j.%s.%t -b %b"\n'
WHOLE = """\
ContainerPath=/run/%u/%j.%s.%t CreateEnvFile=null DisableCleanup=true DisableHooks=prestart,poststop
EnvExclude="^(SLURM_CONF)=" RunTimeEnvExclude="^SLURM_" IgnoreFileConfigJson=true
MountSpoolDir=/mnt/%j FileDebug=debug
RunTimeCreate="crun create --bundle=%b %j" RunTimeStart="crun start %j"
RunTimeQuery="crun state %j" RunTimeKill="crun kill %j" RunTimeDelete="crun delete %j"
"""


def test_a_whole_file(tmp_path: Path) -> None:
    (tmp_path / "oci.conf").write_text(WHOLE)
    settings, warnings = load_oci_conf(str(tmp_path / "oci.conf"))
    assert settings["ContainerPath"] == "/run/%u/%j.%s.%t"
    assert settings["CreateEnvFile"] == "null"
    assert settings["DisableCleanup"] and settings["IgnoreFileConfigJson"]
    assert settings["DisableHooks"] == ("prestart", "poststop")
    assert settings["EnvExclude"] == "^(SLURM_CONF)="
    assert settings["RunTimeEnvExclude"] == "^SLURM_"
    assert settings["MountSpoolDir"] == "/mnt/%j"
    assert settings["RunTimeRun"] == ""
    for name in ("Create", "Start", "Query", "Kill", "Delete"):
        assert settings[f"RunTime{name}"].startswith("crun ")
    assert [line.partition(": ")[2] for line in warnings] == [
        "FileDebug has no effect in pyslurm-ng: what goes wrong is written to the task's stderr"
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "RunTimeRun or RunTimeCreate is needed"),
        ("RunTimeCreate=x", "RunTimeCreate needs RunTimeStart and RunTimeDelete"),
        ("RunTimeRun=%q", "1: RunTimeRun: %q means nothing; %% %@ %b"),
        ("RunTimeRun=x%", "% means nothing"),
        (RUN + "EnvExclude=(", "2: EnvExclude: is no regular expression"),
        (RUN + "CreateEnvFile=tab", "2: CreateEnvFile: "),
        (RUN + "ContainerPath=%m/%j", "2: ContainerPath: %m would be SlurmdSpoolDir"),
        (RUN + "RunTimeRn=x", "unknown key in oci.conf; did you mean RunTimeRun"),
    ],
)
def test_what_is_wrong_is_named(text: str, problem: str) -> None:
    with pytest.raises(ConfErrors) as raised:
        parse_oci_conf(text)
    assert problem in str(raised.value)


@pytest.mark.parametrize(("word", "meant"), [("true", "null"), ("false", "disabled")])
def test_yes_or_no_of_older_releases(tmp_path: Path, word: str, meant: str) -> None:
    (tmp_path / "oci.conf").write_text(RUN + f"CreateEnvFile={word}\n")
    settings, warnings = load_oci_conf(str(tmp_path / "oci.conf"))
    assert settings["CreateEnvFile"] == meant
    assert len(warnings) == 1 and f"means CreateEnvFile={meant}" in warnings[0]


def test_run_takes_the_place_of_create_and_start(tmp_path: Path) -> None:
    """A file of Slurm's may have both."""
    (tmp_path / "oci.conf").write_text(RUN + "RunTimeCreate=x\nRunTimeStart=y\n")
    settings, warnings = load_oci_conf(str(tmp_path / "oci.conf"))
    assert settings["RunTimeRun"].startswith("runc run")
    assert [line.rpartition("oci.conf:")[2] for line in warnings] == [
        "2: RunTimeCreate is not used: RunTimeRun is there",
        "3: RunTimeStart is not used: RunTimeRun is there",
    ]


def test_daemons_check_it(tmp_path: Path) -> None:
    lines = "ClusterName=c\nSlurmctldHost=localhost\nNodeName=n1 CPUs=1\nPartitionName=p Nodes=n1\n"
    (tmp_path / "slurm.conf").write_text(lines)
    (tmp_path / "oci.conf").write_text("RunTimeRun=%q\n")
    assert any(
        "RunTimeRun: %q means nothing" in line for line in check(str(tmp_path / "slurm.conf"))
    )
    (tmp_path / "oci.conf").write_text(RUN)
    assert check(str(tmp_path / "slurm.conf")) == []


def test_a_repeated_key_is_said_once_to_have_no_effect(tmp_path: Path) -> None:
    (tmp_path / "oci.conf").write_text(RUN + "SrunArgs=-n1\nSrunArgs=--mem=5\n")
    _, warnings = load_oci_conf(str(tmp_path / "oci.conf"))
    assert [line.count("no effect") for line in warnings if "SrunArgs" in line] == [0, 1]
