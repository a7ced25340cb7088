"""What follows when what kept a job from beginning, or from being over, has ended.

PrologSlurmctld runs for a job that has its nodes, before they are told of it; EpilogSlurmctld for
one whose run is over, beside the cleaning up of its nodes. Nodes are not held up by the epilog,
but the job is COMPLETING until it has ended.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyslurm_ng.base.numbers import SIGNAL_REQUEUED
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.ends.requeue import RequeueRules, requeue_rules
from pyslurm_ng.ctld.rules.starts.dispatch import SLEEPS, batch_step, first_steps
from pyslurm_ng.ctld.rules.starts.preparation import Preparation
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.buffer import BufferState
from pyslurm_ng.model.cluster import Cluster, het_components
from pyslurm_ng.model.duty import DutyKind
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.model.job import Job, is_completing
from pyslurm_ng.model.states import TERMINAL_STATES, JobFlag, JobState


def waits_with(cluster: Cluster, job: Job) -> list[Job]:
    """Return the jobs that start together once all their prologs have succeeded."""
    parts = het_components(cluster, job)
    return [part for part in parts if part.job_id in cluster.prologs] or [job]


def prologs_succeeded(
    cluster: Cluster, jobs: Sequence[Job], now_us: int, prepare: Preparation
) -> list[ev.AnyEvent]:
    """Return the events that let the nodes of a job, or of all its components, begin."""
    if any(is_booting(cluster, job) for job in jobs):
        return [
            ev.PrologEnded(now_us, job.job_id, job.attempt, 0, duty=0, configuring=True)
            for job in jobs
        ]
    return _begun(cluster, jobs, now_us, prepare)


def is_booting(cluster: Cluster, job: Job, up: int = -1) -> bool:
    """Return whether a job waits for nodes, other than `up`, that are not up yet."""
    if not job.flags & JobFlag.POWER_UP_NODE:
        return False
    return any(
        alloc.node_id != up and cluster.node(alloc.node_id).flags & SLEEPS for alloc in job.nodes
    )


def node_is_up(
    cluster: Cluster, node_id: int, now_us: int, prepare: Preparation
) -> list[ev.AnyEvent]:
    """Return the beginning of the jobs that waited for this node last of all."""
    begun: list[Job] = []
    for job_id in cluster.node_index.use[node_id].allocs:
        job = cluster.jobs[job_id]
        if not job.flags & JobFlag.POWER_UP_NODE:
            continue
        parts = [part for part in het_components(cluster, job) or [job] if not _is_over(part)]
        waits = any(
            part.job_id in cluster.prologs or is_booting(cluster, part, node_id) for part in parts
        )
        if not waits:
            begun += [part for part in parts if part not in begun]
    return _begun(cluster, begun, now_us, prepare) if begun else []


def _is_over(job: Job) -> bool:
    return job.state in TERMINAL_STATES or is_completing(job)


def _begun(
    cluster: Cluster, jobs: Sequence[Job], now_us: int, prepare: Preparation
) -> list[ev.AnyEvent]:
    events: list[ev.AnyEvent] = []
    duty_id = cluster.next_duty_id
    for job in jobs:
        is_batch = runs_script(job)
        own = prepare.for_job(job.request.flags)
        duty = own.first_duty(is_batch=is_batch)
        events.append(
            ev.PrologEnded(
                time_us=now_us,
                job_id=job.job_id,
                attempt=job.attempt,
                first_duty_id=duty_id,
                duty=duty,
                prepare_all=own.every_node,
                configuring=own.is_configuring(is_batch=is_batch),
                booted=bool(job.flags & JobFlag.POWER_UP_NODE),
            )
        )
        duty_id += len(job.nodes)
        steps = first_steps(job, job, own, duty, now_us)
        events += [ev.StepCreated(now_us, job.job_id, step) for step in steps]
    return events


def runs_script(job: Job) -> bool:
    """Return whether a script begins with a job: of a heterogeneous one beside the leader only."""
    return bool(job.script_hash) and job.het_job_id in (0, job.job_id)


def script_due(cluster: Cluster, job: Job, now_us: int) -> list[ev.AnyEvent]:
    """Return the launch of a script that has waited for the prologs of all nodes; or nothing."""
    if not runs_script(job) or STEP_BATCH in job.steps:
        return []
    return [
        ev.PrologEnded(
            time_us=now_us,
            job_id=job.job_id,
            attempt=job.attempt,
            first_duty_id=cluster.next_duty_id,
            duty=DutyKind.LAUNCH,
            configuring=True,
        ),
        ev.StepCreated(now_us, job.job_id, batch_step(job, job.nodes, job.batch_node_id, now_us)),
    ]


def why_not_requeued(job: Job, conf: SlurmConf) -> str:
    """Return why a job with a failed prolog cannot be requeued, "" if it can."""
    if not job.script_hash:
        return "Only batch jobs are accepted or processed"
    forced = any(word.lower() == "forcerequeueonfail" for word in conf.prolog_flags)
    return "" if job.requeue or forced else "Requested operation is presently disabled"


def prolog_failed(cluster: Cluster, job: Job, conf: SlurmConf, now_us: int) -> list[ev.AnyEvent]:
    """Return the requeue of a job with a failed prolog, or its end as cancelled by root."""
    if why_not_requeued(job, conf):
        return job_end.complete(
            cluster,
            job,
            job_end.End(JobState.CANCELLED, cancelled_by=0),
            now_us,
            rules=requeue_rules(conf),
        )
    return job_end.complete(
        cluster,
        job,
        job_end.End(
            JobState.CANCELLED,
            flags=JobFlag.REQUEUED | JobFlag.LAUNCH_FAILED | _hold(cluster, job),
            duty_flags=SIGNAL_REQUEUED,
        ),
        now_us,
        rules=requeue_rules(conf),
    )


def _hold(cluster: Cluster, job: Job) -> int:
    """Hold a job whose burst buffer could not be made ready: somebody has to look at it."""
    buffer = cluster.buffers.get(job.job_id)
    is_unready = buffer is not None and buffer.state == BufferState.PRE_RUN
    return JobFlag.REQUEUE_HOLD if is_unready else JobFlag.NONE


def epilog_ended(cluster: Cluster, job: Job, now_us: int, rules: RequeueRules) -> list[ev.AnyEvent]:
    """Return the rest of a job's end when its epilog is over, successful or not."""
    events: list[ev.AnyEvent] = [ev.EpilogEnded(now_us, job.job_id, job.attempt)]
    if not job.nodes_pending:
        state = JobState(job.state)
        events += job_end.finish(cluster, job, state, job.exit_code, job.flags, now_us, rules=rules)
    return events
