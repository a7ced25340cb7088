"""`scontrol update job`: what blank values mean."""

from __future__ import annotations

from pyslurm_ng.base.errors import Reject
from pyslurm_ng.ctld.rules.update.update_job import update_job
from pyslurm_ng.model.job import Job
from pyslurm_ng.wire.query_messages import UpdateJob
from tests.ctld.rules.reservation_room import ALICE
from tests.ctld.rules.test_reasons import Scene


def update(scene: Scene, job: Job, **settings: str) -> None:
    message = UpdateJob(bytes(16), settings, [str(job.job_id)])
    decision = update_job(scene.cluster, message, scene.context(ALICE))
    assert not isinstance(decision, Reject)
    scene.apply(decision.events)


def test_account_and_qos_go_back_to_the_users_own() -> None:
    """The manual: a value may be cleared with a blank one."""
    scene = Scene("AccountingStorageEnforce=associations,qos")
    scene.account()
    job = scene.job(begin_us=scene.now_us + 10**9)
    update(scene, job, qos="late")
    assert (job.account, job.qos) == ("physics", "late")
    update(scene, job, qos="", account="")
    assert (job.account, job.assoc_id, job.qos) == ("physics", 3, "normal")
