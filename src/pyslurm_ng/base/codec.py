"""Records and their bytes: positional msgpack that may grow at its end.

Everything that is kept (events, model records, checkpoints) derives from `Record`: an array of
its fields in order. New fields go to the end with a default, so old bytes read as new records; the
defaults fill what they lack. Wire messages are maps and derive from `Message`, which refuses
unknown keys, so that a command may build them as plain dicts.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

# Raised only when bytes written before can no longer be read as they are.
FORMAT_VERSION = 1

T = TypeVar("T")


class CodecError(ValueError):
    """Bytes that are not what they were said to be."""


class Record(msgspec.Struct, array_like=True, gc=False):
    """A kept record: fields by position; subclasses hold numbers, strings and other records.

    The garbage collector ignores it (records form no cycles by the rules of the model), which makes
    a hundred thousand of them cheap. A record that holds a dict or list others may cycle through
    must say ``gc=True``.
    """


class FrozenRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A kept record that never changes, such as an event."""


class Message(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A wire message: fields by name, unknown names refused."""


_encoder = msgspec.msgpack.Encoder()
_decoders: dict[Any, msgspec.msgpack.Decoder[Any]] = {}


def encode(value: object) -> bytes:
    """Return the msgpack bytes of a record, message, or plain value."""
    return _encoder.encode(value)


def decode(data: bytes | bytearray | memoryview, kind: type[T]) -> T:
    """Return the value that the bytes hold, checked against `kind` and its field types.

    Raises:
        CodecError: truncated or foreign bytes, a missing field, a value of another type.
    """
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.msgpack.Decoder(kind)
    try:
        value: T = decoder.decode(data)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise CodecError(str(error)) from None
    return value
