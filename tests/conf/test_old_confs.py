"""What files of ten years hold starts with warnings that are true.

Each line was seen in a slurm.conf of a public repository: of 98 read on 2026-11-23, of 35 on
2026-11-28, and of 25 on 2026-11-24 with the gres.conf, cgroup.conf, topology.conf and slurmdbd.conf
beside them. What Slurm 22.05 refuses in them is refused here, too, unless an older Slurm took it.
"""

from __future__ import annotations

import pytest

from pyslurm_ng.conf.lexer import ConfErrors
from pyslurm_ng.conf.slurm_conf import SlurmConf, parse_slurm_conf

BASE = "ClusterName=c\nSlurmctldHost=ctl\n"
NODE = "NodeName=n[1-2]\n"
PARTITION = "PartitionName=p Nodes=ALL Default=YES\n"


def read(lines: str, node: str = NODE) -> SlurmConf:
    """Read a small file with more lines in it."""
    return parse_slurm_conf(f"{BASE}{node}{PARTITION}{lines}\n")


@pytest.mark.parametrize(
    ("line", "attribute", "value", "said"),
    [
        ("TaskPluginParam=Sched", "task_plugin_param", (), "is ignored"),
        ("TaskPluginParam=Cores,Sched", "task_plugin_param", ("Cores",), "is ignored"),
        ("PrivateData=jobs,cloud", "private_data", ("jobs",), "is ignored"),
        ("JobCompType=jobcomp/slurmdbd", "job_comp_type", "", "means JobCompType=none"),
        ("DebugFlags=JobContainer", "debug_flags", ("Namespace",), "means DebugFlags=Namespace"),
        ("DebugFlags=Steps,ExtSensors", "debug_flags", ("Steps",), "is ignored"),
        ("CommunicationParameters=NoAddrCache", "communication_parameters", (), "is ignored"),
        ("DebugFlags=FrontEnd", "debug_flags", (), "is ignored"),
        ("JobAcctGatherParams=NoOverMemoryKill", "job_acct_gather_params", (), "is ignored"),
        ("DebugFlags=TimeCray", "debug_flags", (), "is ignored"),
        ("DebugFlags=WorkQueue", "debug_flags", (), "is ignored"),
        ("PriorityFlags=FAIR_TREE,MAX_TRES", "priority_flags", ("MAX_TRES",), "is ignored"),
        ("SelectTypeParameters=OTHER_CONS_TRES", "select_type_parameters", (), "is ignored"),
        (
            "AccountingStorageEnforce=2",
            "accounting_storage_enforce",
            ("associations", "limits"),
            "means AccountingStorageEnforce=associations,limits",
        ),
    ],
)
def test_words_of_older_slurms(line: str, attribute: str, value: object, said: str) -> None:
    """They are named with their replacement, and the other words count."""
    conf = read(line)
    assert tuple(map(str.lower, getattr(conf, attribute))) == tuple(
        map(str.lower, value)  # type: ignore[call-overload]
    )
    (warning,) = [text for text in conf.warnings if "no longer exists" in text]
    assert warning.endswith(said)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("AcctGatherInfinibandType=acct_gather_infiniband/none", "use AcctGatherInterconnectType"),
        ("SallocDefaultCommand=xterm", "use LaunchParameters=use_interactive_step"),
        ("SchedulerAuth=auth/munge", "no longer exists and is ignored"),
        ("FastSchedule=1", "no longer exists and is ignored"),
        ("FastSchedule=2", "use SlurmdParameters=config_overrides"),
    ],
)
def test_keys_of_older_slurms(line: str, said: str) -> None:
    """Each is named with its successor, and the file counts."""
    (warning,) = [text for text in read(line).warnings if "no longer exists" in text]
    assert warning.endswith(said)


@pytest.mark.parametrize(
    ("line", "attribute", "value", "said"),
    [
        ("TopologyPlugin=topology/3d_torus", "topology_plugin", "topology/flat", "topology/flat"),
        ("SwitchType=switch/cray", "switch_type", "", "is ignored"),
        ("TaskPlugin=task/affinity,task/cray", "task_plugin", ("task/affinity",), "is ignored"),
        ("NodeFeaturesPlugins=node_features/knl_generic", "node_features_plugins", (), "ignored"),
        ("JobSubmitPlugins=cray_aries", "job_submit_plugins", (), "is ignored"),
        ("X11Parameters=local_xauthority", "x11_parameters", (), "is ignored"),
        ("SchedulerParameters=whole_pack", "scheduler_parameters", ("whole_hetjob",), "hetjob"),
        ("SchedulerParameters=no_env_cache", "scheduler_parameters", (), "is ignored"),
        ("SlurmctldParameters=cloud_reg_addrs", "slurmctld_parameters", (), "is ignored"),
        ("LaunchParameters=send_gids", "launch_parameters", (), "is ignored"),
        ("MpiDefault=openmpi", "mpi_default", "", "means MpiDefault=none"),
        ("PriorityType=priority/multifactor2", "priority_type", "priority/multifactor", "tor"),
    ],
)
def test_plugins_of_older_slurms(line: str, attribute: str, value: object, said: str) -> None:
    """Those without which no job loses what it asks for are named, and the file counts."""
    conf = read(line)
    assert getattr(conf, attribute) == value
    (warning,) = [text for text in conf.warnings if "no longer exists" in text]
    assert warning.endswith(said)


