"""Frames: what was written is what is read, and nothing else ever is."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from pyslurm_ng.journal.segment import (
    FORMAT_VERSION,
    HEADER_BYTES,
    JournalDamage,
    JournalError,
    Position,
    SegmentHeader,
    SegmentReader,
    checksum_of,
    decode_header,
    encode_frames,
    list_segments,
    scan_frames,
    segment_path,
)

KEY = bytes(range(16))
BEFORE = Position(3, 40, 12345)
PAYLOADS = st.lists(st.binary(max_size=300), max_size=20)


def build(payloads: list[bytes], synced: int = 40) -> bytes:
    return b"".join(encode_frames(KEY, BEFORE, synced, payloads)[0])


@given(PAYLOADS)
def test_frames_come_back_in_order(payloads: list[bytes]) -> None:
    """Payload, epoch and sequence of each frame survive."""
    raw = build(payloads)
    scan = scan_frames(KEY, raw, BEFORE)
    assert [frame.payload for frame in scan.frames] == payloads
    assert [frame.sequence for frame in scan.frames] == list(range(41, 41 + len(payloads)))
    assert scan.used == len(raw)
    assert scan.position == encode_frames(KEY, BEFORE, 40, payloads)[1]


@given(PAYLOADS.filter(len), st.data())
def test_any_cut_gives_a_prefix(payloads: list[bytes], data: st.DataObject) -> None:
    """Complete frames before a cut are read, the cut one is not."""
    raw = build(payloads)
    cut = data.draw(st.integers(0, len(raw) - 1))
    payloads_read = [frame.payload for frame in scan_frames(KEY, raw[:cut], BEFORE).frames]
    assert payloads_read == payloads[: len(payloads_read)]
    assert len(build(payloads[: len(payloads_read) + 1])) > cut


@given(PAYLOADS.filter(len), st.data())
def test_any_bit_flip_ends_the_frames_there(payloads: list[bytes], data: st.DataObject) -> None:
    """A flipped bit invalidates its own frame and hides those behind it."""
    raw = bytearray(build(payloads))
    bit = data.draw(st.integers(0, len(raw) * 8 - 1))
    raw[bit // 8] ^= 1 << bit % 8
    payloads_read = [frame.payload for frame in scan_frames(KEY, bytes(raw), BEFORE).frames]
    assert payloads_read == payloads[: len(payloads_read)]
    assert (
        len(build(payloads[: len(payloads_read)]))
        <= bit // 8
        < len(build(payloads[: len(payloads_read) + 1]))
    )


@given(st.binary(max_size=400))
def test_random_bytes_are_no_frames(raw: bytes) -> None:
    """They give neither a frame nor a crash."""
    assert scan_frames(KEY, raw, BEFORE).frames == []


def test_frames_of_another_journal_are_not_read() -> None:
    """The checksum is keyed, so frames copied from elsewhere (or forged) do not count."""
    raw = build([b"one"])
    assert scan_frames(bytes(16), raw, BEFORE).frames == []


@pytest.mark.parametrize(
    "other", [Position(2, 40, 12345), Position(3, 39, 12345), Position(3, 40, 1)]
)
def test_frames_that_do_not_continue_are_not_read(other: Position) -> None:
    """Epoch, sequence and previous checksum must all fit."""
    assert scan_frames(KEY, build([b"one"]), other).frames == []


def test_header_of_a_newer_version_is_refused_by_name(tmp_path: Path) -> None:
    """RELIABILITY 17: state of the future is not touched, and the text says what it is."""
    raw = bytearray(SegmentHeader(KEY, 1, 1, 0).encode())
    struct.pack_into("<H", raw, 8, FORMAT_VERSION + 1)
    body = bytes(raw[:-8])
    path = tmp_path / "x"
    path.write_bytes(body + checksum_of(KEY, body).to_bytes(8, "little"))
    with pytest.raises(JournalError, match="written by a newer version"):
        SegmentReader(path)


@given(st.integers(0, HEADER_BYTES * 8 - 1))
def test_flipped_header_is_refused(bit: int) -> None:
    """No bit of the header can change unnoticed."""
    raw = bytearray(SegmentHeader(KEY, 1, 1, 0).encode())
    raw[bit // 8] ^= 1 << bit % 8
    with pytest.raises(JournalError):
        decode_header(Path("x"), bytes(raw))


def reader_of(tmp_path: Path, raw: bytes) -> SegmentReader:
    path = segment_path(tmp_path, BEFORE.epoch, BEFORE.sequence + 1)
    path.write_bytes(SegmentHeader(KEY, 3, 41, 12345).encode() + raw)
    assert [name.path for name in list_segments(tmp_path)] == [path]
    return SegmentReader(path)


def test_zeros_behind_the_last_frame_are_a_clean_end(tmp_path: Path) -> None:
    """Segments are zeroed ahead of the writing position."""
    with reader_of(tmp_path, build([b"one", b"two"]) + bytes(5000)) as reader:
        assert [frame.payload for frame in reader] == [b"one", b"two"]
        assert reader.examine_end().kind == ""


def test_a_large_frame_is_read_whatever_the_buffer(tmp_path: Path) -> None:
    """A frame larger than the reading step is fetched in one piece."""
    payloads = [b"a" * 5000, b"b"]
    with reader_of(tmp_path, build(payloads)) as reader:
        assert reader.read(100)[0].payload == payloads[0]
        assert reader.read(100)[0].payload == b"b"
        assert reader.read(100) == []


def test_reading_goes_on_when_the_file_has_grown(tmp_path: Path) -> None:
    """A follower reads behind its last frame again and again."""
    raw = build([b"one", b"two", b"three"])
    first = len(build([b"one"]))
    with reader_of(tmp_path, raw[: first + 10]) as reader:
        assert [frame.payload for frame in reader.read()] == [b"one"]
        assert reader.read() == []
        with open(reader.path, "ab") as file:
            file.write(raw[first + 10 :])
        assert [frame.payload for frame in reader.read()] == [b"two", b"three"]


def test_damage_below_a_later_proof_is_damage(tmp_path: Path) -> None:
    """A frame that says 41 was durable when 42 was written proves that 41 was acknowledged."""
    first_frames, position = encode_frames(KEY, BEFORE, 40, [b"one" * 300])
    two, _ = encode_frames(KEY, position, 41, [b"two"])
    first = bytearray(b"".join(first_frames))
    first[100:800] = bytes(700)
    with reader_of(tmp_path, bytes(first) + b"".join(two)) as reader:
        assert reader.read() == []
        ending = reader.examine_end()
        assert (ending.kind, ending.last_sequence) == ("damaged", 42)
        assert "record 42" in ending.why


def test_a_missing_sector_within_one_group_is_torn(tmp_path: Path) -> None:
    """Sectors of one write may reach the disk in any order; none of it was acknowledged."""
    raw = bytearray(build([b"one" * 300, b"two"]))
    start = 512 - HEADER_BYTES
    raw[start : start + 512] = bytes(512)
    with reader_of(tmp_path, bytes(raw)) as reader:
        assert reader.read() == []
        assert reader.examine_end().kind == "torn"


def test_a_flip_before_an_intact_frame_is_damage(tmp_path: Path) -> None:
    """Without a missing sector no torn write explains it, whatever the group."""
    raw = bytearray(build([b"one" * 300, b"two"]))
    raw[60] ^= 1
    with reader_of(tmp_path, bytes(raw)) as reader:
        assert reader.examine_end().kind == "damaged"


def test_a_frame_hidden_in_a_payload_proves_nothing(tmp_path: Path) -> None:
    """A user who knows the format but not the key cannot make the controller refuse to start."""
    forged = b"".join(encode_frames(bytes(16), Position(3, 90, 7), 89, [b"evil"])[0])
    raw = build([forged * 3])
    with reader_of(tmp_path, raw[:-20]) as reader:
        assert reader.examine_end().kind == "torn"


def test_damage_names_file_offset_and_repair() -> None:
    """The operator's line has all that is needed."""
    text = str(JournalDamage(Path("/state/journal/x"), 77, "record 5 is unreadable"))
    assert text.startswith("/state/journal/x: damaged at offset 77: record 5 is unreadable")
    assert "'slurmctld -i'" in text
