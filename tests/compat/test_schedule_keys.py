"""Effects of keys on who starts where, and when: each test changes a key and runs passes."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

import pytest

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.numbers import REQ_EXCLUSIVE
from pyslurm_ng.conf.check import topologies_of
from pyslurm_ng.conf.gres_conf import parse_gres_conf
from pyslurm_ng.ctld.queries.nodes import NODE_FIELDS, show_nodes
from pyslurm_ng.ctld.rules.calendar import UTC
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.d.host.gres import node_gres
from pyslurm_ng.kernels.records import project
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply
from pyslurm_ng.model.assoc import Limits, Qos
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.states import NodeFlag, NodeState, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.cons_tres.allot import allot
from pyslurm_ng.sched.cons_tres.select import choose
from pyslurm_ng.sched.frame.policy import policy, selection
from pyslurm_ng.sched.request.need import need_of
from pyslurm_ng.wire.query_messages import ShowNodes
from tests.cli.reference_cluster import ADMIN
from tests.ctld.followers.usage_runs import PLAIN, ends, started
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of, submit
from tests.sched.cons_tres.charged_jobs import just_started
from tests.sched.cons_tres.device_nodes import GPUS, node
from tests.sched.cons_tres.parts_site import PARTS, PartsSite
from tests.sched.eight_nodes import EIGHT_NODES, cluster_with, plain_pass, whole
from tests.sched.frame.ranks import ranked, rules_of
from tests.sched.preemption.preemption_site import BASE, ROWS, TIERS, PreemptionSite
from tests.world.site import Site

MINUTE_US = 60_000_000
BLOCKS = "BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-8]\n"


# Nodes -------------------------------------------------------------------------------------------


def test_features_are_where_constraints_lead() -> None:
    """Features of a node's line: a job that asks for one runs there, without any nowhere."""
    lines = "NodeName=x CPUs=1 {}\nPartitionName=x Nodes=x DefMemPerCPU=0"
    code = Errno.ESLURM_INVALID_FEATURE
    assert Site(lines.format("")).refused(partition="x", constraint="fast") == code
    Site(lines.format("Features=fast")).job(partition="x", constraint="fast")


def test_reason_of_a_state_in_the_file() -> None:
    """Reason of a node's line is shown with the State that it explains."""
    conf = conf_of(FOUR_NODES + 'NodeName=x CPUs=1 State=DOWN Reason="no fan"\n')
    cluster = Cluster()
    for event in configure(cluster, conf, START_US):
        apply(cluster, event)
    reply = show_nodes(cluster, Soft(START_US), conf, ShowNodes(nodes="x"), ADMIN, START_US)
    [row] = project(reply.records, [NODE_FIELDS.index(name) for name in ("name", "reason")])
    assert row == ("x", "no fan")


@pytest.mark.parametrize(
    ("word", "state", "flag"),
    [
        ("UNKNOWN", NodeState.UNKNOWN, NodeFlag.NONE),
        ("DOWN", NodeState.DOWN, NodeFlag.NONE),
        ("DRAIN", NodeState.UNKNOWN, NodeFlag.DRAIN),
        ("FAIL", NodeState.UNKNOWN, NodeFlag.FAIL),
        ("FAILING", NodeState.UNKNOWN, NodeFlag.FAIL),
        ("EXTERNAL", NodeState.IDLE, NodeFlag.EXTERNAL),
    ],
)
def test_the_state_in_which_a_node_begins(word: str, state: NodeState, flag: NodeFlag) -> None:
    """State=DRAIN keeps jobs from a node before it has ever answered."""
    cluster = Cluster()
    for event in configure(cluster, conf_of(f"{FOUR_NODES}NodeName=x State={word}\n"), START_US):
        apply(cluster, event)
    (node,) = [node for node in cluster.living_nodes() if node.spec.name == "x"]
    assert (node.state, node.flags) == (state, flag)


def test_sockets_per_board() -> None:
    """SocketsPerBoard=2 of two Boards are four sockets for a job that wants as many."""
    lines = (
        "NodeName=x CPUs=8 Boards=2 {} CoresPerSocket={}\nPartitionName=x Nodes=x DefMemPerCPU=0"
    )
    wants = {"partition": "x", "nodes_min": 1, "sockets_per_node": 4}
    Site(lines.format("SocketsPerBoard=2", 2)).job(**wants)
    code = Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE
    assert Site(lines.format("SocketsPerBoard=1", 4)).refused(**wants) == code


