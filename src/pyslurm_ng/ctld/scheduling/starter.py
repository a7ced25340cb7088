"""Applies the starts and preemptions of a plan, each against the Cluster as it is by then."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyslurm_ng.ctld.rules.starts import preempt
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch, dispatch_het
from pyslurm_ng.ctld.rules.starts.preparation import Preparation
from pyslurm_ng.ctld.scheduling.left_out import LeftOut
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.touched import touched_jobs
from pyslurm_ng.sched.frame.plan import Preemption, Start, Wait
from pyslurm_ng.sched.frame.policy import Policy

# Of what changes a job's record: what its place was planned for. The rest is asked at its start.
_WANTS = frozenset(("account", "assoc_id", "begin_us", "partition", "qos", "time_limit_min"))


def _changes_wants(event: ev.AnyEvent) -> bool:
    return isinstance(event, ev.JobUpdated) and (
        event.request is not None or not _WANTS.isdisjoint(event.fields)
    )


class Starter:
    """Starts jobs that a pass has planned, unless they were changed since its snapshot.

    Attributes:
        prepare: what has to run before a job.
        waited: why jobs waited before the pass whose starts come.
    """

    def __init__(
        self,
        writer: Writer,
        soft: Soft,
        prepare: Preparation,
        left_out: LeftOut,
        now_us: Callable[[], int],
    ) -> None:
        """A job about which a rule raises goes to `left_out`."""
        self._writer = writer
        self._soft = soft
        self._left_out = left_out
        self._now_us = now_us
        self._outdated: set[int] = set()  # jobs that ask for something else than the pass knows
        self.prepare = prepare
        self.waited: Mapping[int, Wait] = {}

    def begin_pass(self) -> None:
        """Note that a pass has taken its snapshot: it knows all jobs as they are now."""
        self._outdated.clear()

    def applied(self, event: ev.AnyEvent) -> None:
        """Note jobs that were changed while a pass goes on."""
        if _changes_wants(event):
            self._outdated.update(touched_jobs(event))

    def start_next(self, starts: Sequence[Start], position: int) -> int:
        """Start one job, or all components of one; return where the next stands."""
        start = starts[position]
        last = position + 1
        if start.het_job_id:
            while last < len(starts) and starts[last].het_job_id == start.het_job_id:
                last += 1
        together = starts[position:last]
        if self._outdated.isdisjoint(start.job_id for start in together):
            now_us = self._now_us()
            try:
                if start.het_job_id:
                    self._dispatch_together(together, now_us)
                else:
                    self._dispatch(start, now_us)
            except Exception as error:  # noqa: BLE001 - it costs this job only
                self._left_out.hold(start.job_id, error)
        return last

    def _dispatch(self, start: Start, now_us: int) -> None:
        events = dispatch(
            self._writer.cluster,
            start,
            now_us,
            prepare=self.prepare,
            waited_for=self._waited_for(start),
            priorities=self._soft.priority,
        )
        self._writer.record(events)

    def _dispatch_together(self, together: Sequence[Start], now_us: int) -> None:
        """Start all components of a heterogeneous job."""
        writer, start = self._writer, together[0]
        events = dispatch_het(
            writer.cluster,
            together,
            now_us,
            prepare=self.prepare,
            waited_for=self._waited_for(start),
            priorities=self._soft.priority,
        )
        if events:
            self._soft.passes.het_components += len(together)
        writer.record(events)

    def _waited_for(self, start: Start) -> int:
        """Return why a job has waited as far as the pass before the one that starts it."""
        wait = self.waited.get(start.job_id)
        return int(wait.reason) if wait is not None else 0

    def preempt(self, preemption: Preemption, policy: Policy, now_us: int) -> None:
        """Make victims leave; start the job at once if they only have to be suspended."""
        writer = self._writer
        if not self._outdated.isdisjoint(
            start.job_id for start in (preemption.start, *preemption.together)
        ):
            return
        events, decision = preempt.split(writer.cluster, preemption, now_us)
        writer.record(events)
        if decision is None:
            return
        leave = preempt.preempt(writer.cluster, decision, policy, now_us)
        if leave is None:
            return
        writer.record(leave)
        if not writer.cluster.jobs[decision.start.job_id].claim:
            start = decision.start
            self._dispatch(start, now_us)
