"""The submission rule: defaults, access, limits, arrays and dependencies."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import (
    INFINITE,
    MINUTE_US,
    NO_VAL,
    REQ_EXCLUSIVE,
    REQ_KEEP_INVALID_DEP,
    REQ_KILL_INVALID_DEP,
    REQ_MEM_SET,
    REQ_NO_REQUEUE,
    REQ_REBOOT,
)
from pyslurm_ng.base.request_words import NO_NAME
from pyslurm_ng.ctld.rules.context import Caller, Context, Decision
from pyslurm_ng.ctld.rules.orders.job_orders import hold_jobs
from pyslurm_ng.ctld.rules.queue import dependency, dependency_text
from pyslurm_ng.ctld.rules.submission.job_array import ArrayError, parse_array
from pyslurm_ng.ctld.rules.update.update_job import update_job
from pyslurm_ng.ctld.rules.update.update_partition import update_partition
from pyslurm_ng.model import events as ev, task_ranges
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.assoc import Association, Limits, Qos, UserRecord
from pyslurm_ng.model.buffer import BufferState
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.wire.query_messages import HoldJobs, UpdateJob, UpdatePartition
from tests.model.clusters import START_US
from tests.world.callers import ALICE, BOB, ROOT
from tests.world.site import Site


def end(site: Site, job: Job, state: JobState = JobState.COMPLETED) -> None:
    """End a pending job, with what follows for others."""
    follows = dependency.after_end(site.cluster, job, state, 0, site.now_us)
    ended = ev.JobEnded(time_us=site.now_us, job_id=job.job_id, state=state)
    site.apply([ended, *follows])


# Defaults ---------------------------------------------------------------------------------------


def test_defaults_come_from_the_partition() -> None:
    """Default partition, its DefaultTime, requeue by JobRequeue."""
    job = Site().job()
    assert (job.partition, job.time_limit_min, job.requeue) == ("main", 60, True)
    assert Site("JobRequeue=0").job().requeue is False
    assert Site().job(flags=REQ_NO_REQUEUE).requeue is False


def test_of_several_partitions_the_highest_tier_has_the_largest_limit() -> None:
    """A default is that of the first one named; both as in Slurm 22.05."""
    site = Site(
        "PartitionName=hour Nodes=ALL MaxTime=60 DefaultTime=10 PriorityTier=7\n"
        "PartitionName=day Nodes=ALL MaxTime=1-0\nPartitionName=week Nodes=ALL MaxTime=7-0"
    )
    limits = {"day,hour": 60, "hour,day": 10, "week,day": 7 * 24 * 60, "day,week": 24 * 60}
    for names, minutes in limits.items():
        assert site.job(partition=names).time_limit_min == minutes, names


def test_time_limit_without_default_is_the_largest() -> None:
    """A partition without DefaultTime gives its MaxTime."""
    assert Site().job(partition="gpu").time_limit_min == 12 * 60


def test_deadline_gives_the_time_limit_that_is_left() -> None:
    """--deadline alone: what remains, capped by the partition."""
    room = Site()
    assert room.job(deadline_us=START_US + 10 * MINUTE_US).time_limit_min == 10
    assert room.job(deadline_us=START_US + 10**15).time_limit_min == 24 * 60
    assert (
        room.refused(deadline_us=START_US + MINUTE_US, begin_us=START_US + 2 * MINUTE_US)
        == Errno.ESLURM_INVALID_TIME_LIMIT
    )


def test_later_begin_is_not_eligible() -> None:
    """--begin keeps a job out of passes until then."""
    job = Site().job(begin_us=START_US + 1)
    assert (job.reason, job.eligible_us) == (Reason.BeginTime, 0)
    assert Site().job(begin_us=START_US - 1).eligible_us == START_US


def test_time_min_above_the_limit_is_refused() -> None:
    assert Site().refused(time_limit_min=5, time_min_min=6) == Errno.ESLURM_INVALID_TIME_MIN_LIMIT


def test_no_least_time_needs_no_limit() -> None:
    """--time-min=0 alone is refused as in Slurm; beside --time=0 it means what it says."""
    conf = "PartitionName=open Nodes=n4 MaxTime=INFINITE"
    refusal = Site(conf).refused(partition="open", time_min_min=INFINITE)
    assert refusal == Errno.ESLURM_INVALID_TIME_MIN_LIMIT
    assert Site(conf).job(partition="open", time_limit_min=INFINITE, time_min_min=INFINITE)


def test_memory_per_cpu_beyond_the_limit_takes_more_cpus() -> None:
    """MaxMemPerCPU: the task keeps its memory and pays with CPUs."""
    request = Site("MaxMemPerCPU=2000").job(mem_per_cpu_mib=5000, ntasks=2).request
    assert (request.cpus_per_task, request.mem_per_cpu_mib) == (3, 1667)


@pytest.mark.parametrize(
    ("fields", "mincpus"),
    [
        ({"mem_per_node_mib": 5000}, 3),
        ({"mem_per_node_mib": 5000, "mincpus": 4}, 4),
        ({"mem_per_node_mib": 2000}, 1),
        ({"flags": REQ_MEM_SET}, 16),
    ],
)
def test_memory_per_node_beyond_the_limit_takes_more_cpus(
    fields: dict[str, int], mincpus: int
) -> None:
    """MaxMemPerCPU bounds --mem too; --mem=0 takes as many as there are at most."""
    assert Site("MaxMemPerCPU=2000").job(**fields).request.mincpus == mincpus


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, Errno.ESLURM_REQUESTED_PART_CONFIG_UNAVAILABLE),
        ({"flags": REQ_MEM_SET}, Errno.ESLURM_INVALID_TASK_MEMORY),
        ({"mem_per_node_mib": 3000}, Errno.ESLURM_INVALID_TASK_MEMORY),
        ({"mem_per_cpu_mib": 1500, "cpus_per_task": 2}, Errno.ESLURM_INVALID_TASK_MEMORY),
        (
            {"mem_per_cpu_mib": 700, "ntasks": 3, "nodes_min": 1, "nodes_max": 1},
            Errno.ESLURM_INVALID_TASK_MEMORY,
        ),
        (
            {"mem_per_cpu_mib": 700, "ntasks": 3, "ntasks_per_node": 3},
            Errno.ESLURM_INVALID_TASK_MEMORY,
        ),
    ],
)
def test_memory_over_the_partitions_is_refused_where_limits_are_enforced(
    fields: dict[str, int], code: int
) -> None:
    """MaxMemPerNode.

    A job that gets all memory of a node, because there is no default, asks for too much, too.
    Memory of CPUs counts the tasks that one node must have, as in Slurm 22.05.
    """
    lean = "PartitionName=lean Nodes=n[1-4] MaxMemPerNode=2000\nEnforcePartLimits=ALL"
    assert Site(lean).refused(partition="lean", **fields) == code
    assert Site(lean).job(partition="lean", mem_per_cpu_mib=1000, cpus_per_task=2)
    assert Site(lean).job(partition="lean", mem_per_cpu_mib=700, ntasks=3)


def test_partitions_are_kept_in_order_of_their_tiers() -> None:
    """Those of one tier as they were named, and so they are shown."""
    room = Site("PartitionName=low Nodes=ALL\nPartitionName=high Nodes=ALL PriorityTier=9")
    assert room.job(partition="main,low,high").partition == "high,main,low"


@pytest.mark.parametrize(
    ("asked", "kept"), [("away", "main"), ("next", "main"), ("next,away,quick", "main,quick")]
)
def test_an_alternate_takes_the_jobs_of_a_closed_partition(asked: str, kept: str) -> None:
    """As in Slurm 22.05, also where it is closed itself and names another; DOWN ones wait."""
    room = Site(
        "PartitionName=away Nodes=n[1-4] State=DRAIN Alternate=main\n"
        "PartitionName=next Nodes=n[1-4] State=INACTIVE Alternate=away\n"
        "PartitionName=quick Nodes=n[1-4]\n"
        "PartitionName=down Nodes=n[1-4] State=DOWN Alternate=main"
    )
    assert room.job(partition=asked).partition == kept
    assert room.job(partition="down").partition == "down"


def test_alternates_in_a_circle_refuse() -> None:
    room = Site(
        "PartitionName=a Nodes=n[1-4] State=DRAIN Alternate=b\n"
        "PartitionName=b Nodes=n[1-4] State=INACTIVE Alternate=a"
    )
    assert room.refused(partition="a") == Errno.ESLURM_PARTITION_NOT_AVAIL


def test_partitions_out_of_service_are_no_limit() -> None:
    """EnforcePartLimits=ALL: the job goes to the others."""
    room = Site("PartitionName=away Nodes=n[1-4] State=DRAIN DefaultTime=10\nEnforcePartLimits=ALL")
    assert room.job(partition="away,main").partition == "main"
    assert room.refused(partition="away") == Errno.ESLURM_PARTITION_NOT_AVAIL


def test_named_nodes_outside_the_partition_are_refused_as_such() -> None:
    room = Site("EnforcePartLimits=ALL")
    code = Errno.ESLURM_REQUESTED_NODES_NOT_IN_PARTITION
    assert room.refused(partition="gpu", node_list="n4") == code
    code = Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE
    assert Site().refused(partition="gpu", node_list="n4") == code


# Who may ----------------------------------------------------------------------------------------


def test_no_user_submits_for_another() -> None:
    """RELIABILITY 56, 65: a uid inside the request is not believed, whoever sends it."""
    assert Site().refused(uid=1002) == Errno.ESLURM_USER_ID_MISSING
    assert Site().refused(ROOT, uid=1002) == Errno.ESLURM_USER_ID_MISSING


def test_operators_alone_set_priority_and_negative_nice() -> None:
    assert Site().refused(nice=-1) == Errno.ESLURM_INVALID_NICE
    job = Site().job(ROOT, nice=-1, priority=5)
    assert (job.nice, job.priority) == (-1, 5)


def test_a_users_own_priority_counts_for_nothing() -> None:
    """Slurm takes such a job and gives it the priority that all get; 0 holds it all the same."""
    assert Site().job(ALICE, priority=5).priority == Site().job(ALICE).priority
    assert Site().job(ALICE, priority=0).priority == 0


@pytest.mark.parametrize(
    ("line", "who", "code"),
    [
        ("State=INACTIVE", ALICE, Errno.ESLURM_PARTITION_NOT_AVAIL),
        ("State=DRAIN", ALICE, Errno.ESLURM_PARTITION_NOT_AVAIL),
        ("RootOnly=YES", ALICE, Errno.ESLURM_ACCESS_DENIED),
        ("DisableRootJobs=YES", ROOT, Errno.ESLURM_USER_ID_MISSING),
        ("ReqResv=YES", ALICE, Errno.ESLURM_ACCESS_DENIED),
        ("AllowGroups=admins", ALICE, Errno.ESLURM_JOB_MISSING_REQUIRED_PARTITION_GROUP),
    ],
)
def test_partitions_that_do_not_take_the_job(line: str, who: Caller, code: int) -> None:
    room = Site(f"PartitionName=x Nodes=n1 DefMemPerCPU=100 {line}")
    assert room.refused(who, partition="x") == code


def test_a_job_that_reboots_its_nodes_has_them_for_itself() -> None:
    """--reboot: of administrators only; without RebootProgram it is a note, as in Slurm."""
    no = Site().answer(ALICE, flags=REQ_REBOOT)
    detail = "rebooting of nodes is only allowed for admins"
    assert no == Reject(Errno.ESLURM_ACCESS_DENIED, detail)
    assert Site().job(ROOT, flags=REQ_REBOOT).request.flags & (REQ_REBOOT | REQ_EXCLUSIVE)
    able = Site("RebootProgram=/bin/true").job(ROOT, flags=REQ_REBOOT)
    assert able.request.flags & REQ_EXCLUSIVE


def test_a_burst_buffer_is_a_note_until_a_plugin_is_wanted() -> None:
    """Slurm takes it without BurstBufferType, too."""
    plain = Site()
    assert plain.job(burst_buffer="capacity=10G").request.burst_buffer == "capacity=10G"
    assert plain.cluster.buffers == {}
    with_plugin = Site("BurstBufferType=burst_buffer/lua")
    job = with_plugin.job(burst_buffer="#BB_LUA pool=fast capacity=10G")
    buffer = with_plugin.cluster.buffers[job.job_id]
    assert (buffer.state, buffer.pool, buffer.size) == (BufferState.PENDING, "fast", 10 << 30)


def test_group_and_state_that_let_in() -> None:
    """A member of the group passes, and a DOWN partition queues."""
    room = Site("PartitionName=x Nodes=n1 DefMemPerCPU=100 AllowGroups=hpc State=DOWN")
    assert room.job(partition="x").state == JobState.PENDING


def test_several_partitions_need_one_that_can() -> None:
    """Partitions whose nodes never could are left out, with ALL, too: nodes are no limit."""
    for enforce in ("NO", "ANY", "ALL"):
        room = Site(f"EnforcePartLimits={enforce}")
        assert room.job(partition="debug,main", gpus="1").partition == "main"
    room = Site("EnforcePartLimits=ALL")
    code = room.refused(partition="debug,main", gpus="1", time_limit_min=31)
    assert code == Errno.ESLURM_INVALID_TIME_LIMIT


def test_a_least_time_over_the_partitions_is_refused() -> None:
    """A longer limit may be cut to the least time; a least time may not."""
    assert Site().job(partition="debug", time_limit_min=60, time_min_min=20)
    code = Site().refused(partition="debug", time_limit_min=60, time_min_min=40)
    assert code == Errno.ESLURM_INVALID_TIME_MIN_LIMIT
    job = Site().job(partition="debug,main", time_limit_min=60, time_min_min=40)
    assert job.partition == "main"


def test_the_last_of_several_partitions_gives_the_error() -> None:
    """As in Slurm. A name of no partition has an error of its own."""
    room = Site("EnforcePartLimits=ANY\nPartitionName=bare Nodes=n4 MaxTime=60")
    for names, code in (
        ("debug,bare", Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE),
        ("bare,debug", Errno.ESLURM_INVALID_TIME_LIMIT),
    ):
        assert room.refused(partition=names, time_limit_min=31, gpus="1") == code
    unknown = room.answer(partition="main,nope,gone")
    assert isinstance(unknown, Reject)
    assert unknown.detail == "invalid partition specified: nope"


@pytest.mark.parametrize(
    ("request_fields", "code"),
    [
        ({"time_limit_min": 31}, Errno.ESLURM_INVALID_TIME_LIMIT),
        ({"nodes_min": 2, "nodes_max": 2}, Errno.ESLURM_INVALID_NODE_COUNT),
        ({"ntasks": 17}, Errno.ESLURM_TOO_MANY_REQUESTED_CPUS),
    ],
)
def test_limits_of_a_partition_refuse_or_make_wait(
    request_fields: dict[str, int], code: int
) -> None:
    """EnforcePartLimits=ANY refuses what NO lets wait, unless another partition allows it."""
    assert Site("EnforcePartLimits=ANY").refused(partition="debug", **request_fields) == code
    assert Site().job(partition="debug", **request_fields).state == JobState.PENDING
    both = Site("EnforcePartLimits=ANY").job(partition="debug,main", **request_fields)
    assert both.partition == "main"


# What can never run -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "request_fields",
    [
        {"nodes_min": 3, "nodes_max": 3, "gres": "gpu:1"},
        {"gpus": "9"},
        {"gres": "gpu:a100:5"},
        {"node_list": "n4", "partition": "gpu"},
        {"constraint": "gpunode&cpunode"},
        {"tmp_mib": 10},
        {"ntasks": 17, "nodes_min": 1, "nodes_max": 1},
    ],
)
def test_requests_that_no_node_could_ever_serve(request_fields: dict[str, object]) -> None:
    code = Site().refused(**request_fields)
    assert code == Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE


@pytest.mark.parametrize(
    ("request_fields", "subject"),
    [
        ({"cpus_per_task": 17}, "CPU count per node"),
        ({"mem_per_node_mib": 65000}, "Memory specification"),
        ({"cores_per_socket": 9}, "Socket, core and/or thread specification"),
        ({"tmp_mib": 10}, "Temporary disk specification"),
    ],
)
def test_what_no_node_has_enough_of_is_named(
    request_fields: dict[str, object], subject: str
) -> None:
    outcome = Site().answer(**request_fields)
    assert isinstance(outcome, Reject)
    assert outcome.detail == f"{subject} can not be satisfied"


def test_a_node_both_asked_for_and_excluded() -> None:
    """The names are what is wrong; of more names than nodes the others will do."""
    code = Site().refused(node_list="n1", exclude="n1")
    assert code == Errno.ESLURM_INVALID_NODE_NAME
    job = Site().job(node_list="n[1-2]", exclude="n1", nodes_min=1, nodes_max=1)
    assert job.state == JobState.PENDING


def test_a_changed_node_changes_the_answer() -> None:
    """What is remembered about nodes does not outlive them."""
    room = Site()
    room.refused(constraint="gpunode&cpunode")
    changed = ev.NodeUpdated(
        START_US, (0,), {"features_active": ("gpunode", "cpunode"), "features": ("gpunode",)}
    )
    apply_all(room.cluster, [changed])
    assert room.job(constraint="gpunode&cpunode").state == JobState.PENDING


@pytest.mark.parametrize(
    ("request_fields", "code"),
    [
        ({"constraint": "gpunode*0"}, Errno.ESLURM_INVALID_FEATURE),
        ({"constraint": "[gpunode|cpunode"}, Errno.ESLURM_INVALID_FEATURE),
        ({"constraint": "[gpunode|[cpunode]]"}, Errno.ESLURM_INVALID_FEATURE),
        ({"prefer": "nosuch"}, Errno.ESLURM_INVALID_PREFER),
        ({"batch_features": "nosuch"}, Errno.ESLURM_BATCH_CONSTRAINT),
        ({"batch_features": "gpunode"}, Errno.ESLURM_BATCH_CONSTRAINT),
        ({"batch_features": "[", "constraint": "gpunode"}, Errno.ESLURM_BATCH_CONSTRAINT),
        ({"node_sizes": "2,x", "nodes_min": 2, "nodes_max": 2}, Errno.ESLURM_INVALID_NODE_COUNT),
        ({"node_sizes": "2,4", "nodes_min": 1, "nodes_max": 4}, Errno.ESLURM_INVALID_NODE_COUNT),
        ({"constraint": "(gpunode"}, Errno.ESLURM_INVALID_FEATURE),
        ({"constraint": "ib,nofeat"}, Errno.ESLURM_INVALID_FEATURE),
        ({"licenses": "matlab:4"}, Errno.ESLURM_INVALID_LICENSES),
        ({"licenses": "matlab:x"}, Errno.ESLURM_INVALID_LICENSES),
        ({"gres": "fpga:1"}, Errno.ESLURM_INVALID_GRES),
        ({"gpus": "a100:b"}, Errno.ESLURM_INVALID_GRES),
        ({"gpus": "1", "nodes_min": 2, "nodes_max": 2}, Errno.ESLURM_INVALID_GRES),
        ({"gpus": "1", "gres": "gpu:2"}, Errno.ESLURM_INVALID_GRES),
        ({"gpus": "4", "gpus_per_task": "1", "ntasks": 3}, Errno.ESLURM_INVALID_GRES),
        ({"gpus_per_node": "1", "gres": "gpu:2"}, Errno.ESLURM_INVALID_GRES),
        ({"node_list": "n[1-"}, Errno.ESLURM_INVALID_NODE_NAME),
        ({"nodes_min": 3, "nodes_max": 2}, Errno.ESLURM_INVALID_NODE_COUNT),
        ({"mem_per_node_mib": 1, "mem_per_cpu_mib": 1}, Errno.ESLURM_INVALID_TASK_MEMORY),
        ({"reservation": "maint"}, Errno.ESLURM_RESERVATION_INVALID),
        ({"mcs_label": "x"}, Errno.ESLURM_INVALID_MCS_LABEL),
        ({"array": "1-3:0"}, Errno.ESLURM_INVALID_ARRAY),
    ],
)
def test_bad_requests_get_slurms_number(request_fields: dict[str, object], code: int) -> None:
    """A client that does not check is checked."""
    assert Site("Licenses=matlab:3").refused(**request_fields) == code


def test_parts_of_gpus_that_no_node_has_are_refused() -> None:
    """Known to GresTypes, but on no node."""
    room = Site("GresTypes=gpu,shard,mps")
    for name in ("shard", "mps"):
        assert room.refused(gres=f"{name}:1") == Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE


def test_choices_of_nodes_that_can_never_be() -> None:
    """Counts no cluster of these nodes meets, and sizes beyond it, are refused as Slurm does."""
    unavailable = Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE
    assert Site().refused(constraint="gpunode*4", nodes_min=4, nodes_max=4) == unavailable
    assert Site().refused(constraint="[gpunode&cpunode]") == unavailable
    counted = Site().job(constraint="[gpunode*1&cpunode*1]")
    assert counted.request.nodes_min == 2


def test_script_is_there_and_not_too_large() -> None:
    room = Site("SchedulerParameters=max_script_size=20")
    assert room.refused(script=b"") == Errno.ESLURM_JOB_SCRIPT_MISSING
    assert room.refused(script=b"#!/bin/sh\n" + b"x" * 11) == Errno.ESLURM_PATHNAME_TOO_LONG


def test_no_more_jobs_than_the_controller_may_hold() -> None:
    """Each task of an array counts. sbatch tries again later."""
    room = Site("MaxJobCount=9")
    room.job(array="0-6")
    room.job()
    assert room.refused(array="0-1") == 11
    room.job()
    assert room.refused() == 11


# Accounts, QOS and limits -------------------------------------------------------------------------


NO_LIMITS = Limits()


def with_accounts(
    more: str = "associations,limits,qos",
    *,
    user: Limits = NO_LIMITS,
    group: Limits = NO_LIMITS,
    qos: Limits = NO_LIMITS,
    flags: tuple[str, ...] = (),
) -> Site:
    """Return a room in which alice works for physics."""
    room = Site(
        f"AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageEnforce={more}"
        if more
        else ""
    )
    apply_all(
        room.cluster,
        [
            ev.QosChanged(
                START_US,
                (Qos(1, "normal", limits=qos, flags=flags), Qos(2, "high")),
            ),
            ev.AssocChanged(
                START_US,
                changed=(
                    Association(1, "root"),
                    Association(2, "physics", parent_id=1, limits=group),
                    Association(3, "physics", "alice", parent_id=2, qos=("normal",), limits=user),
                    Association(4, "physics", "bob", parent_id=2, qos=("normal", "high")),
                    Association(
                        5, "physics", "alice", "gpu", parent_id=2, qos=("high",),
                        default_qos="high",
                    ),
                ),
                users=(UserRecord("alice", "physics"), UserRecord("bob", "physics")),
            ),
        ],
    )  # fmt: skip
    return room


def test_account_and_qos_of_a_user() -> None:
    """The default account, the association of the partition before the general one."""
    room = with_accounts()
    job = room.job()
    assert (job.account, job.qos, job.assoc_id) == ("physics", "normal", 3)
    job = room.job(partition="gpu")
    assert (job.qos, job.assoc_id) == ("high", 5)
    assert room.job(account="PHYSICS").account == "physics"


def with_wckeys(more: str) -> Site:
    """Return a room in which alice has the keys wa and wb, and bob none."""
    room = with_accounts(more)
    users = (
        UserRecord("alice", "physics", default_wckey="wb", wckeys=("wa", "wb")),
        UserRecord("bob", "physics"),
    )
    apply_all(room.cluster, [ev.AssocChanged(START_US, users=users)])
    return room


def test_a_job_has_its_users_default_wckey() -> None:
    """Marked by a star, where keys are tracked."""
    room = with_wckeys("associations\nTrackWCKey=yes")
    assert room.job().request.wckey == "*wb"
    assert room.job(wckey="other").request.wckey == "other"
    assert room.job(BOB).request.wckey == "*"  # as in Slurm: none by default
    assert with_wckeys("associations").job().request.wckey == ""


@pytest.mark.parametrize("word", ["associations", "limits"])
def test_an_unknown_qos_is_dropped_where_qos_are_not_enforced(word: str) -> None:
    """As in Slurm 22.05: a script's --qos of another cluster does not stop it there."""
    assert with_accounts(word).job(qos="nope").qos == ""
    assert with_accounts("qos").refused(qos="nope") == Errno.ESLURM_INVALID_QOS


