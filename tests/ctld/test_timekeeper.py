"""RELIABILITY 14: clocks of controllers that are wrong, are put right, or jump, by a table.

The truth is what a perfect watch says: how long the jobs have run, how long the controller was
away. Whatever the clock did meanwhile, jobs end when their time is over by that watch.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pyslurm_ng.ctld.clock import PATIENCE_US, Clock
from pyslurm_ng.ctld.followers.limit_index import LimitIndex
from pyslurm_ng.ctld.followers.usage_index import UsageIndex
from pyslurm_ng.ctld.nodes.run_times import RunTimes
from pyslurm_ng.ctld.rules import clocks, timers
from pyslurm_ng.ctld.rules.calendar import UTC
from pyslurm_ng.ctld.rules.reservation import reservation_due
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.ctld.timekeeper import Timekeeper, TimeMark
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.batches import decode_batch, encode_batch
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.model.states import JobState, NodeState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.wire import node_messages as nm
from tests.model.clusters import START_US, cluster_of, conf_of, submit
from tests.world.logs import LineLog
from tests.world.writer_room import WriterRoom

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US
LIMIT_MIN = 60
JUMPS = (0, 2 * HOUR_US, -2 * HOUR_US, -3 * DAY_US, 400 * DAY_US, -400 * DAY_US, 45 * SECOND_US)
AWAY = (SECOND_US, 40 * MINUTE_US, 3 * HOUR_US)


class Watch:
    """True time, a host's clock beside it, and its state directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.true_us = START_US
        self.wrong_us = 0

    def clock(self, newest_us: int) -> Clock:
        return Clock(newest_us, lambda: self.true_us + self.wrong_us, lambda: self.true_us)


