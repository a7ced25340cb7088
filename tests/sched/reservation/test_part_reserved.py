"""Reservations that hold some cores of nodes: the rest stays everybody's, now and later."""

from __future__ import annotations

from hypothesis import given, settings, strategies as st

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import HOUR_US, MINUTE_US, REQ_EXCLUSIVE
from pyslurm_ng.ctld.rules.reservation.reservation_nodes import cores_and_cpus
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.backfill.planner import Planner
from tests.model.clusters import START_US
from tests.world.callers import ALICE, BOB
from tests.world.reservations import ReservationSite


def room() -> ReservationSite:
    """Return a cluster planned by backfill: four nodes of sixteen cores."""
    return ReservationSite(plan=Planner())


def cores_of(reservation: Reservation) -> dict[int, int]:
    """Return the mask of cores of each node that is held in part."""
    return {node_id: part.cores for node_id, part in reservation.parts().items()}


def cores(here: ReservationSite) -> dict[str, dict[int, int]]:
    """Return the mask of cores of each node that jobs run on, by reservation."""
    masks: dict[str, dict[int, int]] = {}
    seen: dict[int, int] = {}
    for job in here.cluster.jobs.values():
        if job.state != JobState.RUNNING:
            continue
        for alloc in job.nodes:
            mask = int.from_bytes(alloc.cores, "little")
            assert not mask & seen.get(alloc.node_id, 0), "two jobs on one core"
            seen[alloc.node_id] = seen.get(alloc.node_id, 0) | mask
            own = masks.setdefault(job.reservation, {})
            own[alloc.node_id] = own.get(alloc.node_id, 0) | mask
    return masks


def test_the_rest_of_a_node_is_for_others() -> None:
    """Inside only the reserved cores are used, outside only the others."""
    here = room()
    part = here.make(nodes="n1", corecnt=2)
    assert cores_of(part) == {here.cluster.node_index.by_name["n1"]: 0b11}
    here.advance()
    for who, name in ((ALICE, "r"), (BOB, "")):
        for _ in range(20):
            here.job(who, reservation=name, node_list="n1", time_limit_min=60)
    here.run_pass()
    node_id = here.cluster.node_index.by_name["n1"]
    masks = cores(here)
    whole = (1 << here.cluster.node(node_id).spec.cores_per_socket
             * here.cluster.node(node_id).spec.sockets) - 1  # fmt: skip
    assert masks["r"] == {node_id: 0b11}
    assert masks[""] == {node_id: whole & ~0b11}


def test_a_job_of_the_whole_node_waits_for_the_end() -> None:
    """A short job has all cores before the reservation begins; a long one waits."""
    here = room()
    here.make(nodes="n1", corecnt=2, starttime=START_US + HOUR_US, duration=60)
    long = here.job(
        BOB, time_limit_min=90, node_list="n1", flags=REQ_EXCLUSIVE
    )  # fmt: skip
    plan = here.run_pass()
    assert plan.expected_start_us[long.job_id] == START_US + 2 * HOUR_US
    short = here.job(BOB, time_limit_min=60, node_list="n1", flags=REQ_EXCLUSIVE)
    here.run_pass()
    assert short.state == JobState.RUNNING


def test_counts_are_totals_or_of_each_node() -> None:
    """CoreCnt is a total, with NodeCnt spread evenly, with Nodes one number for each."""
    here = room()
    ids = here.cluster.node_index.by_name
    total = here.make("total", corecnt=3, partitionname="main")
    assert sum(mask.bit_count() for mask in cores_of(total).values()) == 3
    even = here.make("even", corecnt=3, nodecnt=2, partitionname="main")
    assert sorted(mask.bit_count() for mask in cores_of(even).values()) == [1, 2]
    each = here.make("each", nodes="n[3-4]", corecnt="1,2")
    assert [cores_of(each)[ids[name]].bit_count() for name in ("n3", "n4")] == [1, 2]
    cpus = here.make("cpus", tres="cpu=4", partitionname="main")
    threads = here.cluster.node(ids["n1"]).spec.threads_per_core
    assert sum(mask.bit_count() for mask in cores_of(cpus).values()) == 4 // threads
    every = [cores_of(reservation) for reservation in (total, even, each, cpus)]
    for node_id in ids.values():
        masks = [parts.get(node_id, 0) for parts in every]
        assert sum(masks) == masks[0] | masks[1] | masks[2] | masks[3], "shared cores"


def test_cpus_are_counted_as_cores_are() -> None:
    """By TRES, in whole cores: a total, spread over nodes, or one number for each node."""
    here = ReservationSite(
        "NodeName=t[1-4] Sockets=1 CoresPerSocket=4 ThreadsPerCore=2 RealMemory=1000\n"
        "PartitionName=ht Nodes=t[1-4]"
    )
    asked: list[tuple[dict[str, str | int], list[int]]] = [
        ({"tres": "cpu=5", "partitionname": "ht"}, [3]),
        ({"tres": "cpu=5,node=2", "partitionname": "ht"}, [1, 2]),
        ({"tres": "cpu=2,3", "nodes": "t[3-4]"}, [1, 2]),
        ({"tres": "cpu=1,2", "nodes": "t[1-2]"}, [1, 1]),
    ]
    for number, (words, counts) in enumerate(asked):
        made = here.make(f"r{number}", **words)
        assert sorted(mask.bit_count() for mask in cores_of(made).values()) == counts, words
    every = [cores_of(reservation) for reservation in here.cluster.reservations.values()]
    for node_id in here.cluster.node_index.by_name.values():
        masks = [parts.get(node_id, 0) for parts in every]
        assert sum(masks) == masks[0] | masks[1] | masks[2] | masks[3], "shared cores"


