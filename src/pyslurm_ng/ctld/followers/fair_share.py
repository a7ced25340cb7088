"""Keeps the fair-share factors of associations: made anew every PriorityCalcPeriod.

They also change at once when associations do, or when usage is reset, so that a new user does not
wait for the next period to have a factor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.followers.usage_index import UsageIndex
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.sched.fair_share.factors import ShareStanding, share_factors, share_rules
from pyslurm_ng.sched.fair_share.forecast import ShareForecast
from pyslurm_ng.sched.fair_share.share_tree import ShareTree

_PERIOD_S = 300  # where PriorityCalcPeriod is 0


class FairShare:
    """Puts the factors of associations into `Soft.fairshare`."""

    def __init__(
        self,
        cluster: Cluster,
        soft: Soft,
        usage: UsageIndex,
        conf: SlurmConf,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`changed` is told when factors that weigh something are others than before."""
        self._cluster = cluster
        self._soft = soft
        self._usage = usage
        self._changed = changed
        self._tree: ShareTree | None = None
        self._next_us = 0
        self.adopt(conf)

    def adopt(self, conf: SlurmConf) -> None:
        """Go by the rules of a configuration; factors change with the next period."""
        self._rules = share_rules(conf)
        self._weight = conf.priority_weight_fairshare
        self._period_us = (conf.priority_calc_period or _PERIOD_S) * SECOND_US

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """Note that the tree is another, or that usage was reset."""
        for event in events:
            if isinstance(event, ev.AssocChanged):
                self._tree = None
                self._next_us = 0
            elif isinstance(event, (ev.UsageReset, ev.TimesMoved)):
                self._next_us = 0

    def tick(self, now_us: int) -> None:
        """Make the factors anew if it is time."""
        if now_us < self._next_us:
            return
        self._next_us = now_us + self._period_us
        factors = self._factors(now_us)
        if factors == self._soft.fairshare:
            return
        self._soft.fairshare = factors
        if self._weight:
            self._changed()

    def standing(self, now_us: int) -> ShareStanding:
        """Return what associations have used by now, beside the factors in force."""
        tree = self._known_tree()
        return ShareStanding(tree, self._used(tree, now_us), self._rules, self._soft.fairshare)

    def forecast(self, now_us: int) -> ShareForecast | None:
        """Return what later factors come from; None where there are none."""
        if not self._soft.fairshare:
            return None
        tree, rates = self._known_tree(), self._usage.billing_rates()
        return ShareForecast(
            tree,
            self._used(tree, now_us),
            [rates.get(assoc_id, 0.0) for assoc_id in tree.assoc_ids],
            self._rules,
            self._usage.lost_each_second(),
            self._soft.fairshare,
        )

    def _factors(self, now_us: int) -> dict[int, float]:
        if not self._rules.algorithm or not self._cluster.assocs:
            return {}
        tree = self._known_tree()
        return share_factors(tree, self._used(tree, now_us), self._rules)

    def _known_tree(self) -> ShareTree:
        if self._tree is None:
            self._tree = ShareTree(self._cluster.assocs.values())
        return self._tree

    def _used(self, tree: ShareTree, now_us: int) -> list[float]:
        used_s = self._usage.billing_s(now_us)
        return [used_s.get(assoc_id, 0.0) for assoc_id in tree.assoc_ids]
