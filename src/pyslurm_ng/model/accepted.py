"""Reading what was accepted before: journals, checkpoints and credentials, without bounds.

Bounds (model.bounds) are for values from outside. A value in the journal was accepted, perhaps by a
version without such a bound, and must be read as it stands: to cut it would change history. So a
decoder reads with the bounds first, and for today's records that is all. Values that the bounds
refuse are read again by copies of the types without bounds. The records are built from that.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Generic, TypeVar, cast

import msgspec
from msgspec import Struct, inspect

T = TypeVar("T")

_twins: dict[type[Struct], type[Struct]] = {}
_of_twin: dict[type[Struct], type[Struct]] = {}


class AcceptedDecoder(Generic[T]):
    """Decodes msgpack of one type; values beyond its bounds are kept.

    Raises:
        msgspec.DecodeError: from `decode`, for malformed bytes or values of another type.
    """

    __slots__ = ("_decoder", "_kind")

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self._decoder: msgspec.msgpack.Decoder[T] = msgspec.msgpack.Decoder(kind)

    def decode(self, data: bytes | memoryview | msgspec.Raw) -> T:
        """Return the value."""
        try:
            return self._decoder.decode(data)
        except msgspec.ValidationError:
            return cast(T, _built(_unbounded_decoder(self._kind).decode(data)))


@cache
def _unbounded_decoder(kind: Any) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(_unbounded(inspect.type_info(kind)))


def _unbounded(kind: inspect.Type) -> Any:
    """Return the type that `kind` describes, without the bounds of numbers, texts and lists."""
    if isinstance(kind, inspect.Metadata):
        return _unbounded(kind.type)
    if isinstance(kind, inspect.StructType):
        return _twin(kind)
    if isinstance(kind, inspect.UnionType):
        parts = [_unbounded(part) for part in kind.types]
        union = parts[0]
        for part in parts[1:]:
            union = union | part
        return union
    if isinstance(kind, inspect.ListType):
        return list[_unbounded(kind.item_type)]  # type: ignore[misc]
    if isinstance(kind, inspect.VarTupleType):
        return tuple[_unbounded(kind.item_type), ...]  # type: ignore[misc]
    if isinstance(kind, inspect.TupleType):
        return tuple[tuple(_unbounded(item_type) for item_type in kind.item_types)]  # type: ignore[misc]
    if isinstance(kind, inspect.DictType):
        return dict[_unbounded(kind.key_type), _unbounded(kind.value_type)]  # type: ignore[misc]
    if isinstance(kind, inspect.LiteralType):
        return type(kind.values[0])
    if isinstance(kind, inspect.CustomType):
        return kind.cls
    return _PLAIN[type(kind)]


_PLAIN: dict[type[inspect.Type], Any] = {
    inspect.AnyType: object,
    inspect.NoneType: type(None),
    inspect.BoolType: bool,
    inspect.IntType: int,
    inspect.FloatType: float,
    inspect.StrType: str,
    inspect.BytesType: bytes,
    inspect.RawType: msgspec.Raw,
}


def _twin(kind: inspect.StructType) -> type[Struct]:
    """Return a Struct with the same fields and encoding as `kind`, each without its bounds."""
    known = _twins.get(kind.cls)
    if known is not None:
        return known
    fields: list[Any] = []
    for field, field_type in zip(msgspec.structs.fields(kind.cls), kind.fields, strict=True):
        plain = _unbounded(field_type.type)
        if field.required:
            fields.append((field.encode_name, plain))
        elif field.default is not msgspec.NODEFAULT:
            fields.append((field.encode_name, plain, field.default))
        else:
            factory = msgspec.field(default_factory=field.default_factory)
            fields.append((field.encode_name, plain, factory))
    config = kind.cls.__struct_config__
    twin = msgspec.defstruct(
        kind.cls.__name__,
        fields,
        tag=config.tag,
        tag_field=None if config.array_like else config.tag_field,
        array_like=config.array_like,
        forbid_unknown_fields=config.forbid_unknown_fields,
        kw_only=not config.array_like,
    )
    _twins[kind.cls] = twin
    _of_twin[twin] = kind.cls
    return twin


def _built(value: Any) -> Any:
    """Return a value that the unbounded types have read as the ordinary records."""
    kind = type(value)
    if kind in (list, tuple):
        return kind(_built(element) for element in value)
    if kind is dict:
        return {_built(key): _built(element) for key, element in value.items()}
    known = _of_twin.get(kind)
    if known is None:
        return value
    names = zip(kind.__struct_fields__, known.__struct_fields__, strict=True)
    return known(**{own: _built(getattr(value, name)) for name, own in names})
