"""Values out of bounds: Slurm 22.05 starts with some and refuses others, and so do we."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.conf.gres_conf import load_gres_conf
from pyslurm_ng.conf.lexer import ConfErrors
from pyslurm_ng.conf.slurm_conf import SlurmConf, parse_slurm_conf
from pyslurm_ng.conf.slurmdbd_conf import parse_slurmdbd_conf


def read(line: str) -> SlurmConf:
    """Read a small file; the line has a node or partition of its own, or a key."""
    base = "ClusterName=c\nSlurmctldHost=ctl\nNodeName=n1\nPartitionName=p Nodes=n1 Default=YES\n"
    return parse_slurm_conf(base + line + "\n")


@pytest.mark.parametrize(
    ("line", "attribute", "value", "said"),
    [
        ("SchedulerTimeSlice=2", "scheduler_time_slice", 30, "means 30"),
        ("SchedulerTimeSlice=0", "scheduler_time_slice", 30, "means 30"),
        ("KillWait=UNLIMITED", "kill_wait", 65533, "means the most that is allowed: 65533"),
        ("WaitTime=65535", "wait_time", 65533, "means the most that is allowed: 65533"),
        ("SchedulerTimeSlice=INFINITE", "scheduler_time_slice", 65533, "is allowed: 65533"),
        ("MaxArraySize=UNLIMITED", "max_array_size", 4_000_001, "is allowed: 4000001"),
        ("HealthCheckNodeState=IDLE,x", "health_check_node_state", ("IDLE",), "x is unknown"),
        ("HealthCheckNodeState=x", "health_check_node_state", ("ANY",), "as ANY: x is unknown"),
        ("CpuFreqGovernors=x,OnDemand", "cpu_freq_governors",
         ("OnDemand", "Performance", "UserSpace"), "count: a governor is unknown"),
        ("ReturnToService=3", "return_to_service", 0, "and means 0"),
        ("MaxArraySize=4000002", "max_array_size", 4_000_001, "the most that is allowed: 4000001"),
        ("SrunPortRange=60000-50000", "srun_port_range", (0, 0), "means any port"),
        ("SrunPortRange=60000-70000", "srun_port_range", (0, 0), "means any port"),
        ("SrunPortRange=60000", "srun_port_range", (0, 0), "means any port"),
        ("CpuFreqDef=fast", "cpu_freq_def", "", "neither a frequency in kHz nor a governor"),
        ("SchedulerParameters=bf_window=0,assoc_limit_stop", "scheduler_parameters",
         ("assoc_limit_stop",), "counts as assoc_limit_stop: bf_window=0 is out of range; allowed:"
         " 1 to 43200"),
        ("SchedulerParameters=bf_max_job_user=-1", "scheduler_parameters", (),
         "bf_max_job_user=-1 is out of range; allowed: 0 to 4294967293"),
        ("SchedulerParameters=max_script_size=-1", "scheduler_parameters", (),
         "max_script_size=-1 is out of range; allowed: 0 to 4294967293"),
        ("SchedulerParameters=max_array_tasks=x", "scheduler_parameters", (),
         "counts as none: max_array_tasks=x is not a number; allowed: 0 to 4294967293"),
        ("SchedulerParameters=bf_hetjob_prio=most", "scheduler_parameters", (),
         "bf_hetjob_prio=most is unknown; allowed: min, avg, max"),
        ("BcastParameters=Compression=zip", "bcast_parameters", (),
         "Compression=zip is unknown; allowed: lz4, none"),
        ("RequeueExit=300", "requeue_exit", (), "counts as none: no script ends with more"
         " than 255"),
        ("RequeueExitHold=7,254-300", "requeue_exit_hold", (7, 254, 255), "as 7,254-255: no script"
         " ends with more than 255"),
    ],
)  # fmt: skip
def test_a_key_of_the_cluster_means_what_slurm_takes_it_for(
    line: str, attribute: str, value: object, said: str
) -> None:
    conf = read(line)
    assert getattr(conf, attribute) == value
    (warning,) = conf.warnings
    assert warning.startswith(f"slurm.conf:5: {line} ")
    assert warning.endswith(said)


@pytest.mark.parametrize(
    ("line", "attribute", "value"),
    [
        ("CpuFreqDef=2400000", "cpu_freq_def", "2400000"),
        ("SchedulerParameters=bf_max_job_test=7", "scheduler_parameters", ("bf_max_job_test=7",)),
        ("SchedulerTimeSlice=5", "scheduler_time_slice", 5),
        ("ReturnToService=2", "return_to_service", 2),
        ("MaxArraySize=4000001", "max_array_size", 4_000_001),
        ("SrunPortRange=0-0", "srun_port_range", (0, 0)),
        ("SrunPortRange=60000-60009", "srun_port_range", (60000, 60009)),
        ("RequeueExit=1,3-5", "requeue_exit", (1, 3, 4, 5)),
        ("SuspendTime=-1", "suspend_time", INFINITE),
        ("DefMemPerCPU=UNLIMITED", "def_mem_per_cpu", 0),
        ("PrologEpilogTimeout=65534", "prolog_epilog_timeout", 65534),
        ("PropagateResourceLimits=RLIMIT_CORE,AS", "propagate_resource_limits", ("CORE", "AS")),
        ("TopologyPlugin=topology/none", "topology_plugin", "topology/flat"),
        ("PrivateData=all", "private_data", ("accounts", "events", "jobs", "nodes", "partitions",
         "reservations", "usage", "users")),
    ],
)  # fmt: skip
def test_a_key_within_bounds_is_not_named(line: str, attribute: str, value: object) -> None:
    conf = read(line)
    assert getattr(conf, attribute) == value
    assert conf.warnings == ()


@pytest.mark.parametrize(
    ("sizes", "cpus", "said"),
    [
        ("CPUs=0", 1, ["CPUs=0 means 1"]),
        ("Boards=0 CPUs=4", 4, ["Boards=0 means 1"]),
        ("CPUs=4 Sockets=0 CoresPerSocket=4", 4, ["Sockets=0 means 1"]),
        ("CPUs=2 Sockets=2 CoresPerSocket=0", 2, ["CoresPerSocket=0 means 1"]),
        ("CPUs=2 Sockets=2 ThreadsPerCore=0", 2, ["ThreadsPerCore=0 means 1"]),
    ],
)
def test_a_node_without_processors_has_one(sizes: str, cpus: int, said: list[str]) -> None:
    """Two lines that say the same are named once."""
    conf = read(f"NodeName=n2 {sizes}\nNodeName=n3 {sizes}")
    assert [node.cpus for node in conf.nodes[1:]] == [cpus, cpus]
    assert [line.partition(": ")[2] for line in conf.warnings] == said


@pytest.mark.parametrize(
    ("line", "attribute", "value", "said"),
    [
        ("Parameters=bogus", "parameters", (), "counts as none: bogus is unknown"),
        ("LogTimeFormat=bogus,clock", "log_time_format", ("clock",), "as clock: bogus is unknown"),
        ("PrivateData=jobs,nodes,cloud", "private_data", ("jobs",), "slurm.conf hides the rest"),
        ("PrivateData=jobs,users", "private_data", ("jobs", "users"), ""),
        ("DebugLevel=99", "debug_level", "debug5", ""),
        (
            "CommunicationParameters=NoInAddrAny,EnableIPv6",
            "communication_parameters",
            ("NoInAddrAny", "EnableIPv6"),
            "EnableIPv6 has no effect in pyslurm-ng: slurmdbd obeys NoInAddrAny alone",
        ),
    ],
)
def test_words_with_which_slurmdbd_starts(
    line: str, attribute: str, value: object, said: str
) -> None:
    """What 22.05 passes over without a word is named here."""
    conf = parse_slurmdbd_conf(f"StorageType=accounting_storage/mysql\n{line}\n")
    assert getattr(conf, attribute) == value
    assert len(conf.warnings) == bool(said)
    assert "".join(conf.warnings).endswith(said)


def test_a_misspelt_word_of_private_data_stops_slurmdbd() -> None:
    with pytest.raises(ConfErrors, match="'jbos' is unknown"):
        parse_slurmdbd_conf("StorageType=accounting_storage/mysql\nPrivateData=jbos\n")


def test_words_of_gres_conf_with_which_slurmd_starts(tmp_path: Path) -> None:
    """An unknown flag is passed over, and Link is Links."""
    path = tmp_path / "gres.conf"
    path.write_text("Name=gpu File=/dev/null Flags=bogus,explicit Link=-1\n")
    conf = load_gres_conf(str(path), ("gpu",))
    assert [(line.flags, line.links) for line in conf.lines] == [(("explicit",), (-1,))]
    (warning,) = conf.warnings
    assert warning.endswith("Flags=bogus,explicit counts as explicit: bogus is unknown")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("NodeName=n2 RealMemory=-1", "RealMemory: '-1' is not a number of megabytes"),
        ("NodeName=n2 RealMemory=1G", "RealMemory: '1G' is not a number of megabytes"),
        ("NodeName=n2 RealMemory=UNLIMITED", "RealMemory: 'UNLIMITED' is not a number of megab"),
        ("NodeName=n2 TmpDisk=1G", "TmpDisk: '1G' is not a number of megabytes"),
        ("PartitionName=q Nodes=n1 GraceTime=-1", "GraceTime: '-1' is not a number of seconds"),
        ("PartitionName=q Nodes=n1 GraceTime=1:30", "GraceTime: '1:30' is not a number of seconds"),
        ("PartitionName=q Nodes=n1 MaxNodes=-1", "MaxNodes: '-1' is not a number"),
        ("PartitionName=q Nodes=n1 MaxMemPerNode=2G", "MaxMemPerNode: '2G' is not a number of meg"),
        ("DefMemPerCPU=1G", "DefMemPerCPU: '1G' is not a number of megabytes"),
        ("MaxMemPerNode=-1", "MaxMemPerNode: '-1' is not a number of megabytes"),
        ("OverTimeLimit=-1", "OverTimeLimit: '-1' is not a number of minutes"),
        ("NodeName=n2 CPUs=-1", "CPUs: '-1' is not a number"),
        ("UnkillableStepTimeout=-1", "UnkillableStepTimeout: '-1' is not a number of seconds"),
        ("SlurmSchedLogLevel=1", "SlurmSchedLogLevel: requires SlurmSchedLogFile"),
        ("SchedulerTimeSlice=70000", "SchedulerTimeSlice: 70000 is out of range"),
        ("ReturnToService=70000", "ReturnToService: 70000 is out of range"),
        # 22.05 starts with these, but no command of it works, or no job is sent back.
        ("MessageTimeout=0", "MessageTimeout: 0 is out of range"),
        ("RequeueExit=x,5", "RequeueExit: 'x' is not a number"),
        ("RequeueExit=3-1", "RequeueExit: '3-1' is not an ascending range"),
    ],
)
def test_what_no_rule_mends_stops_the_daemon(line: str, problem: str) -> None:
    with pytest.raises(ConfErrors) as caught:
        read(line)
    assert f"slurm.conf:5: {problem}" in str(caught.value)


def test_minus_one_turns_the_loop_of_backfill_off_in_slurm() -> None:
    """Here there is no such loop, which is what the warning says."""
    conf = read("SchedulerParameters=bf_interval=-1")
    assert conf.scheduler_parameters == ("bf_interval=-1",)
    (warning,) = conf.warnings
    assert "SchedulerParameters=bf_interval has no effect" in warning


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("PriorityCalcPeriod=0", "PriorityCalcPeriod: allowed: at least one minute"),
        ("MCSPlugin=mcs/group", "MCSPlugin: mcs/group needs MCSParameters"),
        ("PreemptMode=WITHIN", "PreemptMode: needs PreemptType="),
        ("SelectTypeParameters=CR_Pack_Nodes", "SelectTypeParameters: one of CR_CPU, "),
        ("TaskPluginParam=Sockets,Cores", "TaskPluginParam: allowed: one of None, Sockets"),
        ("JobAcctGatherParams=UsePss,NoShared", "JobAcctGatherParams: UsePss and NoShared exclude"),
        ("SchedulerParameters=max_script_size=600000000", "max_script_size may be 512 MB at most"),
        ("BcastExclude=/lib,usr", "BcastExclude: 'usr' is not an absolute path"),
    ],
)
def test_what_stops_slurm_stops_here(lines: str, said: str) -> None:
    """Slurm 22.05 does not start with any of them."""
    with pytest.raises(ConfErrors, match=said.replace("(", ".")):
        read(lines)


def test_usage_that_never_fades_is_named_unless_it_is_reset() -> None:
    """Hard limits of months: what was used counts in full until then."""
    reset = "PriorityUsageResetPeriod=MONTHLY"
    assert read(f"PriorityDecayHalfLife=0\n{reset}").warnings == ()
    (warning,) = read("PriorityDecayHalfLife=0").warnings
    assert "usage only grows" in warning


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("CpuSpecList=99", "CpuSpecList: ignored: there are CPUs 0 to 15"),
        ("MemSpecLimit=8192", "MemSpecLimit: ignored: no memory of RealMemory=8192 would be left"),
    ],
)
def test_more_than_there_is_cannot_be_kept_for_the_system(words: str, said: str) -> None:
    """22.05 resets both, and logs an error."""
    conf = read(f"NodeName=n2 CPUs=16 RealMemory=8192 {words}")
    node = conf.nodes[1]
    assert (node.cpu_spec_list, node.mem_spec_limit_mib) == ((), 0)
    assert [line.partition(": ")[2] for line in conf.warnings] == [said]


def test_a_binding_may_be_plural() -> None:
    """As scontrol shows it, and Slurm takes it."""
    assert read("NodeName=n2 CPUs=16 CpuBind=cores").nodes[1].cpu_bind == "core"
