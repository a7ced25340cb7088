"""What `scontrol explain job` answers: sentences, who counts for a limit, the start as shown."""

from __future__ import annotations

import msgspec
import pytest

from pyslurm_ng.base.numbers import HOUR_US, MINUTE_US, REQ_EXCLUSIVE, REQ_HOLD
from pyslurm_ng.cli.control.explain import lines
from pyslurm_ng.ctld.queries.explained import explained, limit_holders
from pyslurm_ng.ctld.queries.job_fields import dependency_text
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.assoc import Limits
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.license_server import ServerUse
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.sched.explain.explain import outlook
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.wire.query_messages import JobExplained
from tests.ctld.rules.reason_scenarios import (
    ENFORCED,
    array_limit,
    cleaning,
    held_by_admin,
    launch_failed,
    licenses,
    max_requeue,
    priority,
    reservation_deleted,
)
from tests.world.callers import BOB
from tests.world.reservations import ReservationSite


def answer(scene: ReservationSite, job: Job, asked: str = "") -> JobExplained:
    view = snapshot(scene.cluster, scene.now_us)
    job_outlook = outlook(view, policy(scene.conf), job.job_id)
    return explained(scene.cluster, scene.soft, job, job_outlook, [], 0, scene.now_us, asked)


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        (held_by_admin, "held by an administrator"),
        (lambda scene: scene.waiting(flags=REQ_HOLD), "held by its user"),
        (max_requeue, "its last 6 launches failed"),
        (reservation_deleted, "its reservation is gone"),
        (launch_failed, "launch failed requeued held"),
    ],
)
def test_the_user_that_held_it(scenario: object, words: str) -> None:
    scene = ReservationSite()
    job = scenario(scene)  # type: ignore[operator]
    (line,) = scene.sentences(job)
    assert words in line and line.endswith(f"scontrol release {job.job_id}")


def test_a_dependency_says_until_when_at_the_latest() -> None:
    scene = ReservationSite()
    first = scene.running(time_limit_min=90)
    second = scene.waiting(dependency=f"afterok:{first.job_id}", time_limit_min=30)
    (line,) = scene.sentences(second)
    assert f"job {first.job_id} of alice is RUNNING and ends in 1 h 30 min at the latest" in line
    scene.now_us += 20 * MINUTE_US
    assert "ends in 1 h 10 min" in scene.sentences(second)[0]


def test_a_dependency_on_a_task_speaks_of_that_task() -> None:
    scene = ReservationSite()
    array = scene.job(array="1-4%1", time_limit_min=30)
    second = scene.job(dependency=f"afterok:{array.job_id}_1,afterok:{array.job_id}_3")
    tail = scene.job(dependency=f"afterany:{array.job_id}")
    pairs = scene.job(dependency=f"aftercorr:{array.job_id}", array="1-4")
    scene.run_pass()
    scene.run_pass()
    first, third = scene.sentences(second)
    assert f"job {array.job_id}_1 of alice is RUNNING and ends in 30 min" in first
    assert f"job {array.job_id}_3 of alice is PENDING and is to start in" in third
    assert "at the earliest" in third
    (line,) = scene.sentences(tail)
    assert line.endswith(f"of the tasks of array {array.job_id} of alice 3 wait, 1 run, 0 are over")
    assert f"job {array.job_id}_1 of alice is RUNNING" in scene.sentences(pairs)[0]


def test_licences_that_the_cluster_does_not_have() -> None:
    scene = ReservationSite("Licenses=matlab:2")
    job = scene.job(licenses="matlab:2")
    scene.apply([ev.LicensesUpdated(scene.now_us, (("matlab", 1),))])
    scene.run_pass()
    assert scene.sentences(job) == ["needs 2 of licence matlab; the cluster has 1"]


def test_a_licence_names_the_jobs_that_have_it() -> None:
    scene = ReservationSite()
    job = licenses(scene)
    (line,) = scene.sentences(job)
    assert line.startswith("needs 1 of licence matlab; 1 of 1 are used by job 1, which ends in")


def test_licences_used_outside_of_the_cluster_are_counted() -> None:
    scene = ReservationSite()
    told = ServerUse("matlab@flex", 8, 8, scene.now_us)
    scene.apply([ev.LicensesUpdated(scene.now_us, (("matlab@flex", 9),), (told,))])
    job = scene.job(licenses="matlab@flex:2")
    scene.run_pass()
    assert scene.sentences(job) == [
        "needs 2 of licence matlab@flex; of its 9, 8 are used outside of this cluster: "
        "LastConsumed was 8"
    ]


