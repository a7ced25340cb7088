"""Batches of events as the journal holds them: payloads, and about how long they will be."""

from __future__ import annotations

from operator import attrgetter

import msgspec

from . import events as ev
from .accepted import AcceptedDecoder
from .job import JobRequest
from .kept_request import argument_length

_EVENT_BYTES = 200
_TERM_BYTES = 20
_LONG_FIELDS = attrgetter(
    "comment", "extra", "admin_comment", "submit_line", "dependency", "array", "node_list",
    "exclude", "burst_buffer", "cpu_bind", "mem_bind", "tres_bind", "gpu_bind",
)  # fmt: skip
_STEP_TEXTS = attrgetter(
    "name", "submit_line", "cwd", "std_in", "std_out", "std_err", "network", "container", "nodes"
)


def about_bytes(event: ev.AnyEvent) -> int:
    """Return about how many bytes an event takes in the journal; a cheap estimate."""
    kind = type(event)
    if kind is ev.ScriptStored:
        return _EVENT_BYTES + len(event.content)  # type: ignore[union-attr]
    if kind is ev.RequestAnswered:
        return _EVENT_BYTES + len(event.reply)  # type: ignore[union-attr]
    if kind is ev.DependencyChanged:
        return _EVENT_BYTES + _TERM_BYTES * len(event.dependencies)  # type: ignore[union-attr]
    if kind is ev.JobSubmitted or kind is ev.JobUpdated:
        request: JobRequest | None = event.request  # type: ignore[union-attr]
        if request is not None:
            texts = len("".join(_LONG_FIELDS(request))) + argument_length(request)
            return 5 * _EVENT_BYTES + texts + len(str(getattr(event, "fields", "")))
    if kind is ev.StepCreated:
        step = event.step  # type: ignore[union-attr]
        return 2 * _EVENT_BYTES + sum(map(len, _STEP_TEXTS(step)))
    return _EVENT_BYTES


_encoder = msgspec.msgpack.Encoder()
_decoder: AcceptedDecoder[list[ev.AnyEvent]] = AcceptedDecoder(list[ev.AnyEvent])


def encode_batch(events: list[ev.AnyEvent]) -> bytes:
    """Return one journal payload holding `events`."""
    return _encoder.encode(events)


def decode_batch(payload: bytes) -> list[ev.AnyEvent]:
    """Return the events of one journal payload.

    Raises:
        msgspec.ValidationError: the payload is of another version or damaged.
    """
    try:
        return _decoder.decode(payload)
    except UnicodeDecodeError as error:
        raise msgspec.ValidationError(str(error)) from None
