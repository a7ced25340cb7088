"""BurstBufferType=burst_buffer/lua: from a job's submission to its end, as events."""

from __future__ import annotations

from pyslurm_ng.base.numbers import CANCEL_HURRY
from pyslurm_ng.ctld.rules.buffers import steps
from pyslurm_ng.ctld.rules.context import Context
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.orders.cancel import cancel_jobs
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.ctld.rules.timers import purge
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.buffer import BufferState as S
from pyslurm_ng.model.states import JobFlag, JobState, Reason
from pyslurm_ng.wire.query_messages import CancelJobs, JobFilter
from tests.model.clusters import START_US
from tests.world.buffer_scene import CONF, Scene
from tests.world.callers import ROOT


def test_a_job_starts_when_it_is_staged_in_and_nodes_hear_of_it_after_pre_run() -> None:
    scene = Scene()
    job_id = scene.job()
    assert scene.starts() == []
    scene.due()
    assert (scene.state(job_id), scene.cluster.buffers[job_id].size) == (S.STAGING_IN, 4)
    assert scene.starts() == []
    scene.record(steps.staged_in(scene.cluster.buffers[job_id], 6, START_US))
    assert scene.cluster.buffers[job_id].size == 6
    (start,) = scene.starts()
    scene.record(dispatch(scene.cluster, start, START_US))
    job = scene.cluster.jobs[job_id]
    assert (job.reason, job_id in scene.cluster.prologs) == (Reason.Prolog, True)
    assert not scene.cluster.duties
    scene.due()
    assert scene.state(job_id) == S.PRE_RUN


def test_jobs_wait_for_room_and_take_it_in_turn() -> None:
    scene = Scene()
    first, second, other = scene.job(6), scene.job(6), scene.job(0, pool="")
    scene.due()
    assert [scene.state(job_id) for job_id in (first, second)] == [S.STAGING_IN, S.PENDING]
    assert scene.state(other) == S.STAGING_IN  # it takes none
    scene.record(
        steps.torn_down(
            scene.cluster, scene.cluster.buffers[first], succeeded=True, now_us=START_US
        )
    )
    assert scene.state(first) == S.PENDING


def test_the_stage_out_follows_the_run_and_the_job_is_kept_until_it_is_over() -> None:
    scene = Scene()
    job = scene.run(scene.job())
    scene.end(job)
    scene.due()
    assert scene.state(job.job_id) == S.POST_RUN
    assert job.flags & JobFlag.STAGE_OUT
    scene.moves(job.job_id, S.STAGING_OUT)
    scene.moves(job.job_id, S.TEARDOWN)
    assert not job.flags & JobFlag.STAGE_OUT
    buffer = scene.cluster.buffers[job.job_id]
    for failures in (1, 2):
        scene.record(steps.torn_down(scene.cluster, buffer, succeeded=False, now_us=START_US))
        buffer = scene.cluster.buffers[job.job_id]
        assert (buffer.state, buffer.failures) == (S.TEARDOWN_FAIL, failures)
    scene.record(steps.torn_down(scene.cluster, buffer, succeeded=False, now_us=START_US))
    assert scene.state(job.job_id) == S.COMPLETE  # Slurm tries it three times


def test_afterburstbuffer_waits_for_the_stage_out_and_afterany_does_not() -> None:
    scene = Scene()
    job = scene.run(scene.job())
    after, after_any = (scene.waits(kind, job.job_id) for kind in ("afterburstbuffer", "afterany"))
    waits = scene.cluster.jobs
    scene.end(job)
    scene.due()
    assert scene.state(job.job_id) == S.POST_RUN
    owed = scene.cluster.duties.items()
    done = tuple((node, duty.duty_id) for node, duties in owed for duty in duties.values())
    scene.record([ev.DutiesDone(START_US, done)])  # its nodes are clean
    scene.record(job_end.finish(scene.cluster, job, JobState.COMPLETED, 0, 0, START_US))
    assert [bool(waits[job_id].dependencies) for job_id in (after, after_any)] == [True, False]
    scene.moves(job.job_id, S.STAGING_OUT)
    scene.due()
    assert waits[after].dependencies
    scene.moves(job.job_id, S.TEARDOWN)
    scene.due()
    assert waits[after].dependencies == ()
    assert scene.starts()


def test_afterburstbuffer_follows_a_job_that_never_ran() -> None:
    scene = Scene()
    job_id = scene.job()
    scene.due()
    after = scene.waits("afterburstbuffer", job_id)
    _cancel(scene, job_id)
    scene.due()
    assert scene.cluster.jobs[after].dependencies == ()


def test_an_ended_job_is_not_forgotten_before_its_buffer() -> None:
    scene = Scene()
    job_id = scene.job()
    scene.due()
    _cancel(scene, job_id)
    later_us = START_US + 10_000 * 1_000_000
    assert purge(scene.cluster, CONF, later_us) == []
    scene.due()
    buffer = scene.cluster.buffers[job_id]
    assert (buffer.state, buffer.is_hurried) == (S.TEARDOWN, True)  # it never ran
    scene.record(steps.torn_down(scene.cluster, buffer, succeeded=True, now_us=START_US))
    scene.record(purge(scene.cluster, CONF, later_us))
    assert scene.cluster.buffers == {}


def test_a_failure_holds_the_job_and_its_release_begins_anew() -> None:
    scene = Scene()
    job_id = scene.job()
    scene.due()
    job, buffer = scene.cluster.jobs[job_id], scene.cluster.buffers[job_id]
    scene.record(
        steps.failed(job, buffer, "slurm_bb_data_in", "no\nfile", START_US, tears_down=False)
    )
    assert (job.priority, job.reason) == (0, Reason.JobHeldAdmin)
    assert job.reason_text == "burst_buffer/lua: slurm_bb_data_in: no?file"
    scene.due()
    assert (scene.state(job_id), scene.cluster.buffers[job_id].is_stuck) == (S.STAGING_IN, True)
    scene.record([ev.JobUpdated(START_US, job_id, {"priority": 7, "reason": 0})])
    scene.due()
    scene.record(
        steps.torn_down(
            scene.cluster, scene.cluster.buffers[job_id], succeeded=True, now_us=START_US
        )
    )
    scene.due()
    assert (scene.state(job_id), scene.cluster.buffers[job_id].is_stuck) == (S.STAGING_IN, False)


def test_hurry_leaves_the_stage_out_out() -> None:
    scene = Scene()
    job = scene.run(scene.job())
    scene.end(job)
    scene.due()
    _cancel(scene, job.job_id, CANCEL_HURRY)  # the job is over, its burst buffer is not
    scene.due()
    buffer = scene.cluster.buffers[job.job_id]
    assert (buffer.state, buffer.is_hurried) == (S.TEARDOWN, True)


def test_a_controller_that_starts_begins_a_stage_in_anew() -> None:
    scene = Scene()
    job_id = scene.job()
    scene.due()
    scene.record(steps.at_start(scene.cluster.buffers[job_id], START_US))
    assert scene.state(job_id) == S.TEARDOWN
    scene.record(
        steps.torn_down(
            scene.cluster, scene.cluster.buffers[job_id], succeeded=True, now_us=START_US
        )
    )
    assert scene.state(job_id) == S.PENDING


def _cancel(scene: Scene, job_id: int, flags: int = 0) -> None:
    request = CancelJobs(bytes(16), JobFilter(jobs=[str(job_id)]), flags=flags)
    decision = cancel_jobs(scene.cluster, request, Context(CONF, START_US, ROOT))
    scene.record([*decision.events])  # type: ignore[union-attr]
