"""HTTPS: who connects and says nothing keeps nobody out, and holds little."""

from __future__ import annotations

import asyncio
import datetime
import ssl
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


def test_silent_connections_give_way(
    paths: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls, "MOST_HANDSHAKES", 4)
    options = Options(tls_cert=paths[0], tls_key=paths[1])

    async def story() -> None:
        config = configuration(front()._app, options)
        config.load()
        state = ServerState()
        loop = asyncio.get_running_loop()

        def make() -> asyncio.Protocol:
            made: Any = config.http_protocol_class
            return made(config=config, server_state=state, app_state={})  # type: ignore[no-any-return]

        server = await loop.create_server(make, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
        ended = await asyncio.gather(
            *(asyncio.wait_for(reader.read(), 10) for reader, _ in silent[:3]),
            return_exceptions=True,
        )
        assert not any(isinstance(result, asyncio.TimeoutError) for result in ended)
        context = ssl.create_default_context(cafile=paths[0])
        context.check_hostname = False
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        writer.write(PING)
        assert (await reader.readline()).startswith(b"HTTP/1.1 ")
        assert len(tls.TlsGate._shaking) <= 4
        for _, other in [*silent, (reader, writer)]:
            other.close()
        server.close()

    asyncio.run(asyncio.wait_for(story(), 30))


def test_a_key_that_cannot_be_read_is_told_in_a_line(paths: tuple[str, str]) -> None:
    for cert, key in ((paths[0], "/nonexistent"), (paths[1], paths[1]), ("/", "/")):
        with pytest.raises(BadOptions, match="--tls-cert"):
            tls.tls_context(cert, key)
