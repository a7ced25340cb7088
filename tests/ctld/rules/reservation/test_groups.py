"""MAGNETIC reservations of groups draw jobs of the groups' members."""

from __future__ import annotations

import pytest

from pyslurm_ng.ctld.rules.reservation.groups import groups_to_ask, members_known
from pyslurm_ng.ctld.users.reservation_groups import ReservationGroups, look_up_members
from pyslurm_ng.model.states import JobState
from pyslurm_ng.sched.backfill.planner import Planner
from tests.world.callers import ALICE, BOB
from tests.world.passes import PlanFunction, in_strict_order
from tests.world.reservations import ReservationSite

MEMBERS = {"hpc": ("carol", "alice"), "staff": ("dora",), "empty": ()}


def told(room: ReservationSite) -> ReservationSite:
    """Let the reservations of a room know who is in which group."""
    room.apply(members_known(room.cluster, MEMBERS, room.now_us))
    return room


@pytest.mark.parametrize("plan", [Planner(), in_strict_order], ids=["backfill", "builtin"])
@pytest.mark.parametrize(
    ("groups", "alice", "bob"),
    [("hpc", True, False), ("staff,hpc", True, False), ("-hpc", False, True),
     ("staff", False, False), ("empty", False, False), ("-empty", True, True)],
)  # fmt: skip
def test_only_members_are_drawn(plan: PlanFunction, groups: str, alice: bool, bob: bool) -> None:
    """With a minus, all other users are. A user that is not one finds no other node here."""
    room = ReservationSite(plan=plan)
    room.make(nodes="ALL", flags="MAGNETIC", groups=groups)
    jobs = [room.job(who, time_limit_min=60) for who in (ALICE, BOB)]
    room.run_pass()
    assert [job.state for job in jobs] == [JobState.PENDING] * 2  # nobody knows yet
    told(room).run_pass()
    assert [job.state == JobState.RUNNING for job in jobs] == [alice, bob]


def test_other_groups_are_looked_up_again() -> None:
    """What was known of the former groups is not used for these."""
    room = ReservationSite()
    room.make(nodes="ALL", flags="MAGNETIC", groups="hpc")
    assert groups_to_ask(room.cluster) == ("hpc",)
    assert told(room).cluster.reservations["r"].group_users == ("alice", "carol")
    assert members_known(room.cluster, MEMBERS, room.now_us) == []
    assert room.change(groups="unheard").group_users is None
    assert groups_to_ask(room.cluster) == ("unheard",)
    assert members_known(room.cluster, MEMBERS, room.now_us) == []


def test_without_a_magnet_no_group_is_looked_up() -> None:
    """A job that names a reservation was checked with its owner's groups when it was submitted."""
    room = ReservationSite()
    room.make(nodes="ALL", groups="hpc")
    assert groups_to_ask(room.cluster) == ()
    told(room)
    assert room.cluster.reservations["r"].group_users is None
    assert room.submit(BOB, reservation="r") != 0
    assert room.job(ALICE, reservation="r").request.reservation == "r"


def test_the_directory_is_asked_at_once_and_then_now_and_then() -> None:
    """Users with the group as their own are members, too.

    A group that does not exist has no members.
    """
    room = ReservationSite()
    asked: list[int] = []

    def run(work, done) -> None:  # type: ignore[no-untyped-def]
        asked.append(room.now_us)
        done(work())

    groups = ReservationGroups(run, lambda events: room.apply(list(events)), keep_us=1000)
    groups.tick(room.cluster, room.now_us)
    assert not asked
    room.make(nodes="ALL", flags="MAGNETIC", groups="root")
    for step in (0, 10, 990, 10):
        room.now_us += step
        groups.tick(room.cluster, room.now_us)
    assert len(asked) == 2
    assert "root" in (room.cluster.reservations["r"].group_users or ())
    assert look_up_members(["no_such_group_"]) == {"no_such_group_": ()}
