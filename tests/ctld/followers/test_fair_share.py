"""Fair-share factors in the controller: when they change, and that they order the queue."""

from __future__ import annotations

import msgspec
import pytest

from pyslurm_ng.base.numbers import INFINITE, MINUTE_US, SECOND_US
from pyslurm_ng.ctld.followers.fair_share import FairShare
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply
from pyslurm_ng.model.assoc import Association, Limits, OwnerUsage
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import JobState
from tests.ctld.followers.usage_runs import PLAIN, started
from tests.model.clusters import START_US, cluster_of, conf_of, submit
from tests.sched.whole_nodes import WHOLE_NODES
from tests.world.sim_room import SimRoom

MULTIFACTOR = WHOLE_NODES.replace("priority/basic", "priority/multifactor")
BOB = Association(3, "physics", "bob", parent_id=1)


def room(words: str = "") -> tuple[Cluster, FairShare, Soft, list[int]]:
    """Return a cluster where ann of account physics runs a job, and bob has used nothing."""
    cluster, usage, _ = started(Limits(), PLAIN)
    apply(cluster, ev.AssocChanged(START_US, changed=(BOB,)))
    soft, changes = Soft(started_us=START_US), list[int]()
    conf = conf_of(MULTIFACTOR + "PriorityCalcPeriod=5\nPriorityWeightFairshare=1000\n" + words)
    shares = FairShare(cluster, soft, usage, conf, lambda: changes.append(1))
    return cluster, shares, soft, changes


def test_factors_change_with_the_period() -> None:
    """PriorityCalcPeriod; between two of them nothing is counted."""
    _, shares, soft, changes = room()
    shares.tick(START_US)
    assert soft.fairshare == {2: 1.0, 3: 1.0}
    shares.tick(START_US + 5 * MINUTE_US - 1)
    assert soft.fairshare == {2: 1.0, 3: 1.0} and changes == [1]
    shares.tick(START_US + 5 * MINUTE_US)
    assert soft.fairshare == {2: 0.5, 3: 1.0} and changes == [1, 1]
    shares.tick(START_US + 10 * MINUTE_US)
    assert changes == [1, 1], "no pass for factors that are the same"


def test_new_associations_and_resets_count_at_once() -> None:
    """A new user does not wait for a factor; usage that was reset is gone for factors, too."""
    cluster, shares, soft, _ = room()
    shares.tick(START_US + MINUTE_US)
    assert soft.fairshare == {2: 0.5, 3: 1.0}
    eve = Association(4, "physics", "eve", parent_id=1, shares=0)
    apply(cluster, added := ev.AssocChanged(START_US + MINUTE_US, changed=(eve,)))
    shares.applied([added])
    shares.tick(START_US + MINUTE_US + SECOND_US)
    assert soft.fairshare == {2: 2 / 3, 3: 1.0, 4: 1 / 3}


@pytest.mark.parametrize(
    ("words", "ann", "bob"),
    [
        ("", 0.5, 1.0),
        ("PriorityFlags=NO_FAIR_TREE\n", 2**-2, 1.0),
        ("PriorityFlags=NO_FAIR_TREE\nFairShareDampeningFactor=4\n", 2**-0.5, 1.0),
        ("PriorityFlags=DEPTH_OBLIVIOUS\n", 2**-2, 1.0),
    ],
)
def test_flags_choose_the_formula(words: str, ann: float, bob: float) -> None:
    """As PriorityFlags says."""
    _, shares, soft, _ = room(words)
    shares.tick(START_US + MINUTE_US)
    assert (soft.fairshare[2], soft.fairshare[3]) == pytest.approx((ann, bob))


def test_priority_basic_has_no_factors() -> None:
    """Nor has a cluster without associations."""
    cluster, usage, _ = started(Limits(), PLAIN)
    soft = Soft(started_us=START_US)
    FairShare(cluster, soft, usage, conf_of(WHOLE_NODES)).tick(START_US)
    assert soft.fairshare == {}
    bare = cluster_of(conf_of(MULTIFACTOR))
    FairShare(bare, soft, usage, conf_of(MULTIFACTOR)).tick(START_US)
    assert soft.fairshare == {}


def test_who_has_used_less_goes_first() -> None:
    """With a weight; without it the order of submission decides."""
    for weight, first in ((0, "heavy"), (1000, "light")):
        text = MULTIFACTOR + f"PriorityWeightFairshare={weight}\nPriorityWeightAge=0\n"
        site = SimRoom(conf_of(text), cluster=cluster_of(conf_of(text)))
        changed = (
            Association(1, "root"),
            Association(2, "root", "heavy", parent_id=1),
            Association(3, "root", "light", parent_id=1),
        )
        used = OwnerUsage("assoc", 2, START_US, tres_s={"billing": 5000})
        whole = OwnerUsage("assoc", 1, START_US, tres_s={"billing": 5000})
        apply(site.cluster, ev.AssocChanged(START_US, changed=changed, version=1))
        apply(site.cluster, ev.QosChanged(START_US, changed=(PLAIN,)))
        apply(site.cluster, ev.UsageKept(START_US, START_US, (used, whole)))
        site = SimRoom(conf_of(text), cluster=site.cluster)
        jobs = {}
        for name, assoc_id in (("heavy", 2), ("light", 3)):
            job_id = submit(site.cluster, JobRequest(nodes_min=4, nodes_max=4))
            job = site.cluster.jobs[job_id]
            job.assoc_id, jobs[name] = assoc_id, job
        site.controller.tick()
        site.controller.scheduler.due()
        site.run(20)
        assert [name for name, job in jobs.items() if job.state == JobState.RUNNING] == [first]


def test_shares_of_the_parent_are_no_shares() -> None:
    """`fairshare=parent` of a user: never behind its siblings."""
    cluster, shares, soft, _ = room()
    ann = msgspec.structs.replace(cluster.assocs[2], shares=INFINITE)
    apply(cluster, moved := ev.AssocChanged(START_US, changed=(ann,)))
    shares.applied([moved])
    shares.tick(START_US + MINUTE_US)
    assert soft.fairshare == {2: 1.0, 3: 1.0}
