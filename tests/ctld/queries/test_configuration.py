"""``scontrol show config`` against a recording of Slurm 26.11 with the same slurm.conf."""

from __future__ import annotations

from pathlib import Path

from pyslurm_ng.conf.acct_gather_conf import parse_acct_gather_conf
from pyslurm_ng.conf.cgroup_conf import parse_cgroup_conf
from pyslurm_ng.conf.slurm_conf import SlurmConf, load_slurm_conf, parse_slurm_conf
from pyslurm_ng.conf.tables.keys import PARAMETERS
from pyslurm_ng.ctld.queries.configuration import cgroup_lines, config_lines, gather_lines

GOLDEN = Path(__file__).parents[2] / "conf" / "golden"
HEAD = "ClusterName=c\nSlurmctldHost=ctl\nNodeName=n1\n"


def shown(conf: SlurmConf) -> list[str]:
    return config_lines(
        conf,
        version="26.11.0-0rc1",
        boot_time="2026-11-20T12:07:58",
        next_job_id=1,
        user_id={"root": 0, "slurm": 999}.__getitem__,
    )


def values(text: str) -> dict[str, str]:
    lines = shown(parse_slurm_conf(HEAD + text))
    return {line.partition("=")[0].strip(): line.partition("=")[2].strip() for line in lines}


def test_every_line_is_slurms() -> None:
    """All but two: where plugins lie, of which we have none, and where the file was."""
    conf = load_slurm_conf(str(GOLDEN / "slurm.conf"))
    theirs = (GOLDEN / "show_config.txt").read_text().splitlines()
    ours = shown(conf)
    different = [
        theirs_line for theirs_line, right in zip(theirs, ours, strict=True) if theirs_line != right
    ]
    assert [line.split()[0] for line in different] == ["PluginDir", "SLURM_CONF"]


def test_every_key_is_shown() -> None:
    """Under its own name, or folded into another's as Slurm does."""
    names = {line.partition("=")[0].strip().lower() for line in shown(parse_slurm_conf(HEAD))}
    hidden = {key.name for key in PARAMETERS if key.name.lower() not in names}
    assert hidden == {
        "AccountingStoragePass", "AccountingStorageUser", "DefCpuPerGPU", "DefMemPerCPU",
        "DefMemPerGPU", "Epilog", "EpilogSlurmctld", "EpilogTimeout", "JobCompPassScript",
        "MaxMemPerCPU", "Prolog", "PrologSlurmctld", "PrologTimeout", "SlurmctldHost",
    }  # fmt: skip


def test_units_and_words_follow_the_kind() -> None:
    value_of = values(
        "DefMemPerCPU=100\nMaxMemPerNode=5000\nSuspendTime=60\nOverTimeLimit=UNLIMITED\n"
        "AccountingStorageEnforce=safe\nPrivateData=users,jobs\nLicenses=a:2,b\n"
        "RequeueExit=1-3,9\nSlurmctldPort=7000-7003\nPreemptMode=SUSPEND,GANG\n"
        "PreemptType=preempt/qos\nSlurmctldHost=two(10.0.0.2)\nDefCpuPerGPU=4\n"
        "PropagateResourceLimitsExcept=MEMLOCK\n"
    )
    assert value_of["DefMemPerCPU"] == "100"
    assert "DefMemPerNode" not in value_of
    assert value_of["MaxMemPerNode"] == "5000"
    assert value_of["SuspendTime"] == "60 sec"
    assert value_of["OverTimeLimit"] == "UNLIMITED"
    assert value_of["AccountingStorageEnforce"] == "associations,limits,safe"
    assert value_of["PrivateData"] == "jobs,users"
    assert value_of["Licenses"] == "a:2,b:1"
    assert value_of["RequeueExit"] == "1-3,9"
    assert value_of["SlurmctldPort"] == "7000-7003"
    assert value_of["PreemptMode"] == "GANG,SUSPEND"
    assert value_of["SlurmctldHost[1]"] == "two(10.0.0.2)"
    assert value_of["JobDefaults"] == "DefCpuPerGPU=4"
    assert value_of["PropagateResourceLimits"] == "(null)"
    assert value_of["PropagateResourceLimitsExcept"] == "MEMLOCK"


