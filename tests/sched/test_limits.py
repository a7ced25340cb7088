"""Limits of associations and QOS in a pass: who is skipped, why, and that others go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pyslurm_ng.model.assoc import Association, Limits, Qos
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched import first_fit
from pyslurm_ng.sched.backfill import Planner
from pyslurm_ng.sched.limits import Quotas
from pyslurm_ng.sched.plan import Plan
from pyslurm_ng.sched.policy import policy
from pyslurm_ng.sched.snapshot import Waiting, snapshot
from tests.model.clusters import START_US, cluster_of, conf_of
from tests.sched.test_backfill import WHOLE_NODES, job

PASSES: list[Callable[..., Plan]] = [lambda *a: Planner()(*a), first_fit.plan]


def outcome(
    run: Callable[..., Plan], cluster: Cluster, own: Limits, parent: Limits, quality: Limits
) -> Plan:
    """Plan with all jobs in one association and QOS."""
    view = snapshot(cluster, START_US)
    waiting: list[Waiting] = [
        replace(item, assoc_id=2, qos="normal", user_name="ann") for item in view.waiting
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