@pytest.mark.parametrize("word", ["wckeys", "all"])
def test_wckeys_are_enforced(word: str) -> None:
    """--wckey takes what sacctmgr gave, else the default counts; 22.05 lets users have none."""
    room = with_wckeys(word)
    assert room.job().request.wckey == "*wb"
    assert room.job(wckey="wa").request.wckey == "wa"
    assert room.refused(wckey="other") == Errno.ESLURM_INVALID_WCKEY
    with_none = with_accounts(word)
    assert with_none.job().request.wckey == "*"
    assert with_none.refused(wckey="wa") == Errno.ESLURM_INVALID_WCKEY


def test_without_enforcement_no_user_is_refused() -> None:
    """Associations are used where they exist."""
    room = with_accounts("")
    stranger = Caller(uid=7, gid=7, user_name="eve")
    assert room.job(stranger, account="none").assoc_id == 0
    assert with_accounts().refused(stranger) == Errno.ESLURM_INVALID_ACCOUNT


def test_a_relative_qos_belongs_to_one_partition() -> None:
    """Its percentages are of that partition.

    No job may name it, and no other partition may have it.
    """
    room = Site("PartitionName=few Nodes=n1 QOS=part")
    for flags in ((), ("Relative",)):
        records = (Qos(1, "part", flags=flags), Qos(2, "high"))
        apply_all(room.cluster, [ev.QosChanged(START_US, records)])
        message = UpdatePartition(bytes(16), "main", {"qos": "part"})
        outcome = update_partition(room.cluster, message, Context(room.conf, START_US, ROOT))
        if flags:
            assert room.refused(qos="part") == Errno.ESLURM_INVALID_QOS
            assert isinstance(outcome, Reject)
            assert "few" in outcome.detail
        else:
            assert room.job(qos="part").qos == "part"
            assert isinstance(outcome, Decision)


