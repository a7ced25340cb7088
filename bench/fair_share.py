"""How long fair-share takes: factors of 10,000 associations anew, the tree they are in, and sshare.

    python bench/fair_share.py [--associations 10000] [--rounds 31]

The tree has a tenth accounts, up to some ten levels deep; half of the users have used something.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable

from pyslurm_ng.conf.slurm_conf import parse_slurm_conf
from pyslurm_ng.ctld.followers.fair_share import FairShare
from pyslurm_ng.ctld.followers.usage_index import UsageIndex
from pyslurm_ng.ctld.queries.associations import show_associations
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.ctld.slices import at_once
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply, apply_all
from pyslurm_ng.model.assoc import Association, OwnerUsage
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.sched.fair_share.factors import ShareRules, share_factors
from pyslurm_ng.sched.fair_share.share_tree import ShareTree
from pyslurm_ng.wire.query_messages import ShowAssociations

NOW_US = 1_000_000_000_000_000
CONF = """
ClusterName=bench
SlurmctldHost=localhost
PriorityType=priority/multifactor
NodeName=n1 CPUs=4
PartitionName=main Nodes=n1 Default=YES
"""
ROOT = Caller(uid=0, gid=0, user_name="root", is_admin=True, is_operator=True)


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


def listing(assocs: list[Association]) -> Callable[[ShowAssociations], object]:
    """Return a function that answers sshare as the controller does."""
    conf, cluster = parse_slurm_conf(CONF), Cluster()
    apply_all(cluster, configure(cluster, conf, NOW_US))
    apply(cluster, ev.AssocChanged(NOW_US, changed=tuple(assocs)))
    tree = ShareTree(assocs)
    owners = [
        OwnerUsage(
            "assoc", assoc_id, NOW_US, int(used_s), {"cpu": int(used_s), "billing": int(used_s)}
        )
        for assoc_id, used_s in zip(tree.assoc_ids, usage_of(tree), strict=True)
        if used_s
    ]
    apply(cluster, ev.UsageKept(NOW_US, NOW_US, tuple(owners)))
    usage = UsageIndex(cluster, conf)
    shares = FairShare(cluster, Soft(NOW_US), usage, conf)
    shares.tick(NOW_US)

    def answer(request: ShowAssociations) -> object:
        used, spent = usage.counted(NOW_US)
        standing = shares.standing(NOW_US)
        work = show_associations(cluster, conf, request, ROOT, used, spent, standing)
        return at_once(work)

    return answer


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
    answer = listing(assocs)
    user = next(assoc for assoc in assocs if assoc.user)
    questions = {
        "sshare -a": ShowAssociations(parts=["assoc"]),
        "sshare": ShowAssociations([user.user], [user.account], parts=["assoc"]),
    }
    for words, question in questions.items():
        taken_ms = median_ms(lambda question=question: answer(question), options.rounds)
        print(f"{words}: {taken_ms:.1f} ms")


if __name__ == "__main__":
    main()
