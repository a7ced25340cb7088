"""Long work on the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from pyslurm_ng.ctld.slices import Slices


def test_messages_go_between_slices_and_works_one_after_another() -> None:
    """A second work waits for the first to end; nothing is due when all is done."""
    soon: list[Callable[[], None]] = []
    done: list[str] = []

    def work(name: str) -> Iterator[None]:
        for number in range(2):
            done.append(f"{name}{number}")
            yield

    slices = Slices(soon.append)
    slices.run(work("a"))
    slices.run(work("b"))
    while soon:
        assert len(soon) == 1
        soon.pop()()
        done.append("message")
    assert [text for text in done if text != "message"] == ["a0", "a1", "b0", "b1"]
    assert done[:4] == ["a0", "message", "a1", "message"]
    slices.run(work("c"))
    assert len(soon) == 1


def test_a_bug_in_one_work_does_not_stop_the_others() -> None:
    """It is reported as any other of a callback."""
    soon: list[Callable[[], None]] = []
    done: list[str] = []

    def broken() -> Iterator[None]:
        yield
        raise ZeroDivisionError

    def work() -> Iterator[None]:
        done.append("work")
        yield

    slices = Slices(soon.append)
    slices.run(broken())
    slices.run(work())
    soon.pop()()
    with pytest.raises(ZeroDivisionError):
        soon.pop()()
    while soon:
        soon.pop()()
    assert done == ["work"]


def test_a_user_with_many_works_delays_another_by_a_slice_each_time() -> None:
    """RELIABILITY 46: a hundred listings of one user were packed before another's squeue."""
    soon: list[Callable[[], None]] = []
    done: list[int] = []

    def work(uid: int) -> Iterator[None]:
        for _ in range(2):
            done.append(uid)
            yield

    slices = Slices(soon.append)
    for _ in range(100):
        slices.run(work(1), 1)
    soon.pop()()
    slices.run(work(2), 2)
    while soon:
        soon.pop()()
    assert done[:6].count(2) == 2
    assert done.count(1) == 200
