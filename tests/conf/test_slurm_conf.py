"""slurm.conf: every key typed and defaulted, every mistake reported with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.base.numbers import INFINITE, NO_VAL
from pyslurm_ng.conf.schema import default_value
from pyslurm_ng.conf.slurm_conf import (
    ConfErrors,
    SlurmConf,
    load_slurm_conf,
    parse_slurm_conf,
)
from pyslurm_ng.conf.tables import keys as tables
from pyslurm_ng.conf.tables.key import ControllerHost, Key
from pyslurm_ng.conf.tables.options import OPTIONS
from pyslurm_ng.conf.values import has_option, option_int, option_text

HEAD = "ClusterName=c\nSlurmctldHost=ctl\n"
NODES = "NodeName=n[1-4] CPUs=4\n"


def read(text: str) -> SlurmConf:
    return parse_slurm_conf(HEAD + text)


def problems(text: str) -> list[str]:
    """Return the errors of a configuration, lines counted from 1 at `text`."""
    with pytest.raises(ConfErrors) as caught:
        parse_slurm_conf(HEAD + text)
    return [f"{e.line - 2 if e.line else 0}: {e.key}: {e.text}" for e in caught.value.errors]


ALL_KEYS = [
    pytest.param(key, id=f"{table}-{key.name}")
    for table in ("PARAMETERS", "NODE", "PARTITION", "NODESET", "DOWNNODES", "POWERACTION",
                  "CGROUP", "SLURMDBD", "GRES", "TOPOLOGY")
    for key in getattr(tables, table)
]  # fmt: skip


@pytest.mark.parametrize("key", ALL_KEYS)
def test_every_key_has_a_default_of_its_kind(key: Key) -> None:
    """A default that its own kind refuses would stop every daemon at start."""
    assert default_value(key) is not None


def test_every_parameter_is_an_attribute() -> None:
    conf = read(NODES)
    for key in tables.PARAMETERS:
        assert hasattr(conf, key.attribute), key.name
    assert len(tables.PARAMETERS) >= 225


def test_defaults_are_slurms() -> None:
    conf = read(NODES)
    assert conf.slurmctld_port == (6817, 6817)
    assert conf.slurmd_port == 6818
    assert conf.kill_wait == 30
    assert conf.max_array_size == 1001
    assert conf.priority_max_age == 7 * 86400
    assert conf.priority_calc_period == 300
    assert conf.select_type_parameters == ("CR_Core_Memory",)
    assert conf.suspend_time == INFINITE
    assert conf.max_dbd_msgs == 20016
    assert conf.max_node_count == 4
    assert conf.unkillable_step_timeout == 60
    assert conf.preempt_mode == ("OFF",)
    assert conf.job_requeue is True


def test_keys_are_found_in_any_case() -> None:
    conf = read("slurmctldport=7000\nKILLWAIT=5\nselecttype=CONS_TRES\n" + NODES)
    assert conf.slurmctld_port == (7000, 7000)
    assert conf.kill_wait == 5
    assert conf.select_type == "select/cons_tres"
    assert {"SlurmctldPort", "KillWait", "SelectType"} <= conf.given


def test_controllers_come_in_order_from_several_lines() -> None:
    conf = read("SlurmctldHost=two(10.0.0.2)\n" + NODES)
    assert conf.slurmctld_host == (ControllerHost("ctl", ""), ControllerHost("two", "10.0.0.2"))
    assert str(conf.slurmctld_host[1]) == "two(10.0.0.2)"


def test_list_parameters_are_looked_up_by_word() -> None:
    conf = read("SchedulerParameters=BF_Interval=20,bf_continue,my_own=3\n" + NODES)
    words = conf.scheduler_parameters
    assert option_int(words, "bf_interval", 30) == 20
    assert option_int(words, "bf_window", 1440) == 1440
    assert has_option(words, "bf_continue")
    assert option_text(words, "my_own") == "3"
    assert any("'my_own=3' is unknown and ignored" in line for line in conf.warnings)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("node_los=lease", "'node_los=lease' is unknown and ignored; did you mean node_loss"),
        ("node_lease=600", "node_lease has no effect without node_loss=lease"),
        ("node_loss=confirmed,node_lease=600", "node_lease has no effect without node_loss=lease"),
        (
            "node_loss=lease,node_lease=60",
            "node_lease=60 is taken for 300, SlurmdTimeout: a lease is no shorter",
        ),
        (
            "fence_program=/sbin/fence",
            "fence_program has no effect without node_loss=confirmed or node_loss=lease",
        ),
        ("node_loss=lease,fence_timeout=5", "fence_timeout has no effect without fence_program"),
        ("rl_bucket_size=5", "rl_bucket_size has no effect without rl_enable"),
        ("node_loss=Lease,node_lease=300,fence_program=/sbin/fence,fence_timeout=5", ""),
        ("rl_enable,rl_bucket_size=5", ""),
    ],
)
def test_words_without_effect_as_written_are_named(words: str, said: str) -> None:
    """A typing mistake must not switch off what keeps two runs apart."""
    conf = read(f"SlurmctldParameters={words}\n" + NODES)
    assert [line.partition("SlurmctldParameters: ")[2] for line in conf.warnings] == (
        [said] if said else []
    )


def test_nodes_expand_with_their_hosts_addresses_and_ports() -> None:
    conf = read(
        "GresTypes=gpu\nNodeName=DEFAULT Sockets=2 CoresPerSocket=8 State=FUTURE\n"
        "NodeName=n[1-2] NodeHostName=h NodeAddr=10.0.0.[1-2] Port=[7001-7002] RealMemory=1024 "
        "Gres=gpu:a100:4 Feature=a,b Weight=3\nNodeName=m1 State=UNKNOWN Procs=16\n"
    )
    first, second, other = conf.nodes
    assert (first.name, first.hostname, first.address, first.port) == ("n1", "h", "10.0.0.1", 7001)
    assert (second.name, second.address, second.port) == ("n2", "10.0.0.2", 7002)
    assert (first.cpus, first.sockets, first.cores_per_socket, first.threads_per_core) == (
        16,
        2,
        8,
        1,
    )
    assert first.real_memory_mib == 1024
    assert first.features == ("a", "b")
    assert str(first.gres[0]) == "gpu:a100:4"
    assert first.state == "FUTURE"
    assert (other.hostname, other.port, other.state) == ("m1", 6818, "UNKNOWN")


@pytest.mark.parametrize(
    "written", ["6821-6823", "[6821-6823]", "6821,6822,6823", "6821,6822-6823", "[6821-6822,6823]"]
)
def test_ports_of_a_node_line_need_no_brackets(written: str) -> None:
    """Many a slurm.conf of several slurmd on one host has Port= as a range and nothing around."""
    conf = read(f"NodeName=n[1-3] NodeAddr=localhost Port={written}\n")
    assert [node.port for node in conf.nodes] == [6821, 6822, 6823]


@pytest.mark.parametrize(
    ("line", "shape"),
    [
        ("", (1, 1, 1, 1)),
        ("CPUs=8", (8, 8, 1, 1)),
        ("CPUs=8 CoresPerSocket=4", (8, 2, 4, 1)),
        ("Sockets=2 CoresPerSocket=4 ThreadsPerCore=2", (16, 2, 4, 2)),
        ("CPUs=8 Sockets=2 CoresPerSocket=4 ThreadsPerCore=2", (8, 2, 4, 2)),
        ("Boards=2 SocketsPerBoard=2 CoresPerSocket=4", (16, 4, 4, 1)),
    ],
)
def test_missing_counts_follow_from_the_others(line: str, shape: tuple[int, ...]) -> None:
    node = read(f"NodeName=n1 {line}\n").nodes[0]
    assert (node.cpus, node.sockets, node.cores_per_socket, node.threads_per_core) == shape


def test_partitions_resolve_nodes_and_inherit() -> None:
    conf = read(
        "DefMemPerCPU=100\nPreemptType=preempt/qos\nPreemptMode=REQUEUE\n"
        "NodeName=n[1-3] Feature=ib\nNodeName=m[1-2]\n"
        "NodeSet=fast Feature=ib\n"
        "PartitionName=DEFAULT MaxTime=60 State=UP\n"
        "PartitionName=a Nodes=m2,fast,m1 Default=YES\n"
        "PartitionName=b Nodes=ALL DefMemPerNode=500 Shared=EXCLUSIVE MaxTime=INFINITE Priority=7\n"
        'PartitionName=e Nodes=""\n'
    )
    a, b, empty = conf.partitions
    assert a.node_names == ("n1", "n2", "n3", "m1", "m2")
    assert (a.max_time, a.default, a.def_mem_per_cpu, a.default_time) == (60, True, 100, NO_VAL)
    assert a.preempt_mode == ("REQUEUE",)
    assert (b.def_mem_per_cpu, b.def_mem_per_node) == (0, 500)
    assert (b.exclusive, b.over_subscribe, b.max_time) == ("NODE", "NO", INFINITE)
    assert (b.priority_tier, b.priority_job_factor) == (7, 7)
    assert empty.node_names == ()
    assert conf.nodesets[0].node_names == ("n1", "n2", "n3")


def test_down_nodes_and_power_actions_are_kept() -> None:
    conf = read(
        NODES + 'DownNodes=n[1-2] State=DRAIN Reason="disk, old"\nPowerAction=x Program=/p\n'
    )
    assert conf.down_nodes[0] == (("n1", "n2"), "DRAIN", "disk, old")
    assert conf.power_actions[0].location == "slurmctld"


def test_allow_lists_of_all_allow_everybody() -> None:
    conf = read(NODES + "PartitionName=p Nodes=ALL AllowAccounts=ALL AllowQos=High,low\n")
    assert conf.partitions[0].allow_accounts == ()
    assert conf.partitions[0].allow_qos == ("high", "low")


WRONG = [
    ("SlurmctldPrt=1", "1: SlurmctldPrt: unknown key in slurm.conf; did you mean SlurmctldPort"),
    ("KillWait=soon", "1: KillWait: 'soon' is not a number of seconds; allowed: 0 to 65533"),
    ("KillWait=70000", "1: KillWait: 70000 is out of range; allowed: 0 to 65533"),
    ("ReturnToService=70000", "1: ReturnToService: 70000 is out of range; allowed: 0 to 2"),
    ("JobRequeue=maybe", "1: JobRequeue: 'maybe' is neither YES nor NO"),
    ("SelectType=select/none2", "allowed: select/cons_tres, select/linear"),
    ("EnforcePartLimits=SOME", "'SOME' is unknown; allowed: NO, ANY, ALL, YES"),
    ("PriorityMaxAge=1:2:3:4", "'1:2:3:4' is not a time"),
    ("SlurmctldPort=7000-6000", "'7000-6000' is not within 1 to 65535"),
    ("DefMemPerCPU=lots", "'lots' is not a number of megabytes"),
    ("PrivateData=jobs,secrets", "'secrets' is unknown; allowed: accounts, events, jobs"),
    ("PrologFlags=Alloc,NoHold,X11", "NoHold cannot be combined with Contain or X11"),
    ("JobContainerType=job_container/tmpfs", "PrologFlags=Contain is required for use with "),
    ("VSizeFactor=98%", "1: VSizeFactor: '98%' is not a number of percent, such as 98.5"),
    ("Licenses=a,a", "'a' given twice"),
    ("RequeueExit=9-3", "within 0 to 255"),
    ("StateSaveLocation=here", "'here' is not an absolute path"),
    ("SlurmUser=a b", "expected Key=Value"),
    ("SlurmctldHost=a(", "'a(' is not host or host(address)"),
    ("PreemptMode=SUSPEND\nPreemptType=preempt/qos", "SUSPEND needs GANG too"),
    ("PreemptType=preempt/qos", "needs PreemptMode=CANCEL, REQUEUE or SUSPEND"),
    ("SelectTypeParameters=CR_CPU,CR_Core", "allowed: only one of CR_CPU"),
    ("MaxNodeCount=2", "2 is less than the 4 nodes"),
    ("NodeName=n2", "2: NodeName: node n2 was already given in line 3"),
    ("NodeName=x[1-3] Port=[1-2]", "2 values for 3 nodes; allowed: one, or as many"),
    ("NodeName=x[1-3] Port=1-2", "2 values for 3 nodes; allowed: one, or as many"),
    ("NodeName=x[1-3] Port=7003-7001", "expected ports within 1 to 65535"),
    ("NodeName=x1 Port=0", "expected ports within 1 to 65535"),
    ("NodeName=x1 Port=70000", "expected ports within 1 to 65535"),
    ("NodeName=x1 Port=a", "expected ports within 1 to 65535"),
    ("NodeName=x1 NodeAddr=n1", "node x1 has the address and port of node n1 (n1:6818)"),
    ("NodeName=x1 State=BROKEN", "'BROKEN' is unknown; allowed: CLOUD"),
    ("NodeName=x[1-", "'[' without ']'"),
    ("NodeName=x1 NodeAddr=ctl Port=6817", "port 6817 is that of node x1 on the same host"),
    ("PartitionName=p Nodes=n[1-9]", "Nodes: no NodeName line has n[5-9]"),
    ("PartitionName=p Nodes=n1\nPartitionName=p Nodes=n2", "partition p was already given in line"),
    ("PartitionName=p MinNodes=3 MaxNodes=2", "MinNodes=3 exceeds MaxNodes=2"),
    ("PartitionName=p DefaultTime=90 MaxTime=60", "DefaultTime of 90 minutes exceeds MaxTime"),
    ("PartitionName=p Alternate=q", "Alternate=q is not a partition"),
    ("PartitionName=p OverSubscribe=YES:0", "allowed: NO, EXCLUSIVE, YES[:count], FORCE[:count]"),
    ("PartitionName=p TRESBillingWeights=foo=1", "unknown TRES"),
    ("DownNodes=z1", "no NodeName line has z1"),
    ("NodeSet=s", "expected Feature= or Nodes="),
]


@pytest.mark.parametrize(("text", "expected"), WRONG)
def test_a_mistake_is_named_with_what_is_allowed(text: str, expected: str) -> None:
    is_node = text.startswith(("Node", "Part", "Down", "MaxNode"))
    refusals = problems(NODES + text + "\n" if is_node else text + "\n" + NODES)
    assert len(refusals) == 1, refusals
    assert expected in refusals[0]


def test_a_file_with_ten_errors_prints_ten_lines(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_text(
        "ClusterName=c\nSlurmctldHost=ctl\nBogus=1\nKillWait=x\nSlurmctldPort=0\nJobRequeue=2\n"
        "NodeName=n[1-2] CPUs=x\nNodeName=m1 State=ODD\nNodeName=ok\nPartitionName=p Nodes=no\n"
        "PartitionName=p\nPrivateData=al\njust words\nPartitionName=q MaxTime=never\n"
    )
    with pytest.raises(ConfErrors) as caught:
        load_slurm_conf(str(path))
    lines = str(caught.value).splitlines()
    assert [line.split(":")[1] for line in lines] == [
        "3", "4", "5", "6", "7", "8", "10", "11", "12", "13", "14"
    ]  # fmt: skip
    assert all(line.startswith(f"{path}:") for line in lines)


def test_the_two_names_that_nothing_works_without() -> None:
    with pytest.raises(ConfErrors) as caught:
        parse_slurm_conf("NodeName=n1\n")
    assert str(caught.value).splitlines() == [
        "slurm.conf: ClusterName: must be given",
        "slurm.conf: SlurmctldHost: must be given",
    ]


def test_keys_of_the_past_and_repeats_only_warn() -> None:
    """Slurm ignores them too; a site's file must go on working."""
    conf = read("FastSchedule=2\nKillWait=1\nKillWait=2\n" + NODES)
    assert conf.kill_wait == 2
    assert conf.warnings == (
        "slurm.conf:3: FastSchedule: no longer exists and is ignored; "
        "use SlurmdParameters=config_overrides",
        "slurm.conf:5: KillWait: also in line 4; this one counts",
    )


