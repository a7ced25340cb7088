"""A partition is shown with its nodes by name, however slurm.conf names them."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.hostlist import expand
from pyslurm_ng.cli.control.show_nodes import partition_lines
from pyslurm_ng.ctld.queries.nodes import NODE_FIELDS, PARTITION_FIELDS, show_nodes, show_partitions
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.kernels.records import project
from pyslurm_ng.wire.query_messages import Records, ShowNodes, ShowPartitions
from tests.cli.reference_cluster import ADMIN
from tests.model.clusters import START_US, cluster_of, conf_of

CONF = """
ClusterName=p
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
NodeName=n[1-4] CPUs=4 RealMemory=1000
NodeSet=pair Nodes=n[2-3]
Licenses=matlab:10,ansys:4
AccountingStorageTRES=license/matlab
PartitionName=main Nodes={}
"""


def shown_of(text: str) -> dict[str, object]:
    """Return what is shown of the only partition of a configuration."""
    conf = conf_of(text)
    reply = show_partitions(
        cluster_of(conf), Soft(START_US), conf, ShowPartitions(), ADMIN, START_US
    )
    assert isinstance(reply, Records)
    (row,) = project(reply.records, range(len(PARTITION_FIELDS)))
    return dict(zip(PARTITION_FIELDS, row, strict=True))


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
    shown = shown_of(CONF.format(written))
    assert (shown["nodes"], shown["node_sets"]) == (nodes, sets)
    assert shown["total_nodes"] == len(expand(nodes))


@pytest.mark.parametrize(
    ("line", "amount", "defaults"),
    [
        ("ALL", 0, ""),
        ("ALL DefMemPerCPU=100", 100, ""),
        ("ALL DefCpuPerGPU=4", 0, "DefCpuPerGPU=4"),
    ],
)
def test_only_what_a_partition_says_itself_is_shown(line: str, amount: int, defaults: str) -> None:
    """The cluster's DefMemPerCPU holds there, too, but is no setting of the partition."""
    shown = shown_of(CONF.format(line) + "DefMemPerCPU=100\nDefCpuPerGPU=4\n")
    assert (shown["def_mem_per_cpu_mib"], shown["job_defaults"]) == (amount, defaults)


def test_licences_that_are_counted_are_among_the_tres() -> None:
    """As Slurm 22.05 does: those of AccountingStorageTRES, all that the cluster has."""
    assert (
        shown_of(CONF.format("n1"))["tres"] == "cpu=4,mem=1000M,node=1,billing=4,license/matlab=10"
    )


@pytest.mark.parametrize(
    ("line", "end"),
    [
        ("SuspendTime=100", "ResumeTimeout=GLOBAL SuspendTimeout=GLOBAL SuspendTime=100"),
        ("SuspendTime=INFINITE", "ResumeTimeout=GLOBAL SuspendTimeout=GLOBAL SuspendTime=INFINITE"),
        (
            "ResumeTimeout=50 SuspendTimeout=5",
            "ResumeTimeout=50 SuspendTimeout=5 SuspendTime=GLOBAL",
        ),
    ],
)
def test_own_times_of_power_saving_are_shown(line: str, end: str) -> None:
    """As Slurm 22.05 does, where a partition has one; other partitions have no such line."""
    row = shown_of(CONF.format(f"ALL {line}"))
    assert partition_lines(row, "OFF")[-1] == f"{end} PowerDownOnIdle=NO"
    assert partition_lines(shown_of(CONF.format("ALL")), "OFF")[-1].startswith("TRES=")


def test_words_of_a_partition_are_shown_as_slurm_writes_them() -> None:
    """Whatever their order and case in slurm.conf."""
    lines = partition_lines(
        shown_of(
            "PreemptType=preempt/partition_prio\nPreemptMode=SUSPEND,GANG"
            + CONF.format("ALL SelectTypeParameters=CR_Core PreemptMode=REQUEUE,GANG")
        ),
        "GANG,SUSPEND",
    )
    text = " ".join(lines)
    assert "SelectTypeParameters=CR_CORE" in text
    assert "PreemptMode=GANG,REQUEUE" in text


def test_billing_of_nodes_and_partitions_follows_the_weights() -> None:
    """A partition counts its nodes, too; what one node is worth is made of its own parts alone."""
    conf = conf_of(CONF.format("ALL TRESBillingWeights=CPU=2,node=10"))
    cluster, soft = cluster_of(conf), Soft(START_US)
    reply = show_nodes(cluster, soft, conf, ShowNodes(nodes="n1"), ADMIN, START_US)
    assert isinstance(reply, Records)
    (row,) = project(reply.records, range(len(NODE_FIELDS)))
    shown = dict(zip(NODE_FIELDS, row, strict=True))
    assert shown["tres"] == "cpu=4,mem=1000M,billing=8"
    partition = shown_of(CONF.format("ALL TRESBillingWeights=CPU=2,node=10"))
    assert "billing=72" in str(partition["tres"])
