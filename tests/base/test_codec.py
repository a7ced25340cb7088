"""Records by position: old bytes stay readable, foreign bytes are refused."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.base.codec import CodecError, FrozenRecord, Message, Record, decode, encode


class Old(Record):
    number: int
    text: str = ""


class New(Record):
    number: int
    text: str = ""
    added: int = 7


class Fact(FrozenRecord):
    number: int


class Ask(Message):
    job_id: int
    flag: bool = False


@given(st.integers(-(2**63), 2**64 - 1), st.text())
def test_records_come_back(number: int, text: str) -> None:
    assert decode(encode(Old(number, text)), Old) == Old(number, text)


def test_fields_added_at_the_end_read_old_bytes() -> None:
    assert decode(encode(Old(1, "x")), New) == New(1, "x", 7)


def test_a_frozen_record_does_not_change() -> None:
    with pytest.raises(AttributeError):
        Fact(1).number = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", encode(Old(1))[:-1], encode(["1", "x"]), encode({"number": 1})]
)
def test_foreign_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(CodecError):
        decode(data, Old)


def test_unknown_fields_of_a_message_are_refused() -> None:
    assert decode(encode({"job_id": 1}), Ask) == Ask(1)
    with pytest.raises(CodecError):
        decode(encode({"job_id": 1, "surprise": 2}), Ask)