def test_a_server_may_be_left_out_if_only_one_has_the_licence() -> None:
    """With RemoteFuzzyMatch. A local licence comes first."""
    licenses = (("ansys", 2), ("fluent@flex", 4), ("star@a", 1), ("star@b", 1))
    for more, code in (("", Errno.ESLURM_INVALID_LICENSES), ("RemoteFuzzyMatch", 0)):
        room = Site(f"LicenseParameters={more}" if more else "")
        apply_all(room.cluster, [ev.LicensesUpdated(START_US, licenses)])
        if code:
            assert room.refused(licenses="fluent:2") == code
            continue
        assert room.job(licenses="fluent:2,ansys").request.licenses == "fluent@flex:2,ansys"
        assert room.job(licenses="ansys|fluent").request.licenses == "ansys|fluent@flex"
        assert room.refused(licenses="star") == Errno.ESLURM_INVALID_LICENSES


def test_qos_has_to_exist_and_to_be_allowed() -> None:
    assert with_accounts().refused(qos="fast") == Errno.ESLURM_INVALID_QOS
    assert with_accounts().refused(qos="high") == Errno.ESLURM_INVALID_QOS
    assert with_accounts().job(BOB, qos="high").qos == "high"


def test_of_several_qos_the_highest_that_takes_the_job_counts() -> None:
    """`-q normal,high`: by priority, not by place; those that refuse the job are passed over."""
    room = with_accounts()
    records = (
        Qos(1, "normal", priority=5),
        Qos(2, "high", priority=50, flags=("DenyOnLimit",), limits=Limits(max_wall_min=10)),
        Qos(3, "urgent", priority=90),
    )
    apply_all(room.cluster, [ev.QosChanged(START_US, records)])
    job = room.job(BOB, qos="normal,high", time_limit_min=10)
    assert (job.qos, job.request.qos) == ("high", "high,normal"), "each pass chooses anew"
    assert room.job(BOB, qos="high,normal", time_limit_min=11).qos == "normal"
    assert room.job(BOB, qos="urgent,high,normal", time_limit_min=5).qos == "high"
    assert room.refused(BOB, qos="urgent,urgent") == Errno.ESLURM_INVALID_QOS
    for text in ("high,", ",high", "high,none", ","):
        assert room.refused(BOB, qos=text) == Errno.ESLURM_INVALID_QOS


