"""A small cluster whose metrics are known, and the families that Slurm has."""

from __future__ import annotations

from pathlib import Path

from pyslurm_ng.model.states import Reason
from tests.cli.reference_cluster import ReferenceCluster

GOLDEN = Path(__file__).parents[2] / "golden" / "metrics"
"""A file for each page: name, kind and label of each family, as Slurm 26.11 was seen to print."""


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
