"""acct_gather.conf: its keys, what is refused, and what slurm.conf needs of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyslurm_ng.conf.acct_gather_conf import parse_acct_gather_conf
from pyslurm_ng.conf.check import check, check_warnings
from pyslurm_ng.conf.lexer import ConfErrors

WHOLE = """\
EnergyIPMIFrequency=10
EnergyIPMIPowerSensors=Node=16,19;Socket0=16
ProfileHDF5Dir=/shared/profiles
ProfileHDF5Default=Energy,filesystem
ProfileInfluxDBHost=db.example:8086
ProfileInfluxDBDatabase=slurm
ProfileInfluxDBDefault=All
ProfileInfluxDBExtraTags=cluster,uid,user
ProfileInfluxDBFlags=grouped_fields
ProfileInfluxDBFrequency=20
ProfileInfluxDBRTPolicy=autogen
ProfileInfluxDBTimeout=3
ProfileInfluxDBUser=slurm
ProfileInfluxDBPass=secret
SysfsInterfaces=ib0,ib1
"""
BASE = "ClusterName=c\nSlurmctldHost=localhost\nNodeName=n1 CPUs=1\nPartitionName=p Nodes=n1\n"


def test_a_whole_file() -> None:
    conf = parse_acct_gather_conf(WHOLE)
    assert conf.sensors == (("Node", (16, 19)), ("Socket0", (16,)))
    assert conf.energy_ipmi_frequency == 10
    assert conf.profile_hdf5_dir == "/shared/profiles"
    assert conf.profile_hdf5_default == ("Energy", "Filesystem")
    assert conf.profile_influxdb_host == "db.example:8086"
    assert conf.profile_influxdb_flags == ("grouped_fields",)
    assert (conf.profile_influxdb_frequency, conf.profile_influxdb_timeout) == (20, 3)
    assert conf.sysfs_interfaces == ("ib0", "ib1")
    assert conf.warnings == ()
    empty = parse_acct_gather_conf("")
    assert (empty.infiniband_ofed_port, empty.energy_ipmi_timeout, empty.sensors) == (1, 10, ())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("EnergyIPMIPowerSensors=16", "'16' is not name=number,number or name=DCMI"),
        ("EnergyIPMIPowerSensors=Socket0=3", "Node= is missing"),
        ("EnergyIPMIPowerSensors=Node=1;Socket0=DCMI", "tells the power of Node only"),
        ("EnergyIPMIPowerSensors=Node=70000", "numbers up to 65535 are allowed"),
        ("EnergyIPMIFrequency=0", "EnergyIPMIFrequency"),
        ("ProfileHDF5Dir=profiles", "'profiles' is not an absolute path"),
        ("ProfileHDF5Default=All,Task", "All and None stand alone"),
        ("ProfileHDF5Default=Tasks", "allowed: All, None, Energy, Filesystem, Network, Task"),
        ("ProfileInfluxDBHost=a b", "expected Key=Value"),
        ("ProfileInfluxDBHost=ftp://x", "is no host, host:port or http address"),
        ("InfinibandOFEDPort=0", "InfinibandOFEDPort"),
        ("ProfileHDF5Dri=/x", "unknown key in acct_gather.conf; did you mean ProfileHDF5Dir"),
    ],
)
def test_what_is_wrong_is_named(text: str, problem: str) -> None:
    with pytest.raises(ConfErrors) as raised:
        parse_acct_gather_conf(text)
    assert problem in str(raised.value)


def test_what_has_no_effect_is_named() -> None:
    conf = parse_acct_gather_conf(
        "EnergyIPMIUsername=u\nEnergyIPMICalcAdjustment=yes\nProfileInfluxDBExtraTags=sluid,user\n"
    )
    assert [line.partition(" has")[0] for line in conf.warnings] == [
        "acct_gather.conf:1: EnergyIPMIUsername",
        "acct_gather.conf:2: EnergyIPMICalcAdjustment",
        "acct_gather.conf:3: ProfileInfluxDBExtraTags=sluid",
    ]


@pytest.mark.parametrize(
    ("line", "text", "missing"),
    [
        ("AcctGatherProfileType=acct_gather_profile/hdf5", "", "ProfileHDF5Dir"),
        ("AcctGatherProfileType=acct_gather_profile/influxdb", "ProfileInfluxDBHost=x",
         "ProfileInfluxDBDatabase"),
        ("AcctGatherInterconnectType=acct_gather_interconnect/sysfs", "", "SysfsInterfaces"),
    ],
)  # fmt: skip
def test_what_slurm_conf_needs_must_be_there(
    tmp_path: Path, line: str, text: str, missing: str
) -> None:
    """Else daemons would start, and nothing would be measured."""
    (tmp_path / "slurm.conf").write_text(f"{BASE}{line}\n")
    if text:
        (tmp_path / "acct_gather.conf").write_text(f"{text}\n")
    plugin = line.partition("=")[2]
    problem = f"{tmp_path}/acct_gather.conf: {plugin} needs {missing}"
    assert check(str(tmp_path / "slurm.conf")) == [problem]


def test_the_file_is_checked_beside_slurm_conf_and_alone(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text(BASE)
    own = tmp_path / "acct_gather.conf"
    own.write_text("SysfsInterface=ib0\n")
    for name in ("slurm.conf", "acct_gather.conf"):
        assert "did you mean SysfsInterfaces" in check(str(tmp_path / name))[0]
    own.write_text("ProfileInfluxDBPass=secret\n")
    own.chmod(0o644)
    for name in ("slurm.conf", "acct_gather.conf"):
        assert check(str(tmp_path / name)) == []
        assert any("others can read it" in line for line in check_warnings(str(tmp_path / name)))
    own.chmod(0o600)
    assert check_warnings(str(own)) == []
