"""ReqTRES and AllocTRES of jobs: what is asked for and held of what is tracked."""

from __future__ import annotations

from pyslurm_ng.model.amounts import allocated_tres, requested_tres
from pyslurm_ng.model.job import JobRequest, NodeAlloc
from pyslurm_ng.model.partition import Partition

TRACKED = ("cpu", "mem", "node", "billing", "license/matlab")
PARTITION = Partition("main", tres_billing_weights="cpu=1.0,license/matlab=2.0")


def test_licences_are_tres_where_they_are_tracked() -> None:
    """As in Slurm, and they are billed by their weight, tracked or not."""
    request = JobRequest(licenses="matlab:3,ansys:1")
    asked = requested_tres(request, PARTITION, TRACKED)
    assert (asked["license/matlab"], asked["billing"]) == (3, 7)
    assert "license/ansys" not in asked
    assert "license/matlab" not in requested_tres(request, PARTITION, TRACKED[:-1])
    nodes = (NodeAlloc(0, 1, b"\1", 100),)
    allocated = allocated_tres(nodes, TRACKED, "cpu=1.0,license/matlab=2.0", "matlab:2")
    assert (allocated["license/matlab"], allocated["billing"]) == (2, 5)
    assert "license/matlab" not in allocated_tres(nodes, TRACKED, None)
