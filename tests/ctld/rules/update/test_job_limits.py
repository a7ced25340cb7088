"""`scontrol update` of account, QOS and partition against limits, as measured with Slurm 22.05."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.ctld.rules.update.update_job import update_job
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.assoc import Association, Limits, Qos, UserRecord
from pyslurm_ng.model.job import Job
from pyslurm_ng.wire.query_messages import UpdateJob
from tests.world.callers import ALICE, ROOT, Caller
from tests.world.site import Site

DENY = ("DenyOnLimit",)
LATER_US = 10**9
MOVES = ({"qos": "high"}, {"account": "lab"}, {"partition": "gpu"})


class MovingSite(Site):
    """alice works in physics and in lab, in `normal` or `high`; `high` is the QOS of `gpu`, too."""

    def __init__(
        self, limits: Limits, flags: tuple[str, ...] = (), enforce: str = "limits,qos"
    ) -> None:
        """Limit `high` and the account lab; the flags are those of both QOS."""
        super().__init__(
            f"AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageEnforce={enforce}"
        )
        gpu = self.cluster.partitions["gpu"]
        self.apply([ev.PartitionUpdated(self.now_us, replace(gpu, qos="high"))])
        both = ("normal", "high")
        tree = (
            Association(1, "root"),
            Association(2, "physics", parent_id=1),
            Association(3, "lab", parent_id=1, limits=limits),
            Association(4, "physics", "alice", parent_id=2, qos=both, default_qos="normal"),
            Association(5, "lab", "alice", parent_id=3, qos=both, default_qos="normal"),
        )
        qos = (Qos(1, "normal", flags=flags), Qos(2, "high", flags=flags, limits=limits))
        users = (UserRecord("alice", "physics"),)
        self.apply(
            [
                ev.QosChanged(self.now_us, qos),
                ev.AssocChanged(self.now_us, changed=tree, users=users, version=1),
            ]
        )

    def waiting(self, **request: object) -> Job:
        """Submit a job of two CPUs for ten minutes that waits for its begin time."""
        asked = {"ntasks": 2, "time_limit_min": 10, "begin_us": self.now_us + LATER_US}
        return self.job(ALICE, **{**asked, **request})  # type: ignore[arg-type]

    def moved(self, job: Job, caller: Caller = ALICE, **settings: str) -> bool:
        """Change a job; return whether that was done."""
        message = UpdateJob(bytes(16), settings, [str(job.job_id)])
        decision = update_job(self.cluster, message, self.context(caller))
        assert not isinstance(decision, Reject)
        codes = [code for _, code, _ in decision.reply.errors] if decision.reply else []
        assert codes in ([], [Errno.ESLURM_ACCOUNTING_POLICY])
        self.apply(decision.events)
        return not codes


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize(
    ("limits", "refuses"),
    [
        (Limits(max_tres_per_job={"cpu": 1}), True),
        (Limits(max_tres_per_job={"cpu": 2}), False),
        (Limits(grp_tres={"cpu": 1}), True),
        (Limits(max_wall_min=3), False),
        (Limits(grp_wall_min=3), False),
        (Limits(max_tres_mins_per_job={"cpu": 3}), False),
        (Limits(grp_tres_mins={"cpu": 3}), False),
        (Limits(grp_tres_run_mins={"cpu": 3}), False),
        (Limits(max_jobs=0), False),
    ],
)
def test_deny_on_limit_refuses_amounts_where_a_job_moves(
    limits: Limits, refuses: bool, move: dict[str, str]
) -> None:
    """Limits on times and on running jobs let it wait there; without the flag all limits do."""
    site = MovingSite(limits, DENY)
    job = site.waiting()
    before = job.account, job.qos, job.partition
    assert site.moved(job, **move) is not refuses
    assert ((job.account, job.qos, job.partition) == before) is refuses
    assert site.moved(job, ROOT, **move), "operators may"
    site = MovingSite(limits)
    assert site.moved(site.waiting(), **move)
    site = MovingSite(limits, DENY, enforce="associations")
    assert site.moved(site.waiting(), **move), "no limits are enforced"


@pytest.mark.parametrize("move", [{"qos": "high"}, {"partition": "gpu"}])
def test_limits_of_a_qos_on_one_user_refuse_a_move(move: dict[str, str]) -> None:
    for limits in (Limits(max_tres_per_user={"cpu": 1}), Limits(min_tres_per_job={"cpu": 3})):
        site = MovingSite(limits, DENY)
        assert not site.moved(site.waiting(), **move)


@pytest.mark.parametrize("move", MOVES)
def test_submit_limits_refuse_a_move_without_any_flag(move: dict[str, str]) -> None:
    site = MovingSite(Limits(grp_submit=1))
    job = site.waiting()
    other = site.waiting(qos="high", account="lab")
    assert not site.moved(job, **move)
    assert site.moved(job, ROOT, **move), "operators may"
    assert site.moved(other, timelimit="3"), "it stays where it is"


def test_a_job_that_counts_already_counts_no_second_time() -> None:
    """From a QOS to the partition of that QOS, and from a partition to its QOS."""
    site = MovingSite(Limits(max_submit=1, grp_submit=1))
    job = site.waiting(qos="high")
    assert site.moved(job, partition="gpu")
    assert site.moved(job, qos="normal")
    assert site.moved(job, qos="high")


def test_tasks_of_an_array_count_singly() -> None:
    site = MovingSite(Limits(grp_submit=2))
    array = site.waiting(array="1-3")
    assert not site.moved(array, qos="high")
    assert site.moved(site.waiting(array="1-2"), qos="high")


def test_what_a_job_asks_for_by_then_counts() -> None:
    """Where it stays it may ask for more than it could start with: it waits then."""
    site = MovingSite(Limits(max_tres_per_job={"cpu": 3}), DENY)
    job = site.waiting()
    assert not site.moved(job, qos="high", numcpus="4", numtasks="4")
    assert site.moved(job, qos="high")
    assert site.moved(job, numcpus="4", numtasks="4")
    assert site.moved(job, timelimit="12")
