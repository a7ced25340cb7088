"""Room on nodes now, for a scheduler that plans nothing ahead: sched/builtin.

It knows no time: a job has room now, or it has none. So nothing is ever promised.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from pyslurm_ng._select import NEVER
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.model.reservation import WHOLE, NodePart
from pyslurm_ng.sched.cons_tres.allot import allot
from pyslurm_ng.sched.cons_tres.free_node import FreeNode
from pyslurm_ng.sched.cons_tres.hidden_parts import hide
from pyslurm_ng.sched.cons_tres.layouts import layouts_of
from pyslurm_ng.sched.cons_tres.select import choose
from pyslurm_ng.sched.cons_tres.topology import Layout
from pyslurm_ng.sched.demand.demand import Demand, Entry
from pyslurm_ng.sched.frame.plan import PastPromises, PlannedNodes
from pyslurm_ng.sched.frame.reserved import OUTSIDE, kept_parts
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.request.sharing import Units
from pyslurm_ng.sched.timeline.finding import Finding
from pyslurm_ng.sched.timeline.license_timeline import LicenseTimeline
from pyslurm_ng.sched.timeline.nearness import hardware_of
from pyslurm_ng.sched.timeline.neighbour_jobs import NeighbourJobs
from pyslurm_ng.sched.timeline.nodes_now import NodesNow
from pyslurm_ng.sched.timeline.promises import Promises
from pyslurm_ng.sched.timeline.room_planner import Settled


class RoomNow:
    """What is free now, node by node; in a finding of it the position of a node is its id."""

    learns = False
    slots = 0
    past_promises: PastPromises | None = None

    def __init__(self, snapshot: Snapshot) -> None:
        self._hardware = hardware_of(snapshot)
        self._neighbours = NeighbourJobs(
            self._hardware, Units(snapshot.topologies, snapshot.partitions)
        )
        self._layouts = _layouts(snapshot)

    def begin(self, snapshot: Snapshot, demands: Iterable[Demand]) -> None:
        """Enter what is free now."""
        self._snapshot, self._now_us = snapshot, snapshot.now_us
        self._neighbours.begin(snapshot)
        self._free = NodesNow(snapshot, self._hardware)
        open_demands = [demand for demand in demands if demand.verdict is None]
        self._licenses = LicenseTimeline(snapshot, open_demands)
        self._closed: set[int] = set()
        self._kept: dict[int, dict[int, NodePart]] = {}  # by the time a job would run

    # Closed nodes -------------------------------------------------------------------------------

    @property
    def closed(self) -> frozenset[int]:
        """The nodes that no further job of this pass gets."""
        return frozenset(self._closed)

    def close(self, node_ids: Iterable[int]) -> None:
        """Give these nodes to no further job of this pass."""
        self._closed.update(node_ids)

    # Is there room ------------------------------------------------------------------------------

    def find(self, demand: Demand) -> Finding:
        """Return room now for one more job, if there is any."""
        now_us = self._now_us
        is_late = now_us >= self._snapshot.until_us
        if is_late or self._licenses.free_us(demand, now_us) != now_us:
            return Finding(demand, NEVER)
        layout = self._layouts.get(demand.partition.name)
        nodes = self._unreserved(demand)
        with self._shown(demand, nodes):
            chosen = choose(demand.need, (node for node in nodes if node.cores), layout)
        if chosen is None:
            lies_badly = layout is not None and self.fits_unreserved(demand)
            return Finding(demand, NEVER, lies_badly=lies_badly)
        return Finding(demand, now_us, shares=[(node.node_id, tasks) for node, tasks in chosen])

    def fits_unreserved(self, demand: Demand) -> bool:
        """Return whether a job would fit but for reservations and for where nodes lie."""
        return choose(demand.need, self._open_nodes(demand)) is not None

    def find_from(self, demand: Demand, at_us: int) -> Finding:
        """Return room now, if that is not before a moment."""
        return self.find(demand) if at_us <= self._now_us else Finding(demand, NEVER)

    def _open_nodes(self, demand: Demand) -> list[FreeNode]:
        """Return the nodes of which a job may have what is free, but for reservations."""
        mask, closed, tenant = demand.mask, self._closed, demand.tenant
        neighbours = self._neighbours.now()
        minds_others = neighbours.is_any_particular or bool(tenant.sharing)
        nodes = []
        for node_id in demand.partition.node_ids:
            if not mask[node_id] or node_id in closed or not self._free.has_cpus(node_id):
                continue
            if minds_others and not neighbours.is_open(node_id, tenant):
                continue
            node = self._free.node(node_id)
            if node.cores:
                nodes.append(node)
        return nodes

    def _unreserved(self, demand: Demand) -> list[FreeNode]:
        """Return those of which at least a part is not reserved while a job would run."""
        nodes, kept = self._open_nodes(demand), self._kept_from(demand)
        if not kept:
            return nodes
        needs_all = demand.need.is_exclusive and self._snapshot.only_reservation is None
        return [
            node
            for node in nodes
            if (part := kept.get(node.node_id)) is None or (part != WHOLE and not needs_all)
        ]

    def _kept_from(self, demand: Demand) -> dict[int, NodePart]:
        """Return what reservations keep of nodes while a job would run."""
        kept = self._kept.get(demand.duration_us)
        if kept is None:
            end_us = demand.end_us(self._now_us)
            kept = kept_parts(self._snapshot.reservations, OUTSIDE, self._now_us, end_us)
            self._kept[demand.duration_us] = kept
        return kept

    @contextmanager
    def _shown(self, demand: Demand, nodes: Sequence[FreeNode]) -> Iterator[None]:
        """Take out of nodes, for a moment, what reservations keep while a job would run."""
        kept = self._kept_from(demand)
        parts = [(node, kept[node.node_id]) for node in nodes if node.node_id in kept]
        hidden = [
            hidden_part
            for node, part in parts
            if (hidden_part := hide(node, WHOLE, part)) is not None
        ]
        try:
            yield
        finally:
            for hidden_part in hidden:
                hidden_part.show()

    # Taking it ----------------------------------------------------------------------------------

    def start(self, finding: Finding) -> tuple[NodeAlloc, ...] | None:
        """Return exactly what a job gets now, and hold it."""
        demand = finding.demand
        if finding.is_left:
            allocs = finding.allocs
            self._free.give(allocs)
        else:
            chosen = [(self._free.node(node_id), tasks) for node_id, tasks in finding.shares]
            with self._shown(demand, [node for node, _ in chosen]):
                allocs = allot(demand.need, chosen)
        tenant = demand.tenant._replace(partition=demand.partition.name)
        self._free.count(allocs)
        self._neighbours.add(tenant, allocs, demand.end_us(self._now_us))
        self._licenses.take(demand, self._now_us)
        return allocs

    def place(self, demand: Demand, job_id: int) -> int:
        """Return whether a job has room now, as its start."""
        return self.find(demand).start_us

    # Nothing is promised ------------------------------------------------------------------------

    def recall(self, job_id: int, finding: Finding, first_us: int) -> Finding:
        """Return what was found: the last pass has promised nothing."""
        return finding

    def promised_as(self, job_id: int, demand: Demand) -> Demand | None:
        """Return None: see `recall`."""
        return None

    def take(self, finding: Finding, job_id: int = 0) -> None:
        """Do nothing: there is no room later that could be kept."""

    def nodes_of(self, finding: Finding) -> Iterable[int]:
        """Return the nodes that were found."""
        return [node_id for node_id, _ in finding.shares]

    def place_next(
        self,
        queue: list[Entry],
        first: int,
        settled: Settled,
        keeps: bytes | None,
    ) -> list[int]:
        """Return nothing: each job is looked at by itself."""
        return []

    def learn(self, demand: Demand) -> None:
        """Do nothing: see `place_next`."""

    def planned_nodes(self, promises: Promises) -> PlannedNodes:
        """Return nothing: no job is promised any nodes."""
        return PlannedNodes()

    # Trials -------------------------------------------------------------------------------------

    def begin_trial(self) -> None:
        """From here on all that is started can be given back."""
        self._before = self._neighbours.count()
        self._free.begin_trial()
        self._licenses.begin_trial()

    def keep(self) -> None:
        """End the trial; its starts stay."""
        self._free.keep()
        self._licenses.keep()

    def roll_back(self) -> None:
        """End the trial as if it had never been."""
        self._free.roll_back()
        self._licenses.roll_back()
        self._neighbours.cut(self._before)


def _layouts(snapshot: Snapshot) -> dict[str, Layout]:
    """Return the network of each partition that has one."""
    if not snapshot.topologies:
        return {}
    weights = snapshot.weights
    order = [node_id for node_id, spec in enumerate(snapshot.specs) if spec is not None]
    order.sort(key=lambda node_id: (weights[node_id], node_id))
    position = {node_id: index for index, node_id in enumerate(order)}
    in_order = [weights[node_id] for node_id in order]
    return layouts_of(snapshot.topologies, snapshot.partitions.values(), position, in_order)
