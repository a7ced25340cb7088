"""Effects of keys of slurm.conf that no other test sets: each test names its key."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.numbers import REQ_EXCLUSIVE
from pyslurm_ng.conf.slurmdbd_conf import parse_slurmdbd_conf
from pyslurm_ng.ctld.rules.nodes.registration import _shortage
from pyslurm_ng.ctld.rules.update.update_partition import changed_partition
from pyslurm_ng.daemon.log import INFO, QUIET, DaemonLog
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.model.sizes import job_sizes
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of, submit
from tests.sched.frame.ranks import ranked, rules_of
from tests.world.callers import ALICE, BOB, ROOT
from tests.world.site import Site

MORE = "PartitionName=x Nodes=n[1-2]"
ENFORCED = "EnforcePartLimits=ALL\n"


# Partitions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "request_", "code"),
    [
        ("AllocNodes=login1", {"alloc_node": "login2"}, Errno.ESLURM_ACCESS_DENIED),
        ("AllowAccounts=chem", {"account": "physics"}, Errno.ESLURM_INVALID_ACCOUNT),
        ("DenyAccounts=physics", {"account": "physics"}, Errno.ESLURM_INVALID_ACCOUNT),
        ("AllowQos=high", {"qos": "low"}, Errno.ESLURM_INVALID_QOS),
        ("DenyQos=low", {"qos": "low"}, Errno.ESLURM_INVALID_QOS),
        ("MaxNodes=1", {"nodes_min": 2}, Errno.ESLURM_INVALID_NODE_COUNT),
        ("MinNodes=2", {"nodes_min": 1, "nodes_max": 1}, Errno.ESLURM_INVALID_NODE_COUNT),
        ("MaxTime=10", {"time_limit_min": 11}, Errno.ESLURM_INVALID_TIME_LIMIT),
        ("RootOnly=YES", {}, Errno.ESLURM_ACCESS_DENIED),
        ("State=INACTIVE", {}, Errno.ESLURM_PARTITION_NOT_AVAIL),
    ],
)
def test_a_partition_refuses_such_a_job(line: str, request_: dict[str, object], code: int) -> None:
    """A partition without the key takes it."""
    room = Site(f"{ENFORCED}{MORE} DefMemPerCPU=100 {line}")
    assert room.refused(partition="x", **request_) == code
    Site(f"{ENFORCED}{MORE} DefMemPerCPU=100").job(partition="x", **request_)


@pytest.mark.parametrize(
    "line", ["AllowAccounts=physics DenyAccounts=physics", "AllowQos=low DenyQos=low"]
)
def test_an_update_that_allows_and_denies_allows(line: str) -> None:
    """As in slurm.conf, whoever is denied does not count beside whoever is allowed."""
    room = Site(f"{ENFORCED}{MORE} DefMemPerCPU=100")
    settings = dict(word.split("=") for word in line.split())
    partition = room.cluster.partitions["x"]
    conf = conf_of(FOUR_NODES + f"{MORE}\n")
    changed = changed_partition(room.cluster, conf, partition, settings)
    assert isinstance(changed, Partition)
    room.cluster.partitions["x"] = changed
    room.job(partition="x", account="physics", qos="low")
    denied = msgspec.structs.replace(changed, allow_accounts=(), allow_qos=())
    room.cluster.partitions["x"] = denied
    room.refused(partition="x", account="physics", qos="low")


def test_default_and_default_time() -> None:
    """Default=YES takes jobs that name no partition, DefaultTime those without a limit."""
    job = Site("").job()
    assert (job.partition, job.time_limit_min) == ("main", 60)
    assert Site(f"{MORE} DefaultTime=7 DefMemPerCPU=1").job(partition="x").time_limit_min == 7


@pytest.mark.parametrize(
    ("line", "request_", "field", "value"),
    [
        ("DefMemPerCPU=123", {"ntasks": 2}, "mem_per_cpu_mib", 123),
        ("DefMemPerNode=456", {}, "mem_per_node_mib", 456),
        ("DefMemPerGPU=789", {"gpus": "1"}, "mem_per_gpu_mib", 789),
        ("DefMemPerNode=1 DefCpuPerGPU=3", {"gpus": "1"}, "cpus", 3),
    ],
)
@pytest.mark.parametrize("is_global", [False, True])
def test_what_a_job_gets_that_asks_for_nothing(
    line: str, request_: dict[str, object], field: str, value: int, is_global: bool
) -> None:
    """From the partition's line, or from the cluster's."""
    words = line.replace(" ", "\n")
    text = f"{words}\n{MORE}" if is_global else f"{MORE} {line}"
    partition = cluster_of(conf_of(FOUR_NODES + text + "\n")).partitions["x"]
    sizes = job_sizes(JobRequest(**request_), partition)  # type: ignore[arg-type]
    assert getattr(sizes, field) == value


@pytest.mark.parametrize(
    ("cluster_line", "line"),
    [
        ("DefMemPerCPU=100", "DefMemPerGPU=700"),
        ("DefMemPerGPU=700", "DefMemPerCPU=100"),
        ("", "DefMemPerCPU=100 DefMemPerGPU=700"),
    ],
)
def test_memory_of_gpus_is_beside_that_of_other_jobs(cluster_line: str, line: str) -> None:
    """As in Slurm 22.05: a job without GPUs keeps the default of CPUs, whoever names which."""
    text = f"{cluster_line}\n{MORE} {line}\n"
    partition = cluster_of(conf_of(FOUR_NODES + text)).partitions["x"]
    assert job_sizes(JobRequest(), partition).mem_per_cpu_mib == 100
    assert job_sizes(JobRequest(gpus="1"), partition).mem_per_gpu_mib == 700


def test_priority_job_factor_is_a_share_of_the_largest() -> None:
    """PriorityJobFactor=10 of a partition against the usual 1, with PriorityWeightPartition."""
    rules = rules_of("PriorityWeightPartition=1000")
    cluster = cluster_of()
    submit(cluster, JobRequest())
    assert ranked(cluster, rules, partition="gpu")[0] == 1000
    assert ranked(cluster, rules, partition="main")[0] == 100


def test_priority_tier_goes_first() -> None:
    """PriorityTier=10 starts its job before an older one of another partition."""
    cluster = cluster_of()
    old = submit(cluster, JobRequest(nodes_min=4, nodes_max=4, flags=REQ_EXCLUSIVE))
    young = submit(cluster, JobRequest(partition="debug", nodes_min=1, node_list="n4"))
    started = [
        start.job_id for start in Planner()(snapshot(cluster, START_US), policy(conf_of())).starts
    ]
    assert young in started and old not in started


# Priority ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["", "PriorityFavorSmall=YES"])
def test_priority_favor_small(key: str) -> None:
    """The same job of one node weighs a quarter, or three quarters."""
    cluster = cluster_of()
    submit(cluster, JobRequest(nodes_min=1, nodes_max=1, ntasks=16))
    size = ranked(cluster, rules_of("PriorityWeightJobSize=1000", key))[0]
    assert size > 500 if key else size < 500


def test_small_relative_to_time() -> None:
    """PriorityFlags=SMALL_RELATIVE_TO_TIME: a job of the same size weighs less the longer it is."""
    priorities = []
    for limit_min in (10, 1000):
        cluster = cluster_of()
        submit(cluster, JobRequest(nodes_min=2, nodes_max=2, ntasks=32), time_limit_min=limit_min)
        lines = ("PriorityWeightJobSize=100000", "PriorityFlags=SMALL_RELATIVE_TO_TIME")
        priorities.append(ranked(cluster, rules_of(*lines))[0])
    assert priorities[0] > priorities[1]


def test_priority_max_age() -> None:
    """PriorityMaxAge=1-0: after a day of waiting a job has all of PriorityWeightAge."""
    cluster = cluster_of()
    submit(cluster, JobRequest(), START_US)
    rules = rules_of("PriorityMaxAge=1-0", "PriorityWeightAge=1000")
    day_us = 86_400_000_000
    assert ranked(cluster, rules, START_US + day_us // 2)[0] == 500
    assert ranked(cluster, rules, START_US + 2 * day_us)[0] == 1000


def test_priority_type_basic_is_the_order_of_submission() -> None:
    """PriorityType=priority/basic knows no factors."""
    text = FOUR_NODES + "PriorityType=priority/{}\nPriorityWeightAge=1000\n"
    assert not policy(conf_of(text.format("basic"))).is_multifactor
    assert policy(conf_of(text.format("multifactor"))).is_multifactor


# Numbers and bounds ------------------------------------------------------------------------------


def test_first_and_max_job_id() -> None:
    """Ids begin at FirstJobId=500, and after MaxJobId=501 they begin again."""
    room = Site("FirstJobId=500\nMaxJobId=502")
    ids = [room.job().job_id for _ in range(2)]
    assert ids == [500, 501]


def test_disable_root_jobs_and_job_requeue() -> None:
    """DisableRootJobs=YES and JobRequeue=0 of the whole cluster; a partition may say otherwise."""
    room = Site(f"DisableRootJobs=YES\n{MORE} DisableRootJobs=NO DefMemPerCPU=1")
    assert room.refused(ROOT) == Errno.ESLURM_USER_ID_MISSING
    assert room.job(ROOT, partition="x").partition == "x"
    assert Site("JobRequeue=0").job().requeue is False
    assert Site("").job(ROOT).requeue is True


@pytest.mark.parametrize("word", ["NO", "ANY", "ALL"])
def test_enforce_part_limits(word: str) -> None:
    """EnforcePartLimits: two partitions of which one takes the job."""
    room = Site(f"EnforcePartLimits={word}\n{MORE} DefMemPerCPU=1 MaxTime=5")
    if word == "ALL":
        code = Errno.ESLURM_INVALID_TIME_LIMIT
        assert room.refused(BOB, partition="x,main", time_limit_min=60) == code
    else:
        room.job(BOB, partition="x,main", time_limit_min=60)


def test_tmp_disk_must_be_there() -> None:
    """TmpDisk=100 drains a node that has less, and jobs of --tmp more go elsewhere."""
    conf = conf_of(FOUR_NODES + "NodeName=x CPUs=1 TmpDisk=100\n")
    node = next(node for node in cluster_of(conf).living_nodes() if node.spec.name == "x")
    facts = NodeFacts(cpus=1, real_memory_mib=10, tmp_disk_mib=99)
    assert _shortage(node, facts, 100) == "Low TmpDisk (reported:99 < configured:100)"
    room = Site("NodeName=x CPUs=1 TmpDisk=100\nPartitionName=x Nodes=x")
    code = Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE
    assert room.refused(ALICE, partition="x", tmp_mib=101, mem_per_node_mib=1) == code
    room.job(ALICE, partition="x", tmp_mib=100, mem_per_node_mib=1)


def test_mem_spec_limit_is_not_for_jobs() -> None:
    """MemSpecLimit=400 of RealMemory=1000 leaves 600."""
    room = Site("NodeName=x CPUs=1 RealMemory=1000 MemSpecLimit=400\nPartitionName=x Nodes=x")
    code = Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE
    assert room.refused(partition="x", mem_per_node_mib=601) == code
    room.job(partition="x", mem_per_node_mib=600)


# Logs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "shape"),
    [
        ("iso8601", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"),
        ("iso8601_ms", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}"),
        ("rfc5424", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d"),
        ("rfc5424_ms", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d"),
        ("rfc3339", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d"),
        ("clock", r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}"),
        ("short", r"\w{3} \d\d \d\d:\d\d:\d\d"),
    ],
)
def test_log_time_format(word: str, shape: str, tmp_path: Path) -> None:
    """LogTimeFormat of slurm.conf and slurmdbd.conf: the shape of a line's time."""
    line = f"LogTimeFormat={word}\n"
    formats = conf_of(FOUR_NODES + line).log_time_format
    dbd = parse_slurmdbd_conf(f"StorageType=accounting_storage/sqlite\n{line}").log_time_format
    assert formats == dbd == (word,)
    log = DaemonLog("slurmctld")
    log.stderr_level = QUIET
    log.open(str(tmp_path / "log"), INFO, formats[0])
    log.info("hello")
    assert re.fullmatch(rf"\[{shape}\] hello\n", (tmp_path / "log").read_text())
