"""A partition is shown with its nodes by name, however slurm.conf names them."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.hostlist import expand
from pyslurm_ng.ctld.queries.nodes import PARTITION_FIELDS, show_partitions
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.kernels.records import project
from pyslurm_ng.wire.query_messages import Records, ShowPartitions
from tests.cli.reference_cluster import ADMIN
from tests.model.clusters import START_US, cluster_of, conf_of

CONF = """
ClusterName=p
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
NodeName=n[1-4] CPUs=4 RealMemory=1000
NodeSet=pair Nodes=n[2-3]
PartitionName=main Nodes={}
"""


@pytest.mark.parametrize(
    ("written", "nodes", "sets"),
    [
        ("ALL", "n[1-4]", ""),
        ("n[2-3],n1", "n[1-3]", ""),
        ("n3,n1", "n[1,3]", ""),
        ("pair,n1", "n[1-3]", "pair"),
    ],
)
def test_nodes_are_shown_by_name_in_order(written: str, nodes: str, sets: str) -> None:
    """As Slurm 22.05 does: programs expand the list and look the nodes up."""
    conf = conf_of(CONF.format(written))
    reply = show_partitions(
        cluster_of(conf), Soft(START_US), conf, ShowPartitions(), ADMIN, START_US
    )
    assert isinstance(reply, Records)
    (row,) = project(reply.records, range(len(PARTITION_FIELDS)))
    shown = dict(zip(PARTITION_FIELDS, row, strict=True))
    assert (shown["nodes"], shown["node_sets"]) == (nodes, sets)
    assert shown["total_nodes"] == len(expand(nodes))
