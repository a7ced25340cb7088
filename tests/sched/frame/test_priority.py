"""The multifactor formula against a plain twin, and each option that changes it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.base.numbers import REQ_EXCLUSIVE
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply
from pyslurm_ng.model.assoc import Association
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.priority import Ranking
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import START_US, cluster_of, submit
from tests.oracle import priority as oracle
from tests.sched.frame.ranks import ranked, rules_of

DAY_US = 86_400_000_000


@given(
    nodes=st.integers(1, 4),
    cpus=st.integers(1, 64),
    limit_min=st.integers(1, 1440),
    small=st.booleans(),
    to_time=st.booleans(),
    waited_s=st.integers(0, 20 * 86400),
    weights=st.tuples(*[st.integers(0, 10**6)] * 3),
    nice=st.integers(-1000, 1000),
)
def test_the_sum_is_that_of_the_table(
    nodes: int, cpus: int, limit_min: int, small: bool, to_time: bool, waited_s: int,
    weights: tuple[int, int, int], nice: int,
) -> None:  # fmt: skip
    """Age, size in its variants, partition, nice; the sum is truncated once."""
    cluster = cluster_of()
    cpus = max(nodes, cpus)
    submit(cluster, JobRequest(nodes_min=nodes, nodes_max=nodes, ntasks=cpus),
           time_limit_min=limit_min)  # fmt: skip
    rules = replace(
        Policy(), weight_age=weights[0], weight_size=weights[1], weight_partition=weights[2],
        favor_small=small, size_relative_to_time=to_time,
    )  # fmt: skip
    view = snapshot(cluster, START_US + waited_s * 1_000_000)
    job = replace(view.waiting[0], nice=nice)
    priority = Ranking(view, rules).priority(job, view.partitions["main"])
    size = oracle.size_factor(nodes, 4, cpus, 64, limit_min, small=small, to_time=to_time)
    terms = [
        (weights[0], min(Fraction(1), Fraction(waited_s, 7 * 86400))),
        (weights[1], size),
        (weights[2], Fraction(1, 10)),
    ]
    expected = oracle.priority(terms, 0, nice)
    assert abs(priority - expected) <= 1  # floats just below or above a whole number
    exact = sum(weight * factor for weight, factor in terms)
    if Fraction(1, 1000) < exact % 1 < Fraction(999, 1000):
        assert priority == expected


def test_fractions_of_terms_add_up() -> None:
    """0.6 + 0.6 is 1.2: truncated once, not 0 + 0."""
    cluster = cluster_of()
    submit(cluster, JobRequest(nodes_min=1, ntasks=1))
    rules = rules_of("PriorityWeightPartition=36", "PriorityWeightJobSize=5")
    # 36 / 10 = 3.6 and 5 x (1/4 + 1/64) / 2 = 0.66
    assert ranked(cluster, rules)[0] == 4


@pytest.mark.parametrize(
    ("request_", "size"),
    [
        (JobRequest(nodes_min=2, nodes_max=2, ntasks=2, flags=REQ_EXCLUSIVE), 0.5),
        (JobRequest(nodes_min=2, nodes_max=2, ntasks=2), (2 / 4 + 2 / 64) / 2),
    ],
)
def test_a_job_that_gets_whole_nodes_is_as_large_as_they_are(
    request_: JobRequest, size: float
) -> None:
    """--exclusive counts the CPUs of the nodes, not those asked for."""
    cluster = cluster_of()
    submit(cluster, request_)
    assert ranked(cluster, rules_of("PriorityWeightJobSize=1000"))[1].size == size


def test_tres_are_weighed_by_their_share_of_the_partition() -> None:
    """Half of the partition's CPUs, a quarter of its GPUs; two nodes have eight in all."""
    cluster = cluster_of()
    request = JobRequest(nodes_min=2, nodes_max=2, ntasks=16, gpus_per_node="1", partition="gpu")
    submit(cluster, request)
    weights = "PriorityWeightTRES=CPU=1000,GRES/gpu=400"
    priority, factors = ranked(cluster, rules_of(weights), partition="gpu")
    assert factors.tres == (("cpu", 0.5), ("gres/gpu", 0.25))
    assert priority == 600
    raw = ranked(cluster, rules_of(weights, "PriorityFlags=NO_NORMAL_TRES"), partition="gpu")
    assert raw[0] == 16 * 1000 + 2 * 400