class Controller(WriterRoom):
    """One life of a controller's timers around a cluster that outlives it."""

    def __init__(self, watch: Watch, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.watch, self.conf = watch, conf_of()
        mark = TimeMark(watch.directory / "time")
        self.clock = watch.clock(max(cluster.time_us, mark.read()) + 1)
        self.soft = Soft(self.clock.now_us())
        self.limits, self.usage = LimitIndex(cluster), UsageIndex(cluster, self.conf)
        for part in (self.soft, self.limits, self.usage):
            self.writer.observe(part.applied)
        self.run_times = RunTimes(cluster, self.clock.gap_us)
        self.log = LineLog()
        self.keeper = Timekeeper(self.clock, self.writer, self.run_times, mark, self.log)
        self.keeper.begin()
        self.writer.record([ev.EpochStarted(self.clock.now_us(), cluster.epoch + 1, "h")])

    def run(self, seconds: int) -> None:
        """Let true time pass, with all that a controller does about it; nodes are heard of."""
        for _ in range(seconds):
            self.watch.true_us += SECOND_US
            self.keeper.tick()
            now_us = self.clock.now_us()
            for node in self.cluster.living_nodes():
                self.soft.heard(node.node_id, now_us - 100 * SECOND_US)
            limited = self.run_times.sure(self.limits.due(self.conf, now_us))
            seen_us = self.soft.last_seen_us
            self.writer.record(timers.due(self.cluster, self.conf, seen_us, now_us, limited))
            self.writer.record(reservation_due.due(self.cluster, self.conf, now_us, UTC))
        assert check(self.cluster) == []

    def register(self, node_id: int, jobs: list[nm.RunningJob]) -> None:
        self.writer.record(self.run_times.heard(node_id, jobs, self.clock.now_us()))

    def elapsed_us(self, job: Job) -> int:
        suspended_us = job.suspended_us
        if job.state == JobState.SUSPENDED:
            suspended_us += self.clock.now_us() - job.suspend_us
        return self.clock.now_us() - job.start_us - suspended_us


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    return Watch(tmp_path)


def started(controller: Controller, time_limit_min: int = LIMIT_MIN, nodes: int = 1) -> Job:
    """Return a job that begins to run now, with a script on its first node."""
    cluster, now_us = controller.cluster, controller.clock.now_us()
    request = JobRequest(name="j", ntasks=nodes, nodes_min=nodes, nodes_max=nodes)
    job_id = submit(cluster, request, now_us, time_limit_min=time_limit_min)
    for start in Planner()(snapshot(cluster, now_us), Policy()).starts:
        controller.writer.record(dispatch(cluster, start, now_us))
    job = cluster.jobs[job_id]
    assert job.state == JobState.RUNNING
    duty = next(iter(cluster.duties[job.batch_node_id].values()))
    controller.writer.record([ev.DutiesDone(now_us, ((job.batch_node_id, duty.duty_id),))])
    return job


@pytest.mark.parametrize("away_us", AWAY)
@pytest.mark.parametrize("jump_us", JUMPS)
def test_a_restart_with_a_clock_that_jumped_ends_no_job_early(
    jump_us: int, away_us: int, watch: Watch
) -> None:
    """Finding M5: at +2 h all jobs were TIMEOUT at once. A real outage counts as before."""
    cluster = cluster_of()
    before = Controller(watch, cluster)
    jobs = [started(before, nodes=2), started(before)]
    suspended = started(before)
    before.run(300)
    paused_us = before.clock.now_us()
    before.writer.record([ev.JobSuspended(paused_us, suspended.job_id, cluster.next_duty_id)])
    before.run(300)
    watch.true_us += away_us
    watch.wrong_us += jump_us
    after = Controller(watch, cluster)
    # A clock set back by just as much as the controller was away looks as if it had not been.
    is_told = abs(jump_us + away_us) > MINUTE_US
    assert len(after.log.lines) == is_told, "a jump is said in one line, and nothing else is"
    after.run(5)
    assert all(job.state == JobState.RUNNING for job in jobs), "no node has said anything"
    run_us = watch.true_us - START_US
    for node in cluster.living_nodes():
        here = [
            nm.RunningJob(job.job_id, 0, [STEP_BATCH], run_us)
            for job in (*jobs, suspended)
            if job.batch_node_id == node.node_id
        ]
        after.register(node.node_id, here)
    assert len(after.run_times) == 0
    for job in jobs:
        assert abs(after.elapsed_us(job) - run_us) <= MINUTE_US
    assert abs(after.elapsed_us(suspended) - 300 * SECOND_US) <= MINUTE_US, "suspended time is none"
    assert suspended.suspend_us <= after.clock.now_us()
    left_s = (LIMIT_MIN * MINUTE_US - run_us) // SECOND_US
    if left_s > 60:
        after.run(left_s - 60)
        assert all(job.state == JobState.RUNNING for job in jobs)
    after.run(120 + 8)
    assert all(job.state == JobState.TIMEOUT for job in jobs)
    assert all(job.end_us >= job.start_us for job in jobs)
    assert suspended.state == JobState.SUSPENDED


@pytest.mark.parametrize("jump_us", [*JUMPS, SECOND_US, -SECOND_US])
def test_a_jump_of_a_running_controller_ends_no_job_early(jump_us: int, watch: Watch) -> None:
    """No node counts as silent, and usage is right."""
    cluster = cluster_of()
    controller = Controller(watch, cluster)
    job = started(controller)
    controller.run(60)
    watch.wrong_us += jump_us
    controller.run(PATIENCE_US // SECOND_US + 60)
    assert abs(controller.clock.now_us() - watch.true_us - watch.wrong_us) <= MINUTE_US
    # Recorded time runs at most a hundredth slower or faster until the clock is believed.
    most_us = PATIENCE_US // 100 + SECOND_US
    assert abs(controller.elapsed_us(job) - (watch.true_us - START_US)) <= most_us
    assert all(node.state == NodeState.IDLE and not node.flags for node in cluster.living_nodes())
    controller.run(LIMIT_MIN * 60 - (watch.true_us - START_US) // SECOND_US - 10)
    assert job.state == JobState.RUNNING
    controller.run(30)
    assert job.state == JobState.TIMEOUT
    assert abs(job.end_us - job.start_us - LIMIT_MIN * MINUTE_US) <= 10 * SECOND_US


def test_what_people_set_is_wall_time(watch: Watch) -> None:
    """With recorded time two hours from it, a begin time or reservation would be as wrong."""
    cluster = cluster_of()
    watch.wrong_us = 2 * HOUR_US
    controller = Controller(watch, cluster)
    controller.run(5)
    watch.wrong_us = 0  # the clock is put right
    controller.run(PATIENCE_US // SECOND_US + 5)
    due_us = watch.true_us + 10 * MINUTE_US
    job_id = submit(cluster, JobRequest(name="later", ntasks=1, begin_us=due_us), watch.true_us)
    job = cluster.jobs[job_id]
    job.begin_us, job.eligible_us = due_us, 0
    cluster.move_job(job)
    kept = Reservation("kept", due_us, due_us + HOUR_US, node_ids=(3,))
    apply_all(cluster, [ev.ReservationCreated(controller.clock.now_us(), kept)])
    controller.run(9 * 60)
    assert not job.eligible_us
    assert not cluster.reservations["kept"].is_active
    controller.run(2 * 60)
    assert job.eligible_us
    assert cluster.reservations["kept"].is_active


def test_a_requeued_job_waits_as_long_as_it_should(watch: Watch) -> None:
    """Its begin time is counted from recorded time.

    Without a correction it would wait three more days.
    """
    cluster = cluster_of()
    controller = Controller(watch, cluster)
    job = started(controller)
    now_us = controller.clock.now_us()
    asked_us = now_us + 90 * MINUTE_US
    asked = cluster.jobs[submit(cluster, JobRequest(name="b", begin_us=asked_us), now_us)]
    asked.begin_us = asked_us
    job.attempt, job.begin_us = 1, now_us + 121 * SECOND_US
    controller.writer.record(clocks.all_moved(cluster, now_us - 3 * DAY_US, -3 * DAY_US))
    assert job.begin_us == now_us - 3 * DAY_US + 121 * SECOND_US
    assert asked.begin_us == asked_us


def test_nodes_answer_for_their_own_jobs_only(watch: Watch) -> None:
    """SI4: a node that lies about run times harms nobody else's jobs."""
    cluster = cluster_of()
    before = Controller(watch, cluster)
    mine, theirs = started(before), started(before, nodes=4)
    before.run(300)
    watch.wrong_us += 2 * HOUR_US
    after = Controller(watch, cluster)
    liar = (mine.batch_node_id + 1) % 4
    jobs = [nm.RunningJob(job.job_id, 0, [STEP_BATCH], 9 * HOUR_US) for job in (mine, theirs)]
    for node_id in {liar, (liar + 1) % 4} - {mine.batch_node_id, theirs.batch_node_id}:
        after.register(node_id, jobs)
    after.run(5)
    assert len(after.run_times) == 2
    assert (mine.state, theirs.state) == (JobState.RUNNING, JobState.RUNNING)


def test_a_job_that_its_node_does_not_know_keeps_its_time(watch: Watch) -> None:
    """An allocation without steps: no time is counted for the controller's absence."""
    cluster = cluster_of()
    before = Controller(watch, cluster)
    job = started(before)
    before.run(300)
    watch.wrong_us += 2 * HOUR_US
    after = Controller(watch, cluster)
    after.register(job.batch_node_id, [])
    after.run(LIMIT_MIN * 60 - 300 - 70)
    assert job.state == JobState.RUNNING
    after.run(140)
    assert job.state == JobState.TIMEOUT


def test_a_run_that_begins_after_the_start_is_limited_at_once(watch: Watch) -> None:
    """A requeued job has the id of one that waited for its node's word."""
    cluster = cluster_of()
    before = Controller(watch, cluster)
    job = started(before, time_limit_min=5)
    before.run(60)
    watch.wrong_us += 2 * HOUR_US
    after = Controller(watch, cluster)
    assert after.run_times.sure([job.job_id]) == []
    job.attempt += 1
    assert after.run_times.sure([job.job_id]) == [job.job_id]
    assert len(after.run_times) == 0


def test_moved_times_survive_journal_and_checkpoint(watch: Watch) -> None:
    cluster = cluster_of()
    controller = Controller(watch, cluster)
    started(controller, nodes=2)
    apply_all(cluster, [ev.NodeRegistered(START_US, 0, NodeFacts(), NodeState.IDLE)])
    image = Cluster.from_bytes(cluster.to_bytes())
    events = clocks.all_moved(cluster, START_US - HOUR_US, -HOUR_US)
    apply_all(cluster, events)
    apply_all(image, decode_batch(encode_batch(events)))
    assert image.digest() == cluster.digest()
    assert cluster.time_us == START_US - HOUR_US
    assert Cluster.from_bytes(cluster.to_bytes()).digest() == cluster.digest()
