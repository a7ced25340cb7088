"""Jobs that do not take any nodes that fit, from the request to the plan."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from pyslurm_ng.base.numbers import MINUTE_US, REQ_CONTIGUOUS, REQ_SPREAD, REQ_USE_MIN_NODES
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.sched.frame.plan import Plan
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.request import features
from pyslurm_ng.sched.request.features import Way, holds
from tests.model.clusters import START_US, cluster_of, conf_of, submit
from tests.sched.whole_nodes import end_due
from tests.world.examples import drawn
from tests.world.passes import run_pass

RACKS = r"""
ClusterName=demo
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
SelectTypeParameters=CR_Core
PriorityType=priority/basic
NodeName=n[1-4] CPUs=4 RealMemory=1000 Feature=rack1,ib
NodeName=n[5-8] CPUs=4 RealMemory=1000 Feature=rack2,gpu
PartitionName=main Nodes=n[1-8] Default=YES MaxTime=INFINITE
"""
BUILTIN = RACKS + "SchedulerType=sched/builtin\n"


@pytest.fixture(params=["backfill", "builtin"])
def conf(request: pytest.FixtureRequest) -> str:
    """The same cluster under both schedulers."""
    return RACKS if request.param == "backfill" else BUILTIN


def _job(cluster: Cluster, minutes: int = 10, **fields: Any) -> int:
    nodes = fields.get("nodes_min", 0)
    fields.setdefault("nodes_max", nodes)
    return submit(cluster, JobRequest(**fields), time_limit_min=minutes)


def _plan(cluster: Cluster, conf: str, now_us: int = START_US) -> Plan:
    return run_pass(cluster, now_us, policy(conf_of(conf)))


def _nodes(cluster: Cluster, job_id: int) -> list[int]:
    """Return the numbers of a job's nodes, from 1 as in their names."""
    return [alloc.node_id + 1 for alloc in cluster.jobs[job_id].nodes]


def test_counts_of_features(conf: str) -> None:
    """Two nodes of one rack and three of the other; the rest may be any."""
    cluster = cluster_of(conf_of(conf))
    first = _job(cluster, constraint="[rack1*2&rack2*3]")
    _plan(cluster, conf)
    nodes = _nodes(cluster, first)
    assert len(nodes) == 5
    assert sum(node <= 4 for node in nodes) == 2
    more = _job(cluster, nodes_min=6, constraint="rack2*2")
    _plan(cluster, conf)
    assert len(_nodes(cluster, more)) == 6
    assert sum(node >= 5 for node in _nodes(cluster, more)) >= 2


def test_all_nodes_share_one_alternative(conf: str) -> None:
    """`a|b` mixes, `[a|b]` does not, and takes the second where the first has no room."""
    cluster = cluster_of(conf_of(conf))
    _job(cluster, nodes_min=2, cpus_per_task=4)
    mixed = _job(cluster, nodes_min=3, cpus_per_task=2, constraint="rack1|rack2")
    alike = _job(cluster, nodes_min=3, cpus_per_task=2, constraint="[rack1|rack2]")
    _plan(cluster, conf)
    assert _nodes(cluster, mixed) == [3, 4, 5]
    assert _nodes(cluster, alike) == [5, 6, 7]


def test_alternatives_are_planned_in_time() -> None:
    """No alternative has room now: the reservation is where one of them has it first."""
    cluster = cluster_of(conf_of(RACKS))
    _job(cluster, 20, nodes_min=2, cpus_per_task=4, constraint="rack1")
    _job(cluster, 10, nodes_min=2, cpus_per_task=4, constraint="rack2")
    waits = _job(cluster, nodes_min=3, cpus_per_task=4, constraint="[rack1|rack2]")
    plan = _plan(cluster, RACKS)
    # Slots of the grid are minutes wide, so the start is not exact.
    assert 10 <= (plan.expected_start_us[waits] - START_US) / MINUTE_US < 12
    assert all(node >= 4 for node in plan.planned_nodes[waits])


def test_preferred_features_are_tried_first(conf: str) -> None:
    """They replace the constraint while they can be had."""
    cluster = cluster_of(conf_of(conf))
    first = _job(cluster, nodes_min=4, cpus_per_task=4, constraint="rack1", prefer="rack2")
    second = _job(cluster, nodes_min=4, cpus_per_task=4, constraint="rack1", prefer="rack2")
    _plan(cluster, conf)
    assert _nodes(cluster, first) == [5, 6, 7, 8]
    assert _nodes(cluster, second) == [1, 2, 3, 4]


