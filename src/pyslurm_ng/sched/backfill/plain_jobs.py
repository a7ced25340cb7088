"""Quick answers for plain jobs, which most of a long queue are: only room decides about them."""

from __future__ import annotations

from itertools import compress

from pyslurm_ng.sched.backfill.walk_result import WalkResult
from pyslurm_ng.sched.demand.demand import Demand, Entry
from pyslurm_ng.sched.frame.job_records import Waiting

_CLEAR_STRETCH = 64  # jobs


class PlainJobs:
    """Jobs of one walk that need no look at everything else."""

    def __init__(self, walk: WalkResult) -> None:
        self._snapshot = walk.snapshot
        self._plan = walk.plan
        self._planner = walk.planner
        self._gate = walk.gate
        self._room = walk.room

    def is_answered(self, job: Waiting, demand: Demand, *, keeps_all: bool) -> bool:
        """Decide about a job if it is a plain one; return whether it was.

        Args:
            keeps_all: every job of the queue has room kept for it.
        """
        if job.array_pending or job.het_job_id:
            return False
        job_id, expected = job.job_id, self._plan.expected_start_us
        # Room only shrinks in a pass: where one job has none, none has that asks for the same.
        known = None if self._snapshot.claims else self._room.hopeless.get(id(demand))
        is_plain = keeps_all and demand.is_plain
        wait = self._room.behind.get(demand.partition.name) if is_plain else None
        if (known is None and wait is None) or not self._gate.is_clear(job, demand):
            return False
        if known is not None:
            self._plan.waits.setdefault(job_id, known)
            return True
        if wait is None or job_id in expected:
            return False
        start_us = self._planner.place(demand, job_id)
        if start_us <= self._snapshot.now_us:
            return False
        expected[job_id] = start_us
        self._room.promises.append(job_id, demand, start_us)
        self._plan.waits[job_id] = wait
        return True

    def place_next(self, queue: list[Entry], first: int, keeps: bytes | None) -> int:
        """Find room for the next jobs, if they are of the plainest sort; return how many.

        Args:
            keeps: see `PromisedRoom`.
        """
        planner, behind = self._planner, self._room.behind
        if self._gate.is_open:
            starts_us = planner.place_next(queue, first, self._room.settled, keeps)
        else:
            clear = self._clear(queue, first)
            marks = None if keeps is None else keeps[first : first + len(clear)]
            starts_us = planner.place_next(clear, 0, self._room.settled, marks)
        placed = queue[first : first + len(starts_us)]
        if placed:
            job_ids = [job.job_id for _, job, _ in placed]
            demands = [demand for _, _, demand in placed]
            if keeps is None:
                waits = [behind[demand.partition.name] for demand in demands]
            else:
                waits = self._room.waits(placed)
            self._plan.expected_start_us.put_all(job_ids, starts_us)
            self._plan.waits.update(zip(job_ids, waits, strict=True))
            if keeps is not None:
                kept = keeps[first : first + len(placed)]
                job_ids, starts_us = [*compress(job_ids, kept)], [*compress(starts_us, kept)]
                demands = [*compress(demands, kept)]
            self._room.promises.extend(job_ids, demands, starts_us)
            self._plan.tested += len(placed)
        return len(placed)

    def learn(self, demand: Demand) -> None:
        """Let `place_next` take jobs of a demand that has just been looked at, if it is plain."""
        is_plain = demand.is_plain and demand.loose is None and not demand.need.sharing
        if is_plain and self._room.is_settled(demand.partition.name):
            self._planner.learn(demand)

    def _clear(self, queue: list[Entry], first: int) -> list[Entry]:
        """Return the next jobs as far as it is plain that no limit is in their way.

        Only a few: a start among them changes what is left under the limits.
        """
        plain = []
        for entry in queue[first : first + _CLEAR_STRETCH]:
            _, job, demand = entry
            if demand.kind < 0 or not self._gate.is_clear(job, demand):
                break
            plain.append(entry)
        return plain
