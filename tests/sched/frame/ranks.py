"""Jobs in the order of their priority."""

from __future__ import annotations

from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.sched.frame.policy import Policy, policy
from pyslurm_ng.sched.frame.priority import Factors, Ranking
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import FOUR_NODES, START_US, conf_of


def ranked(
    cluster: Cluster, rules: Policy, now_us: int = START_US, partition: str = "main"
) -> tuple[int, Factors]:
    """Return priority and factors of the only waiting job."""
    view = snapshot(cluster, now_us)
    ranking = Ranking(view, rules)
    job, where = view.waiting[0], view.partitions[partition]
    return ranking.priority(job, where), ranking.factors(job, where)


def rules_of(*lines: str) -> Policy:
    """Return the policy of a configuration with these lines."""
    return policy(conf_of(FOUR_NODES + "\n".join(lines) + "\n"))
