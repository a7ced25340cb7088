"""Answers as bytes: JSON or YAML, compressed where the requester takes that, with an ETag."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from itertools import chain
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse

from pyslurm_ng.data_parser.schemas import conform, schema
from pyslurm_ng.data_parser.yaml_text import from_json
from pyslurm_ng.web.call import Answer, Call, Streamed
from pyslurm_ng.web.refusal import NOT_ACCEPTABLE, Refusal
from pyslurm_ng.web.rooms import Holding

JSON, YAML = "application/json", "application/yaml"
MOST_YAML_BYTES = 64 << 20
"""YAML is made of the whole document."""
_LEAST_COMPRESSED = 1024
_PIECE_BYTES = 256 << 10
VARY = "Accept, Accept-Encoding, Authorization, X-SLURM-USER-NAME, X-SLURM-USER-TOKEN"
_USUAL = {"Cache-Control": "private, no-cache", "X-Content-Type-Options": "nosniff"}


def media_type(accept: str) -> str:
    """Return the form of the answer by the header Accept.

    Raises:
        Refusal: neither JSON nor YAML is accepted.
    """
    if not accept:
        return JSON
    for word in accept.lower().split(","):
        name = word.partition(";")[0].strip()
        if name in (JSON, "*/*", "application/*", "application/jsonrequest"):
            return JSON
        if name in (YAML, "application/x-yaml", "text/yaml"):
            return YAML
    raise Refusal(NOT_ACCEPTABLE, f"Accept: {JSON} and {YAML} are offered", source="slurmrestd")


def document(call: Call, payload: Mapping[str, Any], answer: str) -> dict[str, Any]:
    """Return the whole answer; for older versions its records are made to conform."""
    more = {**call.envelope(), "warnings": call.warnings}
    whole = {**payload, **more}
    if call.is_newest or not answer:
        return whole
    parts = schema(answer, call.version)["properties"]
    for name in payload:
        if name in parts:
            whole[name] = conform(payload[name], parts[name], call.version)
        else:
            del whole[name]
    return whole


def respond(
    call: Call, payload: Answer, answer: str, headers: Mapping[str, str], holding: Holding
) -> Response:
    """Return the response to a request that was answered.

    Raises:
        Refusal: its form is not offered, or the requester has no room for it.
    """
    form = media_type(headers.get("accept", ""))
    zipped = form == JSON and "gzip" in headers.get("accept-encoding", "").lower()
    if isinstance(payload, Streamed):
        return _stream(call, payload, headers, form, holding, zipped=zipped)
    body = msgspec.json.encode(document(call, payload, answer))
    holding.hold(len(body))
    tag = _tag(body)
    if _is_known(headers, tag):
        return Response(status_code=304, headers={"ETag": tag, **_USUAL})
    return plain(200, body, form, tag=tag, zipped=zipped)


def plain(status: int, body: bytes, form: str, *, tag: str = "", zipped: bool = False) -> Response:
    """Return a response that is held as a whole."""
    headers = {**_USUAL, "Vary": VARY}
    if tag:
        headers["ETag"] = tag
    if form == YAML:
        body = from_json(body)
    elif zipped and len(body) >= _LEAST_COMPRESSED:
        headers["Content-Encoding"] = "gzip"
        body = b"".join(_gzipped(iter([body])))
    return Response(body, status, headers, form)


def _tag(content: bytes) -> str:
    return f'W/"{blake2b(content, digest_size=12).hexdigest()}"'


def _is_known(headers: Mapping[str, str], tag: str) -> bool:
    return tag in [word.strip() for word in headers.get("if-none-match", "").split(",")]


def _stream(
    call: Call,
    streamed: Streamed,
    headers: Mapping[str, str],
    form: str,
    holding: Holding,
    *,
    zipped: bool,
) -> Response:
    holding.hold(streamed.held_bytes)
    tag = _tag(streamed.fingerprint) if streamed.fingerprint else ""
    if tag and _is_known(headers, tag):
        call.close()
        return Response(status_code=304, headers={"ETag": tag, **_USUAL})
    more = {**streamed.more, **call.envelope(), "warnings": call.warnings}
    pieces = _begun(_pieces(call, streamed, more))
    if form == YAML:
        whole = _whole(pieces)
        holding.hold(3 * len(whole))
        return plain(200, whole, YAML, tag=tag)
    sent = {**_USUAL, "Vary": VARY}
    if tag:
        sent["ETag"] = tag
    if zipped:
        sent["Content-Encoding"] = "gzip"
        pieces = _gzipped(pieces)
    return StreamingResponse(holding.iterate(pieces), 200, sent, JSON)


def _pieces(call: Call, streamed: Streamed, more: dict[str, Any]) -> Iterator[bytes]:
    """Yield the document piece by piece, and let go of the daemons at its end."""
    try:
        lead = f'{{"{streamed.key}":['
        for records in streamed.records:
            yield (lead + records).encode()
            lead = ","
        begin = lead if lead != "," else ""
        yield begin.encode() + b"]," + msgspec.json.encode(more)[1:]
    finally:
        call.close()


def _begun(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Return the pieces, the first of which is made now: what is wrong with it has a status."""
    first = next(pieces)
    return chain((first,), pieces)


def _whole(pieces: Iterator[bytes]) -> bytes:
    """Return all pieces as one.

    Raises:
        Refusal: they are too long for YAML.
    """
    whole = bytearray()
    for piece in pieces:
        whole += piece
        if len(whole) > MOST_YAML_BYTES:
            raise Refusal(
                NOT_ACCEPTABLE,
                f"Accept: this answer is too long for YAML; take {JSON}",
                source="slurmrestd",
            )
    return bytes(whole)


def _gzipped(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield pieces compressed; the fastest level halves the time of others for a tenth more."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    for piece in pieces:
        for first in range(0, len(piece), _PIECE_BYTES):
            packed = packer.compress(piece[first : first + _PIECE_BYTES])
            if packed:
                yield packed
    yield packer.flush()
