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
        names_by_job = {
            job.job_id: reserved.reservations_for(reservations, job, job.partitions)
            for job in sorted(several, key=rank)
        }
        self.reservations = _in_order(reservations, names_by_job.values())
        turn = {reservation.name: at for at, reservation in enumerate(self.reservations)}
        # By job: the reservations that it is kept out of, the one to be opened first at the end.
        self._kept_out: dict[int, list[str]] = {}
        for job_id, names in names_by_job.items():
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

    def is_settled(self, waiting_of: Mapping[int, Waiting | None]) -> bool:
        """Return whether a plan may stand; else jobs that wait may try one reservation more.

        Args:
            waiting_of: what still waits of each job; None if all of it has started.
        """
        waiting = [job_id for job_id in self._kept_out if waiting_of.get(job_id) is not None]
        self._rounds += 1
        for job_id in waiting:
            del self._kept_out[job_id][-1 if self._rounds < _MOST_ROUNDS else 0 :]
            if not self._kept_out[job_id]:
                del self._kept_out[job_id]
        return not waiting


def _in_order(
    reservations: Sequence[Reservation], name_lists: Iterable[Sequence[str]]
) -> tuple[Reservation, ...]:
    """Return reservations so that those that jobs name first come first, else as they were.

    Args:
        name_lists: the names of one job after the other; those that contradict an earlier job do
            not count.
    """
    before: dict[str, set[str]] = {reservation.name: set() for reservation in reservations}

    def precedes(first: str, then: str) -> bool:
        return first in before[then] or any(precedes(first, name) for name in before[then])

    for names in name_lists:
        for first, then in pairwise(names):
            if first != then and not precedes(then, first):
                before[then].add(first)
    ordered: list[Reservation] = []
    unordered = [*reservations]
    while unordered:
        done = {reservation.name for reservation in ordered}
        chosen = next(reservation for reservation in unordered if before[reservation.name] <= done)
        unordered.remove(chosen)
        ordered.append(chosen)
    return tuple(ordered)