def test_plugins_without_which_a_site_loses_something_stop_it() -> None:
    """As in Slurm, which finds no such plugin."""
    with pytest.raises(ConfErrors, match="filetxt' no longer exists, and only slurmdbd writes"):
        read("AccountingStorageType=accounting_storage/filetxt")
    with pytest.raises(ConfErrors, match="auth/none' no longer exists"):
        read("AuthType=auth/none")


@pytest.mark.parametrize(
    ("word", "successor"),
    [
        ("kill_invalid_depend", "DependencyParameters=kill_invalid_depend"),
        ("preempt_reorder_count=3", "PreemptParameters=reorder_count"),
        ("preempt_strict_order", "PreemptParameters=strict_order"),
        ("preempt_youngest_first", "PreemptParameters=youngest_first"),
        ("preempt_send_user_signal", "PreemptParameters=send_user_signal"),
    ],
)
def test_words_that_belong_to_another_key_today(word: str, successor: str) -> None:
    """They do nothing where they are, as in Slurm; the line says where they belong."""
    (warning,) = read(f"SchedulerParameters={word}").warnings
    assert warning.endswith(f": '{word}' is unknown and ignored; use {successor}")


def test_words_that_slurm_passes_over_do_not_stop_a_daemon() -> None:
    """22.05 starts with each of these."""
    for key in ("PriorityFlags", "AccountingStoreFlags", "ReconfigFlags"):
        (warning,) = read(f"{key}=bogus").warnings
        assert warning.endswith(f"{key}: 'bogus' is unknown and ignored")


def test_front_ends_are_refused_by_name() -> None:
    """As Slurm 22.05 does: their nodes would be hosts that do not exist."""
    with pytest.raises(ConfErrors, match="FrontendName: front ends no longer exist"):
        read("FrontendName=f1")


def test_job_submit_plugins_may_have_their_type_before_them() -> None:
    """As plugins of any other kind have."""
    conf = read("JobSubmitPlugins=job_submit/require_timelimit")
    assert conf.job_submit_plugins == ("require_timelimit",)


def test_nodes_that_never_sleep() -> None:
    """Old files say NONE; 22.05 takes it, too."""
    assert read("SuspendTime=NONE").suspend_time == read("SuspendTime=INFINITE").suspend_time


@pytest.mark.parametrize("kind", ["Accounts", "Qos"])
def test_who_is_denied_where_others_are_allowed(kind: str) -> None:
    """The manual: the list of the denied is ignored. A line says so, as in Slurm."""
    conf = read(f"PartitionName=q Nodes=ALL Allow{kind}=a Deny{kind}=a")
    assert getattr(conf.partitions[-1], f"deny_{kind.lower()}") == ()
    (warning,) = [line for line in conf.warnings if f"Deny{kind}" in line]
    assert warning.endswith(f"Deny{kind}: ignored, since Allow{kind} is given, too")
    alone = read(f"PartitionName=q Nodes=ALL Deny{kind}=b").warnings
    assert not [line for line in alone if f"Deny{kind}" in line]


def test_nodes_that_begin_idle() -> None:
    """IDLE means what UNKNOWN means. One line says so, however many nodes there are."""
    conf = read("", "NodeName=n1 State=IDLE\nNodeName=n[2-3] State=idle\n")
    assert [node.state for node in conf.nodes] == ["UNKNOWN"] * 3
    assert len([text for text in conf.warnings if "State=" in text]) == 1


def test_a_node_may_be_called_localhost() -> None:
    """As the only node of many a workstation is."""
    conf = read("", "NodeName=localhost CPUs=2\n")
    assert [node.name for node in conf.nodes] == ["localhost"]


def test_the_last_default_partition_counts() -> None:
    """Slurm changes the default with each such line."""
    conf = read("PartitionName=q Nodes=n1 Default=YES")
    assert [(part.partition_name, part.default) for part in conf.partitions] == [
        ("p", False),
        ("q", True),
    ]
    assert [text.partition("Default: ")[2] for text in conf.warnings if "Default:" in text] == [
        "also of partition p in line 4; this one counts"
    ]


def test_names_of_clusters_may_have_dots() -> None:
    """Sites name them like their domain, or with a version."""
    conf = parse_slurm_conf(f"ClusterName=Cloud-2.5.example\nSlurmctldHost=ctl\n{NODE}{PARTITION}")
    assert conf.cluster_name == "cloud-2.5.example"
    with pytest.raises(ConfErrors, match="letters, digits, dots, dashes and underscores"):
        parse_slurm_conf(f"ClusterName=a/b\nSlurmctldHost=ctl\n{NODE}{PARTITION}")


