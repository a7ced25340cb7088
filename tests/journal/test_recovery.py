"""Recovery: acknowledged records come back or the start is refused; nothing in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyslurm_ng.journal.checkpoint import write_checkpoint
from pyslurm_ng.journal.recovery import Layout, Recovery
from pyslurm_ng.journal.segment import HEADER_BYTES, JournalDamage, JournalError, SegmentReader
from tests.journal.journal_room import Room


def payloads_of(count: int, start: int = 0) -> list[bytes]:
    return [b"record %d " % number * 5 for number in range(start, start + count)]


def test_an_empty_directory_is_an_empty_journal(room: Room) -> None:
    """The first start finds nothing and begins with record 1 of epoch 1."""
    recovery, payloads = room.recover()
    assert (payloads, recovery.next_epoch, recovery.next_sequence) == ([], 1, 1)
    assert recovery.checkpoint is None


def test_each_start_continues_the_last(room: Room) -> None:
    """Three epochs read as one journal."""
    assert room.write(payloads_of(3)) == [1, 2, 3]
    assert room.write([]) == []
    assert room.write(payloads_of(2, 3)) == [4, 5]
    recovery, payloads = room.recover()
    assert payloads == payloads_of(5)
    assert recovery.next_epoch == 4
    assert recovery.notes == []


def test_segments_change_at_their_size(room: Room) -> None:
    """Several segments of one epoch are one journal; the last group may exceed the size."""
    room.write(payloads_of(40), segment_bytes=1000)
    assert len(room.segments()) > 3
    assert room.recover()[1] == payloads_of(40)


def copy_state(room: Room, target: Path) -> Room:
    other = Room(target)
    for path in room.segments():
        (other.layout.journal / path.name).write_bytes(path.read_bytes())
    return other


def test_a_cut_at_every_byte_keeps_all_complete_records(room: Room, tmp_path: Path) -> None:
    """RELIABILITY 5: a torn tail is cut with one line in the log, at every byte of 4 records."""
    written = payloads_of(8)
    room.write(written)
    raw = room.segments()[0].read_bytes()
    record = (len(raw) - HEADER_BYTES) // 8
    (tmp_path / "cut").mkdir()
    other = copy_state(room, tmp_path / "cut")
    path = other.segments()[0]
    for cut in range(len(raw) - 4 * record, len(raw)):
        path.write_bytes(raw[:cut])
        recovery, payloads = other.recover()
        complete = (cut - HEADER_BYTES) // record
        assert payloads == written[:complete]
        is_whole = (cut - HEADER_BYTES) % record == 0
        assert len(recovery.notes) == (0 if is_whole else 1)
        assert path.stat().st_size == HEADER_BYTES + complete * record


def test_every_flipped_bit_is_cut_or_refused(room: Room, tmp_path: Path) -> None:
    """RELIABILITY 5: the last record may be taken for torn; an earlier one stops the start."""
    written = payloads_of(8)
    room.write(written)
    raw = room.segments()[0].read_bytes()
    record = (len(raw) - HEADER_BYTES) // 8
    (tmp_path / "flip").mkdir()
    other = copy_state(room, tmp_path / "flip")
    path = other.segments()[0]
    for index in range(HEADER_BYTES, len(raw)):
        flipped = bytearray(raw)
        flipped[index] ^= 1 << index % 8
        path.write_bytes(flipped)
        number = (index - HEADER_BYTES) // record
        if number == 7:
            recovery, payloads = other.recover()
            assert payloads == written[:7]
            assert len(recovery.notes) == 1
        else:
            with pytest.raises(JournalDamage) as caught:
                other.recover()
            assert caught.value.offset == HEADER_BYTES + number * record
            assert path.read_bytes() == bytes(flipped)


@pytest.mark.soak
def test_each_bit_of_the_last_four_kib(room: Room, tmp_path: Path) -> None:
    """RELIABILITY 5: 32,768 times, all earlier records are kept or the start is refused."""
    written = payloads_of(80, 10)  # all of one length
    room.write(written)
    raw = room.segments()[0].read_bytes()
    record = (len(raw) - HEADER_BYTES) // 80
    assert record * 80 == len(raw) - HEADER_BYTES > 4096
    (tmp_path / "flip").mkdir()
    other = copy_state(room, tmp_path / "flip")
    path = other.segments()[0]
    for bit in range((len(raw) - 4096) * 8, len(raw) * 8):
        flipped = bytearray(raw)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        number = (bit // 8 - HEADER_BYTES) // record
        if number == 79:
            assert other.recover()[1] == written[:79]
        else:
            with pytest.raises(JournalDamage):
                other.recover()


@pytest.mark.parametrize("zeros", [1, 511, 4096, 70000])
def test_zeros_at_the_end_are_no_record(room: Room, zeros: int) -> None:
    """Zeroed space ahead of the writing position, left by a crash, is silently skipped."""
    room.write(payloads_of(3))
    with open(room.segments()[0], "ab") as file:
        file.write(bytes(zeros))
    recovery, payloads = room.recover()
    assert (payloads, recovery.notes) == (payloads_of(3), [])


def test_a_missing_segment_is_refused(room: Room) -> None:
    """A file lost from the middle is named by the records it held."""
    room.write(payloads_of(40), segment_bytes=1000)
    room.segments()[1].unlink()
    with pytest.raises(JournalDamage, match=r"records \d+ to \d+ are missing"):
        room.recover()


def test_a_segment_put_back_from_the_past_is_refused(room: Room) -> None:
    """RELIABILITY 8: an old copy of a segment ends too early for the next one."""
    room.write(payloads_of(5))
    old = room.segments()[0].read_bytes()
    room.write(payloads_of(3))
    room.segments()[0].write_bytes(old[: len(old) - 90])
    with pytest.raises(JournalDamage):
        room.recover()


def test_an_unfinished_segment_creation_is_removed(room: Room) -> None:
    """RELIABILITY 10: a crash between creating a segment and its header leaves nothing to lose."""
    room.write(payloads_of(2))
    half = room.layout.journal / "00000002-0000000000000003.journal.new"
    half.write_bytes(bytes(10))
    recovery, payloads = room.recover()
    assert payloads == payloads_of(2)
    assert recovery.next_epoch == 2
    assert not half.exists()


@pytest.mark.parametrize("size", [0, 10, HEADER_BYTES, 5000])
def test_an_emptied_newest_segment_is_refused(room: Room, size: int) -> None:
    """RELIABILITY 5: it looked like one whose creation a crash had interrupted."""
    room.write(payloads_of(3))
    room.write(payloads_of(2))
    newest = room.segments()[-1]
    newest.write_bytes(bytes(size))
    with pytest.raises(JournalDamage) as caught:
        room.recover()
    assert caught.value.path == newest
    recovery, payloads = room.recover(ignore_errors=True)
    assert payloads == payloads_of(3)
    assert recovery.next_sequence > 4
    assert newest.with_name(newest.name + ".damaged").exists()


def checkpoint_at(room: Room, sequence: int, payload: bytes = b"state") -> None:
    for path in room.segments():
        with SegmentReader(path) as reader:
            for frame in reader:
                if frame.sequence == sequence:
                    write_checkpoint(
                        room.layout.checkpoints, reader.header.journal_id, frame.position, payload
                    )
                    return
    raise AssertionError(sequence)


def test_only_records_behind_the_checkpoint_are_read(room: Room) -> None:
    """RELIABILITY 10: the checkpoint has everything up to its record."""
    room.write(payloads_of(30), segment_bytes=1000)
    checkpoint_at(room, 17)
    recovery, payloads = room.recover()
    assert recovery.checkpoint is not None
    assert recovery.checkpoint.payload == b"state"
    assert payloads == payloads_of(13, 17)


def test_a_damaged_checkpoint_falls_back_to_the_older(room: Room) -> None:
    """RELIABILITY 10: two are kept for this; the log says which was skipped."""
    room.write(payloads_of(30))
    checkpoint_at(room, 10, b"older")
    checkpoint_at(room, 20, b"newer")
    newest = sorted(room.layout.checkpoints.glob("*.checkpoint"))[-1]
    raw = bytearray(newest.read_bytes())
    raw[70] ^= 4
    newest.write_bytes(raw)
    recovery, payloads = room.recover()
    assert recovery.checkpoint is not None
    assert recovery.checkpoint.payload == b"older"
    assert payloads == payloads_of(20, 10)
    assert len(recovery.notes) == 1


def test_a_journal_shorter_than_its_checkpoint_is_refused(room: Room) -> None:
    """A lying disk dropped records that the checkpoint proves; nothing is cut."""
    room.write(payloads_of(30))
    checkpoint_at(room, 20)
    path = room.segments()[0]
    raw = path.read_bytes()
    cut = len(raw) // 2 + 7
    path.write_bytes(raw[:cut])
    with pytest.raises(JournalDamage, match="a checkpoint contains record 20"):
        room.recover()
    assert path.stat().st_size == cut


def test_a_checkpoint_of_other_records_is_refused(room: Room, tmp_path: Path) -> None:
    """RELIABILITY 8: same sequence, other history: the chain's checksum does not fit."""
    room.write(payloads_of(9))
    recovery, _ = room.recover()
    position = recovery.position._replace(sequence=5, epoch=1)
    write_checkpoint(room.layout.checkpoints, recovery.journal_id, position, b"other")
    with pytest.raises(JournalDamage, match="record 5 is not the one"):
        room.recover()


