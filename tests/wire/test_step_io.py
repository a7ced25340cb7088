"""Frames between srun and stepd, however the bytes arrive."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.wire import step_io

FRAMES = st.lists(
    st.tuples(
        st.integers(step_io.HELLO, step_io.FAILED),
        st.integers(0, step_io.ALL),
        st.binary(max_size=99),
    ),
    max_size=8,
)


@given(FRAMES, st.lists(st.integers(1, 40), max_size=40))
def test_cuts_do_not_matter(frames: list[tuple[int, int, bytes]], cuts: list[int]) -> None:
    stream = b"".join(step_io.pack(*frame) for frame in frames)
    reader = step_io.Frames()
    found = []
    for cut in [*cuts, len(stream)]:
        found += reader.feed(stream[:cut])
        stream = stream[cut:]
    found += reader.feed(stream)
    assert found == frames


def test_an_announced_giant_is_refused_before_it_comes() -> None:
    head = step_io.HEAD.pack(step_io.STDOUT, 0, 0, 1, step_io.MAX_BODY_BYTES + 1)
    with pytest.raises(step_io.BadStepFrame, match="are allowed"):
        step_io.Frames().feed(head)


def test_unknown_type_is_refused() -> None:
    with pytest.raises(step_io.BadStepFrame, match="unknown frame type 99"):
        step_io.Frames().feed(step_io.HEAD.pack(99, 0, 0, 0, 0))


def test_numbers_come_back_as_sent() -> None:
    frame = step_io.pack_number(step_io.EXIT, 3, 256, 1)
    ((kind, task, body),) = step_io.Frames().feed(frame)
    assert (kind, task, step_io.numbers(body)) == (step_io.EXIT, 3, (256, 1))
    with pytest.raises(step_io.BadStepFrame):
        step_io.numbers(b"abc")
