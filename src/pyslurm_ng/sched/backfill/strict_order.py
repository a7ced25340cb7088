"""Jobs of a partition in strict order: sched/builtin.

Once a job has to wait for room, no job behind it in its partition starts, and jobs of other
partitions get none of that partition's nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyslurm_ng.model.states import Reason
from pyslurm_ng.sched.backfill.promised_room import PromisedRoom
from pyslurm_ng.sched.cons_tres.obstacle import AWAY, Obstacles, kept_for_others, reserved_nodes
from pyslurm_ng.sched.demand import het, reason
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.frame import reserved
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.plan import Plan, Wait
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.limits.gate import LimitGate
from pyslurm_ng.sched.timeline.finding import Finding
from pyslurm_ng.sched.timeline.room_now import RoomNow


class StrictOrder:
    """What jobs without room close for those behind them, and why each of them waits."""

    def __init__(
        self,
        snapshot: Snapshot,
        planner: RoomNow,
        plan: Plan,
        gate: LimitGate,
        room: PromisedRoom,
    ) -> None:
        """Begin with all partitions open.

        Args:
            gate: has the partitions that are closed.
            room: knows the licences that are left.
        """
        self._snapshot = snapshot
        self._planner = planner
        self._plan = plan
        self._gate = gate
        self._room = room
        self._obstacles = Obstacles(snapshot)

    def wait(self, job: Waiting, finding: Finding) -> Wait:
        """Return why a job waits for which there is no room; close its partition if it must be."""
        demand = finding.demand
        closed = self._gate.stopped.get(demand.partition.name)
        wait = closed or self._before_reservation(job) or self._passing(job, demand)
        if wait is not None:
            return wait
        lasting = self._obstacles.lasting(job.request, demand)
        if lasting is not None and lasting.shown != AWAY:
            return lasting
        if lasting is None and self._planner.closed:
            lasting = kept_for_others(
                self._snapshot, demand.partition, job.request, demand.need, self._planner.closed
            )
        if lasting is None and finding.lies_badly:
            lasting = reason.topology(demand.need, self._snapshot.network(demand.partition))
        if not job.is_guest:
            self._close(job, demand)
        return lasting or reason.resources(demand)

    def wait_together(self, parts: Sequence[het.Part]) -> Wait:
        """Return the same of a heterogeneous job: why its first component without room waits."""
        waits = [self.wait(part.job, finding) for part, finding in self._blocked(parts)]
        return waits[0] if waits else reason.never_together([part.hopeful[0] for part in parts])

    def _blocked(self, parts: Sequence[het.Part]) -> list[tuple[het.Part, Finding]]:
        """Return the first component that has no room beside those before it, by partition."""
        planner, blocked = self._planner, list[tuple[het.Part, Finding]]()
        now_us, used = self._snapshot.now_us, set[int]()
        planner.begin_trial()
        for part in parts:
            blocked = []
            for demand in part.hopeful:
                finding = planner.find(demand.without(used, now_us))
                if finding.start_us == now_us:
                    used.update(planner.nodes_of(finding))
                    planner.start(finding)
                    break
                blocked.append((part, finding))
            else:
                break
            blocked = []
        planner.roll_back()
        return blocked

    def _before_reservation(self, job: Waiting) -> Wait | None:
        """Return that the reservation whose jobs are planned has not begun, if so."""
        reservation, now_us = self._snapshot.only_reservation, self._snapshot.now_us
        if reservation is None or "FLEX" in reservation.flags:
            return None
        times = reservation.occurrences()
        if any(begin_us <= now_us < end_us for begin_us, end_us in times):
            return None
        begins_us = [begin_us for begin_us, _ in times if begin_us > now_us]
        if begins_us:
            self._plan.expected_start_us.setdefault(job.job_id, min(begins_us))
        return Wait(Reason.Reservation, f"reservation {reservation.name} is not in force")

    def _passing(self, job: Waiting, demand: Demand) -> Wait | None:
        """Return what a job waits for that need not keep those behind it waiting, if so."""
        if self._room.lacks_licenses(demand):
            return reason.licenses(demand, self._room.licenses)
        reservations = self._snapshot.reservations
        if not reservations or not self._planner.fits_unreserved(demand):
            return None
        now_us = self._snapshot.now_us
        end_us = demand.end_us(now_us)
        closing = [
            closed
            for closed in reserved.closed_times(reservations, reserved.OUTSIDE)
            if closed.name != reserved.REST
            and closed.begin_us < end_us
            and closed.end_us > now_us
            and any(demand.mask[node_id] for node_id in closed.node_ids)
        ]
        return reserved_nodes(closing, now_us, demand.duration_us) if closing else None

    def _close(self, job: Waiting, demand: Demand) -> None:
        """Let those behind a job wait: in its partition, or for its nodes."""
        partition = demand.partition
        self._gate.stopped[partition.name] = reason.behind(job.job_id, partition.name)
        self._planner.close(partition.node_ids)
