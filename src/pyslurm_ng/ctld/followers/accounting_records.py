"""Records of the journal in a form that slurmdbd takes, with any content."""

from __future__ import annotations

from typing import Any

import msgspec

from pyslurm_ng.journal.segment import Frame
from pyslurm_ng.wire.dbd_messages import JournalFrame

MOST_BYTES = 16 << 20
"""A larger record goes without the ends of its longest texts; a message holds 32 MiB."""
_TEXT = 65_536
_BLOB = 4 << 20
_NO_EVENTS = b"\x90"


def as_sent(frame: Frame) -> JournalFrame:
    """Return a record to be sent; of one too large for a message, what fits of it."""
    payload, fault = frame.payload, ""
    if len(payload) > MOST_BYTES:
        fault = f"the record has {len(payload)} bytes: its longest texts were cut"
        try:
            payload = msgspec.msgpack.encode(_cut(msgspec.msgpack.decode(payload)))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return without_events(frame, f"its {len(frame.payload)} bytes cannot be read")
        if len(payload) > MOST_BYTES:
            return without_events(
                frame, f"it is too large for a message: {len(frame.payload)} bytes"
            )
    return JournalFrame(frame.epoch, frame.sequence, payload, checksum_text(frame.checksum), fault)


def without_events(frame: Frame, why: str) -> JournalFrame:
    """Return a record that stands for one which slurmdbd cannot take."""
    text = f"not sent to slurmdbd: {why}"[:1000]
    return JournalFrame(
        frame.epoch, frame.sequence, _NO_EVENTS, checksum_text(frame.checksum), text
    )


def checksum_text(checksum: int) -> str:
    """Return a record's checksum as slurmdbd keeps it."""
    return f"{checksum:016x}"


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_TEXT]
    if isinstance(value, bytes):
        return value[:_BLOB]
    if isinstance(value, list):
        return [_cut(part) for part in value]
    if isinstance(value, dict):
        return {_cut(key): _cut(part) for key, part in value.items()}
    return value
