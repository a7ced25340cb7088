"""Connections to slurmrestd: how many, how slow, and who is at the other end."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.web import bodies, protocol
from pyslurm_ng.web.sending import ANSWERED
from tests.web.front import FrontClient
from tests.web.on_socket import NODES, PING, POST, answer, run


def test_the_kernel_says_who_asks(tmp_path: Path) -> None:
    """Over a Unix socket this user needs no token; the answer says where it came from."""

    async def story(path: str, connections: set[Any]) -> None:
        status, body = await answer(path, PING)
        client = json.loads(body)["meta"]["client"]
        assert status == 200
        assert client["source"].startswith(f"unix:{path}(fd:")
        import pwd

        assert client["user"] == pwd.getpwuid(os.geteuid()).pw_name

    run(tmp_path / "s", story)


def test_a_slow_head_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A drop now and then keeps no connection open, a request that is answered does."""
    monkeypatch.setattr(protocol, "HEAD_S", 0.2)

    async def story(path: str, connections: set[Any]) -> None:
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(PING[:20])
        assert await reader.read() == b""
        writer.close()
        assert (await answer(path, PING))[0] == 200

    run(tmp_path / "s", story)


def test_a_slow_body_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RELIABILITY 67: with 408, and the connection ends."""
    monkeypatch.setattr(bodies, "BODY_S", 0.2)

    async def story(path: str, connections: set[Any]) -> None:
        status, body = await answer(path, POST + b"Content-Length: 100\r\n\r\n{")
        assert status == 408
        assert json.loads(body)["errors"]

    run(tmp_path / "s", story)


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (POST + b"Content-Length: 1000000000\r\n\r\n", 413),
        (POST + b"Content-Length: -1\r\n\r\n", 400),
        (POST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{", 400),
        (POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (POST + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", 400),
        (POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"GET /slurm/v0.0.46/ping HTTP/1.1\r\nHost: x\r\nX: a\nb\r\n\r\n", 400),
        (b"GET /%ff%fe HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"GET /nosuch HTTP/9.9\r\n\r\n", 404),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 400),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"GET /slurm/v0.0.46/ping HTTP/1.1\r\n" + b"A: b\r\n" * 20_000 + b"\r\n", 400),
    ],
)
def test_what_is_no_http(tmp_path: Path, request_bytes: bytes, status: int) -> None:
    """RELIABILITY 67: each is refused with 4xx and counted, and the next request is answered."""

    async def story(path: str, connections: set[Any]) -> None:
        before = ANSWERED.copy()
        assert (await answer(path, request_bytes))[0] == status
        assert (await answer(path, PING))[0] == 200
        counted = ANSWERED - before
        # A wrong chunk is refused by the parser and by the request that waited for it.
        assert counted.keys() == {status, 200} and counted[status] in (1, 2)

    run(tmp_path / "s", story)


def test_a_body_in_chunks_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever length it does not name."""
    monkeypatch.setattr(bodies, "MOST_BODY_BYTES", 1000)

    async def story(path: str, connections: set[Any]) -> None:
        chunk = b"200\r\n" + b"a" * 512 + b"\r\n"
        status, _ = await answer(path, POST + b"Transfer-Encoding: chunked\r\n\r\n" + 3 * chunk)
        assert status == 413

    run(tmp_path / "s", story)


def test_idle_connections_give_way(tmp_path: Path) -> None:
    """Who opens many keeps nobody out: the one longest at rest is ended for a new one."""

    async def story(path: str, connections: set[Any]) -> None:
        idle = [await asyncio.open_unix_connection(path) for _ in range(8)]
        assert (await answer(path, PING))[0] == 200
        assert len(connections) <= 5
        assert await idle[0][0].read() == b""
        for _, writer in idle:
            writer.close()

    run(tmp_path / "s", story, most=4)


@pytest.mark.parametrize("is_answered", [False, True])
def test_only_connections_that_are_answered_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_answered: bool
) -> None:
    """A body that does not come gives way; if all are being answered, 503 says to come back."""
    goes_on = threading.Event()
    usual = FrontClient.call

    def slow(self: FrontClient, kind: str, *rest: Any) -> dict[str, Any]:
        if kind == "ShowNodes":
            goes_on.wait(20)
        return usual(self, kind, *rest)

    monkeypatch.setattr(FrontClient, "call", slow)
    request = NODES if is_answered else POST + b"Content-Length: 10\r\n\r\n{"

    async def story(path: str, connections: set[Any]) -> None:
        busy = []
        for _ in range(2):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(request)
            busy.append((reader, writer))
        while not all(connection.cycle for connection in connections):
            await asyncio.sleep(0)
        assert (await answer(path, PING))[0] == (503 if is_answered else 200)
        goes_on.set()
        for _, writer in busy:
            writer.close()

    run(tmp_path / "s", story, most=2)


def test_listening(tmp_path: Path) -> None:
    """host:port and unix:/path; a socket file that nobody serves is replaced."""
    from pyslurm_ng.web.listening import listeners
    from pyslurm_ng.web.options import BadOptions

    path = tmp_path / "rest.sock"
    for _ in range(2):
        sockets = listeners([f"unix:{path}", "127.0.0.1:0"])
        assert [listener.family for listener in sockets] == [socket.AF_UNIX, socket.AF_INET]
        for listener in sockets:
            listener.close()
    for address in ("x", "unix:relative", "127.0.0.1:99999", "127.0.0.1:http"):
        with pytest.raises(BadOptions):
            listeners([address])


def test_its_socket_files_go_with_it(tmp_path: Path) -> None:
    """But not the file of another that has taken the place."""
    from pyslurm_ng.web.listening import listeners, socket_files

    path = tmp_path / "rest.sock"
    sockets = listeners([f"unix:{path}", "127.0.0.1:0"])
    (file,) = socket_files(sockets)
    file.remove()
    assert not path.exists()
    path.write_text("another's")
    file.remove()
    assert path.exists()
    for listener in sockets:
        listener.close()
