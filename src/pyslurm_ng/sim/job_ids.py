"""Jobs of a recording and the same jobs in the simulation, which have other ids there."""

from __future__ import annotations

import re
from collections.abc import Container

from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.model.job import Job
from pyslurm_ng.sim.recorded import Key


class JobIds:
    """Which job is which.

    Attributes:
        ours: the simulation's id of each recorded job; of an array, that of the whole array.
    """

    def __init__(self) -> None:
        self.ours: dict[int, int] = {}
        self._theirs: dict[int, int] = {}

    def put(self, recorded: int, simulated: int) -> None:
        """Note that the two are the same job."""
        self.ours[recorded] = simulated
        self._theirs[simulated] = recorded

    def key(self, job: Job) -> Key | None:
        """Return what the recording calls a job of the simulation; None for one it has not."""
        head = self._theirs.get(job.array_job_id or job.job_id)
        if head is None:
            return None
        return head, job.array_task_id if job.array_job_id else NO_VAL

    def dependency(self, text: str, known: Container[int]) -> str:
        """Translate a dependency; terms whose job is no longer `known` are met."""
        separator = "?" if "?" in text else ","
        words = []
        for word in text.split(separator) if text else ():
            kind, *terms = word.split(":")
            terms_left = [moved for term in terms if (moved := self._moved(term, known))]
            if terms_left or not terms:
                words.append(":".join([kind, *terms_left]))
        return separator.join(words)

    def _moved(self, term: str, known: Container[int]) -> str:
        match = re.match(r"\d+", term)
        ours = self.ours.get(int(match[0])) if match else None
        if match is None or ours is None or ours not in known:
            return ""
        return f"{ours}{term[match.end() :]}"
