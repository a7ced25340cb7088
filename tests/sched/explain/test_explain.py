"""Outlooks of waiting jobs on four nodes: start, holders, and what would let them start sooner."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from pyslurm_ng.base.numbers import REQ_EXCLUSIVE, REQ_EXCLUSIVE_USER
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.assoc import Limits, Qos
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.model.states import JobState, NodeFlag, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.explain.changes import changes
from pyslurm_ng.sched.explain.explain import Outlook, outlook
from pyslurm_ng.sched.frame.job_records import NO_END_US, Waiting
from pyslurm_ng.sched.frame.measures import ask_of_allocation
from pyslurm_ng.sched.frame.plan import Wait
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import Snapshot, snapshot
from pyslurm_ng.sched.limits.account_checks import AccountChecks
from pyslurm_ng.sched.limits.quotas import quotas
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of, submit, submit_het
from tests.sched.preemption.preemption_site import TIERS, PreemptionSite
from tests.world.examples import drawn
from tests.world.passes import run_pass

MINUTE_US = 60_000_000
RULES = policy(conf_of(FOUR_NODES))


def look(cluster: Cluster, job_id: int, *partitions: str) -> Outlook:
    job_outlook = outlook(snapshot(cluster, START_US), RULES, job_id, partitions)
    assert job_outlook is not None
    return job_outlook


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
        job_outlook = look(cluster, job_id)
        assert job_outlook.start_us == plan.expected_start_us[job_id]
        assert job_outlook.node_ids == plan.planned_nodes[job_id]
    assert (look(cluster, wide).ahead, look(cluster, behind).ahead) == (0, 1)


def test_jobs_on_its_nodes_hold_it_until_their_limits() -> None:
    cluster = full_but_one()
    wide = submit(cluster, whole(4), time_limit_min=60)
    holders = look(cluster, wide).holders
    assert [(holder.kind, holder.node_ids, holder.until_us) for holder in holders] == [
        ("job", (2,), START_US + 120 * MINUTE_US),
        ("job", (0, 1), START_US + 60 * MINUTE_US),
    ]


def test_a_waiting_job_that_goes_first_is_named() -> None:
    cluster = full_but_one()
    wide = submit(cluster, whole(4), time_limit_min=60)
    behind = submit(cluster, whole(4), time_limit_min=60)
    planned = [holder for holder in look(cluster, behind).holders if holder.kind == "planned"]
    assert [holder.job_id for holder in planned] == [wide]


def test_fewer_nodes_and_a_shorter_limit_are_tried_for_real() -> None:
    """What is offered is what a pass would do with such a job, whatever it is."""
    cluster = full_but_one()
    submit(cluster, whole(4), time_limit_min=60)
    behind = submit(cluster, whole(2), time_limit_min=600)
    start_by_offer = {offer.text: offer.start_us for offer in look(cluster, behind).sooner}
    assert "--nodes=1" not in start_by_offer  # the free node is promised to the wide job
    assert start_by_offer["--time=1:00:00"] < look(cluster, behind).start_us


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
    assert not [offer for offer in look(cluster, job_id).sooner if "partition" in offer.text]
    (best,) = (offer for offer in look(cluster, job_id, "main").sooner if "partition" in offer.text)
    assert (best.text, best.start_us) == ("--partition=main", START_US)


def test_a_reservation_on_its_nodes_is_named() -> None:
    cluster = cluster_of()
    begin_us = START_US + 30 * MINUTE_US
    closed = Reservation(
        "maint", begin_us, begin_us + 60 * MINUTE_US, (0, 1, 2, 3), users=("root",)
    )
    apply(cluster, ev.ReservationCreated(START_US, closed))
    job_id = submit(cluster, whole(1), time_limit_min=60)
    job_outlook = look(cluster, job_id)
    assert job_outlook.start_us >= begin_us + 60 * MINUTE_US
    assert ("reservation", "maint") in {
        (holder.kind, holder.name) for holder in job_outlook.holders
    }
    assert job_outlook.sooner[0].text == "--time=30:00"
    assert job_outlook.sooner[0].start_us == START_US


def test_a_job_that_is_not_planned_has_no_outlook() -> None:
    cluster = full_but_one()
    held_job = submit(cluster, whole(1), time_limit_min=60)
    apply(cluster, ev.JobUpdated(START_US, held_job, {"priority": 0}))
    assert outlook(snapshot(cluster, START_US), RULES, held_job) is None


# What else may decide -------------------------------------------------------------------------


def test_only_jobs_that_may_use_the_same_nodes_are_ahead() -> None:
    cluster = full_but_one()
    submit(cluster, whole(2, partition="gpu"), time_limit_min=60)
    submit(cluster, whole(4), time_limit_min=60)
    last = submit(cluster, whole(1, node_list="n4", exclude="n[1-3]"), time_limit_min=600)
    job_outlook = look(cluster, last)
    assert job_outlook.ahead == 1


def test_a_limit_promises_no_time_but_says_what_would_do() -> None:
    """The same job with less may start now."""
    cluster = cluster_of()
    submit(cluster, JobRequest(ntasks=2), time_limit_min=60)
    run_pass(cluster)
    second = submit(cluster, JobRequest(ntasks=4), time_limit_min=60)
    qos = {"normal": Qos(1, "normal", limits=Limits(grp_tres={"cpu": 4}))}
    active = [cluster.jobs[job_id] for job_id in cluster.job_index.active]
    running = [(job, ask_of_allocation(job.nodes, "", None, 60)) for job in active]
    view = replace(snapshot(cluster, START_US), limits=quotas({}, qos, running))
    job_outlook = outlook(view, RULES, second)
    assert job_outlook is not None and job_outlook.limit is not None
    assert (job_outlook.start_us, job_outlook.ahead) == (0, -1)
    assert [(offer.text, offer.start_us) for offer in job_outlook.sooner] == [
        ("--ntasks=2", START_US)
    ]


def test_a_component_starts_when_all_components_can() -> None:
    cluster = full_but_one()
    leader, other = submit_het(cluster, whole(1), whole(3), time_limit_min=30)
    both = [look(cluster, job_id) for job_id in (leader, other)]
    assert both[0].start_us == both[1].start_us > START_US
    sooner = {offer.text: offer.start_us for offer in both[1].sooner}["--nodes=2"]
    assert START_US < sooner < both[1].start_us
    cluster = full_but_one()
    leader, other = submit_het(cluster, whole(1), whole(2, node_list="n4,n3"), time_limit_min=30)
    assert look(cluster, other).start_us >= START_US + 120 * MINUTE_US


def test_components_that_never_fit_at_once_never_start() -> None:
    """Six of four nodes: no time will do, and no job is named as being ahead."""
    cluster = full_but_one()
    for job_id in submit_het(cluster, whole(3), whole(3), time_limit_min=30):
        job_outlook = look(cluster, job_id)
        assert (job_outlook.ahead, job_outlook.start_us) == (-1, NO_END_US)


def in_reservation(
    limit_min: int, begin_us: int = START_US, other_min: int = 60
) -> tuple[Cluster, int]:
    """A job that waits in a reservation of n4 of two hours, where another runs for one."""
    cluster = full_but_one()
    kept = Reservation("r", begin_us, begin_us + 120 * MINUTE_US, (3,), users=("user1001",))
    apply(cluster, ev.ReservationCreated(START_US, kept))
    submit(cluster, whole(1, reservation="r"), time_limit_min=other_min)
    run_pass(cluster)
    return cluster, submit(cluster, whole(1, reservation="r"), time_limit_min=limit_min)


def test_inside_a_reservation_its_own_nodes_count() -> None:
    cluster, job_id = in_reservation(30)
    job_outlook = look(cluster, job_id)
    assert START_US + 60 * MINUTE_US <= job_outlook.start_us < START_US + 90 * MINUTE_US
    assert job_outlook.node_ids == (3,)


def test_inside_a_reservation_a_start_is_in_time() -> None:
    """It may run beyond the end, where it is cut, but not begin after it."""
    cluster, job_id = in_reservation(90)
    assert look(cluster, job_id).start_us == START_US + 60 * MINUTE_US
    cluster, job_id = in_reservation(90, other_min=120)
    job_outlook = look(cluster, job_id)
    assert job_outlook.ahead == -1 and job_outlook.start_us == NO_END_US
    assert "without --reservation=r" in {offer.text for offer in job_outlook.sooner}


def test_before_a_reservation_begins_the_others_may_be_sooner() -> None:
    cluster, job_id = in_reservation(30, START_US + 600 * MINUTE_US)
    job_outlook = look(cluster, job_id)
    assert [(offer.text, offer.start_us) for offer in job_outlook.sooner] == [
        ("without --reservation=r", START_US)
    ]


def test_outside_of_its_reservation_limits_count() -> None:
    """A job behind a limit outside holds no room that a job in the reservation could have."""
    cluster, job_id = in_reservation(30, START_US + 600 * MINUTE_US)
    stuck = submit(cluster, whole(4, qos="small"), time_limit_min=60)
    apply(cluster, ev.JobUpdated(START_US, stuck, {"qos": "small", "priority": 9}))
    apply(cluster, ev.JobUpdated(START_US, job_id, {"priority": 5}))
    qos = {"small": Qos(1, "small", limits=Limits(grp_tres={"cpu": 2}))}
    view = replace(snapshot(cluster, START_US), limits=quotas({}, qos, []))
    job_outlook = outlook(view, RULES, job_id)
    assert job_outlook is not None
    assert ("without --reservation=r", START_US) in {
        (offer.text, offer.start_us) for offer in job_outlook.sooner
    }


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (whole(1, reservation="r", node_list="n2"), "insists on n2; reservation r is without"),
        (
            JobRequest(ntasks=99, nodes_max=4, reservation="r"),
            "in reservation r",
        ),
    ],
)
def test_what_a_reservation_never_has(request_: JobRequest, words: str) -> None:
    cluster = cluster_of()
    kept = Reservation("r", START_US, START_US + 120 * MINUTE_US, (3,), users=("user1001",))
    apply(cluster, ev.ReservationCreated(START_US, kept))
    job_id = submit(cluster, request_, time_limit_min=5)
    wait = run_pass(cluster).waits[job_id]
    assert (wait.reason, words in wait.text) == (Reason.Reservation, True), wait
    job_outlook = look(cluster, job_id)
    assert (job_outlook.start_us, job_outlook.ahead) == (NO_END_US, -1)


def test_more_licences_than_there_are_never_come() -> None:
    cluster = cluster_of(conf_of(FOUR_NODES + "Licenses=soft:2\n"))
    job_id = submit(cluster, JobRequest(licenses="soft:2"), time_limit_min=5)
    apply(cluster, ev.LicensesUpdated(START_US, (("soft", 1),)))
    wait = run_pass(cluster).waits[job_id]
    assert wait == Wait(Reason.Licenses, "needs 2 licences soft; 1 free")
    job_outlook = look(cluster, job_id)
    assert (job_outlook.start_us, job_outlook.ahead) == (NO_END_US, -1)


def test_a_limit_below_what_a_job_asks_for_is_never_met_by_waiting() -> None:
    cluster = full_but_one()
    job_id = submit(cluster, JobRequest(ntasks=3, nodes_min=1), time_limit_min=10)
    apply(cluster, ev.JobUpdated(START_US, job_id, {"qos": "small"}))
    for limits, start_us in (
        (Limits(max_tres_per_job={"cpu": 2}), NO_END_US),
        (Limits(grp_tres={"cpu": 2}), NO_END_US),
        (Limits(grp_tres={"cpu": 50}), 0),
        (Limits(max_tres_per_user={"cpu": 2}), NO_END_US),
        (Limits(max_jobs=2), 0),
        (Limits(grp_jobs=0), NO_END_US),
    ):
        qos = {
            "small": Qos(1, "small", limits=limits),
            "normal": Qos(2, "normal"),
        }
        active = [cluster.jobs[job_id] for job_id in cluster.job_index.active]
        for job in active:
            apply(cluster, ev.JobUpdated(START_US, job.job_id, {"qos": "small"}))
        running = [(job, ask_of_allocation(job.nodes, "", None, 60)) for job in active]
        view = replace(snapshot(cluster, START_US), limits=quotas({}, qos, running))
        job_outlook = outlook(view, RULES, job_id)
        assert job_outlook is not None and (job_outlook.start_us, job_outlook.ahead) == (
            start_us,
            -1,
        )


def test_a_job_that_never_starts_is_not_ahead() -> None:
    """A wide job waits for a node out of service. Other jobs may have its nodes."""
    cluster = full_but_one()
    submit(cluster, whole(4), time_limit_min=10)
    behind = submit(cluster, whole(3), time_limit_min=10)
    apply(cluster, ev.NodeUpdated(START_US, (3,), {"flags": NodeFlag.DRAIN}))
    assert look(cluster, behind).ahead == 0


def test_small_counts_are_tried_one_by_one() -> None:
    cluster = full_but_one()
    job_id = submit(cluster, JobRequest(ntasks=9, nodes_min=1, nodes_max=1), time_limit_min=25)
    texts = [
        change.text
        for change in changes(
            snapshot(cluster, START_US).waiting[0], snapshot(cluster, START_US), ()
        )
    ]
    assert job_id and {"--ntasks=8", "--ntasks=7", "--time=20:00"} <= set(texts)


def test_a_job_that_may_preempt_elsewhere_is_shown_that() -> None:
    conf = conf_of(
        FOUR_NODES.replace("PartitionName=debug Nodes=n4", "PartitionName=debug Nodes=n[1-4]")
        + "PreemptType=preempt/partition_prio\nPreemptMode=CANCEL\n"
    )
    cluster, rules = cluster_of(conf), policy(conf)
    victim = submit(cluster, whole(4), time_limit_min=600)
    for start in Planner()(snapshot(cluster, START_US), rules).starts:
        apply_all(cluster, dispatch(cluster, start, START_US))
    waiting = submit(cluster, whole(4), time_limit_min=20)
    job_outlook = outlook(snapshot(cluster, START_US), rules, waiting, ["debug"])
    assert job_outlook is not None
    best = next(offer for offer in job_outlook.sooner if "debug" in offer.text)
    assert (best.start_us, best.victims) == (START_US, (victim,))


def test_an_answer_that_is_due_says_what_was_not_tried() -> None:
    cluster = full_but_one()
    submit(cluster, whole(4), time_limit_min=60)
    behind = submit(cluster, whole(2), time_limit_min=600)
    job_outlook = outlook(snapshot(cluster, START_US), RULES, behind, is_late=lambda: True)
    assert job_outlook is not None
    assert job_outlook.start_us == look(cluster, behind).start_us
    assert job_outlook.untried > 0 and not job_outlook.sooner


def test_a_job_that_cannot_run_is_not_in_a_queue() -> None:
    cluster = full_but_one()
    job_id = submit(cluster, whole(2, partition="debug"), time_limit_min=10)
    assert look(cluster, job_id).ahead == -1


def test_without_backfill_no_start_is_shown() -> None:
    cluster = full_but_one()
    job_id = submit(cluster, whole(4), time_limit_min=60)
    rules = policy(conf_of(FOUR_NODES + "SchedulerType=sched/builtin\n"))
    job_outlook = outlook(snapshot(cluster, START_US), rules, job_id)
    assert job_outlook is not None
    assert (job_outlook.start_us, job_outlook.ahead) == (0, -1) and "in order" in job_outlook.note


# Claims and what then happens -----------------------------------------------------------------

Size = tuple[int, int, int, bool, bool]  # nodes, tasks of each, minutes, whole nodes, any nodes
SEEDS = drawn(150)
# Times and limits at which slots of the plan begin and end, so that nothing has to be rounded.
LIMITS_MIN = [8, 32, 64, 128, 256]
BEGIN_US = START_US // (256 * MINUTE_US) * (256 * MINUTE_US)


def sizes_of(random: Random) -> list[Size]:
    return [
        (
            random.randint(1, 4),
            random.randint(1, 16),
            random.choice(LIMITS_MIN),
            random.random() < 0.5,
            random.random() < 0.3,
        )
        for _ in range(random.randint(3, 10))
    ]


def request_of(size: Size) -> JobRequest:
    nodes, tasks, _, is_whole, is_open = size
    flags = REQ_EXCLUSIVE if is_whole else 0
    if is_open:
        return JobRequest(ntasks=nodes * tasks, flags=flags)
    return JobRequest(
        nodes_min=nodes, nodes_max=nodes, ntasks=nodes * tasks, ntasks_per_node=tasks, flags=flags
    )


def queue_of(sizes: list[Size]) -> tuple[Cluster, list[int]]:
    cluster = cluster_of(now_us=BEGIN_US)
    ids = [
        submit(cluster, request_of(size), BEGIN_US, time_limit_min=size[2])
        for index, size in enumerate(sizes)
    ]
    return cluster, ids


def start_of(cluster: Cluster, job_id: int) -> int:
    """Let jobs run to their limits and passes happen when one ends; return when one starts."""
    planner, now_us = Planner(), BEGIN_US
    while not cluster.jobs[job_id].start_us:
        for start in planner(snapshot(cluster, now_us), RULES).starts:
            apply_all(cluster, dispatch(cluster, start, now_us))
        if cluster.jobs[job_id].start_us:
            break
        ends = {job_id: ends_us(cluster, job_id) for job_id in cluster.job_index.active}
        now_us = min(ends.values())
        for active_id, end_us in ends.items():
            if end_us == now_us:
                job = cluster.jobs[active_id]
                clean = frozenset(alloc.node_id for alloc in job.nodes)
                apply_all(
                    cluster,
                    job_end.complete(
                        cluster, job, job_end.End(JobState.COMPLETED), now_us, clean_nodes=clean
                    ),
                )
    return cluster.jobs[job_id].start_us


def ends_us(cluster: Cluster, job_id: int) -> int:
    job = cluster.jobs[job_id]
    return job.start_us + job.time_limit_min * MINUTE_US


def waiting_job(cluster: Cluster, job_id: int) -> Waiting:
    view = snapshot(cluster, BEGIN_US)
    return next(job for job in view.waiting if job.job_id == job_id)


@pytest.mark.seeds
def test_the_promised_start_is_kept() -> None:
    """If nothing else changes and jobs run to their limits, no job starts later."""
    for seed in range(SEEDS):
        cluster, ids = queue_of(sizes_of(Random(seed)))
        job_outlook = outlook(snapshot(cluster, BEGIN_US), RULES, ids[-1])
        assert job_outlook is not None
        assert start_of(cluster, ids[-1]) <= job_outlook.start_us, seed


@pytest.mark.seeds
def test_what_is_offered_holds() -> None:
    """The job that asks for what was offered starts then or before."""
    offers = 0
    for seed in range(SEEDS):
        random = Random(seed)
        sizes = sizes_of(random)
        cluster, ids = queue_of(sizes)
        view = snapshot(cluster, BEGIN_US)
        job_outlook = outlook(view, RULES, ids[-1])
        assert job_outlook is not None
        if not job_outlook.sooner:
            continue
        offer = random.choice(job_outlook.sooner)
        own = waiting_job(cluster, ids[-1])
        change = next(
            candidate for candidate in changes(own, view, ()) if candidate.text == offer.text
        )
        cluster, ids = queue_of(sizes[:-1])
        limit_min = change.job.time_limit_min
        changed = submit(cluster, change.job.request, BEGIN_US, time_limit_min=limit_min)
        offers += 1
        assert start_of(cluster, changed) <= offer.start_us, seed
    assert offers > SEEDS // 3


def test_another_qos_may_be_sooner() -> None:
    """Where a limit of its own keeps it, or where another goes before all others."""
    cluster = cluster_of()
    submit(cluster, JobRequest(ntasks=2), time_limit_min=60)
    run_pass(cluster)
    second = submit(cluster, JobRequest(ntasks=4), time_limit_min=60)
    qos = {
        "normal": Qos(1, "normal", limits=Limits(grp_tres={"cpu": 4})),
        "high": Qos(2, "high"),
    }
    active = [cluster.jobs[job_id] for job_id in cluster.job_index.active]
    running = [(job, ask_of_allocation(job.nodes, "", None, 60)) for job in active]
    view = replace(snapshot(cluster, START_US), limits=quotas({}, qos, running))
    job_outlook = outlook(view, RULES, second, qos=("normal", "high"))
    assert job_outlook is not None and job_outlook.limit is not None
    assert ("--qos=high", START_US) in [
        (offer.text, offer.start_us) for offer in job_outlook.sooner
    ]


def test_no_start_after_the_deadline_is_shown() -> None:
    """Neither its own nor those of changes that would be as late."""
    cluster = full_but_one()
    deadline_us = START_US + 30 * MINUTE_US
    job_id = submit(cluster, whole(2, deadline_us=deadline_us), time_limit_min=20)
    job_outlook = look(cluster, job_id)
    assert (job_outlook.start_us, job_outlook.ahead) == (NO_END_US, -1)
    assert {offer.text for offer in job_outlook.sooner} == {"--nodes=1"}


def test_the_end_of_its_own_reservation_is_shown_once() -> None:
    """It does not count as a reservation of others."""
    cluster, job_id = in_reservation(90, other_min=120)
    kinds = [(holder.kind, holder.name) for holder in look(cluster, job_id).holders]
    assert kinds == [("end", "r")]


def test_a_job_that_waits_for_victims_starts_when_they_have_left() -> None:
    """Its own claim is not in its way."""
    site = PreemptionSite(
        TIERS % "CANCEL" + "PartitionName=slow Nodes=n[1-4] PriorityTier=1 GraceTime=90\n"
    )
    victim = site.add("slow", 4, nodes=4)
    site.run_pass()
    job = site.add("high", 4, nodes=4)
    site.run_pass()
    view = snapshot(site.cluster, site.now_us)
    assert job in view.claims
    job_outlook = outlook(view, site.policy, job)
    assert job_outlook is not None
    leaves_us = START_US + 90_000_000
    assert (job_outlook.start_us, job_outlook.node_ids) == (leaves_us, (0, 1, 2, 3))
    assert [(holder.job_id, holder.until_us) for holder in job_outlook.holders] == [
        (victim, leaves_us)
    ]
    assert site.run_pass().expected_start_us[job] == leaves_us


def test_less_memory_is_offered_only_where_it_may_do() -> None:
    """Three quarters, half, a quarter: not a MiB."""
    cluster = full_but_one()
    job_id = submit(cluster, JobRequest(mem_per_node_mib=4000))
    view = snapshot(cluster, START_US)
    (job,) = (waiting for waiting in view.waiting if waiting.job_id == job_id)
    texts = [change.text for change in changes(job, view, ()) if change.kind == "memory"]
    assert texts == ["--mem=3000M", "--mem=2000M", "--mem=1000M"]


def test_a_job_that_misses_its_deadline_is_not_ahead() -> None:
    cluster = full_but_one()
    deadline_us = START_US + 30 * MINUTE_US
    submit(cluster, whole(4, deadline_us=deadline_us), time_limit_min=10)
    behind = submit(cluster, whole(4), time_limit_min=10)
    assert look(cluster, behind).ahead == 0


def test_a_job_behind_a_limit_is_not_ahead() -> None:
    """No room is kept for such jobs, so no job waits for them."""
    cluster = full_but_one()
    for _ in range(2):
        submit(cluster, whole(4, qos="small"), time_limit_min=10)
    for job_id in cluster.job_index.pending:
        apply(cluster, ev.JobUpdated(START_US, job_id, {"qos": "small"}))
    behind = submit(cluster, whole(4), time_limit_min=10)
    qos = {"small": Qos(1, "small", limits=Limits(grp_tres={"cpu": 2}))}
    view = replace(snapshot(cluster, START_US), limits=quotas({}, qos, []))
    job_outlook = outlook(view, RULES, behind)
    assert job_outlook is not None and job_outlook.ahead == 0


def test_jobs_that_are_exempt_for_now_are_named() -> None:
    """They are to leave when that is over: the start is planned then."""
    site = PreemptionSite(TIERS % "CANCEL" + "PreemptExemptTime=00:10:00\n")
    site.add("low", 4, nodes=4)
    site.run_pass()
    site.now_us += 4 * MINUTE_US
    waiting = site.add("high", 2, nodes=4)
    job_outlook = outlook(snapshot(site.cluster, site.now_us), site.policy, waiting)
    assert job_outlook is not None
    assert job_outlook.start_us == START_US + 10 * MINUTE_US
    assert job_outlook.note == (
        "jobs that it may preempt are exempt for 6 min more; they are to leave for it then"
    )


def reserved_later(begin_min: int, duration_min: int, *flags: str) -> Cluster:
    """Four nodes that are free until a reservation of all of them begins."""
    cluster = cluster_of()
    begin_us = START_US + begin_min * MINUTE_US
    closed = Reservation(
        "later",
        begin_us,
        begin_us + duration_min * MINUTE_US,
        (0, 1, 2, 3),
        users=("root",),
        flags=flags,
    )
    apply(cluster, ev.ReservationCreated(START_US, closed))
    return cluster


@pytest.mark.parametrize("limit_min", [45, 60, 120, 3000])
def test_a_reservation_is_the_reason_however_long_the_job_is(limit_min: int) -> None:
    # Its own start behind the reservation falls into the time that it would run from now.
    cluster = reserved_later(30, 30, "MAINT")
    job_id = submit(cluster, whole(4), time_limit_min=limit_min)
    wait = run_pass(cluster).waits[job_id]
    assert (wait.reason, wait.shown) == (
        Reason.ReqNodeNotAvail,
        "ReqNodeNotAvail, Reserved for maintenance",
    )


def test_a_job_that_waits_for_licences_sees_which_jobs_have_them() -> None:
    # Others are on its node, but that has room for it.
    cluster = cluster_of(conf_of(FOUR_NODES + "Licenses=soft:3,other:9\n"))
    has_two = submit(cluster, JobRequest(licenses="soft:2,other:1"), time_limit_min=20)
    submit(cluster, JobRequest(licenses="other:1"), time_limit_min=10)
    submit(cluster, JobRequest(ntasks=2), time_limit_min=5)
    run_pass(cluster)
    ahead = submit(cluster, JobRequest(licenses="soft:3"), time_limit_min=30)
    job_id = submit(cluster, JobRequest(licenses="soft:1"), time_limit_min=60)
    job_outlook = look(cluster, job_id)
    assert job_outlook.start_us - START_US == pytest.approx(50 * MINUTE_US, abs=MINUTE_US)
    assert [(holder.kind, holder.job_id, holder.licenses) for holder in job_outlook.holders] == [
        ("planned", ahead, "soft:3"),
        ("job", has_two, "soft:2"),
    ]


def test_a_job_that_waits_for_nodes_too_sees_which_jobs_have_those() -> None:
    cluster = cluster_of(conf_of(FOUR_NODES + "Licenses=soft:1\n"))
    first = submit(cluster, whole(4, licenses="soft:1"), time_limit_min=20)
    run_pass(cluster)
    job_id = submit(cluster, whole(1, licenses="soft:1"), time_limit_min=60)
    (holder,) = look(cluster, job_id).holders
    assert (holder.job_id, holder.licenses) == (first, "")


def test_no_preemption_is_offered_where_a_limit_would_still_hold() -> None:
    conf = conf_of(
        FOUR_NODES.replace("PartitionName=debug Nodes=n4", "PartitionName=debug Nodes=n[1-4]")
        + "PreemptType=preempt/partition_prio\nPreemptMode=CANCEL\n"
    )
    cluster, rules = cluster_of(conf), policy(conf)
    submit(cluster, whole(4), time_limit_min=600)
    for start in Planner()(snapshot(cluster, START_US), rules).starts:
        apply_all(cluster, dispatch(cluster, start, START_US))
    waiting = submit(cluster, whole(1), time_limit_min=20)
    qos = {"normal": Qos(1, "normal", limits=Limits(grp_tres={"cpu": 64}))}
    running = [
        (job, ask_of_allocation(job.nodes, "", None, 600))
        for job in (cluster.jobs[job_id] for job_id in cluster.job_index.active)
    ]
    view = replace(snapshot(cluster, START_US), limits=quotas({}, qos, running))
    job_outlook = outlook(view, rules, waiting, ["debug"])
    assert job_outlook is not None and job_outlook.limit is not None
    assert job_outlook.sooner == []


def test_a_job_without_an_account_is_not_next_in_the_queue() -> None:
    """Also where associations are enforced, and no limits."""
    cluster = full_but_one()
    job_id = submit(cluster, whole(1, node_list="n1"), time_limit_min=10)
    view = replace(
        snapshot(cluster, START_US), limits=AccountChecks(None, frozenset({"normal"}), None)
    )
    assert look_at(view, job_id).limit is None
    view = replace(snapshot(cluster, START_US), limits=AccountChecks(None, frozenset(), None))
    assert look_at(view, job_id).limit is not None


def look_at(view: Snapshot, job_id: int) -> Outlook:
    job_outlook = outlook(view, RULES, job_id)
    assert job_outlook is not None
    return job_outlook


def test_a_component_that_no_node_suits_has_an_outlook() -> None:
    conf = conf_of(FOUR_NODES + "PreemptType=preempt/partition_prio\nPreemptMode=CANCEL\n")
    cluster, rules = cluster_of(conf), policy(conf)
    submit(cluster, whole(4), time_limit_min=600)
    for start in Planner()(snapshot(cluster, START_US), rules).starts:
        apply_all(cluster, dispatch(cluster, start, START_US))
    both = submit_het(cluster, JobRequest(ntasks=1), JobRequest(ntasks=1, exclude="n[1-4]"))
    for job_id in both:
        job_outlook = outlook(snapshot(cluster, START_US), rules, job_id)
        assert job_outlook is not None
        assert (job_outlook.start_us, job_outlook.ahead) == (NO_END_US, -1)


def test_a_component_is_not_put_beside_jobs_on_nodes_without_its_gpus() -> None:
    cluster = cluster_of()
    alone = REQ_EXCLUSIVE_USER
    submit(cluster, JobRequest(ntasks=1, node_list="n3", flags=alone), time_limit_min=60)
    submit(cluster, whole(2, node_list="n[1-2]"), time_limit_min=20)
    run_pass(cluster)
    both = submit_het(cluster, JobRequest(ntasks=1, gpus="1", flags=alone), JobRequest(ntasks=1))
    for job_id in both:
        assert look(cluster, job_id).start_us >= START_US + 20 * MINUTE_US
