"""Heterogeneous jobs preempt whole: all components get room, or nobody leaves."""

from __future__ import annotations

from hypothesis import example, given, settings, strategies as st

from pyslurm_ng.base.numbers import MINUTE_US
from pyslurm_ng.ctld.rules.starts import preempt
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.sched.explain.explain import outlook
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import START_US, submit_het
from tests.sched.preemption.preemption_site import TIERS, PreemptionSite, pass_on
from tests.world.examples import drawn


class HetSite(PreemptionSite):
    """The same with heterogeneous jobs."""

    def het(self, *parts: JobRequest, minutes: int = 60) -> list[int]:
        """Submit a heterogeneous job; return its components."""
        ids = submit_het(self.cluster, *parts, time_limit_min=minutes)
        self.twin = Cluster.from_bytes(self.cluster.to_bytes())
        return list(ids)


def tasks(count: int, partition: str = "high") -> JobRequest:
    """Return a component of one node."""
    return JobRequest(ntasks=count, nodes_min=1, nodes_max=1, partition=partition)


def test_all_components_start_when_all_victims_have_left() -> None:
    """Two whole nodes are taken from two jobs, and no other job gets them meanwhile."""
    site = HetSite(TIERS % "CANCEL")
    low = [site.add("low", 4) for _ in range(4)]
    site.run_pass()
    parts = site.het(tasks(4), tasks(4))
    plan = site.run_pass()
    assert [len(preemption.victims) for preemption in plan.preemptions] == [2]
    assert site.states(*low).count("PREEMPTED") == 2
    assert "have left" in plan.waits[parts[0]].text
    late = site.add("mid", 1)
    site.clean_up()
    site.run_pass()
    assert site.states(*parts) == ["RUNNING", "RUNNING"]
    assert site.state(late).name == "PENDING" or site.states(*low).count("PREEMPTED") == 3


def test_what_is_free_is_used_first() -> None:
    """One component fits beside the others; only the second one needs a victim."""
    site = HetSite(TIERS % "REQUEUE")
    low = [site.add("low", 4) for _ in range(3)]
    site.run_pass()
    parts = site.het(tasks(4), tasks(4))
    plan = site.run_pass()
    assert [len(preemption.victims) for preemption in plan.preemptions] == [1]
    site.clean_up()
    site.run_pass()
    assert site.states(*parts) == ["RUNNING", "RUNNING"]
    assert site.states(*low).count("RUNNING") == 2


def test_no_job_leaves_when_one_component_has_no_room() -> None:
    """Four nodes, and one of them is held by a job of the same tier."""
    site = HetSite(TIERS % "CANCEL")
    site.add("high", 4)
    low = [site.add("low", 4) for _ in range(3)]
    site.run_pass()
    parts = site.het(tasks(4), tasks(4), tasks(4), tasks(4))
    plan = site.run_pass()
    assert plan.preemptions == []
    assert site.states(*low) == ["RUNNING"] * 3
    assert site.states(*parts) == ["PENDING"] * 4
    other = site.add("high", 4)
    assert [preemption.start.job_id for preemption in site.run_pass().preemptions] == [other]


def test_components_of_lower_tiers_take_what_is_free() -> None:
    """Only the component of the high tier may drive anybody out."""
    site = HetSite(TIERS % "CANCEL")
    low = [site.add("low", 4) for _ in range(3)]
    site.run_pass()
    parts = site.het(tasks(4, "low"), tasks(4))
    plan = site.run_pass()
    assert [len(preemption.victims) for preemption in plan.preemptions] == [1]
    site.clean_up()
    site.run_pass()
    assert site.states(*parts) == ["RUNNING", "RUNNING"]
    assert site.states(*low).count("RUNNING") == 2


def test_claims_to_one_node_are_given_up() -> None:
    """As an older release made them: the components look for nodes of their own anew."""
    site = HetSite(TIERS % "CANCEL")
    low = [site.add("low", 4) for _ in range(4)]
    site.run_pass()
    parts = site.het(tasks(1), tasks(1))
    site.run_pass()
    first, second = (site.cluster.jobs[job_id] for job_id in parts)
    assert first.claim and second.claim
    for cluster in (site.cluster, site.twin):
        cluster.jobs[parts[1]].claim = first.claim
    plan = site.run_pass()
    assert set(plan.lost_claims) == set(parts)
    site.clean_up()
    site.run_pass()
    assert site.states(*parts) == ["RUNNING", "RUNNING"]
    assert site.states(*low).count("PREEMPTED") == 2


