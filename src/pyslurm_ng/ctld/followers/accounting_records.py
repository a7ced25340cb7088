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


def as_sent(one: Frame) -> JournalFrame:
    """Return a record to be sent; of one too large for a message, what fits of it."""
    payload, fault = one.payload, ""
    if len(payload) > MOST_BYTES:
        fault = f"the record has {len(payload)} bytes: its longest texts were cut"
        try:
            payload = msgspec.msgpack.encode(_cut(msgspec.msgpack.decode(payload)))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return without_events(one, f"its {len(one.payload)} bytes cannot be read")
        if len(payload) > MOST_BYTES:
            return without_events(one, f"it is too large for a message: {len(one.payload)} bytes")
    return JournalFrame(one.epoch, one.sequence, payload, checksum_text(one.checksum), fault)


def without_events(one: Frame, why: str) -> JournalFrame:
    """Return a record that stands for one which slurmdbd cannot take."""
    text = f"not sent to slurmdbd: {why}"[:1000]
    return JournalFrame(one.epoch, one.sequence, _NO_EVENTS, checksum_text(one.checksum), text)


def checksum_text(checksum: int) -> str:
    """Return a record's checksum as slurmdbd keeps it."""
    return f"{checksum:016x}"


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_TEXT]
    if isinstance(value, bytes):
        return value[:_BLOB]
    if isinstance(value, list):
        return [_cut(item) for item in value]
    if isinstance(value, dict):
        return {_cut(key): _cut(item) for key, item in value.items()}
    return value
