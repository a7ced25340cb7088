"""ResvProlog and ResvEpilog: once for each time that a reservation is in force."""

from __future__ import annotations

from msgspec.structs import replace

from pyslurm_ng.ctld.programs.reservation_programs import ReservationPrograms
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.reservation import Reservation
from tests.model.clusters import START_US
from tests.world.programs import NotedPrograms
from tests.world.site import Site

HOUR_US = 3_600_000_000
WAITS = Reservation("maint", START_US + HOUR_US, START_US + 2 * HOUR_US)
HOLDS = replace(WAITS, is_active=True)


class ProgramSite(Site):
    """A site whose reservations are followed; programs are only noted."""

    def __init__(self, *before: ev.AnyEvent) -> None:
        super().__init__("ResvProlog=/begin\nResvEpilog=/end\n")
        self.apply(before)
        self.noted = NotedPrograms()
        programs = ReservationPrograms(
            self.cluster, self.conf, self.noted, lambda release: release()
        )
        self.follow(programs.applied)

    def ran_after(self, *events: ev.AnyEvent) -> list[str]:
        """Apply events; return what ran since the last time."""
        self.apply(events)
        ran, self.noted.runs = self.noted.runs, []
        return [" ".join(argv) for argv, _ in ran]


def updated(reservation: Reservation) -> ev.ReservationUpdated:
    return ev.ReservationUpdated(START_US, reservation)


def test_a_program_at_each_end() -> None:
    """It does not run when the reservation is made, nor when something else changes."""
    site = ProgramSite()
    assert site.ran_after(ev.ReservationCreated(START_US, WAITS)) == []
    assert site.ran_after(updated(HOLDS)) == ["/begin maint"]
    assert site.ran_after(updated(replace(HOLDS, users=("ann",)))) == []
    assert site.ran_after(ev.ReservationDeleted(START_US, "maint")) == ["/end maint"]


def test_one_that_begins_at_once() -> None:
    """`starttime=now`."""
    assert ProgramSite().ran_after(ev.ReservationCreated(START_US, HOLDS)) == ["/begin maint"]


def test_one_that_never_was_in_force() -> None:
    """Deleted before its time, it had no beginning."""
    site = ProgramSite(ev.ReservationCreated(START_US, WAITS))
    assert site.ran_after(ev.ReservationDeleted(START_US, "maint")) == []


def test_occurrences_follow_one_another() -> None:
    """An hourly one may end and begin in the same moment."""
    site = ProgramSite(ev.ReservationCreated(START_US, HOLDS))
    following = replace(HOLDS, start_us=HOLDS.end_us, end_us=HOLDS.end_us + HOUR_US)
    assert site.ran_after(updated(following)) == ["/end maint", "/begin maint"]
    assert site.ran_after(updated(replace(following, is_active=False))) == ["/end maint"]


def test_a_restart_begins_nothing_again() -> None:
    """What was in force had its prolog."""
    site = ProgramSite(ev.ReservationCreated(START_US, HOLDS))
    assert site.ran_after(updated(replace(HOLDS, users=("ann",)))) == []
    assert site.ran_after(ev.ReservationDeleted(START_US, "maint")) == ["/end maint"]
