"""How long fair-share takes: factors of 10,000 associations anew, and the tree they are in.

    python bench/fair_share.py [--associations 10000] [--rounds 31]

The tree has a tenth accounts, up to some ten levels deep; half of the users have used something.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable

from pyslurm_ng.model.assoc import Association
from pyslurm_ng.sched.fair_share.factors import ShareRules, share_factors
from pyslurm_ng.sched.fair_share.share_tree import ShareTree


def site(associations: int) -> list[Association]:
    """Return a tree of accounts and users."""
    rng = random.Random(7)
    assocs, accounts = [Association(1, "root")], [1]
    for assoc_id in range(2, associations + 1):
        is_account = rng.random() < 0.1
        parent_id = rng.choice(accounts[-300:] if is_account else accounts)
        user = "" if is_account else f"u{assoc_id}"
        shares = rng.randint(1, 50)
        assocs.append(
            Association(assoc_id, f"a{parent_id}", user, parent_id=parent_id, shares=shares)
        )
        if is_account:
            accounts.append(assoc_id)
    return assocs


def usage_of(tree: ShareTree) -> list[float]:
    """Return billing-seconds of all, accounts with those of their users."""
    rng = random.Random(8)
    usage = [0.0] * len(tree)
    for number in reversed(range(len(tree))):
        if tree.is_user[number]:
            usage[number] = rng.choice((0.0, rng.random() * 1e6))
        if tree.parents[number] >= 0:
            usage[tree.parents[number]] += usage[number]
    return usage


def median_ms(work: Callable[[], object], rounds: int) -> float:
    """Return the median of some runs in milliseconds."""
    times = []
    for _ in range(rounds):
        begun_s = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun_s)
    return 1000 * statistics.median(times)


def main() -> None:
    """Print a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--associations", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=31)
    options = parser.parse_args()
    assocs = site(options.associations)
    tree = ShareTree(assocs)
    usage = usage_of(tree)
    print(f"the tree of {options.associations}: {median_ms(lambda: ShareTree(assocs), 5):.1f} ms")
    for algorithm in ("fair_tree", "classic", "depth_oblivious"):
        rules = ShareRules(algorithm)
        taken_ms = median_ms(lambda rules=rules: share_factors(tree, usage, rules), options.rounds)
        print(f"{algorithm}: {taken_ms:.1f} ms")


if __name__ == "__main__":
    main()
