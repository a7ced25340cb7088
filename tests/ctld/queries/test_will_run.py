"""--test-only: the first moment at which a request would fit."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import HOUR_US, REQ_EXCLUSIVE
from pyslurm_ng.ctld.queries.will_run import test_job as would_run
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.wire.job_messages import TestJob, WillRun
from tests.model.clusters import START_US
from tests.world.callers import ALICE, BOB
from tests.world.reservations import ReservationSite


def answer(here: ReservationSite, who: object = BOB, **request: object) -> tuple[float, str]:
    """Return in how many hours and where a request would start."""
    message = TestJob(request=JobRequest(**request))  # type: ignore[arg-type]
    reply = would_run(here.cluster, Soft(START_US), here.conf, message, who, here.now_us)  # type: ignore[arg-type]
    assert isinstance(reply, WillRun), reply
    return (reply.start_us - START_US) / HOUR_US, reply.nodes


@pytest.fixture
def here() -> ReservationSite:
    """Return four nodes, of which n1 is reserved for alice from 1 h on, and n2 is busy till 2 h."""
    room = ReservationSite(plan=Planner())
    room.make(nodes="n1", starttime=START_US + HOUR_US, duration=180)
    room.job(BOB, node_list="n2", time_limit_min=120, flags=REQ_EXCLUSIVE)
    room.run_pass()
    return room


def test_reservations_of_others_are_in_the_way(here: ReservationSite) -> None:
    """They count for as long as the job would run. A short job ends before them."""
    assert answer(here, node_list="n1", time_limit_min=60) == (0.0, "n1")
    assert answer(here, node_list="n1", time_limit_min=90) == (4.0, "n1")
    assert answer(here, node_list="n1,n2", nodes_min=2, time_limit_min=60) == (4.0, "n[1-2]")
    assert answer(here, node_list="n2", time_limit_min=60, flags=REQ_EXCLUSIVE) == (2.0, "n2")


def test_inside_a_reservation_its_times_count(here: ReservationSite) -> None:
    """The reservation begins in an hour. A job that would outlive it starts nevertheless."""
    assert answer(here, ALICE, reservation="r", time_limit_min=60) == (1.0, "n1")
    assert answer(here, ALICE, reservation="r", time_limit_min=240) == (1.0, "n1")


def test_parts_of_nodes_are_left_to_others() -> None:
    """Twelve of sixteen cores of n1 are everybody's."""
    here = ReservationSite(plan=Planner())
    here.make(nodes="n1", corecnt=4, duration=120)
    here.advance()
    alone = {"node_list": "n1", "nodes_min": 1, "nodes_max": 1, "time_limit_min": 60}
    assert answer(here, ntasks=12, **alone)[0] == 0.0
    assert answer(here, ntasks=13, **alone)[0] == 2.0


def test_a_partition_that_would_give_too_many_nodes_is_not_used() -> None:
    """The job would wait there for ever. Another of its partitions may start it."""
    here = ReservationSite("PartitionName=wide Nodes=n[1-4] MinNodes=2", plan=Planner())
    single = {"nodes_min": 1, "nodes_max": 1, "time_limit_min": 60}
    assert answer(here, partition="wide,main", **single) == (0.0, "n3")
    message = TestJob(request=JobRequest(partition="wide", **single))
    refusal = would_run(here.cluster, Soft(START_US), here.conf, message, BOB, here.now_us)
    assert isinstance(refusal, Reject)
    assert (refusal.code, refusal.detail) == (Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE, "")


@pytest.mark.parametrize(
    "request_fields", [{"nodes_min": 20}, {"mincpus": 99}, {"mem_per_node_mib": 1 << 30}]
)
def test_what_fits_nowhere_is_refused_without_details(request_fields: dict[str, int]) -> None:
    """Also what sbatch would queue. Slurm's --test-only has one text for all of it."""
    here = ReservationSite(plan=Planner())
    message = TestJob(request=JobRequest(time_limit_min=60, **request_fields))  # type: ignore[arg-type]
    refusal = would_run(here.cluster, Soft(START_US), here.conf, message, BOB, here.now_us)
    assert refusal == Reject(Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE)
