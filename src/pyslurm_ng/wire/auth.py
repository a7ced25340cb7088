"""The sender of a message, from the kernel or a signature, never from what the message says.

Three sources, one result (`Peer`):

* a Unix socket: the kernel's SO_PEERCRED of the connection;
* AuthType=auth/slurm: a token MACed with slurm.key, issued by a daemon that holds the key, to
  itself or to a local user that SO_PEERCRED named (`wire.auth_slurm`);
* AuthType=auth/munge: a munge credential (`wire.auth_munge`).

This file holds what the three share; `wire.identity` chooses one by AuthType.

Tokens and munge payloads name kind and digest of one body, so a credential works for one
request to one receiver. Refusals are `AuthError`s with a cause for counters and one line of text.

With a shared key hosts cannot be told from each other: a process that holds slurm.key can claim
anything. One protection against users remains in `wire.auth_slurm`: uid 0 and SlurmUser are
believed only from hosts that the configuration marks as administrators' (docs/reliability.md,
"Security model").
"""

from __future__ import annotations

import hmac
import os
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from hashlib import blake2b
from typing import Protocol

from pyslurm_ng.base.numbers import SECOND_US

CREDENTIAL_MAGIC = b"pC1"
"""The first bytes of a job credential, by key or by munge."""
MAX_SKEW_US = 300_000_000
CLOCK_CAUSES = frozenset(("expired", "from_future"))
"""Causes of refusals where the sender is genuine but one of the two clocks is wrong."""


class AuthError(Exception):
    """An identity was not accepted; `cause` is a counter's name, `text` one line.

    `peer` is the real signer, if the signature was good and something else was not.
    """

    def __init__(self, cause: str, text: str) -> None:
        super().__init__(text)
        self.cause = cause
        self.text = text
        self.peer: Peer | None = None


@dataclass(frozen=True, slots=True)
class Peer:
    """The process at the other end of a connection.

    `role` is "user" or a daemon role of `wire.table.ROLES`. `name` is the node's name for role
    "node", otherwise the host's. `via` is unix, slurm or munge. `pid` is 0 unless via is unix.
    `cluster` is the one that the credential was made for, "" on a Unix socket. `until_us` is when
    the token ends that was shown, 0 for what is no token: answers that go on end with it.
    """

    uid: int
    gid: int
    pid: int
    role: str
    name: str
    host: str
    via: str
    cluster: str = ""
    until_us: int = 0


@dataclass(frozen=True, slots=True)
class Admission:
    """A verified credential; `digest` is what the body must have, None on a Unix socket.

    `proves` returns the credential of an answer, by its kind and body; None for answers to users.
    """

    peer: Peer
    digest: bytes | None
    proves: Callable[[str, bytes], bytes] | None = None


class Authenticator(Protocol):
    """What a stream server or endpoint needs of auth/slurm or auth/munge."""

    def issue(
        self, peer: Peer, audience: str, kind: str, digest: bytes, cluster: str = ""
    ) -> bytes:
        """Return a credential with which `peer` sends that one body to `audience`.

        `cluster` is the receiver's, if it is another than this daemon's.
        """

    def admit(self, credential: bytes, kind: str, audience: str) -> Admission:
        """Return the sender, or raise `AuthError`."""


def body_digest(body: bytes) -> bytes:
    """Return the 32-byte BLAKE2b of a body, as credentials hold it."""
    return blake2b(body, digest_size=32).digest()


def answer_audience(request_credential: bytes) -> str:
    """Return whom an answer is for: the one request that came with this credential."""
    return f"answer:{body_digest(request_credential).hex()}"


def own_peer(receiver: str, host: str) -> Peer:
    """Return this process as the daemon of an audience: slurmctld, slurmdbd or slurmd:NODE."""
    daemon, _, name = receiver.partition(":")
    role = "node" if daemon == "slurmd" else daemon
    return Peer(os.geteuid(), os.getegid(), 0, role, name or host, host, "own")


def check_answer(
    authenticator: Authenticator,
    receiver: str,
    request: bytes,
    kind: str,
    proof: bytes,
    body: bytes,
) -> None:
    """Raise `AuthError` unless an answer was made for a request by the daemon that was asked.

    Args:
        receiver: the audience of the request.
        request: the request's credential.
    """
    admission = authenticator.admit(proof, kind, answer_audience(request))
    check_digest(admission, kind, body)
    expected, peer = own_peer(receiver, ""), admission.peer
    if peer.role != expected.role or (peer.role == "node" and peer.name != expected.name):
        raise AuthError("role", f"the answer is of a {peer.role} {peer.name:.64}")


def check_digest(admission: Admission, kind: str, body: bytes) -> None:
    """Raise `AuthError` unless the body is the one that the credential was made for."""
    if admission.digest is not None and not hmac.compare_digest(
        admission.digest, body_digest(body)
    ):
        raise AuthError("altered", f"{kind}: credential belongs to another message body")


def socket_peer(connection: socket.socket, host: str) -> Peer:
    """Return the identity of a Unix socket's other end, as the kernel knows it."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, uid, gid = struct.unpack("iII", raw)
    return Peer(uid, gid, pid, "user", host, host, "unix")


class CredentialSigner(Protocol):
    """Signs what the controller allows a node to start, and verifies it on the node."""

    def sign_credential(self, payload: bytes) -> bytes:
        """Return the payload with its proof."""

    def open_credential(self, blob: bytes) -> bytes:
        """Return the payload, or raise `AuthError` when the proof does not hold."""


def check_time(what: str, issued_us: int, expires_us: int, now_us: int) -> None:
    """Refuse a time that is too old or in the future by more than `MAX_SKEW_US`.

    Raises:
        AuthError: with both times, so that the reader sees which clock is wrong.
    """
    if issued_us - MAX_SKEW_US <= now_us <= expires_us + MAX_SKEW_US:
        return
    cause = "expired" if now_us > expires_us else "from_future"
    raise AuthError(
        cause,
        f"{what} from {_utc(issued_us)} does not fit this host's clock "
        f"{_utc(now_us)}; clocks may differ by {MAX_SKEW_US // SECOND_US} s",
    )


def _utc(time_us: int) -> str:
    """Return a time as 2026-11-21T13:14:15Z; the peer may have claimed an impossible one."""
    try:
        when = datetime.fromtimestamp(time_us // SECOND_US, timezone.utc)
    except (OverflowError, ValueError, OSError):
        return "an impossible time"
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")
