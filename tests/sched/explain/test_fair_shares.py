"""Which accounts' jobs go first by fair-share, and what is said of it."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from pyslurm_ng.base.numbers import REQ_EXCLUSIVE
from pyslurm_ng.ctld.queries.explained_shares import share_sentences
from pyslurm_ng.model.assoc import Association
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.sched.explain.explain import outlook
from pyslurm_ng.sched.explain.fair_shares import Lead, leads
from pyslurm_ng.sched.fair_share.factors import ShareRules, share_factors
from pyslurm_ng.sched.fair_share.forecast import ShareForecast
from pyslurm_ng.sched.fair_share.share_tree import ShareTree
from pyslurm_ng.sched.frame.policy import Policy, policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of, submit
from tests.world.passes import run_pass

RULES = replace(
    policy(conf_of(FOUR_NODES + "\nPriorityType=priority/multifactor\n")), weight_fairshare=1000
)
LAB1, LAB2, LAB3 = 11, 12, 13
TREE = ShareTree(
    [
        Association(1, "root"),
        *(Association(lab, f"lab{lab - 10}", parent_id=1) for lab in (LAB1, LAB2, LAB3)),
        *(Association(lab + 10, f"lab{lab - 10}", "ann", parent_id=lab) for lab in (LAB1, LAB2)),
        Association(LAB3 + 10, "lab3", "ann", parent_id=LAB3),
    ]
)


def forecast(used: dict[int, float], rates: dict[int, float]) -> ShareForecast:
    """Return usage of laboratories with one user each."""

    def by_number(amounts: dict[int, float]) -> list[float]:
        all_of_them = {lab + 10: amount for lab, amount in amounts.items()} | amounts
        all_of_them[1] = sum(amounts.values())
        return [all_of_them.get(assoc_id, 0.0) for assoc_id in TREE.assoc_ids]

    now = share_factors(TREE, by_number(used), ShareRules())
    return ShareForecast(TREE, by_number(used), by_number(rates), ShareRules(), 0.0, now)


USED = forecast({LAB1: 9_000.0, LAB2: 1_800.0, LAB3: 20_000.0}, {LAB2: 1.0})


class Queue:
    """Four full nodes, and jobs of laboratories that wait for all of them."""

    def __init__(self) -> None:
        self.cluster: Cluster = cluster_of()
        self.submit(LAB1)
        run_pass(self.cluster)

    def submit(self, lab: int, priority: int | None = None) -> int:
        """Submit a job for four nodes and return its id."""
        request = JobRequest(nodes_min=4, nodes_max=4, flags=REQ_EXCLUSIVE)
        job_id = submit(self.cluster, request)
        job = self.cluster.jobs[job_id]
        changed = {"account": f"lab{lab - 10}", "assoc_id": lab + 10}
        if priority is not None:
            changed["priority"] = priority
        self.cluster.jobs[job_id] = msgspec.structs.replace(job, **changed)
        return job_id

    def leads(self, job_id: int, rules: Policy = RULES, **more: object) -> list[Lead]:
        """Return what is found for a job that waits."""
        view = snapshot(self.cluster, START_US)
        seen = outlook(view, rules, job_id, fairshare=USED.factors)
        assert seen is not None
        return leads(view, rules, job_id, seen.first, USED, **more)  # type: ignore[arg-type]


def test_jobs_that_came_later_go_first_by_fair_share() -> None:
    """The one of lab1 is older; lab3 has used more and goes behind it."""
    queue = Queue()
    job_id = queue.submit(LAB1)
    first = (queue.submit(LAB2), queue.submit(LAB2))
    queue.submit(LAB3)
    (lead,) = queue.leads(job_id)
    assert (lead.account, lead.job_ids) == ("lab2", first)
    assert (lead.least, lead.most, lead.own) == (1.0, 1.0, pytest.approx(2 / 3))
    assert 7_200 < lead.passed_in_s <= 7_260
    (sentence,) = share_sentences(queue.cluster, queue.cluster.jobs[job_id], [lead], lambda _: True)
    assert sentence == (
        "2 jobs of account lab2 go first by fair-share: the factor there is 1.00, its own is "
        "0.67; if user1001 uses nothing more in account lab1, its own is higher in 2 h 1 min"
    )


def test_fair_share_is_not_named_where_it_does_not_decide() -> None:
    """By hand, without weight, or of the same account."""
    queue = Queue()
    queue.submit(LAB1)
    job_id = queue.submit(LAB1)
    queue.submit(LAB2, priority=4_000_000)
    assert queue.leads(job_id) == []
    first = queue.submit(LAB2)
    assert [lead.job_ids for lead in queue.leads(job_id)] == [(first,)]
    assert queue.leads(job_id, replace(RULES, weight_fairshare=0)) == []


def test_the_time_is_left_out_where_it_is_not_known() -> None:
    """The answer was due."""
    queue = Queue()
    job_id = queue.submit(LAB1)
    queue.submit(LAB2)
    (lead,) = queue.leads(job_id, is_late=lambda: True)
    (sentence,) = share_sentences(queue.cluster, queue.cluster.jobs[job_id], [lead], lambda _: True)
    assert sentence == (
        "1 job of account lab2 goes first by fair-share: the factor there is 1.00, its own is 0.67"
    )
    (sentence,) = share_sentences(
        queue.cluster,
        queue.cluster.jobs[job_id],
        [replace(lead, passed_in_s=0, least=0.7)],
        lambda _: True,
    )
    assert "the factor there is 0.70 to 1.00" in sentence
    assert sentence.endswith("; that may last longer than 28 days even if user1001 uses nothing "
                             "more in account lab1")  # fmt: skip


def test_jobs_that_the_caller_may_not_see_are_not_counted() -> None:
    """PrivateData=jobs."""
    queue = Queue()
    job_id = queue.submit(LAB1)
    queue.submit(LAB2)
    leads = queue.leads(job_id)
    assert share_sentences(queue.cluster, queue.cluster.jobs[job_id], leads, lambda _: False) == []
