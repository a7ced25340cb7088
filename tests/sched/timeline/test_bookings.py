"""Who has which cores and GPUs of a node, and until when."""

from __future__ import annotations

from pyslurm_ng.model.job import GresAlloc, NodeAlloc
from pyslurm_ng.sched.cons_tres.free_node import FreeNode
from pyslurm_ng.sched.frame.job_records import Running
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.sched.timeline.bookings import Bookings
from pyslurm_ng.sched.timeline.nearness import hardware_of
from tests.model.clusters import cluster_of

NOW_US, HOUR_US = 1_000_000_000_000_000, 3_600_000_000
ALL_CORES, ALL_GPUS = 0xFFFF, 0b1111


def taken(cores: int, gpus: int = 0) -> tuple[NodeAlloc, ...]:
    """Return some cores and GPUs of the first node."""
    gres = (GresAlloc("gpu", "a100", gpus.bit_count(), bytes([gpus])),) if gpus else ()
    mask = cores.to_bytes(2, "little")
    return (NodeAlloc(0, cores.bit_count(), mask, 0, 1, gres),)


def bookings(*running: Running) -> Bookings:
    """Return the bookings of a pass over four nodes, the first two with GPUs."""
    made = Bookings(hardware_of(snapshot(cluster_of(), NOW_US)))
    made.begin(running, NOW_US, is_kept=True)
    return made


def first_node(made: Bookings) -> int:
    """Return where among the nodes, lighter ones first, the first of the cluster is."""
    places = [node for node in range(4) if made.node_at(node, NOW_US, NOW_US + 1).node_id == 0]
    return places[0]


def left(node: FreeNode) -> tuple[int, int]:
    """Return what is free of cores and GPUs."""
    return node.cores, ALL_GPUS & ~node.gres_busy.get("gpu:a100", 0)


def test_what_runs_is_taken_until_its_end() -> None:
    made = bookings(Running(7, NOW_US + HOUR_US, taken(0b11, 0b1), ""))
    node = first_node(made)
    assert left(made.node_at(node, NOW_US, NOW_US + 1)) == (ALL_CORES & ~0b11, 0b1110)
    later = made.node_at(node, NOW_US + HOUR_US, NOW_US + 2 * HOUR_US)
    assert left(later) == (ALL_CORES, ALL_GPUS)


def test_a_promise_is_taken_as_long_as_it_runs_and_may_be_left_out() -> None:
    made = bookings()
    node, start_us = first_node(made), NOW_US + HOUR_US
    made.promise(taken(0b1), start_us, start_us + HOUR_US, is_fixed=False)
    made.promise(taken(0b10, 0b100), start_us, start_us + HOUR_US, is_fixed=True)
    assert left(made.node_at(node, NOW_US, start_us)) == (ALL_CORES, ALL_GPUS)
    assert left(made.node_at(node, NOW_US, start_us + 1)) == (ALL_CORES & ~0b11, 0b1011)
    only_fixed = made.node_at(node, NOW_US, start_us + 1, only_fixed=True)
    assert left(only_fixed) == (ALL_CORES & ~0b10, 0b1011)
    assert not made.has_room(taken(0b10), NOW_US, start_us + 1)
    assert made.has_room(taken(0b10), NOW_US, start_us)


def test_a_device_in_use_until_its_promise_begins_stays_in_use_when_that_is_shown_again() -> None:
    made = bookings()
    made.promise(taken(0b11, 0b11), NOW_US + HOUR_US, NOW_US + 2 * HOUR_US, is_fixed=True)
    node = made.node_at(first_node(made), NOW_US, NOW_US + 1)
    node.cores &= ~0b1
    node.gres_busy["gpu:a100"] = 0b1
    (hidden,) = made.hide_promised([node], NOW_US + 2 * HOUR_US)
    assert left(node) == (ALL_CORES & ~0b11, 0b1100)
    hidden.show()
    assert left(node) == (ALL_CORES & ~0b1, 0b1110)
    assert made.hide_promised([node], NOW_US + HOUR_US) == []


def test_a_trial_that_failed_leaves_nothing() -> None:
    made = bookings()
    made.begin_trial()
    made.promise(taken(0b1), NOW_US, NOW_US + HOUR_US, is_fixed=True)
    made.hold(taken(0b10), NOW_US + HOUR_US)
    made.roll_back()
    assert left(made.node_at(first_node(made), NOW_US, NOW_US + 1)) == (ALL_CORES, ALL_GPUS)
    made.begin_trial()
    made.hold(taken(0b10), NOW_US + HOUR_US)
    made.keep()
    node = made.node_at(first_node(made), NOW_US, NOW_US + 1)
    assert left(node) == (ALL_CORES & ~0b10, ALL_GPUS)