def test_a_repeated_key_is_said_once_to_have_no_effect() -> None:
    """What the line that does not count would do is nobody's concern."""
    conf = read("AccountingStorageUser=a\nAccountingStorageUser=b\n" + NODES)
    assert [line.partition(":")[2][0] for line in conf.warnings] == ["4", "4"]
    assert [line.count("no effect") for line in conf.warnings] == [0, 1]


def test_the_old_name_of_the_controller_counts_when_it_is_the_only_one() -> None:
    text = "ClusterName=c\nControlMachine=old\nControlAddr=10.0.0.9\n" + NODES
    assert parse_slurm_conf(text).slurmctld_host == (ControllerHost("old", "10.0.0.9"),)
    assert parse_slurm_conf(text + "SlurmctldHost=new\n").slurmctld_host[0].name == "new"


def test_keys_without_effect_are_listed() -> None:
    conf = read("PluginDir=/opt\nKillWait=1\n" + NODES)
    (line,) = conf.warnings
    assert line.endswith(": PluginDir has no effect in pyslurm-ng: everything is built in")


def test_a_toml_file_says_the_same(tmp_path: Path) -> None:
    plain = tmp_path / "slurm.conf"
    plain.write_text(
        "ClusterName=c\nSlurmctldHost=a,b(10.0.0.2)\nJobRequeue=NO\nGresTypes=gpu,nic\n"
        "SchedulerParameters=bf_continue,bf_interval=20\n"
        "NodeName=DEFAULT CPUs=4\nNodeName=n[1-2] Gres=gpu:2\nNodeSet=s Nodes=n1\n"
        "PartitionName=p Nodes=s Default=YES\n"
    )
    toml = tmp_path / "slurm.toml"
    toml.write_text(
        'clustername = "c"\nSlurmctldHost = ["a", "b(10.0.0.2)"]\nJobRequeue = false\n'
        'GresTypes = ["gpu", "nic"]\n'
        "SchedulerParameters = { bf_continue = true, bf_interval = 20, defer = false }\n"
        '[node.DEFAULT]\nCPUs = 4\n[node."n[1-2]"]\nGres = "gpu:2"\n[nodeset.s]\nNodes = "n1"\n'
        '[partition.p]\nNodes = "s"\nDefault = true\n'
    )
    left, right = load_slurm_conf(str(plain)), load_slurm_conf(str(toml))
    for key in tables.PARAMETERS:
        assert getattr(left, key.attribute) == getattr(right, key.attribute), key.name
    assert [n._replace(file="", line=0) for n in left.nodes] == [
        n._replace(file="", line=0) for n in right.nodes
    ]
    assert left.partitions[0].node_names == right.partitions[0].node_names == ("n1",)