# Networks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["", "ExclusiveTopo=YES"])
def test_exclusive_topo(key: str) -> None:
    """ExclusiveTopo=YES of a partition: no two of its jobs are in one block."""
    cluster = cluster_with(BLOCKS, f"{EIGHT_NODES}PartitionName=x Nodes=n[1-8] {key}\n")
    small = JobRequest(nodes_min=1, nodes_max=1, ntasks=1, partition="x")
    jobs = [submit(cluster, small) for _ in range(3)]
    plain_pass(cluster, Planner())
    switches = [alloc.node_id // 4 for job in jobs for alloc in cluster.jobs[job].nodes]
    assert (len(switches), len(set(switches))) == ((2, 2) if key else (3, 1))


@pytest.mark.parametrize(("sizes", "starts"), [("4", True), ("4,8", False)])
def test_block_sizes(sizes: str, starts: bool) -> None:
    """BlockSizes=4,8: blocks two and three belong to different pairs, and no job has both."""
    blocks = "".join(f"BlockName=b{at} Nodes=n[{4 * at + 1}-{4 * at + 4}]\n" for at in range(4))
    cluster = cluster_with(
        f"{blocks}BlockSizes={sizes}\n", EIGHT_NODES.replace("n[1-8]", "n[1-16]")
    )
    job = submit(cluster, whole(6, exclude="n[1-4,13-16]"))
    plain_pass(cluster, Planner())
    assert bool(cluster.jobs[job].nodes) == starts


def test_topology_plugin(tmp_path: Path) -> None:
    """topology/flat does not read topology.conf, the others use it."""
    path = tmp_path / "slurm.conf"
    leaves = {}
    for plugin in ("flat", "tree", "block", "ring"):
        unit = {"block": "Block", "ring": "Ring"}.get(plugin, "Switch")
        (tmp_path / "topology.conf").write_text(
            f"{unit}Name=s1 Nodes=n[1-2]\n{unit}Name=s2 Nodes=n[3-4]"
        )
        path.write_text(f"{FOUR_NODES}TopologyPlugin=topology/{plugin}\n")
        conf = conf_of(path.read_text())
        network = topologies_of(conf, str(tmp_path))
        cluster = Cluster()
        for event in configure(cluster, conf, START_US, list(network)):
            apply(cluster, event)
        leaves[plugin] = [
            part.name
            for topology in cluster.topologies
            for part in (*topology.switches, *topology.blocks)
        ]
    assert leaves == {"flat": [], **{key: ["s1", "s2"] for key in ("tree", "block", "ring")}}


# Selection ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "nodes"), [("cons_tres", [0, 0]), ("linear", [0, 1])])
def test_select_type(kind: str, nodes: list[int]) -> None:
    """SelectType=select/cons_tres: two small jobs share a node; with linear each has its own."""
    site = PreemptionSite(f"{BASE.replace('CR_Core_Memory', 'CR_Memory')}SelectType=select/{kind}\n"
                "PartitionName=main Nodes=ALL Default=YES\n")  # fmt: skip
    jobs = [site.add("main", 1, mem_per_cpu_mib=1) for _ in range(2)]
    site.run_pass()
    assert [site.nodes(job) for job in jobs] == [[at] for at in nodes]


def test_cr_cpu_charges_cpus_and_no_memory() -> None:
    """SelectTypeParameters=CR_CPU: one of a core's two CPUs is charged. Memory is not counted."""
    for select, cpus, mem_mib in (("CR_CPU", 3, 0), ("CR_CPU_Memory", 3, 1500), ("CR_Core", 4, 0)):
        _, job = just_started(select, ntasks=3, nodes_min=1, nodes_max=1)
        (alloc,) = job.nodes
        assert (alloc.charged_cpus or alloc.cpus, alloc.mem_mib) == (cpus, mem_mib)


def test_enforce_binding_gres() -> None:
    """SelectTypeParameters=ENFORCE_BINDING_GRES: a job has only cores near its GPU, or waits."""
    cores = []
    for word in ("", ",ENFORCE_BINDING_GRES"):
        chosen = selection(conf_of(f"{FOUR_NODES}SelectTypeParameters=CR_Core{word}\n"))
        request = JobRequest(nodes_min=1, nodes_max=1, ntasks=9, gpus_per_node="1")
        need = need_of(request, Partition("main", (0,)), {}, chosen)
        picked = choose(need, [node(GPUS)])
        cores.append(picked and allot(need, picked)[0].cores[1])
    assert cores[0] and cores[1] is None


@pytest.mark.parametrize(("flag", "running"), [("all_sharing", 2), ("one_sharing", 1)])
def test_one_gpu_or_all_may_be_shared(flag: str, running: int) -> None:
    """Flags=one_sharing of gres.conf: shards are given of one GPU of a node at a time."""
    conf = conf_of(PARTS.format(nodes=1, select="", scheduler="sched/backfill"))
    lines = f"Name=gpu File=/dev/x[0-1]\nName=shard Count=8 Flags={flag}\n"
    gres = node_gres(conf.nodes[0], parse_gres_conf(lines, conf.gres_types, conf.nodes), [])
    site = PartsSite(gres=gres)
    for _ in range(3):
        site.add(gres="shard:3")
    assert len(site.run().starts) == running


@pytest.mark.parametrize(("flags", "gpus"), [("Count=2", 2), ("Flags=explicit", 0)])
def test_whole_nodes_come_without_explicit_resources(flags: str, gpus: int) -> None:
    """Flags=explicit of gres.conf: only jobs that name such a resource get it."""
    conf = conf_of(PARTS.format(nodes=1, select="", scheduler="sched/backfill"))
    spec = parse_gres_conf(f"Name=gpu {flags}\n", conf.gres_types, conf.nodes)
    devices = node_gres(conf.nodes[0], spec, [])
    for gres, expected in (("", gpus), ("gpu:1", max(gpus, 1))):
        site = PartsSite(gres=devices)
        site.add(gres=gres, flags=REQ_EXCLUSIVE)
        (start,) = site.run().starts
        assert sum(alloc.count for alloc in start.nodes[0].gres if alloc.name == "gpu") == expected


# Preemption and turns ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cluster", "own", "mode"),
    [
        ("CANCEL", "", "CANCEL"),
        ("CANCEL", "PreemptMode=REQUEUE", "REQUEUE"),
        ("REQUEUE,GANG", "PreemptMode=SUSPEND", "SUSPEND"),
    ],
)
def test_a_partition_has_a_preempt_mode_of_its_own(cluster: str, own: str, mode: str) -> None:
    """PreemptMode of the victims' partition says what happens to them."""
    site = PreemptionSite(
        (TIERS % cluster).replace("PartitionName=low", f"PartitionName=low {own}")
    )
    for _ in range(4):
        site.add("low", 4, mem_per_cpu_mib=1)
    site.run_pass()
    site.add("high", 4, mem_per_cpu_mib=1)
    [preemption] = site.run_pass().preemptions
    assert [how for _, how in preemption.victims] == [mode]


