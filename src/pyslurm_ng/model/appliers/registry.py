"""The registry of functions that apply events, and what several of them need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from .. import events as ev
from ..cluster import Cluster

E = TypeVar("E", bound=ev.Event)
APPLIERS: dict[type, Callable[[Cluster, Any], None]] = {}


def applies(
    kind: type[E],
) -> Callable[[Callable[[Cluster, E], None]], Callable[[Cluster, E], None]]:
    """Register the function that applies events of `kind`."""

    def register(function: Callable[[Cluster, E], None]) -> Callable[[Cluster, E], None]:
        assert kind not in APPLIERS, kind
        APPLIERS[kind] = function
        return function

    return register


def field_types(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the type of each field of a record, by name."""
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


def set_fields(record: msgspec.Struct, fields: dict[str, object], types: dict[str, Any]) -> None:
    """Set fields of a record to the values of an event, in the types that the record has."""
    # A decoded event holds lists where the original held tuples; converting both keeps them equal.
    for name, value in fields.items():
        setattr(record, name, msgspec.convert(msgspec.to_builtins(value), types[name]))
