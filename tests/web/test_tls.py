"""HTTPS: who connects and says nothing keeps nobody out, and holds little."""

from __future__ import annotations

import asyncio
import datetime
import ssl
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from uvicorn.server import ServerState

from pyslurm_ng.web import tls
from pyslurm_ng.web.options import BadOptions, Options
from pyslurm_ng.web.server import configuration
from tests.web.front import front

PING = b"GET /slurm/v0.0.46/ping HTTP/1.1\r\nHost: x\r\nX-SLURM-USER-TOKEN: a.b.c\r\n\r\n"


@pytest.fixture
def paths(tmp_path: Path) -> tuple[str, str]:
    """Make a certificate and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime(2020, 1, 1)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).serial_number(7)
        .public_key(key.public_key()).not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=36500)).sign(key, hashes.SHA256())
    )  # fmt: skip
    cert_path, key_path = tmp_path / "cert.pem", tmp_path / "key.pem"
    cert_path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return str(cert_path), str(key_path)


async def served(paths: tuple[str, str]) -> tuple[asyncio.Server, int]:
    """Serve with a certificate; return the server and its port."""
    config = configuration(front()._app, Options(tls_cert=paths[0], tls_key=paths[1]))
    config.load()
    state = ServerState()

    def make() -> asyncio.Protocol:
        made: Any = config.http_protocol_class
        return made(config=config, server_state=state, app_state={})  # type: ignore[no-any-return]

    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


def trusting(paths: tuple[str, str]) -> ssl.SSLContext:
    """Return the settings of a client that trusts the certificate."""
    context = ssl.create_default_context(cafile=paths[0])
    context.check_hostname = False
    return context


def test_idle_connections_are_small(paths: tuple[str, str]) -> None:
    """By default asyncio keeps 256 KiB at each end of each; 1,024 may be open (RELIABILITY 44)."""
    count = 20

    async def story() -> int:
        server, port = await served(paths)
        context = trusting(paths)
        first = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        before = tracemalloc.get_traced_memory()[0]
        idle = [await asyncio.open_connection("127.0.0.1", port, ssl=context) for _ in range(count)]
        for _, writer in idle:  # the server's end is ready, too
            writer.write(PING)
        for reader, _ in idle:
            assert (await reader.readline()).startswith(b"HTTP/1.1 ")
        grown = tracemalloc.get_traced_memory()[0] - before
        for _, writer in [first, *idle]:
            writer.close()
        server.close()
        return grown

    tracemalloc.start()
    try:
        grown = asyncio.run(asyncio.wait_for(story(), 30))
    finally:
        tracemalloc.stop()
    assert grown / count < 256 << 10, grown


def test_silent_connections_give_way(
    paths: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "MOST_HANDSHAKES", 4)

    async def story() -> None:
        server, port = await served(paths)
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
        ended = await asyncio.gather(
            *(asyncio.wait_for(reader.read(), 10) for reader, _ in silent[:3]),
            return_exceptions=True,
        )
        assert not any(isinstance(result, asyncio.TimeoutError) for result in ended)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(paths))
        writer.write(PING)
        assert (await reader.readline()).startswith(b"HTTP/1.1 ")
        assert len(tls.TlsGate._shaking) <= 4
        for _, other in [*silent, (reader, writer)]:
            other.close()
        server.close()

    asyncio.run(asyncio.wait_for(story(), 30))


def test_a_key_that_cannot_be_read_is_told_in_a_line(paths: tuple[str, str]) -> None:
    locked = f"{paths[1]}.locked"
    plain_key = serialization.load_pem_private_key(Path(paths[1]).read_bytes(), None)
    Path(locked).write_bytes(
        plain_key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"abcd"),
        )
    )
    for cert, key, why in (
        (paths[0], f"{locked}.none", "No such file"), ("/", "/", "Is a directory|expected"),
        (paths[1], paths[1], "a certificate and the private key to it"),
        (paths[0], "", "a certificate and the private key to it"),
        (paths[0], locked, "must have no passphrase"),
    ):  # fmt: skip
        with pytest.raises(BadOptions, match=f"^--tls-cert {cert}.*: .*({why})"):
            tls.tls_context(cert, key)
