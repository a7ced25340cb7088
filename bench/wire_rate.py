"""How many requests per second the wire carries, with nothing behind it.

One server process with the stream server and the ZeroMQ endpoint, one client process; the body is
a submission's of about 1 KB. The limit is the aim for durable submissions over one connection:
the wire alone must be well above it.
"""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import msgspec

from figures import parser, show
from pyslurm_ng.model.bounds import Count, LongText, Minutes, NameText
from pyslurm_ng.wire import table
from pyslurm_ng.wire.auth import Peer
from pyslurm_ng.wire.auth_slurm import Key, KeyCredentialSigner, TokenAuthenticator
from pyslurm_ng.wire.client import Client
from pyslurm_ng.wire.client_credentials import body_digest
from pyslurm_ng.wire.daemon_link import socket_path
from pyslurm_ng.wire.endpoint import Endpoint
from pyslurm_ng.wire.frame import pack_frame
from pyslurm_ng.wire.identity import Identity
from pyslurm_ng.wire.messages import Done, Ping, Pong, message
from pyslurm_ng.wire.stream import Call, StreamServer

AIM_PER_S = 20_000.0
OUTSTANDING = 256
SECRET = bytes(64)


class Submission(msgspec.Struct, forbid_unknown_fields=True):
    """What a submission looks like to the wire: a script, an environment, some numbers."""

    request_id: Annotated[bytes, msgspec.Meta(min_length=16, max_length=16)]
    script: LongText
    environment: Annotated[dict[NameText, LongText], msgspec.Meta(max_length=10_000)]
    time_limit_min: Minutes = 0
    nodes_min: Count = 1


message(kind="BenchSubmission", roles="user|node", rate="submit")(Submission)
FIELDS = {
    "request_id": bytes(16),
    "script": "#!/bin/bash\n#SBATCH --nodes=4\n" + "srun ./train --epochs 10\n" * 12,
    "environment": {f"VARIABLE_{n}": "value " * 4 for n in range(18)},
    "time_limit_min": 60,
}


def now_us() -> int:
    return time.time_ns() // 1000


def identity(role: str, name: str) -> Identity:
    key = Key.from_secret(SECRET)
    authenticator = TokenAuthenticator(key, "bench", "host", 0, now_us)
    peer = Peer(os.geteuid(), os.getegid(), 0, role, name, "host", "own")
    return Identity(authenticator, KeyCredentialSigner(key), peer, key.link_key)


def conf_of(directory: str) -> dict[str, str]:
    return {"SlurmctldPidFile": f"{directory}/slurmctld.pid", "SlurmctldPort": "6817"}


async def serve(directory: str) -> None:
    """Answer until stdin ends; the ports go to stdout."""

    def handle(call: Call) -> None:
        call.reply(Pong("", "", "", 0) if isinstance(call.request, Ping) else Done())

    me = identity("slurmctld", "host")
    server = StreamServer(
        handle,
        audience="slurmctld",
        host="host",
        service_uid=os.geteuid(),
        authenticator=me.authenticator,
    )
    await server.listen_unix(socket_path(conf_of(directory)))
    port = await server.listen_tcp("127.0.0.1", 0)
    endpoint = Endpoint(
        me, audience="slurmctld", on_message=lambda what, peer, answer: answer(Done())
    )
    print(port, endpoint.bind("127.0.0.1", 0), flush=True)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, ended.set)
    await ended.wait()
    endpoint.close()
    await server.close()


def pipelined(client: Client, count: int) -> float:
    """Return requests per second with `OUTSTANDING` of them on their way."""
    begin = time.perf_counter()
    sent = received = 0
    while received < count:
        while sent < count and sent - received < OUTSTANDING:
            client.begin("BenchSubmission", FIELDS)
            sent += 1
        client.receive(30.0)
        received += 1
    return count / (time.perf_counter() - begin)


def raw_pipelined(address: socket.socket, frames: list[bytes], reply_bytes: int) -> float:
    """Return requests per second when making the requests costs nothing: the server's own rate."""
    begin = time.perf_counter()
    for at in range(0, len(frames), OUTSTANDING):
        some = frames[at : at + OUTSTANDING]
        address.sendall(b"".join(some))
        bytes_left = reply_bytes * len(some)
        while bytes_left:
            bytes_left -= len(address.recv(bytes_left))
    return len(frames) / (time.perf_counter() - begin)