@pytest.mark.parametrize(
    ("cluster", "own"), [("CANCEL,PRIORITY", ""), ("CANCEL", "PreemptMode=PRIORITY")]
)
def test_preempt_mode_priority(cluster: str, own: str) -> None:
    """PreemptMode=PRIORITY spares jobs whose priority is not lower; without it the tier decides."""
    for word, is_spared in (("", False), ("yes", True)):
        text = TIERS % (cluster if word else "CANCEL")
        site = PreemptionSite(
            text.replace("PartitionName=low", f"PartitionName=low {own if word else ''}")
        )
        low = [site.add("low", 4) for _ in range(4)]
        site.run_pass()
        for job in low:
            site.apply_one(ev.JobUpdated(START_US, job, {"priority": 9}))
        high = site.add("high", 4)
        site.apply_one(ev.JobUpdated(START_US, high, {"priority": 8}))
        assert (site.run_pass().preemptions == []) == is_spared
    site.apply_one(ev.JobUpdated(START_US, high, {"priority": 10}))
    assert site.run_pass().preemptions


@pytest.mark.parametrize("seconds", [0, 30, 60])
def test_gang_and_its_time_slice(seconds: int) -> None:
    """PreemptMode=GANG lets two jobs of the same cores take turns of SchedulerTimeSlice."""
    site = PreemptionSite(
        ROWS % (f"PreemptMode=GANG\nSchedulerTimeSlice={seconds}" if seconds else "")
    )
    pair = [site.add("twice", 4, node_list="n1") for _ in range(2)]
    site.run_pass()
    states = []
    for _ in range(240):
        site.wait(1)
        states.append(tuple(site.states(*pair)))
    turns = [len(list(same)) for _, same in groupby(states)]
    if seconds:
        assert set(turns[1:-1]) == {seconds}
    else:
        assert set(states) == {("RUNNING", "RUNNING")}


