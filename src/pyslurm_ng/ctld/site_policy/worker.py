"""One process of the site's scripts, with the requests whose questions it has."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from msgspec import Struct

from pyslurm_ng.ctld.site_policy.lookups import Lookups
from pyslurm_ng.ctld.site_policy.process import Loop, Timer
from pyslurm_ng.ctld.site_policy.walks import Passage
from pyslurm_ng.policy.messages import AskRows, Question, Rows, Verdict

IDLE_S = 60.0


class Process(Protocol):
    """A process of scripts; `ScriptProcess` is one."""

    def ask(self, question: Question, done: Callable[[Verdict], None]) -> None:
        """Let the scripts decide, after those before."""

    def send(self, message: Struct) -> None:
        """Tell it something."""

    def close(self) -> None:
        """Kill it."""

    @property
    def is_gone(self) -> bool:
        """Whether it has ended."""


class Told(Protocol):
    """What hears of a worker."""

    def loaded(self, worker: Worker, errors: list[str]) -> None:
        """Its scripts are loaded, or cannot be."""

    def answered(self, worker: Worker, passage: Passage, verdict: Verdict) -> None:
        """It has decided about its first request, which it no longer has."""

    def slow(self, worker: Worker) -> None:
        """Its first request takes long."""

    def ended(self, worker: Worker, why: str) -> None:
        """Its process is gone."""


class Worker:
    """Asks one process, and knows what it has not answered.

    Attributes:
        open: the requests that it has, in the order of their questions.
        is_loading: its scripts are not loaded yet.
        is_slow: its first request takes long, so it is given no others.
        is_last: it is to be ended when it has answered: others are asked what it has besides.
    """

    def __init__(
        self, told: Told, lookups: Lookups, loop: Loop, start: Callable[..., Process]
    ) -> None:
        """Start the process.

        Args:
            start: makes one, given what it calls: see `ScriptProcess`.

        Raises:
            OSError: no process can be had.
        """
        self.open: deque[Passage] = deque()
        self.is_loading = True
        self.is_slow = self.is_last = False
        self._told = told
        self._loop = loop
        self._lookups = lookups
        self._idle: Timer | None = None
        self._process = start(
            rows=self._rows,
            loaded=self._loaded,
            slow=lambda: told.slow(self),
            ended=self._ended,
        )

    @property
    def is_ready(self) -> bool:
        """Whether it may be asked more."""
        return not (self.is_loading or self.is_slow or self.is_last)

    def is_of(self, uid: int) -> bool:
        """Return whether it works on a request of a user."""
        return bool(self.open) and self.open[0].caller.uid == uid

    def ask(self, passage: Passage) -> None:
        """Ask a request's question, after those before."""
        assert passage.question is not None
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        partitions = self._lookups.partitions()
        if partitions is not None:
            self._process.send(partitions)
        self.open.append(passage)
        self._process.ask(passage.question, partial(self._answered, passage))

    def take_back(self) -> list[Passage]:
        """Return all requests but the first; the process is of no use after that one."""
        rest = [*self.open][1:]
        for _ in rest:
            self.open.pop()
        self.is_last = self.is_last or bool(rest)
        return rest

    def when_idle(self, retire: Callable[[], None]) -> None:
        """Call if it has nothing to do for a minute."""
        if self._idle is None and not self.open:
            self._idle = self._loop.call_later(IDLE_S, retire)

    def close(self) -> None:
        """Kill the process."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        self._process.close()

    @property
    def is_gone(self) -> bool:
        """Whether the process has ended."""
        return self._process.is_gone

    def _loaded(self, errors: list[str]) -> None:
        self.is_loading = False
        self._told.loaded(self, errors)

    def _answered(self, passage: Passage, verdict: Verdict) -> None:
        self.open.popleft()
        self._told.answered(self, passage, verdict)

    def _ended(self, why: str) -> None:
        self._told.ended(self, why)

    def _rows(self, asked: AskRows) -> Rows:
        return self._lookups.rows(asked, self.open[0] if self.open else None)