@pytest.mark.parametrize(
    ("limits", "array", "most"),
    [
        ({"user": Limits(max_submit=2)}, "", 2),
        ({"group": Limits(grp_submit=2)}, "", 2),
        ({"qos": Limits(max_submit=2)}, "", 2),
        ({"qos": Limits(grp_submit=2)}, "", 2),
        ({"qos": Limits(max_submit_per_account=2)}, "", 2),
        ({"user": Limits(max_submit=7)}, "1-3", 2),
    ],
)
def test_submit_limits(limits: dict[str, Limits], array: str, most: int) -> None:
    """Queued and running jobs together, each task of an array for itself."""
    room = with_accounts(**limits)  # type: ignore[arg-type]
    jobs = [room.job(array=array) for _ in range(most)]
    assert room.refused(array=array) == Errno.ESLURM_ACCOUNTING_POLICY
    end(room, jobs[0], JobState.CANCELLED)
    room.job(array=array)


def test_deny_on_limit_refuses_what_would_wait() -> None:
    """Without the flag a too large job is queued."""
    tight = Limits(max_tres_per_job={"cpu": 4}, max_wall_min=30)
    assert with_accounts(qos=tight).job(ntasks=5, time_limit_min=20).state == JobState.PENDING
    strict = with_accounts(qos=tight, flags=("DenyOnLimit",))
    assert strict.refused(ntasks=5, time_limit_min=20) == Errno.ESLURM_ACCOUNTING_POLICY
    assert strict.refused(ntasks=4, time_limit_min=31) == Errno.ESLURM_ACCOUNTING_POLICY
    strict.job(ntasks=4, time_limit_min=30)


