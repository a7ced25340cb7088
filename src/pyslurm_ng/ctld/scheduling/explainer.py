"""Answers ExplainJob: the loop takes a snapshot, a separate thread plans and reads the journal.

Not the scheduler's thread, so that questions never delay a pass; and few at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld import job_filter
from pyslurm_ng.ctld.queries.explained import explained
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.ctld.rules.private_data import Audience
from pyslurm_ng.ctld.rules.submission import submit
from pyslurm_ng.ctld.scheduling.job_history import JobHistory, read_history
from pyslurm_ng.ctld.scheduling.questions import MOST_AT_ONCE, Questions, time_limit
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.kept_request import changed_request
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.explain.explain import Outlook, outlook
from pyslurm_ng.sched.explain.fair_shares import Lead, leads
from pyslurm_ng.sched.fair_share.forecast import ShareForecast
from pyslurm_ng.sched.frame.job_views import may_be_considered
from pyslurm_ng.wire.query_messages import ExplainJob
from pyslurm_ng.wire.stream import Call

Answers = tuple["Outlook | None", list[Lead], JobHistory]
Work = Callable[[], Answers]
Forecast = Callable[[int], "ShareForecast | None"]

_MOST_OF_A_USER = 4  # each may take a second of the one thread
_MOST_PARTITIONS = 16  # other ones to try
_MOST_QOS = 8


class Explainer:
    """Answers questions about jobs.

    Args:
        journal: the folder of what has happened to jobs.
        forecast: returns what the factors of fair-share come from at a time.
    """

    def __init__(self, questions: Questions, journal: Path, forecast: Forecast) -> None:
        self._parts = questions
        self._forecast = forecast
        self._writer = questions.writer
        self._journal = journal
        self._open: Counter[int] = Counter()  # by user

    def handle(self, call: Call, caller: Caller) -> None:
        """Find the job and begin to look; the answer follows."""
        request = call.request
        assert isinstance(request, ExplainJob)
        context = self._parts.context(caller)
        job = self._find(request.job, context.conf, caller)
        if job is None:
            self._writer.refuse(call, Reject(Errno.ESLURM_INVALID_JOB_ID))
            return
        refusal = self._refusal(caller)
        if refusal is not None:
            self._writer.refuse(call, refusal)
            return
        self._open[caller.uid] += 1
        job_id = job.job_id

        def answer(answers: Answers) -> None:
            cluster, now = self._writer.cluster, self._parts.context(caller).now_us
            current = cluster.jobs.get(job_id)
            if current is None:
                self._writer.refuse(call, Reject(Errno.ESLURM_INVALID_JOB_ID))
                return
            view, first_by_share, history = answers
            if current.state != JobState.PENDING:
                view = None  # it has started meanwhile
            audience = Audience(cluster, context.conf, caller, show_all=True)
            explanation = explained(
                cluster,
                self._parts.soft,
                current,
                view,
                history.lines,
                history.begin_us,
                now,
                request.job,
                audience.sees_job,
                () if view is None or audience.usage_private else first_by_share,
            )
            self._writer.when_seen(lambda: call.reply(explanation))

        def failed(error: BaseException) -> None:
            self._open[caller.uid] -= 1
            self._parts.faults.note("explain", f"job {job_id} could not be explained", error)
            call.error(Errno.ESLURM_INTERNAL, "Slurm internal error, contact system administrator")

        def done(answers: Answers) -> None:
            try:
                answer(answers)
            except Exception as error:  # noqa: BLE001 - the command gets an answer all the same
                failed(error)
            else:
                self._open[caller.uid] -= 1

        self._parts.run(self._work(job, context), done, failed)

    def _refusal(self, caller: Caller) -> Reject | None:
        """Return why no further questions are taken now, from all users or from this one."""
        self._open = +self._open
        if not caller.is_operator and self._open[caller.uid] >= _MOST_OF_A_USER:
            text = f"{_MOST_OF_A_USER} of your explanations are being worked out; ask again"
        elif self._open.total() >= MOST_AT_ONCE:
            text = f"{MOST_AT_ONCE} explanations are being worked out; ask again"
        else:
            return None
        return Reject(Errno.EAGAIN, text)

    def _find(self, text: str, conf: SlurmConf, caller: Caller) -> Job | None:
        cluster = self._writer.cluster
        parts = job_filter.find_jobs(cluster, text)
        audience = Audience(cluster, conf, caller, show_all=True)
        seen = [job for job, _ in parts if audience.sees_job(job)]
        waiting = [job for job in seen if job.state == JobState.PENDING]
        return next(iter(waiting or seen), None)

    def _work(self, job: Job, context: Context) -> Work:
        """Return what the thread is to do, with all that it needs of the cluster."""
        cluster = self._writer.cluster
        job_id, journal, policy = job.job_id, self._journal, self._parts.scheduler.policy
        names = {node.node_id: node.spec.name for node in cluster.living_nodes()}
        is_waiting = job.state == JobState.PENDING
        if not is_waiting or not may_be_considered(job):
            return lambda: (None, [], read_history(journal, job_id, names))
        view = self._parts.scheduler.look()
        partitions = other_partitions(cluster, job, context)
        qos = other_qos(cluster, job, context)
        past_promises = self._parts.scheduler.past_promises
        planner, is_over = self._parts.planner, time_limit()
        forecast = self._forecast(view.now_us)

        def work() -> Answers:
            looked = outlook(
                view,
                policy,
                job_id,
                partitions,
                view.fairshare,
                is_over,
                planner,
                qos,
                past_promises,
            )
            first_by_share = []
            if looked is not None and forecast is not None:
                first_by_share = leads(view, policy, job_id, looked.first, forecast, is_over)
            return looked, first_by_share, read_history(journal, job_id, names)

        return work


def other_partitions(cluster: Cluster, job: Job, context: Context) -> list[str]:
    """Return the partitions in which the submit rule would take the same request from its user.

    Only the user's own question is judged by their groups; an operator is shown those open to all.
    """
    own = job.partition.split(",")
    names: list[str] = []
    caller = context.caller
    audience = Audience(cluster, context.conf, caller, show_all=False)
    for name, partition in cluster.partitions.items():
        if name in own or partition.state != "UP" or len(names) >= _MOST_PARTITIONS:
            continue
        if not audience.sees_partition(partition):
            continue
        if caller.uid != job.uid:
            if not (partition.allow_groups or partition.allow_accounts or partition.root_only):
                names.append(name)
            continue
        request = changed_request(job.request, partition=name, dependency="", array="")
        if _is_taken(cluster, request, context):
            names.append(name)
    return names


def other_qos(cluster: Cluster, job: Job, context: Context) -> list[str]:
    """Return each QOS with which the submit rule would take the same request from its user. An
    operator is shown those that the job's association lists.
    """
    assoc = cluster.assocs.get(job.assoc_id)
    listed = assoc.qos if assoc is not None else ()
    names: list[str] = []
    for name in listed or sorted(cluster.qos):
        if name == job.qos or name not in cluster.qos or len(names) >= _MOST_QOS:
            continue
        request = changed_request(job.request, qos=name, dependency="", array="")
        is_own = context.caller.uid == job.uid
        if name in listed if not is_own else _is_taken(cluster, request, context):
            names.append(name)
    return names


def _is_taken(cluster: Cluster, request: JobRequest, context: Context) -> bool:
    return not isinstance(submit.check(cluster, request, context), Reject)
