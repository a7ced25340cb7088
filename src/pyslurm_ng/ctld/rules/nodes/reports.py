"""What nodes report: one report -> the events that follow. All are safe to hear twice.

Several reports of one message are judged one after the other, each against the Cluster as the one
before left it.
"""

from __future__ import annotations

from msgspec.structs import replace

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.numbers import END_CLEAN, END_LOST, END_OUT_OF_MEMORY
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.values import has_option
from pyslurm_ng.ctld.rules.ends import job_end, lost_runs, node_loss
from pyslurm_ng.ctld.rules.ends.requeue import (
    flags_beside_a_broken_node,
    lost_run_flags,
    requeue_rules,
    script_flags,
)
from pyslurm_ng.ctld.rules.nodes import failed_launches
from pyslurm_ng.ctld.rules.programs import programs
from pyslurm_ng.ctld.rules.steps.managed import managed_steps
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.duty import DutyKind
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.model.job import Job, is_completing
from pyslurm_ng.model.states import JobFlag, JobState, NodeFlag, Reason
from pyslurm_ng.steps.ends import killer, reported_end_us, step_end_state, step_ended
from pyslurm_ng.wire import node_messages as nm

_MOST_COMMENT = 1024
_PREPARING = (DutyKind.PREPARE, DutyKind.LAUNCH)


def judge(
    cluster: Cluster, node_id: int, report: nm.Report, conf: SlurmConf, now_us: int
) -> list[ev.AnyEvent]:
    """Return what follows from one report of a node; nothing if it is out of date."""
    if isinstance(report, nm.NodeTrouble):
        return _drain(cluster, node_id, report.reason, now_us)
    job = cluster.jobs.get(report.job_id)
    known: list[ev.AnyEvent] = []
    if job is not None and job.lost_runs and _is_clean(report):
        name = cluster.node(node_id).spec.name
        known = lost_runs.over(job, name, f"{name} answered", now_us, attempt=report.attempt)
    return known + _judge(cluster, node_id, job, report, conf, now_us)


def _is_clean(report: nm.Report) -> bool:
    """Return whether a node says that nothing of an attempt is left there."""
    if isinstance(report, nm.BatchEnded):
        return bool(report.flags & END_CLEAN)
    return isinstance(report, nm.JobTerminated)


def _judge(
    cluster: Cluster,
    node_id: int,
    job: Job | None,
    report: nm.JobReport,
    conf: SlurmConf,
    now_us: int,
) -> list[ev.AnyEvent]:
    is_current = job is not None and job.attempt == report.attempt
    if job is None or not is_current or report.job_id not in cluster.job_index.active:
        return _settle(cluster, node_id, getattr(report, "duty_id", 0), now_us)
    if isinstance(report, nm.DutyDone):
        return _duty_done(cluster, node_id, job, report, now_us)
    if isinstance(report, nm.BatchEnded):
        return _batch_ended(cluster, node_id, job, report, conf, now_us)
    if isinstance(report, nm.StepEnded):
        return step_ended(node_id, job, report, now_us)
    if isinstance(report, nm.ManagedSteps):
        return managed_steps(cluster, node_id, job, report, now_us)
    if isinstance(report, nm.JobTerminated):
        return _terminated(cluster, node_id, job, report, conf, now_us)
    return _launch_failed(cluster, node_id, job, report, conf, now_us)


def moved(report: nm.Report, ahead_us: int) -> nm.Report:
    """Return a report with its times in our clock, which is so far ahead of the node's."""
    if not isinstance(report, (nm.BatchEnded, nm.StepEnded)):
        return report
    return replace(
        report,
        start_us=report.start_us + ahead_us if report.start_us else 0,
        end_us=report.end_us + ahead_us if report.end_us else 0,
    )


def _settle(cluster: Cluster, node_id: int, duty_id: int, now_us: int) -> list[ev.AnyEvent]:
    """Return DutiesDone if the node still owes that duty."""
    if duty_id and duty_id in cluster.duties.get(node_id, {}):
        return [ev.DutiesDone(now_us, ((node_id, duty_id),))]
    return []


