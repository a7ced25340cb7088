"""Scheduling passes on a cluster in this process: plan, start, preempt, and check."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pyslurm_ng.ctld.rules.starts import preempt
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch, dispatch_het
from pyslurm_ng.ctld.rules.starts.preparation import NONE, Preparation
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.plan import Plan, Start
from pyslurm_ng.sched.frame.policy import Policy, policy
from pyslurm_ng.sched.frame.snapshot import Snapshot, snapshot
from tests.model.clusters import START_US, conf_of

PlanFunction = Callable[[Snapshot, Policy], Plan]
Apply = Callable[[list[ev.AnyEvent]], None]
PLAIN = policy(conf_of())


def in_strict_order(
    snapshot: Snapshot,
    rules: Policy,
    budget: int = 1 << 62,
    fairshare: Mapping[int, float] | None = None,
) -> Plan:
    """Return the plan of a pass as sched/builtin makes it."""
    return Planner()(snapshot, replace(rules, backfills=False), budget, fairshare)


def together(starts: list[Start]) -> list[list[Start]]:
    """Return the starts, those of one heterogeneous job side by side."""
    groups: list[list[Start]] = []
    for start in starts:
        if start.het_job_id and groups and groups[-1][0].het_job_id == start.het_job_id:
            groups[-1].append(start)
        else:
            groups.append([start])
    return groups


def start_all(
    cluster: Cluster, plan: Plan, now_us: int, apply: Apply, prepare: Preparation = NONE
) -> None:
    """Start what a plan wants; each start must still be allowed."""
    for starts in together(plan.starts):
        if starts[0].het_job_id:
            events = dispatch_het(cluster, starts, now_us, prepare=prepare)
        else:
            events = dispatch(cluster, starts[0], now_us, prepare=prepare)
        assert events, starts
        apply(events)


def preempt_all(cluster: Cluster, plan: Plan, now_us: int, apply: Apply, rules: Policy) -> None:
    """Have the jobs leave that a plan preempts, and start those for which room is there at once."""
    apply(preempt.lost_claims(cluster, plan.lost_claims, now_us))
    for preemption in plan.preemptions:
        events, split = preempt.split(cluster, preemption, now_us)
        apply(events)
        assert split is not None
        leave = preempt.preempt(cluster, split, rules, now_us)
        assert leave is not None, preemption
        apply(leave)
        if not cluster.jobs[split.start.job_id].claim:
            started = dispatch(cluster, split.start, now_us)
            assert started, preemption
            apply(started)


def run_pass(
    cluster: Cluster,
    now_us: int = START_US,
    rules: Policy = PLAIN,
    plan: PlanFunction | None = None,
) -> Plan:
    """Plan one pass and start what it wants; the cluster must be sound afterwards."""
    outcome = (plan or Planner())(snapshot(cluster, now_us), rules)
    start_all(cluster, outcome, now_us, lambda events: apply_all(cluster, events))
    assert check(cluster) == []
    return outcome