def test_an_array_speaks_of_its_next_task() -> None:
    scene = ReservationSite()
    job = array_limit(scene)
    explanation = answer(scene, job, f"{job.job_id}_3")
    assert explanation.job_id == f"{job.job_id}_3"
    assert explanation.waits_for[0] == (
        f"3 tasks of the array wait, 1 run, 1 may run at once; "
        f"what follows is about the next one, {job.job_id}_1"
    )


def test_the_start_is_that_of_squeue() -> None:
    scene = ReservationSite()
    job = priority(scene)
    scene.now_us += 5_000_000
    explanation = answer(scene, job)
    assert explanation.start_us == scene.soft.expected_start_us[job.job_id]
    nodes = scene.soft.sched_nodes[job.job_id]
    assert explanation.nodes == ",".join(scene.cluster.node_names(nodes))


def test_jobs_that_count_for_a_limit_are_in_the_order_of_their_ends() -> None:
    scene = ReservationSite(ENFORCED)
    scene.account(quality=Limits(grp_jobs=2))
    long = scene.running(time_limit_min=60)
    short = scene.running(time_limit_min=10)
    job = scene.waiting()
    holders = limit_holders(scene.cluster, job, Reason.QOSGrpJobsLimit, "")
    assert [holder.job_id for holder in holders] == [short.job_id, long.job_id]
    assert [holder.kind for holder in answer(scene, job).holders] == ["limit", "limit"]
    assert limit_holders(scene.cluster, job, Reason.QOSMaxWallDurationPerJobLimit, "") == []
    assert limit_holders(scene.cluster, job, Reason.MaxCpuRunMinsPerUser, "") == holders


def test_a_run_that_is_cleaned_up_is_not_waiting_yet() -> None:
    scene = ReservationSite()
    job = cleaning(scene)
    explanation = explained(scene.cluster, scene.soft, job, None, [], 0, scene.now_us)
    assert JobState[explanation.state] == JobState(job.state)


def test_a_begin_time_is_shown() -> None:
    scene = ReservationSite()
    job = scene.waiting(begin_us=scene.now_us + 2 * HOUR_US)
    assert scene.sentences(job) == ["its begin time is 2 h away"]


def test_the_reason_of_a_partition_that_is_gone() -> None:
    scene = ReservationSite()
    job = scene.waiting(partition="gpu", flags=REQ_HOLD)
    fields = {"priority": 1, "reason": 0, "eligible_us": scene.now_us}
    scene.apply([ev.JobUpdated(scene.now_us, job.job_id, fields)])
    scene.apply([ev.PartitionDeleted(scene.now_us, "gpu")])
    scene.run_pass()
    assert scene.shown(job)[0] == "PartitionDown"
    assert scene.sentences(job) == ["partition gpu no longer exists"]


def test_private_jobs_have_no_names() -> None:
    """PrivateData=jobs: the answer says what others hold, but not their names."""
    scene = ReservationSite()
    job = priority(scene)
    view = snapshot(scene.cluster, scene.now_us)
    job_outlook = outlook(view, policy(scene.conf), job.job_id)

    def sees(other: Job) -> bool:
        return other.uid == job.uid

    told = explained(scene.cluster, scene.soft, job, job_outlook, [], 0, scene.now_us, "", sees)
    others = [holder for holder in told.holders if holder.user != "alice"]
    assert others and all((holder.name, holder.user) == ("", "") for holder in others)
    text = "\n".join(lines(msgspec.to_builtins(told)))
    assert "job of another user on n" in text and "bob" not in text
    assert told.waits_for == ["job 2 of higher priority waits in main"]
    told = explained(
        scene.cluster, scene.soft, job, job_outlook, [], 0, scene.now_us, "", lambda _: False
    )
    assert told.waits_for == ["a job of another user of higher priority waits in main"]


def test_a_term_that_waits_for_minutes_says_how_many() -> None:
    scene = ReservationSite()
    first = scene.running(time_limit_min=90)
    second = scene.waiting(dependency=f"after:{first.job_id}+10")
    scene.now_us += 4 * MINUTE_US
    (line,) = scene.sentences(second)
    assert line.endswith(f"job {first.job_id} has started; that is met in 6 min")


def test_a_singleton_names_those_before_it() -> None:
    scene = ReservationSite()
    first = scene.running(name="one")
    second = scene.waiting(name="one", dependency="singleton")
    assert scene.sentences(second) == [f"jobs of alice named one have to end first: {first.job_id}"]


