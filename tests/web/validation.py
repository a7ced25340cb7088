"""Checking documents against the schemas, strictly: no key that a schema does not have."""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema

from pyslurm_ng.data_parser.schemas import table

UNSET = {"job_resources", "results"}
"""Keys that Slurm leaves null although their schema does not say so."""


def _strict(part: Any) -> Any:
    if isinstance(part, list):
        return [_strict(member) for member in part]
    if not isinstance(part, dict):
        return part
    strict = {
        name: [key for key in member if "/" not in key]
        if name == "required" and isinstance(member, list)
        else _strict(member)
        for name, member in part.items()
    }
    if isinstance(part.get("properties"), dict) and part.get("type") == "object":
        strict["additionalProperties"] = False
    return strict


def _described(part: Any) -> Any:
    """Return a part of our OpenAPI 3.0 description as JSON Schema, which has no `nullable`."""
    if isinstance(part, list):
        return [_described(member) for member in part]
    if not isinstance(part, dict):
        return part
    if part.get("nullable"):
        return {"anyOf": [*part["allOf"], {"type": "null"}]}
    return {name: _described(member) for name, member in part.items()}


def complaints_of_description(document: Any, answer: dict[str, Any], components: Any) -> list[str]:
    """Return where a document is not as our description has it, which names what may be null."""
    whole = {**answer, "components": _strict(_described(components))}
    errors = jsonschema.Draft202012Validator(whole).iter_errors(document)
    return sorted({f"{'/'.join(map(str, error.path))}: {error.message[:200]}" for error in errors})


@cache
def _schemas(version: str) -> Any:
    return _strict(table(version)["schemas"])


def complaints(document: Any, name: str, version: str) -> list[str]:
    """Return what a document has that its schema has not, or lacks."""
    whole = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": _schemas(version)}}
    validator = jsonschema.Draft202012Validator(whole)
    return sorted(
        {
            f"{'/'.join(str(part) for part in error.path if not isinstance(part, int))}: "
            f"{error.message[:200]}"
            for error in validator.iter_errors(document)
            if not (error.path and error.path[-1] in UNSET and error.instance is None)
        }
    )
