"""Advance reservations: making, changing, repeating, ending."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import DAY_US, HOUR_US, MINUTE_US, REQ_EXCLUSIVE
from pyslurm_ng.ctld.local_calendar import LOCAL
from pyslurm_ng.ctld.rules.calendar import UTC
from pyslurm_ng.ctld.rules.reservation.times import meet, with_times
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.model.states import JobFlag, JobState, NodeFlag, Reason
from tests.model.clusters import START_US
from tests.world.callers import ALICE, BOB, ROOT
from tests.world.reservations import ReservationSite

# Making -----------------------------------------------------------------------------------------


def test_named_nodes_are_marked() -> None:
    """Nodes= gives SPEC_NODES, ALL of no partition also ALL_NODES; the partition stays empty."""
    room = ReservationSite()
    reservation = room.make(nodes="n[2-3]", flags="maint,ignore_jobs")
    assert (room.names(reservation), reservation.partition) == (["n2", "n3"], "")
    assert reservation.flags == ("MAINT", "IGNORE_JOBS", "SPEC_NODES")
    every = room.make("all", nodes="ALL", flags="OVERLAP")
    assert every.flags == ("OVERLAP", "SPEC_NODES", "ALL_NODES")
    assert len(every.node_ids) == 4


def test_all_nodes_of_a_partition_are_those_it_has() -> None:
    """As in Slurm 22.05: Nodes=ALL with a partition means PART_NODES, which Nodes= ends."""
    room = ReservationSite()
    whole = room.make(nodes="ALL", partitionname="gpu")
    assert whole.flags == ("SPEC_NODES", "PART_NODES")
    assert room.names(whole) == ["n1", "n2"]
    assert room.change(nodes="n1").flags == ("SPEC_NODES",)
    assert room.not_changed(flags="PART_NODES") == Errno.ESLURM_INVALID_NODE_NAME
    assert room.change(flags="PART_NODES", nodes="ALL").flags == ("SPEC_NODES", "PART_NODES")
    named = room.make("named", nodes="n2", partitionname="gpu", flags="PART_NODES,OVERLAP")
    assert named.flags == ("OVERLAP", "SPEC_NODES")


def test_a_count_in_an_update_gives_no_partition() -> None:
    """Nodes that are added come from the default one, as those of a new reservation."""
    room = ReservationSite()
    room.make(nodes="n3")
    more = room.change(nodecnt=2)
    assert (room.names(more), more.partition) == (["n3", "n4"], "")


def test_counted_nodes_are_light_and_of_the_default_partition() -> None:
    """NodeCnt= takes nodes of the smallest weight; features and a partition narrow it."""
    room = ReservationSite()
    reservation = room.make(nodecnt=2)
    assert (room.names(reservation), reservation.partition, reservation.flags) == (
        ["n3", "n4"],
        "main",
        (),
    )
    assert room.names(room.make("g", nodecnt=1, features="gpunode")) == ["n1"]
    assert room.names(room.make("p", tres="node=1", partitionname="gpu")) == ["n2"]


def test_names_are_made_of_the_account_or_user_and_a_number() -> None:
    """The number counts all reservations ever made."""
    room = ReservationSite()
    room.make("first", nodes="n1")
    assert room.make("", nodes="n2", accounts="Physics").name == "physics_2"
    assert room.delete("physics_2") == 0
    assert room.make("", nodes="n2", users="bob,alice").name == "bob_3"


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"users": ""}, Errno.ESLURM_RESERVATION_EMPTY),
        ({"groups": "hpc"}, Errno.ESLURM_RESERVATION_USER_GROUP),
        ({"nodes": "n9"}, Errno.ESLURM_INVALID_NODE_NAME),
        ({"nodes": ""}, Errno.ESLURM_INVALID_NODE_COUNT),
        ({"nodecnt": 2}, Errno.ESLURM_INVALID_NODE_COUNT),
        ({"nodes": "", "nodecnt": 0}, Errno.ESLURM_INVALID_NODE_COUNT),
        ({"nodes": "", "nodecnt": 5}, Errno.ESLURM_NODES_BUSY),
        ({"partitionname": "none"}, Errno.ESLURM_INVALID_PARTITION_NAME),
        ({"features": "nonesuch"}, Errno.ESLURM_INVALID_FEATURE),
        ({"features": "a&&b"}, Errno.ESLURM_INVALID_FEATURE),
        ({"starttime": START_US - HOUR_US}, Errno.ESLURM_INVALID_TIME_VALUE),
        ({"starttime": "tomorrow"}, Errno.ESLURM_INVALID_TIME_VALUE),
        ({"duration": "soon"}, Errno.ESLURM_INVALID_TIME_VALUE),
        ({"duration": "0"}, Errno.ESLURM_INVALID_TIME_VALUE),
        ({"duration": "1-1", "flags": "DAILY"}, Errno.ESLURM_INVALID_TIME_VALUE),
        ({"flags": "DAILY,WEEKLY"}, Errno.ESLURM_NOT_SUPPORTED),
        ({"flags": "PURPLE"}, Errno.ESLURM_NOT_SUPPORTED),
        ({"flags": "TIME_FLOAT"}, Errno.ESLURM_INVALID_TIME_VALUE),
        ({"flags": "TIME_FLOAT,DAILY"}, Errno.ESLURM_NOT_SUPPORTED),
        ({"flags": "REPLACE"}, Errno.ESLURM_INVALID_NODE_NAME),
        ({"flags": "REPLACE_DOWN"}, Errno.ESLURM_INVALID_NODE_NAME),
        ({"tres": "gres/gpu=400"}, Errno.ESLURM_NODES_BUSY),
        ({"users": "alice,-bob"}, Errno.ESLURM_USER_ID_MISSING),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, str | int], code: int) -> None:
    """With Slurm's numbers; what is not built yet by name."""
    room = ReservationSite()
    fields = {"nodes": "n1", **settings}
    assert room.not_made(**fields) == code
    assert not room.cluster.reservations


