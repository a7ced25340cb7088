"""`pyslurm_ng.kernels.records.RecordTexts`: texts of packed records, beside an obvious twin."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.base.sluid import record_sluid, sluid_text
from pyslurm_ng.data_parser.json_text import quote
from pyslurm_ng.kernels.records import (
    Number,
    RecordTexts,
    Remembered,
    StepOfJob,
    Text,
    pack,
)

COUNT = st.integers(-(2**63), 2**63 - 1) | st.integers(-200, 300)
TIME = st.integers(0, 2**63 - 1)
RECORD = st.tuples(COUNT, TIME, st.text(max_size=9) | st.sampled_from(["a/b", "a"]), TIME)


def _usual(word: str, count: int) -> bytes | None:
    return None if count % 3 == 0 else repr((word, count)).encode()


def _own(job_id: int) -> bytes:
    return b"own %d" % job_id


def parts() -> list[Any]:
    """Return one part of each kind for records of RECORD."""
    return [
        Number(b"<", (0, 1), 1000, b">"),
        Text(b"text=", 2, quote),
        Remembered((2, 3), _usual, (0,), _own),
        StepOfJob(b"[", (1, 3, 0), b" of ", b"]"),
    ]


def twin(record: tuple[int, int, str, int]) -> bytes:
    """Return what `parts` put together for a record."""
    first, second, word, third = record
    remembered = _usual(word, third)
    return b"".join((
        b"<%d>" % (max(first or second, 0) // 1000),
        b"text=" + quote(word).encode(),
        _own(first) if remembered is None else remembered,
        f"[{sluid_text(record_sluid(second, third, first))} of {first}]".encode(),
    ))  # fmt: skip


def whole(blob: bytes, made: list[Any], count: int) -> bytes:
    """Return all texts, some at a time."""
    texts = RecordTexts(blob, made, b";", b",")
    pieces = []
    while text := texts.next(count):
        pieces.append(text)
    return b",".join(pieces)


@given(st.lists(RECORD, max_size=12), st.integers(1, 5))
def test_texts_are_those_of_the_twin(records: list[tuple[int, int, str, int]], count: int) -> None:
    """Also of records that are like the one before, and across the parts that they come in."""
    again = [record for record in records for _ in range(2)]
    blob = b"".join(pack(list(record)) for record in again)
    assert whole(blob, parts(), count) == b",".join(twin(record) + b";" for record in again)


def test_what_is_remembered_has_a_bound() -> None:
    """Ten thousand comments of 3,000 characters would be 30 MB."""
    made = 0

    def text(word: str) -> bytes:
        nonlocal made
        made += 1
        return word.encode()

    words = [f"{index:3000d}" for index in range(200)] * 2
    blob = b"".join(pack([word]) for word in words)
    expected = ",".join(f"{word};" for word in words).encode()
    assert whole(blob, [Remembered((0,), text)], 50) == expected
    assert made == len(words), "none of the 200 texts can have been kept until it came again"
    made = 0
    few = pack(["a"]) + pack(["b"])
    assert whole(few * 99, [Remembered((0,), text)], 50).startswith(b"a;,b;,a;")
    assert made == 2


@given(st.binary(max_size=120))
def test_random_records_become_texts_or_are_refused(data: bytes) -> None:
    """An answer that is broken gets ValueError, never a crash."""
    try:
        whole(data, [Remembered((1, 5), lambda *values: repr(values).encode())], 3)
    except ValueError:
        return
    with contextlib.suppress(ValueError, TypeError):
        assert whole(data, parts(), 3).endswith(b";") or not data


@pytest.mark.parametrize("value", [None, "7", True, 1.5, [], 2**63, b"7"])
def test_a_number_has_to_be_one(value: object) -> None:
    with pytest.raises(ValueError, match="not an integer"):
        whole(pack([value]), [Number(b"", (0,), 1, b"")], 1)


@pytest.mark.parametrize("number", [0, 127, 128, 255, 256, 2**16, 2**31, 2**32, 2**63 - 1, -1, -33])
def test_all_widths_of_numbers(number: int) -> None:
    assert whole(pack([number]), [Number(b"", (0,), 1, b"")], 1) == b"%d;" % max(number, 0)
    wide = b"\x91" + (b"\xd3" + struct.pack(">q", number))
    assert whole(wide, [Number(b"", (0,), 1, b"")], 1) == b"%d;" % max(number, 0)


def test_short_records_lack_their_last_fields() -> None:
    whole_part = Remembered((0, 1), lambda *values: repr(values).encode())
    assert (
        whole(pack([5]) + pack([5, 6]) + pack([5]), [whole_part], 9)
        == b"(5, None);,(5, 6);,(5, None);"
    )
    with pytest.raises(ValueError, match="not an integer"):
        whole(pack([5]), [Number(b"", (1,), 1, b"")], 1)


def test_parts_are_checked() -> None:
    with pytest.raises(ValueError, match="position"):
        RecordTexts(b"", [Number(b"", (-1,), 1, b"")], b"", b"")
    with pytest.raises(ValueError, match="position"):
        RecordTexts(b"", [Text(b"", 65536, quote)], b"", b"")
    with pytest.raises(ValueError, match="unit"):
        Number(b"", (0,), 0, b"")
    with pytest.raises(TypeError):
        RecordTexts(b"", [b"no part"], b"", b"")  # type: ignore[list-item]
