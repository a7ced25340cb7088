"""HTTPS: connections are small, and those whose handshake goes on are few and short."""

from __future__ import annotations

import asyncio
import gc
import ssl
from asyncio import sslproto
from typing import Any

from pyslurm_ng.web.options import BadOptions
from pyslurm_ng.web.protocol import HEAD_S, RestProtocol

MOST_HANDSHAKES = 256
READ_BYTES = 16 << 10
"""What is decrypted at once: the most that a record of TLS holds. asyncio has a buffer of that size
for each connection, 256 KiB unless told, so a thousand idle ones took a quarter of a GiB."""
sslproto.SSLProtocol.max_size = READ_BYTES  # type: ignore[attr-defined]


def tls_context(cert_path: str, key_path: str) -> ssl.SSLContext:
    """Return the settings of a server with a certificate.

    Raises:
        BadOptions: certificate or key cannot be used.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(cert_path, key_path or None, _no_passphrase)
    except ssl.SSLError:
        reason = "a certificate and the private key to it, both in PEM, are expected"
    except OSError as error:
        reason = error.strerror or str(error)
    except ValueError as error:
        reason = str(error)
    else:
        return context
    words = f"--tls-cert {cert_path}" + (f", --tls-key {key_path}" if key_path else "")
    raise BadOptions(f"{words}: {reason}")


def _no_passphrase() -> str:
    """Refuse a key with a passphrase, for which OpenSSL would ask at the terminal."""
    raise ValueError("the private key must have no passphrase")


class _Early(asyncio.Protocol):
    """Keeps what comes between the handshake and the moment that a protocol is there."""

    def __init__(self) -> None:
        self.data = b""
        self.is_lost = False

    def data_received(self, data: bytes) -> None:
        """Keep bytes."""
        self.data += data

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self.is_lost = True


class TlsGate(asyncio.Protocol):
    """A connection until its handshake is done; then a `RestProtocol` has it.

    When there are too many, the one that has waited longest for its client goes.
    """

    context: ssl.SSLContext
    _ended = 0
    _shaking: dict[TlsGate, None] = {}

    def __init__(self, **rest: Any) -> None:
        self._rest = rest
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        shaking = self._shaking
        if len(shaking) >= MOST_HANDSHAKES:
            next(iter(shaking))._give_way()
        shaking[self] = None
        transport.pause_reading()
        self._task = asyncio.get_running_loop().create_task(self._shake(transport))

    def _give_way(self) -> None:
        self._shaking.pop(self, None)
        if self._task is not None:
            self._task.cancel()
        if self._transport is not None:
            self._transport.abort()

    @classmethod
    def _clean_up(cls) -> None:
        """Free what handshakes leave: circles of references, which nothing else looks for soon."""
        cls._ended += 1
        if cls._ended >= MOST_HANDSHAKES:
            cls._ended = 0
            gc.collect(1)

    async def _shake(self, transport: asyncio.Transport) -> None:
        early = _Early()
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(
                transport, early, self.context, server_side=True, ssl_handshake_timeout=HEAD_S
            )
        except (OSError, asyncio.TimeoutError):  # ssl.SSLError is an OSError
            transport.abort()
            return
        finally:
            self._shaking.pop(self, None)
            self._clean_up()
        if secured is None or early.is_lost:
            return
        protocol = RestProtocol(**self._rest)
        secured.set_protocol(protocol)
        protocol.connection_made(secured)
        if early.data:
            protocol.data_received(early.data)
