"""JobCompType: each run of a job that is over is told to a file, a program or Elasticsearch.

A view of the events. It is told when the end is durable; what was due when the controller crashed
is lost, nothing is told twice. slurmdbd loses none. What cannot be told is counted for `sdiag`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple, Protocol

from msgspec import structs

from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.followers.completion_records import (
    completion_document,
    completion_environment,
    completion_line,
)
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobState

FILE, SCRIPT, SEARCH = "jobcomp/filetxt", "jobcomp/script", "jobcomp/elasticsearch"
KIND = "jobcomp"
"""What a run that could not be told is counted as."""
_USUAL_PATH = "/var/log/slurm_jobcomp.log"


class Programs(Protocol):
    """What runs JobCompLoc's program."""

    def run(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        uid: int = 0,
        *,
        kind: str = "",
        about: str = "",
    ) -> None:
        """Run it some time soon; `uid`: for whom."""


class Poster(Protocol):
    """What sends documents."""

    def post(self, url: str, body: bytes, about: str) -> None:
        """Send one some time soon."""

    def stop(self) -> None:
        """Send nothing more."""


class _Run(NamedTuple):
    """What the record of a requeued job loses of its run; it keeps the nodes, as `nodes_before`."""

    start_us: int
    partition: str
    reservation: str


class CompletionLog:
    """Follows ends of jobs.

    Attributes:
        conf: in force now; says whom to tell.
    """

    def __init__(
        self,
        cluster: Cluster,
        conf: SlurmConf,
        lost: Callable[[str], None],
        when_durable: Callable[[Callable[[], None]], None],
        programs: Programs,
        poster: Poster,
    ) -> None:
        """`lost` is told of each run that could not be written into the file."""
        self.conf = conf
        self._programs = programs
        self._poster = poster
        self._cluster = cluster
        self._lost = lost
        self._when_durable = when_durable
        self._fd = -1
        self._open_path = ""
        self._runs: dict[int, _Run] = {}
        for job_id in cluster.job_index.active:
            self._begin(cluster.jobs[job_id])

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """Write the lines of events just applied."""
        for event in events:
            if isinstance(event, ev.JobAllocated):
                self._begin(self._cluster.jobs[event.job_id])
            elif isinstance(event, ev.JobCompleting):
                self._tell(self._ended(event))
            elif isinstance(event, ev.JobEnded):
                job = self._cluster.jobs[event.job_id]
                # One that ran was told of when its nodes began to clean up.
                if not job.nodes:
                    self._tell(job)

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

    def _tell(self, job: Job) -> None:
        """Tell of a run that is over, as it is now, once that is durable."""
        kind, location = self.conf.job_comp_type, self.conf.job_comp_loc
        about = f"JobId={job.job_id}"
        if kind == FILE:
            line = completion_line(self._cluster, job, self.conf)
            self._when_durable(partial(self._write, line, about))
        elif kind == SCRIPT:
            variables = completion_environment(self._cluster, job)
            run = partial(self._programs.run, kind=KIND, about=about)
            self._when_durable(partial(run, (location,), variables, job.uid))
        elif kind == SEARCH:
            document = completion_document(self._cluster, job, self.conf)
            self._when_durable(partial(self._poster.post, location, document, about))

    def reopen(self) -> None:
        """Open the file's name again with the next line: it may have been moved away."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def stop(self) -> None:
        """Send nothing more."""
        self._poster.stop()

    def _write(self, line: str, about: str) -> None:
        path = self.conf.job_comp_loc or _USUAL_PATH
        try:
            if self._fd < 0 or path != self._open_path:
                self.reopen()
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._fd = os.open(path, flags, 0o644)
                self._open_path = path
            content = line.encode("utf-8", "surrogateescape")
            if os.write(self._fd, content) < len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._lost(f"{about}: JobCompLoc {path}: {error.strerror}")
