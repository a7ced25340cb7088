"""Numbers by job are what a dict of them would be."""

from __future__ import annotations

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pyslurm_ng.sched.frame.plan import NumbersByJob
from tests.world.examples import drawn

# Few enough to be met again, and some that a table of a few entries has in one place.
KEYS = st.one_of(st.integers(-3, 40), st.integers(-(1 << 63), (1 << 63) - 1))
VALUES = st.integers(-(1 << 63), (1 << 63) - 1)


class BesideADict(RuleBasedStateMachine):
    """Whatever is done to both, they are the same."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = NumbersByJob()
        self.twin: dict[int, int] = {}

    @rule(key=KEYS, value=VALUES)
    def set(self, key: int, value: int) -> None:
        """Enter a number."""
        self.numbers[key] = self.twin[key] = value

    @rule(entries=st.dictionaries(KEYS, VALUES, max_size=60))
    def put_all(self, entries: dict[int, int]) -> None:
        """Enter many."""
        self.numbers.put_all([*entries], [*entries.values()])
        self.twin |= entries

    @rule(key=KEYS, value=VALUES)
    def setdefault(self, key: int, value: int) -> None:
        """Enter one where there is none."""
        assert self.numbers.setdefault(key, value) == self.twin.setdefault(key, value)

    @rule(key=KEYS)
    def remove(self, key: int) -> None:
        """Take one out."""
        assert self.numbers.pop(key, None) == self.twin.pop(key, None)

    @rule(count=st.integers(1, 50))
    def remove_some(self, count: int) -> None:
        """Take some out."""
        for key in [*self.twin][:count]:
            del self.numbers[key], self.twin[key]

    @rule()
    def clear(self) -> None:
        """Take all out."""
        self.numbers.clear()
        self.twin.clear()

    @rule(key=KEYS)
    def look(self, key: int) -> None:
        """Look for one."""
        assert (key in self.numbers) is (key in self.twin)
        assert self.numbers.get(key, -7) == self.twin.get(key, -7)

    @invariant()
    def are_the_same(self) -> None:
        """In number and in what they say."""
        assert len(self.numbers) == len(self.twin)
        assert self.numbers == self.twin
        assert sorted(self.numbers) == sorted(self.twin)


BesideADict.TestCase.settings = settings(stateful_step_count=30, max_examples=drawn(60))
TestBesideADict = BesideADict.TestCase


def test_what_is_not_there_is_named() -> None:
    """As a dict does it."""
    numbers = NumbersByJob({1: 5})
    with pytest.raises(KeyError, match="2"):
        numbers[2]
    with pytest.raises(KeyError, match="2"):
        del numbers[2]
    assert repr(numbers) == "NumbersByJob({1: 5})"


def test_keys_and_numbers_of_different_lengths_are_refused() -> None:
    """Before any is entered."""
    numbers = NumbersByJob()
    with pytest.raises(ValueError, match="a number for each key"):
        numbers.put_all([1, 2], [3])
    assert not numbers
