"""Lists of node counts: `1,2,4`, `2-10:2`."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.model.sizes import node_sizes, sizes_within

_PARTS = st.tuples(st.integers(1, 40), st.integers(0, 40), st.integers(1, 9))


@given(st.lists(_PARTS, min_size=1, max_size=5), st.integers(1, 60), st.integers(0, 60))
def test_the_counts_between_two_numbers(
    parts: list[tuple[int, int, int]], least: int, most: int
) -> None:
    text = ",".join(f"{low}-{low + more}:{step}" for low, more, step in parts)
    every = {size for low, more, step in parts for size in range(low, low + more + 1, step)}
    expected = sorted(size for size in every if least <= size <= most)
    assert sizes_within(node_sizes(text), least, most) == expected


def test_a_wide_range_takes_no_memory() -> None:
    """A thousand short requests with 65,530 counts each were held in 2.5 GiB."""
    sizes = node_sizes("5-4294967295:2")
    assert sum(map(sys.getsizeof, sizes)) < 1000
    assert sizes_within(sizes, 1, 9) == [5, 7, 9]


def test_too_many_ranges_are_refused() -> None:
    with pytest.raises(ValueError, match="1,1"):
        node_sizes(",".join(["1"] * 65))
