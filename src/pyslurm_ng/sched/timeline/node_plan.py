"""Planning where each node counts: jobs share nodes, and nodes differ.

A timeline finds when enough nodes have enough; what starts now is chosen core by core from them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Protocol

from pyslurm_ng._select import NEVER
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.sched.cons_tres.allot import allot, deal_devices
from pyslurm_ng.sched.cons_tres.fit import tasks_that_fit
from pyslurm_ng.sched.cons_tres.free_node import MANY, FreeNode
from pyslurm_ng.sched.cons_tres.select import share_tasks
from pyslurm_ng.sched.cons_tres.topology import bits
from pyslurm_ng.sched.demand.demand import Demand, Entry
from pyslurm_ng.sched.frame.job_records import NO_END_US
from pyslurm_ng.sched.frame.plan import PlacedNodes, Places, PlannedNodes
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.snapshot import Snapshot
from pyslurm_ng.sched.request.sharing import TOPO, Units
from pyslurm_ng.sched.timeline.company import Company
from pyslurm_ng.sched.timeline.exact_amounts import Dealt, ExactAmounts, is_alike
from pyslurm_ng.sched.timeline.inside_nodes import InsideNodes
from pyslurm_ng.sched.timeline.joins import Joins
from pyslurm_ng.sched.timeline.kept_places import KeptPlace, KeptPlaces, PastPlaces
from pyslurm_ng.sched.timeline.license_timeline import LicenseTimeline
from pyslurm_ng.sched.timeline.nearness import Nearness, hardware_of
from pyslurm_ng.sched.timeline.node_timeline import Timeline
from pyslurm_ng.sched.timeline.nodes_now import NodesNow
from pyslurm_ng.sched.timeline.pass_tables import PassTables
from pyslurm_ng.sched.timeline.promises import Promises
from pyslurm_ng.sched.timeline.shapes import Shares, Variant
from pyslurm_ng.sched.timeline.uneven import Uneven

_MOST_TRIES = 16  # starts with enough of everything, but not of what jobs can use
_MOST_EXACT = 5000  # jobs of which each node's share is worked out; others give even shares


class _Trying(Protocol):
    """What can be put back as it was when a trial began."""

    def begin_trial(self) -> None: ...

    def keep(self) -> None: ...

    def roll_back(self) -> None: ...


class NodePlan:
    """The planner of single nodes; planning anew with each `begin`."""

    lies_badly = False  # the last job looked for has enough nodes now, but not near one another

    def __init__(self, snapshot: Snapshot) -> None:
        self.hardware = hardware_of(snapshot)
        self._nearness = Nearness(snapshot, self.hardware)
        self._company = Company(self.hardware, Units(snapshot.topologies, snapshot.partitions))
        self._timeline = Timeline(self.hardware, self._nearness, self._company)
        self._kept = KeptPlaces()
        self._reserved: array[int] = array("q")  # numbers of placings

    def begin(self, snapshot: Snapshot, demands: Iterable[Demand], policy: Policy) -> None:
        """Enter what is free now; later moments only once some job has to wait."""
        wanted = [demand for demand in demands if demand.verdict is None]
        self._now_us, self._until_us = snapshot.now_us, snapshot.until_us
        self._has_hosts = bool(snapshot.hosts)
        self._reserved = array("q")
        self._shares: Shares = []  # of the job found last, if its tasks are spread unevenly
        self._allocs: tuple[NodeAlloc, ...] = ()  # it, where somebody minds which cores it gets
        self._exact: Dealt | None = None  # what each node gives to it then
        self._recalled: tuple[int, KeptPlace] | None = (
            None  # where it is, if that is where it was promised
        )
        self._exact_left = _MOST_EXACT
        self._kept.begin()
        self._company.begin(snapshot)
        self._nearness.begin(snapshot, policy)
        self._free = NodesNow(snapshot, self.hardware)
        self._licenses = LicenseTimeline(snapshot, wanted)
        tables = PassTables(
            self.hardware, self._nearness, self._company, self._timeline, self._free, self._now_us
        )
        self._uneven, self._joins, self._inside = Uneven(tables), Joins(tables), InsideNodes(tables)
        self._amounts = ExactAmounts(self.hardware, self._nearness, snapshot.weights)
        self._timeline.begin(snapshot, wanted, policy.window_s)  # once nobody holds the last grid

    @property
    def slots(self) -> int:
        """How many stretches of time the grid has by now: one as long as nobody has to wait."""
        return self._timeline.slots

    @property
    def has_promised(self) -> bool:
        """Whether anybody was promised room in the last pass."""
        return bool(self._reserved)

    @property
    def keeps_places(self) -> bool:
        """Whether the next job to be promised room is to find it there again in the next pass."""
        return not self._kept.is_full

    def adopt(self, places: Places) -> None:
        """Let jobs find their room again where another planner promised it in its last pass."""
        if isinstance(places, PastPlaces):
            self._kept.adopt(places)

    @property
    def places(self) -> Places:
        """Where this pass, which is over, has promised room."""
        return self._kept.past()

    # When ---------------------------------------------------------------------------------------

    def find(self, demand: Demand) -> int:
        """Return the earliest start of one more job, or NEVER."""
        return self._in_time(self._usable(demand, self._find_counted(demand)))

    def find_from(self, demand: Demand, at_us: int) -> int:
        """Return the earliest start not before a moment, or NEVER."""
        return self._in_time(self._usable(demand, self._find_counted_from(demand, at_us)))

    def _in_time(self, start_us: int) -> int:
        """Return a start, or NEVER where none is allowed any more by then."""
        return start_us if start_us < self._until_us else NEVER

    def _usable(self, demand: Demand, start_us: int) -> int:
        """Return the first start, from what counts say, with cores and GPUs that do.

        Only where some job of the queue minds which cores or GPUs it gets: others have to make do
        with what such jobs leave.
        """
        if not self._timeline.bookings.is_kept or self._kept.is_full:
            return start_us
        for _ in range(_MOST_TRIES):
            if start_us in (NEVER, self._now_us) or not self._kept.takes(self._width()):
                break
            self._exact = self._exact_amounts(demand, start_us)
            place = self._place_of(demand, start_us, self._exact)
            self._allocs = self._inside.allot_later(place)
            if self._allocs:
                break
            start_us = self._find_counted_from(demand, start_us + 1)
        return start_us

    def _find_counted(self, demand: Demand) -> int:
        self._shares, self._exact, self._recalled, self._allocs = [], None, None, ()
        self.lies_badly = False
        now_us, uneven = self._now_us, self._uneven
        if self._join(demand):
            return now_us
        if uneven.goes_first(demand) and self._spread(demand):
            return now_us
        start_us = self._find(demand)
        if start_us == now_us or self._spread(demand):
            return now_us
        if not self._timeline.is_deep:
            self._timeline.deepen()
            start_us = self._find(demand)
        start_us = self._spread_before(demand, now_us, start_us)
        return self._join_before(demand, now_us, start_us)

    def _find_counted_from(self, demand: Demand, at_us: int) -> int:
        self._shares, self._exact, self._recalled, self._allocs = [], None, None, ()
        self.lies_badly = False
        self._timeline.deepen()
        best, best_at = NEVER, -1
        kinds = self._timeline.kinds(demand)
        for at, (kind, variant) in enumerate(kinds):
            start_us = self._find_kind_from(demand, kind, variant, at_us)
            if start_us != NEVER and (best == NEVER or start_us < best):
                best, best_at = start_us, at
        is_later = best != self._now_us and at_us <= self._now_us
        if is_later and (self._join(demand) or self._spread(demand)):
            return self._now_us
        if best_at >= 0:
            kind, variant = kinds[best_at]
            if best_at < len(kinds) - 1:
                best = self._find_kind_from(demand, kind, variant, best)
            self._chosen = kind, variant, self._found(demand, variant, best)
        best = self._spread_before(demand, at_us, best)
        return self._join_before(demand, at_us, best)

    def recall(self, job_id: int, demand: Demand, first_us: int, found_us: int) -> int:
        """Return to what a job was promised in the last pass, unless it can have its room sooner.

        Args:
            first_us: no start before this.
            found_us: the start that was found last, or NEVER.
        """
        # Who was to start before now is to do so now.
        kept = self._kept.of(job_id, demand, first_us if first_us > self._now_us else 0)
        if kept is None:
            return found_us
        start_us = max(kept.start_us, self._now_us)
        if NEVER < found_us < start_us or start_us >= self._until_us:
            return found_us
        if found_us == start_us == kept.start_us and self._is_found(kept):
            self._recalled = job_id, kept
            return start_us
        if not self._is_free(kept, start_us):
            return found_us
        if kept.variant is not None:
            self._chosen = -1, kept.variant, [place for place, _ in kept.shares]
        self._shares, self._exact = kept.shares, Dealt(kept.shares, kept.amounts)
        self._uneven.most_gpus = kept.most_gpus
        self._recalled = job_id, kept
        return start_us

    @property
    def is_recalled(self) -> bool:
        """Whether the room found last is what the job was promised before."""
        return self._recalled is not None

    def promised_as(self, job_id: int, demand: Demand) -> Demand | None:
        """Return as what a job was promised room with a limit shorter than its own, if so."""
        return self._kept.shorter(job_id, demand, self._now_us)

    def _is_found(self, kept: KeptPlace) -> bool:
        """Return whether what was found is just where a job was promised to start."""
        if self._shares or kept.variant is None or self._timeline.bookings.is_kept:
            return False
        _, variant, found = self._chosen
        return (
            variant is kept.variant
            and is_alike(kept.demand, variant)
            and found == [place for place, _ in kept.shares]
        )

    def _is_free(self, kept: KeptPlace, start_us: int) -> bool:
        """Return whether what a job was promised is still there for it."""
        demand, timeline = kept.demand, self._timeline
        if demand.need.sharing == TOPO or not timeline.has_start(start_us):
            return False
        end_us = demand.end_us(start_us)
        least = timeline.grid.least
        tasks_on, has_room = dict(kept.shares), self._joins.has_room
        for place, amounts in kept.amounts:
            is_short = any(
                amount and least(place, resource, start_us, end_us) < amount
                for resource, amount in amounts
            )
            if is_short and not has_room(demand, place, tasks_on[place], amounts, start_us):
                return False
        if self._nearness.looks_into(demand.need) and not self._has_inside(kept, start_us):
            return False
        return self._licenses.free_us(demand, start_us) == start_us

    def _has_inside(self, kept: KeptPlace, start_us: int) -> bool:
        """Return whether the cores and GPUs that a job was promised are still there for it."""
        end_us = kept.demand.end_us(start_us)
        bookings = self._timeline.bookings
        return bool(kept.allocs) and bookings.has_room(kept.allocs, start_us, end_us)

    def _join(self, demand: Demand) -> bool:
        """Try nodes with jobs of the same owner now, which keep all others away."""
        if demand.may_join and self._licenses.free_us(demand, self._now_us) == self._now_us:
            self._shares = self._joins.find(demand)
            self._uneven.most_gpus = {}
            # They are found by what fits on each node; GPUs in all may be on none of them.
            if demand.need.gres_total and self._amounts.of(demand, self._shares, {}) is None:
                self._shares = []
        return bool(self._shares)

    def _join_before(self, demand: Demand, at_us: int, found_us: int) -> int:
        """Return when there is room beside jobs of the same owner, if not after what was found."""
        if not demand.may_join or self._kept.is_full or found_us == self._now_us:
            return found_us
        before_us = found_us + (found_us != NEVER)
        start_us, shares = self._joins.find_later(demand, at_us, before_us)
        while shares and (free_us := self._licenses.free_us(demand, start_us)) != start_us:
            shares = []
            if free_us != NEVER:
                start_us, shares = self._joins.find_later(demand, free_us, before_us)
        exact = self._amounts.of(demand, shares, {}) if shares else None
        if exact is None:
            if found_us != NEVER and not self._shares:
                # The grid remembers one finding, and was asked for others meanwhile.
                self._find_kind_from(demand, *self._chosen[:2], found_us)
            return found_us
        self._shares, self._exact, self._uneven.most_gpus = shares, exact, {}
        return start_us

    def _spread(self, demand: Demand) -> bool:
        """Try to spread the tasks unevenly over what is free now."""
        if self._licenses.free_us(demand, self._now_us) != self._now_us:
            return False
        self._shares = self._uneven.find(demand)
        return bool(self._shares)

    def _spread_before(self, demand: Demand, at_us: int, even_us: int) -> int:
        """Return when the tasks can be spread unevenly before they can be evenly, or the latter."""
        before_us = even_us + (even_us != NEVER and self._uneven.goes_first(demand))
        start_us, shares = self._uneven.find_later(demand, at_us, before_us)
        while shares and (free_us := self._licenses.free_us(demand, start_us)) != start_us:
            if free_us == NEVER:
                return even_us
            start_us, shares = self._uneven.find_later(demand, free_us, before_us)
        if shares:
            self._exact = self._amounts.of(demand, shares, self._uneven.most_gpus)
        if self._exact is None or not self._can_spread(demand, self._exact, start_us):
            self._exact = None
            return even_us
        self._shares = shares
        return start_us

    def _can_spread(self, demand: Demand, dealt: Dealt, start_us: int) -> bool:
        """Return whether nodes have the cores and GPUs that a job wants for its uneven shares."""
        if not self._nearness.looks_into(demand.need):
            return True
        place = KeptPlace(demand, start_us, None, *dealt, self._uneven.most_gpus)
        return bool(self._inside.allot_later(place))

    def _find(self, demand: Demand) -> int:
        best, best_at = NEVER, -1
        kinds = self._timeline.kinds(demand)
        for at, (kind, variant) in enumerate(kinds):
            start_us = self._find_kind(demand, kind, variant)
            if start_us != NEVER and (best == NEVER or start_us < best):
                best, best_at = start_us, at
        if best_at < 0:
            return NEVER
        kind, variant = kinds[best_at]
        if best_at < len(kinds) - 1:
            # The grid remembers one finding; a second look may only find something earlier.
            best = self._find_kind(demand, kind, variant)
        self._chosen = kind, variant, self._found(demand, variant, best)
        return best

    def _find_kind(self, demand: Demand, kind: int, variant: Variant) -> int:
        grid = self._timeline.grid
        start_us = grid.find(kind)
        while start_us != NEVER:
            free_us = self._licenses.free_us(demand, start_us)
            if free_us != start_us:
                # Licences only become scarcer in a pass: there is nothing before that.
                grid.skip(kind, NO_END_US if free_us == NEVER else free_us)
            elif self._lies_well(demand, kind, variant, start_us):
                break
            else:
                if start_us == self._now_us and not self._nearness.is_picky(demand):
                    self.lies_badly = True
                grid.skip(kind, start_us + 1)
            start_us = grid.find(kind)
        return start_us

    def _find_kind_from(self, demand: Demand, kind: int, variant: Variant, at_us: int) -> int:
        grid = self._timeline.grid
        start_us = grid.find_from(kind, at_us)
        while start_us != NEVER:
            free_us = self._licenses.free_us(demand, start_us)
            if free_us == NEVER:
                return NEVER
            if free_us != start_us:
                at_us = free_us
            elif self._lies_well(demand, kind, variant, start_us):
                break
            else:
                at_us = start_us + 1
            start_us = grid.find_from(kind, at_us)
        return start_us

    # Where --------------------------------------------------------------------------------------

    def _lies_well(self, demand: Demand, kind: int, variant: Variant, start_us: int) -> bool:
        """Choose among the nodes found by the topology; return whether any choice will do."""
        if not self._nearness.is_open(demand, variant.nodes):
            return True
        return self._choose_near(demand, kind, variant, start_us)

    def _choose_near(self, demand: Demand, kind: int, variant: Variant, start_us: int) -> bool:
        def loads() -> Sequence[float]:
            return self._free.loads() if start_us == self._now_us else ()

        fits = int.from_bytes(self._timeline.grid.fitting(), "little")
        if demand.need.sharing == TOPO:
            fits = self._company.in_free_units(fits, demand, start_us)
        is_later = start_us != self._now_us
        if self._nearness.looks_into(demand.need):
            fits = self._inside.fitting(demand, variant, fits, start_us)
        chosen = self._nearness.pick(demand, fits, variant.nodes, loads, is_later=is_later)
        if chosen is None:
            return False
        self._timeline.grid.choose(kind, list(bits(chosen)))
        return True

    def _found(self, demand: Demand, variant: Variant, start_us: int) -> list[int]:
        """Return the nodes found; one node that is taken now is one its unit will miss least.

        For later starts the first node that fits will do: it is looked for again then.
        """
        grid = self._timeline.grid
        found = grid.found()
        layout = self._nearness.layout(demand)
        if layout is None or variant.nodes > 1 or demand.need.required_nodes:
            return found
        if start_us != self._now_us or self._nearness.is_picky(demand):
            return found
        kind = self._timeline.open_kind(demand, variant)
        if grid.find(kind) == start_us and self._choose_near(demand, kind, variant, start_us):
            return grid.found()
        return found

    # Taking it ----------------------------------------------------------------------------------

    def take(self, demand: Demand, start_us: int, job_id: int = 0) -> None:
        """Keep room for the job that was found last.

        Args:
            job_id: who is to be found there in the next pass again; 0: nobody.
        """
        grid = self._timeline.grid
        end_us = demand.end_us(start_us)
        dealt = self._exact_amounts(demand, start_us)
        if dealt is None:
            number = grid.take_found(self._chosen[0])
        else:
            number = self._timeline.promise(dealt.amounts, start_us, end_us)
        self._reserved.append(number)
        if self._has_hosts and not self._kept.is_full:
            shares = self._place_of(demand, start_us, dealt).shares
            self._joins.promise(demand, shares, start_us)
        keeps = bool(job_id) and self._kept.takes(self._width())
        if keeps or demand.need.has_parts:
            self._settle(job_id if keeps else 0, demand, start_us, dealt)
        if not keeps:
            self._kept.pass_over()
        if self._nearness.looks_inside and not self.keeps_places:
            # For the rest of a long queue counts have to do.
            self._nearness.looks_inside = False
            self._timeline.count_minding()
        if demand.need.sharing == TOPO:
            self._timeline.keep_apart(demand, grid.placed(number), start_us, end_us)
        self._licenses.take(demand, start_us)

    def promise(self, demand: Demand, allocs: tuple[NodeAlloc, ...], start_us: int) -> None:
        """Keep room for a job that others are to leave for; until they do it counts as theirs."""
        end_us = demand.end_us(start_us)
        tenant = demand.tenant._replace(partition=demand.partition.name)
        self._reserved.append(self._timeline.promise_allocs(tenant, allocs, start_us, end_us))
        self._licenses.take(demand, start_us)
        if self._has_hosts:
            self._company.promise(tenant, allocs, start_us, end_us)
        if self._timeline.bookings.is_kept:
            self._inside.promise(demand, allocs, start_us, end_us)

    def _settle(self, job_id: int, demand: Demand, start_us: int, dealt: Dealt | None) -> None:
        """Say what exactly the job found last is to have, and remember it for the next pass."""
        allocs = self._allocs
        if self._recalled is not None:
            place = self._recalled[1]._replace(start_us=start_us)
            self._kept.drop(*self._recalled)
            allocs = place.allocs
        else:
            place = self._place_of(demand, start_us, dealt)
        bookings = self._timeline.bookings
        if bookings.is_kept:
            end_us = demand.end_us(start_us)
            if not allocs or not bookings.has_room(allocs, start_us, end_us):
                allocs = self._inside.allot_later(place)
            self._inside.promise(demand, allocs, start_us, end_us)
        if job_id:
            self._kept.add(job_id, place._replace(allocs=allocs))

    def _width(self) -> int:
        """Return how many nodes the job found last is to have."""
        return len(self._shares or self._chosen[2])

    def _place_of(self, demand: Demand, start_us: int, dealt: Dealt | None) -> KeptPlace:
        """Return where the job found last is to be."""
        variant = None
        if not self._shares:
            _, variant, found = self._chosen
        if dealt is None:
            assert variant is not None
            kind_of = self.hardware.kind_of
            alike = {
                kind: tuple(zip(variant.resources, variant.amounts[kind], strict=True))
                for kind in {kind_of[place] for place in found}
            }
            dealt = Dealt(
                [(place, variant.tasks_per_node) for place in found],
                [(place, alike[kind_of[place]]) for place in found],
            )
        most_gpus = self._uneven.most_gpus if self._shares else {}
        return KeptPlace(demand, start_us, variant, *dealt, most_gpus)

    def _exact_amounts(self, demand: Demand, start_us: int) -> Dealt | None:
        """Return what each node gives to the job found last, None where all give the same."""
        if self._exact is not None or self._shares:
            return self._exact or self._amounts.of(demand, self._shares, self._uneven.most_gpus)
        _, variant, found = self._chosen
        if is_alike(demand, variant) or self._exact_left <= 0:
            return None
        self._exact_left -= 1
        shares = self._uneven.filled(demand, variant, found, start_us)
        return self._amounts.of(demand, shares, {})

    def place(self, demand: Demand, job_id: int) -> int:
        """Find the earliest start and keep room there at once, if it is not now.

        A short cut for what most jobs of a long queue are: one variant, one deep grid.
        """
        if self.keeps_places:
            start_us = self.recall(job_id, demand, self._now_us, self.find(demand))
            if start_us not in (NEVER, self._now_us):
                self.take(demand, start_us, job_id)
            return start_us
        kind = demand.kind
        if kind < 0:
            start_us = self.find(demand)
            if start_us not in (NEVER, self._now_us):
                self.take(demand, start_us)
            self.learn(demand)
            return start_us
        start_us, number = self._timeline.grid.place(kind)
        if number >= 0:
            self._reserved.append(number)
        elif start_us != NEVER:
            self._shares, self._exact, self._recalled, self._allocs = [], None, None, ()
            variant = self._timeline.kinds(demand)[0][1]
            self._chosen = kind, variant, self._found(demand, variant, start_us)
        return start_us

    def learn(self, demand: Demand) -> None:
        """Have the grid look for jobs of a demand that waits by itself, if that is all it takes."""
        kinds = self._timeline.kinds(demand)
        if (
            self._timeline.is_deep
            and self._until_us == NO_END_US
            and len(kinds) == 1
            and not demand.licenses
            and not self._nearness.is_open(demand, kinds[0][1].nodes)
            and self._uneven.is_hopeless(demand)
            and (is_alike(demand, kinds[0][1]) or self._exact_left <= 0)
        ):
            demand.kind = kinds[0][0]

    def place_next(self, queue: list[Entry], first: int, keeps: bytes | None = None) -> list[int]:
        """Find room for the next jobs of a queue at once; return when they start.

        It ends before the first job that may start now, or whose demand is not learned.

        Args:
            keeps: a byte for each job of the queue, 0 for who is not kept room; None: all are.
        """
        grid = self._timeline.grid
        if self.keeps_places and (keeps is None or self._timeline.bookings.is_kept):
            return []
        if keeps is None:
            starts_us, numbers = grid.place_next(queue, first)
        else:
            if self.keeps_places:
                keeps = keeps.replace(b"\1", b"\2")  # they are to be found there again
            starts_us, numbers = grid.place_next(queue, first, keeps, self._kept.last)
        self._reserved.frombytes(numbers)
        return starts_us

    def start(self, demand: Demand) -> tuple[NodeAlloc, ...] | None:
        """Return exactly what the job found last gets now, and hold it."""
        need = demand.need
        if self._shares:
            shares = self._shares
        else:
            _, variant, found = self._chosen
            shares = self._uneven.filled(demand, variant, found, self._now_us)
        order = self.hardware.order
        nodes = [
            (self._free.node(node_id), share)
            for node_id, share in sorted((order[place], share) for place, share in shares)
        ]
        for place, most in self._uneven.most_gpus.items() if self._shares else ():
            self._free.node(order[place]).most_gpus = most
        allocs = self._promised_now(demand) or self._allot_now(demand, nodes)
        if allocs is None and self._timeline.bookings.is_kept and not need.minds_places:
            allocs = self._allot_now(demand, nodes, only_fixed=True)
        for node, _ in nodes:
            node.most_gpus = MANY
        if allocs is not None:
            self._hold(demand, allocs)
            if self._recalled is not None:
                self._kept.drop(*self._recalled)
        return allocs

    def _promised_now(self, demand: Demand) -> tuple[NodeAlloc, ...]:
        """Take the very cores and devices that the job found last was promised, if it was any."""
        bookings = self._timeline.bookings
        if self._recalled is None or not bookings.is_kept or demand.need.is_capped:
            return ()
        allocs = self._recalled[1].allocs
        end_us = demand.end_us(self._now_us)
        if not self._free.has(allocs) or not bookings.has_room(allocs, self._now_us, end_us):
            return ()
        self._free.give(allocs)
        return allocs

    def _allot_now(
        self, demand: Demand, nodes: list[tuple[FreeNode, int]], *, only_fixed: bool = False
    ) -> tuple[NodeAlloc, ...] | None:
        """Give a job cores, memory and devices of some nodes, as many tasks at most as said."""
        need, free = demand.need, [node for node, _ in nodes]
        promised = self._inside.hide(free, demand, only_fixed=only_fixed)
        hidden = self._free.hide_kept(free, demand.duration_us)
        fits = [(node, tasks_that_fit(need, node)) for node in free]
        # Who has a whole node fills it, as everywhere else; a list of tasks is kept to.
        if not need.is_exclusive and not need.listed_tasks:
            fits = [
                (node, min(fit, share)) for (node, fit), (_, share) in zip(fits, nodes, strict=True)
            ]
        layout = self._nearness.layout(demand)
        chosen = share_tasks(need, fits, layout) if all(fit > 0 for _, fit in fits) else None
        if chosen is not None and deal_devices(need, chosen) is None:
            chosen = None
        allocs = allot(need, chosen) if chosen is not None else None
        for one in hidden:
            one.show()
        self._inside.show(free, promised)
        return allocs

    def give(self, demand: Demand, allocs: tuple[NodeAlloc, ...]) -> None:
        """Take from now on what a job gets that was not looked for here."""
        self._free.give(allocs)
        self._hold(demand, allocs)

    def _hold(self, demand: Demand, allocs: tuple[NodeAlloc, ...]) -> None:
        """Take from now on what a job gets that starts, or that preempts others for it."""
        end_us = demand.end_us(self._now_us)
        tenant = demand.tenant._replace(partition=demand.partition.name)
        self._timeline.hold(tenant, allocs, end_us)
        self._free.count(allocs)
        self._company.add(tenant, allocs, end_us)
        self._joins.took(demand)
        self._licenses.take(demand, self._now_us)

    def planned_nodes(self, reservations: Promises) -> PlannedNodes:
        """Return the nodes of every reservation, by job id; of an array's first."""
        placed = self._timeline.grid.all_placed()
        return PlacedNodes(reservations.job_ids, self._reserved, placed, self.hardware.order)

    # Trials: room for several jobs at once, or none at all --------------------------------------

    def begin_trial(self) -> None:
        """From here on all that is taken or started can be given back."""
        self._timeline.deepen()
        self._before = len(self._reserved), self._company.count()
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
        self._company.cut(newcomers)

    def _parts(self) -> Iterable[_Trying]:
        timeline = self._timeline
        return (
            timeline.grid, timeline.bookings, timeline.shared_gpus, self._uneven, self._joins,
            self._free, self._licenses,
        )  # fmt: skip
