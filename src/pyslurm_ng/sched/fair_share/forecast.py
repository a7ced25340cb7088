"""What factors of fair-share will be, if the jobs that run now go on and one user rests.

Usage fades with PriorityDecayHalfLife while running jobs add to it. That all usage fades in the
same way changes no rank by itself: a user passes others because they go on and this one does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyslurm_ng.sched.fair_share.factors import ShareRules, share_factors
from pyslurm_ng.sched.fair_share.share_tree import ShareTree

MINUTE_S = 60
LONGEST_S = 28 * 24 * 3600
_FIRST_S = 10 * MINUTE_S
_GROWTH = 1.5  # of the times that are tried one after another


@dataclass(frozen=True, slots=True)
class ShareForecast:
    """Usage and its growth at one moment.

    tree: the associations. usage: billing-seconds of each by its number in the tree, those of all
    below it included. rates: what its running jobs add to it each second. lost_each_second: the
    part of usage that fades in a second, 0 where usage lasts.
    """

    tree: ShareTree
    usage: Sequence[float]
    rates: Sequence[float]
    rules: ShareRules
    lost_each_second: float = 0.0
    factors: Mapping[int, float] = field(default_factory=dict)  # those of now, by association id

    def factors_in(self, seconds: int, resting: int) -> dict[int, float]:
        """Return the factors by association id when association `resting` has used nothing more."""
        kept, grown = 1.0, float(seconds)
        if self.lost_each_second:
            kept = math.exp(seconds * math.log1p(-self.lost_each_second))
            grown = (1 - kept) / self.lost_each_second
        rates = list(self.rates)
        above = self.tree.index[resting]
        own = rates[above]
        while above >= 0:
            rates[above] = max(0.0, rates[above] - own)
            above = self.tree.parents[above]
        usage = [used * kept + rate * grown for used, rate in zip(self.usage, rates, strict=True)]
        return share_factors(self.tree, usage, self.rules)

    def seconds_until_higher(
        self, own: int, others: Sequence[int], is_late: Callable[[], bool] = lambda: False
    ) -> dict[int, int]:
        """Return in how many seconds the factor of `own` is higher than that of each of `others`.

        To the minute; 0 where that is not within `LONGEST_S`. Others for which there was no time
        are left out.
        """
        passed: dict[int, int] = {}
        before, seconds = 0, _FIRST_S
        while before < LONGEST_S and len(passed) < len(others) and not is_late():
            factors = self.factors_in(seconds, own)
            for other in others:
                if other not in passed and factors.get(own, 0.0) > factors.get(other, 0.0):
                    passed[other] = self._first_minute(own, other, before, seconds, is_late)
            before, seconds = seconds, min(LONGEST_S, int(seconds * _GROWTH))
        if before < LONGEST_S:
            return passed
        return dict.fromkeys(others, 0) | passed

    def _first_minute(
        self, own: int, other: int, low: int, high: int, is_late: Callable[[], bool]
    ) -> int:
        """Return where between two times the factor of `own` becomes the higher one."""
        while high - low > MINUTE_S and not is_late():
            middle = (low + high) // 2
            factors = self.factors_in(middle, own)
            if factors.get(own, 0.0) > factors.get(other, 0.0):
                high = middle
            else:
                low = middle
        return high
