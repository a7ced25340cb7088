"""The loop of supervisors and srun: what is due or ready is called, whatever a callback raises."""

from __future__ import annotations

import os
import select

import pytest

from pyslurm_ng.base.poll_loop import PollLoop


def test_timers_are_called_once_and_in_the_turn_in_which_they_are_due() -> None:
    """A turn waits no longer than until the first of them."""
    calls: list[str] = []
    loop = PollLoop()
    loop.later(0.0, lambda: calls.append("first"))
    loop.later(0.0, lambda: calls.append("second"))
    loop.later(3600.0, lambda: calls.append("much later"))
    loop.turn()
    loop.turn(0.0)
    assert calls == ["first", "second"]


def test_a_name_waits_once_and_can_be_taken_back() -> None:
    """Lines that are gathered for a moment must not wait for ever because more of them come."""
    calls: list[str] = []
    loop = PollLoop()
    loop.later(0.0, lambda: calls.append("first"), "tell")
    loop.later(0.0, lambda: calls.append("second"), "tell")
    loop.later(0.0, lambda: calls.append("cancelled"), "other")
    loop.cancel("other")
    loop.turn()
    assert calls == ["first"]


def test_a_callback_may_set_its_own_timer_again() -> None:
    """So a kill is repeated until nothing is left. Each turn calls it once."""
    calls: list[str] = []
    loop = PollLoop()

    def again() -> None:
        calls.append("again")
        loop.later(0.0, again, "again")

    loop.later(0.0, again, "again")
    loop.turn()
    loop.turn()
    assert calls == ["again", "again"]


def test_ready_descriptors_call_back_until_they_are_dropped() -> None:
    """Dropping one that is not watched does nothing."""
    ours, theirs = os.pipe()
    seen: list[int] = []
    loop = PollLoop()
    loop.watch(ours, select.POLLIN, seen.append)
    os.write(theirs, b"x")
    loop.turn()
    loop.drop(ours)
    loop.drop(ours)
    loop.turn(0.0)
    os.close(ours)
    os.close(theirs)
    assert seen == [select.POLLIN]


def test_a_fault_costs_only_what_it_came_with() -> None:
    """A supervisor alone can end its step's processes, so it goes on with the other callbacks."""
    calls: list[str] = []
    faults: list[BaseException] = []
    loop = PollLoop(faults.append)
    loop.later(0.0, lambda: calls.append(str(1 // 0)))
    loop.later(0.0, lambda: calls.append("next"))
    loop.turn()
    assert calls == ["next"]
    assert [type(fault) for fault in faults] == [ZeroDivisionError]


def test_without_a_place_for_faults_they_are_raised() -> None:
    """A command says what went wrong and ends."""
    loop = PollLoop()
    loop.later(0.0, lambda: [][0])
    with pytest.raises(IndexError):
        loop.turn()
