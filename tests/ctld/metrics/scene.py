"""A small cluster whose metrics are known, and the families that Slurm has."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyslurm_ng.ctld.metrics import pages
from pyslurm_ng.ctld.metrics.pages import Work
from pyslurm_ng.ctld.queries.diagnostics import counters_of
from pyslurm_ng.ctld.slices import at_once
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.states import Reason
from tests.cli.reference_cluster import NOW_US, ReferenceCluster

GOLDEN = Path(__file__).parents[2] / "golden" / "metrics"
"""A file for each page: name, kind and label of each family, as Slurm 26.11 was seen to print."""

PAGES: dict[str, Callable[[Cluster, Soft], Work]] = {
    "jobs": pages.jobs_page,
    "nodes": pages.nodes_page,
    "partitions": pages.partitions_page,
    "jobs-users-accts": pages.users_page,
}


def lines_of(name: str, reference: ReferenceCluster) -> list[str]:
    """Return the lines of a page."""
    if name == "scheduler":
        counters = counters_of(reference.cluster, reference.soft)
        more = {"now_us": NOW_US, "since_us": NOW_US, "whole_passes": 0, "threads": 1}
        return pages.scheduler_page(counters | more)
    return at_once(PAGES[name](reference.cluster, reference.soft))


def scene() -> ReferenceCluster:
    """Return a cluster with a running job, a held one, an array and one that is too large."""
    reference = ReferenceCluster()
    reference.submit(1, "alice", "12:09:00", "a")
    reference.start(1, 2, ("n1", 0b11, 100, 0b1))
    reference.submit(2, "bob", "12:09:01", "b", account="chem", priority=0)
    reference.submit(3, "alice", "12:09:02", "c", array=((1, 10, 1),), nodes_min=3)
    reference.submit(4, "alice", "12:09:03", "d", nodes_min=9)
    reference.plan(4, 1, Reason.PartitionNodeLimit)
    return reference
