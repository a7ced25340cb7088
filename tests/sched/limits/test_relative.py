"""QOS with percentages."""

from __future__ import annotations

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply
from pyslurm_ng.model.assoc import Limits, Qos
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.sched.limits.relative import absolute_qos
from tests.model.clusters import START_US, cluster_of, conf_of

CONF = r"""
ClusterName=demo
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
GresTypes=gpu
Licenses=matlab:8
NodeName=n[1-3] CPUs=8 RealMemory=1000
NodeName=n4 CPUs=8 RealMemory=5000 Gres=gpu:a100:4
PartitionName=main Nodes=ALL Default=YES
PartitionName=few Nodes=n[3-4] QOS=gate
"""
HALF = {"cpu": 50, "mem": 50, "node": 50, "gres/gpu": 50, "license/matlab": 25, "energy": 9}


def with_qos(*records: Qos) -> Cluster:
    """Return a cluster with some QOS."""
    cluster = cluster_of(conf_of(CONF))
    apply(cluster, ev.QosChanged(START_US, changed=records))
    return cluster


def test_percentages_are_of_the_cluster() -> None:
    """Amounts are rounded down; what the cluster has nothing of does not limit."""
    limits = Limits(grp_tres=HALF, max_tres_per_user={"cpu": 33, "node": INFINITE}, max_jobs=7)
    cluster = with_qos(Qos(1, "part", flags=("Relative",), limits=limits))
    absolute = absolute_qos(cluster)["part"].limits
    assert absolute.grp_tres == {
        "cpu": 16, "mem": 4000, "node": 2, "gres/gpu": 2, "license/matlab": 2,
    }  # fmt: skip
    assert absolute.max_tres_per_user == {"cpu": 10, "node": INFINITE}
    assert absolute.max_jobs == 7


def test_percentages_of_a_partitions_qos_are_of_that_partition() -> None:
    """Two nodes of eight CPUs."""
    limits = Limits(max_tres_per_job={"cpu": 50}, min_tres_per_job={"gres/gpu:a100": 25})
    cluster = with_qos(Qos(1, "gate", flags=("Relative",), limits=limits))
    absolute = absolute_qos(cluster)["gate"].limits
    assert (absolute.max_tres_per_job, absolute.min_tres_per_job) == (
        {"cpu": 8},
        {"gres/gpu:a100": 1},
    )


def test_other_qos_stay_as_they_are() -> None:
    """Also beside one with percentages."""
    plain = Qos(1, "plain", limits=Limits(grp_tres={"cpu": 50}))
    assert absolute_qos(with_qos(plain))["plain"] == plain
    both = absolute_qos(with_qos(plain, Qos(2, "part", flags=("Relative",))))
    assert both["plain"] == plain
