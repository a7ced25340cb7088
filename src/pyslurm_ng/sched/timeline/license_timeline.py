"""Licences that are free over time, beside a timeline of nodes."""

from __future__ import annotations

from collections.abc import Iterable

from pyslurm_ng._select import NEVER, Profile
from pyslurm_ng.model.license_server import license_counts
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame.job_records import NO_END_US
from pyslurm_ng.sched.frame.licenses import NOTHING_INSIDE
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.timeline.freed_nodes import expected_end_us


class LicenseTimeline:
    """The licences that the jobs of one pass ask for."""

    def __init__(self, snapshot: Snapshot, demands: Iterable[Demand]) -> None:
        names = sorted({name for demand in demands for name, _ in demand.licenses})
        self._place = {name: index for index, name in enumerate(names)}
        self._trial: list[tuple[Demand, int]] | None = None
        free = [snapshot.licenses_free.get(name, 0) for name in names]
        self._profile = Profile(snapshot.now_us, free or [0])
        if not names:
            return
        of_reservations = self._keep_reserved(snapshot)
        for job_id, end_us, _, text, *_ in snapshot.running:
            if job_id in of_reservations:
                continue  # back to the reservation, not to all jobs
            for name, count in license_counts(text) if text else ():
                if name in self._place and end_us < NO_END_US:
                    at_us = expected_end_us(end_us, snapshot.now_us)
                    self._profile.release(at_us, self._place[name], count)

    def _keep_reserved(self, snapshot: Snapshot) -> frozenset[int]:
        """Keep licences of reservations from others; return the jobs that hold such."""
        profile, now_us, job_ids = self._profile, snapshot.now_us, set[int]()
        for reservation in snapshot.reservations:
            inside = snapshot.licenses_inside.get(reservation.name, NOTHING_INSIDE)
            job_ids.update(inside.job_ids)
            for name, most in license_counts(reservation.licenses):
                index = self._place.get(name)
                for begin_us, end_us in reservation.occurrences() if index is not None else ():
                    assert index is not None
                    if begin_us <= now_us < end_us:
                        count = inside.left.get(name, 0) + inside.taken.get(name, 0)
                        profile.release(end_us, index, count)
                    elif begin_us > now_us:
                        profile.take(begin_us, end_us - begin_us, (index,), (most,))
        return frozenset(job_ids)

    def _need(self, demand: Demand) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return (
            tuple(self._place[name] for name, _ in demand.licenses),
            tuple(count for _, count in demand.licenses),
        )

    def free_us(self, demand: Demand, start_us: int) -> int:
        """Return when from `start_us` on they are free for as long as the job lasts, or NEVER."""
        if not demand.licenses or start_us == NEVER:
            return start_us
        self._profile.mark(start_us)
        kinds, amounts = self._need(demand)
        return self._profile.find(kinds, amounts, demand.duration_us, start_us)

    def take(self, demand: Demand, start_us: int) -> None:
        """Hold what a job asks for from a moment on."""
        if demand.licenses:
            self._profile.take(start_us, demand.duration_us, *self._need(demand))
            if self._trial is not None:
                self._trial.append((demand, start_us))

    def begin_trial(self) -> None:
        """From here on all that is taken can be given back."""
        self._trial = []

    def keep(self) -> None:
        """End the trial; what it has taken stays taken."""
        self._trial = None

    def roll_back(self) -> None:
        """End the trial as if it had never been."""
        for demand, start_us in reversed(self._trial or ()):
            kinds, amounts = self._need(demand)
            less = tuple(-amount for amount in amounts)
            self._profile.take(start_us, demand.duration_us, kinds, less)
        self._trial = None
