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

    def append(self, held: Iterable[int]) -> None:
        """Add what one more job holds."""
        self.held.extend(held)
        self.begins.append(len(self.held))

    def extend(self, other: Holdings, first: int, last: int) -> None:
        """Add some jobs of another list, those from the first one on to before the last."""
        begin = other.begins[first]
        shift = len(self.held) - begin
        self.held += other.held[begin : other.begins[last]]
        self.begins.extend([end + shift for end in other.begins[first + 1 : last + 1]])

    def __len__(self) -> int:
        return len(self.begins) - 1

    def __getitem__(self, place: int) -> array[int]:
        return self.held[self.begins[place] : self.begins[place + 1]]


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
        before, known, found = self._records, self._holdings, Holdings()
        at, count = 0, len(before)
        first = 0  # of those that stood together before as they do now and are not yet taken over
        last = 0  # behind them
        for item in running:
            while at < count and before[at].job_id != item.job_id:
                at += 1
            is_known = at < count and _holds_the_same(before[at], item)
            if not is_known or at != last:
                found.extend(known, first, last)
                first = last = at
            if is_known:
                last = at + 1
            else:
                found.append(work_out(item))
        found.extend(known, first, last)
        self._records, self._holdings = running, found
        return found


def _holds_the_same(one: Running, other: Running) -> bool:
    return one is other or (
        one.nodes == other.nodes
        and one.is_suspended == other.is_suspended
        and one.tenant == other.tenant
    )
