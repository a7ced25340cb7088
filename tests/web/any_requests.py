"""Requests of slurmrestd's form with any values."""

from __future__ import annotations

import random
import urllib.parse
from typing import Any

from pyslurm_ng.data_parser.schemas import resolved, schema
from pyslurm_ng.web.operations import Operation

TEXTS = (
    "", "x", "\0", "\n", "a,b", "1", "-1", "9" * 20, "n[1-2]", "n[1-99999999]", "%s%n", "../..",
    "\ud7ff", "nobody", "normal", "*", "'\"", "A" * 3000, "gres/gpu:2", "1-4", "KILL", "[[", "=",
)  # fmt: skip
NUMBERS = (0, 1, -1, 2, 2**31, 2**32 - 2, 2**32, 2**63 - 1, 2**63, 2**64, -(2**63), 1.5, 1e300)
NAMES = (*TEXTS, "21", "27", "n1", "debug")


def any_value(chance: random.Random, part: dict[str, Any], version: str, depth: int = 0) -> Any:
    """Return a value of a schema, now and then one of another type."""
    part = resolved(part, version)
    kind = part.get("type")
    if chance.random() < 0.08:
        return chance.choice([None, True, [], {}, "x", 3, [[]], {"a": 1}])
    if kind == "object":
        properties = part.get("properties", {})
        count = min(len(properties), chance.choice([1, 2, 4, len(properties)]))
        names = chance.sample(sorted(properties), 0 if depth > 5 else count)
        return {name: any_value(chance, properties[name], version, depth + 1) for name in names}
    if kind == "array":
        count = chance.choice([0, 1, 1, 2])
        return [any_value(chance, part["items"], version, depth + 1) for _ in range(count)]
    if kind in ("integer", "number"):
        return chance.choice(NUMBERS)
    if kind == "boolean":
        return chance.random() < 0.5
    return chance.choice(part.get("enum", TEXTS))


def any_request(chance: random.Random, operation: Operation) -> tuple[str, Any]:
    """Return path and body of a request."""
    values = {
        row["name"]: urllib.parse.quote(chance.choice(NAMES) or "_", safe="")
        for row in operation.parameters
        if row["in"] == "path"
    }
    name = operation.path.partition("{version}")[2].partition("{")[2].partition("}")[0]
    values.setdefault(name or "none", "x")
    path = operation.path.format(version=operation.version, **values)
    query = [
        (row["name"], chance.choice(TEXTS))
        for row in operation.parameters
        if row["in"] == "query" and chance.random() < 0.3
    ]
    body = None
    if operation.body:
        body = any_value(chance, schema(operation.body, operation.version), operation.version)
        if operation.path.endswith("job/submit") and isinstance(body, dict):
            body["script"] = "#!/bin/sh\n"
            if isinstance(body.get("job"), dict):
                body["job"]["environment"] = ["A=b"]
    return f"{path}?{urllib.parse.urlencode(query)}" if query else path, body
