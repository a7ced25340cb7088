"""Usage of associations and QOS as the controller counts it, and jobs that run out of minutes."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from pyslurm_ng.base.numbers import MINUTE_US
from pyslurm_ng.ctld.followers.usage_index import UsageIndex
from pyslurm_ng.ctld.rules import clocks, timers
from pyslurm_ng.ctld.rules.calendar import UTC
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.assoc import Limits, OwnerUsage, Qos
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.ctld.followers.usage_runs import PLAIN, ends, started, told
from tests.model.clusters import START_US, conf_of
from tests.sched.whole_nodes import WHOLE_NODES, job


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
    cluster, index, job = started(parent, PLAIN)
    assert index.run_out(START_US + (minutes - 1) * MINUTE_US) == ()
    now_us = START_US + minutes * MINUTE_US
    over_limit = index.run_out(now_us)
    assert over_limit == (job.job_id,)
    events = timers.due(cluster, conf_of(WHOLE_NODES), {}, now_us, (), over_limit)
    (end,) = [event for event in events if isinstance(event, ev.JobCompleting)]
    assert (end.job_id, end.state, end.reason) == (job.job_id, JobState.TIMEOUT, Reason.TimeLimit)


def test_usage_factor_counts_more_or_less() -> None:
    """Twice the minutes at a factor of two."""
    double = Qos(1, "normal", usage_factor_millionths=2_000_000)
    _, index, job = started(Limits(grp_tres_mins={"cpu": 20}), double)
    assert index.run_out(START_US + 5 * MINUTE_US) == (job.job_id,)


def test_what_has_ended_goes_on_to_count() -> None:
    """For this controller, and for one that begins while the job is remembered."""
    cluster, index, charged = started(Limits(grp_tres_mins={"cpu": 20}), PLAIN)
    now_us = START_US + 10 * MINUTE_US
    ended = [
        ev.JobCompleting(now_us, charged.job_id, JobState.COMPLETED, 0, Reason.NONE, 0, ()),
        ev.JobEnded(now_us, charged.job_id, JobState.COMPLETED, 0),
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


def used_min(index: UsageIndex, now_us: int, owner: tuple[str, int | str]) -> tuple[float, float]:
    """Return wall minutes and CPU minutes of an owner."""
    spent = index.counted(now_us)[1](owner)
    return round(spent.wall_s / 60, 2), round(spent.tres_s.get("cpu", 0) / 60, 2)


OWNERS: list[tuple[str, int | str]] = [("assoc", 1), ("assoc", 2), ("qos", "normal")]
NEVER_FADES = f"{WHOLE_NODES}\nPriorityDecayHalfLife=0\n"


@pytest.mark.parametrize("is_purged", [False, True])
def test_usage_outlives_the_job_and_the_controller(is_purged: bool) -> None:
    """What was written down counts once, whether or not its jobs are still remembered."""
    cluster, index, job = started(Limits(), PLAIN)
    index.adopt(conf_of(NEVER_FADES))
    ends(cluster, index, job.job_id, START_US + 10 * MINUTE_US)
    now_us = START_US + 16 * MINUTE_US
    (kept,) = index.due(now_us, UTC)
    told(cluster, index, kept)
    assert index.due(now_us, UTC) == []
    if is_purged:
        told(cluster, index, *timers.purge(cluster, conf_of(NEVER_FADES), now_us))
        assert not cluster.jobs
    again = Cluster.from_bytes(cluster.to_bytes())
    assert again.digest() == cluster.digest()
    for known in (index, UsageIndex(again, conf_of(NEVER_FADES))):
        assert [used_min(known, now_us, owner) for owner in OWNERS] == [(10, 20)] * 3


@pytest.mark.parametrize("is_written", [True, False])
def test_a_run_that_changes_hands_is_charged_to_each_for_its_part(*, is_written: bool) -> None:
    """Ten minutes of two CPUs are the first QOS's, twenty of one CPU the second's."""
    cluster, index, job = started(Limits(), PLAIN)
    conf = conf_of(NEVER_FADES)
    index.adopt(conf)
    other = ev.QosChanged(START_US, changed=(PLAIN, Qos(2, "other")))
    told(cluster, index, other, ev.JobSuspended(START_US + 8 * MINUTE_US, job.job_id, 1000))
    at_us = START_US + 12 * MINUTE_US
    told(cluster, index, ev.JobResumed(START_US + 10 * MINUTE_US, job.job_id, 2000))
    fewer = tuple(msgspec.structs.replace(alloc, cpus=1, cores=b"\1") for alloc in job.nodes)
    told(
        cluster,
        index,
        ev.JobUpdated(at_us, job.job_id, {"qos": "other"}),
        ev.JobResized(at_us, job.job_id, fewer),
    )
    if is_written:
        told(cluster, index, *index.due(at_us + 1, UTC))
    now_us = at_us + 20 * MINUTE_US
    again = UsageIndex(Cluster.from_bytes(cluster.to_bytes()), conf)
    assert used_min(index, now_us, ("qos", "normal")) == (10, 20)
    assert used_min(index, now_us, ("qos", "other")) == (20, 20)
    assert used_min(index, now_us, ("assoc", 2)) == (30, 40)
    if is_written:
        assert [used_min(again, now_us, ("qos", name)) for name in ("normal", "other")] == [
            (10, 20),
            (20, 20),
        ]
    else:
        # What it was before a crash is known from the sums only: then all is charged as it is now.
        assert used_min(again, now_us, ("assoc", 2)) == (30, 30)
    ends(cluster, index, job.job_id, now_us)
    assert used_min(index, now_us, ("qos", "other")) == (20, 20)


def test_usage_is_recorded_before_its_job_is_purged() -> None:
    """However early jobs are purged."""
    conf = conf_of(f"{NEVER_FADES}MinJobAge=2\n")
    cluster, index, job = started(Limits(), PLAIN)
    index.adopt(conf)
    now_us = START_US + 10 * MINUTE_US
    ends(cluster, index, job.job_id, now_us)
    while job.job_id in cluster.jobs:
        now_us += 700_000
        told(cluster, index, *index.due(now_us, UTC))
        told(cluster, index, *timers.purge(cluster, conf, now_us))
    again = UsageIndex(Cluster.from_bytes(cluster.to_bytes()), conf)
    assert used_min(again, now_us, ("assoc", 1)) == (10, 20)


def test_usage_of_a_run_before_a_requeue_is_recorded_at_once() -> None:
    """The job's record no longer has it."""
    cluster, index, job = started(Limits(), PLAIN)
    index.adopt(conf_of(NEVER_FADES))
    now_us = START_US + 10 * MINUTE_US
    told(
        cluster,
        index,
        ev.JobCompleting(now_us, job.job_id, JobState.COMPLETED, 0, Reason.NONE, 0, ()),
        ev.JobRequeued(now_us, job.job_id, 2, now_us + MINUTE_US),
    )
    told(cluster, index, *index.due(now_us + 1_000_000, UTC))
    again = UsageIndex(Cluster.from_bytes(cluster.to_bytes()), conf_of(NEVER_FADES))
    assert used_min(again, now_us + MINUTE_US, ("assoc", 2)) == (10, 20)


