"""AuthType=auth/slurm: tokens and job credentials MACed with slurm.key."""

from __future__ import annotations

import hmac
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from pyslurm_ng.base.numbers import MINUTE_US, NO_UID
from pyslurm_ng.wire.auth import (
    CREDENTIAL_MAGIC,
    MAX_SKEW_US,
    Admission,
    AuthError,
    Peer,
    check_time,
)
from pyslurm_ng.wire.replay_store import DAEMONS, ReplayStore

TOKEN_MAGIC = b"pT1"
KEY_ID_BYTES = 8
MAC_BYTES = 32
NONCE_BYTES = 16
TOKEN_LIFE_US = MINUTE_US
MIN_KEY_BYTES = 32
MAX_KEY_BYTES = 64 << 10


class KeyFileError(Exception):
    """A key file cannot be used; the text names the file."""


@dataclass(frozen=True, slots=True, repr=False)
class Key:
    """One shared secret, split into a key for each purpose so that no MAC serves two."""

    key_id: bytes
    token_key: bytes
    credential_key: bytes
    link_key: bytes

    @classmethod
    def from_secret(cls, secret: bytes) -> Key:
        """Derive id and purpose keys from the file's bytes."""
        return cls(
            hmac.digest(secret, b"pyslurm-ng key id", "sha256")[:KEY_ID_BYTES],
            hmac.digest(secret, b"pyslurm-ng request token", "sha256"),
            hmac.digest(secret, b"pyslurm-ng job credential", "sha256"),
            hmac.digest(secret, b"pyslurm-ng daemon links", "sha256"),
        )


def load_key(path: str, service_uid: int) -> Key:
    """Read slurm.key; see `read_secret` for what is refused."""
    return Key.from_secret(read_secret(path, service_uid))


