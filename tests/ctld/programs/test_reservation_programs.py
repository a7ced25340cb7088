"""ResvProlog and ResvEpilog: once for each time that a reservation is in force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from pyslurm_ng.ctld.programs.reservation_programs import ReservationPrograms
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply
from pyslurm_ng.model.reservation import Reservation
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of

CONF = conf_of(FOUR_NODES + "ResvProlog=/begin\nResvEpilog=/end\n")
HOUR_US = 3_600_000_000
WAITS = Reservation("maint", START_US + HOUR_US, START_US + 2 * HOUR_US)
HOLDS = replace(WAITS, is_active=True)


class Scene:
    """A cluster whose reservations are followed; programs only leave a word."""

    def __init__(self, *before: ev.AnyEvent) -> None:
        self.cluster = cluster_of(CONF)
        for event in before:
            apply(self.cluster, event)
        self.ran: list[str] = []
        self.programs = ReservationPrograms(self.cluster, CONF, self, lambda release: release())

    def run(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        self.ran.append(" ".join(argv))

    def tell(self, *events: ev.AnyEvent) -> list[str]:
        """Apply events; return what ran since the last time."""
        for event in events:
            apply(self.cluster, event)
        self.programs.applied(events)
        ran, self.ran = self.ran, []
        return ran


def updated(item: Reservation) -> ev.ReservationUpdated:
    return ev.ReservationUpdated(START_US, item)


def test_a_program_at_each_end() -> None:
    """Neither when it is made, nor when something else of it changes."""
    scene = Scene()
    assert scene.tell(ev.ReservationCreated(START_US, WAITS)) == []
    assert scene.tell(updated(HOLDS)) == ["/begin maint"]
    assert scene.tell(updated(replace(HOLDS, users=("ann",)))) == []
    assert scene.tell(ev.ReservationDeleted(START_US, "maint")) == ["/end maint"]


def test_one_that_begins_at_once() -> None:
    """`starttime=now`."""
    assert Scene().tell(ev.ReservationCreated(START_US, HOLDS)) == ["/begin maint"]


def test_one_that_never_was_in_force() -> None:
    """Deleted before its time, it had no beginning."""
    scene = Scene(ev.ReservationCreated(START_US, WAITS))
    assert scene.tell(ev.ReservationDeleted(START_US, "maint")) == []


def test_occurrences_follow_one_another() -> None:
    """An hourly one may end and begin in the same moment."""
    scene = Scene(ev.ReservationCreated(START_US, HOLDS))
    following = replace(HOLDS, start_us=HOLDS.end_us, end_us=HOLDS.end_us + HOUR_US)
    assert scene.tell(updated(following)) == ["/end maint", "/begin maint"]
    assert scene.tell(updated(replace(following, is_active=False))) == ["/end maint"]


def test_a_restart_begins_nothing_again() -> None:
    """What was in force had its prolog."""
    scene = Scene(ev.ReservationCreated(START_US, HOLDS))
    assert scene.tell(updated(replace(HOLDS, users=("ann",)))) == []
    assert scene.tell(ev.ReservationDeleted(START_US, "maint")) == ["/end maint"]
