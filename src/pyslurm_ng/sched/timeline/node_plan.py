"""Planning where each node counts: jobs share nodes, and nodes differ.

A timeline finds when enough nodes have enough; what starts now is chosen core by core from them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Protocol

from pyslurm_ng._select import NEVER
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.sched.cons_tres.free_node import MANY
from pyslurm_ng.sched.demand.demand import Demand, Entry
from pyslurm_ng.sched.frame.job_records import NO_END_US
from pyslurm_ng.sched.frame.plan import PastPromises, PlacedNodes, PlannedNodes
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.request.sharing import TOPO, Units
from pyslurm_ng.sched.timeline.exact_amounts import Dealt, ExactAmounts, is_alike
from pyslurm_ng.sched.timeline.finding import Finding
from pyslurm_ng.sched.timeline.inside_nodes import InsideNodes
from pyslurm_ng.sched.timeline.kept_promises import KeptPromises, PromisesByJob
from pyslurm_ng.sched.timeline.license_timeline import LicenseTimeline
from pyslurm_ng.sched.timeline.nearness import Nearness, hardware_of
from pyslurm_ng.sched.timeline.neighbour_jobs import NeighbourJobs
from pyslurm_ng.sched.timeline.node_search import NodeSearch, Searched
from pyslurm_ng.sched.timeline.node_timeline import Timeline
from pyslurm_ng.sched.timeline.nodes_now import NodesNow
from pyslurm_ng.sched.timeline.owner_room import OwnerRoom
from pyslurm_ng.sched.timeline.pass_tables import PassTables
from pyslurm_ng.sched.timeline.promises import Promises
from pyslurm_ng.sched.timeline.room_planner import Settled
from pyslurm_ng.sched.timeline.uneven import Uneven


class _Trying(Protocol):
    """What can be put back as it was when a trial began."""

    def begin_trial(self) -> None: ...

    def keep(self) -> None: ...

    def roll_back(self) -> None: ...


class NodePlan:
    """The planner of single nodes; each `begin` starts a new plan."""

    learns = True

    def __init__(self, snapshot: Snapshot) -> None:
        self.hardware = hardware_of(snapshot)
        self._nearness = Nearness(snapshot, self.hardware)
        self._neighbours = NeighbourJobs(
            self.hardware, Units(snapshot.topologies, snapshot.partitions)
        )
        self._timeline = Timeline(self.hardware, self._nearness, self._neighbours)
        self._kept = KeptPromises()
        self._reserved: array[int] = array("q")  # numbers of placings

    def begin(self, snapshot: Snapshot, demands: Iterable[Demand], policy: Policy) -> None:
        """Enter what is free now; later moments only once some job has to wait."""
        open_demands = [demand for demand in demands if demand.verdict is None]
        self._now_us, self._is_endless = snapshot.now_us, snapshot.until_us == NO_END_US
        self._has_hosts = bool(snapshot.hosts)
        self._reserved = array("q")
        self._kept.begin()
        self._neighbours.begin(snapshot)
        self._nearness.begin(snapshot, policy)
        self._free = NodesNow(snapshot, self.hardware)
        self._licenses = LicenseTimeline(snapshot, open_demands)
        tables = PassTables(
            self.hardware,
            self._nearness,
            self._neighbours,
            self._timeline,
            self._free,
            self._now_us,
        )
        self._uneven, self._owner_room, self._inside = (
            Uneven(tables),
            OwnerRoom(tables),
            InsideNodes(tables),
        )
        amounts = ExactAmounts(self.hardware, self._nearness, snapshot.weights)
        searched = Searched(
            self._uneven, self._owner_room, self._inside, amounts, self._licenses, self._kept
        )
        self._search = NodeSearch(tables, searched, snapshot.until_us)
        self._timeline.begin(
            snapshot, open_demands, policy.window_s
        )  # when no code holds the last grid

    @property
    def slots(self) -> int:
        """How many stretches of time the grid has by now: one as long as no job has to wait."""
        return self._timeline.slots

    @property
    def has_promised(self) -> bool:
        """Whether any job was promised room in the last pass."""
        return bool(self._reserved)

    @property
    def keeps_promises(self) -> bool:
        """Whether the next job to be promised room is to find it there again in the next pass."""
        return not self._kept.is_full

    def adopt(self, past_promises: PastPromises) -> None:
        """Let jobs find their room again where another planner promised it in its last pass."""
        if isinstance(past_promises, PromisesByJob):
            self._kept.adopt(past_promises)

    @property
    def past_promises(self) -> PastPromises:
        """Where this pass, which is over, has promised room."""
        return self._kept.past()

    # When ---------------------------------------------------------------------------------------

    def find(self, demand: Demand) -> Finding:
        """Return the earliest start of one more job."""
        return self._search.find(demand)

    def find_from(self, demand: Demand, at_us: int) -> Finding:
        """Return the earliest start not before a moment."""
        return self._search.find_from(demand, at_us)

    def recall(self, job_id: int, finding: Finding, first_us: int) -> Finding:
        """Return what a job was promised in the last pass, unless it was found room sooner."""
        return self._search.recall(job_id, finding, first_us)

    def promised_as(self, job_id: int, demand: Demand) -> Demand | None:
        """Return as what a job was promised room with a limit shorter than its own, if so."""
        return self._kept.shorter(job_id, demand, self._now_us)

    # Taking it ----------------------------------------------------------------------------------

    def take(self, finding: Finding, job_id: int = 0) -> None:
        """Keep room for a job that starts later.

        Args:
            job_id: the job that shall be found there again in the next pass; 0: none.
        """
        if finding.is_left:
            self._promise(finding)
            return
        demand, start_us = finding.demand, finding.start_us
        grid = self._timeline.grid
        end_us = demand.end_us(start_us)
        dealt = self._search.dealt(finding)
        if dealt is None:
            number = grid.take_nodes(finding.kind, finding.positions, start_us)
        else:
            number = self._timeline.promise(dealt.amounts, start_us, end_us)
        self._reserved.append(number)
        if self._has_hosts and not self._kept.is_full:
            shares = self._search.promise_of(finding, dealt).shares
            self._owner_room.promise(demand, shares, start_us)
        keeps = bool(job_id) and self._kept.takes(finding.width)
        if keeps or demand.need.has_parts:
            self._settle(job_id if keeps else 0, finding, dealt)
        if not keeps:
            self._kept.pass_over()
        if self._nearness.looks_inside and not self.keeps_promises:
            # For the rest of a long queue counts have to do.
            self._nearness.looks_inside = False
            self._timeline.kinds.count_minding()
        if demand.need.sharing == TOPO:
            self._timeline.keep_apart(demand, grid.placed(number), start_us, end_us)
        self._licenses.take(demand, start_us)

    def _promise(self, finding: Finding) -> None:
        """Keep room for a job that others are to leave for; until they do it counts as theirs."""
        demand, start_us, allocs = finding.demand, finding.start_us, finding.allocs
        end_us = demand.end_us(start_us)
        tenant = demand.tenant._replace(partition=demand.partition.name)
        self._reserved.append(self._timeline.promise_allocs(tenant, allocs, start_us, end_us))
        self._licenses.take(demand, start_us)
        if self._has_hosts:
            self._neighbours.promise(tenant, allocs, start_us, end_us)
        if self._timeline.bookings.is_kept:
            self._inside.promise(demand, allocs, start_us, end_us)

    def _settle(self, job_id: int, finding: Finding, dealt: Dealt | None) -> None:
        """Say what exactly a job is to have, and remember it for the next pass."""
        demand, start_us, recalled = finding.demand, finding.start_us, finding.recalled
        if recalled is not None:
            self._kept.drop(*recalled)
            kept = recalled.promise._replace(start_us=start_us)
            allocs = kept.allocs
        else:
            kept = self._search.promise_of(finding, dealt)
            allocs = finding.allocs
        bookings = self._timeline.bookings
        if bookings.is_kept:
            end_us = demand.end_us(start_us)
            if not allocs or not bookings.has_room(allocs, start_us, end_us):
                allocs = self._inside.allot_later(kept)
            self._inside.promise(demand, allocs, start_us, end_us)
        if job_id:
            self._kept.add(job_id, kept._replace(allocs=allocs))

    def nodes_of(self, finding: Finding) -> Iterable[int]:
        """Return the nodes that were found."""
        order, shares = self.hardware.order, finding.shares
        positions = [position for position, _ in shares] if shares else finding.positions
        return [order[position] for position in positions]

    def place(self, demand: Demand, job_id: int) -> int:
        """Find the earliest start and keep room there at once, if it is not now.

        A short cut for what most jobs of a long queue are: one variant, one deep grid.
        """
        kind = demand.kind
        if kind >= 0 and not self.keeps_promises:
            start_us, number = self._timeline.grid.place(kind)
            if number >= 0:
                self._reserved.append(number)
            return start_us
        finding = self.find(demand)
        if self.keeps_promises:
            finding = self.recall(job_id, finding, self._now_us)
            if finding.start_us not in (NEVER, self._now_us):
                self.take(finding, job_id)
        else:
            if finding.start_us not in (NEVER, self._now_us):
                self.take(finding)
            self.learn(demand)
        return finding.start_us

    def learn(self, demand: Demand) -> None:
        """Let the grid alone search for jobs of a demand that waits, if that is all it takes."""
        kinds = self._timeline.kinds.of(demand)
        if (
            self._timeline.is_deep
            and self._is_endless
            and len(kinds) == 1
            and not demand.licenses
            and not self._nearness.is_open(demand, kinds[0][1].nodes)
            and self._uneven.is_hopeless(demand)
            and (is_alike(demand, kinds[0][1]) or not self._search.deals_exactly)
        ):
            demand.kind = kinds[0][0]

    def place_next(
        self,
        queue: list[Entry],
        first: int,
        settled: Settled,
        keeps: bytes | None,
    ) -> list[int]:
        """Find room for the next jobs of a queue at once: see `RoomPlanner`.

        It ends before a job whose demand is not learned, too. `settled` is not asked: jobs of
        demands that were learned have others before them.
        """
        grid = self._timeline.grid
        if self.keeps_promises and (keeps is None or self._timeline.bookings.is_kept):
            return []
        if keeps is None:
            starts_us, numbers = grid.place_next(queue, first)
        else:
            if self.keeps_promises:
                keeps = keeps.replace(b"\1", b"\2")  # they are to be found there again
            starts_us, numbers = grid.place_next(queue, first, keeps, self._kept.last)
        self._reserved.frombytes(numbers)
        return starts_us

    def start(self, finding: Finding) -> tuple[NodeAlloc, ...] | None:
        """Return exactly what a job gets now, and hold it."""
        demand, need = finding.demand, finding.demand.need
        if finding.is_left:
            self._free.give(finding.allocs)
            self._hold(demand, finding.allocs)
            return finding.allocs
        order = self.hardware.order
        nodes = [
            (self._free.node(node_id), share)
            for node_id, share in sorted(
                (order[position], share) for position, share in self._search.shares_now(finding)
            )
        ]
        for position, most in finding.most_gpus.items():
            self._free.node(order[position]).most_gpus = most
        inside, allocs = self._inside, None
        if finding.recalled is not None:
            allocs = inside.take_promised(demand, finding.recalled.promise.allocs)
        if allocs is None:
            allocs = inside.allot_now(demand, nodes)
        if allocs is None and self._timeline.bookings.is_kept and not need.minds_places:
            allocs = inside.allot_now(demand, nodes, only_fixed=True)
        for node, _ in nodes:
            node.most_gpus = MANY
        if allocs is not None:
            self._hold(demand, allocs)
            if finding.recalled is not None:
                self._kept.drop(*finding.recalled)
        return allocs

    def _hold(self, demand: Demand, allocs: tuple[NodeAlloc, ...]) -> None:
        """Take from now on what a job gets that starts, or that preempts others for it."""
        end_us = demand.end_us(self._now_us)
        tenant = demand.tenant._replace(partition=demand.partition.name)
        self._timeline.hold(tenant, allocs, end_us)
        self._free.count(allocs)
        self._neighbours.add(tenant, allocs, end_us)
        self._owner_room.took(demand)
        self._licenses.take(demand, self._now_us)

    def planned_nodes(self, reservations: Promises) -> PlannedNodes:
        """Return the nodes of every reservation, by job id; of an array's first."""
        placed = self._timeline.grid.all_placed()
        return PlacedNodes(reservations.job_ids, self._reserved, placed, self.hardware.order)

    # Trials: room for several jobs at once, or none at all --------------------------------------

    def begin_trial(self) -> None:
        """From here on all that is taken or started can be given back."""
        self._timeline.deepen()
        self._before = len(self._reserved), self._neighbours.count()
        for part in self._parts():
            part.begin_trial()

    def keep(self) -> None:
        """End the trial; what it has taken stays taken."""
        for part in self._parts():
            part.keep()

    def roll_back(self) -> None:
        """End the trial as if it had never been."""
        for part in self._parts():
            part.roll_back()
        reserved, newcomers = self._before
        del self._reserved[reserved:]
        self._neighbours.cut(newcomers)

    def _parts(self) -> Iterable[_Trying]:
        timeline = self._timeline
        return (
            timeline.grid, timeline.bookings, timeline.shared_gpus, self._uneven, self._owner_room,
            self._free, self._licenses,
        )  # fmt: skip
