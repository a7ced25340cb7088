"""Limits of associations and QOS in a pass: who is skipped, why, and that others go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.assoc import Association, Limits, Qos
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.measures import ask_of_allocation
from pyslurm_ng.sched.frame.plan import Plan
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.sched.limits.quotas import Quotas, quotas
from tests.model.clusters import START_US, cluster_of, conf_of, submit, submit_het
from tests.sched.whole_nodes import WHOLE_NODES, job
from tests.world.passes import in_strict_order

PASSES: list[Callable[..., Plan]] = [lambda *a: Planner()(*a), in_strict_order]


def outcome(
    run: Callable[..., Plan], cluster: Cluster, own: Limits, parent: Limits, quality: Limits
) -> Plan:
    """Plan with all jobs in one association and QOS."""
    view = snapshot(cluster, START_US)
    waiting: list[Waiting] = [
        replace(job, assoc_id=2, qos="normal", user_name="ann") for job in view.waiting
    ]
    associations = {
        1: Association(1, "physics", limits=parent),
        2: Association(2, "physics", user="ann", parent_id=1, limits=own),
    }
    quotas = Quotas(associations, {"normal": Qos(1, "normal", limits=quality)})
    return run(replace(view, waiting=waiting, limits=quotas), policy(conf_of(WHOLE_NODES)))


NO = Limits()


@pytest.mark.parametrize("run", PASSES, ids=["backfill", "builtin"])
@pytest.mark.parametrize(
    ("own", "parent", "quality", "reason"),
    [
        (Limits(max_jobs=1), NO, NO, Reason.AssocMaxJobsLimit),
        (NO, Limits(grp_jobs=1), NO, Reason.AssocGrpJobsLimit),
        (NO, Limits(grp_tres={"cpu": 2}), NO, Reason.AssocGrpCpuLimit),
        (NO, Limits(grp_tres={"node": 1}), NO, Reason.AssocGrpNodeLimit),
        (NO, NO, Limits(grp_jobs=1), Reason.QOSGrpJobsLimit),
        (NO, NO, Limits(grp_tres={"cpu": 2}), Reason.QOSGrpCpuLimit),
        (NO, NO, Limits(max_jobs=1), Reason.QOSMaxJobsPerUserLimit),
        (NO, NO, Limits(max_tres_per_user={"cpu": 2}), Reason.QOSMaxCpuPerUserLimit),
        (NO, NO, Limits(max_tres_per_user={"node": 1}), Reason.QOSMaxNodePerUserLimit),
    ],
)
def test_the_second_job_waits_for_the_limit(
    run: Callable[..., Plan], own: Limits, parent: Limits, quality: Limits, reason: Reason
) -> None:
    """One starts; the next has the limit's reason, a number in its sentence, and no promise."""
    cluster = cluster_of(conf_of(WHOLE_NODES))
    first, second = job(cluster, 1, 60), job(cluster, 1, 60)
    plan = outcome(run, cluster, own, parent, quality)
    assert [start.job_id for start in plan.starts] == [first]
    assert plan.waits[second].reason == reason
    assert any(letter.isdigit() for letter in plan.waits[second].text)
    assert second not in plan.expected_start_us


@pytest.mark.parametrize("run", PASSES, ids=["backfill", "builtin"])
def test_a_blocked_job_does_not_hold_up_those_behind(run: Callable[..., Plan]) -> None:
    """A job too wide for its QOS is skipped; the smaller one behind it starts."""
    cluster = cluster_of(conf_of(WHOLE_NODES))
    wide, small = job(cluster, 3, 60), job(cluster, 1, 60)
    plan = outcome(run, cluster, NO, NO, Limits(max_tres_per_job={"node": 2}))
    assert [start.job_id for start in plan.starts] == [small]
    assert plan.waits[wide].reason == Reason.QOSMaxNodePerJobLimit


@pytest.mark.parametrize("run", PASSES, ids=["backfill", "builtin"])
def test_accounts_hand_their_limits_down_and_the_qos_comes_first(run: Callable[..., Plan]) -> None:
    """MaxJobs of the account holds for its user unless the QOS sets its own."""
    cluster = cluster_of(conf_of(WHOLE_NODES))
    first, second, third = (job(cluster, 1, 60) for _ in range(3))
    plan = outcome(run, cluster, NO, Limits(max_jobs=1), NO)
    assert [start.job_id for start in plan.starts] == [first]
    assert plan.waits[second].reason == Reason.AssocMaxJobsLimit
    plan = outcome(run, cluster, NO, Limits(max_jobs=1), Limits(max_jobs=2))
    assert [start.job_id for start in plan.starts] == [first, second]
    assert plan.waits[third].reason == Reason.QOSMaxJobsPerUserLimit


