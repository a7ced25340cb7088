"""The obvious twin of `_select.Course`: what begins and ends when under EASY backfilling.

One partition is one number of CPUs, no nodes, memory or licences. Jobs wait in order of submission
and start as in EASY: one after another as long as they fit, then those behind the first that does
not, if by their limits they do not delay it.

Source: Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995.
"""

from __future__ import annotations

import heapq
from collections.abc import Set
from dataclasses import dataclass

_DEPTH = 1000  # jobs looked at behind the first that does not fit
_LEAST_RUN_US = 1_000_000
_FOREVER_US = 1 << 62


@dataclass(slots=True, eq=False)
class Twin:
    """A job as a course sees it.

    An array is one twin that starts as often as it has `tasks`; what really becomes of its tasks
    is not followed: each runs as long as was foreseen.
    """

    job_id: int
    cpus: int
    limit_us: int
    submit_us: int  # since when it waits
    foreseen_us: int
    tasks: int = 0  # 0: not an array
    entered_us: int = 0  # when it was first seen
    started_us: int = 0  # when it really started; 0: not yet
    ran_us: int = -1  # how long it runs, once that is known

    def elapsed_us(self, now_us: int) -> int:
        """Return how long it really has run."""
        return now_us - self.started_us if self.started_us else 0


class Course:
    """What has begun and ended until `at_us`.

    longest_us: the longest wait so far, of jobs that still wait too. seen: how many of those that
    arrive have entered.
    """

    __slots__ = ("_begun", "_free", "_running", "at_us", "longest_us", "seen", "waiting")

    def __init__(self, cpus: int, longest_us: int = 0) -> None:
        self.longest_us = longest_us
        self.at_us = 0
        self.seen = 0
        self.waiting: list[Twin] = []  # in order of submission
        self._free = cpus
        self._running: list[tuple[int, Twin]] = []  # since when, who
        self._begun: dict[int, int] = {}  # by job: tasks of arrays that have begun

    def copy(self) -> Course:
        """Return another that may go on differently."""
        other = Course(self._free, self.longest_us)
        other.at_us, other.seen = self.at_us, self.seen
        other.waiting, other._running = self.waiting.copy(), self._running.copy()
        other._begun = self._begun.copy()
        return other

    def adopt(self, twin: Twin, now_us: int) -> None:
        """Begin with a job that runs already."""
        self._free -= twin.cpus
        self._running.append((now_us, twin))

    def forget(self, gone: Set[int]) -> None:
        """Let jobs leave that no longer wait."""
        self.waiting = [twin for twin in self.waiting if twin.job_id not in gone]

    def go_on(self, arrivals: list[Twin], now_us: int, *, guesses: bool) -> None:
        """Let time pass until now; without guesses only as far as is certain.

        A job whose end is not known yet ends when foreseen if `guesses`, else nothing can be told
        from the moment on when it could have ended.

        Args:
            arrivals: all who arrive, by time; the first `seen` of them have entered before.
        """
        ends, certain_us = self._ends(now_us, guesses=guesses)
        while True:
            at_us = ends[0][0] if ends else _FOREVER_US
            if self.seen < len(arrivals):
                at_us = min(at_us, arrivals[self.seen].entered_us)
            at_us = max(at_us, self.at_us)
            if at_us > now_us or at_us >= certain_us:
                break
            self.at_us = at_us
            self._end(ends)
            self._enter(arrivals)
            known = len(self._running)
            self._start()
            for begun in self._running[known:]:
                end_us = self._end_us(begun, now_us, guesses=guesses)
                if end_us < 0:
                    certain_us = min(certain_us, _least_end_us(begun, now_us))
                else:
                    heapq.heappush(ends, (end_us, id(begun), begun))
        if guesses:
            self.at_us = max(self.at_us, now_us)
            if self.waiting:
                self._note_wait(self.waiting[0])

    def _ends(
        self, now_us: int, *, guesses: bool
    ) -> tuple[list[tuple[int, int, tuple[int, Twin]]], int]:
        """Return who ends when, as a heap, and until when that is certain."""
        ends, certain_us = [], _FOREVER_US
        for begun in self._running:
            end_us = self._end_us(begun, now_us, guesses=guesses)
            if end_us < 0:
                certain_us = min(certain_us, _least_end_us(begun, now_us))
            else:
                ends.append((end_us, id(begun), begun))
        heapq.heapify(ends)
        return ends, certain_us

    @staticmethod
    def _end_us(begun: tuple[int, Twin], now_us: int, *, guesses: bool) -> int:
        """Return when a job ends here; -1: that is not known."""
        since_us, twin = begun
        if twin.ran_us >= 0:
            return since_us + twin.ran_us
        if not guesses:
            return -1
        return max(since_us + twin.foreseen_us, _least_end_us(begun, now_us))

    def _end(self, ends: list[tuple[int, int, tuple[int, Twin]]]) -> None:
        """Take back the CPUs of those who end at this moment."""
        over: set[int] = set()
        while ends and ends[0][0] <= self.at_us:
            begun = heapq.heappop(ends)[2]
            over.add(id(begun))
            self._free += begun[1].cpus
        if over:
            self._running = [begun for begun in self._running if id(begun) not in over]

    def _enter(self, arrivals: list[Twin]) -> None:
        """Let those queue who arrive at this moment."""
        first = self.seen
        while self.seen < len(arrivals) and arrivals[self.seen].entered_us <= self.at_us:
            self.seen += 1
        if self.seen > first:
            self.waiting += arrivals[first : self.seen]
            self.waiting.sort(key=lambda twin: (twin.submit_us, twin.job_id))

    def _start(self) -> None:
        """Start what fits in order, and behind the first that does not what does not delay it."""
        waiting, index, at_us = self.waiting, 0, self.at_us
        while index < len(waiting) and waiting[index].cpus <= self._free:
            index += self._begin(waiting[index])
        if index == len(waiting):
            self.waiting = []
            return
        waits_on = [waiting[index]]
        self._note_wait(waits_on[0])
        until_us, spare = self._room_for(waits_on[0].cpus) if self._free else (0, 0)
        index += 1
        end = min(len(waiting), index + _DEPTH)
        while index < end and self._free:
            twin = waiting[index]
            is_in_time = at_us + twin.limit_us <= until_us
            if twin.cpus > self._free or not (is_in_time or twin.cpus <= spare):
                waits_on.append(twin)
                index += 1
                continue
            if not is_in_time:
                spare -= twin.cpus
            index += self._begin(twin)
        self.waiting = waits_on + waiting[index:]

    def _room_for(self, cpus: int) -> tuple[int, int]:
        """Return by when limits give back so many CPUs, and how many more are free then."""
        free, end_us, at_us = self._free, self.at_us, self.at_us
        # Who is over its limit may end at any time.
        ends = sorted(
            (max(since_us + twin.limit_us, at_us + 1), twin.cpus)
            for since_us, twin in self._running
        )
        for until_us, given_back in ends:
            if free >= cpus and until_us > end_us:
                break
            free += given_back
            end_us = until_us
        return end_us, free - cpus

    def _begin(self, twin: Twin) -> bool:
        """Start a job, or one task of an array; return whether all of it has started."""
        self._note_wait(twin)
        self._free -= twin.cpus
        self._running.append((self.at_us, twin))
        if not twin.tasks:
            return True
        begun = self._begun.pop(twin.job_id, 0) + 1
        if begun < twin.tasks:
            self._begun[twin.job_id] = begun
        return begun >= twin.tasks

    def _note_wait(self, twin: Twin) -> None:
        self.longest_us = max(self.longest_us, self.at_us - twin.submit_us)


def _least_end_us(begun: tuple[int, Twin], now_us: int) -> int:
    """Return when a job whose end is not known can have ended at the earliest."""
    since_us, twin = begun
    return since_us + twin.elapsed_us(now_us) + _LEAST_RUN_US
