"""A site on which each level can have limits: the QOS of partition and job, and all accounts."""

from __future__ import annotations

from msgspec.structs import replace

from pyslurm_ng.model import events as ev
from pyslurm_ng.model.assoc import Association, Limits, Qos, UserRecord
from pyslurm_ng.model.job import Job
from tests.world.callers import ALICE
from tests.world.site import Site

PARTITION_QOS, JOB_QOS = "QOS of the partition", "QOS of the job"
PARTITION_ASSOC, USER, ACCOUNT, ABOVE, ROOT = (
    "association in a partition", "association", "account", "account above", "root",
)  # fmt: skip
QOS_LEVELS = (PARTITION_QOS, JOB_QOS)
ASSOC_LEVELS = (PARTITION_ASSOC, USER, ACCOUNT, ABOVE, ROOT)
_IDS = {ROOT: 1, ABOVE: 2, ACCOUNT: 3, USER: 4, PARTITION_ASSOC: 6}


class LimitedSite(Site):
    """alice and bob work in physics, below science. `set_limits` gives one level its limits."""

    def __init__(self, more: str = "", level: str = "", limits: Limits | None = None) -> None:
        """Begin with one level that has limits, or none."""
        super().__init__(
            "AccountingStorageType=accounting_storage/slurmdbd\n"
            f"AccountingStorageTRES=gres/gpu\n{more}"
        )
        main = self.cluster.partitions["main"]
        gated = replace(main, qos="gate")
        self.apply([ev.LicensesUpdated(self.now_us, (("matlab", 8),))])
        self.apply([ev.PartitionUpdated(self.now_us, gated)])
        self.set_limits(level, limits or Limits())

    def set_limits(self, level: str, limits: Limits, flags: tuple[str, ...] = ()) -> None:
        """Let a level have these limits, and no other level any."""
        self.set_all({level: limits}, flags)

    def set_all(self, limits: dict[str, Limits], flags: tuple[str, ...] = ()) -> None:
        """Let levels have these limits, and all others none; the QOS of jobs has the flags."""
        of = {level: limits.get(level, Limits()) for level in (*QOS_LEVELS, *ASSOC_LEVELS)}
        qos = ("normal",)
        tree = [
            Association(1, "root", limits=of[ROOT]),
            Association(2, "science", parent_id=1, limits=of[ABOVE]),
            Association(3, "physics", parent_id=2, limits=of[ACCOUNT]),
            Association(4, "physics", "alice", parent_id=3, qos=qos, limits=of[USER]),
            Association(5, "physics", "bob", parent_id=3, qos=qos),
        ]
        if PARTITION_ASSOC in limits:
            own = of[PARTITION_ASSOC]
            tree.append(
                Association(6, "physics", "alice", "main", parent_id=3, qos=qos, limits=own)
            )
        records = (
            Qos(1, "normal", flags=flags, limits=of[JOB_QOS]),
            Qos(2, "gate", limits=of[PARTITION_QOS]),
        )
        users = (UserRecord("alice", "physics"), UserRecord("bob", "physics"))
        self.apply(
            [
                ev.QosChanged(self.now_us, records),
                ev.AssocChanged(self.now_us, changed=tuple(tree), users=users, version=1),
            ]
        )

    def ask(self, **request: object) -> Job:
        """Submit a job of alice's: two CPUs, 2000 MiB, a GPU and a licence for an hour."""
        return self.job(ALICE, **{**ASKED, **request})


ASKED: dict[str, object] = {
    "nodes_min": 1, "nodes_max": 1, "ntasks": 2, "mem_per_node_mib": 2000, "gres": "gpu:1",
    "licenses": "matlab:1", "time_limit_min": 60,
}  # fmt: skip
