"""JobCompType=jobcomp/filetxt: a line in a file for each run of a job that is over.

A view of the events, as Slurm 22.05 writes it. A line is written when the end is durable; one that
was due when the controller crashed is lost, none is written twice. slurmdbd loses none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from msgspec import structs

from pyslurm_ng.base.dates import format_date
from pyslurm_ng.base.hostlist import fold
from pyslurm_ng.base.numbers import INFINITE, NO_VAL, SECOND_US
from pyslurm_ng.base.tres import format_tres
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.daemon.log import escape
from pyslurm_ng.model import amounts, events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobState

_TYPE = "jobcomp/filetxt"
_USUAL_PATH = "/var/log/slurm_jobcomp.log"


class Log(Protocol):
    """Where failures are told."""

    def error(self, text: str) -> None:
        """Something is wrong."""


class _Run(NamedTuple):
    """What the record of a requeued job loses of its run; it keeps the nodes, as `nodes_before`."""

    start_us: int
    partition: str
    reservation: str


class CompletionLog:
    """Follows ends of jobs.

    Attributes:
        conf: in force now; says whether and where lines are written.
    """

    def __init__(
        self,
        cluster: Cluster,
        conf: SlurmConf,
        log: Log,
        when_durable: Callable[[Callable[[], None]], None],
    ) -> None:
        self.conf = conf
        self._cluster = cluster
        self._log = log
        self._when_durable = when_durable
        self._fd = -1
        self._open_path = ""
        self._last_error = ""
        self._runs: dict[int, _Run] = {}
        for job_id in cluster.job_index.active:
            self._begin(cluster.jobs[job_id])

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """Write the lines of events just applied."""
        for event in events:
            if isinstance(event, ev.JobAllocated):
                self._begin(self._cluster.jobs[event.job_id])
            elif isinstance(event, ev.JobCompleting):
                self._write_line(self._ended(event))
            elif isinstance(event, ev.JobEnded):
                job = self._cluster.jobs[event.job_id]
                # One that ran was told of when its nodes began to clean up.
                if not job.nodes:
                    self._write_line(job)

    def _begin(self, job: Job) -> None:
        self._runs[job.job_id] = _Run(job.start_us, job.partition, job.reservation)

    def _ended(self, event: ev.JobCompleting) -> Job:
        """Return the job as its run left it; it may be back in the queue already."""
        job = self._cluster.jobs[event.job_id]
        run = self._runs.pop(job.job_id, None)
        if run is None or job.nodes:
            return job
        return structs.replace(
            job,
            state=JobState(event.state),
            exit_code=event.exit_code,
            nodes=job.nodes_before,
            start_us=run.start_us,
            end_us=event.end_us or event.time_us,
            partition=run.partition,
            reservation=run.reservation,
        )

    def _write_line(self, job: Job) -> None:
        if self.conf.job_comp_type == _TYPE:
            line = completion_line(self._cluster, job, self.conf)
            self._when_durable(partial(self._write, line))

    def reopen(self) -> None:
        """Open the file's name again with the next line: it may have been moved away."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _write(self, line: str) -> None:
        path = self.conf.job_comp_loc or _USUAL_PATH
        try:
            if self._fd < 0 or path != self._open_path:
                self.reopen()
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._fd = os.open(path, flags, 0o644)
                self._open_path = path
            os.write(self._fd, line.encode("utf-8", "surrogateescape"))
            self._last_error = ""
        except OSError as error:
            text = f"JobCompLoc {path}: {error.strerror}"
            if text != self._last_error:
                self._log.error(text)
            self._last_error = text


def completion_line(cluster: Cluster, job: Job, conf: SlurmConf) -> str:
    """Return the line about a run that is over, or about a job that never ran."""
    request = job.request
    nodes = [
        node.spec.name for alloc in job.nodes if (node := cluster.nodes[alloc.node_id]) is not None
    ]
    limited = job.time_limit_min not in (INFINITE, NO_VAL)
    values = {
        "JobId": job.job_id,
        "UserId": f"{job.user_name}({job.uid})",
        "GroupId": f"{job.group_name}({job.gid})",
        "Name": request.name,
        "JobState": JobState(job.state).name,
        "Partition": job.partition,
        "TimeLimit": job.time_limit_min if limited else "UNLIMITED",
        "StartTime": _date(job.start_us or job.end_us),
        "EndTime": _date(job.end_us),
        "NodeList": fold(nodes) or "(null)",
        "NodeCnt": len(nodes),
        "ProcCnt": sum(alloc.charged_cpus for alloc in job.nodes),
        "WorkDir": request.work_dir,
        "ReservationName": job.reservation,
        "Tres": _tres(cluster, job, conf),
        "Account": job.account,
        "QOS": job.qos,
        "WcKey": request.wckey,
        "Cluster": cluster.cluster_name,
        "SubmitTime": _date(job.submit_us),
        "EligibleTime": _date(job.eligible_us),
        **_number(job),
        "DerivedExitCode": _exit_code(job.derived_exit_code),
        "ExitCode": _exit_code(job.exit_code),
    }
    return escape(" ".join(f"{name}={value}" for name, value in values.items())) + " \n"


def _number(job: Job) -> dict[str, int]:
    if job.array_job_id and job.array_task_id != NO_VAL:
        return {"ArrayJobId": job.array_job_id, "ArrayTaskId": job.array_task_id}
    if job.het_job_id:
        return {"HetJobId": job.het_job_id, "HetJobOffset": job.het_offset}
    return {}


def _tres(cluster: Cluster, job: Job, conf: SlurmConf) -> str:
    partition = cluster.partitions.get(job.partition.partition(",")[0])
    tracked = conf.tracked_tres()
    if job.nodes:
        terms = partition.billing_terms if partition is not None else ""
        return format_tres(amounts.allocated_tres(job.nodes, tracked, terms))
    return format_tres(amounts.requested_tres(job.request, partition, tracked))


def _date(time_us: int) -> str:
    return format_date(time_us // SECOND_US) if time_us else "unknown"


def _exit_code(status: int) -> str:
    return f"{status >> 8 & 0xFF}:{status & 0x7F}"
