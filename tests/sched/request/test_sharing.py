"""With whom jobs share nodes, and how many CPUs of a node a partition may have."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from pyslurm_ng.base.numbers import MINUTE_US, REQ_EXCLUSIVE_MCS, REQ_EXCLUSIVE_USER
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.demand.demand import Demand, Demands
from pyslurm_ng.sched.frame.plan import Plan
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.sched.request.sharing import MCS, TOPO, USER, Tenant, may_share, tenant_of
from tests.model.clusters import START_US, cluster_of, conf_of, submit
from tests.sched.whole_nodes import end_due
from tests.world.examples import drawn
from tests.world.passes import run_pass

CONF = r"""
ClusterName=demo
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
SelectTypeParameters=CR_Core
PriorityType=priority/basic
NodeName=n[1-4] CPUs=4 RealMemory=1000
PartitionName=main Nodes=n[1-4] Default=YES MaxTime=INFINITE
PartitionName=own Nodes=n[1-4] MaxTime=INFINITE ExclusiveUser=YES
PartitionName=capped Nodes=n[1-4] MaxTime=INFINITE MaxCPUsPerNode=3
"""
BUILTIN = CONF + "SchedulerType=sched/builtin\n"
ALICE, BOB = 1001, 1002
USERS = {"user": REQ_EXCLUSIVE_USER, "": 0}


@pytest.fixture(params=["backfill", "builtin"])
def conf(request: pytest.FixtureRequest) -> str:
    """The same cluster under both schedulers."""
    return CONF if request.param == "backfill" else BUILTIN


def _job(cluster: Cluster, uid: int = ALICE, minutes: int = 10, **fields: Any) -> int:
    fields.setdefault("nodes_max", fields.get("nodes_min", 0))
    request = JobRequest(**fields)
    return submit(cluster, request, uid=uid, time_limit_min=minutes)


def _plan(cluster: Cluster, conf: str = CONF, now_us: int = START_US) -> Plan:
    return run_pass(cluster, now_us, policy(conf_of(conf)))


def _nodes(cluster: Cluster, job_id: int) -> list[int]:
    return [alloc.node_id + 1 for alloc in cluster.jobs[job_id].nodes]


def test_jobs_that_may_share() -> None:
    """One particular job on a node is enough to keep others away."""
    plain, own, other = Tenant(1), Tenant(1, USER), Tenant(2, USER)
    assert may_share(plain, Tenant(2))
    assert may_share(plain, own)
    assert not may_share(plain, other)
    assert not may_share(own, other)
    assert may_share(Tenant(1, MCS, "a"), Tenant(2, "", "a"))
    assert not may_share(Tenant(1, MCS, "a"), Tenant(1, MCS, "b"))
    assert not may_share(Tenant(1, TOPO), Tenant(1))


@pytest.mark.parametrize("how", ["option", "partition"])
def test_exclusive_user_shares_with_the_same_user_only(conf: str, how: str) -> None:
    """Two jobs of a user go together, those of another keep away, in either direction."""
    cluster = cluster_of(conf_of(conf))
    fields: dict[str, Any] = {"partition": "own"}
    if how == "option":
        fields = {"flags": REQ_EXCLUSIVE_USER}
    first = _job(cluster, ALICE, **fields)
    second = _job(cluster, ALICE, **fields)
    other = _job(cluster, BOB)
    theirs = _job(cluster, BOB, **fields)
    _plan(cluster, conf)
    assert _nodes(cluster, first) == _nodes(cluster, second) == [1]
    assert _nodes(cluster, other) == [2]
    assert _nodes(cluster, theirs)[0] != 1
    assert cluster.jobs[first].nodes[0].cpus == 1


@pytest.mark.parametrize("node_list", ["", "n1"])
def test_any_job_joins_its_users_exclusive_one(conf: str, node_list: str) -> None:
    """It need not keep others away itself; those of other users stay out as before."""
    cluster = cluster_of(conf_of(conf))
    _job(cluster, ALICE, flags=REQ_EXCLUSIVE_USER)
    for _ in range(3):
        _job(cluster, BOB, cpus_per_task=4)
    _plan(cluster, conf)
    joining = [_job(cluster, ALICE, node_list=node_list) for _ in range(4)]
    other = _job(cluster, BOB, node_list=node_list)
    _plan(cluster, conf)
    assert [_nodes(cluster, job) for job in joining] == [[1], [1], [1], []]
    assert not _nodes(cluster, other)


def test_what_is_known_of_others_outlives_hosts() -> None:
    """One planner: another user's demand stays, the host's own finds its way and back."""
    cluster, rules, planner = cluster_of(conf_of(CONF)), policy(conf_of(CONF)), Planner()
    first = _job(cluster, ALICE, flags=REQ_EXCLUSIVE_USER, node_list="n1")
    others = [_job(cluster, BOB, 20, nodes_min=1, ntasks=4) for _ in range(3)]
    for start in planner(snapshot(cluster, START_US), rules).starts:
        apply_all(cluster, dispatch(cluster, start, START_US))
    assert _nodes(cluster, first) == [1]
    assert sorted(node for job_id in others for node in _nodes(cluster, job_id)) == [2, 3, 4]

    waiting = _job(cluster, BOB)
    demands = Demands()

    def demand(job_id: int, now_us: int) -> Demand:
        view = snapshot(cluster, now_us)
        demands.begin(view, rules)
        job = next(job for job in view.waiting if job.job_id == job_id)
        partition = view.partitions["main"]
        return demands.of(job, demands.shape_id(job.request), partition)

    his, generation = demand(waiting, START_US), demands.generation
    joins = _job(cluster, ALICE)
    assert demand(joins, START_US).may_join
    assert [start.job_id for start in planner(snapshot(cluster, START_US), rules).starts] == [joins]
    later_us = START_US + 10 * MINUTE_US
    end_due(cluster, later_us)
    assert not demand(joins, later_us).may_join
    assert demand(waiting, later_us) is his
    assert demands.generation == generation


def test_a_label_joins_its_exclusive_job(conf: str) -> None:
    """Jobs of a label that do not insist on it go beside one that does."""
    cluster = cluster_of(conf_of(conf))
    first = _job(cluster, ALICE, mcs_label="red", flags=REQ_EXCLUSIVE_MCS)
    _plan(cluster, conf)
    same = _job(cluster, BOB, mcs_label="red", node_list="n1")
    other = _job(cluster, ALICE, mcs_label="blue", node_list="n1")
    _plan(cluster, conf)
    assert [_nodes(cluster, job) for job in (first, same, other)] == [[1], [1], []]


def test_exclusive_user_joins_across_nodes(conf: str) -> None:
    """A job of several nodes takes its user's node and empty ones."""
    cluster = cluster_of(conf_of(conf))
    _job(cluster, ALICE, flags=REQ_EXCLUSIVE_USER)
    _job(cluster, BOB, cpus_per_task=4)
    _plan(cluster, conf)
    wide = _job(cluster, ALICE, flags=REQ_EXCLUSIVE_USER, nodes_min=3)
    _plan(cluster, conf)
    assert _nodes(cluster, wide) == [1, 3, 4]


