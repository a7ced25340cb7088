"""Which jobs some events concern, so that their rows are read at once."""

from __future__ import annotations

from collections.abc import Iterable

from pyslurm_ng.model import events as ev

_OF_ONE_JOB = frozenset(kind for kind in ev.AnyEvent.__args__ if "job_id" in kind.__struct_fields__)
_NEED_STEPS = frozenset((
    ev.StepEnded, ev.StepUpdated, ev.JobEnded, ev.JobRequeued, ev.JobResized, ev.JobSuspended,
))  # fmt: skip
_OF_MORE_JOBS = frozenset((ev.ArrayTaskSplit, ev.TimesMoved))


class Concerned:
    """The jobs that some events concern.

    Attributes:
        known: jobs that are stored, if accounting has ever seen them.
        new: jobs that begin with these events.
        with_steps: jobs whose open steps are needed.
    """

    def __init__(self, events: Iterable[ev.AnyEvent]) -> None:
        self.known: dict[int, None] = {}
        self.new: dict[int, None] = {}
        self.with_steps: dict[int, None] = {}
        known, new = self.known, self.new
        for event in events:
            kind = type(event)
            if kind in _OF_ONE_JOB:
                job_id: int = event.job_id  # type: ignore[union-attr]
                if job_id not in new:
                    is_new = kind is ev.JobSubmitted and job_id not in known
                    (new if is_new else known)[job_id] = None
                if kind in _NEED_STEPS:
                    self.with_steps[job_id] = None
            if kind in _OF_MORE_JOBS:
                self._add_more(event)

    def _add_more(self, event: ev.AnyEvent) -> None:
        if isinstance(event, ev.ArrayTaskSplit):
            self._add(event.array_job_id)
        elif isinstance(event, ev.TimesMoved):
            for moved_id in event.job_ids:
                self._add(moved_id)
                self.with_steps[moved_id] = None

    def _add(self, job_id: int) -> None:
        if job_id not in self.new:
            self.known[job_id] = None
