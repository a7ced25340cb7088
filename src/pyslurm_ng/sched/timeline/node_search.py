"""When and where one more job fits, where each node counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pyslurm_ng._select import NEVER
from pyslurm_ng.sched.demand.demand import Demand
from pyslurm_ng.sched.request.sharing import TOPO
from pyslurm_ng.sched.timeline.even_search import EvenSearch
from pyslurm_ng.sched.timeline.exact_amounts import Dealt, ExactAmounts, is_alike
from pyslurm_ng.sched.timeline.finding import Finding, Recalled
from pyslurm_ng.sched.timeline.inside_nodes import InsideNodes
from pyslurm_ng.sched.timeline.kept_promises import KeptPromise, KeptPromises
from pyslurm_ng.sched.timeline.license_timeline import LicenseTimeline
from pyslurm_ng.sched.timeline.owner_room import OwnerRoom
from pyslurm_ng.sched.timeline.pass_tables import PassTables
from pyslurm_ng.sched.timeline.uneven import Spread, Uneven

_MOST_TRIES = 16  # starts with enough of everything, but not of what jobs can use
_MOST_EXACT = 5000  # jobs of which each node's share is worked out; others give even shares


class Searched(NamedTuple):
    """What the searches of one pass look into beside the tables."""

    uneven: Uneven
    owner_room: OwnerRoom
    inside: InsideNodes
    amounts: ExactAmounts
    licenses: LicenseTimeline
    kept: KeptPromises


class NodeSearch:
    """The search for room of one pass; what is found is taken by `NodePlan`."""

    def __init__(self, tables: PassTables, searched: Searched, until_us: int) -> None:
        """Begin a pass in which no job may start at `until_us` or later."""
        self._hardware = tables.hardware
        self._nearness = tables.nearness
        self._timeline = tables.timeline
        self._now_us, self._until_us = tables.now_us, until_us
        self._uneven, self._owner_room, self._inside, self._amounts, self._licenses, self._kept = (
            searched
        )
        self._even = EvenSearch(tables, searched.inside, searched.licenses)
        self._exact_left = _MOST_EXACT

    @property
    def deals_exactly(self) -> bool:
        """Whether each node's share is still worked out, of jobs that may have uneven ones."""
        return self._exact_left > 0

    # When ---------------------------------------------------------------------------------------

    def find(self, demand: Demand) -> Finding:
        """Return the earliest start of one more job."""
        return self._in_time(self._usable(self._find_counted(demand)))

    def find_from(self, demand: Demand, at_us: int) -> Finding:
        """Return the earliest start not before a moment."""
        return self._in_time(self._usable(self._find_counted_from(demand, at_us)))

    def _in_time(self, finding: Finding) -> Finding:
        """Return the finding, or None if no start is allowed by then."""
        return finding if finding.start_us < self._until_us else finding._replace(start_us=NEVER)

    def _usable(self, finding: Finding) -> Finding:
        """Return the first start, from what counts say, with cores and GPUs that do.

        Only where some job of the queue minds which cores or GPUs it gets: others have to make do
        with what such jobs leave.
        """
        if not self._timeline.bookings.is_kept or self._kept.is_full:
            return finding
        for _ in range(_MOST_TRIES):
            if finding.start_us in (NEVER, self._now_us) or not self._kept.takes(finding.width):
                break
            dealt = self.dealt(finding)
            allocs = self._inside.allot_later(self.promise_of(finding, dealt))
            if allocs:
                return finding._replace(dealt=dealt, allocs=allocs)
            finding = self._find_counted_from(finding.demand, finding.start_us + 1)
        return finding

    def _find_counted(self, demand: Demand) -> Finding:
        now_us, uneven = self._now_us, self._uneven
        at_once = self._join(demand)
        if at_once is None and uneven.goes_first(demand):
            at_once = self._spread(demand)
        if at_once is not None:
            return at_once
        even = self._even.find(demand)
        if even.start_us == now_us:
            return even
        spread = self._spread(demand)
        if spread is not None:
            return spread._replace(lies_badly=even.lies_badly)
        if not self._timeline.is_deep:
            self._timeline.deepen()
            lay_badly = even.lies_badly
            even = self._even.find(demand)
            if lay_badly:
                even = even._replace(lies_badly=True)
        return self._join_before(self._spread_before(even, now_us), now_us)

    def _find_counted_from(self, demand: Demand, at_us: int) -> Finding:
        self._timeline.deepen()
        even = self._even.find_from(demand, at_us)
        if even.start_us != self._now_us and at_us <= self._now_us:
            at_once = self._join(demand) or self._spread(demand)
            if at_once is not None:
                return at_once
        return self._join_before(self._spread_before(even, at_us), at_us)

    # Where a job was promised to be -------------------------------------------------------------

    def recall(self, job_id: int, finding: Finding, first_us: int) -> Finding:
        """Return what a job was promised in the last pass, unless it was found room sooner.

        Args:
            first_us: no start before this.
        """
        # A job that was to start before now is to start now.
        demand, earliest_us = finding.demand, finding.start_us
        kept = self._kept.of(job_id, demand, first_us if first_us > self._now_us else 0)
        if kept is None:
            return finding
        start_us = max(kept.start_us, self._now_us)
        if NEVER < earliest_us < start_us or start_us >= self._until_us:
            return finding
        recalled = Recalled(job_id, kept)
        if earliest_us == start_us == kept.start_us and self._is_as_promised(finding, kept):
            return finding._replace(recalled=recalled)
        if not self._is_free(kept, start_us):
            return finding
        return Finding(
            demand,
            start_us,
            variant=kept.variant,
            positions=[position for position, _ in kept.shares],
            shares=kept.shares,
            most_gpus=kept.most_gpus,
            dealt=Dealt(kept.shares, kept.amounts),
            recalled=recalled,
            lies_badly=finding.lies_badly,
        )

    def _is_as_promised(self, finding: Finding, kept: KeptPromise) -> bool:
        """Return whether what was found is just where a job was promised to start."""
        if finding.shares or kept.variant is None or self._timeline.bookings.is_kept:
            return False
        return (
            finding.variant is kept.variant
            and is_alike(kept.demand, kept.variant)
            and finding.positions == [position for position, _ in kept.shares]
        )

    def _is_free(self, kept: KeptPromise, start_us: int) -> bool:
        """Return whether what a job was promised is still there for it."""
        demand, timeline = kept.demand, self._timeline
        if demand.need.sharing == TOPO or not timeline.has_start(start_us):
            return False
        end_us = demand.end_us(start_us)
        least = timeline.grid.least
        tasks_on, has_room = dict(kept.shares), self._owner_room.has_room
        for position, amounts in kept.amounts:
            is_short = any(
                amount and least(position, resource, start_us, end_us) < amount
                for resource, amount in amounts
            )
            if is_short and not has_room(demand, position, tasks_on[position], amounts, start_us):
                return False
        if self._nearness.looks_into(demand.need) and not self._has_inside(kept, start_us):
            return False
        return self._licenses.free_us(demand, start_us) == start_us

    def _has_inside(self, kept: KeptPromise, start_us: int) -> bool:
        """Return whether the cores and GPUs that a job was promised are still there for it."""
        end_us = kept.demand.end_us(start_us)
        bookings = self._timeline.bookings
        return bool(kept.allocs) and bookings.has_room(kept.allocs, start_us, end_us)

    # Beside jobs of the same owner --------------------------------------------------------------

    def _join(self, demand: Demand) -> Finding | None:
        """Try nodes with jobs of the same owner now, which keep all others away."""
        if not demand.may_join or self._licenses.free_us(demand, self._now_us) != self._now_us:
            return None
        shares = self._owner_room.find(demand)
        if not shares:
            return None
        # They are found by what fits on each node; GPUs in all may be on none of them.
        if demand.need.gres_total and self._amounts.of(demand, shares, {}) is None:
            return None
        return Finding(demand, self._now_us, shares=shares)

    def _join_before(self, finding: Finding, not_before_us: int) -> Finding:
        """Return room beside jobs of the same owner, if that is not after what was found."""
        demand, earliest_us = finding.demand, finding.start_us
        if not demand.may_join or self._kept.is_full or earliest_us == self._now_us:
            return finding
        before_us = earliest_us + (earliest_us != NEVER)
        start_us, shares = self._owner_room.find_later(demand, not_before_us, before_us)
        while shares and (free_us := self._licenses.free_us(demand, start_us)) != start_us:
            shares = []
            if free_us != NEVER:
                start_us, shares = self._owner_room.find_later(demand, free_us, before_us)
        dealt = self._amounts.of(demand, shares, {}) if shares else None
        if dealt is None:
            return finding
        return Finding(demand, start_us, shares=shares, dealt=dealt, lies_badly=finding.lies_badly)

    # Spread unevenly ----------------------------------------------------------------------------

    def _spread(self, demand: Demand) -> Finding | None:
        """Try to spread the tasks unevenly over what is free now."""
        if self._licenses.free_us(demand, self._now_us) != self._now_us:
            return None
        spread = self._uneven.find(demand)
        if not spread.shares:
            return None
        return Finding(demand, self._now_us, shares=spread.shares, most_gpus=spread.most_gpus)

    def _spread_before(self, even: Finding, at_us: int) -> Finding:
        """Return an uneven spread of the tasks that starts before an even one, or the latter."""
        demand, even_us = even.demand, even.start_us
        before_us = even_us + (even_us != NEVER and self._uneven.goes_first(demand))
        start_us, spread = self._uneven.find_later(demand, at_us, before_us)
        while spread.shares and (free_us := self._licenses.free_us(demand, start_us)) != start_us:
            if free_us == NEVER:
                return even
            start_us, spread = self._uneven.find_later(demand, free_us, before_us)
        if not spread.shares:
            return even
        dealt = self._amounts.of(demand, spread.shares, spread.most_gpus)
        if dealt is None or not self._can_spread(demand, spread, dealt, start_us):
            return even
        return Finding(
            demand,
            start_us,
            shares=spread.shares,
            most_gpus=spread.most_gpus,
            dealt=dealt,
            lies_badly=even.lies_badly,
        )

    def _can_spread(self, demand: Demand, spread: Spread, dealt: Dealt, start_us: int) -> bool:
        """Return whether nodes have the cores and GPUs that a job wants for its uneven shares."""
        if not self._nearness.looks_into(demand.need):
            return True
        kept = KeptPromise(demand, start_us, None, *dealt, spread.most_gpus)
        return bool(self._inside.allot_later(kept))

    # What exactly -------------------------------------------------------------------------------

    def dealt(self, finding: Finding) -> Dealt | None:
        """Return what each node gives to a job, None where all give the same."""
        demand = finding.demand
        if finding.dealt is not None:
            return finding.dealt
        if finding.shares:
            return self._amounts.of(demand, finding.shares, finding.most_gpus)
        variant = finding.variant
        assert variant is not None
        if is_alike(demand, variant) or self._exact_left <= 0:
            return None
        self._exact_left -= 1
        shares = self._uneven.filled(demand, variant, finding.positions, finding.start_us)
        return self._amounts.of(demand, shares, {})

    def promise_of(self, finding: Finding, dealt: Dealt | None) -> KeptPromise:
        """Return where a job is to be, given what `dealt` has returned."""
        variant = None if finding.shares else finding.variant
        if dealt is None:
            assert variant is not None
            kind_of = self._hardware.kind_of
            alike = {
                kind: tuple(zip(variant.resources, variant.amounts[kind], strict=True))
                for kind in {kind_of[position] for position in finding.positions}
            }
            dealt = Dealt(
                [(position, variant.tasks_per_node) for position in finding.positions],
                [(position, alike[kind_of[position]]) for position in finding.positions],
            )
        return KeptPromise(finding.demand, finding.start_us, variant, *dealt, finding.most_gpus)

    def shares_now(self, finding: Finding) -> Sequence[tuple[int, int]]:
        """Return the tasks of each position, of a job that starts now."""
        if finding.shares:
            return finding.shares
        assert finding.variant is not None
        return self._uneven.filled(finding.demand, finding.variant, finding.positions, self._now_us)