def test_usage_fades_after_a_restart_and_not_where_the_qos_says_so() -> None:
    """By PriorityDecayHalfLife, here an hour."""
    conf = conf_of(f"{WHOLE_NODES}\nPriorityDecayHalfLife=1:00:00\n")
    cluster, index, job = started(Limits(), Qos(1, "normal", flags=("NoDecay",)))
    index.adopt(conf)
    ends(cluster, index, job.job_id, START_US + 60_000_000)
    told(cluster, index, *index.due(START_US + 600_000_000, UTC))
    now_us = START_US + 61 * MINUTE_US
    again = UsageIndex(Cluster.from_bytes(cluster.to_bytes()), conf)
    for known in (index, again):
        assert used_min(known, now_us, ("qos", "normal")) == (1, 2)
        wall_min, cpu_min = used_min(known, now_us, ("assoc", 1))
        assert (wall_min, cpu_min) == (pytest.approx(0.5, abs=0.02), pytest.approx(1, abs=0.03))


def test_a_new_half_life_changes_nothing_of_what_has_faded() -> None:
    """It holds from then on only."""
    cluster, index, charged = started(Limits(), PLAIN)
    index.adopt(conf_of(f"{WHOLE_NODES}\nPriorityDecayHalfLife=1:00:00\n"))
    ends(cluster, index, charged.job_id, START_US + MINUTE_US)
    now_us = START_US + 61 * MINUTE_US
    apply(cluster, ev.JobEligible(now_us, job(cluster, 1, 5)))
    cluster.time_us = now_us
    before = used_min(index, now_us, ("assoc", 1))
    index.adopt(conf_of(NEVER_FADES))
    assert used_min(index, now_us + 600 * MINUTE_US, ("assoc", 1)) == before


