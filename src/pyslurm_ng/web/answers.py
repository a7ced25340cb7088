"""Answers as bytes: JSON or YAML, compressed where the requester takes that, with an ETag."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from itertools import chain
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse

from pyslurm_ng.data_parser.schemas import conform, empty, schema
from pyslurm_ng.data_parser.yaml_text import (
    begin_of_list,
    elements_of,
    end_of_document,
    from_json,
)
from pyslurm_ng.web.call import Answer, Call, Streamed
from pyslurm_ng.web.refusal import NOT_ACCEPTABLE, Refusal
from pyslurm_ng.web.rooms import Holding

JSON, YAML = "application/json", "application/yaml"
MOST_YAML_BYTES = 8 << 20
"""Of a document that is laid out as a whole; lists of jobs are not."""
_YAML_TIMES = 12
"""How much more memory than the document that takes."""
STREAM_BYTES = 8 << 20
"""What a list that is sent part by part holds beside its records: a part, and texts that return."""
_LEAST_COMPRESSED = 1024
_PIECE_BYTES = 256 << 10
_NO_WEIGHT = re.compile(r"q=0(\.0*)?")
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


def required(answer: str, version: str) -> dict[str, Any]:
    """Return what an answer must have beside its envelope, empty: an error has it, too."""
    if not answer:
        return {}
    part = schema(answer, version)
    return {
        name: empty(part["properties"][name], version)
        for name in part.get("required", ())
        if name not in ("meta", "errors", "warnings")
    }


def respond(
    call: Call, payload: Answer, answer: str, headers: Mapping[str, str], holding: Holding
) -> Response:
    """Return the response to a request that was answered.

    Raises:
        Refusal: its form is not offered, or the requester has no room for it.
    """
    form = media_type(headers.get("accept", ""))
    zipped = form == JSON and takes_gzip(headers.get("accept-encoding", ""))
    if isinstance(payload, Streamed):
        return _stream(call, payload, headers, form, holding, zipped=zipped)
    body = msgspec.json.encode(document(call, payload, answer))
    holding.hold(len(body))
    if form == YAML:
        _hold_yaml(holding, len(body))
    tag = _tag(body)
    if _is_known(headers, tag):
        return Response(status_code=304, headers={"ETag": tag, **_USUAL})
    return plain(200, body, form, tag=tag, zipped=zipped)


def takes_gzip(accepted: str) -> bool:
    """Return whether Accept-Encoding names gzip, and not with a weight of nothing."""
    for entry in accepted.lower().split(","):
        name, _, weight = entry.partition(";")
        if name.strip() in ("gzip", "x-gzip"):
            return _NO_WEIGHT.fullmatch("".join(weight.split())) is None
    return False


def _hold_yaml(holding: Holding, size: int) -> None:
    if size > MOST_YAML_BYTES:
        raise Refusal(
            NOT_ACCEPTABLE,
            f"Accept: this answer is too long for YAML; take {JSON}",
            source="slurmrestd",
        )
    holding.hold(_YAML_TIMES * size)


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
    holding.hold(streamed.held_bytes + STREAM_BYTES)
    tag = _tag(streamed.fingerprint) if streamed.fingerprint else ""
    if tag and _is_known(headers, tag):
        call.close()
        return Response(status_code=304, headers={"ETag": tag, **_USUAL})
    more = {**streamed.more, **call.envelope(), "warnings": call.warnings}
    make = _yaml_pieces if form == YAML else _pieces
    pieces = _begun(make(call, streamed, more))
    sent = {**_USUAL, "Vary": VARY}
    if tag:
        sent["ETag"] = tag
    if zipped:
        sent["Content-Encoding"] = "gzip"
        pieces = _gzipped(pieces)
    return StreamingResponse(holding.iterate(pieces), 200, sent, form)


def _pieces(call: Call, streamed: Streamed, more: dict[str, Any]) -> Iterator[bytes]:
    """Yield the document piece by piece, and let go of the daemons at its end."""
    try:
        lead = f'{{"{streamed.key}":['.encode()
        for records in streamed.records:
            yield lead + records
            lead = b","
        begin = lead if lead != b"," else b""
        yield begin + b"]," + msgspec.json.encode(more)[1:]
    finally:
        call.close()


def _yaml_pieces(call: Call, streamed: Streamed, more: dict[str, Any]) -> Iterator[bytes]:
    """Yield the document as YAML: a list is ten times as much memory while it is laid out."""
    try:
        lead, is_empty = begin_of_list(streamed.key), True
        for records in streamed.records:
            yield lead + elements_of(records)
            lead, is_empty = b"", False
        plain_more = msgspec.json.decode(msgspec.json.encode(more))
        yield lead + end_of_document(plain_more, is_empty=is_empty)
    finally:
        call.close()


def _begun(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Return the pieces, the first of which is made now: what is wrong with it has a status."""
    first = next(pieces)
    return chain((first,), pieces)


def _gzipped(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield pieces compressed; the fastest level halves the time of others for a tenth more."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    for piece in pieces:
        for first in range(0, len(piece), _PIECE_BYTES):
            packed = packer.compress(piece[first : first + _PIECE_BYTES])
            if packed:
                yield packed
    yield packer.flush()