@pytest.mark.parametrize("first", ["MAINT", "STATIC_ALLOC", "REPLACE", "REPLACE_DOWN"])
def test_an_update_to_flags_that_contradict_each_other_is_refused(first: str) -> None:
    """Only one flag may say what happens to busy and broken nodes.

    The reservation stays as it was.
    """
    room = ReservationSite()
    reservation = room.make(nodecnt=1, flags=first)
    for second in {"MAINT", "STATIC_ALLOC", "REPLACE", "REPLACE_DOWN"} - {first}:
        assert room.not_changed(flags_=second) == Errno.ESLURM_NOT_SUPPORTED
        assert room.not_changed(flags=f"{first},{second}") == Errno.ESLURM_NOT_SUPPORTED
        assert room.cluster.reservations["r"] == reservation
        assert room.not_changed(flags=second) == Errno.ESLURM_NOT_SUPPORTED
    assert set(room.change(flags="FLEX").flags) == {*reservation.flags, "FLEX"}


def test_an_update_to_replace_named_nodes_is_refused() -> None:
    """As Slurm 22.05 does."""
    room = ReservationSite()
    room.make(nodes="n1")
    for flag in ("REPLACE", "REPLACE_DOWN"):
        assert room.not_changed(flags=flag) == Errno.ESLURM_NOT_SUPPORTED


@pytest.mark.parametrize("first", ["HOURLY", "DAILY", "WEEKDAY", "WEEKEND", "WEEKLY"])
def test_a_reservation_repeats_in_one_way(first: str) -> None:
    """And a reservation whose start moves with the clock cannot repeat."""
    room = ReservationSite()
    room.make(nodecnt=1, flags=first, starttime=room.now_us + HOUR_US, duration=10)
    for second in {"HOURLY", "DAILY", "WEEKDAY", "WEEKEND", "WEEKLY", "TIME_FLOAT"} - {first}:
        assert room.not_changed(flags_=second) == Errno.ESLURM_NOT_SUPPORTED
        assert room.not_changed(flags=f"{second},{first}") == Errno.ESLURM_NOT_SUPPORTED