def test_usage_is_reset_when_its_period_is_over() -> None:
    """Of what runs, only the part after midnight counts from then on."""
    conf = conf_of(f"{NEVER_FADES}PriorityUsageResetPeriod=DAILY\n")
    cluster, index, job = started(Limits(), PLAIN)
    index.adopt(conf)
    cluster.time_us = START_US
    index = UsageIndex(cluster, conf)
    day_us = 24 * 60 * MINUTE_US
    midnight_us = START_US - START_US % day_us + day_us
    assert index.due(midnight_us - 1, UTC) == []
    (reset,) = index.due(midnight_us, UTC)
    assert isinstance(reset, ev.UsageReset)
    told(cluster, index, reset)
    assert index.due(midnight_us + 1, UTC) == []
    now_us = midnight_us + 3 * MINUTE_US
    for known in (index, UsageIndex(Cluster.from_bytes(cluster.to_bytes()), conf)):
        assert used_min(known, now_us, ("assoc", 1)) == (3, 6)
    ends(cluster, index, job.job_id, now_us)
    for known in (index, UsageIndex(Cluster.from_bytes(cluster.to_bytes()), conf)):
        assert used_min(known, now_us, ("assoc", 1)) == (3, 6)
    (later,) = index.due(midnight_us + day_us, UTC)
    assert isinstance(later, ev.UsageReset)


def test_usage_is_reset_at_the_start_when_the_period_is_now() -> None:
    """And when the configuration is read again."""
    conf = conf_of(f"{NEVER_FADES}PriorityUsageResetPeriod=NOW\n")
    _, index, _ = started(Limits(), PLAIN)
    index.adopt(conf)
    for _ in range(2):
        (reset,) = index.due(START_US + MINUTE_US, UTC)
        assert isinstance(reset, ev.UsageReset)
        assert index.due(START_US + 2 * MINUTE_US, UTC) == []
        index.adopt(conf)


def test_a_removed_association_is_forgotten_with_its_usage() -> None:
    """Nothing grows for ever."""
    cluster, index, job = started(Limits(), PLAIN)
    ends(cluster, index, job.job_id, START_US + MINUTE_US)
    told(cluster, index, *index.due(START_US + 600_000_000, UTC))
    assert list(cluster.usage) == [("assoc", 2), ("assoc", 1), ("qos", "normal")]
    told(cluster, index, ev.AssocChanged(START_US, removed=(2,), version=2))
    told(cluster, index, ev.UsageKept(START_US + 900_000_000, START_US + 800_000_000, ()))
    assert list(cluster.usage) == [("assoc", 1), ("qos", "normal")]


def test_limits_of_running_jobs_follow_events_and_configuration() -> None:
    """Events change what was counted for a pass. With other limits it is counted again."""
    cluster, index, job = started(Limits(grp_jobs=1), PLAIN)

    def counted() -> int:
        quotas = index.quotas(START_US)
        assert quotas is not None
        return quotas.used()["assoc", 1].jobs

    assert counted() == counted() == 1

    def happen(*events: ev.AnyEvent) -> None:
        apply_all(cluster, events)
        index.applied(events)

    happen(*job_end.complete(cluster, job, job_end.End(JobState.COMPLETED), START_US))
    assert counted() == 1  # its node cleans up
    happen(ev.DutiesDone(START_US, tuple((0, duty_id) for duty_id in cluster.duties[0])))
    happen(*job_end.finish(cluster, job, JobState.COMPLETED, 0, job.flags, START_US))
    assert counted() == 0
    apply(cluster, ev.QosChanged(START_US, changed=(Qos(1, "normal", limits=Limits(grp_jobs=3)),)))
    quotas = index.quotas(START_US)
    assert quotas is not None
    assert quotas.used().get(("assoc", 1)) is None


def test_percentages_of_a_qos_hold_in_a_pass() -> None:
    """A quarter of eight CPUs is what one node has."""
    quarter = Qos(1, "normal", flags=("Relative",), limits=Limits(grp_tres={"cpu": 25}))
    cluster, index, _ = started(Limits(), quarter)
    next_id = job(cluster, 1, 5)
    cluster.jobs[next_id].qos = "normal"
    limits = index.quotas(START_US)
    assert limits is not None
    view = replace(snapshot(cluster, START_US), limits=limits)
    plan = Planner()(view, policy(conf_of(WHOLE_NODES)))
    assert plan.waits[next_id].reason is Reason.QOSGrpCpuLimit
    assert "may hold 2 CPUs; 2 held" in plan.waits[next_id].text


