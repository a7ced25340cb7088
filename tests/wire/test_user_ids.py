"""Names are looked up beside the loop: a slow directory keeps nobody else waiting."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.wire.auth import AuthError
from pyslurm_ng.wire.user_ids import (
    FRESH_US,
    MOST_WAITING,
    UNKNOWN_US,
    Ids,
    NotKnownYet,
    UserIds,
    look_up,
)


class Directory:
    """A user directory that answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.goes_on = threading.Event()
        self.answer: Ids | None = (7, 8)
        self.now_us = SECOND_US

    def find(self, name: str) -> Ids | None:
        self.asked.append(name)
        assert self.goes_on.wait(10)
        return self.answer

    def clock_us(self) -> int:
        return self.now_us


def run(story: Callable[[Directory, UserIds], object]) -> None:
    async def main() -> None:
        directory = Directory()
        result = story(directory, UserIds(directory.clock_us, directory.find))
        if asyncio.iscoroutine(result):
            await asyncio.wait_for(result, 10)

    asyncio.run(main())


async def known(directory: Directory, users: UserIds, name: str = "ann") -> None:
    """Wait until a name was looked up."""
    told = asyncio.Event()
    with pytest.raises(NotKnownYet) as wait:
        users.of(name)
    wait.value.later(told.set)
    directory.goes_on.set()
    await told.wait()


def test_the_loop_goes_on_while_a_name_is_looked_up() -> None:
    async def story(directory: Directory, users: UserIds) -> None:
        for _ in range(3):
            with pytest.raises(NotKnownYet):
                users.of("ann")
        await known(directory, users)
        assert users.of("ann") == (7, 8)
        assert directory.asked == ["ann"]

    run(story)


def test_a_known_name_holds_while_it_is_looked_up_again() -> None:
    async def story(directory: Directory, users: UserIds) -> None:
        await known(directory, users)
        directory.now_us += FRESH_US + 1
        directory.goes_on.clear()
        directory.answer = None  # removed meanwhile
        assert users.of("ann") == (7, 8)
        directory.goes_on.set()
        while len(directory.asked) < 2 or users._waiting:
            await asyncio.sleep(0.01)
        with pytest.raises(AuthError, match="not known here"):
            users.of("ann")

    run(story)


def test_an_unknown_name_is_not_asked_for_each_time() -> None:
    async def story(directory: Directory, users: UserIds) -> None:
        directory.answer = None
        await known(directory, users)
        for _ in range(5):
            with pytest.raises(AuthError, match="not known here"):
                users.of("ann")
        assert directory.asked == ["ann"]
        directory.now_us += UNKNOWN_US + 1
        with pytest.raises(NotKnownYet):
            users.of("ann")

    run(story)


def test_names_that_wait_are_bounded() -> None:
    """Few threads hang with a directory that hangs, and few names wait."""

    async def story(directory: Directory, users: UserIds) -> None:
        before = threading.active_count()
        for index in range(MOST_WAITING):
            with pytest.raises(NotKnownYet):
                users.of(str(index))
        with pytest.raises(AuthError, match="too many"):
            users.of("one more")
        assert threading.active_count() - before <= 8
        directory.goes_on.set()

    run(story)


def test_names_that_no_directory_has() -> None:
    for name in ("a\0b", "\ud800", "", "no such user"):
        assert look_up(name) is None
    assert look_up("root") == (0, 0)