# Priority and limits -----------------------------------------------------------------------------


def test_no_normal_all() -> None:
    """PriorityFlags=NO_NORMAL_ALL: every factor is its number, not a share of the largest."""
    cluster = cluster_of()
    submit(cluster, JobRequest())
    apply(cluster, ev.QosChanged(START_US, (Qos(1, "normal", priority=40), Qos(2, "top", 80))))
    weights = ("PriorityWeightQOS=3", "PriorityWeightPartition=2", "PriorityWeightTRES=cpu=5")
    shares = ranked(cluster, rules_of(*weights), partition="gpu")[1]
    raw = ranked(cluster, rules_of(*weights, "PriorityFlags=NO_NORMAL_ALL"), partition="gpu")[1]
    assert (shares.partition, raw.partition) == (1, 10)
    assert shares.qos < raw.qos == 40
    assert dict(shares.tres)["cpu"] < dict(raw.tres)["cpu"] == 1


def test_priority_weight_qos() -> None:
    """PriorityWeightQOS times the share of the highest QOS."""
    cluster = cluster_of()
    submit(cluster, JobRequest())
    records = (Qos(1, "normal", priority=40), Qos(2, "top", priority=80))
    apply(cluster, ev.QosChanged(START_US, records))
    assert ranked(cluster, rules_of("PriorityWeightQOS=1000"))[0] == 500
    assert ranked(cluster, rules_of("PriorityWeightQOS=10"))[0] == 5


@pytest.mark.parametrize(("minutes", "is_kept"), [(1, True), (4, False)])
def test_priority_calc_period(minutes: int, is_kept: bool) -> None:
    """PriorityCalcPeriod: how long usage is added up before it is written down."""
    cluster, index, charged = started(Limits(), PLAIN)
    index.adopt(conf_of(f"{FOUR_NODES}PriorityCalcPeriod={minutes}\n"))
    index.due(START_US + MINUTE_US, UTC)
    now_us = START_US + 3 * MINUTE_US
    ends(cluster, index, charged.job_id, now_us)
    assert bool(index.due(now_us + 1_000_000, UTC)) == is_kept
    assert index.due(now_us + 4 * MINUTE_US, UTC) or is_kept


def test_qos_of_a_partition() -> None:
    """QOS of a partition's line: its limits hold for all jobs there."""
    for key, is_limited in (("", False), ("QOS=gate", True)):
        scene = Site(
            f"AccountingStorageEnforce=limits\nPartitionName=x Nodes=n4 DefMemPerCPU=1 {key}"
        )
        scene.account()
        gate = Qos(3, "gate", limits=Limits(max_tres_per_job={"cpu": 1}))
        scene.apply([ev.QosChanged(scene.now_us, (gate,))])
        job = scene.job(partition="x", ntasks=2, account="physics")
        scene.run_pass()
        assert (job.reason == Reason.QOSMaxCpuPerJobLimit or not job.nodes) == is_limited


@pytest.mark.parametrize(
    ("word", "starts", "is_ended"),
    [("associations", True, False), ("limits", True, True), ("safe", False, False)],
)
def test_accounting_storage_enforce(word: str, starts: bool, is_ended: bool) -> None:
    """AccountingStorageEnforce=limits ends a job whose minutes are used up.

    With =safe such a job does not start.
    """
    scene = Site(f"AccountingStorageEnforce={word}")
    scene.account(Limits(grp_tres_mins={"cpu": 20}))
    long = scene.job(account="physics", time_limit_min=60)
    short = scene.job(account="physics", time_limit_min=10)
    scene.run_pass()
    assert (bool(long.nodes), bool(short.nodes)) == (starts, True)
    assert policy(scene.conf).stops_jobs == is_ended
