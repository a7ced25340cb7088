from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.wire import frame
from pyslurm_ng.wire.frame import BadFrame, Parser, pack_frame, parse_head


def accept(kind: str, flags: int, sequence: int, credential: bytes, body_bytes: int) -> object:
    return (kind, credential)


Got = list[tuple[str, int, int, object, bytes]]


class Listener:
    """A parser and what it delivered."""

    def __init__(self, admit: Callable[..., object | None] = accept) -> None:
        self.got: Got = []
        self.parser = Parser(admit, lambda *frame: self.got.append(frame))

    def feed(self, received: bytes) -> Got:
        """Return what these bytes completed."""
        self.got.clear()
        self.parser.feed(received)
        return list(self.got)


kinds = st.text("ABCxyz09", min_size=1, max_size=20)
frames = st.lists(
    st.tuples(kinds, st.integers(0, 2**64 - 1), st.binary(max_size=50), st.binary(max_size=20)),
    max_size=6,
)


@given(frames, st.lists(st.integers(1, 40), max_size=30))
def test_frames_survive_any_cutting(
    sent: list[tuple[str, int, bytes, bytes]], cuts: list[int]
) -> None:
    """TCP gives no message borders."""
    stream = b"".join(pack_frame(k, s, b, 0, c) for k, s, b, c in sent)
    parser = Listener()
    got = []
    at = 0
    for cut in [*cuts, len(stream)]:
        got += parser.feed(stream[at : at + cut])
        at += cut
    got += parser.feed(stream[at:])
    assert got == [(k, 0, s, (k, c), b) for k, s, b, c in sent]
    assert parser.parser.is_between_frames


def head(**changes: int) -> bytes:
    words = {"version": 1, "flags": 0, "kind": 4, "zero": 0, "credential": 0, "body": 0}
    words.update(changes)
    return frame.HEAD.pack(
        b"psng", words["version"], words["flags"], words["kind"], words["zero"],
        words["credential"], words["body"], 7,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"version": 2}, "bad_version"),
        ({"flags": 8}, "bad_head"),
        ({"kind": 0}, "bad_head"),
        ({"kind": 65}, "bad_head"),
        ({"zero": 1}, "bad_head"),
        ({"credential": 65536}, "credential_too_long"),
        ({"body": 2**32 - 1}, "too_long"),
    ],
)
def test_heads_that_no_frame_may_have_are_refused(changes: dict[str, int], cause: str) -> None:
    """Judged from 24 bytes, before anything is allocated."""
    with pytest.raises(BadFrame) as caught:
        parse_head(head(**changes))
    assert caught.value.cause == cause


def test_other_protocols_are_recognized() -> None:
    """A web browser or Slurm's own commands get a refusal and do not wait."""
    with pytest.raises(BadFrame) as caught:
        Listener().feed(b"GET / HTTP/1.1\r\nHost: controller\r\n\r\n")
    assert caught.value.cause == "bad_magic"


def test_unauthenticated_bytes_are_bounded() -> None:
    """Head, kind and credential are all that is taken before somebody is known."""
    largest = frame.HEAD_BYTES + frame.MAX_KIND_BYTES + frame.MAX_CREDENTIAL_BYTES
    assert largest <= frame.MAX_UNAUTHENTICATED_BYTES


def test_admission_comes_before_the_body() -> None:
    """The limit of the kind applies to the declared length, not to what has come."""
    asked: list[int] = []

    def admit(kind: str, flags: int, sequence: int, credential: bytes, body_bytes: int) -> object:
        asked.append(body_bytes)
        raise BadFrame("too_long", "no", sequence)

    parser = Listener(admit)
    with pytest.raises(BadFrame):
        parser.feed(head(body=1 << 30) + b"Ping")
    assert asked == [1 << 30]


def test_a_held_frame_is_asked_for_again() -> None:
    """None from `admit` means not yet: nothing is lost and nothing is taken."""
    room = [None, None, "ticket"]

    def admit(*_: object) -> object | None:
        return room.pop(0)

    parser = Listener(admit)
    assert parser.feed(pack_frame("Ping", 1, b"\x80")) == []
    assert parser.parser.is_held
    assert parser.feed(b"") == []
    assert parser.feed(b"") == [("Ping", 0, 1, "ticket", b"\x80")]
    assert not parser.parser.is_held


@given(st.binary(max_size=200))
def test_random_bytes_are_frames_or_refused(stream: bytes) -> None:
    """Nothing but BadFrame leaves the parser."""
    text = ""
    try:
        Listener().feed(stream)
    except BadFrame as error:
        text = error.text
    assert "\n" not in text


@given(st.integers(0, 60), st.integers(1, 255))
def test_a_changed_byte_never_yields_another_head(at: int, bits: int) -> None:
    """A flipped bit is refused, waits for more, or changes only what the credential covers."""
    good = pack_frame("Ping", 5, b"\x80", 0, b"c" * 30)
    bad = bytearray(good)
    bad[at % len(bad)] ^= bits
    try:
        got = Listener().feed(bytes(bad))
    except BadFrame:
        return
    assert len(got) <= 1
    assert got != [("Ping", 0, 5, ("Ping", b"c" * 30), b"\x80")]