def test_a_job_too_large_for_its_nodes_waits_beside_its_users() -> None:
    """Though it is the only one of the queue, and no node could ever have its tasks."""
    cluster = cluster_of(conf_of(CONF))
    _job(cluster, ALICE, flags=REQ_EXCLUSIVE_USER)
    _plan(cluster)
    large = _job(cluster, ALICE, flags=REQ_EXCLUSIVE_USER, nodes_min=1, ntasks=6)
    plan = _plan(cluster)
    assert plan.waits[large].reason == Reason.BadConstraints


def test_a_node_asked_for_by_name_is_not_that_of_the_same_user(conf: str) -> None:
    """Alone, and beside one of the user's own."""
    cluster = cluster_of(conf_of(conf))
    _job(cluster, ALICE, flags=REQ_EXCLUSIVE_USER, node_list="n1")
    _plan(cluster, conf)
    named = _job(cluster, ALICE, flags=REQ_EXCLUSIVE_USER, node_list="n3")
    both = _job(cluster, ALICE, nodes_min=2, node_list="n4")
    _plan(cluster, conf)
    assert _nodes(cluster, named) == [3]
    assert 4 in _nodes(cluster, both)


def test_exclusive_user_does_not_take_what_was_promised() -> None:
    """A node of its own that another job has been promised later is not kept beyond that."""
    cluster = cluster_of(conf_of(CONF))
    _job(cluster, ALICE, 10, flags=REQ_EXCLUSIVE_USER)
    _plan(cluster)
    wide = _job(cluster, BOB, 10, nodes_min=4, cpus_per_task=4)
    short = _job(cluster, ALICE, 10, flags=REQ_EXCLUSIVE_USER)
    long = _job(cluster, ALICE, 60, flags=REQ_EXCLUSIVE_USER)
    plan = _plan(cluster)
    assert wide in plan.expected_start_us
    assert _nodes(cluster, short) == [1]
    assert not _nodes(cluster, long)
    assert plan.expected_start_us[long] > plan.expected_start_us[wide]


