"""Reading requests: bodies of bounded length and time, parameters, and JSON."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request

from pyslurm_ng.data_parser.request_bodies import Body
from pyslurm_ng.web.operations import Operation
from pyslurm_ng.web.refusal import BAD_MEDIA, BAD_REQUEST, TOO_LONG, Refusal
from pyslurm_ng.web.rooms import holding_of

MOST_BODY_BYTES = 16 << 20
"""A script may have 4 MiB, an environment as much."""
MOST_QUERY_BYTES = 16 << 10
MOST_VALUES = 100_000
"""Texts, lists and objects in a body: each costs far more here than its bytes."""
BODY_S = 30.0
"""Within this time a body has to be there as a whole."""
_SOURCE = "slurmrestd"
_JSON_TYPES = ("application/json", "application/jsonrequest", "")


async def read_body(request: Request, most_bytes: int = 0) -> bytes:
    """Return a body.

    Raises:
        Refusal: too long, or too slow.
    """
    most_bytes = most_bytes or MOST_BODY_BYTES
    length = request.headers.get("content-length", "")
    if length and (not length.isdecimal() or int(length[:20]) > most_bytes):
        raise _too_long(most_bytes)
    body = bytearray()
    holding = holding_of(request)

    async def collect() -> None:
        async for chunk in request.stream():
            holding.hold(len(chunk))
            body.extend(chunk)
            if len(body) > most_bytes:
                raise _too_long(most_bytes)

    try:
        await asyncio.wait_for(collect(), BODY_S)
    except asyncio.TimeoutError:
        raise Refusal(408, f"no whole body within {BODY_S:.0f} s", source=_SOURCE) from None
    except ClientDisconnect:
        raise Refusal(BAD_REQUEST, "the connection has ended", source=_SOURCE) from None
    return bytes(body)


def _too_long(most_bytes: int) -> Refusal:
    return Refusal(TOO_LONG, f"a body has at most {most_bytes >> 10} KiB", source=_SOURCE)


def parsed(content: bytes, content_type: str, operation: Operation) -> Body | None:
    """Return a body as its schema has it; None where none is taken.

    Raises:
        Refusal: no JSON, or values of a wrong type.
    """
    if not operation.body:
        return None
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in _JSON_TYPES:
        raise Refusal(BAD_MEDIA, f"Content-Type: {_JSON_TYPES[0]} is taken", source=_SOURCE)
    _check_values(content)
    try:
        value: Any = msgspec.json.decode(content) if content.strip() else {}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Refusal(BAD_REQUEST, "Failure during parsing", source=_SOURCE) from None
    body = Body(value, operation.body, operation.version)
    if body.errors:
        rows = [
            {"description": text, "error_number": -1, "error": "Unspecified error", "source": where}
            for text, where in body.errors
        ]
        first = rows[0]
        raise Refusal(
            BAD_REQUEST, str(first["description"]), -1, str(first["source"]), more=rows[1:]
        )
    return body


# No text is gone through twice: its end may be missing, so nothing has to be tried again.
_PARTS = re.compile(rb'[\[{,]|"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)


def _check_values(content: bytes) -> None:
    """Refuse more values than a request needs, before any is made."""
    for count, _ in enumerate(_PARTS.finditer(content)):
        if count > 2 * MOST_VALUES:
            raise Refusal(TOO_LONG, f"a body has at most {MOST_VALUES} values", source=_SOURCE)


def query_of(request: Request, operation: Operation) -> tuple[dict[str, str], list[dict[str, str]]]:
    """Return the parameters of the query, and warnings of those that are not known.

    Raises:
        Refusal: too long, or a word that is not allowed.
    """
    if len(request.scope["query_string"]) > MOST_QUERY_BYTES:
        raise Refusal(414, f"a query has at most {MOST_QUERY_BYTES} bytes", source=_SOURCE)
    known = {row["name"]: row for row in operation.parameters if row["in"] == "query"}
    values: dict[str, str] = {}
    warnings = []
    for name, value in request.query_params.multi_items():
        if name not in known:
            warnings.append({
                "description": f'Ignoring unknown parameter "{name[:64]}"', "source": "#/query/"
            })  # fmt: skip
            continue
        words = known[name]["schema"].get("enum")
        for word in value.split(",") if words and value else ():
            if word.upper() not in words:
                raise Refusal(
                    BAD_REQUEST,
                    f'{name}: Unknown flag "{word[:64]}"; allowed: {", ".join(words)}',
                    source=f"#/query/{name}/",
                )
        values[name] = f"{values[name]},{value}" if name in values else value
    return values, warnings[:100]
