"""What a message's type says about its fields: whether each is bounded, and the bound in words.

The types are the only place where bounds are written (model.bounds). This module reads them. The
message table refuses a type with an unbounded field. A refusal names the field and what is allowed.
The reference page and the tests list all bounds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

from msgspec import Struct, ValidationError, convert, inspect
from msgspec.structs import fields

MAX_DEPTH = 16
_FREE = (inspect.NoneType, inspect.BoolType, inspect.EnumType)
_PATH = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")
_REFUSAL = re.compile(
    r"(?:Expected `(?P<word>\w+)` (?:of length )?[<>=]+ (?P<bound>-?\d+)|Invalid enum value .*"
    r"|Integer value out of range) - at (?P<key>`key` in )?`\$(?P<path>.*)`$"
)


class FieldBound(NamedTuple):
    """One field of a message: its path (`request.rlimits[][0]`), type and what is allowed."""

    path: str
    kind: inspect.Type
    allowed: str


# Whether a type is bounded ----------------------------------------------------------------------


def check_bounded(where: str, kind: inspect.Type, above: tuple[type, ...] = ()) -> None:
    """Raise TypeError unless every value of this type has bounded depth, length and range."""
    if len(above) >= MAX_DEPTH:
        raise TypeError(f"{where}: nested deeper than {MAX_DEPTH}")
    if isinstance(kind, inspect.Metadata):
        check_bounded(where, kind.type, above)
    elif isinstance(kind, inspect.UnionType):
        for choice in kind.types:
            check_bounded(where, choice, above)
    elif isinstance(kind, inspect.StructType):
        if kind.cls in above:
            raise TypeError(f"{where}: contains itself")
        for field in kind.fields:
            check_bounded(f"{where}.{field.name}", field.type, (*above, kind.cls))
    elif isinstance(kind, inspect.CollectionType):
        _check_length(where, kind.max_length)
        check_bounded(f"{where}[]", kind.item_type, (*above, list))
    elif isinstance(kind, inspect.TupleType):
        for inner_type in kind.item_types:
            check_bounded(f"{where}[]", inner_type, (*above, tuple))
    elif isinstance(kind, inspect.DictType):
        _check_length(where, kind.max_length)
        check_bounded(f"{where} key", kind.key_type, (*above, dict))
        check_bounded(f"{where} value", kind.value_type, (*above, dict))
    elif isinstance(kind, inspect.StrType | inspect.BytesType):
        _check_length(where, kind.max_length)
    elif isinstance(kind, inspect.IntType):
        if kind.ge is None or kind.le is None:
            raise TypeError(f"{where}: an int needs Annotated[..., Meta(ge=..., le=...)]")
    elif isinstance(kind, inspect.LiteralType):
        pass
    elif not isinstance(kind, _FREE):
        raise TypeError(f"{where}: {type(kind).__name__} is not allowed in a request")


def _check_length(where: str, max_length: int | None) -> None:
    if max_length is None:
        raise TypeError(f"{where}: it needs Annotated[..., Meta(max_length=...)]")


# What is allowed, in words ----------------------------------------------------------------------


def allowed(kind: inspect.Type) -> str:
    """Return what a type allows: `at most 128 characters`, `0 to 65535`; "" for a Struct."""
    if isinstance(kind, inspect.Metadata):
        return allowed(kind.type)
    if isinstance(kind, inspect.UnionType):
        return " or ".join(filter(None, map(allowed, kind.types)))
    if isinstance(kind, inspect.IntType):
        return f"{kind.ge} to {kind.le}"
    if isinstance(kind, inspect.StrType):
        pattern = f" like {kind.pattern}" if kind.pattern else ""
        return _length(kind.min_length, kind.max_length, "characters") + pattern
    if isinstance(kind, inspect.BytesType):
        return _length(kind.min_length, kind.max_length, "bytes")
    if isinstance(kind, inspect.CollectionType | inspect.DictType):
        return _length(kind.min_length, kind.max_length, "items")
    if isinstance(kind, inspect.LiteralType):
        return "only " + ", ".join(map(str, kind.values))
    if isinstance(kind, inspect.TupleType):
        return f"{len(kind.item_types)} items"
    if isinstance(kind, inspect.BoolType):
        return "true or false"
    return "nothing" if isinstance(kind, inspect.NoneType) else ""


def _length(least: int | None, most: int | None, of_what: str) -> str:
    if least and least == most:
        return f"{most} {of_what}"
    return f"{least} to {most} {of_what}" if least else f"at most {most} {of_what}"


def bounds_of(kind: inspect.Type, path: str = "") -> Iterator[FieldBound]:
    """Yield the fields of a message's type, those inside others after them."""
    if isinstance(kind, inspect.Metadata):
        yield from bounds_of(kind.type, path)
    elif isinstance(kind, inspect.StructType):
        for field in kind.fields:
            inner = f"{path}.{field.name}" if path else field.name
            yield from bounds_of(field.type, inner)
    elif isinstance(kind, inspect.UnionType):
        structs = [struct for struct in kind.types if isinstance(struct, inspect.StructType)]
        if len(structs) < len(kind.types) and allowed(kind):
            yield FieldBound(path, kind, allowed(kind))
        for struct in structs:
            yield from bounds_of(
                struct, f"{path}<{struct.cls.__name__}>" if len(structs) > 1 else path
            )
    else:
        yield FieldBound(path, kind, allowed(kind))
        yield from _inner_bounds(kind, path)