def test_cgroup_keys_follow_in_their_own_section() -> None:
    conf = parse_slurm_conf(HEAD)
    lines = config_lines(
        conf,
        version="x",
        boot_time="x",
        next_job_id=1,
        user_id=lambda name: 0,
        cgroup=parse_cgroup_conf("ConstrainCores=yes\n"),
    )
    start = lines.index("Cgroup Support Configuration:")
    assert "AllowedRAMSpace         = 100.0%" in lines[start:]
    assert "ConstrainCores          = yes" in lines[start:]
    assert cgroup_lines(parse_cgroup_conf("")) == sorted(cgroup_lines(parse_cgroup_conf("")))


def test_no_section_of_cgroups_where_no_plugin_uses_them() -> None:
    conf = parse_slurm_conf(HEAD + "ProctrackType=proctrack/linuxproc\n")
    cgroup = parse_cgroup_conf("ConstrainCores=yes\n")
    lines = config_lines(
        conf, version="x", boot_time="x", next_job_id=1, user_id=lambda name: 0, cgroup=cgroup
    )
    assert "Cgroup Support Configuration:" not in lines


def test_the_keys_of_a_plugin_in_acct_gather_conf_are_shown() -> None:
    """Those of plugins that are not used are not, and no password is."""
    gather = parse_acct_gather_conf(
        "SysfsInterfaces=eth0,ib0\nProfileInfluxDBHost=db\nProfileInfluxDBDatabase=jobs\n"
        "ProfileInfluxDBPass=secret\n"
    )
    conf = parse_slurm_conf(HEAD + "AcctGatherInterconnectType=acct_gather_interconnect/sysfs\n")
    assert gather_lines(conf, gather) == ["SysfsInterfaces         = eth0,ib0"]
    conf = parse_slurm_conf(HEAD + "AcctGatherProfileType=acct_gather_profile/influxdb\n")
    lines = gather_lines(conf, gather)
    assert "ProfileInfluxDBHost     = db" in lines
    assert "ProfileInfluxDBPass     = (hidden)" in lines
    assert "ProfileInfluxDBFrequency = 30" in lines
    assert not any(line.startswith("Sysfs") for line in lines)
    assert gather_lines(parse_slurm_conf(HEAD), gather) == []


def test_programs_are_numbered_where_they_are_set() -> None:
    value_of = values(
        "Prolog=/opt/a\nProlog=/opt/b\nEpilog=/opt/c\nPrologSlurmctld=/opt/d\nPrologTimeout=7\n"
    )
    shown_programs = {name: value for name, value in value_of.items() if value.startswith("/opt/")}
    assert shown_programs == {
        "Epilog[0]": "/opt/c",
        "Prolog[0]": "/opt/a",
        "Prolog[1]": "/opt/b",
        "PrologSlurmctld[0]": "/opt/d",
    }
    assert value_of["PrologTimeout"] == "7"


def test_an_unknown_word_does_not_end_the_list() -> None:
    """slurmctld starts with it and warns, as Slurm does; so `show config` must go on, too."""
    assert values("AccountingStoreFlags=foo,job_script")["AccountingStoreFlags"] == "job_script"
    assert values("AccountingStoreFlags=foo")["AccountingStoreFlags"] == "(null)"


def test_implied_words_are_shown() -> None:
    """As Slurm does: what is in force, not what is written."""
    shown_values = values(
        "PrologFlags=X11\nPriorityFlags=foo,DEPTH_OBLIVIOUS\nHealthCheckNodeState=CYCLE\n"
        "AccountingStorageEnforce=wckeys\nPreemptExemptTime=UNLIMITED\n"
    )
    assert shown_values["PrologFlags"] == "Alloc,Contain,X11"
    assert shown_values["PriorityFlags"] == "DEPTH_OBLIVIOUS,NO_FAIR_TREE"
    assert shown_values["HealthCheckNodeState"] == "CYCLE,ANY"
    assert shown_values["TrackWCKey"] == "yes"
    assert shown_values["PreemptExemptTime"] == "00:00:00"
    assert values("HealthCheckNodeState=CYCLE,IDLE")["HealthCheckNodeState"] == "CYCLE,IDLE"
