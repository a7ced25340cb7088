"""MaxStartDelay: jobs that leave in time when told may overlap a reservation."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.numbers import HOUR_US, MINUTE_US, REQ_SIGNAL_RESV
from pyslurm_ng.ctld.rules.context import Decision
from pyslurm_ng.ctld.rules.starts.preempt import grace_over, preempt
from pyslurm_ng.ctld.rules.submission.submit import submit_job
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.wire.job_messages import SubmitJob
from tests.world.callers import ALICE, BOB
from tests.world.examples import drawn
from tests.world.reservations import ReservationSite

PREEMPTS = "PreemptType=preempt/partition_prio\nPreemptMode=REQUEUE"
USR1 = 10


def room(more: str = PREEMPTS) -> ReservationSite:
    """Return a cluster on which all nodes are alice's in an hour, for two hours."""
    scene = ReservationSite(more, plan=Planner())
    starts_us = scene.now_us + HOUR_US
    scene.make(nodes="ALL", starttime=starts_us, maxstartdelay="10")
    return scene


def polite(
    scene: ReservationSite, *, before_s: int = 300, minutes: int = 90, **request: object
) -> Job:
    """Return bob's job that may overlap a reservation and takes so long to leave."""
    fields = {"ntasks": 16, "nodes_min": 1, **request}
    return scene.job(
        BOB, flags=REQ_SIGNAL_RESV, signal=USR1, signal_before_s=before_s,
        time_limit_min=minutes, **fields,
    )  # fmt: skip


def pass_and_preempt(scene: ReservationSite) -> list[ev.AnyEvent]:
    """Run a pass; do what it wants of victims; return those events."""
    done: list[ev.AnyEvent] = []
    for preemption in scene.run_pass(preempts=False).preemptions:
        events = preempt(scene.cluster, preemption, policy(scene.conf), scene.now_us)
        assert events is not None
        scene.apply(events)
        done += events
    return done


def test_it_is_kept_in_whole_minutes_and_changed() -> None:
    """As other times of reservations; nothing takes it away."""
    scene = room()
    assert scene.cluster.reservations["r"].max_start_delay_s == 600
    assert scene.change(maxstartdelay="1:30").max_start_delay_s == 120
    assert scene.change(maxstartdelay="").max_start_delay_s == 0
    assert scene.not_changed(maxstartdelay="soon") == Errno.ESLURM_INVALID_TIME_VALUE
    assert scene.not_changed(maxstartdelay="UNLIMITED") == Errno.ESLURM_INVALID_TIME_VALUE


def test_only_jobs_that_leave_in_time_overlap() -> None:
    """The time of --signal=R: may be at most MaxStartDelay."""
    scene = room()
    slow, plain = polite(scene, before_s=660), scene.job(BOB, time_limit_min=90)
    quick, short = polite(scene), scene.job(BOB, time_limit_min=30)
    scene.run_pass()
    assert [job.state for job in (slow, plain)] == [JobState.PENDING] * 2
    assert [job.state for job in (quick, short)] == [JobState.RUNNING] * 2


def test_without_preemption_no_job_overlaps() -> None:
    """Nothing could make it leave."""
    scene = room("")
    job = polite(scene)
    scene.run_pass()
    assert job.state == JobState.PENDING


def test_it_ends_by_the_reservations_end() -> None:
    """What comes after may be promised to others."""
    scene = room()
    long, fits = polite(scene, minutes=200), polite(scene, minutes=180)
    scene.run_pass()
    assert (long.state, fits.state) == (JobState.PENDING, JobState.RUNNING)


def test_others_come_first_on_nodes_that_are_not_reserved_yet() -> None:
    """A short job of anybody takes its node before one that may overlap is looked at."""
    scene = room()
    guests = [polite(scene) for _ in range(2)]
    shorts = [scene.job(BOB, ntasks=16, nodes_min=1, time_limit_min=30) for _ in range(3)]
    scene.run_pass()
    assert all(job.state == JobState.RUNNING for job in shorts)
    assert [job.state for job in guests] == [JobState.RUNNING, JobState.PENDING]


def test_nodes_promised_to_others_are_left_alone() -> None:
    """A job that waits for all nodes before the reservation begins gets them."""
    scene = room()
    scene.job(BOB, ntasks=16, nodes_min=1, time_limit_min=10)
    scene.run_pass()
    wide = scene.job(BOB, nodes_min=4, ntasks=64, time_limit_min=20)
    guest = polite(scene)
    plan = scene.run_pass()
    assert wide.job_id in plan.expected_start_us
    assert guest.state == JobState.PENDING


def test_it_leaves_when_the_reservations_job_comes() -> None:
    """It gets its signal, has the time that it asked for, and is then requeued."""
    scene = room()
    guests = [polite(scene, ntasks=32, nodes_min=2) for _ in range(2)]
    scene.run_pass()
    assert all(job.state == JobState.RUNNING for job in guests)
    scene.advance(HOUR_US)
    mine = scene.job(ALICE, reservation="r", ntasks=32, nodes_min=2, time_limit_min=60)
    done = pass_and_preempt(scene)
    told = [event for event in done if isinstance(event, ev.JobSignalled)]
    assert [event.signal for event in told] == [USR1]
    assert len({event.job_id for event in told}) == 1  # nobody in vain
    victim = scene.cluster.jobs[told[0].job_id]
    assert victim.preempt_end_us == scene.now_us + 5 * MINUTE_US
    scene.now_us += 5 * MINUTE_US
    scene.apply(grace_over(scene.cluster, scene.now_us, scene.cluster.job_index.leaving))
    assert victim.state == JobState.PREEMPTED or victim.state == JobState.PENDING
    assert mine.job_id in scene.cluster.job_index.claims


