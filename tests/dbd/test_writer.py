"""RELIABILITY 46: one user's changes of accounting are no more than one user's turn."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor

import msgspec
import pytest

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.faults import Faults
from pyslurm_ng.daemon.log import QUIET, DaemonLog
from pyslurm_ng.dbd.writer import CALLS_PER_OWN, WAITING_PER_LANE, Writer
from pyslurm_ng.wire.messages import Done
from pyslurm_ng.wire.shares import PRIVILEGED
from tests.world.waiting import wait_until

ALICE, BOB = 1001, 1002


class Caller:
    """What a Writer knows of a call, without a connection; answers in the order they were given."""

    def __init__(self, name: str, answered: list[str]) -> None:
        self.name = name
        self.answered = answered
        self.refused: list[int] = []

    def reply(self, answer: msgspec.Struct) -> None:
        self.answered.append(self.name)

    def error(self, code: int, text: str) -> None:
        self.refused.append(code)


@contextlib.contextmanager
def busy_writer() -> Iterator[tuple[Writer, Callable[[], None]]]:
    """A writer whose first work lasts until the function is called."""
    log = DaemonLog("slurmdbd")
    log.stderr_level = QUIET
    bugs: list[BaseException] = []
    writer = Writer(
        post=lambda function, *arguments: function(*arguments),
        bug=lambda _, bug: bugs.append(bug),
        faults=Faults(log),
    )
    begun, gate = threading.Event(), threading.Event()

    def long_work() -> msgspec.Struct:
        begun.set()
        gate.wait(60)
        return Done()

    put(writer, Caller("first", []), ALICE, long_work)
    assert begun.wait(60)
    try:
        yield writer, gate.set
    finally:
        gate.set()
        writer.close()
    assert bugs == []


def put(writer: Writer, call: Caller, lane: int, work: Callable[[], msgspec.Struct] = Done) -> None:
    writer.put(call, lane, work)  # type: ignore[arg-type]


def test_many_changes_of_one_user_delay_another_by_one() -> None:
    """Each is refused after a look at nine thousand names; journals come before all of them."""
    answered: list[str] = []
    ended = threading.Event()

    def last() -> msgspec.Struct:
        ended.set()
        return Done()

    with busy_writer() as (writer, go_on):
        for _ in range(100):
            put(writer, Caller("alice", answered), ALICE)
        put(writer, Caller("bob", answered), BOB)
        put(writer, Caller("journal", answered), PRIVILEGED)
        put(writer, Caller("alice", answered), ALICE, last)
        go_on()
        assert ended.wait(60)
    assert answered[:3] == ["journal", "alice", "bob"]
    assert answered.count("alice") >= 100


def test_a_user_has_a_bounded_number_of_waiting_requests() -> None:
    """Others find room, and the command asks again a second later."""
    with busy_writer() as (writer, go_on):
        alice, bob = Caller("alice", []), Caller("bob", [])
        for _ in range(WAITING_PER_LANE + 1):
            put(writer, alice, ALICE)
        put(writer, bob, BOB)
        assert alice.refused == [Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF]
        assert bob.refused == []
        go_on()


def test_work_of_this_process_waits_for_some_calls_only() -> None:
    """Usage is stored behind journals, and yet where journals never end."""
    done: list[str] = []
    with busy_writer() as (writer, go_on), ThreadPoolExecutor(1) as pool:
        for number in range(2 * CALLS_PER_OWN):
            put(writer, Caller(f"call {number}", done), PRIVILEGED)
        own = pool.submit(writer.run, lambda: done.append("own"))
        wait_until(lambda: bool(writer._own), "the work that waits")
        go_on()
        own.result(60)
        position = done.index("own")
    assert position == CALLS_PER_OWN


def test_work_of_this_process_has_its_result_or_error() -> None:
    with busy_writer() as (writer, go_on):
        go_on()
        assert writer.run(lambda: 42) == 42
        with pytest.raises(ZeroDivisionError):
            writer.run(lambda: 1 // 0)


def test_work_that_waits_at_the_end_is_dropped() -> None:
    """The thread that waits for it ends, too."""
    with ThreadPoolExecutor(2) as pool, busy_writer() as (writer, go_on):
        own = pool.submit(writer.run, lambda: 42)
        wait_until(lambda: bool(writer._own), "the work that waits")
        closing = pool.submit(writer.close)
        with pytest.raises(CancelledError):
            own.result(60)
        go_on()
        closing.result(60)
        with pytest.raises(CancelledError):
            writer.run(lambda: 42)
