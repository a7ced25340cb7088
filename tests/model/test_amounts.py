"""What jobs are billed."""

from __future__ import annotations

import pytest

from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.context import Caller, Context, Decision
from pyslurm_ng.ctld.rules.update.update_partition import update_partition
from pyslurm_ng.model.amounts import billing, billing_of_node
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.wire.query_messages import UpdatePartition
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of

WEIGHTS = "CPU=1.0,Mem=0.25G,GRES/gpu=8,License/matlab=3"
HELD = {"cpu": 4, "mem": 40 * 1024, "node": 2, "gres/gpu": 1, "license/matlab": 2}


@pytest.mark.parametrize(
    ("rule", "billed"),
    [("", 4 + 10 + 8 + 6), ("MAX_TRES", 10 + 6), ("MAX_TRES_GRES", 10 + 8 + 6)],
)
def test_rules_of_billing(rule: str, billed: int) -> None:
    """All terms, or the largest of what nodes have, generic resources among it or not."""
    partition = Partition("main", tres_billing_weights=WEIGHTS, billing_rule=rule)
    assert billing(HELD, partition.billing_terms) == billed


@pytest.mark.parametrize("rule", ["", "MAX_TRES", "MAX_TRES_GRES"])
def test_without_weights_cpus_are_billed(rule: str) -> None:
    assert billing(HELD, Partition("main", billing_rule=rule).billing_terms) == 4


def test_the_sum_is_truncated_not_its_terms() -> None:
    assert billing({"cpu": 1, "mem": 512}, "CPU=0.5,Mem=1.0G") == 1
    assert billing({"cpu": 1, "mem": 511}, "CPU=0.5,Mem=1.0G") == 0


def test_the_rule_comes_from_the_configuration() -> None:
    """Also for partitions that are made by hand."""
    conf = conf_of(f"{FOUR_NODES}\nPriorityFlags=MAX_TRES_GRES\n")
    cluster: Cluster = cluster_of(conf)
    root = Caller(uid=0, gid=0, user_name="root", is_admin=True, is_operator=True)
    request = UpdatePartition(bytes(16), "late", {"Nodes": "n1"}, True)
    made = update_partition(cluster, request, Context(conf, START_US, root))
    assert isinstance(made, Decision), made
    apply_all(cluster, list(made.events))
    assert {partition.billing_rule for partition in cluster.partitions.values()} == {
        "MAX_TRES_GRES"
    }
    apply_all(cluster, configure(cluster, conf_of(FOUR_NODES), START_US))
    assert {partition.billing_rule for partition in cluster.partitions.values()} == {""}


def test_partitions_have_the_weights_of_slurm_conf() -> None:
    """They were read and then forgotten, so that every job was billed its CPUs."""
    text = FOUR_NODES.replace("PartitionName=debug", "PartitionName=debug TRESBillingWeights=CPU=3")
    cluster = cluster_of(conf_of(text))
    assert billing({"cpu": 4}, cluster.partitions["debug"].billing_terms) == 12


@pytest.mark.parametrize(
    ("terms", "amount"),
    [((), 16), (("",), 16), (("CPU=0.5", ""), 8), (("CPU=0.5", "CPU=1.0,Mem=0.25G"), 18)],
)
def test_a_node_bills_the_most_of_its_partitions(terms: tuple[str, ...], amount: int) -> None:
    """As Slurm 22.05 shows it in CfgTRES; partitions without weights do not count beside others."""
    assert billing_of_node({"cpu": 16, "mem": 8192}, terms) == amount
