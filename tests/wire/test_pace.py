"""How long a stream's peer may take, by a clock that the test turns."""

from __future__ import annotations

import pytest

from pyslurm_ng.wire.pace import Pace, StreamLimits

LIMITS = StreamLimits(handshake_s=10, frame_s=120, idle_s=600, grace_s=10, least_rate=1000)


@pytest.fixture
def pace() -> Pace:
    return Pace(LIMITS, 0.0)


def test_the_first_request_has_a_time(pace: Pace) -> None:
    assert not pace.is_late_to_speak(10.0)
    assert pace.is_late_to_speak(10.5)


def test_a_still_peer_is_idle_unless_it_waits_for_us(pace: Pace) -> None:
    assert pace.fault_at_rest(600.0, 0, is_awaited=False) == ""
    assert pace.fault_at_rest(601.0, 0, is_awaited=True) == ""
    assert pace.fault_at_rest(1201.0, 0, is_awaited=False) == ""
    assert pace.fault_at_rest(1202.0, 0, is_awaited=False) == "idle"


def test_bytes_in_either_direction_end_idleness(pace: Pace) -> None:
    pace.received(1)
    assert pace.fault_at_rest(601.0, 0, is_awaited=False) == ""
    assert pace.fault_at_rest(1202.0, 1, is_awaited=False) == ""
    assert pace.fault_at_rest(1803.0, 1, is_awaited=False) == "idle"


@pytest.mark.parametrize(
    ("received", "drained", "fault"),
    [(20_000, 20_000, ""), (20_000, 100, "too_slow"), (100, 20_000, "too_slow")],
)
def test_the_slower_direction_decides(pace: Pace, received: int, drained: int, fault: str) -> None:
    pace.received(received)
    terms = {"is_sending": True, "is_receiving": True, "is_known": False}
    assert pace.fault_in_motion(11.0, drained, **terms) == fault


def test_a_known_user_may_pause_its_reading(pace: Pace) -> None:
    """`sacct | less` reads on when its user does; a pause that does not end is one at last."""

    def at(now: float, drained: int, *, is_known: bool = True) -> str:
        terms = {"is_sending": True, "is_receiving": False}
        return pace.fault_in_motion(now, drained, is_known=is_known, **terms)

    assert at(11.0, 100) == ""
    assert at(600.0, 100) == ""
    assert at(600.0 + LIMITS.unread_s, 101) == ""
    assert at(600.0 + 2 * LIMITS.unread_s, 101) == ""
    assert at(601.0 + 2 * LIMITS.unread_s, 101) == ""
    assert at(620.0 + 2 * LIMITS.unread_s, 101) == "too_slow"
    assert at(620.0 + 2 * LIMITS.unread_s, 101, is_known=False) == "too_slow"


def test_a_frame_has_a_time_without_that_for_which_it_was_held(pace: Pace) -> None:
    def at(now: float) -> str:
        pace.received(10**9)
        return pace.fault_in_motion(now, 0, is_sending=False, is_receiving=True, is_known=True)

    pace.frame_begun(1.0)
    pace.held(50.0)
    pace.let_go(100.0, 0)
    assert at(171.0) == ""
    assert at(171.5) == "frame_timeout"
    pace.frame_ended()
    assert at(172.0) == ""