def test_licences_and_burst_buffers_may_be_given_as_tres() -> None:
    """Beside nodes, or alone with flag ANY_NODES."""
    here = ReservationSite("Licenses=matlab:4,ansys:2")
    made = here.make(tres="node=1,license/matlab=3,license/ansys=1,bb/cray=4GB")
    assert (len(made.node_ids), made.licenses) == (1, "matlab:3,ansys:1")
    assert made.burst_buffer == "cray:4GB"
    alone = here.make("s", tres="license/matlab=1", flags="ANY_NODES")
    assert (alone.node_ids, alone.licenses) == ((), "matlab:1")
    for text in ("license/matlab=1", "license/none=1", "license/matlab=x"):
        assert here.not_made("t", tres=text, flags="ANY_NODES") == Errno.ESLURM_INVALID_LICENSES


def test_what_does_not_fit_is_refused() -> None:
    """More cores than a node has, than are left, or a list of the wrong length."""
    here = room()
    when = {"starttime": START_US, "duration": 60, "users": "alice"}
    for asked, error in (
        ({"nodes": "n1", "corecnt": 1000}, Errno.ESLURM_NODES_BUSY),
        ({"nodes": "n[1-3]", "corecnt": "1,2"}, Errno.ESLURM_INVALID_CORE_CNT),
        ({"corecnt": "1,2"}, Errno.ESLURM_INVALID_CORE_CNT),
        ({"corecnt": "none"}, Errno.ESLURM_INVALID_CORE_CNT),
    ):
        refused = here.reserve("x", create=True, **when, **asked)
        assert isinstance(refused, Reject) and refused.code == error, asked


def test_an_update_chooses_again() -> None:
    """Other cores, or whole nodes again. Nodes held in part are not shown as reserved."""
    here = room()
    here.make("other", nodes="n1", corecnt=2)
    here.make(nodes="n1", corecnt=4)
    here.advance()
    node_id = here.cluster.node_index.by_name["n1"]
    assert cores_of(here.cluster.reservations["r"]) == {node_id: 0b111100}
    assert node_id not in here.cluster.node_index.reserved
    for asked, cores_now in (({"corecnt": 2}, 0b1100), ({"tres": "cpu=3"}, 0b11100)):
        outcome = here.reserve("r", create=False, **asked)
        assert not isinstance(outcome, Reject), outcome
        here.apply(list(outcome.events))
        reservation = here.cluster.reservations["r"]
        assert cores_of(reservation) == {node_id: cores_now}
        assert cores_and_cpus(here.cluster, reservation) == (cores_now.bit_count(),) * 2
    refused = here.reserve("r", create=False, nodes="n1")
    assert isinstance(refused, Reject) and refused.code == Errno.ESLURM_RESERVATION_OVERLAP
    outcome = here.reserve("r", create=False, nodes="n2")
    assert not isinstance(outcome, Reject), outcome
    here.apply(list(outcome.events))
    assert cores_of(here.cluster.reservations["r"]) == {}


_RESERVATION = st.tuples(
    st.sampled_from(["n1", "n[2-3]", "n4", "n[1-4]"]),
    st.integers(1, 5),  # cores of each node
    st.integers(0, 120),  # minutes from now
    st.integers(10, 180),
    st.sampled_from(["", "DAILY", "MAGNETIC", "IGNORE_JOBS"]),
)
_JOB = st.tuples(
    st.sampled_from(["", "", "a", "b"]),
    st.integers(1, 12),
    st.integers(1, 3),
    st.integers(5, 200),
    st.booleans(),
)


@settings(max_examples=20, deadline=None)
@given(st.lists(_RESERVATION, min_size=2, max_size=2), st.lists(_JOB, max_size=14))
def test_no_core_serves_two(
    reservations: list[tuple[str, int, int, int, str]],
    jobs: list[tuple[str, int, int, int, bool]],
) -> None:
    """Jobs share no cores; those inside have reserved cores, those outside none of them."""
    here = room()
    for name, (nodes, count, after_min, minutes, flags) in zip("ab", reservations, strict=True):
        start_us = START_US + after_min * MINUTE_US
        here.reserve(
            name, create=True, starttime=start_us, duration=minutes, nodes=nodes, corecnt=count,
            users="alice", flags=flags,
        )  # fmt: skip
    for reservation, tasks, nodes, minutes, is_exclusive in jobs:
        here.submit(
            ALICE if reservation else BOB, reservation=reservation, ntasks=max(tasks, nodes),
            nodes_min=nodes, nodes_max=4, time_limit_min=minutes,
            flags=REQ_EXCLUSIVE if is_exclusive else 0,
        )  # fmt: skip
    for _ in range(12):
        here.advance(15 * MINUTE_US)
        here.run_pass()  # dispatch refuses what is not allowed, and the room says so
        masks_by_name = cores(here)
        for other in here.cluster.reservations.values():
            if not other.is_active:
                continue
            parts = cores_of(other)
            for reserved_for, masks in masks_by_name.items():
                for node_id, mask in masks.items():
                    own = parts.get(node_id, 0)
                    if reserved_for == other.name:
                        assert not mask & ~own
                    elif "IGNORE_JOBS" not in other.flags:
                        assert not mask & own
