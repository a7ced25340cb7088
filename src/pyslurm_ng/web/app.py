"""The application: routes to the operations, who asks, errors, and room for each requester."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.faults import Faults
from pyslurm_ng.daemon.log import DaemonLog
from pyslurm_ng.data_parser.envelope import VERSIONS
from pyslurm_ng.web import openapi
from pyslurm_ng.web.answers import JSON, document, media_type, plain, required, respond
from pyslurm_ng.web.bodies import parsed, query_of, read_body
from pyslurm_ng.web.call import Answer, Call, Streamed
from pyslurm_ng.web.daemons import Daemons
from pyslurm_ng.web.known_users import KnownUsers
from pyslurm_ng.web.operations import Operation, operations
from pyslurm_ng.web.proxy_login import Network, ProxyLogin
from pyslurm_ng.web.refusal import NOT_FOUND, TOO_MANY, UNREACHABLE, Refusal, refusal_of
from pyslurm_ng.web.request_site import check_site
from pyslurm_ng.web.requester import KINDS, Requester, SocketPeer, requester_of
from pyslurm_ng.web.rooms import Holding, Holdings, Rooms, holding_of
from pyslurm_ng.wire.daemon_link import SlurmError

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
        proxies: addresses whose X-Forwarded-Proto is believed.
    """

    daemons: Daemons
    kinds: frozenset[str] = frozenset(KINDS)
    versions: tuple[str, ...] = VERSIONS
    tags: frozenset[str] = frozenset(("slurm", "slurmdb", "util"))
    faults: Faults = field(default_factory=lambda: Faults(DaemonLog("slurmrestd")))
    by_key: dict[tuple[str, str, str], Operation] = field(default_factory=operations)
    rooms: Rooms = field(default_factory=Rooms)
    proxy: ProxyLogin | None = None
    proxies: tuple[Network, ...] = ()
    known_users: KnownUsers = field(init=False)

    def __post_init__(self) -> None:
        self.known_users = KnownUsers(self.daemons, self.faults)

    def requester(self, request: Request) -> Requester:
        """Return who asks; for routes of other modules, too.

        Raises:
            Refusal: nobody who may ask.
        """
        return self.asker(request, request.headers)

    def asker(self, request: Request, headers: Mapping[str, str]) -> Requester:
        """Return who asks by these headers: a token, the proxy's word, or the kernel's.

        Raises:
            Refusal: nobody who may ask.
        """
        peer = request.scope.get("state", {}).get("peer")
        assert peer is None or isinstance(peer, SocketPeer)
        has_token = "x-slurm-user-token" in headers or "authorization" in headers
        if self.proxy is not None and peer is None and not has_token:
            address = request.client.host if request.client is not None else ""
            named = self.proxy.requester(headers, address)
            if named is not None:
                if request.method not in ("GET", "HEAD"):
                    check_site(request)  # a browser proves who it is to the proxy by itself
                return named
        return requester_of(headers, peer, self.kinds, self.daemons.user_claim)

    async def believe(self, requester: Requester, request: Request, tag: str) -> Requester:
        """Return a requester whom the daemons believe, with a place among their requests.

        Raises:
            Refusal: they do not, or too many wait.
        """
        known = await self.known_users.check(requester, request, tag)
        holding_of(request).enter(known.share)
        return known


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
        middleware=[Middleware(Holdings, service.rooms)],
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
    media_type(request.headers.get("accept", ""))
    requester = await service.believe(requester, request, operation.tag)
    if operation.tag == "util" and not requester.is_known:
        raise Refusal(UNREACHABLE, "Authentication failure: slurmctld does not answer",
                      Errno.SLURM_PROTOCOL_AUTHENTICATION_ERROR, "slurmrestd")  # fmt: skip
    call = Call(operation.tag, version, requester, service.daemons, source=source_of(request))
    request.state.call = call
    request.state.answer = operation.answer
    call.path = {
        name: str(value) for name, value in request.path_params.items() if name != "version"
    }
    call.query, call.warnings = query_of(request, operation)
    content = await read_body(request)
    holding = holding_of(request)

    def work() -> Response:
        try:
            return _answer(call, operation, content, request.headers, holding)
        except Refusal:
            raise
        except Exception as error:  # noqa: BLE001 - it costs this request only
            service.faults.note("request", f"{operation.method} {path} failed", error)
            raise Refusal(500, "internal error", source="slurmrestd") from None

    answer = await holding.in_thread(work)
    assert isinstance(answer, Response)
    return answer


def _answer(
    call: Call, operation: Operation, content: bytes, headers: Mapping[str, str], holding: Holding
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
        response = respond(call, answer, operation.answer, headers, holding)
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
    payload = {**required(getattr(request.state, "answer", ""), call.version), **error.payload}
    body = {**document(call, payload, ""), "errors": error.errors()}
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