def _drain(cluster: Cluster, node_id: int, reason: str, now_us: int) -> list[ev.AnyEvent]:
    """Drain a node for a reason that it reports, unless it is drained already."""
    node = cluster.node(node_id)
    if node.flags & NodeFlag.DRAIN:
        return []
    fields: dict[str, object] = {
        "flags": int(node.flags | NodeFlag.DRAIN),
        "reason": reason,
        "reason_us": now_us,
        "reason_uid": 0,
    }
    return [ev.NodeUpdated(now_us, (node_id,), fields)]


def _duty_done(
    cluster: Cluster, node_id: int, job: Job, report: nm.DutyDone, now_us: int
) -> list[ev.AnyEvent]:
    """Settle a duty; when the last node has prepared, the job has started or its script is due."""
    duty = cluster.duties.get(node_id, {}).get(report.duty_id)
    events = _settle(cluster, node_id, report.duty_id, now_us)
    if duty is not None and duty.kind == DutyKind.LAUNCH:
        events += failed_launches.launched(cluster, node_id, now_us)
    if not events or not job.flags & JobFlag.CONFIGURING or job.job_id in cluster.prologs:
        return events
    open_elsewhere = any(
        duty.job_id == job.job_id and duty.kind in _PREPARING and duty.duty_id != report.duty_id
        for alloc in job.nodes
        for duty in cluster.duties.get(alloc.node_id, {}).values()
    )
    if open_elsewhere:
        return events
    started = ev.JobStarted(now_us, job.job_id, job.attempt)
    return events + (programs.script_due(cluster, job, now_us) or [started])


def end_state(status: int, flags: int) -> JobState:
    """Return the state of a batch job from its script's wait status and END_* flags."""
    if flags & END_OUT_OF_MEMORY:
        return JobState.OUT_OF_MEMORY
    if flags & END_LOST:
        return JobState.NODE_FAIL
    return JobState.FAILED if status else JobState.COMPLETED


def _end_reason(state: JobState, status: int) -> Reason:
    if state == JobState.OUT_OF_MEMORY:
        return Reason.OutOfMemory
    if state == JobState.NODE_FAIL:
        return Reason.JobLaunchFailure
    if status & 0x7F:
        return Reason.RaisedSignal
    return Reason.NonZeroExitCode if status else Reason.NONE


def _batch_ended(
    cluster: Cluster, node_id: int, job: Job, report: nm.BatchEnded, conf: SlurmConf, now_us: int
) -> list[ev.AnyEvent]:
    # JobCompleting drops the job's duties, the launch too, so one event less settles it.
    events = _settle(cluster, node_id, report.duty_id, now_us) if is_completing(job) else []
    if (step := job.steps.get(STEP_BATCH)) is not None:
        state = step_end_state(report.status, report.flags)
        events.append(
            ev.StepEnded(
                time_us=now_us,
                job_id=job.job_id,
                step_id=STEP_BATCH,
                state=state,
                exit_code=report.status,
                usage=report.usage,
                end_us=reported_end_us(step, report.end_us, now_us),
                cancelled_by=killer(step, report.flags, state),
            )
        )
    if not report.flags & END_LOST:
        events += failed_launches.launched(cluster, node_id, now_us)
    if is_completing(job):
        return events + _way_out(job, report.status, now_us)
    events += _told_of(job, report.error, now_us)
    state = end_state(report.status, report.flags)
    clean = frozenset({node_id}) if report.flags & END_CLEAN else frozenset()
    events += job_end.complete(
        cluster,
        job,
        job_end.End(
            state,
            exit_code=report.status,
            reason=_end_reason(state, report.status),
            flags=_requeue_flags(job, report.status, state, conf),
            end_us=_end_us(job, report.end_us, now_us),
        ),
        now_us,
        clean_nodes=clean,
        ended_steps=frozenset({STEP_BATCH}),
        rules=requeue_rules(conf),
    )
    return events


