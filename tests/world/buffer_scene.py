"""A cluster with a pool of burst buffers, for the rules alone."""

from __future__ import annotations

from collections.abc import Sequence

from pyslurm_ng.ctld.rules.buffers import steps
from pyslurm_ng.ctld.rules.buffers.pools import Pool
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.buffer import Buffer, BufferState as S
from pyslurm_ng.model.check import check
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Dependency, Job, JobRequest
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.plan import Start
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import START_US, cluster_of, conf_of, submit

POOLS = {"fast": Pool("fast", 10, 2)}
CONF = conf_of()


class Scene:
    """A cluster with a pool."""

    def __init__(self) -> None:
        self.cluster = cluster_of(CONF)

    def job(self, size: int = 3, pool: str = "fast") -> int:
        job_id = submit(self.cluster, JobRequest(burst_buffer="#BB_LUA"))
        self.record([ev.BufferChanged(START_US, job_id, Buffer(job_id, pool=pool, size=size))])
        return job_id

    def waits(self, kind: str, target: int) -> int:
        """Return a job that waits for another."""
        job_id = submit(self.cluster, JobRequest())
        terms = (Dependency(kind, target),)
        self.record([ev.DependencyChanged(START_US, job_id, terms, False)])
        return job_id

    def record(self, events: Sequence[ev.AnyEvent]) -> None:
        apply_all(self.cluster, events)
        assert check(self.cluster) == []
        copy = Cluster.from_bytes(self.cluster.to_bytes())
        assert copy.digest() == self.cluster.digest()

    def due(self) -> None:
        """Record what follows until nothing does."""
        while events := steps.all_due(self.cluster, [*self.cluster.buffers], POOLS, START_US):
            self.record(events)

    def state(self, job_id: int) -> int:
        return self.cluster.buffers[job_id].state

    def moves(self, job_id: int, state: int) -> None:
        self.record([steps.changed(self.cluster.buffers[job_id], START_US, state=state)])

    def starts(self) -> list[Start]:
        return [*Planner()(snapshot(self.cluster, START_US), policy(CONF)).starts]

    def run(self, job_id: int) -> Job:
        """Stage a job in and let it run."""
        self.due()
        self.record(steps.staged_in(self.cluster.buffers[job_id], 0, START_US))
        (start,) = self.starts()
        self.record(dispatch(self.cluster, start, START_US))
        self.due()
        self.moves(job_id, S.RUNNING)
        return self.cluster.jobs[job_id]

    def end(self, job: Job) -> None:
        self.record(job_end.complete(self.cluster, job, job_end.End(JobState.COMPLETED), START_US))
