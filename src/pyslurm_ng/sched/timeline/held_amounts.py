"""What running jobs hold, as numbers for the grid; worked out once in a job's life."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyslurm_ng.sched.job_records import Running


class HeldAmounts:
    """The amounts of one pass after another, side by side with the records of running jobs.

    Records keep their order from pass to pass and new ones come last, so two marks moving through
    both lists find who was there before; an entry per job in a dict would be four times as large.
    Whoever stands elsewhere than before is worked out anew.
    """

    def __init__(self) -> None:
        self._records: Sequence[Running] = ()
        self._amounts: list[bytes] = []

    def of(
        self, running: Sequence[Running], work_out: Callable[[Running], bytes]
    ) -> Sequence[bytes]:
        """Return what each of these holds."""
        before, known = self._records, self._amounts
        amounts: list[bytes] = []
        at, count = 0, len(before)
        for item in running:
            while at < count and before[at].job_id != item.job_id:
                at += 1
            if at < count and _holds_the_same(before[at], item):
                amounts.append(known[at])
            else:
                amounts.append(work_out(item))
        self._records, self._amounts = running, amounts
        return amounts


def _holds_the_same(one: Running, other: Running) -> bool:
    return one is other or (
        one.nodes == other.nodes
        and one.is_suspended == other.is_suspended
        and one.tenant == other.tenant
    )