def test_only_operators_make_them() -> None:
    room = ReservationSite()
    outcome = room.reserve("r", create=True, who=ALICE, starttime=START_US, nodes="n1")
    assert outcome.code == Errno.ESLURM_USER_ID_MISSING
    assert room.not_made("a,b", nodes="n1") == Errno.ESLURM_RESERVATION_INVALID
    room.make(nodes="n1")
    assert room.not_made(nodes="n2") == Errno.ESLURM_RESERVATION_NAME_DUP


# Who else is there ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begin_min", "length_min", "overlaps"),
    [(0, 60, False), (0, 61, True), (119, 10, True), (120, 60, False), (70, 5, True)],
)
def test_overlap_in_time_is_refused(begin_min: int, length_min: int, overlaps: bool) -> None:
    """At the front, at the tail or inside; what only touches is no overlap."""
    room = ReservationSite()
    room.make("old", nodes="n[1-2]", starttime=START_US + HOUR_US, duration=60)
    settings: dict[str, str | int] = {
        "nodes": "n[2-3]",
        "starttime": START_US + begin_min * MINUTE_US,
        "duration": length_min,
    }
    if not overlaps:
        room.make("new", **settings)
        return
    assert room.not_made("new", **settings) == Errno.ESLURM_RESERVATION_OVERLAP
    room.make("maint", **settings, flags="MAINT")
    room.make("shared", **settings, flags="OVERLAP")


def test_nodes_of_longer_jobs_are_busy() -> None:
    """Unless the jobs are to be ignored, or end before the start."""
    room = ReservationSite()
    room.job(BOB, node_list="n1", time_limit_min=60)
    room.run_pass()
    assert room.not_made(nodes="n1") == Errno.ESLURM_NODES_BUSY
    assert room.not_made(nodecnt=4) == Errno.ESLURM_NODES_BUSY
    room.make("later", nodes="n1", starttime=START_US + HOUR_US)
    room.make("now", nodes="n1", flags="IGNORE_JOBS", duration=60)


def test_a_start_may_be_ten_minutes_ago() -> None:
    """A script names the minute at which it began; as in Slurm."""
    room = ReservationSite()
    room.make("recent", nodes="n1", starttime=START_US - 9 * MINUTE_US)
    refusal = room.not_made("old", nodes="n2", starttime=START_US - 11 * MINUTE_US)
    assert refusal == Errno.ESLURM_INVALID_TIME_VALUE


def test_cores_of_named_nodes_that_others_have_reserved_overlap() -> None:
    """As whole nodes do; cores that only jobs use are busy."""
    room = ReservationSite()
    room.make("whole", nodes="n1")
    assert room.not_made("new", nodes="n1", corecnt=1) == Errno.ESLURM_RESERVATION_OVERLAP
    room.job(BOB, node_list="n2", time_limit_min=60, flags=0)
    room.run_pass()
    assert room.not_made("new", nodes="n2", corecnt=16) == Errno.ESLURM_NODES_BUSY


def test_daily_reservations_overlap_on_any_day() -> None:
    """A single one years later is still in the way of the daily one's time of day."""
    room = ReservationSite()
    room.make("daily", nodes="n1", flags="DAILY", duration=120)
    far_us = START_US + 1000 * DAY_US
    assert room.not_made(nodes="n1", starttime=far_us + HOUR_US) == Errno.ESLURM_RESERVATION_OVERLAP
    room.make("single", nodes="n1", starttime=far_us + 2 * HOUR_US, duration=60)
    weekly: dict[str, str | int] = {"nodes": "n1", "flags": "WEEKLY", "duration": 30}
    assert room.not_made("w", **weekly) == Errno.ESLURM_RESERVATION_OVERLAP
    room.make("w", **weekly | {"starttime": START_US + 4 * HOUR_US})


