"""The fair-share factors by the rules of a configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.sched.fair_share.classic import (
    classic,
    depth_oblivious,
    effective_usage,
    normal_shares,
    normal_usage,
    usage_ratios,
)
from pyslurm_ng.sched.fair_share.fair_tree import fair_tree, level_fair_shares
from pyslurm_ng.sched.fair_share.share_tree import ShareTree


class ShareRules(NamedTuple):
    """How factors come about."""

    algorithm: str = "fair_tree"  # classic depth_oblivious; "": there are no factors
    dampening: int = 1  # FairShareDampeningFactor, of classic only


def share_rules(conf: SlurmConf) -> ShareRules:
    """Return the rules that a configuration asks for."""
    flags = {flag.upper() for flag in conf.priority_flags}
    algorithm = "fair_tree"
    if not conf.priority_type.endswith("multifactor"):
        algorithm = ""
    elif "DEPTH_OBLIVIOUS" in flags:
        algorithm = "depth_oblivious"
    elif "NO_FAIR_TREE" in flags:
        algorithm = "classic"
    return ShareRules(algorithm, conf.fair_share_dampening_factor)


def share_factors(tree: ShareTree, usage: Sequence[float], rules: ShareRules) -> dict[int, float]:
    """Return factors, 0 to 1, by association id; Fair Tree gives them to users only.

    Args:
        usage: billing-seconds of each association of the tree, those of all below it included.
    """
    if rules.algorithm == "fair_tree":
        return fair_tree(tree, usage)
    if rules.algorithm == "classic":
        return classic(tree, usage, dampening=rules.dampening)
    return depth_oblivious(tree, usage) if rules.algorithm else {}


class ShareStanding(NamedTuple):
    """How all associations stand at one moment.

    usage: billing-seconds of each association of the tree, those of all below it included.
    factors: by association id, as they were counted last.
    """

    tree: ShareTree
    usage: Sequence[float]
    rules: ShareRules
    factors: Mapping[int, float]


class ShareFigures(NamedTuple):
    """What a factor comes from, as `sshare` shows it; parts are 0 to 1.

    `level` is the level fair-share of Fair Tree: infinite without use, and -1 where there is none,
    which is at the root, for shares of `parent` and with other algorithms.
    """

    shares: float
    usage: float
    effective_usage: float
    level: float = -1.0


def share_figures(tree: ShareTree, usage: Sequence[float], rules: ShareRules) -> list[ShareFigures]:
    """Return the figures of each association of the tree.

    Args:
        usage: billing-seconds of each association, those of all below it included.
    """
    of_all = normal_usage(usage)
    if rules.algorithm in ("classic", "depth_oblivious"):
        shares, effective = normal_shares(tree), effective_usage(tree, usage)
        if rules.algorithm == "depth_oblivious":
            ratios = usage_ratios(tree, usage)
            effective = tree.downwards(
                1.0,
                lambda number, _, __: (
                    ratios[number] * shares[number] if shares[number] else of_all[number]
                ),
                of_all.__getitem__,
            )
        return list(map(ShareFigures, shares, of_all, effective))
    levels, _ = level_fair_shares(tree, usage)
    figures = []
    for number, parent in enumerate(tree.parents):
        if parent < 0:
            figures.append(ShareFigures(0.0, 1.0, 1.0))
            continue
        of_level = usage[number] / usage[parent] if usage[parent] else 0.0
        level = -1.0 if tree.is_apart[number] else levels[number]
        figures.append(ShareFigures(tree.portions[number], of_all[number], of_level, level))
    return figures
