"""Usage of associations and QOS as the controller counts it, and jobs that run out of minutes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyslurm_ng.ctld.rules import timers
from pyslurm_ng.ctld.rules.dispatch import dispatch
from pyslurm_ng.ctld.usage_index import UsageIndex
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.assoc import Association, Limits, Qos
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.policy import policy
from pyslurm_ng.sched.snapshot import snapshot
from tests.model.clusters import START_US, cluster_of, conf_of
from tests.sched.backfill.test_backfill import MINUTE_US, WHOLE_NODES, job


def started(parent: Limits, quality: Qos) -> tuple[Cluster, UsageIndex, Job]:
    """Return a cluster where one job of account physics holds a node of two CPUs."""
    cluster = cluster_of(conf_of(WHOLE_NODES))
    job_id = job(cluster, 1, 600)
    one = cluster.jobs[job_id]
    one.assoc_id, one.qos = 2, quality.name
    apply(cluster, ev.QosChanged(START_US, changed=(quality,)))
    changed = (
        Association(1, "physics", limits=parent),
        Association(2, "physics", "ann", parent_id=1),
    )
    apply(cluster, ev.AssocChanged(START_US, changed=changed, version=1))
    index = UsageIndex(cluster)
    for start in Planner()(snapshot(cluster, START_US), policy(conf_of(WHOLE_NODES))).starts:
        events = dispatch(cluster, start, START_US)
        apply_all(cluster, events)
        index.applied(events)
    return cluster, index, one


PLAIN = Qos(1, "normal")


@pytest.mark.parametrize(
    ("parent", "minutes"),
    [
        (Limits(grp_tres_mins={"cpu": 20}), 10),
        (Limits(grp_wall_min=15), 15),
        (Limits(max_tres_mins_per_job={"cpu": 30}), 15),
    ],
)
def test_a_job_ends_when_its_minutes_are_used_up(parent: Limits, minutes: int) -> None:
    """As at its time limit, and not before."""
    cluster, index, one = started(parent, PLAIN)
    assert index.run_out(START_US + (minutes - 1) * MINUTE_US) == ()
    now_us = START_US + minutes * MINUTE_US
    found = index.run_out(now_us)
    assert found == (one.job_id,)
    events = timers.due(cluster, conf_of(WHOLE_NODES), {}, now_us, (), found)
    (end,) = [event for event in events if isinstance(event, ev.JobCompleting)]
    assert (end.job_id, end.state, end.reason) == (one.job_id, JobState.TIMEOUT, Reason.TimeLimit)


def test_usage_factor_counts_more_or_less() -> None:
    """Twice the minutes at a factor of two."""
    double = Qos(1, "normal", usage_factor_millionths=2_000_000)
    _, index, one = started(Limits(grp_tres_mins={"cpu": 20}), double)
    assert index.run_out(START_US + 5 * MINUTE_US) == (one.job_id,)


def test_what_has_ended_goes_on_to_count() -> None:
    """For this controller, and for one that begins while the job is remembered."""
    cluster, index, one = started(Limits(grp_tres_mins={"cpu": 20}), PLAIN)
    now_us = START_US + 10 * MINUTE_US
    ended = [
        ev.JobCompleting(now_us, one.job_id, JobState.COMPLETED, 0, Reason.NONE, 0, ()),
        ev.JobEnded(now_us, one.job_id, JobState.COMPLETED, 0),
    ]
    apply_all(cluster, ended)
    index.applied(ended)
    next_id = job(cluster, 1, 5)
    cluster.jobs[next_id].assoc_id = 2
    for known in (index, UsageIndex(cluster)):
        view = snapshot(cluster, now_us)
        (waiting,) = view.waiting
        limits = known.quotas(now_us)
        assert limits is not None
        rules = policy(conf_of(WHOLE_NODES))
        plan = Planner()(replace(view, limits=limits), rules)
        assert plan.waits[waiting.job_id].reason is Reason.AssocGrpCPUMinutesLimit