@pytest.fixture
def berlin() -> Iterator[None]:
    """Local time with daylight saving."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Europe/Berlin"
    time.tzset()
    if time.localtime(1_780_000_000).tm_gmtoff != 7200:
        pytest.skip("no time zone data on this machine")
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


def test_repeats_keep_their_local_time(berlin: None) -> None:
    """Days on which the clocks change neither shift them nor make neighbours overlap."""
    midnight_us = int(time.mktime((2026, 3, 27, 0, 0, 0, 0, 0, -1))) * 1_000_000

    def daily(name: str, first_hour: int, last_hour: int) -> Reservation:
        start_us = midnight_us + first_hour * HOUR_US
        end_us = midnight_us + last_hour * HOUR_US
        return with_times(Reservation(name, start_us, end_us, (0,), flags=("DAILY",)), LOCAL)

    early, late = daily("early", 0, 3), daily("late", 3, 6)
    hours = {time.localtime(start_us // 1_000_000).tm_hour for start_us, _ in late.occurrences()}
    assert hours == {3}
    lengths = {end_us - start_us for start_us, end_us in early.occurrences()}
    assert lengths == {2 * HOUR_US, 3 * HOUR_US}
    assert not meet(early, late, LOCAL)
    assert meet(daily("other", 2, 4), late, LOCAL)


@pytest.mark.parametrize(
    ("first", "last", "length_min"),
    [(120, 180, 60), (150, 210, 30), (90, 150, 30), (130, 170, 40), (60, 120, 60)],
)
def test_a_time_that_the_clocks_leave_out(
    first: int, last: int, length_min: int, berlin: None
) -> None:
    """On 29 March 2026 two o'clock is three; what is left of the time is kept, or else all of it.

    Args:
        first, last: in minutes of the local day.
    """
    midnight_us = int(time.mktime((2026, 3, 28, 0, 0, 0, 0, 0, -1))) * 1_000_000
    start_us, end_us = midnight_us + first * MINUTE_US, midnight_us + last * MINUTE_US
    reservation = with_times(Reservation("r", start_us, end_us, (0,), flags=("DAILY",)), LOCAL)
    usual, short, after = reservation.occurrences()[:3]
    assert (short[1] - short[0]) // MINUTE_US == length_min
    for begin_us, finish_us in (usual, after):
        assert finish_us - begin_us == end_us - start_us
        clock = time.localtime(begin_us // 1_000_000)
        assert clock.tm_hour * 60 + clock.tm_min == first
    forward_us = midnight_us + (24 + 2) * HOUR_US
    assert short[0] == forward_us if first >= 120 else short[0] < forward_us


@pytest.mark.parametrize(
    ("flag", "days"),
    [
        ("DAILY", [0, 1, 2, 3]),
        ("WEEKLY", [0, 7, 14, 21]),
        ("WEEKDAY", [1, 2, 3, 4]),  # START_US is a Sunday
        ("WEEKEND", [0, 6, 7, 13]),
    ],
)
def test_days_of_repeats(flag: str, days: list[int]) -> None:
    """If the first day does not suit, the next one that does is taken."""
    reservation = ReservationSite().make(nodes="n1", flags=flag)
    starts = [(start_us - START_US) // DAY_US for start_us, _ in reservation.occurrences()]
    assert starts[:4] == days
    assert UTC.weekday(START_US) == 6


def test_hourly_repeats_each_hour() -> None:
    reservation = ReservationSite().make(nodes="n1", flags="HOURLY", duration=10)
    assert reservation.occurrences()[1] == (START_US + HOUR_US, START_US + HOUR_US + 10 * MINUTE_US)


# Who may ----------------------------------------------------------------------------------------


def test_jobs_may_name_what_is_theirs() -> None:
    """Unknown names are invalid, others' are denied; every name of a list counts."""
    room = ReservationSite()
    room.make("hers", nodes="n1", users="alice")
    room.make("not_his", nodes="n2", users="-bob")
    room.make("group", nodes="n3", groups="hpc")
    room.make("account", nodes="n4", accounts="chem")
    for nothing in ("nope", ",", "hers,nope"):
        assert room.submit(reservation=nothing) == Errno.ESLURM_RESERVATION_INVALID
    assert room.submit(BOB, reservation="hers") == Errno.ESLURM_RESERVATION_ACCESS
    assert room.submit(BOB, reservation="not_his") == Errno.ESLURM_RESERVATION_ACCESS
    assert room.submit(BOB, reservation="group") == Errno.ESLURM_RESERVATION_ACCESS
    assert room.submit(reservation="account") == Errno.ESLURM_RESERVATION_ACCESS
    assert room.submit(reservation="hers,account") == Errno.ESLURM_RESERVATION_ACCESS
    assert room.job(reservation="hers,not_his").request.reservation == "hers,not_his"
    assert room.job(reservation="group").state == JobState.PENDING
    assert room.job(BOB, reservation="account", account="chem").state == JobState.PENDING