@pytest.mark.parametrize("level", ["user", "group", "qos"])
def test_components_count_together_against_limits_of_all_jobs(level: str) -> None:
    """3 + 2 CPUs where all may have four: refused. A limit on each job is not on their sum."""
    limits = Limits(grp_tres={"cpu": 4}, max_tres_per_job={"cpu": 3})
    if level == "qos":
        limits = Limits(max_tres_per_user={"cpu": 4}, max_tres_per_job={"cpu": 3})
    for flags in ((), ("DenyOnLimit",)):
        site = with_accounts(flags=flags, **{level: limits})  # type: ignore[arg-type]
        too_many = [JobRequest(ntasks=3), JobRequest(ntasks=2)]
        outcome = site.submit_parts(*too_many)
        if flags:
            assert isinstance(outcome, Reject) and outcome.code == Errno.ESLURM_ACCOUNTING_POLICY
        else:
            assert isinstance(outcome, Decision)  # it waits
        assert isinstance(site.submit_parts(JobRequest(ntasks=3), JobRequest()), Decision)


# Arrays -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "ranges", "limit"),
    [
        ("5", ((5, 5, 1),), 0),
        ("0-9", ((0, 9, 1),), 0),
        ("0-9:4%2", ((0, 8, 4),), 2),
        ("1,3,5-9:2", ((1, 1, 1), (3, 3, 1), (5, 9, 2)), 0),
        ("3,1,2", ((1, 3, 1),), 0),
        ("1-5,3-8", ((1, 8, 1),), 0),
        ("[1-3]%0", ((1, 3, 1),), 0),
        ("7-7", ((7, 7, 1),), 0),
        ("1,,2,", ((1, 2, 1),), 0),
        ("[,3]%2", ((3, 3, 1),), 2),
        ("1, 2% 2", ((1, 2, 1),), 2),
    ],
)
def test_array_texts(text: str, ranges: task_ranges.TaskRanges, limit: int) -> None:
    array = parse_array(text, 1001)
    assert (array.ranges, array.limit) == (ranges, limit)


@pytest.mark.parametrize(
    "text", ["", "-1", "5-1", "a", "1-", ",", "1-3:0", "1%", "1001", "1 2", "1 ,2"]
)
def test_bad_array_texts(text: str) -> None:
    with pytest.raises(ArrayError):
        parse_array(text, 1001)