def test_batch_host_has_the_feature(conf: str) -> None:
    """The script runs on the first node that has it, or on the first node if none has."""
    cluster = cluster_of(conf_of(conf))
    first = _job(cluster, nodes_min=8, constraint="rack1|rack2", batch_features="rack2")
    second = _job(cluster, nodes_min=2, constraint="rack1", batch_features="rack2")
    _plan(cluster, conf)
    assert cluster.jobs[first].batch_node_id == 4
    assert cluster.jobs[second].batch_node_id == 0


def test_contiguous_nodes(conf: str) -> None:
    """Only neighbours will do; the smallest gap that is large enough is used."""
    cluster = cluster_of(conf_of(conf))
    _job(cluster, cpus_per_task=4, node_list="n3")
    first = _job(cluster, nodes_min=2, cpus_per_task=4, flags=REQ_CONTIGUOUS)
    second = _job(cluster, nodes_min=3, cpus_per_task=4, flags=REQ_CONTIGUOUS)
    third = _job(cluster, nodes_min=2, cpus_per_task=4, flags=REQ_CONTIGUOUS)
    _plan(cluster, conf)
    assert _nodes(cluster, first) == [1, 2]
    assert _nodes(cluster, second) == [4, 5, 6]
    assert _nodes(cluster, third) == [7, 8]


def test_a_range_of_nodes_aims_high(conf: str) -> None:
    """As many as there are; with --use-min-nodes as few as do."""
    cluster = cluster_of(conf_of(conf))
    few = _job(cluster, nodes_min=2, nodes_max=4, cpus_per_task=4, flags=REQ_USE_MIN_NODES)
    most = _job(cluster, nodes_min=2, nodes_max=4, cpus_per_task=4)
    rest = _job(cluster, nodes_min=2, nodes_max=4, cpus_per_task=4)
    _plan(cluster, conf)
    assert _nodes(cluster, few) == [1, 2]
    assert _nodes(cluster, most) == [3, 4, 5, 6]
    assert _nodes(cluster, rest) == [7, 8]


def test_a_range_reaches_for_heavier_nodes(conf: str) -> None:
    """Weight says which nodes come first; it does not make a job narrower than it may be.

    Slurm 22.05 gives -N1-4 all four nodes, be two of them heavier or not.
    """
    weighted = conf.replace("Feature=rack1,ib", "Weight=1").replace("Feature=rack2,gpu", "Weight=5")
    cluster = cluster_of(conf_of(weighted))
    some = _job(cluster, nodes_min=1, nodes_max=5, ntasks=5)
    few = _job(cluster, nodes_min=1, nodes_max=8, ntasks=8, flags=REQ_USE_MIN_NODES)
    _plan(cluster, weighted)
    assert _nodes(cluster, some) == [1, 2, 3, 4, 5]
    assert _nodes(cluster, few) == [1, 2, 3]


def test_only_listed_sizes_are_used(conf: str) -> None:
    """Seven nodes are free, and five is no size of the list."""
    cluster = cluster_of(conf_of(conf))
    _job(cluster, cpus_per_task=4)
    sized = _job(cluster, nodes_min=2, nodes_max=8, node_sizes="2,4,8", cpus_per_task=4)
    _plan(cluster, conf)
    assert _nodes(cluster, sized) == [2, 3, 4, 5]


def test_a_spread_job_gets_many_nodes_and_even_tasks(conf: str) -> None:
    """One task goes to each node first, then another."""
    cluster = cluster_of(conf_of(conf))
    wide = _job(cluster, ntasks=12, flags=REQ_SPREAD)
    _plan(cluster, conf)
    assert [alloc.tasks for alloc in cluster.jobs[wide].nodes] == [2, 2, 2, 2, 1, 1, 1, 1]
    narrow = _job(cluster, ntasks=4, nodes_min=2, flags=REQ_SPREAD)
    _plan(cluster, conf)
    assert [alloc.tasks for alloc in cluster.jobs[narrow].nodes] == [2, 2]


def test_fewest_nodes_count_more_than_a_spread(conf: str) -> None:
    """--use-min-nodes --spread-job, as in Slurm."""
    cluster = cluster_of(conf_of(conf))
    flags = REQ_SPREAD | REQ_USE_MIN_NODES
    job = _job(cluster, ntasks=8, nodes_min=2, nodes_max=6, flags=flags)
    _plan(cluster, conf)
    assert len(cluster.jobs[job].nodes) == 2


@pytest.mark.parametrize("how", ["CR_LLN", "LLN=YES"])
def test_least_loaded_nodes_first(conf: str, how: str) -> None:
    """Jobs go round the nodes before any gets a second one."""
    if how == "CR_LLN":
        text = conf.replace("SelectTypeParameters=CR_Core", "SelectTypeParameters=CR_Core,CR_LLN")
    else:
        text = conf.replace("Default=YES", "Default=YES LLN=YES")
    cluster = cluster_of(conf_of(text))
    for _ in range(8):
        _job(cluster, cpus_per_task=2)
    _plan(cluster, text)
    assert [_nodes(cluster, job_id) for job_id in sorted(cluster.jobs)] == [
        [node] for node in range(1, 9)
    ]
    last = _job(cluster, nodes_min=2, cpus_per_task=1)
    _plan(cluster, text)
    assert _nodes(cluster, last) == [1, 2]