def test_behind_its_own_limit_an_array_is_promised_the_room_of_its_tasks() -> None:
    """The running tasks, until whose end its next one waits, are named, and what would help."""
    scene = ReservationSite()
    job = array_limit(scene)
    explanation = answer(scene, job)
    (running,) = (other.job_id for other in scene.cluster.jobs.values() if other is not job)
    assert [(holder.kind, holder.name) for holder in explanation.holders] == [
        ("limit", f"{job.job_id}_0")
    ]
    assert explanation.start_us == scene.now_us + 60 * MINUTE_US
    assert running in scene.cluster.job_index.active
    assert [(holder.option, holder.start_us) for holder in explanation.sooner] == [
        ("a higher ArrayTaskThrottle", scene.now_us)
    ]


def test_a_higher_limit_is_offered_only_if_it_helps() -> None:
    """The licence comes back no sooner than the task ends that counts for the limit."""
    scene = ReservationSite("Licenses=matlab:1")
    job = scene.waiting(array="0-3%1", licenses="matlab:1")
    explanation = answer(scene, job)
    assert (explanation.start_us, explanation.sooner) == (scene.now_us + 60 * MINUTE_US, [])


def test_a_reservation_that_keeps_licences_is_named() -> None:
    scene = ReservationSite()
    scene.apply([ev.LicensesUpdated(scene.now_us, (("matlab", 4),))])
    scene.make("class", licenses="matlab:3", flags="ANY_NODES", users="bob", duration=30)
    job = scene.waiting(licenses="matlab:2", time_limit_min=10)
    assert scene.shown(job)[0] == "Licenses"
    assert scene.sentences(job) == [
        "needs 2 of licence matlab; reservation class keeps 3, and ends in 30 min"
    ]


def test_a_suspended_job_names_the_jobs_on_its_cores() -> None:
    scene = ReservationSite()
    job, other = scene.running(), scene.running(BOB)
    scene.apply([
        ev.JobUpdated(scene.now_us, job.job_id, {"suspended_by": other.job_id}),
        ev.JobSuspended(scene.now_us, job.job_id, scene.cluster.next_duty_id),
    ])  # fmt: skip
    explanation = explained(scene.cluster, scene.soft, job, None, [], 0, scene.now_us)
    text = "\n".join(lines(msgspec.to_builtins(explanation)))
    assert f"job {other.job_id} of bob of higher priority has preempted it" in text


def test_a_whole_array_is_named_as_in_slurm() -> None:
    scene = ReservationSite()
    array = scene.job(array="1-2")
    job = scene.waiting(dependency=f"afterok:{array.job_id},afterany:{array.job_id}_2")
    texts = dependency_text(scene.cluster, job.dependencies, False)
    name = array.job_id
    assert texts == f"afterok:{name}_*(unfulfilled),afterany:{name}_2(unfulfilled)"


@pytest.mark.parametrize(
    ("option", "guessed"),
    [
        ("", [False, False]),
        ("bf_reserve_depth=1", [False, True]),
        ("bf_max_job_test=1", [False, True]),
        ("bf_min_prio_reserve=4294967290", [True, True]),
    ],
)
def test_a_start_for_which_no_room_is_kept_is_an_estimate(option: str, guessed: list[bool]) -> None:
    scene = ReservationSite(f"SchedulerParameters={option}" if option else "")
    scene.running(nodes_min=4, nodes_max=4, flags=REQ_EXCLUSIVE, time_limit_min=60)
    wide = {"nodes_min": 4, "nodes_max": 4, "flags": REQ_EXCLUSIVE, "time_limit_min": 30}
    jobs = [scene.job(**wide), scene.job(**wide)]
    scene.run_pass()
    assert [answer(scene, job).is_estimate for job in jobs] == guessed


def test_jobs_beyond_the_window_still_go_first() -> None:
    """A job that waits for a node that is away does not."""
    scene = ReservationSite("SchedulerParameters=bf_window=10")
    scene.running(nodes_min=4, nodes_max=4, flags=REQ_EXCLUSIVE, time_limit_min=60)
    wide = {"nodes_min": 4, "nodes_max": 4, "flags": REQ_EXCLUSIVE, "time_limit_min": 30}
    _, second = scene.job(**wide), scene.job(**wide)
    scene.run_pass()
    assert answer(scene, second).ahead == 1