def test_the_reservation_gives_the_partition() -> None:
    """PartitionName= is the default of its jobs."""
    room = ReservationSite()
    room.make(nodecnt=1, partitionname="gpu")
    assert room.job(reservation="r").partition == "gpu"


# Time passes ------------------------------------------------------------------------------------


def test_begin_and_end_show_on_nodes() -> None:
    """RESERVED while in force, MAINTENANCE too for maintenance; a single one is then gone."""
    room = ReservationSite()
    room.make("m", nodes="n1", starttime=START_US + HOUR_US, duration=60, flags="MAINT")
    room.make("r", nodes="n2", starttime=START_US + HOUR_US, duration=90)
    room.advance()
    assert not room.flags("n1") & NodeFlag.RESERVED
    room.advance(HOUR_US)
    both = NodeFlag.RESERVED | NodeFlag.MAINTENANCE
    assert (room.flags("n1") & both, room.flags("n2") & both) == (both, NodeFlag.RESERVED)
    room.advance(HOUR_US)
    assert (room.flags("n1") & both, list(room.cluster.reservations)) == (NodeFlag.NONE, ["r"])
    room.advance(HOUR_US)
    assert not room.cluster.reservations


def test_daily_one_moves_to_the_next_day() -> None:
    room = ReservationSite()
    first = room.make(nodes="n1", flags="DAILY")
    room.advance()
    room.advance(2 * HOUR_US)
    moved = room.cluster.reservations["r"]
    assert (moved.start_us, moved.is_active) == (START_US + DAY_US, False)
    assert moved.end_us - moved.start_us == first.end_us - first.start_us
    room.advance(10 * DAY_US)
    assert room.cluster.reservations["r"].start_us == START_US + 11 * DAY_US


def test_jobs_are_ended_with_it() -> None:
    """After ResvOverRun minutes more."""
    room = ReservationSite("ResvOverRun=5")
    room.make(nodes="n1", duration=60)
    job = room.job(reservation="r", time_limit_min=60)
    room.advance()
    room.run_pass()
    assert (room.places(job), job.reservation) == (["n1"], "r")
    room.change(duration=30)
    room.advance(34 * MINUTE_US)
    assert job.state == JobState.RUNNING
    room.advance(MINUTE_US)
    assert (job.state, job.reason) == (JobState.TIMEOUT, Reason.TimeLimit)
    assert not room.cluster.reservations


