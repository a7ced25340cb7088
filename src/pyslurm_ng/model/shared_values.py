"""Equal requests and words of many jobs, each held once: they are most of a job's memory."""

from __future__ import annotations

from typing import Any

from .job import NO_STEPS, Job
from .kept_request import LONG, Known, kept_request

_MOST_SHARED = 5000
_SHARED_WORDS = (
    "user_name",
    "group_name",
    "account",
    "qos",
    "partition",
    "script_hash",
    "env_hash",
    "comment",
    "alloc_host",
)


class SharedValues:
    """The values that jobs share. It may be emptied at any time: jobs then share less."""

    __slots__ = ("_requests", "_words")

    def __init__(self) -> None:
        self._requests: Known = {}
        self._words: dict[Any, Any] = {}

    def share(self, job: Job) -> None:
        """Let equal requests and words of many jobs be one object: most of a job's memory."""
        # Equal requests come one after another; a table of all of them would take much of the
        # memory that is saved.
        if len(self._requests) > _MOST_SHARED:
            self._requests.clear()
        if len(self._words) > _MOST_SHARED:
            self._words.clear()
        job.request = kept_request(job.request, self._requests, self._words)
        kept = self._words.setdefault
        for name in _SHARED_WORDS:
            word = getattr(job, name)
            if len(word) <= LONG:
                setattr(job, name, kept(word, word))
        if not job.steps:
            job.steps = NO_STEPS
