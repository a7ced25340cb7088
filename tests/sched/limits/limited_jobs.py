"""Jobs of users, what they ask for, and the limits of their accounts and QOS."""

from __future__ import annotations

from dataclasses import replace

from pyslurm_ng.model.assoc import Association, Limits, Qos
from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.model.partition import Partition
from pyslurm_ng.sched.frame.job_records import Waiting
from pyslurm_ng.sched.frame.measures import Ask
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.sched.limits.quotas import Quotas
from pyslurm_ng.sched.limits.usage import OwnerKey, Spent
from tests.model.clusters import START_US, cluster_of, conf_of
from tests.sched.whole_nodes import WHOLE_NODES, job

NO = Limits()

GPU = "gres/gpu"

# What each job takes: ten of all that can be counted, on two nodes, for 60 minutes.
AMOUNTS = {
    "cpu": 10, "mem": 10, "node": 2, "billing": 10, GPU: 10, "license/abaqus": 10,
    "energy": 10, "bb/cray": 10, "fs/lustre": 10,
}  # fmt: skip


def waiting(user: str = "ann", account: str = "physics", qos: str = "normal") -> Waiting:
    """Return a job of a user."""
    cluster = cluster_of(conf_of(WHOLE_NODES))
    job(cluster, 1, 60)
    (new,) = snapshot(cluster, START_US).waiting
    uid = {"ann": 1, "bob": 2}[user]
    assoc_id = {"physics": 10, "maths": 20}[account] + uid
    return replace(new, user_name=user, uid=uid, account=account, qos=qos, assoc_id=assoc_id)


ANN = waiting()


def limits_of(
    own: Limits = NO,
    parent: Limits = NO,
    quality: Qos | None = None,
    of_partition: Qos | None = None,
    spent: dict[OwnerKey, Spent] | None = None,
    *,
    is_safe: bool = False,
) -> Quotas:
    """Return limits over ann and bob in physics and maths."""
    associations = {
        1: Association(1, "root"),
        10: Association(10, "physics", parent_id=1, limits=parent),
        20: Association(20, "maths", parent_id=1),
        11: Association(11, "physics", "ann", parent_id=10, limits=own),
        12: Association(12, "physics", "bob", parent_id=10),
        21: Association(21, "maths", "ann", parent_id=20),
    }
    qos = {"normal": quality or Qos(1, "normal")}
    if of_partition is not None:
        qos[of_partition.name] = of_partition
    used = spent or {}
    return Quotas(associations, qos, lambda owner: used.get(owner, Spent()), is_safe=is_safe)


def ask(limit_min: int = 60, nodes: tuple[int, ...] = (), qos: str = "") -> Ask:
    """Return what a job wants."""
    return Ask(AMOUNTS, replace_qos(qos), limit_min, on(*nodes))


def on(*node_ids: int) -> tuple[NodeAlloc, ...]:
    """Return what a job has of some nodes."""
    return tuple(NodeAlloc(node_id, 1, b"\1", 0, 1) for node_id in node_ids)


def replace_qos(name: str) -> Partition:
    return Partition("main", qos=name)