def test_waiting_jobs_are_held_when_it_goes() -> None:
    """Held with the reason, without the name; a list loses the name; release lets it run."""
    room = ReservationSite()
    room.make("a", nodes="n1")
    room.make("b", nodes="n2", flags="NO_HOLD_JOBS_AFTER")
    held_job, free = room.job(reservation="a"), room.job(reservation="b")
    either = room.job(reservation="a,b")
    assert room.delete("a") == 0
    assert (held_job.priority, held_job.reason) == (0, Reason.ReservationDeleted)
    assert held_job.flags & JobFlag.RESV_DEL_HOLD and held_job.request.reservation == ""
    assert (either.request.reservation, either.reason) == ("b", Reason.NONE)
    assert room.delete("b") == 0
    assert (free.request.reservation, free.reason) == ("", Reason.NONE)


def test_accounts_below_an_allowed_one_may_use_it() -> None:
    """And those below one that is kept out may not."""
    room = ReservationSite()
    room.account()
    room.make(nodes="n1", accounts="root")
    room.make("s", nodes="n2", accounts="-root")
    job = room.job(reservation="r", account="physics")
    room.run_pass()
    assert room.places(job) == ["n1"]
    assert room.refused(reservation="s", account="physics") == Errno.ESLURM_RESERVATION_ACCESS


def test_root_may_use_every_reservation() -> None:
    """As in Slurm; a reservation that draws jobs draws only those it is for."""
    room = ReservationSite()
    room.make(nodes="n1", users="alice", flags="MAGNETIC")
    inside = room.job(ROOT, reservation="r")
    outside = room.job(ROOT)
    room.run_pass()
    assert room.places(inside) == ["n1"]
    assert room.places(outside) != ["n1"]


def test_members_delete_what_says_so() -> None:
    """USER_DELETE: also those who may use it by their account."""
    room = ReservationSite()
    room.make(nodes="n1", users="alice", flags="USER_DELETE")
    assert room.delete(who=BOB) == Errno.ESLURM_USER_ID_MISSING
    assert room.delete(who=ALICE) == 0


def test_members_delete_all_where_the_site_says_so() -> None:
    """SlurmctldParameters=user_resv_delete."""
    room = ReservationSite("SlurmctldParameters=user_resv_delete")
    room.make(nodes="n1", users="alice")
    assert room.delete(who=BOB) == Errno.ESLURM_USER_ID_MISSING
    assert room.delete(who=ALICE) == 0


def test_each_named_node_wants_its_number_of_cores() -> None:
    room = ReservationSite()
    assert room.not_made(nodes="n[1-2]", corecnt=2) == Errno.ESLURM_INVALID_CORE_CNT
    assert len(room.make(nodes="n[1-2]", corecnt="2,1").core_masks) == 2


def test_one_in_use_is_not_deleted() -> None:
    """And only operators may, or its users with USER_DELETE."""
    room = ReservationSite()
    room.make("r", nodes="n1")
    room.make("u", nodes="n2", flags="USER_DELETE")
    room.job(reservation="r")
    room.advance()
    room.run_pass()
    assert room.delete("r") == Errno.ESLURM_RESERVATION_BUSY
    assert room.delete("none") == Errno.ESLURM_RESERVATION_INVALID
    assert room.delete("none", ALICE) == Errno.ESLURM_USER_ID_MISSING
    assert room.delete("r", ALICE) == Errno.ESLURM_USER_ID_MISSING
    assert room.delete("u", BOB) == Errno.ESLURM_USER_ID_MISSING
    assert room.delete("u", ALICE) == 0


def test_purge_when_idle() -> None:
    """PURGE_COMP counts from the last job's end; a waiting job keeps it."""
    room = ReservationSite()
    room.make("idle", nodes="n1", flags="PURGE_COMP=10")
    room.make("daily", nodes="n2", flags="PURGE_COMP,DAILY")
    room.make("awaited", nodes="n3", flags="PURGE_COMP")
    room.job(reservation="awaited", begin_us=START_US + DAY_US)
    room.advance()
    room.advance(6 * MINUTE_US)
    assert room.cluster.reservations["daily"].start_us == START_US + DAY_US
    room.advance(4 * MINUTE_US)
    assert sorted(room.cluster.reservations) == ["awaited", "daily"]


