"""Pretend node daemons: they do their duties after a while and let jobs run as long as told.

They see the cluster only through the events that became durable, and answer only with the events
that the rules make of a node's reports, so a controller cannot tell them from real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.ends.requeue import DEFAULT_RULES, RequeueRules
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.job import Job, is_completing
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sim.world import World

_node_id = attrgetter("node_id")


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How pretend nodes behave; times in microseconds, rates per job."""

    launch_us: int = 0
    clean_us: int = 0
    fail_rate: float = 0.0


class PretendNodes:
    """All nodes of a simulated cluster.

    `run_time_us(job_id)` says how long a job's script takes; it is asked once per attempt. `rules`
    are the configuration's for jobs that go back into the queue.
    """

    def __init__(
        self,
        world: World,
        writer: Writer,
        run_time_us: Callable[[int], int],
        behaviour: Behaviour | None = None,
        rules: RequeueRules = DEFAULT_RULES,
    ) -> None:
        self._world = world
        self._writer = writer
        self._run_time_us = run_time_us
        self._behaviour = behaviour or Behaviour()
        self._rules = rules
        self._needed_us: dict[tuple[int, int], int] = {}  # of running attempts, suspensions apart
        writer.observe(self.applied)

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """Take notice of orders once they are durable."""
        for event in events:
            if isinstance(event, ev.JobAllocated):
                job = self._writer.cluster.jobs[event.job_id]
                self._writer.when_durable(self._launch(event.job_id, job.attempt))
            elif isinstance(event, ev.JobResumed):
                job = self._writer.cluster.jobs[event.job_id]
                self._writer.when_durable(self._go_on(event.job_id, job.attempt))
            elif isinstance(event, ev.JobCompleting) and event.node_ids:
                job = self._writer.cluster.jobs[event.job_id]
                self._writer.when_durable(
                    self._clean(event.job_id, job.attempt, event.node_ids, event.first_duty_id)
                )

    def adopt(self, job_id: int, left_us: int) -> None:
        """Let a job that runs already end after a while."""
        job = self._writer.cluster.jobs[job_id]
        ran_us = self._world.now_us - job.start_us - job.suspended_us
        self._needed_us[job_id, job.attempt] = ran_us + left_us
        attempt = job.attempt
        self._world.after(left_us, lambda: self._ended(job_id, attempt))

    def _launch(self, job_id: int, attempt: int) -> Callable[[], None]:
        def launch() -> None:
            delay_us = self._behaviour.launch_us + self._run_time_us(job_id)
            self._needed_us[job_id, attempt] = delay_us
            self._world.after(delay_us, lambda: self._ended(job_id, attempt))

        return launch

    def _go_on(self, job_id: int, attempt: int) -> Callable[[], None]:
        """Return what ends a job that was suspended once it has run as long as it must."""
        return lambda: self._ended(job_id, attempt)

    def _left_us(self, job: Job) -> int:
        """Return how long a running job has to run; not at all if it never was suspended."""
        if not job.suspended_us:
            return 0
        ran_us = self._world.now_us - job.start_us - job.suspended_us
        return self._needed_us.get((job.job_id, job.attempt), 0) - ran_us

    def _ended(self, job_id: int, attempt: int) -> None:
        """A script has ended, if it has run long enough: its nodes cleaned up and say so at once.

        One that is suspended ends some time after it is resumed.
        """
        cluster = self._writer.cluster
        job = cluster.jobs.get(job_id)
        if job is None or job.attempt != attempt or job_id not in cluster.job_index.active:
            self._needed_us.pop((job_id, attempt), None)
            return
        if is_completing(job) or job.state != JobState.RUNNING:
            return
        left_us = self._left_us(job)
        if left_us > 0:
            self._world.after(left_us, lambda: self._ended(job_id, attempt))
            return
        self._needed_us.pop((job_id, attempt), None)
        failed = self._behaviour.fail_rate > self._world.random.random()
        self._writer.record(
            job_end.complete(
                cluster,
                job,
                job_end.End(
                    JobState.FAILED if failed else JobState.COMPLETED,
                    exit_code=256 if failed else 0,
                ),
                self._world.now_us,
                clean_nodes=frozenset(map(_node_id, job.nodes)),
            )
        )

    def _clean(
        self, job_id: int, attempt: int, node_ids: tuple[int, ...], first_duty_id: int
    ) -> Callable[[], None]:
        def clean() -> None:
            self._world.after(self._behaviour.clean_us, done)

        def done() -> None:
            cluster = self._writer.cluster
            job = cluster.jobs.get(job_id)
            if job is None or job.attempt != attempt or not is_completing(job):
                return
            now_us = self._world.now_us
            pairs = tuple(
                (node_id, duty_id)
                for duty_id, node_id in enumerate(node_ids, first_duty_id)
                if node_id in job.nodes_pending
            )
            self._writer.record([ev.DutiesDone(now_us, pairs)])
            if not job.nodes_pending and job_id not in cluster.epilogs:
                state = JobState(job.state)
                self._writer.record(
                    job_end.finish(
                        cluster, job, state, job.exit_code, job.flags, now_us, rules=self._rules
                    )
                )

        return clean