def test_errors_of_toml_name_the_table(tmp_path: Path) -> None:
    path = tmp_path / "slurm.toml"
    path.write_text('ClusterName = "c"\nSlurmctldHost = "a"\n[node.n1]\nCPUs = "x"\n')
    with pytest.raises(ConfErrors) as caught:
        load_slurm_conf(str(path))
    assert f"{path}: [node.n1]: CPUs: 'x' is not a number" in str(caught.value)
    path.write_text("A = [\n")
    with pytest.raises(ConfErrors, match="not TOML"):
        load_slurm_conf(str(path))


def test_tracked_tres_follow_slurms_ids() -> None:
    conf = read("GresTypes=gpu\nAccountingStorageTRES=gres/gpu,license/x\n" + NODES)
    assert conf.tracked_tres() == (
        "cpu", "mem", "energy", "node", "billing", "fs/disk", "vmem", "pages",
        "gres/gpu", "license/x", "gres/gpumem", "gres/gpuutil",
    )  # fmt: skip


def test_option_tables_belong_to_known_parameters() -> None:
    names = {key.name for key in tables.PARAMETERS}
    assert set(OPTIONS) <= names


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                [key.name for key in tables.PARAMETERS] + ["NodeName", "PartitionName"]
            ),
            st.text(alphabet='aA1,:=[]-/ "%', max_size=10),
        ),
        max_size=12,
    )
)
def test_any_values_are_read_or_refused(lines: list[tuple[str, str]]) -> None:
    """RELIABILITY 74: never a traceback, for any value of a key."""
    text = HEAD + "".join(f"{name}={value}\n" for name, value in lines)
    try:
        parse_slurm_conf(text)
    except ConfErrors as caught:
        refused = caught.errors
    else:
        refused = None
    assert refused is None or refused