# Nodes come and go ------------------------------------------------------------------------------


def test_failed_nodes_are_replaced() -> None:
    """By default where nodes were counted; never with STATIC_ALLOC or where they were named."""
    room = ReservationSite()
    room.make("counted", nodecnt=1)
    room.make("static", nodecnt=1, flags="STATIC_ALLOC")
    assert (room.names("counted"), room.names("static")) == (["n3"], ["n4"])
    down = tuple(room.cluster.node_index.by_name[name] for name in ("n3", "n4"))
    room.apply([ev.NodesDown(room.now_us, down, "broken")])
    room.advance()
    assert (room.names("counted"), room.names("static")) == (["n1"], ["n4"])


def test_a_failed_node_is_replaced_beside_one_that_overlaps() -> None:
    """A reservation of all nodes that allows others keeps no spare node from them."""
    room = ReservationSite()
    room.make("counted", nodecnt=1)
    room.make("all", nodes="ALL", flags="OVERLAP")
    assert room.names("counted") == ["n3"]
    down = (room.cluster.node_index.by_name["n3"],)
    room.apply([ev.NodesDown(room.now_us, down, "broken")])
    room.advance()
    assert room.names("counted") == ["n4"]


def test_used_nodes_are_replaced() -> None:
    """REPLACE keeps the number of idle nodes up."""
    room = ReservationSite()
    room.make(nodecnt=1, flags="REPLACE")
    room.advance()
    job = room.job(reservation="r", flags=REQ_EXCLUSIVE)
    room.run_pass()
    assert room.places(job) == ["n3"]
    room.advance()
    assert room.names() == ["n4"]


# Changing ---------------------------------------------------------------------------------------


def test_changes_keep_the_length_and_add_to_lists() -> None:
    room = ReservationSite()
    room.make(nodes="n1", starttime=START_US + DAY_US)
    moved = room.change(starttime=START_US + 2 * DAY_US)
    assert moved.end_us == moved.start_us + 2 * HOUR_US
    assert room.change(duration_=30).end_us == moved.start_us + 150 * MINUTE_US
    assert room.change(users_="bob").users == ("alice", "bob")
    assert room.change(nodes_="n4") and room.names() == ["n1", "n4"]
    assert room.change(flags_="DAILY").flags == ("DAILY", "SPEC_NODES")
    assert room.change(flags="MAINT").flags == ("MAINT", "DAILY", "SPEC_NODES")
    assert room.not_changed(users="") == Errno.ESLURM_RESERVATION_EMPTY
    assert room.not_changed("none", users="bob") == Errno.ESLURM_RESERVATION_INVALID


def test_a_minus_takes_names_off_a_list_and_never_turns_it_round() -> None:
    """`users=-bob` after `users=alice,bob` lets alice in; nobody else gains anything by it."""
    room = ReservationSite()
    room.make(nodes="n1", users="alice,bob")
    assert room.change(users="-bob").users == ("alice",)
    assert room.not_changed(users="-carol") == Errno.ESLURM_USER_ID_MISSING
    assert room.not_changed(users="-alice") == Errno.ESLURM_RESERVATION_EMPTY
    room.make("q", nodes="n2", allowedpartitions="main", users="alice")
    assert room.not_changed("q", allowedpartitions="-other") == Errno.ESLURM_INVALID_PARTITION_NAME
    assert room.cluster.reservations["q"].allowed_partitions == ("main",)


def test_a_new_list_may_be_taken_away_from_all() -> None:
    """`users-=bob` of a new reservation means `users=-bob`."""
    room = ReservationSite()
    outcome = room.reserve(
        "r", create=True, starttime=room.now_us, duration=120, nodes="n1",
        **{"users-": "bob", "allowedpartitions-": "main"},
    )  # fmt: skip
    assert not isinstance(outcome, Reject)
    made = room.cluster.reservations["r"]
    assert (made.users, made.allowed_partitions) == (("-bob",), ("-main",))


