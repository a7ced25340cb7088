"""Which jobs some events concern, so that their rows are read at once."""

from __future__ import annotations

from pyslurm_ng.model import events as ev

_OF_ONE_JOB = frozenset(kind for kind in ev.AnyEvent.__args__ if "job_id" in kind.__struct_fields__)
_NEED_STEPS = frozenset((
    ev.StepEnded, ev.StepUpdated, ev.JobEnded, ev.JobRequeued, ev.JobResized, ev.JobSuspended,
))  # fmt: skip


class Concerned:
    """The jobs that some events concern.

    Attributes:
        known: jobs that are stored, if accounting has ever seen them.
        new: jobs that begin with these events.
        with_steps: jobs whose open steps are needed.
    """

    def __init__(self) -> None:
        self.known: dict[int, None] = {}
        self.new: dict[int, None] = {}
        self.with_steps: dict[int, None] = {}

    def add(self, event: ev.AnyEvent) -> None:
        """Add the jobs of one event."""
        kind = type(event)
        if kind in _OF_ONE_JOB:
            job_id: int = event.job_id  # type: ignore[union-attr]
            if kind is not ev.JobSubmitted or job_id in self.known:
                self._add(job_id)
            else:
                self.new[job_id] = None
            if kind in _NEED_STEPS:
                self.with_steps[job_id] = None
        if isinstance(event, ev.ArrayTaskSplit):
            self._add(event.array_job_id)
        elif isinstance(event, ev.TimesMoved):
            for moved_id in event.job_ids:
                self._add(moved_id)
                self.with_steps[moved_id] = None

    def _add(self, job_id: int) -> None:
        if job_id not in self.new:
            self.known[job_id] = None
