"""Frames between srun and stepd, however the bytes arrive.

RELIABILITY 42.
"""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.wire import step_io


@st.composite
def frames(draw: st.DrawFn) -> tuple[int, int, bytes]:
    """A frame that the table allows."""
    kind = draw(st.sampled_from(sorted(step_io.FRAMES)))
    _, _, least, most, ranges = step_io.FRAMES[kind]
    if ranges:
        numbers = [draw(st.integers(low, high)) for low, high in ranges]
        body = b"".join(number.to_bytes(4, "big") for number in numbers)
    else:
        body = draw(st.binary(min_size=least, max_size=min(most, 99)))
    return kind, draw(st.integers(0, step_io.ALL)), body


FRAMES = st.lists(frames(), max_size=8)


@given(FRAMES, st.lists(st.integers(1, 40), max_size=40))
def test_cuts_do_not_matter(frames: list[tuple[int, int, bytes]], cuts: list[int]) -> None:
    stream = b"".join(step_io.pack(*frame) for frame in frames)
    reader = step_io.Frames()
    frames_read = []
    for cut in [*cuts, len(stream)]:
        frames_read += reader.feed(stream[:cut])
        stream = stream[cut:]
    frames_read += reader.feed(stream)
    assert frames_read == frames


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


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (step_io.pack(step_io.SIGNAL), "SIGNAL: a body of 0 bytes; 4 are allowed"),
        (step_io.pack(step_io.SIGNAL, 0, b"123"), "SIGNAL: a body of 3 bytes; 4 are allowed"),
        (step_io.pack_number(step_io.SIGNAL, 0, 100), "SIGNAL: 100; 1 to 64 are allowed"),
        (step_io.pack_number(step_io.SIGNAL, 0, 0), "SIGNAL: 0; 1 to 64 are allowed"),
        (step_io.pack_number(step_io.SIGNAL, 0, 4_000_000_000), "SIGNAL: 4000000000; 1 to 64 are"),
        (step_io.pack(step_io.WINDOW, 0, b"1"), "WINDOW: a body of 1 bytes; 4 are allowed"),
        (step_io.pack(step_io.PING, 0, b"1"), "PING: a body of 1 bytes; 0 are allowed"),
        (step_io.pack(step_io.TERMINATE, 0, b"x" * 5000), "TERMINATE: a body of 5000 bytes; 4096"),
        (step_io.pack(step_io.HELLO, 0, b"x"), "HELLO is not sent by srun"),
        (step_io.pack(step_io.EXIT, 0, bytes(8)), "EXIT is not sent by srun"),
    ],
)
def test_what_crashed_the_supervisor_is_no_frame(frame: bytes, said: str) -> None:
    """H5: the root supervisor of a step is connected to a program of the user's."""
    with pytest.raises(step_io.BadStepFrame) as caught:
        step_io.Frames(step_io.SRUN).feed(frame)
    assert str(caught.value).startswith(said)


@given(st.binary(max_size=200))
def test_any_bytes_are_frames_or_refused(data: bytes) -> None:
    """And every frame that is given out keeps to the table."""
    reader = step_io.Frames()
    try:
        frames = reader.feed(data)
    except step_io.BadStepFrame:
        return
    for kind, _, body in frames:
        _, _, least, most, ranges = step_io.FRAMES[kind]
        assert least <= len(body) <= most
        numbers = step_io.numbers(body) if ranges else []
        assert all(
            low <= number <= high for number, (low, high) in zip(numbers, ranges, strict=False)
        )


def test_every_type_has_a_row() -> None:
    kinds = {value for name, value in vars(step_io).items() if name.isupper() and len(name) < 10
             and isinstance(value, int) and 0 < value < 100}  # fmt: skip
    assert (
        set(range(step_io.HELLO, step_io.X11_CREDIT + 1))
        == set(step_io.FRAMES)
        <= kinds | set(step_io.FRAMES)
    )


def test_frames_before_a_malformed_one_count() -> None:
    """srun's first frame identifies it, so that srun can be told what was wrong."""
    reader = step_io.Frames(step_io.SRUN)
    good, bad = step_io.pack(step_io.PING), step_io.pack(step_io.SIGNAL, 0, b"")
    assert [kind for kind, _, _ in reader.feed(good + bad)] == [step_io.PING]
    with pytest.raises(step_io.BadStepFrame, match="SIGNAL"):
        reader.feed(b"")
