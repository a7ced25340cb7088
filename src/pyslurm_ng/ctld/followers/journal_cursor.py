"""Whether slurmdbd's cursor is a record of this journal, and if not, what both have in common."""

from __future__ import annotations

from pathlib import Path

from pyslurm_ng.ctld.followers.accounting_records import checksum_text
from pyslurm_ng.journal.segment import ORIGIN, Position, SegmentReader, list_segments
from pyslurm_ng.wire.dbd_messages import ClusterRegistered


def common_record(
    journal: Path, answer: ClusterRegistered, start: int, durable: int
) -> Position | None:
    """Return the newest record that slurmdbd and this journal have in common, if that is news.

    None says that slurmdbd's cursor is a record of this journal, or that nothing tells otherwise.

    Args:
        journal: the directory of the segments.
        answer: the cursor, with the checksum of its record.
        start: the newest record that this process found when it began.
        durable: the newest record there is now.

    Raises:
        OSError, JournalError: the journal cannot be read.
    """
    sequence = answer.sequence
    if not sequence:
        return None
    if sequence <= durable:
        own = _record(journal, sequence)
        if own is None or not answer.checksum:
            # No longer kept, or stored by an older slurmdbd.
            return None
        if own is not ORIGIN and checksum_text(own.checksum) == answer.checksum:
            return None
    if sequence > start:
        # What this process has written since is not what slurmdbd has stored under these numbers.
        return (_record(journal, start) if start else None) or ORIGIN
    return _before_epoch(journal, sequence)


def _record(journal: Path, sequence: int) -> Position | None:
    """Return a record's position; None if it is no longer kept, ORIGIN if there is a gap."""
    segments = list_segments(journal)
    before = [segment for segment in segments if segment.first_sequence <= sequence]
    if before:
        with SegmentReader(before[-1].path) as reader:
            for frame in reader:
                if frame.sequence == sequence:
                    return frame.position
        return ORIGIN
    if segments and segments[0].first_sequence == sequence + 1:
        with SegmentReader(segments[0].path) as reader:
            if not reader.header.follows_gap:
                return reader.header.position
    return None


def _before_epoch(journal: Path, sequence: int) -> Position:
    """Return the last record before the epoch that wrote a record.

    A restored state begins with a new epoch, so a different journal begins with one.
    """
    segments = list_segments(journal)
    of_record = [segment for segment in segments if segment.first_sequence <= sequence]
    if not of_record:
        return ORIGIN
    first = min(
        segment.first_sequence for segment in of_record if segment.epoch == of_record[-1].epoch
    )
    return _record(journal, first - 1) or ORIGIN