_REQUESTS = st.builds(
    JobRequest,
    nodes_min=st.integers(0, 4),
    ntasks=st.sampled_from([0, 0, 2, 6]),
    cpus_per_task=st.sampled_from([0, 2, 4]),
    constraint=st.sampled_from(
        ["", "rack1", "ib|gpu", "[rack1|rack2]", "rack2*2", "[rack1*1&rack2*2]", "[ib|gpu]&rack2"]
    ),
    prefer=st.sampled_from(["", "", "rack2"]),
    flags=st.sampled_from([0, REQ_CONTIGUOUS, REQ_SPREAD, REQ_USE_MIN_NODES]),
    exclude=st.sampled_from(["", "n3"]),
)


@settings(deadline=None, max_examples=drawn(100))
@given(
    jobs=st.lists(
        st.tuples(_REQUESTS, st.integers(0, 4), st.booleans(), st.sampled_from([1, 7, 60])),
        min_size=1,
        max_size=12,
    ),
    is_builtin=st.booleans(),
    lln=st.booleans(),
    steps=st.integers(1, 4),
)
def test_jobs_that_start_have_what_they_asked_for(
    jobs: list[tuple[JobRequest, int, bool, int]], is_builtin: bool, lln: bool, steps: int
) -> None:
    """Features, counts, neighbours and node counts hold for every start of every pass."""
    text = BUILTIN if is_builtin else RACKS
    if lln:
        text = text.replace("=CR_Core", "=CR_Core,CR_LLN")
    cluster = cluster_of(conf_of(text))
    for request, more, is_sized, minutes in jobs:
        fields: dict[str, Any] = {"nodes_max": request.nodes_min}
        if request.nodes_min and more:
            fields["nodes_max"] = request.nodes_min + more
            if is_sized:
                fields["node_sizes"] = f"{request.nodes_min},{request.nodes_min + more}"
        submit(cluster, msgspec.structs.replace(request, **fields), time_limit_min=minutes)
    now_us = START_US
    for _ in range(steps):
        plan = _plan(cluster, text, now_us)
        for start in plan.starts:
            _judge(cluster, cluster.jobs[start.job_id])
        ends = [
            cluster.jobs[job_id].start_us + cluster.jobs[job_id].time_limit_min * MINUTE_US
            for job_id in cluster.job_index.active
        ]
        if not ends:
            break
        now_us = min(ends)
        end_due(cluster, now_us)


def _judge(cluster: Cluster, job: Job) -> None:
    request, ids = job.request, [alloc.node_id for alloc in job.nodes]
    names_of = [cluster.node(node_id).features_active for node_id in ids]
    ways = [*_ways(request.prefer), *_ways(request.constraint or "ib|gpu")]
    assert any(
        (way.every is None or all(holds(way.every, names) for names in names_of))
        and all(
            sum(holds(tree, names) for names in names_of) >= count for tree, count in way.counts
        )
        for way in ways
    )
    assert 2 not in ids or not request.exclude
    if request.flags & REQ_CONTIGUOUS:
        assert ids == list(range(ids[0], ids[0] + len(ids)))
    if request.node_sizes:
        assert len(ids) in (request.nodes_min, request.nodes_max)
    elif request.nodes_max:
        assert request.nodes_min <= len(ids) <= max(request.nodes_max, request.nodes_min)
    assert sum(alloc.tasks for alloc in job.nodes) >= request.ntasks


def _ways(text: str) -> tuple[Way, ...]:
    """Return the ways of an expression, none for none."""
    return features.ways(text) if text else ()


def test_an_arbitrary_distribution_names_the_node_of_each_task(conf: str) -> None:
    """Two tasks on n5 and one on n1. A job that names a node more often than it has CPUs waits."""
    cluster = cluster_of(conf_of(conf))
    listed = _job(cluster, ntasks=3, nodes_min=2, node_list="n5,n5,n1", distribution="arbitrary")
    _plan(cluster, conf)
    nodes = cluster.jobs[listed].nodes
    assert [(alloc.node_id + 1, alloc.tasks, alloc.cpus) for alloc in nodes] == [
        (1, 1, 1),
        (5, 2, 2),
    ]
    wide = _job(cluster, ntasks=4, nodes_min=2, node_list="n5,n5,n5,n1", distribution="arbitrary")
    _plan(cluster, conf)
    assert not _nodes(cluster, wide)
