"""Fair Tree: the rank of each user among all, account by account from the root.

Source: Slurm's manual, fair_tree. An association's level fair-share is its part of its level's
shares over its part of the level's usage. Users are ranked in the order of that, and all users of
an account before those of the next one; associations that are equal share their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from pyslurm_ng.sched.fair_share.share_tree import ShareTree


def level_fair_shares(tree: ShareTree, usage: Sequence[float]) -> list[float]:
    """Return the level fair-share of each association.

    Args:
        usage: billing-seconds of each, those of all below it included.
    """
    levels = []
    for number, parent in enumerate(tree.parents):
        if parent < 0 or tree.is_apart[number]:
            levels.append(inf)
        elif not tree.portions[number]:
            levels.append(0.0)
        elif not usage[number] or not usage[parent]:
            levels.append(inf)
        else:
            levels.append(tree.portions[number] / (usage[number] / usage[parent]))
    return levels


def fair_tree(tree: ShareTree, usage: Sequence[float]) -> dict[int, float]:
    """Return the factor of each user, above 0 and at most 1, by association id.

    Args:
        usage: billing-seconds of each association, those of all below it included.
    """
    levels = level_fair_shares(tree, usage)
    is_user, children = tree.is_user, tree.children
    # Users come before accounts that are equal to them.
    order = [(-level, not user) for level, user in zip(levels, is_user, strict=True)]
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
            if at and levels[siblings[at - 1]] == levels[number]:
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
            while at < len(siblings) and levels[siblings[at]] == levels[number]:
                below += children[siblings[at]]
                at += 1
            visits.append((siblings, at, False))
            visits.append((in_order(below), 0, is_tied))
            break
    return factors
