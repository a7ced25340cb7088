"""A server, identities and raw sockets for the tests of the wire."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from pyslurm_ng.wire import frame, table
from pyslurm_ng.wire.auth import Peer, body_digest
from pyslurm_ng.wire.auth_slurm import Key, KeyCredentialSigner, TokenAuthenticator
from pyslurm_ng.wire.client import Client
from pyslurm_ng.wire.daemon_link import socket_path
from pyslurm_ng.wire.identity import Identity
from pyslurm_ng.wire.messages import Ping, Pong, Reconfigure, Shutdown
from pyslurm_ng.wire.stream import Call, StreamLimits, StreamServer
from pyslurm_ng.wire.user_ranges import UserRanges

SECRET = bytes(range(64))
NOW_US = 1_790_000_000_000_000


def now_us() -> int:
    return time.time_ns() // 1000


SERVICE_UID = os.geteuid() or 600
"""So that this process is privileged as root and as an ordinary user."""
ALICE, BOB, CAROL = range(SERVICE_UID + 1, SERVICE_UID + 4)
"""Uids of ordinary users: the user that runs the tests is none of them."""


def authenticator(
    secret: bytes = SECRET,
    cluster: str = "c1",
    host: str = "host1",
    clock_us: Callable[[], int] = lambda: NOW_US,
    admin_hosts: frozenset[str] | None = None,
    *,
    serves_all: bool = False,
) -> TokenAuthenticator:
    return TokenAuthenticator(
        Key.from_secret(secret), cluster, host, 600, clock_us, admin_hosts, serves_all=serves_all
    )


def identity(role: str, name: str, *, with_link_key: bool = False, **more: object) -> Identity:
    key = Key.from_secret(SECRET)
    return Identity(
        authenticator(clock_us=now_us, **more),  # type: ignore[arg-type]
        KeyCredentialSigner(key),
        Peer(0, 0, 0, role, name, "host1", "own"),
        key.link_key if with_link_key else b"",
    )


def handle(call: Call) -> None:
    """Answer as a daemon would: Ping says who asked, Reconfigure comes in parts."""
    request = call.request
    if isinstance(request, Ping):
        call.reply(Pong(call.peer.name, call.peer.via, str(call.peer.uid), 0))
    elif isinstance(request, Reconfigure):
        call.part({"part": 1})
        call.part({"part": 2})
        call.reply({"part": 3})
    elif isinstance(request, Shutdown):
        raise RuntimeError("a bug")
    else:
        raise AssertionError(call.kind)


class Room:
    """A stream server on its own loop and thread, on a Unix socket and on TCP."""

    def __init__(
        self,
        directory: Path,
        limits: StreamLimits | None = None,
        handler: Callable[[Call], None] = handle,
        clock_us: Callable[[], int] = now_us,
        user_ranges: UserRanges | None = None,
    ) -> None:
        self.user_ranges = user_ranges
        self.conf = {
            "ClusterName": "c1",
            "SlurmctldHost": "localhost(127.0.0.1)",
            "SlurmctldPort": "16817",
            "SlurmctldPidFile": str(directory / "slurmctld.pid"),
            "SlurmdPidFile": str(directory / "slurmd.pid"),
            "AuthType": "auth/slurm",
            "MessageTimeout": "5",
        }
        self.path = socket_path(self.conf)
        self.limits = limits
        self.handler = handler
        self.bugs: list[dict[str, object]] = []
        self._opened: list[socket.socket | Client] = []
        self.authenticator = authenticator(clock_us=clock_us)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    async def _run(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.loop.set_exception_handler(lambda _, context: self.bugs.append(context))
        self._stop = asyncio.Event()
        self.server = StreamServer(
            self.handler,
            audience="slurmctld",
            host="host1",
            service_uid=SERVICE_UID,
            authenticator=self.authenticator,
            limits=self.limits,
            user_ranges=self.user_ranges,
        )
        await self.server.listen_unix(self.path)
        self.port = await self.server.listen_tcp("127.0.0.1", 0)
        self._ready.set()
        await self._stop.wait()
        await self.server.close()

    def __enter__(self) -> Room:
        self._thread.start()
        assert self._ready.wait(60)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for opened in self._opened:
            opened.close()
        self.loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        assert not self._thread.is_alive()

    def client(self, **more: object) -> Client:
        client = Client(self.conf, **more)  # type: ignore[arg-type]
        self._opened.append(client)
        return client

    def tcp_client(self) -> Client:
        """A client that finds the controller by TCP, with the token socket of a slurmd."""
        conf = dict(self.conf, SlurmctldPort=str(self.port))
        slurmd = f"{os.path.dirname(self.path)}/slurmd-{self.port}-1.sock"
        if not os.path.lexists(slurmd):
            os.symlink(self.path, slurmd)
        client = Client(conf)
        self._opened.append(client)
        return client

    def raw_unix(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        self._opened.append(connection)
        connection.settimeout(60)
        # By the descriptor of its directory, as the path may be longer than an address.
        folder = os.open(os.path.dirname(self.path), os.O_PATH)
        connection.connect(f"/proc/self/fd/{folder}/{os.path.basename(self.path)}")
        os.close(folder)
        return connection

    def raw_tcp(self) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        connection.settimeout(60)
        self._opened.append(connection)
        return connection

    def token(self, kind: str, body: bytes, uid: int = ALICE, audience: str = "slurmctld") -> bytes:
        peer = Peer(uid, uid, 0, "user", "host1", "host1", "unix")
        return self.authenticator.issue(peer, audience, kind, body_digest(body))


def read_frame(connection: socket.socket) -> tuple[str, int, int, dict[str, object]] | None:
    """Return (kind, flags, sequence, body) of the next frame, None at the end."""
    head = read_exactly(connection, frame.HEAD_BYTES)
    if len(head) < frame.HEAD_BYTES:
        return None
    flags, kind_bytes, _, body_bytes, sequence = frame.parse_head(head)
    kind = read_exactly(connection, kind_bytes).decode()
    body = table.msgspec.msgpack.decode(read_exactly(connection, body_bytes))
    return kind, flags, sequence, body


def read_exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        try:
            got = connection.recv(count - len(data))
        except ConnectionResetError:
            return data
        if not got:
            return data
        data += got
    return data
