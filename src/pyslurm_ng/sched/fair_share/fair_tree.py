"""Fair Tree: the rank of each user among all, account by account from the root.

Source: Slurm's manual, fair_tree. An association's level fair-share is its part of its level's
shares over its part of the level's usage. Users are ranked in the order of that, and all users of
an account before those of the next one; associations that are equal share their place.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyslurm_ng._select import share_levels
from pyslurm_ng.sched.fair_share.share_tree import ShareTree


def level_fair_shares(tree: ShareTree, usage: Sequence[float]) -> tuple[list[float], list[int]]:
    """Return the level fair-share of each association, and its place among all, 0 the highest.

    Only places tell what is equal: floating point numbers of Python are shorter than Slurm's.

    Args:
        usage: billing-seconds of each, those of all below it included.
    """
    return share_levels(tree.portions, list(usage), tree.parents, tree.is_apart)


def fair_tree(tree: ShareTree, usage: Sequence[float]) -> dict[int, float]:
    """Return the factor of each user, above 0 and at most 1, by association id.

    Args:
        usage: billing-seconds of each association, those of all below it included.
    """
    _, places = level_fair_shares(tree, usage)
    is_user, children = tree.is_user, tree.children
    # Users come before accounts that are equal to them.
    order = [2 * above + (not user) for above, user in zip(places, is_user, strict=True)]
    users = sum(is_user)
    factors: dict[int, float] = {}
    rank = next_rank = users

    def in_order(siblings: list[int]) -> list[int]:
        return sorted(siblings, key=order.__getitem__)

    roots = [number for number, parent in enumerate(tree.parents) if parent < 0]
    # What is still to be visited: siblings, where to go on, and whether that one is tied.
    visits: list[tuple[list[int], int, bool]] = [
        (in_order(children[root]), 0, False) for root in reversed(roots)
    ]
    while visits:
        siblings, at, is_tied = visits.pop()
        while at < len(siblings):
            number = siblings[at]
            if at and places[siblings[at - 1]] == places[number]:
                is_tied = True
            elif at:
                is_tied = False
            at += 1
            if is_user[number]:
                if not is_tied:
                    rank = next_rank
                factors[tree.assoc_ids[number]] = rank / users
                next_rank -= 1
                continue
            below = list(children[number])
            while at < len(siblings) and places[siblings[at]] == places[number]:
                below += children[siblings[at]]
                at += 1
            visits.append((siblings, at, False))
            visits.append((in_order(below), 0, is_tied))
            break
    return factors
