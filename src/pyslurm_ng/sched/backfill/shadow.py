"""How long jobs would have waited under plain EASY backfilling.

The jobs of a partition enter its shadow when they are submitted and run there as under EASY, see
`Course`, while the real queue is served in another order. The result is exact up to the first
moment at which a job could have ended there that has not really ended yet. From then on a second
course continues with expected ends. It begins again from time to time, so a wrong guess does not
stay. The shadow says at any time which wait the order of submission has made necessary.

Source of EASY: Lifka, "The ANL/IBM SP Scheduling System", JSSPP 1995.
"""

from __future__ import annotations

from collections.abc import Iterable, Set

from pyslurm_ng._select import Course, Twin

__all__ = ["Shadow", "Twin"]

_LEAST_AGE_US = 600_000_000
_AGE_SHARE = 0.1  # of the longest wait: what guesses may be old
_MOST_GUESSED = 4000  # jobs; beyond, guesses are taken for what has been


class Shadow:
    """A partition in which the order of submission is kept."""

    def __init__(self, cpus: int, longest_us: int = 0) -> None:
        """Begin.

        Args:
            longest_us: the longest wait known from before.
        """
        self.cpus = cpus
        self._certain = Course(cpus, longest_us)
        self._likely = self._certain.copy()
        self._guessed_us = 0  # when the likely course was begun
        self._arrivals: list[Twin] = []  # not all of which the certain course has seen
        self._twins: dict[int, Twin] = {}  # of jobs that wait or run

    @property
    def longest_us(self) -> int:
        """The longest wait so far, of jobs that still wait too."""
        return max(self._certain.longest_us, self._likely.longest_us)

    def adopt(self, twins: Iterable[Twin], now_us: int) -> None:
        """Begin with jobs that run already; their limits and foresight count from now."""
        for twin in twins:
            twin.started_us = now_us
            self._twins[twin.job_id] = twin
            self._certain.adopt(twin, now_us)
        self._certain.at_us = now_us
        self._likely = self._certain.copy()

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
        for twin in arrived:
            twin.entered_us = now_us
            if twin.tasks:
                twin.ran_us = twin.foreseen_us
            self._twins[twin.job_id] = twin
        self._arrivals += arrived
        if now_us - self._guessed_us >= max(_LEAST_AGE_US, _AGE_SHARE * self.longest_us):
            self._guess_anew(now_us)
        self._likely.go_on(self._arrivals, now_us, guesses=True)

    def _compare(self, now_us: int, waiting: Set[int], running: Set[int]) -> None:
        """Learn what really became of jobs."""
        over: list[int] = []
        gone: set[int] = set()
        for job_id, twin in self._twins.items():
            if job_id in waiting:
                twin.started_us = 0
            elif not twin.started_us:
                gone.add(job_id)  # cancelled, held, or a task that started elsewhere
            elif job_id not in running:
                twin.ran_us = now_us - twin.started_us
                over.append(job_id)
        for job_id in over:
            del self._twins[job_id]
        if gone:
            self._forget(gone)

    def _forget(self, gone: Set[int]) -> None:
        """Let jobs leave that will not run; where one runs already it ends as was foreseen."""
        for job_id in gone:
            twin = self._twins.pop(job_id)
            twin.ran_us = twin.foreseen_us
        self._certain.forget(gone)
        self._likely.forget(gone)
        # A job that is in neither course yet arrives in both, or in the likely one only.
        kept = [twin for twin in self._arrivals if twin.job_id not in gone]
        for course in (self._certain, self._likely):
            course.seen -= sum(twin.job_id in gone for twin in self._arrivals[: course.seen])
        self._arrivals = kept

    def _guess_anew(self, now_us: int) -> None:
        """Go on as far as is certain, and begin to guess from there."""
        self._guessed_us = now_us
        self._certain.go_on(self._arrivals, now_us, guesses=False)
        if len(self._arrivals) - self._certain.seen > _MOST_GUESSED:
            self._certain = self._likely
        del self._arrivals[: self._certain.seen]
        self._certain.seen = 0
        self._likely = self._certain.copy()
