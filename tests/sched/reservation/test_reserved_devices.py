"""Reservations of devices: they and their share of cores are kept, now and later."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import HOUR_US, MINUTE_US, REQ_EXCLUSIVE
from pyslurm_ng.model.reservation import Reservation, part_of
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.backfill.planner import Planner
from tests.model.clusters import START_US
from tests.world.callers import ALICE, BOB, ROOT
from tests.world.examples import drawn
from tests.world.passes import in_strict_order
from tests.world.reservations import ReservationSite

GPU_NODES = """
GresTypes=gpu
DefMemPerCPU=100
NodeName=g[1-4] CPUs=16 Sockets=2 CoresPerSocket=8 RealMemory=64000 Gres=gpu:a100:4 Feature=fast
PartitionName=gpus Nodes=g[1-4]
"""


def room(*, backfill: bool = True) -> ReservationSite:
    """Return four nodes of sixteen cores, and four more with four GPUs each."""
    return ReservationSite(GPU_NODES, plan=Planner() if backfill else in_strict_order)


def gpus(here: ReservationSite, reservation: Reservation) -> dict[str, int]:
    """Return the mask of GPUs by node."""
    names = here.names(reservation)
    masks = [int.from_bytes(gres[0].indexes, "little") for gres in reservation.gres]
    return dict(zip(names, masks, strict=True))


def test_a_total_is_taken_from_few_nodes_with_its_cores() -> None:
    """Six GPUs: four of one node, two of the next, and four cores with each."""
    here = room()
    made = here.make(tres="gres/gpu=6", partitionname="gpus")
    assert gpus(here, made) == {"g1": 0b1111, "g2": 0b11}
    parts = made.parts()
    assert [parts[node_id].cores.bit_count() for node_id in made.node_ids] == [16, 8]


def test_so_many_of_each_node() -> None:
    """TRESPerNode with a count of nodes, and with nodes by name."""
    here = room()
    made = here.make("counted", trespernode="gres/gpu:a100=3", nodecnt=2, partitionname="gpus")
    assert gpus(here, made) == {"g1": 0b111, "g2": 0b111}
    named = here.make("named", trespernode="gres/gpu:1", nodes="g[1,4]")
    assert gpus(here, named) == {"g1": 0b1000, "g4": 0b1}
    assert here.not_made("more", trespernode="gres/gpu=1", nodes="g1") == Errno.ESLURM_NODES_BUSY


def test_a_total_over_a_number_of_nodes_is_even() -> None:
    """Six GPUs of three nodes are two of each."""
    here = room()
    made = here.make(tres="gres/gpu=6,node=3", partitionname="gpus")
    assert gpus(here, made) == {"g1": 0b11, "g2": 0b11, "g3": 0b11}


def test_a_total_over_named_nodes_is_even() -> None:
    """As few of them as hold it where there are fewer GPUs than nodes."""
    here = room()
    assert gpus(here, here.make(tres="gres/gpu=3", nodes="g[2-3]")) == {"g2": 0b11, "g3": 0b1}
    assert gpus(here, here.make("one", tres="gres/gpu=1", nodes="g[1,4]")) == {"g1": 0b1}


@pytest.mark.parametrize(
    ("settings_", "text"),
    [
        ({"tres": "gres/gpu=0"}, "TRES=gres/gpu=0: gres/gpu=0: allowed are"),
        ({"tres": "fs/x=3"}, "TRES=fs/x=3: fs/x=3: allowed are"),
        ({"tres": "gres/fpga=1"}, "no node has devices gres/fpga"),
        ({"tres": "gres/gpu=1,cpu=2"}, "exclude each other"),
        ({"trespernode": "gres/gpu=1"}, "TRESPerNode needs NodeCnt or Nodes"),
    ],
)
def test_what_cannot_be_is_named(settings_: dict[str, str], text: str) -> None:
    """One line says which part of the request and what is allowed."""
    here = room()
    given_ = {"starttime": START_US, "duration": 60, "users": "alice", **settings_}
    outcome = here.reserve("r", create=True, who=ROOT, **given_)
    assert isinstance(outcome, Reject)
    assert text in outcome.detail


@pytest.mark.parametrize("backfill", [True, False])
def test_inside_and_outside_have_their_own_devices(*, backfill: bool) -> None:
    """Jobs of the reservation get its GPUs and no others, all others the rest."""
    here = room(backfill=backfill)
    made = here.make(trespernode="gres/gpu=2", nodes="g1")
    here.advance()
    want = {"partition": "gpus", "gres": "gres/gpu:1", "time_limit_min": 9}
    inside = [here.job(reservation="r", **want) for _ in range(3)]
    outside = [here.job(BOB, node_list="g1", **want) for _ in range(3)]
    here.run_pass()
    assert [job.state == JobState.RUNNING for job in inside] == [True, True, False]
    assert [job.state == JobState.RUNNING for job in outside] == [True, True, False]
    own = made.parts()[made.node_ids[0]]
    for job in (*inside[:2], *outside[:2]):
        part = part_of(job.nodes[0])
        assert part.lies_in(own) == bool(job.reservation)
        assert part.meets(own) == bool(job.reservation)


def test_a_job_outside_waits_for_the_end_of_the_reservation() -> None:
    """Four GPUs of the node are there before it begins and after it, not meanwhile."""
    here = room()
    here.make(trespernode="gres/gpu=1", nodes="g1", starttime=START_US + HOUR_US, duration=60)
    want = {"node_list": "g1", "partition": "gpus", "gres": "gres/gpu:4"}
    long = here.job(BOB, time_limit_min=90, **want)
    three = here.job(BOB, time_limit_min=90, **(want | {"gres": "gres/gpu:3"}))
    plan = here.run_pass()
    assert three.state == JobState.RUNNING
    assert plan.expected_start_us[long.job_id] == START_US + 2 * HOUR_US


def test_jobs_inside_are_counted_once() -> None:
    """What a job inside holds is not taken from others twice."""
    here = room()
    here.make(trespernode="gres/gpu=2", nodes="g1", duration=120)
    here.advance()
    here.job(reservation="r", partition="gpus", gres="gres/gpu:2", time_limit_min=60)
    here.run_pass()
    other = here.job(BOB, node_list="g1", partition="gpus", gres="gres/gpu:2", time_limit_min=600)
    here.run_pass()
    assert other.state == JobState.RUNNING


def test_features_with_counts_choose_nodes_of_each_kind() -> None:
    """One fast node and two slow ones; alternatives in brackets hold for all nodes alike."""
    here = ReservationSite(
        "NodeName=f[1-3] CPUs=4 Feature=fast\nNodeName=s[1-3] CPUs=4 Feature=slow\n"
        "PartitionName=kinds Nodes=f[1-3],s[1-3]"
    )
    made = here.make(features="fast*1&slow*2", partitionname="kinds")
    assert [name[0] for name in here.names(made)] == ["f", "s", "s"]
    want = {"partitionname": "kinds"}
    assert here.not_made("x", features="fast*3", **want) == Errno.ESLURM_NODES_BUSY
    either = here.make("y", features="[fast|slow]", nodecnt=2, **want)
    assert here.names(either) == ["f2", "f3"]


REQUESTS = st.lists(
    st.tuples(
        st.sampled_from([ALICE, BOB]),
        st.booleans(),
        st.integers(1, 4),
        st.integers(1, 16),
        st.integers(10, 200),
        st.booleans(),
    ),
    max_size=12,
)


@settings(max_examples=drawn(40), deadline=None)
@given(requests=REQUESTS, reserved=st.integers(1, 4), begins_min=st.integers(0, 90))
def test_no_job_outside_ever_holds_a_reserved_device(
    requests: list[tuple[object, ...]], reserved: int, begins_min: int
) -> None:
    """Random requests at random times: every dispatch is allowed, and no device is shared."""
    here = room()
    made = here.make(
        trespernode=f"gres/gpu={reserved}",
        nodes="g[1-2]",
        starttime=START_US + begins_min * MINUTE_US,
        duration=60,
    )
    for who, wants_inside, count, cpus, limit, whole in requests:
        here.submit(
            who,  # type: ignore[arg-type]
            reservation="r" if wants_inside and who is ALICE else "",
            partition="gpus",
            gres=f"gres/gpu:{count}",
            cpus_per_task=cpus,
            time_limit_min=limit,
            flags=REQ_EXCLUSIVE if whole else 0,
        )
    for _ in range(4):
        here.run_pass()
        here.advance(30 * MINUTE_US)
        if "r" not in here.cluster.reservations:
            break
        current = here.cluster.reservations["r"]
        parts = made.parts()
        for job_id in here.cluster.job_index.active:
            job = here.cluster.jobs[job_id]
            if job.state != JobState.RUNNING or not current.is_active:
                continue
            for alloc in job.nodes:
                if alloc.node_id in parts:
                    assert part_of(alloc).meets(parts[alloc.node_id]) == bool(job.reservation)