def read_secret(path: str, service_uid: int) -> bytes:
    """Return the bytes of a key file.

    Raises:
        KeyFileError: missing, not a file of root or the service user, readable or writable by
            others, in a directory where others may replace it, or too short.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror}") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise KeyFileError(f"{path}: not a regular file")
        if status.st_uid not in (0, service_uid, os.geteuid()):
            raise KeyFileError(
                f"{path}: owned by uid {status.st_uid}; root or SlurmUser is allowed"
            )
        if status.st_mode & 0o177:
            mode = stat.S_IMODE(status.st_mode)
            raise KeyFileError(f"{path}: mode {mode:04o}; 0600 or 0400 is allowed")
        _check_key_directory(path, service_uid)
        secret = os.read(descriptor, MAX_KEY_BYTES + 1)
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror}") from None
    finally:
        os.close(descriptor)
    if not MIN_KEY_BYTES <= len(secret) <= MAX_KEY_BYTES:
        raise KeyFileError(
            f"{path}: {len(secret)} bytes; {MIN_KEY_BYTES} to {MAX_KEY_BYTES} are allowed"
        )
    return secret


def _check_key_directory(path: str, service_uid: int) -> None:
    directory = os.path.dirname(os.path.realpath(path))
    status = os.stat(directory)
    if status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX:
        raise KeyFileError(f"{path}: its directory {directory} is writable by others")
    if status.st_uid not in (0, service_uid, os.geteuid()):
        raise KeyFileError(f"{path}: its directory {directory} belongs to uid {status.st_uid}")


# --- requests ---------------------------------------------------------------------


class _Claims(msgspec.Struct, array_like=True, forbid_unknown_fields=True, frozen=True):
    """The signed words of a token, in this order."""

    host: str
    role: str
    name: str
    uid: int
    gid: int
    cluster: str
    audience: str
    kind: str
    digest: bytes
    nonce: bytes
    issued_us: int
    expires_us: int


_claims_decoder = msgspec.msgpack.Decoder(_Claims)
_claims_encoder = msgspec.msgpack.Encoder()


class TokenAuthenticator:
    """AuthType=auth/slurm: HMAC-SHA256 with the shared slurm.key.

    Args:
        key: from `load_key`.
        cluster: ClusterName; tokens for other clusters are refused even with the same key.
        host: this host's name, put into tokens that are issued here.
        service_uid: SlurmUser.
        admin_hosts: hosts that may claim uid 0 and SlurmUser; None for every host.
        clock_us: wall clock, microseconds since the epoch.
        replay: store of nonces seen; own memory when None.
        serves_all: whether tokens of every cluster that has the key are accepted, as by slurmdbd.
    """

    def __init__(
        self,
        key: Key,
        cluster: str,
        host: str,
        service_uid: int,
        clock_us: Callable[[], int],
        admin_hosts: frozenset[str] | None = None,
        replay: ReplayStore | None = None,
        *,
        serves_all: bool = False,
    ) -> None:
        self._key = key
        self._cluster = cluster
        self._host = host
        self._privileged = frozenset((0, service_uid))
        self._admin_hosts = admin_hosts
        self._clock_us = clock_us
        self._serves_all = serves_all
        self._replay = ReplayStore(clock_us()) if replay is None else replay

    def issue(
        self, peer: Peer, audience: str, kind: str, digest: bytes, cluster: str = ""
    ) -> bytes:
        """Return a token that is good for 60 s, one message and one receiver."""
        now_us = self._clock_us()
        claims = _Claims(
            self._host, peer.role, peer.name, peer.uid, peer.gid, cluster or self._cluster,
            audience, kind, digest, os.urandom(NONCE_BYTES), now_us, now_us + TOKEN_LIFE_US,
        )  # fmt: skip
        signed = TOKEN_MAGIC + self._key.key_id + _claims_encoder.encode(claims)
        return signed + hmac.digest(self._key.token_key, signed, "sha256")

    def admit(self, credential: bytes, kind: str, audience: str) -> Admission:
        """Verify key, MAC, cluster, audience, kind, time, rights of the issuer, and novelty."""
        claims = self._open(credential)
        peer = Peer(
            claims.uid, claims.gid, 0, claims.role, claims.name, claims.host, "slurm",
            claims.cluster,
        )  # fmt: skip
        try:
            self._check(claims, kind, audience)
        except AuthError as error:
            error.peer = peer
            raise
        return Admission(peer, claims.digest)

    def _check(self, claims: _Claims, kind: str, audience: str) -> None:
        """Raise `AuthError` unless the token was signed for this message, this receiver and now."""
        if claims.cluster != self._cluster and not self._serves_all:
            raise AuthError("wrong_cluster", f"credential is for cluster {claims.cluster!r:.64}")
        if claims.audience != audience:
            raise AuthError("wrong_audience", f"credential is for {claims.audience!r:.64}")
        if claims.kind != kind:
            raise AuthError("wrong_kind", f"credential is for a {claims.kind!r:.64} message")
        now_us = self._clock_us()
        check_time(f"credential of {claims.host:.64}", claims.issued_us, claims.expires_us, now_us)
        privileged = claims.uid in self._privileged and claims.role == "user"
        if privileged and self._admin_hosts is not None and claims.host not in self._admin_hosts:
            raise AuthError(
                "not_admin_host",
                f"uid {claims.uid} of host {claims.host:.64} is not accepted as administrator: "
                "the host is neither a controller nor in AuthInfo=admin_hosts",
            )
        owner = DAEMONS if claims.role != "user" or claims.uid in self._privileged else claims.uid
        until_us = claims.expires_us + MAX_SKEW_US
        if not self._replay.remember(claims.nonce, until_us, now_us, owner):
            raise AuthError("replayed", "credential was used before")

    def _open(self, credential: bytes) -> _Claims:
        if not credential:
            raise AuthError("missing", "no credential")
        signed, mac = credential[:-MAC_BYTES], credential[-MAC_BYTES:]
        if not signed.startswith(TOKEN_MAGIC):
            raise AuthError("malformed_credential", "not an auth/slurm credential")
        start = len(TOKEN_MAGIC) + KEY_ID_BYTES
        if signed[len(TOKEN_MAGIC) : start] != self._key.key_id:
            raise AuthError("wrong_key", "credential was made with another slurm.key")
        expected = hmac.digest(self._key.token_key, signed, "sha256")
        if not hmac.compare_digest(mac, expected):
            raise AuthError("bad_signature", "credential has a wrong signature")
        try:
            claims = _claims_decoder.decode(signed[start:])
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise AuthError("malformed_credential", "credential has unknown contents") from None
        life_us = claims.expires_us - claims.issued_us
        if (
            not 0 <= claims.uid < NO_UID
            or not 0 <= claims.gid < NO_UID
            or not 0 < life_us <= TOKEN_LIFE_US
            or len(claims.nonce) != NONCE_BYTES
            or len(claims.digest) != 32
            or claims.role not in ("user", "node", "slurmctld", "slurmdbd")
        ):
            raise AuthError("malformed_credential", "credential has impossible contents")
        return claims


# --- job credentials ---------------------------------------------------------------------


class KeyCredentialSigner:
    """Job credentials by HMAC-SHA256 over the exact bytes, with a separate key."""

    def __init__(self, key: Key) -> None:
        self._key = key

    def sign_credential(self, payload: bytes) -> bytes:
        """Return magic, key id, payload, MAC."""
        signed = CREDENTIAL_MAGIC + self._key.key_id + payload
        return signed + hmac.digest(self._key.credential_key, signed, "sha256")

    def open_credential(self, blob: bytes) -> bytes:
        """Return the payload; the caller checks its time, nodes and epoch."""
        start = len(CREDENTIAL_MAGIC) + KEY_ID_BYTES
        if len(blob) < start + MAC_BYTES or not blob.startswith(CREDENTIAL_MAGIC):
            raise AuthError("malformed_credential", "not a job credential")
        if blob[len(CREDENTIAL_MAGIC) : start] != self._key.key_id:
            raise AuthError("wrong_key", "job credential was made with another slurm.key")
        expected = hmac.digest(self._key.credential_key, blob[:-MAC_BYTES], "sha256")
        if not hmac.compare_digest(blob[-MAC_BYTES:], expected):
            raise AuthError("bad_signature", "job credential has a wrong signature")
        return blob[start:-MAC_BYTES]
