"""slurmrestd's application on a Unix socket in this process, and raw requests to it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from uvicorn.server import ServerState

from pyslurm_ng.web.app import Service, build_app
from pyslurm_ng.web.daemons import Daemons
from pyslurm_ng.web.options import Options
from pyslurm_ng.web.page.routes import routes
from pyslurm_ng.web.protocol import RestProtocol
from pyslurm_ng.web.server import configuration
from tests.cli.reference_cluster import queue
from tests.web.front import CONF, FrontClient

NODES = b"GET /slurm/v0.0.46/nodes HTTP/1.1\r\nHost: x\r\n\r\n"
PING = b"GET /slurm/v0.0.46/ping HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /slurm/v0.0.46/job/submit HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def application() -> Starlette:
    cluster = queue()

    def make(conf: Any, audience: str, requester: Any) -> Any:
        return FrontClient(cluster, requester)

    service = Service(Daemons(CONF, make))
    return build_app(service, routes(service))


@contextlib.asynccontextmanager
async def serving(path: Path, most: int = 100) -> AsyncIterator[set[Any]]:
    """Serve on a Unix socket; yield the connections there are."""
    config = configuration(application(), Options(most_connections=most))
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()

    def make() -> asyncio.Protocol:
        return RestProtocol(config=config, server_state=state, app_state={})

    server = await loop.create_unix_server(make, str(path))
    try:
        yield state.connections
    finally:
        server.close()
        for connection in list(state.connections):
            connection.transport.abort()


def run(path: Path, story: Callable[[str, set[Any]], Any], most: int = 100) -> None:
    async def main() -> None:
        async with serving(path, most) as connections:
            await asyncio.wait_for(story(str(path), connections), 30)

    asyncio.run(main())


async def answer(path: str, request: bytes) -> tuple[int, bytes]:
    """Return status and body of the answer to raw bytes; 0 if the connection just ends."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(request)
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        return int(head.split()[1]), await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        return 0, b""
    finally:
        writer.close()
