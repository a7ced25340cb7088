"""Preemption on small clusters: who leaves, who starts, and that nobody leaves in vain."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from pyslurm_ng.base.numbers import (
    MINUTE_US,
    REQ_EXCLUSIVE,
    REQ_EXCLUSIVE_USER,
    SECOND_US,
    SIGNAL_PREEMPTED,
)
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.assoc import Limits, Qos
from pyslurm_ng.model.duty import DutyKind
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import JobFlag, JobState, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.job_views import Views
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.sched.limits.quotas import Quotas
from tests.model.clusters import START_US, submit
from tests.sched.preemption.preemption_site import BASE, TIERS, PreemptionSite, pass_on
from tests.world.examples import drawn

BY_QOS = (
    BASE
    + r"""
PreemptType=preempt/qos
PreemptMode=%s
PartitionName=main Nodes=n[1-4] Default=YES DefMemPerCPU=1000 MaxTime=INFINITE
"""
)


def test_possible_victims_are_recorded_where_jobs_preempt() -> None:
    """Elsewhere no record is made. A later setting holds for jobs that run already."""
    site = PreemptionSite(TIERS % "CANCEL")
    submit(site.cluster, JobRequest(ntasks=1, partition="low"))
    views = Views()
    for start in Planner()(snapshot(site.cluster, START_US, views), site.policy).starts:
        events = dispatch(site.cluster, start, START_US)
        apply_all(site.cluster, events)
        views.forget([start.job_id])
    for preempts in (False, True, False):
        views.heed_preemption(preempts)
        (job,) = snapshot(site.cluster, START_US, views).running
        assert (job.victim is not None) == preempts


def test_higher_tier_cancels_and_then_starts() -> None:
    """The victim gets the reason. The preemptor starts when it has gone, not before."""
    site = PreemptionSite(TIERS % "CANCEL")
    low = [site.add("low", 4) for _ in range(4)]
    site.run_pass()
    high = site.add("high", 4)
    plan = site.run_pass()
    assert len(plan.preemptions) == 1
    [(victim, mode)] = plan.preemptions[0].victims
    assert mode == "CANCEL"
    assert site.state(victim) == JobState.PREEMPTED
    job = site.cluster.jobs[victim]
    assert job.flags & JobFlag.COMPLETING and job.preempt_us == START_US
    duties = [duty for of in site.cluster.duties.values() for duty in of.values()]
    assert [d.flags for d in duties if d.kind == DutyKind.TERMINATE] == [SIGNAL_PREEMPTED]
    assert site.state(high) == JobState.PENDING
    assert plan.waits[high].reason == Reason.Resources
    assert str(victim) in plan.waits[high].text
    where = [alloc.node_id for alloc in job.nodes]
    site.clean_up()
    site.run_pass()
    assert site.state(high) == JobState.RUNNING and site.nodes(high) == where
    assert site.states(*low).count("RUNNING") == 3
    assert site.state(victim) == JobState.PREEMPTED and not site.cluster.jobs[victim].flags


def test_no_job_takes_freed_nodes_and_no_new_victims_are_chosen() -> None:
    """While victims clean up, passes leave the claim alone, even for jobs that would fit."""
    site = PreemptionSite(TIERS % "CANCEL")
    for _ in range(4):
        site.add("low", 4)
    site.run_pass()
    high = site.add("high", 2)
    site.run_pass()
    small = site.add("low", 2, minutes=1)
    for _ in range(3):
        plan = site.run_pass()
        assert plan.preemptions == [] and plan.starts == []
    site.clean_up()
    plan = site.run_pass()
    assert site.state(high) == JobState.RUNNING
    # The claim is of two cores only; the other two are anybody's.
    assert site.state(small) == JobState.RUNNING
    assert site.nodes(small) == site.nodes(high)


def test_requeue_and_its_fallback() -> None:
    """A job that may not be requeued is cancelled instead."""
    site = PreemptionSite(TIERS % "REQUEUE")
    low = [site.add("low", 4, requeue=number > 0) for number in range(4)]
    site.run_pass()
    site.add("high", 4, nodes=4)
    site.run_pass()
    site.clean_up()
    assert site.states(*low) == ["PREEMPTED", "PENDING", "PENDING", "PENDING"]
    again = site.cluster.jobs[low[1]]
    assert again.attempt == 1 and again.reason == Reason.BeginTime


def test_fewest_and_least_valuable_leave() -> None:
    """The lowest tier goes first, of it as few as will do."""
    site = PreemptionSite(TIERS % "CANCEL")
    mid = [site.add("mid", 4) for _ in range(2)]
    low = [site.add("low", 1) for _ in range(4)]
    large = site.add("low", 4)
    site.run_pass()
    assert len(set(site.nodes(low[0]) + site.nodes(low[3]))) == 1
    high = site.add("high", 4)
    plan = site.run_pass()
    assert [victim for victim, _ in plan.preemptions[0].victims] == [large]
    assert site.states(*mid, *low) == ["RUNNING"] * 6
    del high


def test_no_job_leaves_in_vain() -> None:
    """A job that would not fit without all that it may preempt preempts none."""
    site = PreemptionSite(TIERS % "CANCEL")
    site.add("high", 1)
    low = [site.add("low", 4) for _ in range(3)]
    site.run_pass()
    wide = site.add("high", 4, nodes=4)
    plan = site.run_pass()
    assert plan.preemptions == [] and site.states(*low) == ["RUNNING"] * 3
    assert site.state(wide) == JobState.PENDING and plan.expected_start_us[wide] > START_US


def test_mode_off_and_equal_tier_protect() -> None:
    site = PreemptionSite(
        (TIERS % "CANCEL").replace("PartitionName=low", "PartitionName=low PreemptMode=OFF")
    )
    low = [site.add("low", 4) for _ in range(3)]
    high = site.add("high", 4)
    site.run_pass()
    site.add("high", 4)
    plan = site.run_pass()
    assert plan.preemptions == [] and site.states(*low, high) == ["RUNNING"] * 4


def test_grace_time() -> None:
    """A victim gets SIGCONT and SIGTERM at once and ends when its grace is over."""
    site = PreemptionSite(
        (TIERS % "CANCEL").replace("PartitionName=low", "PartitionName=low GraceTime=30")
    )
    low = [site.add("low", 4) for _ in range(4)]
    site.run_pass()
    high = site.add("high", 4)
    [(victim, _)] = site.run_pass().preemptions[0].victims
    job = site.cluster.jobs[victim]
    assert job.state == JobState.RUNNING and job.preempt_end_us == START_US + 30 * SECOND_US
    duties = [duty for of in site.cluster.duties.values() for duty in of.values()]
    assert [duty.signal for duty in duties if duty.kind == DutyKind.SIGNAL] == [18, 15]
    site.wait(25)
    assert site.run_pass().preemptions == []
    assert site.state(victim) == JobState.RUNNING
    site.wait(10)
    assert site.state(victim) == JobState.PREEMPTED
    site.clean_up()
    site.run_pass()
    assert site.state(high) == JobState.RUNNING and site.states(*low).count("RUNNING") == 3


@pytest.mark.parametrize(("words", "signals"), [("", [18, 15]), ("send_user_signal", [18, 10, 15])])
def test_the_users_own_signal(words: str, signals: list[int]) -> None:
    """It comes before SIGTERM, if the administrator wants that."""
    text = (TIERS % "CANCEL").replace("PartitionName=low", "PartitionName=low GraceTime=30")
    site = PreemptionSite(text + (f"PreemptParameters={words}\n" if words else ""))
    for _ in range(4):
        site.add("low", 4, signal=10)
    site.run_pass()
    site.add("high", 4)
    assert site.run_pass().preemptions
    duties = [duty for of in site.cluster.duties.values() for duty in of.values()]
    assert [duty.signal for duty in duties if duty.kind == DutyKind.SIGNAL] == signals


def test_exempt_time_holds_off_exactly() -> None:
    """No job is preempted before its time, and the plan says when to look again."""
    site = PreemptionSite((TIERS % "CANCEL") + "PreemptExemptTime=00:05:00\n")
    low = [site.add("low", 4) for _ in range(4)]
    site.run_pass()
    site.add("high", 4)
    plan = site.run_pass()
    assert plan.preemptions == [] and plan.retry_us == START_US + 5 * MINUTE_US
    site.now_us = plan.retry_us - 1
    assert site.run_pass().preemptions == []
    site.now_us += 1
    assert len(site.run_pass().preemptions) == 1
    assert site.states(*low).count("PREEMPTED") == 1


def test_starts_are_planned_for_when_others_are_no_longer_exempt() -> None:
    """With their grace; who comes behind counts on what is left."""
    conf = (TIERS % "CANCEL").replace("PartitionName=low", "PartitionName=low GraceTime=60")
    site = PreemptionSite(conf + "PreemptExemptTime=00:05:00\n")
    for _ in range(4):
        site.add("low", 4)
    site.run_pass()
    high = site.add("high", 4, nodes=3)
    wide = site.add("low", 1, nodes=4)
    plan = site.run_pass()
    assert plan.expected_start_us[high] == START_US + 6 * MINUTE_US
    assert plan.expected_start_us[wide] >= START_US + 66 * MINUTE_US
    assert len(plan.planned_nodes[high]) == 3
    site.now_us = plan.retry_us
    site.run_pass()
    assert site.cluster.jobs[high].claim
    site.wait(60)
    site.clean_up()
    site.run_pass()
    assert site.state(high) == JobState.RUNNING


def test_jobs_that_keep_others_away_make_room_like_any() -> None:
    """Of the same user, by --exclusive=user; the others of his stay alone on their nodes."""
    site = PreemptionSite(TIERS % "CANCEL")
    low = [site.add("low", 2, flags=REQ_EXCLUSIVE_USER, node_list=f"n{at}") for at in range(1, 5)]
    site.run_pass()
    high = site.add("high", 3)
    [preemption] = site.run_pass().preemptions
    assert len(preemption.victims) == 1
    site.clean_up()
    site.run_pass()
    assert site.state(high) == JobState.RUNNING
    assert sorted(site.states(*low)) == ["PREEMPTED", "RUNNING", "RUNNING", "RUNNING"]


def test_no_victim_serves_two_jobs() -> None:
    """The second counts on another victim that is exempt for longer, or on none."""
    site = PreemptionSite((TIERS % "REQUEUE") + "PreemptExemptTime=00:05:00\n")
    for _ in range(4):
        site.add("low", 4)
        site.run_pass()
        site.now_us += MINUTE_US
    high = [site.add("high", 4) for _ in range(2)]
    plan = site.run_pass()
    starts_min = [(plan.expected_start_us[job_id] - START_US) // MINUTE_US for job_id in high]
    assert starts_min == [5, 6]


def test_youngest_first() -> None:
    site = PreemptionSite((TIERS % "CANCEL") + "PreemptParameters=youngest_first\n")
    low = []
    for _ in range(4):
        low.append(site.add("low", 4))
        site.run_pass()
        site.wait(10)
    site.add("high", 4)
    assert [victim for victim, _ in site.run_pass().preemptions[0].victims] == [low[-1]]


def test_priority_exempts() -> None:
    site = PreemptionSite((TIERS % "CANCEL") + "PreemptParameters=min_exempt_priority=1000\n")
    low = [site.add("low", 4) for _ in range(4)]
    site.run_pass()
    for job_id in low:
        site.apply_one(ev.JobUpdated(START_US, job_id, {"priority": 1000}))
    site.apply_one(ev.JobUpdated(START_US, low[2], {"priority": 999}))
    site.add("high", 4)
    assert [victim for victim, _ in site.run_pass().preemptions[0].victims] == [low[2]]


def test_licences_are_reclaimed_only_where_that_is_wanted() -> None:
    for word, count in ((), 0), (("PreemptParameters=reclaim_licenses\n",), 1):
        site = PreemptionSite((TIERS % "CANCEL") + "".join(word))
        site.add("low", 1, licenses="matlab:2")
        site.run_pass()
        high = site.add("high", 1, licenses="matlab:1")
        assert len(site.run_pass().preemptions) == count
        site.clean_up()
        site.run_pass()
        assert (site.state(high) == JobState.RUNNING) == bool(count)


def qos_site(mode: str = "REQUEUE", **urgent: object) -> PreemptionSite:
    site = PreemptionSite(BY_QOS % mode)
    site.qos(
        Qos(1, "normal", priority=10),
        Qos(2, "cheap", priority=1, grace_time_s=0),
        msgspec.structs.replace(Qos(3, "urgent", priority=100, preempt=("cheap",)), **urgent),
    )
    return site


def test_qos_preempts_only_what_it_lists() -> None:
    """Preempt of the QOS."""
    site = qos_site()
    normal = [site.add("main", 4, qos="normal") for _ in range(3)]
    cheap = site.add("main", 4, qos="cheap")
    site.run_pass()
    first, second = (site.add("main", 4, qos="urgent") for _ in range(2))
    plan = site.run_pass()
    assert [preemption.victims for preemption in plan.preemptions] == [((cheap, "REQUEUE"),)]
    assert plan.preemptions[0].start.job_id == first
    assert site.states(*normal) == ["RUNNING"] * 3
    site.clean_up()
    site.run_pass()
    assert site.states(first, second, cheap) == ["RUNNING", "PENDING", "PENDING"]


def test_qos_mode_and_exempt_time_come_before_the_clusters() -> None:
    """PreemptMode, PreemptExemptTime and GraceTime of the QOS."""
    site = qos_site("CANCEL")
    site.qos(
        Qos(2, "cheap", preempt_mode="requeue", preempt_exempt_s=60, grace_time_s=30),
        Qos(3, "urgent", priority=100, preempt=("cheap",)),
    )
    site.add("main", 4, nodes=4, qos="cheap")
    site.run_pass()
    site.add("main", 4, qos="urgent")
    assert site.run_pass().preemptions == []
    site.wait(60)
    [preemption] = site.run_pass().preemptions
    assert [mode for _, mode in preemption.victims] == ["REQUEUE"]
    (job,) = (site.cluster.jobs[job_id] for job_id, _ in preemption.victims)
    assert job.preempt_end_us == site.now_us + 30 * SECOND_US


def test_within_needs_a_higher_priority() -> None:
    site = qos_site("CANCEL", preempt=(), preempt_mode="cancel,within")
    first = site.add("main", 4, nodes=4, qos="urgent")
    site.run_pass()
    second = site.add("main", 4, qos="urgent")
    assert site.run_pass().preemptions == []
    site.apply_one(ev.JobUpdated(START_US, first, {"priority": 5}))
    site.apply_one(ev.JobUpdated(START_US, second, {"priority": 6}))
    [preemption] = site.run_pass().preemptions
    assert preemption.victims == ((first, "CANCEL"),)


def test_jobs_that_can_preempt_are_looked_at_first() -> None:
    """A job of a preempting QOS starts before jobs of higher priority that cannot preempt."""
    site = qos_site()
    plain = site.add("main", 4, nodes=4, qos="normal")
    urgent = site.add("main", 4, nodes=4, qos="urgent")
    site.run_pass()
    assert site.states(plain, urgent) == ["PENDING", "RUNNING"]


def test_array_tasks_preempt_one_by_one_in_one_pass() -> None:
    site = PreemptionSite(TIERS % "CANCEL")
    low = [site.add("low", 4) for _ in range(4)]
    site.run_pass()
    head = site.add("high", 4, ranges=((0, 4, 1),))
    plan = site.run_pass()
    assert len(plan.preemptions) == 4 and site.states(*low) == ["PREEMPTED"] * 4
    site.clean_up()
    site.run_pass()
    tasks = {job.array_task_id for job in site.cluster.jobs.values() if job.array_job_id == head
             and job.state == JobState.RUNNING}  # fmt: skip
    assert tasks == {0, 1, 2, 3}


def test_claim_is_lost_with_its_node_and_made_again() -> None:
    site = PreemptionSite(TIERS % "CANCEL")
    for _ in range(4):
        site.add("low", 4)
    site.run_pass()
    high = site.add("high", 4)
    site.run_pass()
    [alloc] = site.cluster.jobs[high].claim
    from pyslurm_ng.ctld.rules.ends.node_loss import nodes_down

    site.apply(nodes_down(site.cluster, (alloc.node_id,), "test", site.now_us))
    plan = site.run_pass()
    assert plan.lost_claims == [high] and not site.cluster.jobs[high].claim
    site.run_pass()
    assert site.cluster.jobs[high].claim and site.cluster.jobs[high].claim != (alloc,)


def test_claim_ends_when_its_job_is_held_or_changed() -> None:
    site = PreemptionSite(TIERS % "CANCEL")
    for _ in range(4):
        site.add("low", 4)
    site.run_pass()
    high = site.add("high", 4)
    site.run_pass()
    site.apply_one(ev.JobUpdated(site.now_us, high, {"priority": 0, "reason": 0}))
    site.run_pass()
    assert not site.cluster.jobs[high].claim and not site.cluster.job_index.claims


def test_job_starts_elsewhere_if_room_comes_first() -> None:
    """A preemptor does not insist on its claim when it fits on other nodes meanwhile."""
    site = PreemptionSite(TIERS % "CANCEL")
    low = [site.add("low", 4) for _ in range(4)]
    site.run_pass()
    high = site.add("high", 4)
    [(victim, _)] = site.run_pass().preemptions[0].victims
    other = next(job_id for job_id in low if job_id != victim)
    where = site.nodes(other)
    from pyslurm_ng.ctld.rules.ends.node_loss import nodes_down

    site.apply(nodes_down(site.cluster, tuple(where), "test", site.now_us))
    site.apply_one(ev.NodesReturned(site.now_us, tuple(where)))
    site.run_pass()
    assert site.state(high) == JobState.RUNNING and site.nodes(high) == where
    assert not site.cluster.job_index.claims


JOBS = st.lists(
    st.tuples(
        st.sampled_from(["low", "mid", "high"]),
        st.integers(1, 4),
        st.integers(0, 4),
        st.sampled_from([1, 10, 60]),
    ),
    max_size=14,
)


@settings(deadline=None, max_examples=drawn(120))
@given(jobs=JOBS, steps=st.lists(st.sampled_from("pcw"), max_size=12),
       mode=st.sampled_from(["CANCEL", "REQUEUE"]))  # fmt: skip
def test_never_in_vain(jobs: list[tuple[str, int, int, int]], steps: list[str], mode: str) -> None:
    """Whatever is preempted was of a lower tier, and its preemptor starts once it has gone."""
    site = PreemptionSite(TIERS % mode)
    todo = list(jobs)
    for step in [*steps, *("pc" * 10)]:
        if todo:
            partition, cpus, nodes, minutes = todo.pop(0)
            site.add(partition, cpus, nodes=nodes, minutes=minutes)
        if step == "w":
            site.wait(61)
        elif step == "c":
            site.clean_up()
        plan = site.run_pass()
        tiers = site.cluster.partitions
        for preemption in plan.preemptions:
            own = tiers[preemption.start.partition].priority_tier
            assert preemption.victims
            for victim, _ in preemption.victims:
                job = site.cluster.jobs[victim]
                partition = job.partition if job.nodes else job.request.partition
                assert tiers[partition].priority_tier < own
        if plan.preemptions:
            site.clean_up()
            site.run_pass()
            for preemption in plan.preemptions:
                assert site.state(preemption.start.job_id) == JobState.RUNNING


@settings(max_examples=20, deadline=None)
@given(
    low=st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 9), st.booleans()), min_size=2, max_size=7
    ),
    high=st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 9)), min_size=1, max_size=3
    ),
    mode=st.sampled_from(["CANCEL", "REQUEUE"]),
)
def test_starts_planned_ahead_of_exempt_jobs_are_kept(
    low: list[tuple[int, int, bool]], high: list[tuple[int, int, int]], mode: str
) -> None:
    """Jobs of the highest tier start when the first pass has said, or before."""
    site = PreemptionSite((TIERS % mode) + "PreemptExemptTime=00:05:00\n")
    site.now_us = 60 * MINUTE_US * (START_US // MINUTE_US // 60)
    for cpus, minutes, comes_later in low:
        site.add("low", cpus, minutes=minutes, requeue=comes_later)
        if comes_later:
            site.run_pass()
            site.now_us += MINUTE_US
    site.run_pass()
    ids = [site.add("high", cpus, nodes=nodes, minutes=long) for cpus, nodes, long in high]
    promised = dict(site.run_pass().expected_start_us)
    for _ in range(40):
        pass_on(site)
        for job_id in ids:
            if job_id in site.cluster.job_index.pending:
                assert site.now_us <= promised.get(job_id, site.now_us)
        if not site.cluster.job_index.pending.keys() & set(ids):
            break


def test_no_job_leaves_for_one_whose_limit_would_keep_it_waiting() -> None:
    """It asks for one CPU and would get a whole node of four, which is more than it may have."""
    for most, leaves in ((3, False), (4, True)):
        site = PreemptionSite(TIERS % "CANCEL")
        for _ in range(4):
            site.add("low", 4)
        site.run_pass()
        job_id = site.add("high", 1, qos="tight", flags=REQ_EXCLUSIVE)
        tight = Qos(1, "tight", limits=Limits(grp_tres={"cpu": most}))
        view = replace(snapshot(site.cluster, site.now_us), limits=Quotas({}, {"tight": tight}))
        plan = Planner()(view, site.policy)
        assert bool(plan.preemptions) is leaves
        assert job_id in plan.waits


def test_no_job_leaves_for_one_that_would_miss_its_deadline() -> None:
    """With --time-min it starts, cut to what is left."""
    site = PreemptionSite(TIERS % "CANCEL")
    site.add("low", 4, nodes=4)
    site.run_pass()
    wants = {"deadline_us": site.now_us + 10 * MINUTE_US, "time_limit_min": 30}
    late = site.add("high", 2, minutes=30, **wants)  # type: ignore[arg-type]
    plan = site.run_pass()
    assert plan.preemptions == []
    assert plan.waits[late].reason == Reason.DeadLine
    short = site.add("high", 2, minutes=30, time_min_min=5, **wants)  # type: ignore[arg-type]
    (preemption,) = site.run_pass().preemptions
    assert (preemption.start.job_id, preemption.start.time_limit_min) == (short, 10)


def test_while_others_leave_for_a_job_its_limit_counts_what_it_will_have() -> None:
    """A second job of the QOS would fit beside it by the least that both ask for."""
    site = PreemptionSite(TIERS % "CANCEL")
    site.add("low", 4, node_list="n1")
    site.run_pass()
    first = site.add("high", 1, qos="tight", flags=REQ_EXCLUSIVE, node_list="n1")
    tight = Qos(1, "tight", limits=Limits(grp_tres={"cpu": 6}))
    site.run_pass()
    second = site.add("low", 3, qos="tight", minutes=5)
    view = replace(snapshot(site.cluster, site.now_us), limits=Quotas({}, {"tight": tight}))
    plan = Planner()(view, site.policy)
    assert [start.job_id for start in plan.starts] == []
    assert plan.waits[second].reason == Reason.QOSGrpCpuLimit
    assert first in site.cluster.job_index.claims and not plan.lost_claims


def test_a_claim_over_a_limit_is_given_up() -> None:
    """The limit was lowered, or used up by others, since others were asked to leave."""
    site = PreemptionSite(TIERS % "CANCEL")
    for _ in range(4):
        site.add("low", 4)
    site.run_pass()
    first = site.add("high", 1, qos="tight", flags=REQ_EXCLUSIVE)
    site.run_pass()
    site.clean_up()
    assert site.cluster.jobs[first].claim
    tight = Qos(1, "tight", limits=Limits(grp_tres={"cpu": 3}))
    view = replace(snapshot(site.cluster, site.now_us), limits=Quotas({}, {"tight": tight}))
    plan = Planner()(view, site.policy)
    assert (plan.starts, plan.lost_claims) == ([], [first])
    assert plan.waits[first].reason == Reason.QOSGrpCpuLimit
