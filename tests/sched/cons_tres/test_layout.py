"""Task layout: over nodes and inside them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.sched.cons_tres.layout import (
    Distribution,
    LayoutError,
    counts_text,
    parse_distribution,
    shown_distribution,
    spread,
    spread_by_list,
    task_cores,
)

WORDS = st.sampled_from(["", "block", "cyclic", "plane=2", "plane=3", "block,Pack"])
ROOM = st.lists(st.integers(1, 9), min_size=1, max_size=7)


@pytest.mark.parametrize(
    ("text", "tasks", "capacity", "expected"),
    [
        ("block", 4, [2, 2, 2], [[0, 1], [2], [3]]),
        ("", 4, [2, 2, 2], [[0, 1], [2], [3]]),
        ("", 3, [4, 2], [[0, 1], [2]]),
        ("", 7, [16, 16], [[0, 1, 2, 3], [4, 5, 6]]),
        ("", 9, [16, 4], [[0, 1, 2, 3, 4], [5, 6, 7, 8]]),
        ("block", 7, [16, 16, 16], [[0, 1, 2], [3, 4], [5, 6]]),
        ("block", 6, [9, 1], [[0, 1, 2, 3, 4], [5]]),
        ("block", 7, [2, 2, 1], [[0, 1, 2], [3, 4, 5], [6]]),
        ("cyclic", 6, [4, 2], [[0, 2, 4, 5], [1, 3]]),
        ("plane=2", 6, [4, 4], [[0, 1, 4, 5], [2, 3]]),
        ("block,Pack", 5, [4, 4], [[0, 1, 2, 3], [4]]),
        ("block,Pack", 8, [16, 16, 16], [[0, 1, 2, 3, 4, 5], [6], [7]]),
        ("cyclic,Pack", 5, [4, 4], [[0, 1, 2, 3], [4]]),
        ("", 2, [4, 4], [[0], [1]]),
        ("block", 5, [1, 1], [[0, 1, 2], [3, 4]]),
    ],
)
def test_spread(text: str, tasks: int, capacity: list[int], expected: list[list[int]]) -> None:
    """Small cases worked out from sbatch's manual, recorded runs, and asked of Slurm 22.05."""
    assert spread(tasks, capacity, parse_distribution(text)) == expected


@given(WORDS, ROOM, st.integers(1, 60))
def test_every_task_once(text: str, capacity: list[int], tasks: int) -> None:
    """No task is lost or doubled, and each node's are ascending."""
    of_node = spread(tasks, capacity, parse_distribution(text))
    assert sorted(task for given_ in of_node for task in given_) == list(range(tasks))
    assert all(given_ == sorted(given_) for given_ in of_node)


@given(WORDS, ROOM, st.data())
def test_capacity_is_kept(text: str, capacity: list[int], data: st.DataObject) -> None:
    """Without overcommit no node gets more than it holds."""
    tasks = data.draw(st.integers(1, sum(capacity)))
    of_node = spread(tasks, capacity, parse_distribution(text))
    assert all(len(given_) <= room for given_, room in zip(of_node, capacity, strict=True))


@given(ROOM, st.data())
def test_no_node_is_left_empty(capacity: list[int], data: st.DataObject) -> None:
    """Block and cyclic use every node of the step when there are enough tasks."""
    tasks = data.draw(st.integers(len(capacity), max(len(capacity), sum(capacity))))
    for word in ("block", "cyclic"):
        assert all(spread(tasks, capacity, Distribution(word)))


def test_arbitrary_follows_the_list() -> None:
    """A host may come again."""
    assert spread_by_list([1, 0, 1, 1], 2) == [[1], [0, 2, 3]]


@pytest.mark.parametrize(
    "text", ["bogus", "block:frob", "plane", "plane=0", "plane=x", "block,Stack", "a:b:c:d"]
)
def test_bad_words_are_refused(text: str) -> None:
    """Each wrong word is an error, not a default."""
    with pytest.raises(LayoutError, match="Invalid -m specification"):
        parse_distribution(text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [("block", "block"), ("*:block", "block:block"), ("plane=4", "plane"), ("", "block"),
     ("cyclic:cyclic:block,NoPack", "cyclic:cyclic:block,nopack"), ("block,Pack", "block,pack"),
     ("block:*:cyclic", "block:cyclic:cyclic"), ("*:*", "block:cyclic"),
     ("cyclic:*", "cyclic:cyclic"), ("block:block:*", "block:block:block"),
     ("*,pack", "block,pack")],
)  # fmt: skip
def test_distribution_is_shown(text: str, shown: str) -> None:
    """SLURM_DISTRIBUTION has the outcome, in steps and in what a job was asked with.

    As Slurm 22.05 writes it.
    """
    assert parse_distribution(text).text(4, 2) == shown
    assert shown_distribution(text) == (shown if text else "")


@given(st.lists(st.integers(0, 20), min_size=1, max_size=30))
def test_counts_text_is_reversible(counts: list[int]) -> None:
    """The repeat form loses nothing."""
    pairs = [part.partition("(x") for part in counts_text(counts).split(",")]
    read = [(int(count), int(times.rstrip(")") or 1)) for count, _, times in pairs]
    assert [count for count, times in read for _ in range(times)] == counts


def test_counts_text() -> None:
    """The form of SLURM_TASKS_PER_NODE."""
    assert counts_text([2, 2, 2, 1]) == "2(x3),1"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("", [0b000011, 0b110000, 0b001100]),
        ("block", [0b000011, 0b001100, 0b110000]),
        ("fcyclic", [0b010001, 0b100010, 0b001100]),
    ],
)
def test_cores_over_sockets(word: str, expected: list[int]) -> None:
    """Two sockets of four cores, of which the second has two: three tasks of two cores."""
    masks = task_cores(0b111111, 3, 2, 4, Distribution(socket=word))
    assert masks == expected


@given(
    st.integers(1, (1 << 16) - 1),
    st.integers(1, 8),
    st.integers(1, 4),
    st.sampled_from(["", "block", "cyclic", "fcyclic"]),
)
def test_tasks_do_not_share_cores_needlessly(cores: int, tasks: int, each: int, word: str) -> None:
    """Masks stay inside the step's cores and are disjoint while the cores suffice."""
    masks = task_cores(cores, tasks, each, 4, Distribution(socket=word))
    assert all(mask and not mask & ~cores for mask in masks)
    if tasks * each <= cores.bit_count():
        assert sum(mask.bit_count() for mask in masks) == tasks * each
        union = 0
        for mask in masks:
            union |= mask
        assert union.bit_count() == tasks * each