def _inner_bounds(kind: inspect.Type, path: str) -> Iterator[FieldBound]:
    if isinstance(kind, inspect.CollectionType):
        yield from bounds_of(kind.item_type, f"{path}[]")
    elif isinstance(kind, inspect.TupleType):
        for index, inner_type in enumerate(kind.item_types):
            yield from bounds_of(inner_type, f"{path}[{index}]")
    elif isinstance(kind, inspect.DictType):
        yield from bounds_of(kind.key_type, f"{path}{{key}}")
        yield from bounds_of(kind.value_type, f"{path}{{}}")


def beyond(struct: type[Struct], values: Mapping[str, object]) -> str:
    """Return `wckey: at most 128 characters are allowed` for the first value out of bounds, or "".

    For records that are made here, not decoded: `values` are fields of `struct`, with their names.
    """
    kinds = _field_kinds(struct)
    for name, value in values.items():
        if name in kinds:
            try:
                convert(value, kinds[name])
            except ValidationError:
                return f"{name}: {allowed(inspect.type_info(kinds[name]))} are allowed"
    return ""


@cache
def _field_kinds(struct: type[Struct]) -> dict[str, object]:
    return {field.name: field.type for field in fields(struct)}


# What was wrong, in words -----------------------------------------------------------------------


def refusal(kind: inspect.Type, error: str) -> str:
    """Return `field: at most 128 characters are allowed` for a text of msgspec about a value.

    Only daemons send lists with records of several types. There the name may belong to another type
    with the same bound, because msgspec does not say which record it was.

    Returns:
        "" if the text is not about a bound: another type, an unknown field, a broken body.
    """
    match = _REFUSAL.match(error)
    if match is None:
        return ""
    fields = _find(kind, _PATH.findall(match["path"]), "", is_key=bool(match["key"]))
    for name, field_type in fields:
        if name and _may_say(field_type, match["word"], match["bound"]):
            return f"{name}: {allowed(field_type)} are allowed"
    return ""


def _may_say(kind: inspect.Type, word: str | None, bound: str | None) -> bool:
    """Return whether a value of this type can be refused with these words."""
    if isinstance(kind, inspect.UnionType):
        return any(_may_say(known_type, word, bound) for known_type in kind.types)
    if isinstance(kind, inspect.LiteralType):
        return word is None
    if isinstance(kind, inspect.IntType):
        return word in (None, "int") and (bound is None or bound in (str(kind.ge), str(kind.le)))
    names = {inspect.StrType: "str", inspect.BytesType: "bytes", inspect.DictType: "object"}
    if isinstance(kind, inspect.StrType | inspect.BytesType | inspect.CollectionType):
        bounds = (str(kind.min_length), str(kind.max_length))
        return word == names.get(type(kind), "array") and (bound is None or bound in bounds)
    return isinstance(kind, inspect.DictType) and word == names[inspect.DictType]


def _find(
    kind: inspect.Type, steps: list[tuple[str, str]], name: str, *, is_key: bool
) -> Iterator[tuple[str, inspect.Type]]:
    """Yield the fields that a path may lead to: name and type."""
    if isinstance(kind, inspect.Metadata):
        yield from _find(kind.type, steps, name, is_key=is_key)
        return
    if not steps:
        yield name, kind.key_type if is_key and isinstance(kind, inspect.DictType) else kind
        return
    if isinstance(kind, inspect.UnionType):
        for known_type in kind.types:
            yield from _find(known_type, steps, name, is_key=is_key)
        return
    (word, index), rest = steps[0], steps[1:]
    inner: inspect.Type | None = None
    if isinstance(kind, inspect.StructType):
        position = int(index) - (kind.tag is not None) if index.isdecimal() else -1
        for number, field in enumerate(kind.fields):
            if field.encode_name == word or (kind.array_like and number == position):
                inner, name = field.type, field.name
    elif word:
        return
    elif isinstance(kind, inspect.CollectionType):
        inner = kind.item_type
    elif isinstance(kind, inspect.TupleType) and index.isdecimal():
        inner = kind.item_types[int(index)] if int(index) < len(kind.item_types) else None
    elif isinstance(kind, inspect.DictType):
        inner = kind.value_type
    if inner is not None:
        yield from _find(inner, rest, name, is_key=is_key)
