"""`scontrol update step`: time limits of steps that run."""

from __future__ import annotations

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import MINUTE_US
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.ctld.rules.steps.steps import step_time_limits
from pyslurm_ng.ctld.rules.update.update_step import update_step
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.job import Job, Step
from pyslurm_ng.wire.query_messages import UpdateStep
from tests.world.callers import ALICE, BOB
from tests.world.site import Site


def update(scene: Site, step: str, limit: str, who: Caller = ALICE) -> int:
    """Change a limit; return 0 or the number it is refused with."""
    message = UpdateStep(bytes(16), step, limit)
    decision = update_step(scene.cluster, message, scene.context(who))
    if isinstance(decision, Reject):
        return decision.code
    scene.apply(decision.events)
    return 0


def with_step(scene: Site, limit_min: int = 30) -> Job:
    """Return a job with a step 0, both of which have just begun."""
    job = scene.running()
    step = Step(
        0, "work", job.uid, 1, 1, job.nodes, scene.now_us,
        start_us=scene.now_us, time_limit_min=limit_min, nodes_pending=(job.batch_node_id,),
    )  # fmt: skip
    scene.apply([ev.StepCreated(scene.now_us, job.job_id, step)])
    return job


def test_a_step_gets_another_limit() -> None:
    """As a new value, or more or less than before."""
    scene = Site()
    job = with_step(scene)
    name = f"{job.job_id}.0"
    for text, minutes in (("20", 20), ("+5", 25), ("-10", 15), ("1:00:00", 60)):
        assert update(scene, name, text) == 0
        assert job.steps[0].time_limit_min == minutes
    assert update(scene, name, "-60") == Errno.ESLURM_INVALID_TIME_LIMIT
    assert update(scene, name, "soon") == Errno.ESLURM_INVALID_TIME_LIMIT


def test_a_job_id_means_all_its_steps() -> None:
    """That of its script, too, as in Slurm."""
    scene = Site()
    job = with_step(scene)
    assert update(scene, str(job.job_id), "7") == 0
    assert {step.time_limit_min for step in job.steps.values()} == {7}


def test_unknown_steps_and_steps_of_other_users() -> None:
    """Words and numbers are those for jobs."""
    scene = Site()
    job = with_step(scene)
    for name in (f"{job.job_id}.7", "999.0", "x", ""):
        assert update(scene, name, "7") == Errno.ESLURM_INVALID_JOB_ID
    assert update(scene, f"{job.job_id}.0", "7", BOB) == Errno.ESLURM_USER_ID_MISSING


def test_a_limit_that_has_passed_ends_the_step() -> None:
    """Otherwise no later event would end it."""
    scene = Site()
    job = with_step(scene)
    scene.now_us += 10 * MINUTE_US
    before = set(scene.cluster.duties[job.batch_node_id])
    assert update(scene, f"{job.job_id}.0", "5") == 0
    (duty,) = (
        duty
        for duty_id, duty in scene.cluster.duties[job.batch_node_id].items()
        if duty_id not in before
    )
    assert (duty.step_id, duty.signal) == (0, 9)
    assert step_time_limits(scene.cluster, [job.job_id], scene.now_us - 1, scene.now_us, 99) == []