@pytest.mark.parametrize(("minutes", "may"), [(4, False), (5, True), (700, True)])
def test_minutes_to_come_grow_less_as_jobs_run(minutes: int, *, may: bool) -> None:
    """Two CPUs for ten hours leave room for ten more minutes when five have passed."""
    cluster, index, _ = started(Limits(grp_tres_run_mins={"cpu": 1200}), PLAIN)
    next_id = job(cluster, 1, 5)
    cluster.jobs[next_id].assoc_id = 2
    now_us = START_US + minutes * MINUTE_US
    limits = index.quotas(now_us)
    assert limits is not None
    view = replace(snapshot(cluster, now_us), limits=limits)
    plan = Planner()(view, policy(conf_of(WHOLE_NODES)))
    assert [start.job_id for start in plan.starts] == [next_id] * may
    if not may:
        assert plan.waits[next_id].reason is Reason.AssocGrpCPURunMinutesLimit


@pytest.mark.parametrize("shift_us", [120 * MINUTE_US, -3 * 1440 * MINUTE_US])
@pytest.mark.parametrize("text", [NEVER_FADES, WHOLE_NODES])
def test_a_clock_that_is_moved_changes_no_usage(shift_us: int, text: str) -> None:
    """RELIABILITY 14: usage of running and of ended jobs stays the same."""
    cluster, index, charged = started(Limits(), PLAIN)
    index.adopt(conf_of(text))
    ends(cluster, index, charged.job_id, START_US + 10 * MINUTE_US)
    next_id = job(cluster, 1, 600)
    cluster.jobs[next_id].assoc_id = 2
    now_us = START_US + 20 * MINUTE_US
    for start in Planner()(snapshot(cluster, now_us), policy(conf_of(WHOLE_NODES))).starts:
        told(cluster, index, *dispatch(cluster, start, now_us))
    now_us += 5 * MINUTE_US
    before = [used_min(index, now_us, owner) for owner in OWNERS]
    assert before[0][0] > 14.9
    told(cluster, index, *clocks.all_moved(cluster, now_us + shift_us, shift_us))
    now_us += shift_us
    for known in (index, UsageIndex(cluster, conf_of(text))):
        assert [used_min(known, now_us, owner) for owner in OWNERS] == before
    (kept,) = index.due(now_us + 10 * MINUTE_US, UTC)
    told(cluster, index, kept)
    ends(cluster, index, next_id, now_us + 10 * MINUTE_US)
    at_us = now_us + 10 * MINUTE_US
    again = UsageIndex(cluster, conf_of(text))
    for owner in OWNERS:  # what is written down is whole seconds
        assert used_min(again, at_us, owner) == pytest.approx(
            used_min(index, at_us, owner), abs=0.03
        )


def test_one_run_that_is_moved_counts_from_where_it_is() -> None:
    cluster, index, job = started(Limits(), PLAIN)
    index.adopt(conf_of(NEVER_FADES))
    now_us = START_US + 130 * MINUTE_US
    told(cluster, index, ev.TimesMoved(now_us, 120 * MINUTE_US, (job.job_id,)))
    assert used_min(index, now_us, ("qos", "normal"))[0] == 10


def test_usage_of_before_this_state_is_added() -> None:
    """To what was used since; a controller that starts later finds both, and no unknown owners."""
    cluster, index, job = started(Limits(), PLAIN)
    conf = conf_of(NEVER_FADES)
    index.adopt(conf)
    now_us = START_US + 10 * MINUTE_US
    before = [
        OwnerUsage(kind, owner, now_us, 0, {"cpu": 1800})
        for kind, owner in [*OWNERS, ("assoc", 99)]
    ]
    told(cluster, index, *index.restored(before, now_us))
    for known in (index, UsageIndex(Cluster.from_bytes(cluster.to_bytes()), conf)):
        assert [used_min(known, now_us, owner) for owner in OWNERS] == [(10, 50)] * 3
    assert ("assoc", 99) not in cluster.usage
    ends(cluster, index, job.job_id, now_us)
    assert used_min(index, now_us, ("assoc", 1)) == (10, 50)