@given(tasks=st.sets(st.integers(0, 300), min_size=1))
def test_array_names_exactly_the_tasks_given(tasks: set[int]) -> None:
    """However they are grouped, ranges ascend and hold each task once."""
    array = parse_array(",".join(map(str, sorted(tasks, key=lambda task: -task))), 1001)
    assert list(task_ranges.tasks(array.ranges)) == sorted(tasks)


def test_array_is_one_record_whatever_its_size() -> None:
    room = Site("MaxArraySize=100001\nMaxJobCount=200000")
    job = room.job(array="0-99999%8")
    assert (job.array_pending, job.array_limit) == (((0, 99999, 1),), 8)
    assert (job.array_job_id, job.array_count, len(room.cluster.jobs)) == (job.job_id, 100000, 1)


# Dependencies -----------------------------------------------------------------------------------


def test_dependency_keeps_a_job_waiting_until_it_is_met() -> None:
    room = Site()
    first = room.job()
    second = room.job(dependency=f"afterok:{first.job_id}")
    assert (second.reason, second.eligible_us) == (Reason.Dependency, 0)
    end(room, first)
    assert (second.reason, second.dependencies) == (Reason.NONE, ())
    assert second.eligible_us == START_US


def test_failure_of_the_first_is_final() -> None:
    """afterok of a failed job never comes true; what then is the user's or the site's choice."""
    room = Site()
    first = room.job()
    waits = room.job(dependency=f"afterok:{first.job_id}")
    ends = room.job(dependency=f"afterok:{first.job_id}", flags=REQ_KILL_INVALID_DEP)
    behind = room.job(dependency=f"afternotok:{ends.job_id}")
    end(room, first, JobState.FAILED)
    assert (waits.state, waits.reason) == (JobState.PENDING, Reason.DependencyNeverSatisfied)
    assert ends.state == JobState.CANCELLED
    assert behind.eligible_us == START_US


def test_sites_may_cancel_jobs_whose_dependency_can_never_be_met() -> None:
    """kill_invalid_depend, unless the user's option says no."""
    room = Site("DependencyParameters=kill_invalid_depend")
    first = room.job()
    end(room, first, JobState.FAILED)
    late = room.job(dependency=f"afterok:{first.job_id}")
    assert late.state == JobState.CANCELLED
    kept = room.job(dependency=f"afterok:{first.job_id}", flags=REQ_KEEP_INVALID_DEP)
    assert (kept.state, kept.reason) == (JobState.PENDING, Reason.DependencyNeverSatisfied)


def test_any_of_several_is_enough() -> None:
    room = Site()
    first, two = room.job(), room.job()
    either = room.job(dependency=f"afterok:{first.job_id}?afterok:{two.job_id}")
    end(room, first, JobState.FAILED)
    assert either.state == JobState.PENDING and not either.eligible_us
    end(room, two)
    assert either.eligible_us == START_US


def test_what_is_met_already_is_not_waited_for() -> None:
    """A finished job satisfies, an unknown one too if its success does not matter."""
    room = Site()
    done = room.job()
    end(room, done)
    assert room.job(dependency=f"afterok:{done.job_id}").eligible_us == START_US
    assert room.job(dependency="afterany:4000").eligible_us == START_US
    assert room.refused(dependency="afterok:4000") == Errno.ESLURM_DEPENDENCY


def _follow_task(room: Site, array: Job, task_id: int, state: JobState) -> None:
    """Let one waiting task of an array go its own way and end."""
    job_id = room.cluster.next_job_id
    is_last = sum(1 for _ in task_ranges.tasks(array.array_pending)) == 1
    job_id = array.job_id if is_last else job_id
    apply_all(room.cluster, [ev.ArrayTaskSplit(room.now_us, array.job_id, task_id, job_id)])
    end(room, room.cluster.jobs[job_id], state)


def _by_task(room: Site, array_job_id: int) -> dict[int, tuple[str, str, bool]]:
    """Return state, reason and whether it is eligible of each task of its own record."""
    by_task = {}
    for task_id, job_id in room.cluster.job_index.arrays.get(array_job_id, {}).items():
        job = room.cluster.jobs[job_id]
        by_task[task_id] = (
            JobState(job.state).name,
            Reason(job.reason).name,
            bool(job.eligible_us),
        )
    return by_task


RUNS = ("PENDING", "NONE", True)
NEVER = ("PENDING", "DependencyNeverSatisfied", False)
KILLED = ("CANCELLED", "DependencyNeverSatisfied", False)


@pytest.mark.parametrize("is_late", [False, True])
def test_each_task_follows_the_one_of_its_index(is_late: bool) -> None:
    """A task that has no counterpart follows all of the other array, as in Slurm."""
    room = Site()
    first = room.job(array="1-3")
    text = f"aftercorr:{first.job_id}"

    def followers() -> list[Job]:
        return [
            room.job(array="1-4", dependency=text),
            room.job(array="1-4", dependency=text, flags=REQ_KILL_INVALID_DEP),
        ]

    jobs = [] if is_late else followers()
    for task_id in (1, 2, 3):
        state = JobState.FAILED if task_id == 2 else JobState.COMPLETED
        _follow_task(room, first, task_id, state)
    jobs = jobs or followers()
    stays, goes = (_by_task(room, job.job_id) for job in jobs)
    assert stays == {1: RUNS, 2: NEVER, 3: RUNS, 4: NEVER}
    assert goes == {1: RUNS, 2: KILLED, 3: RUNS, 4: KILLED}


def test_a_chain_of_arrays_ends_task_by_task() -> None:
    room = Site()
    first = room.job(array="1-3")
    second, third = (
        room.job(array="1-3", dependency=f"aftercorr:{job_id}", flags=REQ_KILL_INVALID_DEP)
        for job_id in (first.job_id, first.job_id + 1)
    )
    _follow_task(room, first, 2, JobState.FAILED)
    assert _by_task(room, second.job_id) == {2: KILLED}
    assert _by_task(room, third.job_id) == {2: KILLED}


def test_an_array_that_follows_one_long_over_stays_one_record() -> None:
    room = Site()
    first = room.job(array="1-3")
    for task_id in (1, 2, 3):
        _follow_task(room, first, task_id, JobState.COMPLETED)
    job = room.job(array="1-3", dependency=f"aftercorr:{first.job_id}")
    assert (job.reason, job.eligible_us, job.dependencies) == (Reason.NONE, START_US, ())
    assert job.array_pending


def test_an_array_that_is_cancelled_whole_is_over() -> None:
    room = Site()
    first = room.job(array="1-3")
    dependent = room.job(dependency=f"afterany:{first.job_id}_2")
    whole = room.job(dependency=f"afterany:{first.job_id}")
    end(room, first, JobState.CANCELLED)
    assert dependent.eligible_us and whole.eligible_us


