"""The schemas of documents and requests in each version, from one table.

`openapi.json` lies beside this file; `tools/merge_openapi.py` writes it. A schema is a part of
OpenAPI 3.0: `type`, `format`, `enum`, `items`, `properties`, `required`, `$ref`.
"""

import os

from pyslurm_ng import data_parser
from pyslurm_ng.data_parser.envelope import VERSIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Schema = dict[str, Any]

_REFERENCE = "#/components/schemas/"
_read: "dict[str, Any]" = {}
_selected: "dict[str, dict[str, Any]]" = {}
_MISSING = object()


def table(version: str) -> "dict[str, Any]":
    """Return paths and schemas of a version, by name."""
    if version not in _selected:
        if version not in VERSIONS:
            raise ValueError(version)
        if not _read:
            from json import load

            # A module that comes from a pack does not know its own file.
            with open(os.path.join(data_parser.__path__[0], "openapi.json"), "rb") as stream:
                _read.update(load(stream))
        _selected[version] = _of_version(_read, version[-1])
    return _selected[version]


def _of_version(value: "Any", digit: str) -> "Any":
    """Return a value of the table as one version has it; `_MISSING` if it has none."""
    if isinstance(value, dict):
        if "$in" in value:
            for digits, variant in value["$in"].items():
                if digit in digits:
                    return _of_version(variant, digit)
            return _MISSING
        pairs = ((key, _of_version(member, digit)) for key, member in value.items())
        return {key: member for key, member in pairs if member is not _MISSING}
    if isinstance(value, list):
        members = (_of_version(member, digit) for member in value)
        return [member for member in members if member is not _MISSING]
    return value


def schema(name: str, version: str) -> "Schema":
    """Return a schema by its name; references in it are kept."""
    return table(version)["schemas"][name]  # type: ignore[no-any-return]


def resolved(part: "Schema", version: str) -> "Schema":
    """Return a schema, or the one that it refers to."""
    while "$ref" in part:
        part = schema(reference(part), version)
    return part


def reference(part: "Schema") -> str:
    """Return the name of the schema that a part refers to, "" if it refers to none."""
    return str(part.get("$ref", "")).removeprefix(_REFERENCE)


def conform(value: "Any", part: "Schema", version: str) -> "Any":
    """Return a value of the newest version as another version has it.

    Keys and words that it does not know are left out, keys that are missing are empty.
    """
    part = resolved(part, version)
    kind = part.get("type")
    if kind == "object":
        return _object(value, part, version)
    if kind == "array":
        words = resolved(part.get("items", {}), version).get("enum")
        if isinstance(value, str):
            value = [word for word in value.split(",") if word]
        elements = value if isinstance(value, list | tuple) else []
        if words is not None:
            return _known(elements, words)
        return [conform(element, part.get("items", {}), version) for element in elements]
    return _scalar(value, kind)


def _object(value: "Any", part: "Schema", version: str) -> "Any":
    properties = part.get("properties")
    if properties is None:
        return value if isinstance(value, dict) else {}
    if value is None:
        return None
    members = value if isinstance(value, dict) else {}
    known = {name: members[name] for name in members if name in properties}
    missing = {name: None for name in properties if name not in known}
    return {
        name: empty(properties[name], version)
        if name in missing
        else conform(member, properties[name], version)
        for name, member in {**known, **missing}.items()
    }


def _known(elements: "Any", words: "list[str]") -> "list[str]":
    """Return the words that a version knows; it may have CORE and MEMORY for CR_CORE_MEMORY."""
    kept: list[str] = []
    for element in elements:
        if element in words:
            kept.append(element)
        elif str(element).startswith("CR_"):
            kept += [word for word in str(element)[3:].split("_") if word in words]
    return kept


def _scalar(value: "Any", kind: "str | None") -> "Any":
    if kind == "string":
        return "" if value is None else ",".join(value) if isinstance(value, list) else str(value)
    if kind == "boolean":
        return bool(value)
    if kind in ("integer", "number"):
        if isinstance(value, dict):
            value = value.get("number")
        if not isinstance(value, int | float):
            return 0
        return int(value) if kind == "integer" else value
    return value


def empty(part: "Schema", version: str) -> "Any":
    """Return what stands for nothing: "", 0, [] or an object of these."""
    part = resolved(part, version)
    kind = part.get("type")
    if kind == "object":
        members = part.get("properties", {})
        return {name: empty(member, version) for name, member in members.items()}
    return [] if kind == "array" else _scalar(None, kind)
