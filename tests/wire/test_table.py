from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import Annotated, Any

import msgpack
import msgspec
import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.kernels.records import check_body
from pyslurm_ng.wire import field_bounds, messages
from pyslurm_ng.wire.admissions import refusal_code
from pyslurm_ng.wire.messages import (
    ROLES,
    ErrorReply,
    MessageError,
    Ping,
    decode_reply,
    decode_request,
    encode,
    message,
    rows,
)
from tests.oracle import wire_scan

Text = Annotated[str, msgspec.Meta(max_length=1 << 20)]
Names = Annotated[list[Text], msgspec.Meta(max_length=1000)]
Number = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]


class Sample(msgspec.Struct, forbid_unknown_fields=True):
    number: Number = 0
    text: Text = ""
    names: Names = []
    words: Annotated[dict[Text, Text], msgspec.Meta(max_length=1000)] = {}
    flag: bool = False


message(kind="TestSample", roles="user", max_bytes=1 << 20)(Sample)


def refused(body: bytes) -> str:
    with pytest.raises(MessageError) as caught:
        decode_request("TestSample", body)
    assert "\n" not in caught.value.text
    return caught.value.cause


def test_every_row_is_complete() -> None:
    """A message without roles, limit or kind would be a hole in the table."""
    for row in rows():
        assert row.is_reply or (row.roles and row.roles <= ROLES)
        assert 0 < row.max_bytes <= 1 << 30
        assert row.is_changing == ("request_id" in row.struct.__struct_fields__)
        if row.rate == "daemon":
            assert "user" not in row.roles


@given(
    st.builds(
        Sample,
        st.integers(-(2**63), 2**63 - 1),
        st.text(st.characters(exclude_characters="\0", codec="utf-8")),
        st.lists(st.text("abc")),
        st.dictionaries(st.text("abc"), st.text("xyz")),
        st.booleans(),
    )
)
def test_what_is_sent_is_read(sample: Sample) -> None:
    """Encoding and the checked decoder agree."""
    assert decode_request("TestSample", encode(sample)) == sample


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\x81\xa4nope\x01",
        b"\x81\xa6number\xa1x",
        b"\x82\xa6number\x01\xa6number\x02",
        b"\x82\xa6number\x01\xd9\x06number\x02",
        b"\x81\xa6number\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x81\xa4text\xa1\0",
        b"\x81\xa4text\xa3\xed\xa0\x80",
        b"\x81\xa6number\xcb\x7f\xf8\0\0\0\0\0\0",
        b"\x80\x80",
        b"\x81\xa5names" + b"\x91" * 1_000_000,
        b"\x81\xa5names\xdd\xff\xff\xff\xff",
        b"\x81\xa5names\xdd" + struct.pack(">I", 999_999) + b"\xa0" * 999_999,
        b"\xdf\xff\xff\xff\xff",
        b"\x81\xa5words\xdf" + struct.pack(">I", 300_000) + b"\xa0\xa0" * 300_000,
        b"\x81\xc0\x01",
        b"\x81\x91\x01\x01",
    ],
)  # fmt: skip
def test_hostile_bodies_are_refused(body: bytes) -> None:
    """RELIABILITY 43: refused, whatever it is, as one line."""
    assert refused(body) in ("malformed", "too_long", "out_of_bounds", "newer_sender")


def test_a_newer_sender_is_told_which_daemon_to_upgrade() -> None:
    """RELIABILITY 47: a slurmd before its slurmctld; the order of upgrades is Slurm's."""
    with pytest.raises(MessageError, match=r"Ping: .*`new`.*upgrade.*slurmctld, then") as caught:
        decode_request("Ping", b"\x81\xa3new\x01")
    assert caught.value.cause == "newer_sender"
    assert refusal_code(caught.value) == Errno.SLURM_PROTOCOL_VERSION_ERROR
    with pytest.raises(MessageError, match=r"unknown message type 'Nope'.*upgrade this daemon"):
        decode_request("Nope", b"\x80")


def test_a_body_beyond_its_kinds_limit_is_refused() -> None:
    """The limit is the row's, not a common one."""
    assert refused(b"\x81\xa4text\xdb\x00\x20\x00\x00" + b"x" * (2 << 20)) == "too_long"


@pytest.mark.parametrize("kind", ["Nope", "", "ErrorReply"])
def test_only_requests_in_the_table_are_decoded(kind: str) -> None:
    """A reply's kind is not a request's, and an unknown kind belongs to no request."""
    with pytest.raises(MessageError) as caught:
        decode_request(kind, b"\x80")
    assert caught.value.cause == "unknown_kind"


def test_a_request_is_no_reply() -> None:
    """The two directions are kept apart."""
    with pytest.raises(MessageError):
        decode_reply("Ping", encode(Ping()))
    assert decode_reply("ErrorReply", encode(ErrorReply(1, "x"))) == ErrorReply(1, "x")


class Inner(msgspec.Struct):
    value: dict[Text, Number]