def test_a_start_beside_the_same_users_jobs_is_planned_ahead() -> None:
    """On CPUs that one of them leaves, and beside one that has been promised a node itself."""
    cluster = cluster_of(conf_of(CONF.replace("n[1-4]", "n1")))
    for minutes, cpus in ((10, 2), (30, 2)):
        _job(cluster, ALICE, minutes, flags=REQ_EXCLUSIVE_USER, cpus_per_task=cpus)
    _plan(cluster)
    soon = _job(cluster, ALICE, 10, flags=REQ_EXCLUSIVE_USER, cpus_per_task=2)
    theirs = _job(cluster, BOB, 20, flags=REQ_EXCLUSIVE_USER, cpus_per_task=3)
    long = _job(cluster, ALICE, 60, flags=REQ_EXCLUSIVE_USER, cpus_per_task=1)
    beside = _job(cluster, BOB, 15, cpus_per_task=1)
    plan = _plan(cluster)
    starts_min = {
        job_id: (at_us - START_US) // MINUTE_US for job_id, at_us in plan.expected_start_us.items()
    }
    assert starts_min == {soon: 10, theirs: 30, long: 50, beside: 30}


def test_mcs_shares_with_the_same_label(conf: str) -> None:
    """Users do not matter then."""
    cluster = cluster_of(conf_of(conf))
    fields: dict[str, Any] = {"flags": REQ_EXCLUSIVE_MCS}
    first = _job(cluster, ALICE, mcs_label="red", **fields)
    second = _job(cluster, BOB, mcs_label="red", **fields)
    third = _job(cluster, ALICE, mcs_label="blue", **fields)
    _plan(cluster, conf)
    assert [_nodes(cluster, job) for job in (first, second, third)] == [[1], [1], [2]]


def test_a_partition_has_so_many_cpus_of_a_node(conf: str) -> None:
    """Three of four; the other partition gets the rest, and a fourth job waits."""
    cluster = cluster_of(conf_of(conf))
    capped = [_job(cluster, partition="capped", node_list="n1") for _ in range(3)]
    rest = _job(cluster, node_list="n1")
    capped.append(_job(cluster, partition="capped", node_list="n1"))
    _plan(cluster, conf)
    assert [bool(_nodes(cluster, job)) for job in capped] == [True, True, True, False]
    assert _nodes(cluster, rest) == [1]
    cluster = cluster_of(conf_of(conf))
    wide = _job(cluster, partition="capped", ntasks=6)
    _plan(cluster, conf)
    assert max(alloc.cpus for alloc in cluster.jobs[wide].nodes) <= 3


def test_a_cap_below_a_socket_lets_one_job_have_a_socket(conf: str) -> None:
    """MaxCPUsPerNode=3 under CR_Socket: the socket of four comes whole, and is all there is."""
    socket = conf.replace("SelectTypeParameters=CR_Core", "SelectTypeParameters=CR_Socket").replace(
        "n[1-4] CPUs=4", "n[1-4] CPUs=8 Sockets=2 CoresPerSocket=4"
    )
    cluster = cluster_of(conf_of(socket))
    first = _job(cluster, partition="capped", ntasks=2, node_list="n1")
    second = _job(cluster, partition="capped", ntasks=2, nodes_min=1, node_list="n1")
    _plan(cluster, socket)
    assert [alloc.cpus for alloc in cluster.jobs[first].nodes] == [4]
    assert not _nodes(cluster, second)


