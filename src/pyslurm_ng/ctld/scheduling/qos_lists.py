"""Jobs that asked for several QOS: after each pass they get the one that lets them start."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.ctld.rules.submission import qos_choice
from pyslurm_ng.ctld.scheduling.scheduler import Scheduler
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.touched import touched_jobs
from pyslurm_ng.sched.frame.measures import Limits
from pyslurm_ng.sched.frame.snapshot import Snapshot

_MAY_HAVE_LIST = frozenset((ev.JobSubmitted, ev.JobUpdated, ev.JobRequeued, ev.ArrayTaskSplit))
_NOBODY = Caller(0, 0, "")  # the rule looks at the jobs' own users


class QosLists:
    """Knows the jobs with such a list, so that a pass without any costs nothing."""

    def __init__(
        self,
        writer: Writer,
        scheduler: Scheduler,
        conf_now: Callable[[], SlurmConf],
        faults: Faults,
    ) -> None:
        """Follow the writer's events and the scheduler's passes."""
        self._writer = writer
        self._conf_now = conf_now
        self._faults = faults
        writer.observe(self.applied)
        scheduler.after_pass = self.after_pass
        jobs = writer.cluster.jobs
        self._ids = {
            job_id
            for job_id in writer.cluster.job_index.pending
            if qos_choice.has_list(jobs[job_id])
        }

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """Heed events that make a job wait, or change what one asks for."""
        for event in events:
            if type(event) not in _MAY_HAVE_LIST:
                continue
            for job_id in touched_jobs(event):
                job = self._writer.cluster.jobs.get(job_id)
                if job is not None and qos_choice.has_list(job):
                    self._ids.add(job_id)

    def after_pass(
        self, view: Snapshot, limits_now: Callable[[], Limits | None], now_us: int
    ) -> None:
        """Give jobs that a pass has left waiting another QOS of their list."""
        self._ids &= self._writer.cluster.job_index.pending.keys()
        if not self._ids:
            return
        try:
            limits = limits_now()
            if limits is not None:
                records = [job for job in view.waiting if job.job_id in self._ids]
                context = Context(self._conf_now(), now_us, _NOBODY)
                cluster = self._writer.cluster
                self._writer.record(qos_choice.changes(cluster, records, limits, context))
        except Exception as error:  # noqa: BLE001 - they keep the QOS that they have
            self._faults.note("qos", "jobs with several QOS could not be given another", error)