def test_an_unbounded_schema_cannot_be_registered() -> None:
    """What is not bounded by its type is refused when the module is imported."""

    class NoLength(msgspec.Struct, forbid_unknown_fields=True):
        names: list[Text] = []

    class NoTextLength(msgspec.Struct, forbid_unknown_fields=True):
        names: Annotated[list[str], msgspec.Meta(max_length=3)] = []

    class NoBlobLength(msgspec.Struct, forbid_unknown_fields=True):
        blob: bytes = b""

    class NoRange(msgspec.Struct, forbid_unknown_fields=True):
        number: int = 0

    class HalfRange(msgspec.Struct, forbid_unknown_fields=True):
        number: Annotated[int, msgspec.Meta(ge=0)] = 0

    class Untyped(msgspec.Struct, forbid_unknown_fields=True):
        value: Any = None

    class Fraction(msgspec.Struct, forbid_unknown_fields=True):
        value: float = 0.0

    class Lenient(msgspec.Struct):
        value: Number = 0

    class Outer(msgspec.Struct, forbid_unknown_fields=True):
        inner: Annotated[list[Inner], msgspec.Meta(max_length=3)]

    holes = (NoLength, NoTextLength, NoBlobLength, NoRange, HalfRange)
    for struct_type in (*holes, Untyped, Fraction, Lenient, Outer):
        with pytest.raises(TypeError, match="TestBad"):
            message(kind="TestBad", roles="user")(struct_type)


class Tree(msgspec.Struct, forbid_unknown_fields=True):
    branches: Annotated[list[Tree], msgspec.Meta(max_length=3)] = []


def test_a_schema_that_contains_itself_cannot_be_registered() -> None:
    """Depth is bounded by the schema, so a schema must have one."""
    with pytest.raises(TypeError, match="contains itself"):
        message(kind="TestTree", roles="user")(Tree)


def test_a_kind_is_registered_once_and_only_with_known_roles() -> None:
    """Two schemas under one name are a mistake, and so is an unknown role."""

    class Other(msgspec.Struct, forbid_unknown_fields=True):
        pass

    with pytest.raises(ValueError, match="twice"):
        message(kind="TestSample", roles="user")(Other)
    with pytest.raises(ValueError, match="roles"):
        message(kind="TestOther", roles="wizard")(Other)
    with pytest.raises(ValueError, match="letters"):
        message(kind="Test Other", roles="user")(Other)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.text(st.characters(codec="utf-8"), max_size=5)
    | st.binary(max_size=5)
    | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text("ab\0", max_size=2) | st.integers(0, 300), inner, max_size=4)
    ),
    max_leaves=12,
)


def verdicts(body: bytes) -> tuple[bool, bool]:
    fast = slow = True
    try:
        check_body(body)
    except ValueError:
        fast = False
    try:
        wire_scan.check_body(body, field_bounds.MAX_DEPTH)
    except wire_scan.Malformed:
        slow = False
    return fast, slow


@given(values, st.integers(0, 200), st.integers(0, 255), st.integers(0, 3))
def test_the_compiled_check_agrees_with_its_twin(
    value: object, at: int, byte: int, how: int
) -> None:
    """On whole, changed, cut and extended bodies alike."""
    body = bytearray(msgpack.packb(value))
    if how == 1:
        body[at % len(body)] = byte
    elif how == 2:
        del body[at % len(body) :]
    elif how == 3:
        body.append(byte)
    fast, slow = verdicts(bytes(body))
    assert fast == slow


@given(st.binary(max_size=80))
def test_random_bytes_never_do_more_than_fail(body: bytes) -> None:
    """Neither check nor decoder raises anything else."""
    fast, slow = verdicts(body)
    assert fast == slow
    try:
        decode_request("TestSample", body)
    except MessageError:
        pass


def test_depth_is_the_same_in_both_checks() -> None:
    """Sixteen levels pass, seventeen do not."""
    assert verdicts(b"\x91" * 16 + b"\x00") == (True, True)
    assert verdicts(b"\x91" * 17 + b"\x00") == (False, False)


def test_bombs_are_refused_before_they_grow() -> None:
    """RELIABILITY 43: within 10 ms of processor time, and 4 MiB of memory."""
    import tracemalloc

    bombs = [
        b"\x81\xa5names\xdd" + struct.pack(">I", 1_000_000) + b"\x90" * 1_000_000,
        b"\x81\xa5names" + b"\x91" * 1_000_000,
        b"\xdf" + struct.pack(">I", 500_000) + b"".join(
            b"\xce" + struct.pack(">I", i) + b"\x00" for i in range(100_000)
        ),
    ]  # fmt: skip
    for bomb in bombs:
        took_s = []
        for _ in range(3):
            began_s = time.thread_time()
            refused(bomb)
            took_s.append(time.thread_time() - began_s)
        assert min(took_s) < 0.01
    tracemalloc.start()
    try:
        for bomb in bombs:
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            refused(bomb)
            assert tracemalloc.get_traced_memory()[1] - before < 4 << 20
    finally:
        tracemalloc.stop()


def test_every_file_of_messages_fills_the_table() -> None:
    """Bounds are documented, and fuzzed, of what the table has when all of it is imported."""
    folder = Path(messages.__file__).parent
    files = {path.stem for path in folder.glob("*_messages.py")}
    assert files == {topic.__name__.rpartition(".")[2] for topic in messages.TOPICS}