def test_a_claim_that_lost_a_component_is_given_up() -> None:
    """A component that is changed no longer has a claim, so the others lose theirs."""
    site = HetSite(TIERS % "CANCEL")
    for _ in range(4):
        site.add("low", 4)
    site.run_pass()
    parts = site.het(tasks(4), tasks(4))
    site.run_pass()
    site.apply(preempt.lost_claims(site.cluster, parts[1:], site.now_us))
    plan = site.run_pass()
    assert plan.lost_claims == parts[:1]
    assert not site.cluster.job_index.claims
    site.clean_up()
    site.run_pass()
    assert site.states(*parts) == ["RUNNING", "RUNNING"]


SIZES = st.lists(st.integers(1, 4), min_size=2, max_size=4)


@settings(max_examples=drawn(60), deadline=None)
@given(
    low=st.lists(st.integers(1, 4), max_size=8),
    mid=st.lists(st.integers(1, 4), max_size=4),
    jobs=st.lists(SIZES, min_size=1, max_size=3),
    mode=st.sampled_from(["CANCEL", "REQUEUE"]),
)
def test_never_in_vain(low: list[int], mid: list[int], jobs: list[list[int]], mode: str) -> None:
    """Once victims have left, the job they left for starts, with all its components."""
    site = HetSite(TIERS % mode)
    for size in low:
        site.add("low", size)
    for size in mid:
        site.add("mid", size)
    site.run_pass()
    het = [site.het(*(tasks(size) for size in sizes)) for sizes in jobs]
    plan = site.run_pass()
    awaited = {preemption.start.job_id for preemption in plan.preemptions}
    site.clean_up()
    site.run_pass()
    for ids in het:
        if awaited.intersection(ids):
            assert site.states(*ids) == ["RUNNING"] * len(ids)
        assert len(set(site.states(*ids))) == 1


def test_starts_are_planned_for_when_others_are_no_longer_exempt() -> None:
    """Of all components at once, with the grace of whoever leaves; explain says so, too."""
    conf = (TIERS % "CANCEL").replace("PartitionName=low", "PartitionName=low GraceTime=60")
    site = HetSite(conf + "PreemptExemptTime=00:05:00\n")
    low = [site.add("low", 4) for _ in range(4)]
    site.run_pass()
    parts = site.het(tasks(4), tasks(4), tasks(1))
    wide = site.add("low", 1, nodes=4)
    job_outlook = outlook(snapshot(site.cluster, site.now_us), site.policy, parts[1])
    plan = site.run_pass()
    leave_us = START_US + 6 * MINUTE_US
    assert {plan.expected_start_us[job_id] for job_id in parts} == {leave_us}
    assert sorted(len(plan.planned_nodes[job_id]) for job_id in parts) == [1, 1, 1]
    assert plan.expected_start_us[wide] >= leave_us + 60 * MINUTE_US
    assert job_outlook is not None
    assert (job_outlook.start_us, "they are to leave for it then" in job_outlook.note) == (
        leave_us,
        True,
    )
    assert site.states(*low) == ["RUNNING"] * 4
    site.now_us = plan.retry_us
    site.run_pass()
    assert all(site.cluster.jobs[job_id].claim for job_id in parts)
    site.wait(60)
    site.clean_up()
    site.run_pass()
    assert site.states(*parts) == ["RUNNING"] * 3


@settings(max_examples=drawn(40), deadline=None)
@given(
    low=st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 9), st.booleans()), min_size=2, max_size=7
    ),
    jobs=st.lists(SIZES, min_size=1, max_size=2),
    mode=st.sampled_from(["CANCEL", "REQUEUE"]),
)
@example(
    low=[(3, 1, True), (4, 1, False), (3, 1, False), (3, 9, True), (2, 9, True), (1, 6, True),
         (2, 1, True)],
    jobs=[[1, 2], [2, 2, 3, 4]],
    mode="CANCEL",
)  # fmt: skip
def test_starts_planned_ahead_of_exempt_jobs_are_kept(
    low: list[tuple[int, int, bool]], jobs: list[list[int]], mode: str
) -> None:
    """Heterogeneous jobs of the highest tier start when the first pass has said, or before."""
    site = HetSite((TIERS % mode) + "PreemptExemptTime=00:05:00\n")
    site.now_us = 60 * MINUTE_US * (START_US // MINUTE_US // 60)
    for cpus, minutes, comes_later in low:
        site.add("low", cpus, minutes=minutes, requeue=comes_later)
        if comes_later:
            site.run_pass()
            site.now_us += MINUTE_US
    site.run_pass()
    ids = [job_id for sizes in jobs for job_id in site.het(*map(tasks, sizes))]
    promised = dict(site.run_pass().expected_start_us)
    for _ in range(20):
        pass_on(site)
        for job_id in ids:
            if job_id in site.cluster.job_index.pending:
                assert site.now_us <= promised.get(job_id, site.now_us)
        if not site.cluster.job_index.pending.keys() & set(ids):
            break