async def zmq_rate(port: int, count: int) -> float:
    """Return requests per second between two endpoints."""
    node = Endpoint(identity("node", "n1"), audience="slurmd:n1", on_message=lambda *_: None)
    node.connect("slurmctld", "slurmctld", "127.0.0.1", port)
    submission = Submission(**FIELDS)  # type: ignore[arg-type]
    await node.ask("slurmctld", submission, 10)
    begin = time.perf_counter()
    for _ in range(count // OUTSTANDING):
        asked = [node.ask("slurmctld", submission, 30) for _ in range(OUTSTANDING)]
        await asyncio.gather(*asked)
    rate = count // OUTSTANDING * OUTSTANDING / (time.perf_counter() - begin)
    node.close()
    return rate


def commands(directory: str, count: int) -> list[float]:
    """Return sorted seconds of connect, ask, answer, close."""
    took = []
    for _ in range(count):
        begin = time.perf_counter()
        client = Client(conf_of(directory))
        client.call("Ping", {})
        client.close()
        took.append(time.perf_counter() - begin)
    return sorted(took)


def measure(directory: str, tcp_port: int, zmq_port: int, count: int) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []

    def add(what: str, value: float, unit: str, limit: float | None = None) -> None:
        is_rate = unit == "per s"
        ok = None if limit is None else (value >= limit if is_rate else value <= limit)
        rows.append({"what": what, "value": value, "unit": unit, "limit": limit, "ok": ok})

    body = table.encode(Submission(**FIELDS))  # type: ignore[arg-type]
    reply_bytes = len(pack_frame("Done", 1, table.encode(Done())))
    frames = [pack_frame("BenchSubmission", n + 1, body) for n in range(count)]
    unix = socket.socket(socket.AF_UNIX)
    unix.connect(socket_path(conf_of(directory)))
    add("Unix, 256 outstanding, server alone", raw_pipelined(unix, frames, reply_bytes), "per s",
        AIM_PER_S)  # fmt: skip
    unix.close()
    client = Client(conf_of(directory))
    add("Unix, 256 outstanding, with the command's client", pipelined(client, count), "per s")
    client.close()
    issuer = identity("user", "host")
    tokens = [
        issuer.authenticator.issue(issuer.peer, "slurmctld", "BenchSubmission", body_digest(body))
        for _ in range(count)
    ]
    frames = [
        pack_frame("BenchSubmission", n + 1, body, 0, token) for n, token in enumerate(tokens)
    ]
    tcp = socket.create_connection(("127.0.0.1", tcp_port))
    tcp.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    add("TCP, a token for each, server alone", raw_pipelined(tcp, frames, reply_bytes), "per s")
    tcp.close()
    add("ZeroMQ, a token for each, both ends", asyncio.run(zmq_rate(zmq_port, count)), "per s")
    took = commands(directory, 500)
    add("connect, ask, close: median", took[250] * 1e6, "us")
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    idle = []
    for _ in range(min(5000, soft - 200)):
        connection = socket.create_connection(("127.0.0.1", tcp_port))
        connection.sendall(b"p")
        idle.append(connection)
    took = commands(directory, 500)
    what = f"the same beside {len(idle)} slow connections: p99"
    add(what, took[-5] * 1e6, "us", 1e6)
    for connection in idle:
        connection.close()
    return rows


def main() -> None:
    parse = parser(__doc__ or "")
    parse.add_argument("--count", type=int, default=20_480)
    parse.add_argument("--serve", help="internal: be the server, with sockets in this directory")
    options = parse.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if options.serve:
        asyncio.run(serve(options.serve))
        return
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, str(Path(__file__)), "--serve", directory]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as server:
            assert server.stdout is not None
            assert server.stdin is not None
            tcp_port, zmq_port = map(int, server.stdout.readline().split())
            rows = measure(directory, tcp_port, zmq_port, options.count)
            server.stdin.close()
    show(options, "the wire alone", rows)


if __name__ == "__main__":
    main()
