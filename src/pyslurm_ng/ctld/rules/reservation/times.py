"""When reservations are: occurrences of repeating ones, and whether two meet.

Both ends of an occurrence keep their time of day, so that two reservations that follow one another
on ordinary days do so on the days on which the clocks change.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice, takewhile

import msgspec

from pyslurm_ng.base.numbers import DAY_US, HOUR_US
from pyslurm_ng.ctld.rules.calendar import Calendar
from pyslurm_ng.model.reservation import Reservation

_HORIZON_US = 60 * DAY_US
_MOST_LATER = 100
# Every pattern of two that repeat has shown itself after a week and the longest occurrence.
_CYCLE_US = 15 * DAY_US
PERIOD_US = {
    "HOURLY": HOUR_US,
    "DAILY": DAY_US,
    "WEEKDAY": DAY_US,
    "WEEKEND": DAY_US,
    "WEEKLY": 7 * DAY_US,
}


def occurrences_after(
    reservation: Reservation, from_us: int, calendar: Calendar
) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of what ends after `from_us`, without end for one that repeats."""
    repeats = reservation.repeats
    if not repeats:
        if reservation.end_us > from_us:
            yield reservation.start_us, reservation.end_us
        return
    start_us, end_us = reservation.first_start_us, reservation.first_end_us
    step_us = HOUR_US if repeats == "HOURLY" else DAY_US
    # Two less, since days around a change of clocks are shorter or longer.
    for number in count(max(0, (from_us - end_us) // step_us - 2)):
        if repeats == "HOURLY":
            start, end = start_us + number * HOUR_US, end_us + number * HOUR_US
        elif repeats == "WEEKLY" and number % 7:
            continue
        else:
            start = calendar.after_days(start_us, number)
            end = calendar.after_days(end_us, number)
            if end <= start:  # the clocks leave out all of it
                end = start + end_us - start_us
        if end <= from_us or start < reservation.start_us:
            continue
        if repeats in ("WEEKDAY", "WEEKEND"):
            is_weekend = calendar.weekday(start) >= 5
            if is_weekend != (repeats == "WEEKEND"):
                continue
        yield start, end


def with_times(reservation: Reservation, calendar: Calendar) -> Reservation:
    """Return a reservation whose occurrences begin with `start_us`; the first day may not suit."""
    anew = msgspec.structs.replace(
        reservation,
        first_start_us=reservation.start_us,
        first_end_us=reservation.end_us,
        later=(),
    )
    if not anew.repeats:
        return anew
    start_us, end_us = next(occurrences_after(anew, anew.start_us, calendar))
    return moved_to(anew, start_us, end_us, calendar)


def moved_to(
    reservation: Reservation, start_us: int, end_us: int, calendar: Calendar
) -> Reservation:
    """Return a repeating reservation at one of its occurrences, with those that follow."""
    following = takewhile(
        lambda occurrence: occurrence[0] < start_us + _HORIZON_US,
        (
            occurrence
            for occurrence in occurrences_after(reservation, end_us, calendar)
            if occurrence[0] > start_us
        ),
    )
    later = tuple(islice(following, _MOST_LATER))
    return msgspec.structs.replace(reservation, start_us=start_us, end_us=end_us, later=later)


def next_occurrence(
    reservation: Reservation, now_us: int, calendar: Calendar
) -> tuple[int, int] | None:
    """Return the first occurrence after the present one that is not over, if there is one."""
    if not reservation.repeats:
        return None
    after_us = max(now_us, reservation.start_us)
    return next(
        occurrence
        for occurrence in occurrences_after(reservation, after_us, calendar)
        if occurrence[0] > reservation.start_us
    )


def meet(reservation: Reservation, other: Reservation, calendar: Calendar) -> bool:
    """Return whether two reservations are ever in force at the same time."""
    if reservation.repeats and not other.repeats:
        reservation, other = other, reservation
    if not reservation.repeats:
        return _meets(other, reservation.start_us, reservation.end_us, calendar)
    begin_us = max(reservation.start_us, other.start_us)
    for start_us, end_us in occurrences_after(reservation, begin_us, calendar):
        if start_us > begin_us + _CYCLE_US:
            return False
        if _meets(other, start_us, end_us, calendar):
            return True
    return False


def _meets(reservation: Reservation, start_us: int, end_us: int, calendar: Calendar) -> bool:
    first = next(occurrences_after(reservation, start_us, calendar), None)
    return first is not None and first[0] < end_us