def test_the_last_of_one_key_in_a_line_counts() -> None:
    """`Shared=NO` of one hand and `OverSubscribe=FORCE` of another; Slurm says so, too."""
    conf = read(
        "PartitionName=q Nodes=n1 Shared=NO OverSubscribe=FORCE:2",
        "NodeName=n1 Weight=5 Weight=7\n",
    )
    assert conf.nodes[0].weight == 7
    forced = read("PartitionName=q OverSubscribe=FORCE:2").partitions[1]
    assert conf.partitions[1].over_subscribe == forced.over_subscribe
    said = [text.split(": ", 1)[1] for text in conf.warnings if "twice" in text]
    assert said == [
        "Weight: given twice in this line; the last one counts",
        "OverSubscribe: given twice in this line; the last one counts",
    ]


@pytest.mark.parametrize("line", ["NodeName=n1 {}", "NodeName=DEFAULT {}\nNodeName=n1"])
def test_gres_that_no_type_names_are_left_out(line: str) -> None:
    """Slurm shows `Gres=(null)` for such a node."""
    conf = read("GresTypes=gpu", line.format("Gres=gpu:2,mic:1") + "\n")
    assert [gres.name for gres in conf.nodes[0].gres] == ["gpu"]
    (said,) = [text for text in conf.warnings if "Gres:" in text]
    assert said.endswith("'mic' is not in GresTypes=gpu and is left out")


def test_resources_that_no_type_names_are_counted() -> None:
    """AccountingStorageTRES=gres/gpu stands in configurations of sites that have no GPUs yet."""
    conf = read("AccountingStorageTRES=gres/gpu")
    assert "gres/gpu" in conf.accounting_storage_tres
    (said,) = [text for text in conf.warnings if "AccountingStorageTRES" in text]
    assert said.endswith("'gpu' is not in GresTypes=, so that no job gets any")


def test_licenses_of_servers_are_not_given_here() -> None:
    """They come from slurmdbd; Slurm would count such a name as one of its own."""
    conf = read("Licenses=matlab:4,ansys@server:2")
    assert conf.licenses == (("matlab", 4),)
    (said,) = [text for text in conf.warnings if "Licenses" in text]
    assert said.endswith("ansys@server is left out: licences of servers are added with sacctmgr")


def test_control_machine_counts_with_a_warning() -> None:
    """Only where SlurmctldHost is not set."""
    old = "ControlMachine=old\nControlAddr=10.0.0.9"
    conf = parse_slurm_conf(f"ClusterName=c\n{NODE}{PARTITION}{old}\n")
    assert conf.slurmctld_host[0].name == "old"
    said = [text for text in conf.warnings if "Control" in text]
    assert len(said) == 2 and all("counts without SlurmctldHost" in text for text in said)


@pytest.mark.parametrize(
    ("shape", "cpus"),
    [
        ("CPUs=2 Sockets=1 CoresPerSocket=1 ThreadsPerCore=1", 1),
        ("CPUs=7 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2", 16),
        ("CPUs=40 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2", 16),
        ("CPUs=3 Boards=1 SocketsPerBoard=2 CoresPerSocket=4", 8),
    ],
)
def test_cpus_that_no_hardware_has_count_for_nothing(shape: str, cpus: int) -> None:
    """22.05 starts with an error in its log and counts threads; the numbers are its own."""
    conf = read("", node=f"NodeName=n1 {shape}\n")
    assert conf.nodes[0].cpus == cpus
    (warning,) = [line for line in conf.warnings if "CPUs=" in line]
    assert warning.endswith(f"and means CPUs={cpus}")


@pytest.mark.parametrize("kind", ["Def", "Max"])
def test_memory_for_each_node_counts_before_that_for_each_cpu(kind: str) -> None:
    """As in Slurm 22.05, which warns; also in the line of a partition."""
    both = f"{kind}MemPerCPU=5 {kind}MemPerNode=10"
    conf = read(f"{both.replace(' ', chr(10))}\nPartitionName=q Nodes=n1 {both}")
    warnings = [text for text in conf.warnings if f"{kind}MemPerCPU" in text]
    assert len(warnings) == 2
    assert all(text.endswith(f"ignored, since {kind}MemPerNode is given, too") for text in warnings)
    amounts = [
        (
            getattr(lines, f"{kind.lower()}_mem_per_cpu"),
            getattr(lines, f"{kind.lower()}_mem_per_node"),
        )
        for lines in (conf, *conf.partitions)
    ]
    assert amounts == [(0, 10)] * 3


def test_memory_for_each_gpu_stands_beside_other_defaults() -> None:
    """It is for jobs with GPUs."""
    conf = read("DefMemPerGPU=7\nDefMemPerNode=10")
    assert (conf.def_mem_per_gpu, conf.def_mem_per_node) == (7, 10)