def _way_out(job: Job, status: int, now_us: int) -> list[ev.AnyEvent]:
    """Return how the script of a cancelled job ended: it may catch SIGTERM and exit by itself."""
    if job.state != JobState.CANCELLED or status == job.exit_code:
        return []
    return [ev.JobUpdated(now_us, job.job_id, {"exit_code": status})]


def _told_of(job: Job, error: str, now_us: int) -> list[ev.AnyEvent]:
    """Return SystemComment with why a script could not run: its exit code alone tells nobody.

    Where its output cannot be opened there is no other place where its user could read that.
    """
    before = job.system_comment
    if not error or error in before:
        return []
    text = f"{before}; {error}" if before else error
    return [ev.JobUpdated(now_us, job.job_id, {"system_comment": text[-_MOST_COMMENT:]})]


def _end_us(job: Job, reported_us: int, now_us: int) -> int:
    """Return when a run ended by its node's clock, within what ours allows; 0 for now.

    Time in suspension is counted by our clock only, so no other is mixed in there.
    """
    if not reported_us or job.state != JobState.RUNNING:
        return 0
    return min(max(reported_us, job.start_us), now_us)


def _requeue_flags(job: Job, status: int, state: JobState, conf: SlurmConf) -> int:
    """Return the `JobFlag` bits that send a job back into the queue after its script."""
    if state == JobState.NODE_FAIL:  # its supervisor was lost
        return lost_run_flags(job) if node_loss.may_requeue(job) else JobFlag.NONE
    return script_flags(job, status, conf)


def _terminated(
    cluster: Cluster,
    node_id: int,
    job: Job,
    report: nm.JobTerminated,
    conf: SlurmConf,
    now_us: int,
) -> list[ev.AnyEvent]:
    """A node is clean of a job; the last one ends it."""
    events = _settle(cluster, node_id, report.duty_id, now_us)
    is_news = bool(events)
    flags = job.flags
    if report.epilog_status:
        events += _drain(cluster, node_id, "Epilog error", now_us)
        flags = flags_beside_a_broken_node(job) if is_completing(job) else flags
        if flags != job.flags:
            events.append(ev.JobUpdated(now_us, job.job_id, {"flags": int(flags)}))
    if not is_news or not is_completing(job) or job.nodes_pending != (node_id,):
        return events
    if job.job_id in cluster.epilogs:
        return events  # the controller's epilog ends it
    events += job_end.finish(cluster, job, JobState(job.state), job.exit_code, flags, now_us,
                             rules=requeue_rules(conf))  # fmt: skip
    return events


def _launch_failed(
    cluster: Cluster, node_id: int, job: Job, report: nm.LaunchFailed, conf: SlurmConf, now_us: int
) -> list[ev.AnyEvent]:
    """Requeue a batch job, held unless the site says otherwise; end any other.

    One that its node had no room for may start elsewhere: it is the node that is taken away.
    """
    events = _drain(cluster, node_id, report.drain, now_us) if report.drain else []
    if is_completing(job):
        return events + _settle(cluster, node_id, report.duty_id, now_us)
    if not report.drain:
        events += failed_launches.failed(cluster, node_id, job, report.code, now_us)
    flags = 0
    if job.script_hash:
        flags = JobFlag.REQUEUED | JobFlag.LAUNCH_FAILED
        is_held = not has_option(conf.scheduler_parameters, "nohold_on_prolog_fail")
        if is_held and report.code != Errno.ESLURMD_CREATE_BATCH_DIR_ERROR:
            flags |= JobFlag.REQUEUE_HOLD
    return events + job_end.complete(
        cluster,
        job,
        job_end.End(
            JobState.FAILED,
            exit_code=1 << 8,
            reason=Reason.JobLaunchFailure,
            reason_text=report.text,
            flags=flags,
        ),
        now_us,
        rules=requeue_rules(conf),
    )
