"""What a reservation can never give is refused at submission, as in Slurm."""

from __future__ import annotations

import pytest

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.model.job import Job
from tests.world.callers import ALICE
from tests.world.reservations import ReservationSite


def taken(room: ReservationSite, **request: object) -> bool:
    """Return whether a job in the reservations r is accepted; else it is refused as Slurm does."""
    outcome = room.submit(ALICE, reservation="r", **request)
    if isinstance(outcome, Job):
        return True
    assert outcome == Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE
    return False


@pytest.mark.parametrize(
    ("request_", "is_taken"),
    [
        ({"nodes_min": 2, "nodes_max": 2}, True),
        ({"nodes_min": 3, "nodes_max": 3}, False),
        ({"ntasks": 32}, True),
        ({"ntasks": 33}, False),
        ({"node_list": "n4"}, True),
        ({"node_list": "n1"}, False),
        ({"exclude": "n[3-4]"}, False),
    ],
)
def test_its_nodes_have_to_do(request_: dict[str, object], is_taken: bool) -> None:
    room = ReservationSite()
    room.make(nodes="n[3-4]")
    assert taken(room, **request_) is is_taken


def test_parts_of_nodes_have_to_do() -> None:
    """Twelve cores in all, eight of them of one node."""
    room = ReservationSite()
    room.make(nodes="n[3-4]", corecnt="8,4")
    assert taken(room, ntasks=12)
    assert not taken(room, ntasks=13)
    assert not taken(room, ntasks=9, nodes_min=1, nodes_max=1)


@pytest.mark.parametrize("flags", ["FLEX", "ANY_NODES"])
def test_jobs_of_some_may_run_elsewhere(flags: str) -> None:
    room = ReservationSite("Licenses=soft:1")
    room.make(nodes="n[3-4]", flags=flags, licenses="soft:1")
    assert taken(room, nodes_min=3, nodes_max=3)


def test_one_of_several_is_enough() -> None:
    room = ReservationSite()
    room.make(nodes="n1")
    room.make("s", nodes="n[2-4]")
    outcome = room.submit(ALICE, reservation="r,s", nodes_min=3, nodes_max=3)
    assert isinstance(outcome, Job)
