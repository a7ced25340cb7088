"""Steps asked for of a job that runs."""

from __future__ import annotations

from typing import Any

from pyslurm_ng.base.errors import Reject
from pyslurm_ng.base.numbers import STEP_EXACT, STEP_MEM_ZERO
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.ctld.rules.steps import steps
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.wire.step_messages import CreateStep, StepGranted
from tests.model.clusters import START_US, conf_of, submit

USER = 1001

EXACT = STEP_EXACT | STEP_MEM_ZERO


def context(uid: int = USER, now_us: int = START_US, conf: SlurmConf | None = None) -> Context:
    """The owner of the jobs asks."""
    return Context(conf or conf_of(), now_us, Caller(uid, uid, f"user{uid}"))


def running(cluster: Cluster, **request: Any) -> Job:
    """Start a job and return it."""
    job_id = submit(cluster, JobRequest(**request))
    for start in Planner()(snapshot(cluster, START_US), policy(conf_of())).starts:
        apply_all(cluster, dispatch(cluster, start, START_US))
    job = cluster.jobs[job_id]
    assert job.state == JobState.RUNNING
    return job


def ask(
    cluster: Cluster, job: Job, conf: SlurmConf | None = None, **fields: Any
) -> StepGranted | Reject:
    """Ask for a step; apply what comes of it."""
    message = CreateStep(request_id=bytes(16), job_id=job.job_id, **fields)
    outcome = steps.create_step(cluster, message, context(conf=conf))
    if isinstance(outcome, Reject):
        return outcome
    apply_all(cluster, outcome.events)
    assert check(cluster) == []
    assert isinstance(outcome.reply, StepGranted)
    return outcome.reply
