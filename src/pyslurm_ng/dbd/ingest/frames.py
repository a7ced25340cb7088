"""Records of a journal as they arrive; if one cannot be decoded whole, event by event."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from pyslurm_ng.model.batches import decode_batch
from pyslurm_ng.model.events import AnyEvent

RECORD_CHARACTERS = 16_384
"""An event that could not be stored, as it is kept."""
ERROR_CHARACTERS = 1_000

_raw_decoder = msgspec.msgpack.Decoder(list[msgspec.Raw])
_ARRAY_OF_ONE = b"\x91"


class NewerRecordError(Exception):
    """The controller is newer than this slurmdbd: its journal has events that are unknown here.

    Nothing is set aside then. The controller keeps its journal until slurmdbd is updated.
    """


class Problem(NamedTuple):
    """An event that cannot be stored as it is, and why; `job_id` 0: it concerns no job."""

    sequence: int
    time_us: int
    kind: str
    job_id: int
    error: str
    record: str


class Frame:
    """One journal record: its position, its events, and the parts that are no event."""

    __slots__ = ("checksum", "epoch", "events", "problems", "sequence")

    def __init__(
        self,
        epoch: int,
        sequence: int,
        events: list[AnyEvent],
        checksum: str = "",
        problems: Iterable[Problem] = (),
    ) -> None:
        self.epoch = epoch
        self.sequence = sequence
        self.events = events
        self.checksum = checksum
        self.problems = list(problems)


def decode_frame(
    epoch: int, sequence: int, payload: bytes, checksum: str = "", fault: str = ""
) -> Frame:
    """Decode one record.

    Args:
        checksum: the record's in its journal, in hexadecimal.
        fault: what the controller had to leave out of the record, to be kept as a problem.

    Raises:
        NewerRecordError: an event of a kind that is not known here.
    """
    try:
        frame = Frame(epoch, sequence, decode_batch(payload), checksum)
    except msgspec.DecodeError as error:
        frame = Frame(epoch, sequence, [], checksum)
        _decode_apart(frame, payload, error)
    if fault:
        first = frame.events[0] if frame.events else None
        if first is None:
            frame.problems.append(Problem(sequence, 0, "record", 0, fault, ""))
        else:
            frame.problems.append(problem_of(sequence, first, fault))
    return frame


def problem_of(sequence: int, event: AnyEvent, error: str) -> Problem:
    """Return the problem with an event."""
    return Problem(
        sequence,
        event.time_us,
        type(event).__name__,
        getattr(event, "job_id", 0),
        error[:ERROR_CHARACTERS],
        msgspec.json.encode(event)[:RECORD_CHARACTERS].decode("utf-8", "ignore"),
    )


def _decode_apart(frame: Frame, payload: bytes, error: Exception) -> None:
    """Decode the events of a record one by one; undecodable ones become problems."""
    try:
        raws = _raw_decoder.decode(payload)
    except msgspec.DecodeError:
        frame.problems.append(
            Problem(frame.sequence, 0, "record", 0, _text(error), _hexadecimal(payload))
        )
        return
    for raw in raws:
        event = bytes(raw)
        try:
            frame.events += decode_batch(_ARRAY_OF_ONE + event)
        except msgspec.DecodeError as reason:
            frame.problems.append(_undecodable(frame.sequence, event, reason))


def _undecodable(sequence: int, raw: bytes, error: Exception) -> Problem:
    try:
        values = msgspec.msgpack.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        values = []
    if not isinstance(values, list) or not values:
        return Problem(sequence, 0, "event", 0, _text(error), _hexadecimal(raw))
    kind = _KINDS.get(values[0])
    if kind is None:
        raise NewerRecordError(
            f"record {sequence} of the journal has an event (number {values[0]!r:.20}) that this "
            "slurmdbd does not know: slurmctld is newer. Update slurmdbd; accounting waits in "
            "the controller's journal until then"
        )
    fields = kind.__struct_fields__
    job_id = 0
    if "job_id" in fields:
        position = fields.index("job_id") + 1
        job_id = (
            values[position] if position < len(values) and isinstance(values[position], int) else 0
        )
    time_us = values[1] if len(values) > 1 and isinstance(values[1], int) else 0
    return Problem(sequence, time_us, kind.__name__, job_id, _text(error), _hexadecimal(raw))


def _text(error: Exception) -> str:
    return str(error)[:ERROR_CHARACTERS]


def _hexadecimal(raw: bytes) -> str:
    return raw[: RECORD_CHARACTERS // 2].hex()


_KINDS: dict[object, type[msgspec.Struct]] = {
    kind.__struct_config__.tag: kind for kind in AnyEvent.__args__
}
