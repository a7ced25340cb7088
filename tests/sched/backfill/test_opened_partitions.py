"""QOS flags PartitionTimeLimit, PartitionMaxNodes, PartitionMinNodes lift limits of partitions."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.numbers import HOUR_US, NO_VAL
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.assoc import Association, Qos, UserRecord
from pyslurm_ng.model.partition import Partition, opened
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from tests.model.clusters import START_US
from tests.world.callers import ALICE
from tests.world.passes import PlanFunction, in_strict_order
from tests.world.reservations import ReservationSite

FLAGS = ("PartitionTimeLimit", "PartitionMaxNodes", "PartitionMinNodes")
SMALL = "PartitionName=small Nodes=n[1-4] MaxTime=60 MinNodes=2 MaxNodes=2"


def site(plan: PlanFunction, more: str = "") -> ReservationSite:
    """Return a small partition, a QOS that opens it and one that does not."""
    room = ReservationSite(f"AccountingStorageEnforce=associations,qos\n{SMALL}\n{more}", plan=plan)
    normal, free = Qos(1, "normal"), Qos(2, "free", flags=FLAGS)
    alice = Association(
        2, "physics", "alice", parent_id=1, is_default=True, qos=("normal", "free"),
        default_qos="normal",
    )  # fmt: skip
    room.apply([ev.QosChanged(room.now_us, changed=(normal, free), replace=True)])
    users = (UserRecord("alice", default_account="physics"),)
    root = Association(1, "root")
    room.apply([ev.AssocChanged(room.now_us, changed=(root, alice), users=users, replace=True)])
    return room


@pytest.mark.parametrize("plan", [in_strict_order, Planner()])
@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ({"time_limit_min": 90, "nodes_min": 2}, Reason.PartitionTimeLimit),
        ({"time_limit_min": 10, "nodes_min": 3}, Reason.PartitionNodeLimit),
        ({"time_limit_min": 10, "nodes_min": 1, "nodes_max": 1}, Reason.PartitionNodeLimit),
    ],
)
def test_only_the_qos_with_the_flag_goes_beyond(
    plan: PlanFunction, request_: dict[str, int], reason: Reason
) -> None:
    """The same request waits in one QOS and starts in the other."""
    room = site(plan)
    bound = room.job(ALICE, partition="small", qos="normal", **request_)
    free = room.job(ALICE, partition="small", qos="free", **request_)
    planned = room.run_pass()
    assert planned.waits[bound.job_id].reason == reason
    assert (bound.state, free.state) == (JobState.PENDING, JobState.RUNNING)


def test_it_is_not_refused_at_submission_either() -> None:
    """EnforcePartLimits=ALL refuses the one and takes the other."""
    room = site(Planner(), "EnforcePartLimits=ALL")
    want = {"partition": "small", "time_limit_min": 90, "nodes_min": 2}
    assert isinstance(room.submit(ALICE, qos="normal", **want), int)
    assert room.job(ALICE, qos="free", **want).time_limit_min == 90


def test_the_whole_of_a_long_run_is_planned() -> None:
    """Its end counts, not the partition's limit: it does not run into a reservation."""
    room = site(Planner())
    room.make(nodes="n[1-4]", starttime=START_US + 2 * HOUR_US)
    want = {"partition": "small", "qos": "free", "nodes_min": 2}
    long = room.job(ALICE, time_limit_min=180, **want)
    short = room.job(ALICE, time_limit_min=110, **want)
    room.run_pass()
    assert (long.state, short.state) == (JobState.PENDING, JobState.RUNNING)


def test_a_job_without_a_time_limit_gets_the_partitions() -> None:
    """The flag lifts what may be asked for, but not the default."""
    partition = Partition("small", max_time_min=60)
    free = opened(partition, Qos(2, "free", flags=FLAGS))
    assert (partition.default_time_min, free.default_time_min) == (NO_VAL, 60)
    assert opened(partition, None) is opened(partition, Qos(1, "normal")) is partition