@pytest.mark.parametrize("run", PASSES, ids=["backfill", "builtin"])
def test_a_job_longer_than_its_limit_waits(run: Callable[..., Plan]) -> None:
    cluster = cluster_of(conf_of(WHOLE_NODES))
    long, short = job(cluster, 1, 60), job(cluster, 1, 20)
    plan = outcome(run, cluster, Limits(max_wall_min=30), NO, NO)
    assert [start.job_id for start in plan.starts] == [short]
    assert plan.waits[long].reason == Reason.AssocMaxWallDurationPerJobLimit
    plan = outcome(run, cluster, NO, NO, Limits(max_wall_min=30))
    assert plan.waits[long].reason == Reason.QOSMaxWallDurationPerJobLimit


def test_only_jobs_with_limits_are_counted() -> None:
    cluster = cluster_of(conf_of(WHOLE_NODES))
    first = job(cluster, 1, 60)
    for start in Planner()(snapshot(cluster, START_US), policy(conf_of(WHOLE_NODES))).starts:
        apply_all(cluster, dispatch(cluster, start, START_US))
    running = cluster.jobs[first]
    owner = Association(running.assoc_id, "physics", user="ann", limits=Limits(grp_jobs=1))
    limits = quotas(
        {running.assoc_id: owner}, {}, [(running, ask_of_allocation(running.nodes, "", None, 60))]
    )
    assert limits is not None
    second = job(cluster, 1, 60)
    view = replace(snapshot(cluster, START_US), limits=limits)
    plan = Planner()(view, policy(conf_of(WHOLE_NODES)))
    assert plan.waits[second].reason == Reason.AssocGrpJobsLimit
    assert quotas({1: Association(1, "physics")}, {}, []) is None


@pytest.mark.parametrize("kind", ["sched/backfill", "sched/builtin"])
def test_assoc_limit_stop_starts_no_job_behind_one_over_its_limit(kind: str) -> None:
    """Without it the small job passes. With it all jobs behind wait."""
    cluster = cluster_of(conf_of(WHOLE_NODES))
    wide, small = job(cluster, 3, 60), job(cluster, 1, 60)
    quality = Limits(max_tres_per_job={"node": 2})
    for options, started in (("", [small]), ("SchedulerParameters=assoc_limit_stop\n", [])):
        rules = policy(conf_of(WHOLE_NODES + f"SchedulerType={kind}\n" + options))
        plan = outcome(lambda view, _, r=rules: Planner()(view, r), cluster, NO, NO, quality)
        assert [start.job_id for start in plan.starts] == started
        assert plan.waits[wide].reason == Reason.QOSMaxNodePerJobLimit
    assert plan.waits[small].reason == Reason.Priority


@pytest.mark.parametrize("kind", ["sched/backfill", "sched/builtin"])
def test_assoc_limit_stop_counts_for_arrays_of_which_some_tasks_start(kind: str) -> None:
    """The task that is over the limit keeps those behind it from starting, as a job would."""
    cluster = cluster_of(conf_of(WHOLE_NODES))
    submit(cluster, JobRequest(nodes_min=2, nodes_max=2), ranges=((0, 1, 1),))
    small = job(cluster, 1, 60)
    limits = Limits(grp_tres={"cpu": 5})
    text = WHOLE_NODES + f"SchedulerType={kind}\nSchedulerParameters=assoc_limit_stop\n"
    rules = policy(conf_of(text))
    plan = outcome(lambda view, _: Planner()(view, rules), cluster, NO, limits, NO)
    assert [start.task_id for start in plan.starts] == [0]
    assert plan.waits[small].reason == Reason.Priority


def test_a_heterogeneous_job_is_judged_as_a_whole() -> None:
    """Each component alone would be within the limit of the account."""
    cluster = cluster_of(conf_of(WHOLE_NODES))
    component = JobRequest(nodes_min=1, nodes_max=1)
    first, second = submit_het(cluster, component, component)
    run = PASSES[0]
    plan = outcome(run, cluster, NO, Limits(grp_tres={"cpu": 3}), NO)
    assert not plan.starts
    assert plan.waits[first].reason == plan.waits[second].reason == Reason.AssocGrpCpuLimit
    plan = outcome(run, cluster, NO, Limits(grp_tres={"cpu": 4}), NO)
    assert [start.job_id for start in plan.starts] == [first, second]


def test_what_a_job_takes_counts_more_than_what_it_asks() -> None:
    """Whole nodes of two CPUs for jobs of one: the second would go beyond three."""
    cluster = cluster_of(conf_of(WHOLE_NODES))
    first, second = job(cluster, 1, 60), job(cluster, 1, 60)
    for run in PASSES:
        plan = outcome(run, cluster, NO, NO, Limits(grp_tres={"cpu": 3}))
        assert [start.job_id for start in plan.starts] == [first]
        assert plan.waits[second].reason == Reason.QOSGrpCpuLimit
