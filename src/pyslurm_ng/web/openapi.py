"""The OpenAPI description, made of the table that requests are checked against."""

from __future__ import annotations

import functools
import threading
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pyslurm_ng import __version__
from pyslurm_ng.data_parser.envelope import VERSIONS
from pyslurm_ng.data_parser.schemas import table
from pyslurm_ng.data_parser.yaml_text import from_json
from pyslurm_ng.web.operations import OWN_SHAPE

_SECURITY: list[dict[str, list[str]]] = [
    {"user": [], "token": []},
    {"token": []},
    {"bearerAuth": []},
    {},
]
_SCHEMES = {
    "user": {"type": "apiKey", "in": "header", "name": "X-SLURM-USER-NAME",
             "description": "the user to act as, if the token's owner may"},
    "token": {"type": "apiKey", "in": "header", "name": "X-SLURM-USER-TOKEN",
              "description": "a token of `scontrol token`"},
    "bearerAuth": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT",
                   "description": "the same token"},
}  # fmt: skip
_OLD = {"format": {"deprecated": True}}
"""Parameters that are deprecated in all versions."""
_MAY_BE_NULL = {"job_info": ("job_resources",)}
"""Keys that are null where a job has nothing of it, in Slurm too, whose description hides it."""
_STATES = "openapi_job_states_resp"
"""What jobs/state answers; Slurm's description gives it the schema of whole jobs."""
_NOTE = {
    "200": "What was asked for, or was done",
    "default": "What was wrong: see errors",
}


def description(versions: tuple[str, ...] = VERSIONS, tags: frozenset[str] = frozenset()) -> bytes:
    """Return the description of some versions; `tags` of none means all."""
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for version in versions:
        rows = table(version)
        for path, methods in rows["paths"].items():
            chosen = {
                method: _operation(
                    {**row, "answer": _STATES} if path in OWN_SHAPE else row, version
                )
                for method, row in methods.items()
                if not tags or row["tag"] in tags
            }
            if chosen:
                paths[path.replace("{version}", version)] = chosen
        for name, part in {**rows["schemas"], _STATES: _job_states(rows["schemas"])}.items():
            honest = _with_null(part, _MAY_BE_NULL.get(name, ()))
            schemas[f"{version}_{name}"] = _schema(honest, version)
    document = {
        "openapi": "3.0.3",
        "info": {
            "title": "Slurm REST API",
            "description": "The REST interface of slurmrestd",
            "version": f"Slurm-{__version__}",
            "license": {"name": "Apache 2.0",
                        "url": "https://www.apache.org/licenses/LICENSE-2.0.html"},
        },
        "security": _SECURITY,
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": _SCHEMES},
    }  # fmt: skip
    return msgspec.json.encode(document)


def _job_states(schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of states of jobs: ids as users know them, 7_[1-3] among them."""
    states = schemas["job_info"]["properties"]["job_state"]
    job = {"type": "object", "properties": {"job_id": {"type": "string"}, "state": states}}
    whole = schemas["openapi_job_info_resp"]["properties"]
    around = {name: whole[name] for name in ("meta", "errors", "warnings")}
    return {
        "type": "object",
        "properties": {"jobs": {"type": "array", "items": job}, **around},
        "required": ["jobs"],
    }


def _with_null(part: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return a schema of an object some of whose keys may be null."""
    known = part.get("properties", {})
    # OpenAPI 3.0 reads no word beside $ref.
    freed = {name: {"allOf": [known[name]], "nullable": True} for name in names if name in known}
    return {**part, "properties": {**known, **freed}} if freed else part


def _operation(row: dict[str, Any], version: str) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "tags": [row["tag"]],
        "summary": row["id"].replace("_version_", " ").replace("_", " "),
        "operationId": row["id"].replace("version", version.replace(".", "")),
    }
    old = {"deprecated": True} if row.get("deprecated") else {}
    operation.update(old)
    if row.get("parameters"):
        operation["parameters"] = [
            {
                **parameter,
                "description": _words(parameter["name"]),
                **_OLD.get(parameter["name"], old),
            }
            for parameter in row["parameters"]
        ]
    if row.get("body"):
        operation["requestBody"] = {"content": _content(row["body"], version)}
    operation["responses"] = {
        status: {
            "description": note,
            **({"content": _content(row["answer"], version)} if row.get("answer") else {}),
        }
        for status, note in _NOTE.items()
    }
    return operation


def _words(name: str) -> str:
    return name.replace("_", " ")


def _content(name: str, version: str) -> dict[str, Any]:
    reference = {"schema": {"$ref": f"#/components/schemas/{version}_{name}"}}
    return {"application/json": reference, "application/yaml": reference}


def _schema(part: Any, version: str) -> Any:
    """Return a schema whose references name the version."""
    if isinstance(part, list):
        return [_schema(member, version) for member in part]
    if not isinstance(part, dict):
        return part
    return {
        name: member.replace("/schemas/", f"/schemas/{version}_")
        if name == "$ref" and isinstance(member, str)
        # Slurm names keys of keys there, `nodes/count`; OpenAPI does not know them.
        else [key for key in member if "/" not in key]
        if name == "required" and isinstance(member, list)
        else _schema(member, version)
        for name, member in part.items()
        if not (name == "required" and not [key for key in member if "/" not in key])
    }


def routes(versions: tuple[str, ...], tags: frozenset[str]) -> list[Route]:
    """Return the routes at which the description is."""

    making = threading.Lock()  # each text is made once, however many ask at first

    @functools.cache
    def made_text() -> bytes:
        return description(versions, tags)

    @functools.cache
    def made_yaml() -> bytes:
        return from_json(made_text())

    def text() -> bytes:
        with making:
            return made_text()

    def yaml() -> bytes:
        with making:
            return made_yaml()

    def as_json(request: Request) -> Response:
        return Response(text(), media_type="application/json")

    def as_either(request: Request) -> Response:
        if "yaml" in request.headers.get("accept", ""):
            return as_yaml(request)
        return as_json(request)

    def as_yaml(request: Request) -> Response:
        return Response(yaml(), media_type="application/yaml")

    return [
        Route("/openapi.json", as_json),
        Route("/openapi.yaml", as_yaml),
        Route("/openapi", as_either),
        Route("/openapi/v3", as_either),
    ]
