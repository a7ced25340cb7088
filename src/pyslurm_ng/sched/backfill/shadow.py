"""How long jobs would have waited under plain EASY backfilling: one partition as one number.

The shadow of a partition has its CPUs and nothing else: no nodes, memory or licences. The jobs of
the partition enter it when they are submitted, wait in that order and start as in EASY: one after
another as long as they fit, then those behind the first that does not, if by their limits they do
not delay it. In the shadow a job runs as long as it really ran, if it has ended already, else as
long as is foreseen of it. So it says at any time which wait the order of submission has made
necessary, while the real queue is served in another order.

Source: Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Set
from dataclasses import dataclass, replace

_DEPTH = 1000  # jobs looked at behind the first that does not fit
_LEAST_RUN_US = 1_000_000


@dataclass(slots=True)
class Twin:
    """A job as the shadow sees it.

    An array is one twin that starts as often as it has `tasks`; what really becomes of its tasks
    is not followed.
    """

    job_id: int
    cpus: int
    limit_us: int
    submit_us: int
    foreseen_us: int
    tasks: int = 0  # 0: not an array
    begun_us: int = -1  # when it started in the shadow; -1: it waits there
    started_us: int = 0  # when it really started; 0: not yet
    ran_us: int = -1  # how long it really ran; -1: not known yet
    is_over: bool = False  # it has ended in the shadow

    def end_us(self, now_us: int) -> int:
        """Return when it ends in the shadow, as far as is known."""
        if self.ran_us >= 0:
            return self.begun_us + max(self.ran_us, _LEAST_RUN_US)
        elapsed_us = now_us - self.started_us if self.started_us else 0
        return self.begun_us + max(self.foreseen_us, elapsed_us + _LEAST_RUN_US)


class Shadow:
    """A partition in which the order of submission is kept.

    longest_us: the longest wait so far, of jobs that still wait too; one known from before to
    begin with.
    """

    def __init__(self, cpus: int, longest_us: int = 0) -> None:
        self.cpus = cpus
        self.longest_us = longest_us
        self._free = cpus
        self._at_us = 0
        self._twins: dict[int, Twin] = {}  # of jobs that wait or run, really or here
        self._waiting: list[Twin] = []  # in order of submission
        self._running: dict[int, Twin] = {}  # by number of the start
        self._starts = 0

    def adopt(self, twins: Iterable[Twin], now_us: int) -> None:
        """Begin with jobs that run already; their limits and foresight count from now."""
        for twin in twins:
            self._twins[twin.job_id] = twin
            twin.started_us = now_us
            self._begin(twin, now_us)

    def started(self, job_id: int, now_us: int) -> None:
        """Learn that a job really starts."""
        twin = self._twins.get(job_id)
        if twin is not None and not twin.tasks:
            twin.started_us = now_us

    def knows(self, job_id: int) -> bool:
        """Return whether a waiting job has entered the shadow before."""
        return job_id in self._twins

    def pass_time(
        self, now_us: int, arrived: list[Twin], waiting: Set[int], running: Set[int]
    ) -> None:
        """Let time pass.

        Args:
            arrived: jobs that are new.
            waiting: ids of all jobs that really wait now.
            running: ids of jobs that really run now.
        """
        self._compare(now_us, waiting, running)
        self._pass_until(now_us)
        if arrived:
            self._twins.update((twin.job_id, twin) for twin in arrived)
            self._waiting += arrived
            self._waiting.sort(key=lambda twin: (twin.submit_us, twin.job_id))
        self._start(now_us)
        if self._waiting:
            self._note_wait(self._waiting[0], now_us)

    def _compare(self, now_us: int, waiting: Set[int], running: Set[int]) -> None:
        """Learn what really became of jobs."""
        gone: set[int] = set()
        for job_id, twin in self._twins.items():
            if job_id in waiting:
                twin.started_us = 0
            elif twin.is_over or not twin.started_us:
                gone.add(job_id)  # done with, cancelled, held, or a task that started elsewhere
            elif twin.ran_us < 0 and job_id not in running:
                twin.ran_us = now_us - twin.started_us
        for job_id in gone:
            del self._twins[job_id]
        if gone:
            self._waiting = [twin for twin in self._waiting if twin.job_id not in gone]

    def _pass_until(self, now_us: int) -> None:
        """Let jobs end until now, and others start in their place at once."""
        ends = [(twin.end_us(now_us), number) for number, twin in self._running.items()]
        heapq.heapify(ends)
        while ends and ends[0][0] <= now_us:
            at_us = max(self._at_us, ends[0][0])
            while ends and ends[0][0] <= at_us:
                self._end(heapq.heappop(ends)[1])
            if at_us == now_us:
                break  # who arrives now is to be looked at, too
            known = self._starts
            self._start(at_us)
            for number in range(known + 1, self._starts + 1):
                heapq.heappush(ends, (self._running[number].end_us(now_us), number))
        self._at_us = now_us

    def _start(self, at_us: int) -> None:
        """Start what fits in order, and behind the first that does not what does not delay it."""
        waiting, place = self._waiting, 0
        while place < len(waiting) and waiting[place].cpus <= self._free:
            place += self._begin(waiting[place], at_us)
        if place == len(waiting):
            self._waiting = []
            return
        left = [waiting[place]]
        until_us, spare = self._room_for(waiting[place].cpus, at_us)
        place += 1
        end = min(len(waiting), place + _DEPTH)
        while place < end and self._free:
            twin = waiting[place]
            is_in_time = at_us + twin.limit_us <= until_us
            if twin.cpus > self._free or not (is_in_time or twin.cpus <= spare):
                left.append(twin)
                place += 1
                continue
            if not is_in_time:
                spare -= twin.cpus
            place += self._begin(twin, at_us)
        self._waiting = left + waiting[place:]

    def _room_for(self, cpus: int, at_us: int) -> tuple[int, int]:
        """Return by when limits give back so many CPUs, and how many more are free then."""
        free, end_us = self._free, at_us
        # Who is over its limit may end at any time.
        ends = sorted(
            (max(twin.begun_us + twin.limit_us, at_us + 1), twin.cpus)
            for twin in self._running.values()
        )
        for until_us, given_back in ends:
            if free >= cpus and until_us > end_us:
                break
            free += given_back
            end_us = until_us
        return end_us, free - cpus

    def _begin(self, twin: Twin, at_us: int) -> bool:
        """Start a job, or one task of an array; return whether all of it has started."""
        self._note_wait(twin, at_us)
        one = twin
        if twin.tasks > 1:
            twin.tasks -= 1
            one = replace(twin)
        one.begun_us = at_us
        self._free -= one.cpus
        self._starts += 1
        self._running[self._starts] = one
        return one is twin

    def _end(self, number: int) -> None:
        twin = self._running.pop(number)
        twin.is_over = True
        self._free += twin.cpus

    def _note_wait(self, twin: Twin, at_us: int) -> None:
        self.longest_us = max(self.longest_us, at_us - twin.submit_us)
