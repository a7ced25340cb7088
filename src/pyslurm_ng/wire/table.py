"""One table: message kind -> schema, limits, roles, owner rule, rate class, audit.

A message without a row cannot be decoded, and a row cannot be made unless the schema bounds
itself: no untyped or recursive fields, no floats, every container with a largest length, nesting
of at most `MAX_DEPTH`. So the decoder needs no generic "build it first, look later" step, and
the checks run once, when the module is imported, not for every message.

Concrete messages live by topic in `*_messages.py`; `wire.messages` imports them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import inspect

from pyslurm_ng._records import check_body

MAX_DEPTH = 16
DEFAULT_MAX_BYTES = 16 << 20
REQUEST_ID_BYTES = 16
RequestId = Annotated[bytes, msgspec.Meta(min_length=REQUEST_ID_BYTES, max_length=REQUEST_ID_BYTES)]
"""Type of the `request_id` field of every changing request; the client fills it."""

ROLES: frozenset[str] = frozenset(("user", "operator", "admin", "node", "slurmctld", "slurmdbd"))
DAEMON_ROLES: frozenset[str] = frozenset(("node", "slurmctld", "slurmdbd"))

OwnerRule = Literal["none", "owner", "coordinator", "operator", "admin", "rule"]
"""Who may act on the object named in the request; the daemon's rule for the message enforces it.

`none`: no object, or everyone may; `owner`: the owner and operators; `coordinator`: those and
coordinators of the account; `operator`, `admin`: that level only; `rule`: written in the rule.
"""
RateClass = Literal["read", "submit", "change", "daemon"]

StructType = TypeVar("StructType", bound=type[msgspec.Struct])


class MessageError(Exception):
    """A request or reply that the table refuses; the text is one line for the peer."""

    def __init__(self, cause: str, text: str) -> None:
        super().__init__(text)
        self.cause = cause
        self.text = text


@dataclass(frozen=True, slots=True)
class MessageRow:
    """What is known about one kind before its first byte is decoded.

    `max_bytes` limits the body. `is_changing` says that the message carries a `request_id` of
    `REQUEST_ID_BYTES` under which the daemon remembers its reply, `stays_open` that it is
    answered when what it asked for is over.
    """

    kind: str
    struct: type[msgspec.Struct]
    roles: frozenset[str]
    owner_rule: OwnerRule
    rate: RateClass
    max_bytes: int
    audit: bool
    is_changing: bool
    is_reply: bool
    stays_open: bool
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
    audit: bool = False,
    stays_open: bool = False,
) -> Callable[[StructType], StructType]:
    """Register a request or one-way message; use as a decorator of its `msgspec.Struct`.

    Args:
        kind: name on the wire, equal to no other.
        roles: who may send it at all: names of `ROLES`, or "daemon" for the three daemon roles;
            a string may hold several, separated by `|`. "user" admits every authenticated uid.
        owner_rule: see `OwnerRule`.
        rate: fairness class; "daemon" if only daemons may send it, else "read" unless given.
        max_bytes: largest body.
        audit: whether the daemon writes an audit record of it.
        stays_open: whether the last answer comes only when an allocation or step is over.

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
        _check_bounded(kind, inspect.type_info(struct), ())
        is_changing = "request_id" in struct.__struct_fields__
        _add(
            MessageRow(
                kind, struct, role_set, owner_rule, rate, max_bytes, audit, is_changing,
                False, stays_open, msgspec.msgpack.Decoder(struct),
            )
        )  # fmt: skip
        return struct

    return register


def reply(kind: str, *, max_bytes: int = 256 << 20) -> Callable[[StructType], StructType]:
    """Register a reply. Only its size is limited: a reply is read by who asked a trusted daemon."""

    def register(struct: StructType) -> StructType:
        _add(
            MessageRow(
                kind, struct, frozenset(), "none", "read", max_bytes, False, False,
                True, False, msgspec.msgpack.Decoder(struct),
            )
        )  # fmt: skip
        return struct

    return register