def test_indexes_in_brackets_are_so_many_terms() -> None:
    room = Site()
    first = room.job(array="1-9")
    job = room.job(dependency=f"afterok:{first.job_id}_[1-2,7]:{first.job_id}_9,singleton")
    assert [(term.kind, term.task_id) for term in job.dependencies if term.job_id] == [
        ("afterok", 1), ("afterok", 2), ("afterok", 7), ("afterok", 9)
    ]  # fmt: skip
    assert room.refused(dependency=f"afterok:{first.job_id}_[8-10]") == Errno.ESLURM_DEPENDENCY


def test_singleton_runs_one_at_a_time_per_name() -> None:
    room = Site()
    first = room.job(name="one", dependency="singleton")
    second = room.job(name="one", dependency="singleton")
    other = room.job(name="two", dependency="singleton")
    theirs = room.job(BOB, name="one", dependency="singleton")
    assert first.eligible_us and other.eligible_us and theirs.eligible_us
    assert not second.eligible_us
    end(room, first)
    assert second.eligible_us


@pytest.mark.parametrize(
    "text",
    ["after", "after:", "after:x", "after:0", "afterok:1,afterok:1?afterok:1", "afterok:1+5",
     "singleton:1", "grow:1", "after:1:", ",", "afterok:1_x"],
)  # fmt: skip
def test_bad_dependencies(text: str) -> None:
    room = Site()
    room.job()
    assert room.refused(dependency=text) == Errno.ESLURM_DEPENDENCY


def test_a_job_that_is_to_grow_is_not_supported() -> None:
    """As where select/cons_tres is the plugin: Slurm does not call it an unknown type."""
    room = Site()
    first = room.job()
    assert room.refused(dependency=f"expand:{first.job_id}") == Errno.ESLURM_NOT_SUPPORTED


def test_dependency_texts() -> None:
    """Types in any case, lists of ids, tasks, delays, ids alone."""
    room = Site()
    array, plain = room.job(array="1-3"), room.job()
    text = f"AfterOK:{array.job_id}_2:{plain.job_id},after:{plain.job_id}+5,{array.job_id}_*"
    job = room.job(dependency=text)
    terms = job.dependencies
    assert [(term.kind, term.job_id, term.task_id, term.delay_min) for term in terms] == [
        ("afterok", array.job_id, 2, 0),
        ("afterok", plain.job_id, NO_VAL, 0),
        ("after", plain.job_id, NO_VAL, 5),
        ("afterany", array.job_id, NO_VAL, 0),
    ]  # fmt: skip


def test_a_dependency_on_ended_jobs_is_judged_at_once() -> None:
    """`scontrol update Dependency=` judges the terms itself, because no later event would."""
    room = Site()
    good, bad = room.job(), room.job()
    end(room, good)
    end(room, bad, JobState.FAILED)
    job = room.job(dependency=f"afterok:{room.job().job_id}")
    for other, reason in ((good, Reason.NONE), (bad, Reason.DependencyNeverSatisfied)):
        settings = {"dependency": f"afterok:{other.job_id}"}
        message = UpdateJob(bytes(16), settings, [str(job.job_id)])
        outcome = update_job(room.cluster, message, Context(room.conf, room.now_us, ROOT))
        assert isinstance(outcome, Decision), outcome
        apply_all(room.cluster, list(outcome.events))
        assert (job.reason, bool(job.dependencies)) == (reason, reason != Reason.NONE)


def test_a_begin_time_given_to_a_held_job_counts_when_it_is_let_go() -> None:
    """It was eligible before it was held; that is over."""
    room = Site()
    job = room.job()
    context = Context(room.conf, room.now_us, ROOT)
    begin_us = room.now_us + 60_000_000
    for rule, message in (
        (hold_jobs, HoldJobs(bytes(16), [str(job.job_id)])),
        (update_job, UpdateJob(bytes(16), {"starttime": str(begin_us)}, [str(job.job_id)])),
        (hold_jobs, HoldJobs(bytes(16), [str(job.job_id)], release=True)),
    ):
        outcome = rule(room.cluster, message, context)
        assert isinstance(outcome, Decision), outcome
        apply_all(room.cluster, list(outcome.events))
    assert (job.begin_us, job.eligible_us, job.reason) == (begin_us, 0, Reason.BeginTime)
    assert job.job_id in room.cluster.job_index.ineligible


def test_a_dependency_given_to_a_held_job_counts_when_it_is_let_go() -> None:
    room = Site()
    other, job = room.job(), room.job()
    context = Context(room.conf, room.now_us, ROOT)
    settings = {"dependency": f"afterany:{other.job_id}"}
    for rule, message in (
        (hold_jobs, HoldJobs(bytes(16), [str(job.job_id)])),
        (update_job, UpdateJob(bytes(16), settings, [str(job.job_id)])),
        (hold_jobs, HoldJobs(bytes(16), [str(job.job_id)], release=True)),
    ):
        outcome = rule(room.cluster, message, context)
        assert isinstance(outcome, Decision), outcome
        apply_all(room.cluster, list(outcome.events))
    assert (job.eligible_us, job.reason) == (0, Reason.Dependency)


def test_updates_cannot_close_a_circle() -> None:
    room = Site()
    first = room.job()
    second = room.job(dependency=f"afterok:{first.job_id}")
    third = room.job(dependency=f"afterok:{second.job_id}")
    circle = dependency_text.for_update(room.cluster, first, f"afterany:{third.job_id}")
    assert isinstance(circle, Reject) and circle.code == Errno.ESLURM_CIRCULAR_DEPENDENCY
    itself = dependency_text.for_update(room.cluster, first, f"afterany:{first.job_id}")
    assert isinstance(itself, Reject) and itself.code == Errno.ESLURM_DEPENDENCY
    assert dependency_text.for_update(room.cluster, second, "") == ((), False)


@given(
    fields=st.fixed_dictionaries(
        {},
        optional={
            name: st.text(max_size=8) | st.text(alphabet="0123456789afgpu:,-_?+*%|&()[]")
            for name in (
                "partition", "constraint", "gres", "gpus", "node_list", "exclude", "licenses",
                "dependency", "array", "qos", "account", "reservation",
            )
        }
        | {
            name: st.integers(-(2**40), 2**40)
            for name in (
                "ntasks", "nodes_min", "nodes_max", "cpus_per_task", "mem_per_node_mib",
                "ntasks_per_node", "time_limit_min", "begin_us", "deadline_us", "tmp_mib",
            )
        },
    )
)  # fmt: skip
def test_no_request_breaks_the_rule(fields: dict[str, object]) -> None:
    """Every request that the schema allows is accepted or refused."""
    room = Site()
    outcome = room.answer(**fields)
    assert isinstance(outcome, Decision | Reject)


