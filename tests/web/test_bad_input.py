"""What bad input gets: 4xx with an error object or nothing, and the next request is answered."""

from __future__ import annotations

import asyncio
import json
import resource
from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.web import bodies
from tests.web.on_socket import PING, POST, answer, run

MIB = 1 << 20
GIGABYTE = 1 << 30


def test_a_gigabyte_in_chunks_is_cut_off(tmp_path: Path) -> None:
    """Long before its end, with an answer, and what was sent is not kept."""

    async def story(path: str, connections: set[Any]) -> None:
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(POST + b"Transfer-Encoding: chunked\r\n\r\n")
        sent = 0
        chunk = b"100000\r\n" + b"a" * MIB + b"\r\n"
        try:
            while sent < GIGABYTE and not writer.is_closing():
                writer.write(chunk)
                await writer.drain()
                sent += MIB
        except ConnectionError:
            pass
        assert sent < 4 * bodies.MOST_BODY_BYTES
        with_answer = await _rest(reader)
        assert b" 413 " in with_answer[:20] or with_answer == b""  # reset before it was read
        writer.close()
        assert (await answer(path, PING))[0] == 200

    run(tmp_path / "s", story)


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(MIB)
    except ConnectionError:
        return b""


def test_a_declared_gigabyte_is_refused_before_it_comes(tmp_path: Path) -> None:
    """By its length."""

    async def story(path: str, connections: set[Any]) -> None:
        status, body = await answer(path, POST + b"Content-Length: %d\r\n\r\n{" % GIGABYTE)
        assert status == 413 and json.loads(body)["errors"]

    run(tmp_path / "s", story)


def test_thousands_of_connections_keep_nobody_out(tmp_path: Path) -> None:
    """As many as this process may open: ten thousand have been tried by bench/front.py."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    count, most = min(4000, soft // 2 - 300), 100

    async def story(path: str, connections: set[Any]) -> None:
        clients = [await asyncio.open_unix_connection(path) for _ in range(count)]
        assert (await answer(path, PING))[0] == 200
        assert len(connections) <= most + 1
        for _, writer in clients:
            writer.close()

    run(tmp_path / "s", story, most=most)


def _post(body: bytes) -> bytes:
    return POST + b"Content-Length: %d\r\n\r\n" % len(body) + body


def _job(text: bytes) -> bytes:
    return b'{"script": "#!/bin/sh\\n", "job": {"environment": ["A=b"], %s}}' % text


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b"\xff\xfe{}", 400, "parsing"),
        (_job(b'"name": "\xc3\x28"'), 400, "parsing"),
        (_job(b'"name": "\\ud800"'), 400, "parsing"),
        (_job(b'"tasks": "many"'), 400, "integer"),
        (_job(b'"tasks": 1e400'), 400, ""),
        (_job(b'"name": {"a": 1}'), 400, "string"),
        (b"[" * 200_002, 413, "values"),
        (b"null", 400, ""),
    ],
)
def test_bodies_that_are_none(tmp_path: Path, body: bytes, status: int, says: str) -> None:
    """Each has an error object that says what was expected."""

    async def story(path: str, connections: set[Any]) -> None:
        got, content = await answer(path, _post(body))
        error = json.loads(content)["errors"][0]
        assert got == status, content
        assert says in error["description"], content

    run(tmp_path / "s", story)


def test_unknown_fields_are_named(tmp_path: Path) -> None:
    """In warnings, and the job is queued."""

    async def story(path: str, connections: set[Any]) -> None:
        text = b'"current_working_directory": "/tmp", "partition": "main", "nosuchfield": 1'
        got, content = await answer(path, _post(_job(text)))
        warnings = json.loads(content)["warnings"]
        assert any("nosuchfield" in row["description"] for row in warnings), (got, content)

    run(tmp_path / "s", story)


@pytest.mark.parametrize(
    "target",
    [
        b"/login?next=%0d%0aSet-Cookie:%20a=b", b"/jobs/%0d%0aX-Evil:%201",
        b"/jobs?user=%0d%0aX-Evil:%201", b"/slurm/v0.0.46/job/%0d%0aX-Evil:%201",
        b"/slurm/v0.0.46/node/%00%0d%0aX-Evil:1", b"/events?job=%0d%0aX-Evil:1",
    ],
)  # fmt: skip
def test_no_target_makes_a_header(tmp_path: Path, target: bytes) -> None:
    """Neither of an answer nor of a redirection."""

    async def story(path: str, connections: set[Any]) -> None:
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        names = {line.partition(b":")[0].lower() for line in head.split(b"\r\n")[1:]}
        assert not names & {b"x-evil", b"set-cookie"}
        assert b"content-length" in names
        writer.close()

    run(tmp_path / "s", story)


@pytest.mark.parametrize(
    "target",
    [
        b"/static/../routes.py", b"/static/%2e%2e/routes.py", b"/static/..%2froutes.py",
        b"/static//etc/passwd", b"/static/%00", b"/slurm/v0.0.46/../../etc/passwd",
        b"//slurm/v0.0.46/nodes", b"/slurm/v0.0.46%2fnodes/x", b"/slurm/v9.9.99/nodes",
    ],
)  # fmt: skip
def test_no_path_leads_elsewhere(tmp_path: Path, target: bytes) -> None:
    """What is not an address of ours is not found."""

    async def story(path: str, connections: set[Any]) -> None:
        got, content = await answer(path, b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        assert got == 404, content
        assert b"root:" not in content and b"import" not in content

    run(tmp_path / "s", story)
