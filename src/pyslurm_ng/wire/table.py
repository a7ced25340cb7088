"""One table: message kind -> schema, limits, roles, owner rule, rate class.

A message without a row cannot be decoded, and a row cannot be made unless the schema bounds
itself: no untyped or recursive fields, no floats, every number with a range, every text and
container with a largest length, nesting of at most `MAX_DEPTH` (wire.field_bounds). So code after
the decoder meets only values that it expects. The schema is checked once, when the module is
imported.

Concrete messages live by topic in `*_messages.py`; `wire.messages` imports them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import inspect

from pyslurm_ng.kernels.records import check_body, is_lean
from pyslurm_ng.wire.field_bounds import FieldBound, bounds_of, check_bounded, refusal

DEFAULT_MAX_BYTES = 16 << 20
REQUEST_ID_BYTES = 16
RequestId = Annotated[bytes, msgspec.Meta(min_length=REQUEST_ID_BYTES, max_length=REQUEST_ID_BYTES)]
"""Type of the `request_id` field of every changing request; the client fills it."""

ROLES: frozenset[str] = frozenset(("user", "operator", "admin", "node", "slurmctld", "slurmdbd"))
DAEMON_ROLES: frozenset[str] = frozenset(("node", "slurmctld", "slurmdbd"))

OwnerRule = Literal["none", "owner", "coordinator", "operator", "admin", "rule"]
"""Which users may act on the object named in the request; the daemon's rule for the message
enforces it. `none`: no object, or all users may; `owner`: the owner and operators; `coordinator`:
those and coordinators of the account; `operator`, `admin`: that level only; `rule`: written in the
rule.
"""
RateClass = Literal["read", "submit", "change", "daemon"]

StructType = TypeVar("StructType", bound=type[msgspec.Struct])


OLDER_HERE = (
    "If the sender is newer than this daemon, upgrade this daemon: "
    "first slurmdbd, then slurmctld, then slurmd, commands last"
)


class MessageError(Exception):
    """A request or reply that the table refuses; the text is one line for the peer."""

    def __init__(self, cause: str, text: str) -> None:
        super().__init__(text)
        self.cause = cause
        self.text = text


@dataclass(frozen=True, slots=True)
class MessageRow:
    """What is known about one kind of message before its first byte is decoded.

    `max_bytes` limits the body. `max_lean_bytes` limits the body without scripts, environments and
    other byte strings: the part that is parsed. `is_changing` says that the message has a
    `request_id` of `REQUEST_ID_BYTES`, with which the daemon remembers its reply. `stays_open` says
    that the last answer comes when the allocation or step is over.
    """

    kind: str
    struct: type[msgspec.Struct]
    roles: frozenset[str]
    owner_rule: OwnerRule
    rate: RateClass
    max_bytes: int
    is_changing: bool
    is_reply: bool
    stays_open: bool
    max_lean_bytes: int
    schema: inspect.Type
    decoder: msgspec.msgpack.Decoder[Any]


_rows: dict[str, MessageRow] = {}
_kind_of: dict[type[msgspec.Struct], str] = {}
_encoder = msgspec.msgpack.Encoder()


def message(
    *,
    kind: str,
    roles: str | Iterable[str],
    owner_rule: OwnerRule = "none",
    rate: RateClass | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
    stays_open: bool = False,
    max_lean_bytes: int | None = None,
) -> Callable[[StructType], StructType]:
    """Register a request or one-way message; use as a decorator of its `msgspec.Struct`.

    Args:
        kind: name on the wire, equal to no other.
        roles: who may send it at all: names of `ROLES`, or "daemon" for the three daemon roles;
            a string may hold several, separated by `|`. "user" admits every authenticated uid.
        owner_rule: see `OwnerRule`.
        rate: fairness class; "daemon" if only daemons may send it, else "read" unless given.
        max_bytes: largest body.
        stays_open: whether the last answer comes only when an allocation or step is over.
        max_lean_bytes: largest body without its byte strings; as large as all of it unless given.

    Raises:
        TypeError: the schema is not bounded; the text names the field.
        ValueError: the kind or a role is not valid or the kind exists already.
    """
    role_set = _role_set(kind, roles)
    if rate is None:
        rate = "daemon" if role_set <= DAEMON_ROLES else "read"

    def register(struct: StructType) -> StructType:
        config = struct.__struct_config__
        if not config.array_like and not config.forbid_unknown_fields:
            raise TypeError(f"{kind}: a request needs forbid_unknown_fields=True")
        schema = inspect.type_info(struct)
        check_bounded(kind, schema)
        is_changing = "request_id" in struct.__struct_fields__
        _add(
            MessageRow(
                kind, struct, role_set, owner_rule, rate, max_bytes, is_changing,
                False, stays_open, max_lean_bytes or max_bytes, schema,
                msgspec.msgpack.Decoder(struct),
            )
        )  # fmt: skip
        return struct

    return register


def reply(kind: str, *, max_bytes: int = 256 << 20) -> Callable[[StructType], StructType]:
    """Register a reply. Only its size is limited, because its reader has asked a trusted daemon."""

    def register(struct: StructType) -> StructType:
        _add(
            MessageRow(
                kind, struct, frozenset(), "none", "read", max_bytes, False,
                True, False, max_bytes, inspect.AnyType(), msgspec.msgpack.Decoder(struct),
            )
        )  # fmt: skip
        return struct

    return register


def row(kind: str) -> MessageRow:
    """Return the row of `kind`; raise `MessageError` when there is none."""
    known = _rows.get(kind)
    if known is None:
        raise MessageError("unknown_kind", f"unknown message type {kind[:64]!r}. {OLDER_HERE}")
    return known


def find_row(kind: str) -> MessageRow | None:
    """Return the row of `kind` or None."""
    return _rows.get(kind)


def rows() -> tuple[MessageRow, ...]:
    """Return every row in order of registration; tests are generated from it."""
    return tuple(_rows.values())


def kind_of(struct: msgspec.Struct) -> str:
    """Return the kind a registered message is sent under."""
    return _kind_of[type(struct)]


def encode(struct: msgspec.Struct) -> bytes:
    """Return the body of a message."""
    return _encoder.encode(struct)


def decode_request(kind: str, body: bytes | memoryview) -> msgspec.Struct:
    """Decode the body of a request of `kind` into its checked Struct.

    Raises:
        MessageError: unknown kind, a reply's kind, too long, malformed or not as the schema says.
    """
    message_row = row(kind)
    if message_row.is_reply:
        raise MessageError("unknown_kind", f"{kind} is a reply, not a request")
    return _decode(message_row, body)


def decode_reply(kind: str, body: bytes | memoryview) -> msgspec.Struct:
    """Decode the body of a reply; same errors as `decode_request`."""
    message_row = row(kind)
    if not message_row.is_reply:
        raise MessageError("unknown_kind", f"{kind} is a request, not a reply")
    return _decode(message_row, body)


def bounds(kind: str) -> tuple[FieldBound, ...]:
    """Return every field of a request with what is allowed there, in order.

    The reference page, the tests and the fuzzers are made from it.
    """
    return tuple(bounds_of(row(kind).schema))


def _decode(message_row: MessageRow, body: bytes | memoryview) -> msgspec.Struct:
    if len(body) > message_row.max_bytes:
        raise MessageError(
            "too_long",
            f"{message_row.kind}: {len(body)} bytes, at most {message_row.max_bytes} are allowed",
        )
    if len(body) > message_row.max_lean_bytes and not is_lean(body, message_row.max_lean_bytes):
        raise MessageError(
            "too_long",
            f"{message_row.kind}: at most {message_row.max_lean_bytes} bytes are allowed "
            "for all options",
        )
    try:
        decoded = message_row.decoder.decode(body)
        if not message_row.is_reply:
            check_body(body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        # ValidationError is a DecodeError; its text names the place and the expected value.
        text = str(error).splitlines()[0][:300]
        if "unknown field" in text and not message_row.is_reply:
            raise MessageError(
                "newer_sender", f"{message_row.kind}: {text}. {OLDER_HERE}"
            ) from None
        refused = refusal(message_row.schema, text)
        if refused:
            raise MessageError("out_of_bounds", refused) from None
        raise MessageError("malformed", f"{message_row.kind}: {text}") from None
    assert isinstance(decoded, msgspec.Struct)
    return decoded


def _add(row: MessageRow) -> None:
    kind = row.kind
    if not (kind.isascii() and kind.isalnum() and 0 < len(kind) <= 64):
        raise ValueError(f"message kind {kind!r}: 1 to 64 ASCII letters and digits are allowed")
    known = _rows.get(kind)
    if known is not None and known.struct.__qualname__ != row.struct.__qualname__:
        raise ValueError(f"message kind {kind} is registered twice")
    _rows[kind] = row
    _kind_of[row.struct] = kind


def _role_set(kind: str, roles: str | Iterable[str]) -> frozenset[str]:
    names = set(roles.split("|") if isinstance(roles, str) else roles)
    if "daemon" in names:
        names.remove("daemon")
        names |= DAEMON_ROLES
    if not names or not names <= ROLES:
        allowed = ", ".join(sorted(ROLES))
        raise ValueError(f"{kind}: roles {sorted(names)}: some of {allowed}, daemon are allowed")
    return frozenset(names)