def test_a_job_that_preempts_elsewhere_is_not_lent_nodes() -> None:
    """It gets room once."""
    scene = ReservationSite(
        f"{PREEMPTS}\nPartitionName=high Nodes=ALL PriorityTier=9", plan=Planner()
    )
    scene.make(nodes="n[1-2]", maxstartdelay="10", users="alice")
    low = [scene.job(BOB, ntasks=16, nodes_min=1, node_list=name) for name in ("n3", "n4")]
    scene.run_pass()
    first = polite(scene, partition="high", minutes=60)
    plan = scene.run_pass(preempts=False)
    served = [start.job_id for start in plan.starts]
    served += [preemption.start.job_id for preemption in plan.preemptions]
    assert served == [first.job_id]
    assert all(job.state == JobState.RUNNING for job in low)


@pytest.mark.parametrize("nodes", ["n1", "n[1-2]"])
def test_only_the_reservations_nodes_are_opened(nodes: str) -> None:
    """Of another reservation without a delay nothing is."""
    scene = ReservationSite(PREEMPTS, plan=Planner())
    starts_us = scene.now_us + HOUR_US
    scene.make(nodes="n[3-4]", starttime=starts_us)
    scene.make("s", nodes=nodes, starttime=starts_us, maxstartdelay="5:00")
    guests = [polite(scene) for _ in range(4)]
    scene.run_pass()
    running = [job for job in guests if job.state == JobState.RUNNING]
    assert sorted(name for job in running for name in scene.places(job)) == ["n1", "n2"]


@settings(max_examples=drawn(60), deadline=None)
@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(1, 4), st.integers(1, 16), st.integers(1, 20)),
        max_size=8,
    ),
    st.lists(st.tuples(st.integers(1, 2), st.integers(1, 16), st.integers(1, 30)), max_size=4),
    st.sampled_from(["ALL", "n[1-2]", "n[2-4]"]),
    st.integers(1, 12),
)
def test_no_other_job_starts_later_because_of_them(
    others: list[tuple[bool, int, int, int]],
    guests: list[tuple[int, int, int]],
    nodes: str,
    begins: int,
) -> None:
    """Jobs outside keep the starts that they were promised."""
    scene = ReservationSite(PREEMPTS, plan=Planner())
    scene.make(
        nodes=nodes, starttime=scene.now_us + begins * 10 * MINUTE_US, maxstartdelay="10",
        users="alice",
    )  # fmt: skip
    for inside, width, cores, tens in others:
        scene.submit(  # refused where the reservation is too small
            reservation="r" if inside else "", nodes_min=width, nodes_max=width,
            ntasks=width * cores, time_limit_min=10 * tens,
        )  # fmt: skip
    before = scene.run_pass()
    quiet = scene.run_pass()  # what changes without any guests is not their doing
    for width, cores, tens in guests:
        polite(scene, nodes_min=width, nodes_max=width, ntasks=width * cores, minutes=10 * tens)
    scene.run_pass()
    after = scene.run_pass()
    for job_id, start_us in before.expected_start_us.items():
        job = scene.cluster.jobs[job_id]
        if job.state == JobState.PENDING and not job.request.reservation:
            assert after.expected_start_us[job_id] <= max(
                start_us, quiet.expected_start_us.get(job_id, 0)
            )


def together(scene: ReservationSite, *components: dict[str, object]) -> list[Job]:
    """Return a heterogeneous job of bob, each component of which takes five minutes to leave."""
    first, *others = (
        JobRequest(signal=USR1, signal_before_s=300, time_limit_min=90, **component)  # type: ignore[arg-type]
        for component in components
    )
    message = SubmitJob(bytes(16), first, b"#!/bin/sh\n", b"", others)
    decision = submit_job(scene.cluster, message, scene.context(BOB))
    assert isinstance(decision, Decision), decision
    scene.apply(list(decision.events))
    return [*scene.cluster.jobs.values()][-len(components) :]


def test_heterogeneous_jobs_overlap_with_all_components() -> None:
    """All are on the reservation's nodes, or none; and all leave for its job."""
    big = {"flags": REQ_SIGNAL_RESV, "ntasks": 32, "nodes_min": 2}
    plain = {"ntasks": 16, "nodes_min": 1}
    scene = room()
    parts = together(scene, big, plain)
    scene.run_pass()
    assert {job.state for job in parts} == {JobState.PENDING}
    scene = room()
    parts = together(scene, big, big)
    scene.run_pass()
    assert {job.state for job in parts} == {JobState.RUNNING}
    scene.advance(HOUR_US)
    scene.job(ALICE, reservation="r", ntasks=16, nodes_min=1, time_limit_min=60)
    done = pass_and_preempt(scene)
    told = {event.job_id for event in done if isinstance(event, ev.JobSignalled)}
    assert told == {job.job_id for job in parts}