def row(kind: str) -> MessageRow:
    """Return the row of `kind`; raise `MessageError` when there is none."""
    found = _rows.get(kind)
    if found is None:
        raise MessageError("unknown_kind", f"unknown message type {kind[:64]!r}")
    return found


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
    found = row(kind)
    if found.is_reply:
        raise MessageError("unknown_kind", f"{kind} is a reply, not a request")
    return _decode(found, body)


def decode_reply(kind: str, body: bytes | memoryview) -> msgspec.Struct:
    """Decode the body of a reply; same errors as `decode_request`."""
    found = row(kind)
    if not found.is_reply:
        raise MessageError("unknown_kind", f"{kind} is a request, not a reply")
    return _decode(found, body)


def _decode(found: MessageRow, body: bytes | memoryview) -> msgspec.Struct:
    if len(body) > found.max_bytes:
        raise MessageError(
            "too_long", f"{found.kind}: {len(body)} bytes, at most {found.max_bytes} are allowed"
        )
    try:
        decoded = found.decoder.decode(body)
        if not found.is_reply:
            check_body(body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        # ValidationError is a DecodeError; its text names the field and what is allowed there.
        text = str(error).splitlines()[0][:300]
        raise MessageError("malformed", f"{found.kind}: {text}") from None
    assert isinstance(decoded, msgspec.Struct)
    return decoded


def _add(new: MessageRow) -> None:
    kind = new.kind
    if not (kind.isascii() and kind.isalnum() and 0 < len(kind) <= 64):
        raise ValueError(f"message kind {kind!r}: 1 to 64 ASCII letters and digits are allowed")
    known = _rows.get(kind)
    if known is not None and known.struct.__qualname__ != new.struct.__qualname__:
        raise ValueError(f"message kind {kind} is registered twice")
    _rows[kind] = new
    _kind_of[new.struct] = kind


def _role_set(kind: str, roles: str | Iterable[str]) -> frozenset[str]:
    names = set(roles.split("|") if isinstance(roles, str) else roles)
    if "daemon" in names:
        names.remove("daemon")
        names |= DAEMON_ROLES
    if not names or not names <= ROLES:
        allowed = ", ".join(sorted(ROLES))
        raise ValueError(f"{kind}: roles {sorted(names)}: some of {allowed}, daemon are allowed")
    return frozenset(names)


def _check_bounded(where: str, kind: inspect.Type, above: tuple[type, ...]) -> None:
    """Raise TypeError unless every value of this type has bounded depth and length."""
    if len(above) >= MAX_DEPTH:
        raise TypeError(f"{where}: nested deeper than {MAX_DEPTH}")
    if isinstance(kind, inspect.Metadata):
        _check_bounded(where, kind.type, above)
    elif isinstance(kind, inspect.UnionType):
        for choice in kind.types:
            _check_bounded(where, choice, above)
    elif isinstance(kind, inspect.StructType):
        if kind.cls in above:
            raise TypeError(f"{where}: contains itself")
        for field in kind.fields:
            _check_bounded(f"{where}.{field.name}", field.type, (*above, kind.cls))
    elif isinstance(kind, inspect.CollectionType):
        _check_length(where, kind.max_length)
        _check_bounded(f"{where}[]", kind.item_type, (*above, list))
    elif isinstance(kind, inspect.TupleType):
        for item in kind.item_types:
            _check_bounded(f"{where}[]", item, (*above, tuple))
    elif isinstance(kind, inspect.DictType):
        _check_length(where, kind.max_length)
        _check_bounded(f"{where} key", kind.key_type, (*above, dict))
        _check_bounded(f"{where} value", kind.value_type, (*above, dict))
    elif not isinstance(kind, _SCALARS):
        raise TypeError(f"{where}: {type(kind).__name__} is not allowed in a request")


_SCALARS = (
    inspect.NoneType,
    inspect.BoolType,
    inspect.IntType,
    inspect.StrType,
    inspect.BytesType,
    inspect.LiteralType,
    inspect.EnumType,
)


def _check_length(where: str, max_length: int | None) -> None:
    if max_length is None:
        raise TypeError(f"{where}: a container needs Annotated[..., Meta(max_length=...)]")
