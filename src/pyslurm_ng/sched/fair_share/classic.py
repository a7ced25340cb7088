"""Classic fair-share (PriorityFlags=NO_FAIR_TREE): a factor from shares and usage of the cluster.

Source: Slurm's manual, classic_fair_share (F = 2 ** (-usage / shares / dampening)), and
priority_multifactor3 for DEPTH_OBLIVIOUS.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, log

from pyslurm_ng.sched.fair_share.share_tree import ShareTree


def normal_shares(tree: ShareTree) -> list[float]:
    """Return the part of the whole cluster that each association is due."""
    portions = tree.portions
    return tree.downwards(1.0, lambda number, _, above: portions[number] * above)


def normal_usage(usage: Sequence[float]) -> list[float]:
    """Return the part of all use that is each association's; the root is the first."""
    whole = usage[0] if usage else 0.0
    return [used / whole if whole else 0.0 for used in usage]


def effective_usage(tree: ShareTree, usage: Sequence[float]) -> list[float]:
    """Return what counts as each association's part of the use, with some of its account's.

    Args:
        usage: billing-seconds of each association, those of all below it included.
    """

    of_all = normal_usage(usage)

    def effective(number: int, _: int, above: float) -> float:
        return of_all[number] + (above - of_all[number]) * tree.portions[number]

    return tree.downwards(1.0, effective, of_all.__getitem__)


def classic(tree: ShareTree, usage: Sequence[float], *, dampening: int = 1) -> dict[int, float]:
    """Return the factor of each association, 0 to 1, by its id.

    Args:
        usage: billing-seconds of each association, those of all below it included.
        dampening: FairShareDampeningFactor.
    """
    shares, used = normal_shares(tree), effective_usage(tree, usage)
    return {
        assoc_id: 2.0 ** -(used[number] / shares[number] / max(1, dampening))
        if shares[number]
        else 0.0
        for number, assoc_id in enumerate(tree.assoc_ids)
    }


def usage_ratios(tree: ShareTree, usage: Sequence[float]) -> list[float]:
    """Return the effective ratio of use to shares, as DEPTH_OBLIVIOUS has it, of each association.

    Args:
        usage: billing-seconds of each association, those of all below it included.
    """
    of_all, shares = normal_usage(usage), normal_shares(tree)
    of_level = [
        sum(usage[child] for child in children if not tree.is_apart[child])
        for children in tree.children
    ]

    def first(number: int) -> float:
        return of_all[number] / shares[number] if shares[number] else inf

    def ratio(number: int, parent: int, above: float) -> float:
        portion = tree.portions[number]
        used = usage[number] / of_level[parent] if of_level[parent] else 0.0
        return _combined(above, used / portion if portion else inf)

    return tree.downwards(1.0, ratio, first)


def depth_oblivious(tree: ShareTree, usage: Sequence[float]) -> dict[int, float]:
    """Return the factor of each association, which the depth of the tree does not lower, by its id.

    Args:
        usage: billing-seconds of each association, those of all below it included.
    """
    ratios = usage_ratios(tree, usage)
    return {assoc_id: 2.0**-ratio for assoc_id, ratio in zip(tree.assoc_ids, ratios, strict=True)}


def _combined(above: float, local: float) -> float:
    """Return an association's ratio from its account's and from that among its siblings.

    The further the account is off its shares, the less its children's own ratios count, unless
    they are off to the same side.
    """
    if not above or not local:
        return 0.0
    if inf in (above, local):
        return inf
    if log(above) * log(local) > 0:
        return above * local
    return float(above * local ** (1 / (1 + (5 * log(above)) ** 2)))
