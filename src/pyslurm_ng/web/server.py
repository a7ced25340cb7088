"""Serving: on sockets until a signal, or one connection on standard input."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import threading
from typing import Any

import uvicorn
from starlette.applications import Starlette
from uvicorn.server import Server, ServerState

from pyslurm_ng.web.events.feeds import Feeds
from pyslurm_ng.web.events.webhooks import Webhooks
from pyslurm_ng.web.listening import SocketFile, is_connection, socket_files
from pyslurm_ng.web.options import Options
from pyslurm_ng.web.protocol import RestProtocol
from pyslurm_ng.web.sending import SlowReaders
from pyslurm_ng.web.tls import TlsGate, tls_context

KEEP_ALIVE_S = 15
GRACE_S = 5


def configuration(app: Starlette, options: Options) -> uvicorn.Config:
    """Return uvicorn's configuration; it logs nothing of its own and trusts no proxy's headers."""
    RestProtocol.most_connections = options.most_connections
    protocol: type[asyncio.Protocol] = RestProtocol
    if options.tls_cert:
        TlsGate.context = tls_context(options.tls_cert, options.tls_key)
        protocol = TlsGate
    return uvicorn.Config(
        SlowReaders(app),
        http=protocol,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
    )


class RestServer(Server):
    """Ends what listens to events before it waits for requests to end."""

    def __init__(self, config: uvicorn.Config, feeds: Feeds, files: list[SocketFile]) -> None:
        super().__init__(config)
        self._feeds = feeds
        self._files = files

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End; then uvicorn raises the signal once more, and nothing else would run."""
        self._feeds.close()
        for file in self._files:
            file.remove()  # first: who finds it gone need not try
        await super().shutdown(sockets)


def serve(
    config: uvicorn.Config,
    sockets: list[socket.socket],
    feeds: Feeds,
    webhooks: Webhooks | None,
) -> None:
    """Serve, and send events to webhooks, until SIGTERM or SIGINT."""

    async def run() -> None:
        sending = asyncio.create_task(webhooks.run()) if webhooks is not None else None
        files = socket_files(sockets)
        await RestServer(config, feeds, files).serve(sockets)
        if sending is not None:
            sending.cancel()

    asyncio.run(run())


def serve_input(config: uvicorn.Config) -> None:
    """Serve the connection on standard input; of a pipe the answers go to standard output."""
    config.load()
    if is_connection(0):
        asyncio.run(_serve_one(config, socket.socket(fileno=os.dup(0))))
        return
    ours, theirs = socket.socketpair()
    reader = threading.Thread(target=_copy_output, args=(theirs,))
    reader.start()
    threading.Thread(target=_copy_input, args=(theirs,), daemon=True).start()
    asyncio.run(_serve_one(config, ours))
    reader.join()


def _copy_input(theirs: socket.socket) -> None:
    with os.fdopen(os.dup(0), "rb") as source, theirs.makefile("wb") as target:
        shutil.copyfileobj(source, target)


def _copy_output(theirs: socket.socket) -> None:
    with theirs.makefile("rb") as source, os.fdopen(os.dup(1), "wb") as target:
        while piece := source.read1(65536):
            target.write(piece)
            target.flush()


async def _serve_one(config: uvicorn.Config, connection: socket.socket) -> None:
    """Serve one connection to its end."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    class OneConnection(RestProtocol):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            ended.set()

    state: dict[str, Any] = {}

    def make() -> asyncio.Protocol:
        return OneConnection(config=config, server_state=ServerState(), app_state=state)

    connection.setblocking(False)
    await loop.connect_accepted_socket(make, connection)
    await ended.wait()
