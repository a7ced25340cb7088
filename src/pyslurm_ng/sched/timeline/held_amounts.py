"""What running jobs hold, as numbers for the grid; worked out once in a job's life."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence

from pyslurm_ng.sched.frame.job_records import Running


class Holdings:
    """What jobs hold, one after the other: for each as many numbers as `_select.holding` made.

    All of them are in one array, in which each job has a stretch: a hundred thousand separate
    objects would take three times the memory.
    """

    __slots__ = ("begins", "held")

    def __init__(self) -> None:
        self.held = array("q")
        self.begins = array("i", [0])  # of each job's stretch, and where the last one ends

    def append(self, amounts: Iterable[int]) -> None:
        """Add what one more job holds."""
        self.held.extend(amounts)
        self.begins.append(len(self.held))

    def extend(self, other: Holdings, first: int, last: int) -> None:
        """Add some jobs of another list, those from the first one on to before the last."""
        begin = other.begins[first]
        shift = len(self.held) - begin
        self.held += other.held[begin : other.begins[last]]
        self.begins.extend([end + shift for end in other.begins[first + 1 : last + 1]])

    def __len__(self) -> int:
        return len(self.begins) - 1

    def __getitem__(self, position: int) -> array[int]:
        return self.held[self.begins[position] : self.begins[position + 1]]


class HeldAmounts:
    """The holdings of one pass after another, side by side with the records of running jobs.

    Records keep their order from pass to pass and new ones come last, so two positions that move
    through both lists find the known jobs. A dict entry for each job would be four times as large.
    A record that has moved is computed again.
    """

    def __init__(self) -> None:
        self._records: Sequence[Running] = ()
        self._holdings = Holdings()

    def of(
        self, running: Sequence[Running], work_out: Callable[[Running], Iterable[int]]
    ) -> Holdings:
        """Return what each of these holds."""
        before, known, holdings = self._records, self._holdings, Holdings()
        at, count = 0, len(before)
        first = 0  # of those that stood together before as they do now and are not yet taken over
        last = 0  # behind them
        for running_job in running:
            while at < count and before[at].job_id != running_job.job_id:
                at += 1
            is_known = at < count and _holds_the_same(before[at], running_job)
            if not is_known or at != last:
                holdings.extend(known, first, last)
                first = last = at
            if is_known:
                last = at + 1
            else:
                holdings.append(work_out(running_job))
        holdings.extend(known, first, last)
        self._records, self._holdings = running, holdings
        return holdings


def _holds_the_same(running_job: Running, other: Running) -> bool:
    return running_job is other or (
        running_job.nodes == other.nodes
        and running_job.is_suspended == other.is_suspended
        and running_job.tenant == other.tenant
    )
