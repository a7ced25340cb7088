"""The order in which a pass plans reservations: the one in which jobs name several of them.

A job of `--reservation=b,a` starts in b if it can, else in a. So b is planned before a. Where jobs
name two of them in opposite orders the job that stands first in the queue decides. The others are
kept out of the one that is planned too soon for them, until a round has shown that they do not
start in one that they name before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.sched.frame import reserved
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.reservation.limit_order import Rank

_MOST_ROUNDS = 4


class NamedOrder:
    """The order of one pass, and which jobs are kept out of which reservations for now.

    `reservations` has all of them in the order in which they are planned.
    """

    def __init__(
        self,
        reservations: Sequence[Reservation],
        jobs: Iterable[Waiting],
        rank: Callable[[Waiting], Rank],
    ) -> None:
        """Begin the first round.

        Args:
            jobs: those that name reservations.
            rank: says where a job stands in the queue of all.
        """
        several = [job for job in jobs if "," in job.request.reservation]
        wanted = {
            job.job_id: reserved.reservations_for(reservations, job, job.partitions)
            for job in sorted(several, key=rank)
        }
        self.reservations = _in_order(reservations, wanted.values())
        turn = {reservation.name: at for at, reservation in enumerate(self.reservations)}
        # By job: the reservations that it is kept out of, the one to be opened first at the end.
        self._kept_out: dict[int, list[str]] = {}
        for job_id, names in wanted.items():
            too_soon = [
                name
                for at, name in enumerate(names)
                if any(turn[before] > turn[name] for before in names[:at])
            ]
            if too_soon:
                self._kept_out[job_id] = too_soon[::-1]
        self._rounds = 0

    def lets_in(self, job: Waiting, reservation: Reservation) -> bool:
        """Return whether a job may be planned in a reservation in this round."""
        return reservation.name not in self._kept_out.get(job.job_id, ())

    def is_settled(self, left: Mapping[int, Waiting | None]) -> bool:
        """Return whether a plan may stand; else jobs that wait may try one reservation more.

        Args:
            left: what the plan has left of each job; None where all of it has started.
        """
        waiting = [job_id for job_id in self._kept_out if left.get(job_id) is not None]
        self._rounds += 1
        for job_id in waiting:
            del self._kept_out[job_id][-1 if self._rounds < _MOST_ROUNDS else 0 :]
            if not self._kept_out[job_id]:
                del self._kept_out[job_id]
        return not waiting


def _in_order(
    reservations: Sequence[Reservation], wanted: Iterable[Sequence[str]]
) -> tuple[Reservation, ...]:
    """Return reservations so that those that jobs name first come first, else as they were.

    Args:
        wanted: the names of one job after another; what contradicts a job before it does not count.
    """
    before: dict[str, set[str]] = {reservation.name: set() for reservation in reservations}

    def precedes(first: str, then: str) -> bool:
        return first in before[then] or any(precedes(first, name) for name in before[then])

    for names in wanted:
        for first, then in pairwise(names):
            if first != then and not precedes(then, first):
                before[then].add(first)
    ordered: list[Reservation] = []
    left = [*reservations]
    while left:
        done = {reservation.name for reservation in ordered}
        chosen = next(reservation for reservation in left if before[reservation.name] <= done)
        left.remove(chosen)
        ordered.append(chosen)
    return tuple(ordered)
