"""`pyslurm_ng.kernels.records`: msgpack both ways, fields of bulk records, columns of text."""

from __future__ import annotations

import math
import struct
import sys
from typing import Any

import msgpack
import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.kernels.records import MARK, RIGHT, pack, project, render, unpack

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=40),
    st.binary(max_size=40),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=30,
)


def peer_unpack(data: bytes) -> Any:
    return msgpack.unpackb(data, strict_map_key=False)


@given(VALUES)
def test_packs_the_same_bytes_as_msgpack(value: Any) -> None:
    """Daemons read with msgspec and tests with msgpack, so the bytes have to be the common ones."""
    assert pack(value) == msgpack.packb(value)


@given(VALUES)
def test_unpack_gives_back_what_was_packed(value: Any) -> None:
    assert unpack(pack(value)) == value


@given(VALUES)
def test_every_truncation_is_refused(value: Any) -> None:
    """A connection may break anywhere; a cut value must never look like a whole one."""
    packed = pack(value)
    for length in range(len(packed)):
        with pytest.raises(ValueError, match="truncated"):
            unpack(packed[:length])


@given(st.binary(max_size=200))
def test_random_bytes_are_read_as_msgpack_reads_them_or_refused(data: bytes) -> None:
    """Hostile input gets ValueError, never another error or a crash."""
    try:
        value = unpack(data)
    except ValueError:
        return
    expected = peer_unpack(data)
    assert repr(value) == repr(expected)


@given(st.binary(max_size=200), st.lists(st.integers(0, 12), max_size=6))
def test_random_blobs_are_projected_or_refused(data: bytes, positions: list[int]) -> None:
    try:
        rows = project(data, positions)
    except ValueError:
        return
    assert all(len(row) == len(positions) for row in rows)


@given(
    st.lists(st.lists(VALUES, max_size=20), max_size=8),
    st.lists(st.integers(0, 22), max_size=8),
)
def test_project_picks_fields_by_position(records: list[list[Any]], positions: list[int]) -> None:
    """Fields that an older daemon does not send yet come out as None."""
    blob = b"".join(msgpack.packb(record) for record in records)
    assert project(blob, positions) == [
        tuple(record[field] if field < len(record) else None for field in positions)
        for record in records
    ]


@given(st.lists(st.lists(VALUES, min_size=1, max_size=4), min_size=1, max_size=3))
def test_a_cut_blob_is_refused_unless_it_ends_between_records(records: list[list[Any]]) -> None:
    packed = [msgpack.packb(record) for record in records]
    ends = {sum(map(len, packed[:count])) for count in range(len(packed) + 1)}
    blob = b"".join(packed)
    for length in range(len(blob)):
        if length in ends:
            project(blob[:length], [0])
        else:
            with pytest.raises(ValueError, match="truncated"):
                project(blob[:length], [0])


def test_none_keeps_its_reference_count() -> None:
    """Rows begin filled with None; replacing it must not take references it does not own."""
    blob = pack([1, 2, 3]) * 1000
    before = sys.getrefcount(None)
    for _ in range(20):
        project(blob, [0, 1, 7])
    assert abs(sys.getrefcount(None) - before) < 100


def test_all_widths_of_lengths() -> None:
    """Each of msgpack's length forms, at both sides of its limits."""
    for size in (0, 15, 16, 31, 32, 255, 256, 65535, 65536):
        value = ["x" * size, b"y" * size, [0] * size, {str(n): n for n in range(size)}]
        assert pack(value) == msgpack.packb(value)
        assert unpack(pack(value)) == value
        assert project(pack(value), [3, 0]) == [(value[3], value[0])]


