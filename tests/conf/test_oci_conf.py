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
        (RUN + "RunTimeCreate=x", "RunTimeRun and RunTimeCreate exclude each other"),
        ("RunTimeCreate=x", "RunTimeCreate needs RunTimeStart and RunTimeDelete"),
        ("RunTimeRun=%q", "1: RunTimeRun: %q means nothing; %% %@ %b"),
        ("RunTimeRun=x%", "% means nothing"),
        (RUN + "EnvExclude=(", "2: EnvExclude: is no regular expression"),
        (RUN + "CreateEnvFile=tab", "2: CreateEnvFile: "),
        (RUN + "RunTimeRn=x", "unknown key in oci.conf; did you mean RunTimeRun"),
    ],
)
def test_what_is_wrong_is_named(text: str, problem: str) -> None:
    with pytest.raises(ConfErrors) as raised:
        parse_oci_conf(text)
    assert problem in str(raised.value)


def test_daemons_check_it(tmp_path: Path) -> None:
    lines = "ClusterName=c\nSlurmctldHost=localhost\nNodeName=n1 CPUs=1\nPartitionName=p Nodes=n1\n"
    (tmp_path / "slurm.conf").write_text(lines)
    (tmp_path / "oci.conf").write_text("RunTimeRun=%q\n")
    assert any(
        "RunTimeRun: %q means nothing" in line for line in check(str(tmp_path / "slurm.conf"))
    )
    (tmp_path / "oci.conf").write_text(RUN)
    assert check(str(tmp_path / "slurm.conf")) == []
