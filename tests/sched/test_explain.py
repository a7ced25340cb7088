"""Outlooks of waiting jobs on four nodes: start, holders, and what would let them start sooner."""

from __future__ import annotations

from pyslurm_ng.ctld.rules.dispatch import dispatch
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import REQ_EXCLUSIVE, JobRequest
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.sched.backfill import Planner
from pyslurm_ng.sched.explain import Outlook, outlook
from pyslurm_ng.sched.plan import Plan
from pyslurm_ng.sched.policy import policy
from pyslurm_ng.sched.snapshot import snapshot
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of, submit

MINUTE_US = 60_000_000
RULES = policy(conf_of(FOUR_NODES))


def run_pass(cluster: Cluster) -> Plan:
    outcome = Planner()(snapshot(cluster, START_US), RULES)
    for start in outcome.starts:
        apply_all(cluster, dispatch(cluster, start, START_US))
    return outcome


def look(cluster: Cluster, job_id: int, *partitions: str) -> Outlook:
    found = outlook(snapshot(cluster, START_US), RULES, job_id, partitions)
    assert found is not None
    return found


def whole(nodes: int, **more: object) -> JobRequest:
    return JobRequest(nodes_min=nodes, nodes_max=nodes, flags=REQ_EXCLUSIVE, **more)  # type: ignore[arg-type]


def full_but_one() -> Cluster:
    """Two nodes are held for an hour, one for two; one is free."""
    cluster = cluster_of()
    submit(cluster, whole(2, node_list="n1,n2"), time_limit_min=60)
    submit(cluster, whole(1, node_list="n3"), time_limit_min=120)
    run_pass(cluster)
    return cluster


def test_the_outlook_is_what_the_pass_plans() -> None:
    cluster = full_but_one()
    wide = submit(cluster, whole(4), time_limit_min=60)
    behind = submit(cluster, whole(2), time_limit_min=600)
    plan = run_pass(cluster)
    for job_id in (wide, behind):
        found = look(cluster, job_id)
        assert found.start_us == plan.expected_start_us[job_id]
        assert found.node_ids == plan.planned_nodes[job_id]
    assert (look(cluster, wide).ahead, look(cluster, behind).ahead) == (0, 1)


def test_jobs_on_its_nodes_hold_it_until_their_limits() -> None:
    cluster = full_but_one()
    wide = submit(cluster, whole(4), time_limit_min=60)
    held = look(cluster, wide).holders
    assert [(item.kind, item.node_ids, item.until_us) for item in held] == [
        ("job", (2,), START_US + 120 * MINUTE_US),
        ("job", (0, 1), START_US + 60 * MINUTE_US),
    ]


def test_a_waiting_job_that_goes_first_is_named() -> None:
    cluster = full_but_one()
    wide = submit(cluster, whole(4), time_limit_min=60)
    behind = submit(cluster, whole(4), time_limit_min=60)
    planned = [item for item in look(cluster, behind).holders if item.kind == "planned"]
    assert [item.job_id for item in planned] == [wide]


def test_fewer_nodes_and_a_shorter_limit_are_tried_for_real() -> None:
    """What is offered is what a pass would do with such a job, whatever it is."""
    cluster = full_but_one()
    submit(cluster, whole(4), time_limit_min=60)
    behind = submit(cluster, whole(2), time_limit_min=600)
    found = {item.text: item.start_us for item in look(cluster, behind).sooner}
    assert "--nodes=1" not in found  # the free node is promised to the wide job
    assert found["--time=1:00:00"] < look(cluster, behind).start_us


def test_a_limit_that_lets_it_start_now_is_the_longest_such() -> None:
    cluster = full_but_one()
    submit(cluster, whole(4), time_limit_min=60)
    late = submit(cluster, whole(1), time_limit_min=600)
    best = look(cluster, late).sooner[0]
    assert best.start_us == START_US
    assert best.text == "--time=2:00:00"


def test_another_partition_is_offered_only_when_its_user_may_use_it() -> None:
    cluster = full_but_one()
    job_id = submit(cluster, whole(1, partition="gpu"), time_limit_min=20)
    assert not [item for item in look(cluster, job_id).sooner if "partition" in item.text]
    (best,) = (item for item in look(cluster, job_id, "main").sooner if "partition" in item.text)
    assert (best.text, best.start_us) == ("--partition=main", START_US)


def test_a_reservation_on_its_nodes_is_named() -> None:
    cluster = cluster_of()
    begin_us = START_US + 30 * MINUTE_US
    closed = Reservation(
        "maint", begin_us, begin_us + 60 * MINUTE_US, (0, 1, 2, 3), users=("root",)
    )
    apply(cluster, ev.ReservationCreated(START_US, closed))
    job_id = submit(cluster, whole(1), time_limit_min=60)
    found = look(cluster, job_id)
    assert found.start_us >= begin_us + 60 * MINUTE_US
    assert ("reservation", "maint") in {(item.kind, item.name) for item in found.holders}
    assert found.sooner[0].text == "--time=30:00"
    assert found.sooner[0].start_us == START_US


def test_a_job_nobody_plans_has_no_outlook() -> None:
    cluster = full_but_one()
    held = submit(cluster, whole(1), time_limit_min=60)
    apply(cluster, ev.JobUpdated(START_US, held, {"priority": 0}))
    assert outlook(snapshot(cluster, START_US), RULES, held) is None
