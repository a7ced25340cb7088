"""Equal requests and words of many jobs, each held once: they are most of a job's memory."""

from __future__ import annotations

from operator import attrgetter
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


_shared_words = attrgetter(*_SHARED_WORDS)


class SharedValues:
    """The values that jobs share. It may be emptied at any time: jobs then share less."""

    __slots__ = ("_many_words", "_requests", "_words")

    def __init__(self) -> None:
        self._requests: Known = {}
        self._words: dict[Any, Any] = {}
        self._many_words: dict[tuple[str, ...], tuple[str, ...]] = {}

    def share(self, job: Job) -> None:
        """Let equal requests and words of many jobs be one object: most of a job's memory."""
        # Equal requests come one after another; a table of all of them would take much of the
        # memory that is saved.
        if len(self._requests) > _MOST_SHARED:
            self._requests.clear()
        if len(self._words) > _MOST_SHARED:
            self._words.clear()
        job.request = kept_request(job.request, self._requests, self._words)
        words = _shared_words(job)
        kept = self._many_words.get(words) or self._kept_words(words)
        for name, own, word in zip(_SHARED_WORDS, words, kept, strict=True):
            if own is not word:
                setattr(job, name, word)
        if not job.steps:
            job.steps = NO_STEPS

    def _kept_words(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """Return equal words that other jobs have, too; they are kept together if short."""
        share = self._words.setdefault
        kept = tuple([share(word, word) if len(word) <= LONG else word for word in words])
        if len(self._many_words) > _MOST_SHARED:
            self._many_words.clear()
        if sum(map(len, words)) <= LONG:
            self._many_words[kept] = kept
        return kept