def test_counts_grow_and_shrink() -> None:
    room = ReservationSite()
    room.make(nodecnt=1)
    room.change(nodecnt=3)
    assert room.names() == ["n1", "n3", "n4"]
    room.change(nodecnt=2)
    assert len(room.names()) == 2
    assert room.not_changed(nodecnt=5) == Errno.ESLURM_NODES_BUSY


def test_the_start_is_fixed_once_it_has_begun() -> None:
    room = ReservationSite()
    room.make(nodes="n1")
    room.advance()
    begun = room.not_changed(starttime=START_US + HOUR_US)
    assert begun == Errno.ESLURM_RSV_ALREADY_STARTED
    assert room.not_changed(endtime=START_US - 1) == Errno.ESLURM_INVALID_TIME_VALUE


def test_skip_leaves_out_one_occurrence() -> None:
    room = ReservationSite()
    room.make("once", nodes="n2")
    room.make("daily", nodes="n1", flags="DAILY")
    assert room.change("daily", skip="").start_us == START_US + DAY_US
    assert room.not_changed("once", skip="") == Errno.ESLURM_RESERVATION_NO_SKIP


def test_a_longer_one_may_not_run_into_the_next() -> None:
    room = ReservationSite()
    room.make("a", nodes="n1")
    room.make("b", nodes="n1", starttime=START_US + 3 * HOUR_US)
    assert room.not_changed("a", duration=240) == Errno.ESLURM_RESERVATION_OVERLAP
    assert room.not_changed("a", nodes_="n1", duration=240) == Errno.ESLURM_RESERVATION_OVERLAP


def test_a_floating_reservation_never_begins() -> None:
    """Long jobs stay out of its nodes at any time, short ones may always run there."""
    scene = ReservationSite()
    start_us = scene.now_us + HOUR_US
    made = scene.make(nodes="n4", flags="TIME_FLOAT", starttime=start_us, duration=60)
    assert made.float_us == HOUR_US
    for _ in range(3):
        scene.advance(40 * MINUTE_US)
        floating = scene.cluster.reservations["r"]
        assert HOUR_US - MINUTE_US < floating.start_us - scene.now_us <= HOUR_US
        assert (floating.end_us - floating.start_us, floating.is_active) == (HOUR_US, False)
    short = scene.job(BOB, node_list="n4", time_limit_min=30)
    long = scene.job(BOB, node_list="n4", time_limit_min=90)
    scene.run_pass()
    assert (short.state, long.state) == (JobState.RUNNING, JobState.PENDING)


def test_first_cores_only() -> None:
    """A job gets cores 0 to 3 or none: no job may have first cores in the middle."""
    scene = ReservationSite()
    made = scene.make(nodes="n4", corecnt=4, flags="FIRST_CORES")
    assert made.parts()[made.node_ids[0]].cores == 0b1111
    refused = scene.not_made("s", nodes="n4", corecnt=4, flags="FIRST_CORES")
    assert refused == Errno.ESLURM_NODES_BUSY
    scene.make("t", nodes="n4", corecnt=4)


# How settings are written -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"), [("1:30", 120), ("1-1:1:1", 90120), ("5", 300), ("0:0:1", 60)]
)
def test_durations_are_whole_minutes(text: str, seconds: int) -> None:
    """As in Slurm 22.05, which rounds up."""
    room = ReservationSite()
    room.make(nodes="n1", duration=text)
    kept = room.cluster.reservations["r"]
    assert kept.end_us - kept.start_us == seconds * 1_000_000


@pytest.mark.parametrize(("text", "nodes"), [("1,1", 2), ("3", 3), ("1,2,1", 4)])
def test_counts_of_nodes_are_added_up(text: str, nodes: int) -> None:
    room = ReservationSite()
    room.make(nodecnt=text)
    assert len(room.cluster.reservations["r"].node_ids) == nodes