def test_association_priority_counts_by_the_largest() -> None:
    """A job of association 1, which has half of the largest priority."""
    cluster = cluster_of()
    associations = (
        Association(1, "acct", "user1001", priority=50),
        Association(2, "other", priority=100),
    )
    apply(cluster, ev.AssocChanged(START_US, changed=associations, version=3))
    submit(cluster, JobRequest(nodes_min=1))
    assert ranked(cluster, rules_of("PriorityWeightAssoc=1000"))[0] == 500
    raw = rules_of("PriorityWeightAssoc=1000", "PriorityFlags=NO_NORMAL_ASSOC")
    assert ranked(cluster, raw)[0] == 50_000


def test_age_from_submission_with_accrue_always() -> None:
    """A job eligible after three and a half days is as old as its submission says."""
    cluster = cluster_of()
    submit(cluster, JobRequest(nodes_min=1))
    view = snapshot(cluster, START_US + 7 * DAY_US // 2)
    job = replace(view.waiting[0], accrue_us=view.now_us)
    where = view.partitions["main"]
    lines = "PriorityWeightAge=1000", "PriorityMaxAge=7-0"
    assert Ranking(view, rules_of(*lines)).priority(job, where) == 1
    always = rules_of(*lines, "PriorityFlags=ACCRUE_ALWAYS")
    assert Ranking(view, always).priority(job, where) == 500


def test_priorities_never_fall_with_incr_only() -> None:
    """Another job's weight in the queue makes no difference: what was reached is kept."""
    cluster = cluster_of()
    submit(cluster, JobRequest(nodes_min=4, nodes_max=4, ntasks=64))
    Planner()(snapshot(cluster, START_US), rules_of())
    planner = Planner()
    rules = rules_of("PriorityWeightFairshare=1000", "PriorityFlags=INCR_ONLY")
    priorities = []
    for share in (0.5, 0.2, 0.7):
        view = replace(snapshot(cluster, START_US), fairshare={1: share})
        priorities.append(planner(view, rules).priorities[1])
    assert priorities == [500, 500, 700]


def test_fair_share_factors_of_the_snapshot_count() -> None:
    """Two equal jobs: the association that used less goes first."""
    cluster = cluster_of()
    submit(cluster, JobRequest(nodes_min=1))
    view = replace(snapshot(cluster, START_US), fairshare={1: 0.25})
    assert (
        Ranking(view, rules_of("PriorityWeightFairshare=1000")).priority(
            view.waiting[0], view.partitions["main"]
        )
        == 250
    )


@pytest.mark.parametrize(
    ("nice", "site_factor", "priority"), [(10**9, 0, 1), (0, 6 * 10**9, 4294967295), (7, 10, 3)]
)
def test_the_sum_stays_within_what_can_be_shown(nice: int, site_factor: int, priority: int) -> None:
    """Never 0, which would mean held; signed site factors add, nice takes away."""
    cluster = cluster_of()
    submit(cluster, JobRequest())
    view = snapshot(cluster, START_US)
    job = replace(view.waiting[0], nice=nice, site_factor=site_factor)
    assert Ranking(view, Policy()).priority(job, view.partitions["main"]) == priority


@pytest.mark.parametrize(
    ("flags", "factors"),
    [
        ("", (0.1, 0.25, 0.5, 0.25)),
        ("PriorityFlags=NO_NORMAL_PART", (1.0, 0.25, 0.5, 0.25)),
        ("PriorityFlags=NO_NORMAL_QOS", (0.1, 5.0, 0.5, 0.25)),
        ("PriorityFlags=NO_NORMAL_ASSOC", (0.1, 0.25, 3.0, 0.25)),
        ("PriorityFlags=NO_NORMAL_TRES", (0.1, 0.25, 0.5, 16.0)),
    ],
)
def test_factors_are_shares_of_the_largest_or_raw(
    flags: str, factors: tuple[float, float, float, float]
) -> None:
    """Of partition, QOS, association, and CPUs of the partition."""
    cluster = cluster_of()
    submit(cluster, JobRequest(ntasks=16, nodes_min=1))
    view = snapshot(cluster, START_US)
    job = replace(view.waiting[0], qos="low", assoc_id=1)
    view = replace(
        view, waiting=[job], qos_priority={"low": 5, "high": 20}, assoc_priority={1: 3, 2: 6}
    )
    shares = Ranking(view, rules_of("PriorityWeightTRES=cpu=1", flags)).factors(
        job, view.partitions["main"]
    )
    assert (shares.partition, shares.qos, shares.assoc, dict(shares.tres)["cpu"]) == factors