def test_ignoring_errors_keeps_the_rest_aside_and_never_reuses_numbers(room: Room) -> None:
    """`slurmctld -i`: state up to the damage, the file kept, sequences jump over the lost ones."""
    room.write(payloads_of(10))
    path = room.segments()[0]
    raw = bytearray(path.read_bytes())
    raw[HEADER_BYTES + (len(raw) - HEADER_BYTES) // 10 * 5 + 30] ^= 1
    path.write_bytes(raw)
    writer = room.start(ignore_errors=True)
    assert writer.append(b"after") == 11
    writer.close()
    recovery, payloads = room.recover()
    assert payloads == [*payloads_of(5), b"after"]
    assert recovery.next_sequence == 12
    aside = room.layout.journal / (path.name + ".damaged")
    assert aside.read_bytes() == bytes(raw)
    room.write([b"more"])
    assert room.recover()[1] == [*payloads_of(5), b"after", b"more"]


def test_the_journal_of_another_cluster_is_refused(room: Room, tmp_path: Path) -> None:
    """Segments of two journals are not mixed."""
    (tmp_path / "other").mkdir()
    other = Room(tmp_path / "other")
    room.write(payloads_of(3))
    other.write(payloads_of(3))
    other.write(payloads_of(3))
    strange = other.segments()[1]
    (room.layout.journal / strange.name).write_bytes(strange.read_bytes())
    with pytest.raises(JournalError, match="belongs to another journal"):
        room.recover()


def test_records_of_an_overruled_controller_are_ignored(room: Room) -> None:
    """What the old one wrote after the take-over is not part of the journal."""
    room.write(payloads_of(5))
    path = room.segments()[0]
    whole = path.read_bytes()
    record = (len(whole) - HEADER_BYTES) // 5
    path.write_bytes(whole[: HEADER_BYTES + 3 * record])
    room.write([b"new"])
    path.write_bytes(whole)
    recovery, payloads = room.recover()
    assert payloads == [*payloads_of(3), b"new"]
    assert "later epoch" in recovery.notes[0]


def test_a_state_directory_that_is_missing_is_an_os_error(tmp_path: Path) -> None:
    """The daemon turns it into one fatal line."""
    with pytest.raises(FileNotFoundError):
        Layout(tmp_path / "absent").create()
    with pytest.raises(FileNotFoundError):
        Recovery(Layout(tmp_path / "absent"))
