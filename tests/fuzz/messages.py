"""Bodies of messages made from the message table: within all bounds, or one just beyond one.

`bodies(kind)` gives valid bodies as what msgpack packs; `beyond(kind)` gives the same with one
field just out of its bounds, and that field's name. Both follow the types in the table, so a new
field is covered as soon as it is there. Tests and fuzzers of all daemons start from here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

from pyslurm_ng.wire import messages

LONGEST = 40  # characters or items of what is drawn at random; bounds are met on purpose
Body = Any


def requests() -> tuple[str, ...]:
    """Return every kind a daemon can be sent."""
    ours = [row for row in messages.rows() if row.struct.__module__.startswith("pyslurm_ng.")]
    return tuple(row.kind for row in ours if not row.is_reply)


@cache
def bodies(kind: str) -> st.SearchStrategy[Body]:
    """Return valid bodies of a kind, with values at their bounds among them."""
    return _values(messages.row(kind).schema)


def _values(kind: inspect.Type) -> st.SearchStrategy[Body]:
    if isinstance(kind, inspect.Metadata):
        return _values(kind.type)
    if isinstance(kind, inspect.UnionType):
        return st.one_of([_values(kind_of_value) for kind_of_value in kind.types])
    if isinstance(kind, inspect.StructType):
        return _structs(kind)
    if isinstance(kind, inspect.TupleType):
        return st.tuples(*[_values(kind_of_value) for kind_of_value in kind.item_types]).map(list)
    if isinstance(kind, inspect.CollectionType):
        least = kind.min_length or 0
        most = max(least, min(kind.max_length or 0, 3))
        return st.lists(_values(kind.item_type), min_size=least, max_size=most)
    if isinstance(kind, inspect.DictType):
        return st.dictionaries(_values(kind.key_type), _values(kind.value_type), max_size=3)
    return _scalars(kind)


def _scalars(kind: inspect.Type) -> st.SearchStrategy[Body]:
    if isinstance(kind, inspect.IntType):
        assert kind.ge is not None and kind.le is not None
        return st.sampled_from([kind.ge, kind.le]) | st.integers(kind.ge, kind.le)
    if isinstance(kind, inspect.StrType):
        letters = st.characters(exclude_characters="\0", codec="utf-8")
        assert kind.max_length is not None
        least, most = kind.min_length or 0, min(kind.max_length, LONGEST)
        return st.text(letters, min_size=least, max_size=most)
    if isinstance(kind, inspect.BytesType):
        assert kind.max_length is not None
        least = kind.min_length or 0
        return st.binary(min_size=least, max_size=max(least, min(kind.max_length, LONGEST)))
    if isinstance(kind, inspect.LiteralType):
        return st.sampled_from(kind.values)
    if isinstance(kind, inspect.BoolType):
        return st.booleans()
    assert isinstance(kind, inspect.NoneType), kind
    return st.none()


def _structs(kind: inspect.StructType) -> st.SearchStrategy[Body]:
    drawn = {field.encode_name: _values(field.type) for field in kind.fields}
    if kind.array_like:
        tag = [] if kind.tag is None else [st.just(kind.tag)]
        return st.tuples(*tag, *drawn.values()).map(list)
    required = {field.encode_name for field in kind.fields if field.required}
    return st.fixed_dictionaries(
        {name: value for name, value in drawn.items() if name in required},
        optional={name: value for name, value in drawn.items() if name not in required},
    )


# One field beyond its bounds --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Beyond:
    """A body that is valid but for one field.

    Args:
        path: which field, for the name of a test.
        field: the name that the refusal must have.
        allowed: what it must say is allowed.
        at_bound: the same body with the field at its bound, which is valid.
    """

    path: str
    field: str
    allowed: str
    body: Body
    at_bound: Body


Wrap = Callable[[Body], Body]


def beyond(kind: str) -> list[Beyond]:
    """Return for each bound of each field of a kind a body just beyond it."""
    return list(_beyond(messages.row(kind).schema, lambda value: value, "", ""))


def least(kind: inspect.Type) -> Body:
    """Return the smallest valid value of a type."""
    if isinstance(kind, inspect.Metadata):
        return least(kind.type)
    if isinstance(kind, inspect.UnionType):
        return None if kind.includes_none else least(kind.types[0])
    if isinstance(kind, inspect.StructType):
        if kind.array_like:
            tag = [] if kind.tag is None else [kind.tag]
            return tag + [least(field.type) for field in kind.fields]
        return {field.encode_name: least(field.type) for field in kind.fields if field.required}
    if isinstance(kind, inspect.TupleType):
        return [least(kind_of_value) for kind_of_value in kind.item_types]
    if isinstance(kind, inspect.CollectionType):
        return [least(kind.item_type)] * (kind.min_length or 0)
    if isinstance(kind, inspect.IntType):
        assert kind.ge is not None and kind.le is not None
        return min(max(0, kind.ge), kind.le)
    if isinstance(kind, inspect.LiteralType):
        return kind.values[0]
    plain = {inspect.DictType: {}, inspect.BoolType: False, inspect.NoneType: None}
    if type(kind) in plain:
        return plain[type(kind)]
    assert isinstance(kind, inspect.StrType | inspect.BytesType)
    return _of_length(kind, kind.min_length or 0)


def _of_length(kind: inspect.StrType | inspect.BytesType, count: int) -> str | bytes:
    return "x" * count if isinstance(kind, inspect.StrType) else b"x" * count


def _beyond(kind: inspect.Type, wrap: Wrap, path: str, field: str) -> Iterator[Beyond]:
    from pyslurm_ng.wire.field_bounds import allowed

    if isinstance(kind, inspect.Metadata):
        yield from _beyond(kind.type, wrap, path, field)
        return
    if isinstance(kind, inspect.UnionType):
        for kind_of_value in kind.types:
            yield from _beyond(kind_of_value, wrap, path, field)
        return
    for at_bound, over in _edges(kind):
        yield Beyond(path, field, allowed(kind), wrap(over), wrap(at_bound))
    for inner, step, inner_wrap, name in _inner(kind):

        def both(value: Body, inner_wrap: Wrap = inner_wrap) -> Body:
            return wrap(inner_wrap(value))

        yield from _beyond(inner, both, f"{path}{step}", name or field)


def _edges(kind: inspect.Type) -> Iterator[tuple[Body, Body]]:
    """Yield a value at each bound, and one just beyond it."""
    if isinstance(kind, inspect.IntType):
        assert kind.ge is not None and kind.le is not None
        if kind.ge > -(2**63):
            yield kind.ge, kind.ge - 1
            yield kind.ge, -(2**63)
        if kind.le < 2**63 - 1:
            yield kind.le, kind.le + 1
            yield kind.le, 2**63 - 1
    elif isinstance(kind, inspect.StrType | inspect.BytesType):
        assert kind.max_length is not None
        if kind.max_length <= 1 << 20:
            yield _of_length(kind, kind.max_length), _of_length(kind, kind.max_length + 1)
        if kind.min_length:
            yield _of_length(kind, kind.min_length), _of_length(kind, kind.min_length - 1)
    elif isinstance(kind, inspect.CollectionType):
        assert kind.max_length is not None
        least_value = least(kind.item_type)
        if kind.max_length <= 1 << 17:
            yield [least_value] * kind.max_length, [least_value] * (kind.max_length + 1)
        if kind.min_length:
            yield [least_value] * kind.min_length, [least_value] * (kind.min_length - 1)
    elif isinstance(kind, inspect.LiteralType):
        yield kind.values[-1], f"{kind.values[-1]}x"


def _inner(kind: inspect.Type) -> Iterator[tuple[inspect.Type, str, Wrap, str]]:
    """Yield the types inside a type: type, step of the path, how to wrap a value, field name."""
    if isinstance(kind, inspect.StructType):
        base = least(kind)
        for index, field in enumerate(kind.fields):
            if kind.array_like:
                at = index + (kind.tag is not None)
                yield (
                    field.type,
                    f".{field.name}",
                    lambda value, at=at: [*base[:at], value, *base[at + 1 :]],
                    field.name,
                )
            else:
                name = field.encode_name
                yield (
                    field.type,
                    f".{field.name}",
                    lambda value, name=name: base | {name: value},
                    field.name,
                )
    elif isinstance(kind, inspect.CollectionType):
        least_count = max(1, kind.min_length or 0)
        yield kind.item_type, "[]", lambda value: [value] * least_count, ""
    elif isinstance(kind, inspect.TupleType):
        base = least(kind)
        for index, element in enumerate(kind.item_types):
            yield (
                element,
                f"[{index}]",
                lambda value, at=index: [*base[:at], value, *base[at + 1 :]],
                "",
            )
    elif isinstance(kind, inspect.DictType):
        yield kind.key_type, "{key}", lambda value: {value: least(kind.value_type)}, ""
        yield kind.value_type, "{}", lambda value: {least(kind.key_type): value}, ""


def packed(body: Body) -> bytes:
    """Return a body as it travels."""
    return msgspec.msgpack.encode(body)
