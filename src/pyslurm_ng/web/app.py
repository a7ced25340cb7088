"""The application: routes to the operations, who asks, errors, and room for each requester."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.daemon.log import DaemonLog
from pyslurm_ng.data_parser.envelope import VERSIONS
from pyslurm_ng.web import openapi
from pyslurm_ng.web.answers import JSON, document, media_type, plain, respond
from pyslurm_ng.web.bodies import parsed, query_of, read_body
from pyslurm_ng.web.call import Answer, Call, Streamed
from pyslurm_ng.web.daemons import Daemons
from pyslurm_ng.web.operations import Operation, operations
from pyslurm_ng.web.refusal import NOT_FOUND, TOO_MANY, Refusal, refusal_of
from pyslurm_ng.web.requester import KINDS, Requester, SocketPeer, requester_of
from pyslurm_ng.wire.daemon_link import SlurmError

THREADS = 32
"""Requests that daemons are asked at the same time."""
OF_ONE_REQUESTER = 8
"""Of these for one requester; others wait."""
MOST_WAITING = 256
WAITING_OF_ONE = 64
UNKNOWN_PATH = "Invalid or unknown URL path"
_RETRY_S = "1"


@dataclass
class Service:
    """What requests share.

    Attributes:
        daemons: whom they ask.
        kinds: how requesters may prove who they are.
        versions: the data parsers that are offered.
        tags: slurm, slurmdb, util: the plugins that are offered.
    """

    daemons: Daemons
    kinds: frozenset[str] = frozenset(KINDS)
    versions: tuple[str, ...] = VERSIONS
    tags: frozenset[str] = frozenset(("slurm", "slurmdb", "util"))
    faults: Faults = field(default_factory=lambda: Faults(DaemonLog("slurmrestd")))
    by_key: dict[tuple[str, str, str], Operation] = field(default_factory=operations)
    room: anyio.CapacityLimiter | None = None
    rooms: dict[bytes, anyio.CapacityLimiter] = field(default_factory=dict)
    waiting: Counter[bytes] = field(default_factory=Counter)

    def requester(self, request: Request) -> Requester:
        """Return who asks; for routes of other modules, too.

        Raises:
            Refusal: nobody who may ask.
        """
        peer = request.scope.get("state", {}).get("peer")
        assert peer is None or isinstance(peer, SocketPeer)
        return requester_of(request.headers, peer, self.kinds)

    async def in_thread(self, requester: Requester, work: Callable[[], Any]) -> Any:
        """Return what blocking work gives; a requester has only so many threads.

        Raises:
            Refusal: too many requests wait.
        """
        if self.room is None:
            self.room = anyio.CapacityLimiter(THREADS)
        share = requester.share
        if self.waiting[share] >= WAITING_OF_ONE or self.waiting.total() >= MOST_WAITING:
            raise Refusal(TOO_MANY, "slurmrestd is busy", source="slurmrestd")
        own = self.rooms.setdefault(share, anyio.CapacityLimiter(OF_ONE_REQUESTER))
        self.waiting[share] += 1
        try:
            async with own:
                return await anyio.to_thread.run_sync(work, limiter=self.room)
        finally:
            self.waiting[share] -= 1
            if not self.waiting[share]:
                del self.waiting[share]
                self.rooms.pop(share, None)


def build_app(service: Service, more: list[BaseRoute] | None = None) -> Starlette:
    """Return the application; `more` are routes of other modules, which go first."""
    routes: list[BaseRoute] = [*(more or ()), *openapi.routes(service.versions, service.tags)]
    paths: dict[str, set[str]] = {}
    for operation in service.by_key.values():
        if operation.tag in service.tags:
            paths.setdefault(operation.path, set()).add(operation.method.upper())
    # Paths without parameters first: jobs/state is no job.
    for path in sorted(paths, key=lambda path: (path.count("{"), path)):
        for variant in {path, path.rstrip("/"), path.rstrip("/") + "/"}:
            endpoint = functools.partial(_serve, service, path)
            routes.append(Route(variant, _endpoint(endpoint), methods=sorted(paths[path])))
    return Starlette(
        routes=routes,
        exception_handlers={
            HTTPException: _wrong_path,
            Refusal: functools.partial(_refuse, service),
        },
    )


def _endpoint(
    serve: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    """Return a coroutine function: Starlette calls what is none in a thread."""

    async def endpoint(request: Request) -> Response:
        return await serve(request)

    return endpoint


async def _serve(service: Service, path: str, request: Request) -> Response:
    """Answer one request to a path of the table."""
    version = str(request.path_params["version"])
    operation = service.by_key.get((version, request.method.lower(), path))
    if operation is None and request.method == "HEAD":
        operation = service.by_key.get((version, "get", path))
    if operation is None or version not in service.versions:
        raise Refusal(NOT_FOUND, UNKNOWN_PATH, source="slurmrestd")
    requester = service.requester(request)
    call = Call(operation.tag, version, requester, service.daemons, source=source_of(request))
    request.state.call = call
    call.path = {
        name: str(value) for name, value in request.path_params.items() if name != "version"
    }
    call.query, call.warnings = query_of(request, operation)
    content = await read_body(request)
    media_type(request.headers.get("accept", ""))

    def work() -> Response:
        try:
            return _answer(call, operation, content, request.headers)
        except Refusal:
            raise
        except Exception as error:  # noqa: BLE001 - it costs this request only
            service.faults.note("request", f"{operation.method} {path} failed", error)
            raise Refusal(500, "internal error", source="slurmrestd") from None

    answer = await service.in_thread(requester, work)
    assert isinstance(answer, Response)
    return answer


def _answer(
    call: Call, operation: Operation, content: bytes, headers: Mapping[str, str]
) -> Response:
    """Ask the daemons, in a thread."""
    try:
        body = parsed(content, headers.get("content-type", ""), operation)
        if body is not None:
            call.body = body.value
            call.warnings += [
                {"description": text, "source": where} for text, where in body.warnings
            ]
        answer: Answer = operation.handler(call)
        response = respond(call, answer, operation.answer, headers)
    except SlurmError as error:
        call.close()
        raise refusal_of(error, "Request failed", operation.path) from None
    except BaseException:
        call.close()
        raise
    if not isinstance(answer, Streamed):
        call.close()  # otherwise at the end of the stream
    return response


def source_of(request: Request) -> str:
    """Return where a requester is, as the answer's meta says it."""
    client = request.client
    if client is None:
        return ""
    return client.host if client.host.startswith("unix:") else f"[{client.host}]:{client.port}"


async def _refuse(service: Service, request: Request, error: Exception) -> Response:
    """Answer with Slurm's error object."""
    assert isinstance(error, Refusal)
    call = getattr(request.state, "call", None)
    if not isinstance(call, Call):
        call = Call("slurm", service.versions[-1], Requester("", ""), service.daemons,
                    source=source_of(request))  # fmt: skip
    body = {**document(call, error.payload, ""), "errors": error.errors()}
    try:
        form = media_type(request.headers.get("accept", ""))
    except Refusal:
        form = JSON
    response = plain(error.status, msgspec.json.encode(body), form)
    if error.status == TOO_MANY:
        response.headers["Retry-After"] = _RETRY_S
    if error.status in (408, 413):
        response.headers["Connection"] = "close"
    return response


async def _wrong_path(request: Request, error: Exception) -> Response:
    """Answer a path or method that there is not; Slurm tells neither apart."""
    assert isinstance(error, HTTPException)
    body = {
        "meta": {},
        "errors": [
            {
                "description": UNKNOWN_PATH,
                "error_number": -1,
                "error": "Unspecified error",
                "source": "slurmrestd",
            }
        ],
        "warnings": [],
    }
    return plain(NOT_FOUND, msgspec.json.encode(body), JSON)
