"""Merge OpenAPI descriptions of several data parsers into one table.

    python tools/merge_openapi.py DIRECTORY src/pyslurm_ng/data_parser/openapi.json

DIRECTORY holds v0.0.43.json and so on. Where versions differ, the table has `{"$in": {"34": ...,
"56": ...}}`: the value for the versions whose last digits are 3 and 4, and for 5 and 6.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

VERSIONS = ("v0.0.43", "v0.0.44", "v0.0.45", "v0.0.46")


def without_version(text: str, version: str) -> Any:
    """Return a description in which the version is no part of any name."""
    text = text.replace(f"{version}_", "").replace(f"/{version}/", "/{version}/")
    return json.loads(text.replace(version.replace(".", ""), "version").replace("v0046", "version"))


def operation(described: dict[str, Any]) -> dict[str, Any]:
    """Return what an operation takes and gives, without what is the same for all."""
    short: dict[str, Any] = {"tag": described["tags"][0], "id": described["operationId"]}
    parameters = [
        {name: parameter[name] for name in ("in", "name", "required", "schema")}
        for parameter in described.get("parameters", ())
    ]
    if parameters:
        short["parameters"] = parameters
    for part, holder in (
        ("body", described.get("requestBody")),
        ("answer", described["responses"]["default"]),
    ):
        if holder:
            reference = holder["content"]["application/json"]["schema"]["$ref"]
            short[part] = reference.rpartition("/")[2]
    if described.get("deprecated"):
        short["deprecated"] = True
    return short


def merged(values: dict[str, Any]) -> Any:
    """Return one value for the versions, by their last digits; some may have none."""
    digits = "".join(values)
    first = values[digits[0]]
    if all(value == first for value in values.values()):
        return first
    if all(isinstance(value, dict) for value in values.values()):
        return {key: _member(values, key) for key in _keys(values)}
    return {"$in": _apart(values)}


def _keys(values: dict[str, Any]) -> list[str]:
    """Return the keys of all versions in the order of the newest."""
    keys: dict[str, None] = {}
    for digit in sorted(values, reverse=True):
        keys.update(dict.fromkeys(values[digit]))
    return list(keys)


def _member(values: dict[str, Any], key: str) -> Any:
    having = {digit: value[key] for digit, value in values.items() if key in value}
    if len(having) == len(values):
        return merged(having)
    return {"$in": _apart(having)}


def _apart(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values by the digits of the versions that share them."""
    groups: list[tuple[str, Any]] = []
    for digit, value in values.items():
        for index, (digits, known) in enumerate(groups):
            if known == value:
                groups[index] = (digits + digit, value)
                break
        else:
            groups.append((digit, value))
    return dict(groups)


def main(directory: str, output: str) -> None:
    """Write the table."""
    values = {}
    for version in VERSIONS:
        text = (Path(directory) / f"{version}.json").read_text()
        values[version[-1]] = without_version(text, version)
    table = {
        "paths": merged(
            {
                digit: {
                    path: {method: operation(described) for method, described in methods.items()}
                    for path, methods in value["paths"].items()
                }
                for digit, value in values.items()
            }
        ),
        "schemas": merged(
            {digit: value["components"]["schemas"] for digit, value in values.items()}
        ),
    }
    lines = []
    for part, members in table.items():
        rows = [
            f"{json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}"
            for name, value in members.items()
        ]
        lines.append(f'"{part}": {{\n' + ",\n".join(rows) + "\n}")
    Path(output).write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
