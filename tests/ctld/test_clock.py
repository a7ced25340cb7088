"""Recorded time: near the wall clock, never in jumps that durations would notice."""

from __future__ import annotations

import pytest

from pyslurm_ng.ctld.clock import MOST_STEERED_US, PATIENCE_US, Clock

SECOND_US = 1_000_000
HOUR_US = 3600 * SECOND_US
DAY_US = 24 * HOUR_US
WALL_US = 1_700_000_000 * SECOND_US


class Host:
    """A host's two clocks; somebody may set one of them."""

    def __init__(self) -> None:
        self.wall_us = WALL_US
        self.monotonic_us = 77

    def clock(self, newest_us: int = 0) -> Clock:
        return Clock(newest_us, lambda: self.wall_us, lambda: self.monotonic_us)

    def wait(self, span_us: int) -> None:
        self.wall_us += span_us
        self.monotonic_us += span_us


@pytest.mark.parametrize(
    ("newest_us", "begins_us"),
    [
        (0, WALL_US),
        (WALL_US - HOUR_US, WALL_US),
        (WALL_US + MOST_STEERED_US, WALL_US + MOST_STEERED_US),  # near: it never goes back
        (WALL_US + MOST_STEERED_US + 1, WALL_US),
        (WALL_US + 2 * HOUR_US, WALL_US),  # finding C5: it stayed ahead for eight days
        (WALL_US + 365 * DAY_US, WALL_US),
    ],
)
def test_a_start_far_from_the_records_is_at_the_wall_clock(newest_us: int, begins_us: int) -> None:
    clock = Host().clock(newest_us)
    assert clock.now_us() == begins_us
    assert clock.gap_us == WALL_US - newest_us


def test_a_small_difference_is_made_up_slowly() -> None:
    """One part in a hundred, which no limit notices."""
    host = Host()
    clock = host.clock()
    host.wall_us += 4 * SECOND_US
    seen = clock.now_us()
    for _ in range(500):
        host.wait(SECOND_US)
        clock.steer()
        assert clock.follow() == 0
        step_us = clock.now_us() - seen
        assert 990_000 <= step_us <= 1_010_001
        seen = clock.now_us()
    assert abs(clock.now_us() - host.wall_us) <= 1


@pytest.mark.parametrize("jump_us", [2 * HOUR_US, -3 * DAY_US, 365 * DAY_US, -MOST_STEERED_US * 2])
def test_a_jump_is_believed_when_it_lasts(jump_us: int) -> None:
    host = Host()
    clock = host.clock()
    host.wall_us += jump_us
    moved_us = seconds = 0
    while not moved_us:
        host.wait(SECOND_US)
        before_us = clock.now_us()
        clock.steer()
        assert abs(clock.now_us() - before_us) <= 10_000
        moved_us = clock.follow()
        seconds += 1
    assert seconds * SECOND_US == PATIENCE_US + SECOND_US
    assert clock.now_us() == host.wall_us
    # By the jump, less what steering has made up.
    assert abs(moved_us - jump_us) <= PATIENCE_US // 100 + 10_000
    clock.steer()
    assert clock.follow() == 0


def test_a_clock_that_is_put_right_in_time_was_never_believed() -> None:
    host = Host()
    clock = host.clock()
    for jump_us in (2 * HOUR_US, -2 * HOUR_US, -DAY_US, DAY_US):
        host.wall_us += jump_us
        for _ in range(PATIENCE_US // SECOND_US - 60):
            host.wait(SECOND_US)
            clock.steer()
            assert clock.follow() == 0
    assert abs(clock.now_us() - host.wall_us) <= 2 * PATIENCE_US // 100


@pytest.mark.parametrize("leap_us", [SECOND_US, -SECOND_US])
def test_a_leap_second_is_no_jump(leap_us: int) -> None:
    """RELIABILITY 14."""
    host = Host()
    clock = host.clock()
    host.wall_us += leap_us
    before_us = clock.now_us()
    host.wait(SECOND_US)
    assert clock.steer() == leap_us
    assert abs(clock.now_us() - before_us - SECOND_US) <= 10_000
    assert clock.follow() == 0


def test_a_slow_drift_is_followed() -> None:
    """RELIABILITY 14: five parts in a thousand, for a day."""
    host = Host()
    clock = host.clock()
    for _ in range(8640):
        host.wait(10 * SECOND_US)
        host.wall_us += 50_000
        clock.steer()
        assert clock.follow() == 0
    assert abs(clock.now_us() - host.wall_us) <= 100_000