def test_all_widths_of_numbers() -> None:
    edges = [2**bits + step for bits in (5, 7, 8, 15, 16, 31, 32, 63) for step in (-1, 0, 1)]
    for number in [*edges, *(-n for n in edges if n <= 2**63), 2**64 - 1, 0.5, math.inf]:
        assert pack(number) == msgpack.packb(number)
        assert unpack(pack(number)) == number
    assert unpack(b"\xca" + struct.pack(">f", 1.25)) == 1.25


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "truncated"),
        (b"\x01\x01", "left over"),
        (b"\xc1", "unknown type"),
        (b"\xd4\x01\x02", "unknown type"),
        (b"\xdd\xff\xff\xff\xff", "truncated"),
        (b"\xdf\xff\xff\xff\xff", "truncated"),
        (b"\xc6\xff\xff\xff\xff", "truncated"),
        (b"\x82\x01\x02\x01\x03", "map key twice"),
        (b"\x81\x90\x01", "map key that is an array"),
        (b"\xa1\xff", "utf-8"),
        (b"\x91" * 17 + b"\x01", "deeply"),
    ],
)
def test_malformed_values_are_named(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unpack(data)


def test_project_refuses_other_values_than_arrays() -> None:
    with pytest.raises(ValueError, match="not an array"):
        project(pack({"a": 1}), [0])


def test_depth_is_limited_both_ways() -> None:
    value: list[Any] = []
    for _ in range(15):
        value = [value]
    assert unpack(pack(value)) == value
    with pytest.raises(ValueError, match="deeply"):
        pack([value])


def test_deep_unwanted_fields_need_no_stack() -> None:
    """A field that was not asked for may nest as deep as its bytes allow."""
    blob = b"\x92" + b"\x91" * 100_000 + b"\x00" + b"\x07"
    assert project(blob, [1]) == [(7,)]


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, "\ud800"])
def test_what_msgpack_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"64 bits|surrogates"):
        pack(value)


def test_other_types_are_refused_by_name() -> None:
    with pytest.raises(TypeError, match="cannot pack object"):
        pack(object())


def test_columns_are_padded_and_cut() -> None:
    """squeue cuts what is too long without a mark."""
    rows = [(17, "debug", "a-very-long-name"), (1234567, None, "x")]
    columns = [(5, RIGHT, " "), (7, 0, "|"), (8, RIGHT, "")]
    assert render(rows, columns) == b"   17 debug  |a-very-l\n12345        |       x\n"


def test_marked_columns_end_with_plus() -> None:
    """sacct ends what it cut with a plus sign."""
    assert render([("abcdef", "abc")], [(4, MARK, " "), (3, RIGHT | MARK, "")]) == b"abc+ abc\n"


def test_width_zero_is_as_long_as_the_text() -> None:
    assert render([("abc", 5)], [(0, 0, "|"), (0, RIGHT, "")], head="<", end=">") == b"<abc|5>"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb", "a?b"),
        ("\x1b[31mred", "?[31mred"),
        ("\x7f\x00\x9b", "???"),
        ("left\u202eright\u2066", "left?right?"),
        ("caf\u00e9 \u2020 \U0001f600", "caf\u00e9 \u2020 \U0001f600"),
    ],
)
def test_cells_hold_no_control_characters(text: str, shown: str) -> None:
    """A job name cannot break another user's table or terminal."""
    assert render([(text,)], [(0, 0, "")]).decode() == shown + "\n"


@given(
    st.text(st.characters(exclude_categories=["C", "Z"]), max_size=12),
    st.integers(1, 10),
    st.booleans(),
)
def test_width_counts_characters(text: str, width: int, right: bool) -> None:
    """A multi-byte character is never split, and takes one place."""
    line = render([(text,)], [(width, RIGHT if right else 0, "")], end="").decode()
    cut = text[:width]
    assert line == (cut.rjust(width) if right else cut.ljust(width))


def test_short_rows_and_silly_widths_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        render([(1,)], [(1, 0, ""), (1, 0, "")])
    with pytest.raises(ValueError, match="out of range"):
        render([], [(70_000, 0, "")])
    with pytest.raises(ValueError, match="out of range"):
        project(b"", [-1])