def test_sockets_have_caps_of_their_own() -> None:
    """MaxCPUsPerSocket=1 on two sockets: one core of each, however free the first one is."""
    conf = (
        "ClusterName=c\nSlurmctldHost=c\nAuthType=auth/slurm\nCredType=cred/slurm\n"
        "SelectTypeParameters=CR_Core\nNodeName=n1 CPUs=8 Sockets=2 CoresPerSocket=4\n"
        "PartitionName=main Nodes=n1 Default=YES MaxTime=INFINITE\n"
        "PartitionName=few Nodes=n1 MaxTime=INFINITE MaxCPUsPerSocket=1\n"
    )
    cluster = cluster_of(conf_of(conf))
    few = [_job(cluster, minutes=10, partition="few") for _ in range(3)]
    many = _job(cluster, minutes=10, cpus_per_task=4)
    plan = _plan(cluster, conf)
    masks = [int.from_bytes(cluster.jobs[job].nodes[0].cores, "little") for job in few[:2]]
    assert sorted(masks) == [0b0000_0001, 0b0001_0000]
    assert not _nodes(cluster, few[2]) and _nodes(cluster, many)
    assert 10 <= (plan.expected_start_us[few[2]] - START_US) / MINUTE_US < 12


def test_caps_hold_over_time() -> None:
    """The fourth job of the partition waits for one of the three, though a CPU is free."""
    cluster = cluster_of(conf_of(CONF))
    for _ in range(3):
        _job(cluster, minutes=10, partition="capped", node_list="n1")
    waits = _job(cluster, minutes=10, partition="capped", node_list="n1")
    plan = _plan(cluster)
    assert 10 <= (plan.expected_start_us[waits] - START_US) / MINUTE_US < 12


@settings(deadline=None, max_examples=drawn(60))
@given(
    jobs=st.lists(
        st.tuples(
            st.sampled_from([ALICE, BOB]),
            st.sampled_from(["user", ""]),
            st.sampled_from(["main", "own", "capped"]),
            st.integers(1, 3),
            st.integers(1, 3),
            st.sampled_from([2, 10, 60]),
        ),
        max_size=14,
    ),
    steps=st.integers(1, 5),
)
def test_jobs_of_strangers_never_meet(
    jobs: list[tuple[int, str, str, int, int, int]], steps: int
) -> None:
    """In random clusters no job shares a node against the rules, and caps are kept."""
    cluster = cluster_of(conf_of(CONF))
    for uid, how, partition, nodes, cpus, minutes in jobs:
        _job(
            cluster, uid, minutes, flags=USERS[how], partition=partition, nodes_min=nodes,
            cpus_per_task=cpus,
        )  # fmt: skip
    now_us = START_US
    for _ in range(steps):
        _plan(cluster, CONF, now_us)
        _judge(cluster)
        ends = [
            cluster.jobs[job_id].start_us + cluster.jobs[job_id].time_limit_min * MINUTE_US
            for job_id in cluster.job_index.active
        ]
        if not ends:
            break
        now_us = min(ends)
        end_due(cluster, now_us)


def _judge(cluster: Cluster) -> None:
    for node_id in range(4):
        here = [
            (job, alloc)
            for job in (cluster.jobs[job_id] for job_id in cluster.job_index.active)
            for alloc in job.nodes
            if alloc.node_id == node_id
        ]
        tenants = [
            tenant_of(job.request, cluster.partitions[job.partition], job.uid) for job, _ in here
        ]
        for index, tenant in enumerate(tenants):
            assert all(may_share(tenant, other) for other in tenants[:index])
        assert sum(alloc.cpus for job, alloc in here if job.partition == "capped") <= 3