def test_scheduler_parameters_bound_or_open_what_is_accepted() -> None:
    """Arrays, scripts, command lines and --switches are bounded; names may come to be later."""
    room = Site(
        "SchedulerParameters=max_array_tasks=3,max_script_size=1k,max_switch_wait=60,"
        "max_submit_line_size=8"
    )
    assert room.refused(array="0-3") == Errno.ESLURM_INVALID_ARRAY
    assert room.job(array="0-2").array_pending
    assert isinstance(room.answer(script=b"#!" + bytes(1023)), Reject)
    assert isinstance(room.answer(script=b"#!" + bytes(1022)), Decision)
    job = room.job(switches=1, switches_wait_s=3600, submit_line="sbatch job.sh")
    assert (job.request.switches_wait_s, job.request.submit_line) == (60, "sbatch j")


@pytest.mark.parametrize(
    ("option", "code", "request_"),
    [
        ("ignore_prefer_validation", Errno.ESLURM_INVALID_PREFER, {"prefer": "new"}),
        ("ignore_constraint_validation", Errno.ESLURM_INVALID_FEATURE, {"constraint": "new"}),
        ("allow_zero_lic", Errno.ESLURM_INVALID_LICENSES, {"licenses": "matlab:9"}),
    ],
)
def test_what_may_come_to_be_later_is_accepted_where_the_site_says_so(
    option: str, code: int, request_: dict[str, str]
) -> None:
    """Unknown features and more licences than there are; names of licences must be known."""
    assert Site("Licenses=matlab:4").refused(**request_) == code
    room = Site(f"Licenses=matlab:4\nSchedulerParameters={option}")
    room.job(**request_)
    assert room.refused(licenses="unknown:1") == Errno.ESLURM_INVALID_LICENSES
    assert room.refused(prefer="[") == Errno.ESLURM_INVALID_PREFER


def test_a_licence_that_is_named_twice_counts_twice() -> None:
    """As in Slurm; such a job would wait for ever."""
    room = Site("Licenses=matlab:4")
    assert room.refused(licenses="matlab:3,matlab:2") == Errno.ESLURM_INVALID_LICENSES
    room.job(licenses="matlab:2,matlab:2")
    room.job(licenses="matlab:3|matlab:2")


def test_no_licence_may_be_asked_for() -> None:
    """Scripts compute the number. The licence must be known; a negative number is refused."""
    room = Site("Licenses=matlab:4")
    for text in ("matlab:0", "matlab:1,matlab:0", "matlab:0|matlab:4"):
        job = room.job(licenses=text)
        room.run_pass()
        assert (job.state, job.request.licenses) == (JobState.RUNNING, text)
    assert room.cluster.job_counts.licenses_used["matlab"] == 1
    assert room.refused(licenses="unknown:0") == Errno.ESLURM_INVALID_LICENSES
    assert room.refused(licenses="matlab:-1") == Errno.ESLURM_INVALID_LICENSES


def test_licences_of_unknown_servers_are_refused() -> None:
    assert Site("Licenses=fluent:4").refused(licenses="fluent@flex:1") == (
        Errno.ESLURM_INVALID_LICENSES
    )


def test_only_operators_write_the_administrators_comment() -> None:
    """`scontrol show job` shows it as theirs; as for updates. RELIABILITY 57."""
    room = Site()
    refused = room.answer(admin_comment="approved by root")
    assert isinstance(refused, Reject) and refused.code == Errno.ESLURM_ACCESS_DENIED
    assert isinstance(room.answer(ROOT, admin_comment="seen"), Decision)


@pytest.mark.parametrize(
    "recipient",
    [
        *("a@b\nBcc: evil@x", "a@b\rx", "a\x1b[2J@b", "a;b", "a`id`", "$(id)", "a@b,", ","),
        *(
            "|id",
            "a@b,|id",
            "a@b, |id",
            "<|id>",
            '"|id"',
            "/etc/x",
            "a/b",
            "+x",
            "-f",
            "a,-f",
            ":x",
        ),
    ],
)
def test_recipients_of_mail_are_names_and_addresses(recipient: str) -> None:
    """GNU mail runs what follows `|` and writes to what begins with `/`, as SlurmUser.

    RELIABILITY 68.
    """
    refused = Site().answer(mail_user=recipient)
    assert isinstance(refused, Reject)
    assert refused.detail.startswith("mail_user: user names and addresses")


@pytest.mark.parametrize("recipient", ["$USER@site.org", "${USER}@x", "<your address>"])
def test_what_scripts_hold_instead_of_an_address_is_taken(recipient: str) -> None:
    """No shell reads it; the job of who forgot to fill it in would not be accepted."""
    assert not isinstance(Site().answer(mail_user=recipient), Reject)


@pytest.mark.parametrize(
    "recipient", ["ann", "o'brien@a.ie,b+c@d-e.org, _f", "j\u00fcrgen@b x%y@z"]
)
def test_usual_recipients_of_mail(recipient: str) -> None:
    assert isinstance(Site().answer(mail_user=recipient), Decision)


@pytest.mark.parametrize(
    ("request_fields", "code"),
    [
        ({"partition": NO_NAME}, Errno.ESLURM_INVALID_PARTITION_NAME),
        ({"qos": NO_NAME}, Errno.ESLURM_INVALID_QOS),
        ({"batch_features": NO_NAME}, Errno.ESLURM_BATCH_CONSTRAINT),
        ({"gres": NO_NAME}, Errno.ESLURM_INVALID_TRES),
        ({"gres": "gpu:1,"}, Errno.ESLURM_INVALID_TRES),
    ],
)
def test_an_empty_name_is_refused(request_fields: dict[str, str], code: int) -> None:
    """A script with an unset variable must not end up somewhere by default."""
    assert Site().refused(**request_fields) == code


def test_an_empty_account_is_refused_only_where_accounts_are_enforced() -> None:
    """Otherwise the user's default counts, as if there were no option."""
    assert Site().job(account=NO_NAME).account == ""
    enforcing = Site("AccountingStorageEnforce=associations")
    assert enforcing.refused(account=NO_NAME) == Errno.ESLURM_INVALID_ACCOUNT


def test_empty_names_in_a_list_of_partitions_are_passed_over() -> None:
    """`-p main,` means main."""
    assert Site().job(partition="main,,").partition == "main"


def test_an_array_of_too_many_ranges_is_refused() -> None:
    """Two steps that meet make half a million ranges of a short text."""
    with pytest.raises(ArrayError, match="more than 8192 ranges"):
        parse_array("0-3999996:7,1-3999999:11", 4_000_001)
