"""Burst buffers of job arrays: each task has one of its own, and only the next ones are made."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.ctld.rules.buffers import steps
from pyslurm_ng.ctld.rules.buffers.room import concerned, tasks_ahead_of
from pyslurm_ng.ctld.rules.context import Context
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.orders.cancel import cancel_jobs
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.model import events as ev, task_ranges
from pyslurm_ng.model.buffer import Buffer, BufferState as S
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.states import JobFlag, JobState
from pyslurm_ng.wire.query_messages import CancelJobs, JobFilter
from tests.model.clusters import FOUR_NODES, START_US, conf_of, submit
from tests.world.buffer_scene import CONF, POOLS, Scene
from tests.world.callers import ROOT


class ArrayScene(Scene):
    """A cluster with a pool of 10 and one array."""

    def array(self, count: int, size: int = 0, limit: int = 0) -> int:
        """Return the id of an array whose tasks want `size` of the pool each, or no room."""
        ranges = ((0, count - 1, 1),)
        request = JobRequest(burst_buffer="#BB_LUA")
        job_id = submit(self.cluster, request, ranges=ranges, array_limit=limit)
        pool = "fast" if size else ""
        self.record([ev.BufferChanged(START_US, job_id, Buffer(job_id, pool=pool, size=size))])
        return job_id

    def due(self) -> None:
        """Record what follows until nothing does; records of one task come first."""
        while True:
            job_ids = concerned(self.cluster, [*self.cluster.buffers])
            job_ids.sort(key=lambda job_id: bool(self.cluster.jobs[job_id].array_pending))
            events = steps.all_due(self.cluster, job_ids, POOLS, START_US)
            if not events:
                return
            self.record(events)

    def tasks_in(self, state: int) -> list[int]:
        """Return the ids of the tasks whose burst buffers are in a state, in order."""
        task_ids = []
        for buffer in self.cluster.buffers.values():
            job = self.cluster.jobs[buffer.job_id]
            if buffer.state == state:
                is_split = job.array_task_id != NO_VAL
                task_ids += (
                    [job.array_task_id] if is_split else task_ranges.tasks(job.array_pending)
                )
        return sorted(task_ids)

    def task(self, array_job_id: int, task_id: int) -> Job:
        """Return the record that one task was split off into."""
        return self.cluster.jobs[self.cluster.job_index.arrays[array_job_id][task_id]]

    def stage_all(self) -> None:
        """Let all stage-ins end well."""
        for buffer in [*self.cluster.buffers.values()]:
            if buffer.state == S.STAGING_IN:
                self.record(steps.staged_in(buffer, 0, START_US))

    def start_next(self) -> Job:
        """Start what a pass starts first."""
        start = self.starts()[0]
        self.record(dispatch(self.cluster, start, START_US))
        self.due()
        return self.cluster.jobs[start.job_id]

    def cancel(self, *jobs: str) -> None:
        request = CancelJobs(bytes(16), JobFilter(jobs=[*jobs]))
        decision = cancel_jobs(self.cluster, request, Context(CONF, START_US, ROOT))
        self.record([*decision.events])  # type: ignore[union-attr]
        self.due()


def test_of_a_million_tasks_the_next_ten_are_made_ready() -> None:
    scene = ArrayScene()
    array = scene.array(1_000_000)
    scene.due()
    assert scene.tasks_in(S.STAGING_IN) == [*range(10)]
    assert len(scene.cluster.jobs) == 11
    assert scene.state(array) == S.PENDING
    assert scene.cluster.jobs[array].array_pending == ((10, 999_999, 1),)
    assert scene.starts() == []  # none is staged in, and the array itself never starts
    scene.stage_all()
    first = scene.start_next()
    assert (first.array_job_id, first.array_task_id) == (array, 0)
    assert scene.state(first.job_id) == S.PRE_RUN
    assert scene.tasks_in(S.STAGING_IN) == [10]  # one has left, the next one follows
    assert scene.tasks_in(S.STAGED_IN) == [*range(1, 10)]


def test_each_task_takes_room_of_its_own() -> None:
    scene = ArrayScene()
    array = scene.array(5, size=3)  # 4 with the pool's granularity, of 10
    scene.due()
    assert scene.tasks_in(S.STAGING_IN) == [0, 1]
    assert scene.state(array) == S.PENDING
    scene.stage_all()
    first = scene.start_next()
    assert scene.tasks_in(S.STAGING_IN) == []  # it still has its room
    scene.moves(first.job_id, S.TEARDOWN)
    torn = scene.cluster.buffers[first.job_id]
    scene.record(job_end.complete(scene.cluster, first, job_end.End(JobState.FAILED), START_US))
    scene.record(steps.torn_down(scene.cluster, torn, succeeded=True, now_us=START_US))
    scene.due()
    assert scene.tasks_in(S.STAGING_IN) == [2]


def test_no_more_are_made_ready_than_may_run_at_once() -> None:
    scene = ArrayScene()
    scene.array(6, limit=2)
    scene.due()
    assert scene.tasks_in(S.STAGING_IN) == [0, 1]


def test_the_last_task_keeps_the_arrays_record() -> None:
    scene = ArrayScene()
    array = scene.array(3)
    scene.due()
    assert scene.tasks_in(S.STAGING_IN) == [0, 1, 2]
    assert scene.state(array) == S.STAGING_IN
    assert scene.cluster.jobs[array].array_pending == ((2, 2, 1),)
    scene.stage_all()
    started = {scene.start_next().array_task_id for _ in range(3)}
    assert started == {0, 1, 2}
    assert scene.tasks_in(S.PRE_RUN) == [0, 1, 2]


@pytest.mark.parametrize("named", ["{}_3", "{}_[12-15]", "{}"])
def test_cancelled_tasks_are_torn_down_if_there_is_anything(named: str) -> None:
    """Of one task, of some that nothing was made for, of all."""
    scene = ArrayScene()
    array = scene.array(30)
    scene.due()
    scene.cancel(named.format(array))
    gone = {"{}_3": [3], "{}_[12-15]": [12, 13, 14, 15], "{}": [*range(30)]}[named]
    made = [task for task in gone if task < 10]
    assert scene.tasks_in(S.TEARDOWN) == made
    assert scene.tasks_in(S.STAGING_IN) == (
        [] if len(gone) == 30 else sorted({*range(10 + len(made))} - {*made})
    )


def test_a_task_that_cannot_be_made_ready_keeps_no_other_one_back() -> None:
    scene = ArrayScene()
    array = scene.array(30)
    scene.due()
    failed = scene.task(array, 4)
    buffer = scene.cluster.buffers[failed.job_id]
    why = ("slurm_bb_data_in", "no file")
    scene.record(steps.failed(failed, buffer, *why, START_US, tears_down=False))
    assert (failed.priority, scene.cluster.jobs[array].priority != 0) == (0, True)
    scene.due()
    assert scene.tasks_in(S.STAGING_IN) == [*range(11)]  # the 5th is there still, and stuck


def test_held_tasks_are_not_made_ready() -> None:
    scene = ArrayScene()
    array = scene.array(30)
    scene.record([ev.JobUpdated(START_US, array, {"priority": 0})])
    scene.due()
    assert scene.tasks_in(S.STAGING_IN) == []


def test_a_controller_that_starts_makes_the_same_tasks_ready() -> None:
    """Those that were under way; the ones behind them wait, however often it is killed."""
    scene = ArrayScene()
    scene.array(30)
    for _ in range(3):
        scene.due()
        assert scene.tasks_in(S.STAGING_IN) == [*range(10)]
        for buffer in [*scene.cluster.buffers.values()]:
            scene.record(steps.at_start(buffer, START_US))
        assert scene.tasks_in(S.TEARDOWN) == [*range(10)]
        scene.due()
        assert len(scene.cluster.jobs) == 11
        for buffer in [*scene.cluster.buffers.values()]:
            if buffer.state == S.TEARDOWN:
                torn = steps.torn_down(scene.cluster, buffer, succeeded=True, now_us=START_US)
                scene.record(torn)


def test_a_task_that_is_requeued_begins_anew_before_later_ones() -> None:
    scene = ArrayScene()
    array = scene.array(30)
    scene.due()
    scene.stage_all()
    job = scene.start_next()
    scene.moves(job.job_id, S.RUNNING)
    scene.stage_all()
    end = job_end.End(JobState.CANCELLED, flags=JobFlag.REQUEUED)
    scene.record(job_end.complete(scene.cluster, job, end, START_US))
    scene.due()
    assert scene.state(job.job_id) == S.POST_RUN  # what its run has made is kept first
    owed = scene.cluster.duties.items()
    done = tuple((node, duty.duty_id) for node, duties in owed for duty in duties.values())
    scene.record([ev.DutiesDone(START_US, done)])  # its nodes are clean
    scene.record(job_end.finish(scene.cluster, job, JobState.CANCELLED, 0, end.flags, START_US))
    assert job.state == JobState.PENDING
    scene.moves(job.job_id, S.TEARDOWN)
    torn = scene.cluster.buffers[job.job_id]
    scene.record(steps.torn_down(scene.cluster, torn, succeeded=True, now_us=START_US))
    scene.record([ev.JobEligible(START_US, job.job_id)])
    scene.due()
    assert scene.state(job.job_id) == S.PENDING  # ten later ones are ready
    scene.start_next()
    assert scene.state(job.job_id) == S.STAGING_IN
    assert scene.cluster.jobs[array].array_pending == ((11, 29, 1),)


def test_what_else_waits_of_an_array_is_looked_at_with_a_task() -> None:
    scene = ArrayScene()
    plain, array = scene.job(), scene.array(30)
    scene.due()
    other = scene.array(30)
    task = scene.task(array, 3)
    assert concerned(scene.cluster, [task.job_id]) == [task.job_id, array]
    assert concerned(scene.cluster, [plain, 999]) == [plain]
    assert scene.state(other) == S.PENDING


@pytest.mark.parametrize(("text", "count"), [("", 10), ("3", 3), ("0", 1), ("99999", 1000)])
def test_the_site_says_how_many(text: str, count: int) -> None:
    line = f"SchedulerParameters=bb_array_stage_cnt={text}\n" if text else ""
    assert tasks_ahead_of(conf_of(FOUR_NODES + line)) == count


def test_so_many_as_the_site_says_are_made_ready() -> None:
    scene = ArrayScene()
    array = scene.array(30)
    scene.record(steps.all_due(scene.cluster, [array], POOLS, START_US, 4))
    assert scene.tasks_in(S.STAGING_IN) == [0, 1, 2, 3]
