"""Who sends a message: from the kernel or from a signature, never from the message's own words.

Three sources, one result (`Peer`):

* a Unix socket: the kernel's SO_PEERCRED of the connection;
* AuthType=auth/slurm: a token MACed with slurm.key, issued by a daemon that holds the key, to
  itself or to a local user whom SO_PEERCRED named;
* AuthType=auth/munge: a munge credential (`wire.munge`).

Tokens and munge payloads name kind and digest of one body, so a credential works for one
request to one receiver. Refusals are `AuthError`s with a cause for counters and one line of text.

Shared-key mode cannot tell hosts from each other: who holds slurm.key can claim anything. The
one fence that still helps against users is here: uid 0 and SlurmUser are believed only from
hosts that the configuration marks as administrators' (docs/reliability.md, "Security model").
"""

from __future__ import annotations

import contextlib
import hmac
import os
import socket
import stat
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from hashlib import blake2b
from typing import Protocol

import msgspec

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.base.numbers import MINUTE_US, NO_UID, SECOND_US
from pyslurm_ng.wire import munge

TOKEN_MAGIC = b"pT1"
CREDENTIAL_MAGIC = b"pC1"
KEY_ID_BYTES = 8
MAC_BYTES = 32
NONCE_BYTES = 16
TOKEN_LIFE_US = MINUTE_US
MAX_SKEW_US = 300_000_000
CLOCK_CAUSES = frozenset(("expired", "from_future"))
"""Causes of refusals for which the sender is who it says, and one of the two clocks is wrong."""
MIN_KEY_BYTES = 32
MAX_KEY_BYTES = 64 << 10
MAX_REPLAY_ENTRIES = 4_000_000


class AuthError(Exception):
    """An identity was not accepted; `cause` is a counter's name, `text` one line.

    `peer` is who really signed it, where the signature held and something else did not.
    """

    def __init__(self, cause: str, text: str) -> None:
        super().__init__(text)
        self.cause = cause
        self.text = text
        self.peer: Peer | None = None


class KeyFileError(Exception):
    """A secret cannot be used as it lies there; the text names the file."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end.

    `role` is "user" or a daemon role of `wire.table.ROLES`; `name` is the node's name for role
    "node", the host's otherwise. `via` is unix, slurm or munge. `pid` is 0 unless via is unix.
    """

    uid: int
    gid: int
    pid: int
    role: str
    name: str
    host: str
    via: str


@dataclass(frozen=True, slots=True)
class Admission:
    """A verified credential; `digest` is what the body must have, None on a Unix socket."""

    peer: Peer
    digest: bytes | None


class Authenticator(Protocol):
    """What a stream server or endpoint needs of auth/slurm or auth/munge."""

    def issue(self, peer: Peer, audience: str, kind: str, digest: bytes) -> bytes:
        """Return a credential by which `peer` sends that one body to `audience`."""

    def admit(self, credential: bytes, kind: str, audience: str) -> Admission:
        """Return who sent it, or raise `AuthError`."""


def body_digest(body: bytes) -> bytes:
    """Return the 32-byte BLAKE2b of a body, as credentials hold it."""
    return blake2b(body, digest_size=32).digest()


def check_digest(admission: Admission, kind: str, body: bytes) -> None:
    """Raise `AuthError` unless the body is the one that the credential was made for."""
    if admission.digest is not None and not hmac.compare_digest(
        admission.digest, body_digest(body)
    ):
        raise AuthError("altered", f"{kind}: credential belongs to another message body")


def socket_peer(connection: socket.socket, host: str) -> Peer:
    """Return the identity that the kernel keeps of a connected Unix socket's other end."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, uid, gid = struct.unpack("iII", raw)
    return Peer(uid, gid, pid, "user", host, host, "unix")


# --- keys ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, repr=False)
class Key:
    """One shared secret, split into a key per purpose so that no MAC serves two."""

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
    """Read slurm.key.

    Raises:
        KeyFileError: missing, not a file of root or the service user, readable or writable by
            others, in a directory where others may replace it, or too short.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise KeyFileError(f"{path}: not a regular file")
        if found.st_uid not in (0, service_uid, os.geteuid()):
            raise KeyFileError(f"{path}: owned by uid {found.st_uid}; root or SlurmUser is allowed")
        if found.st_mode & 0o177:
            mode = stat.S_IMODE(found.st_mode)
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
    return Key.from_secret(secret)


def _check_key_directory(path: str, service_uid: int) -> None:
    directory = os.path.dirname(os.path.realpath(path))
    found = os.stat(directory)
    if found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX:
        raise KeyFileError(f"{path}: its directory {directory} is writable by others")
    if found.st_uid not in (0, service_uid, os.geteuid()):
        raise KeyFileError(f"{path}: its directory {directory} belongs to uid {found.st_uid}")


# --- replay -------------------------------------------------------------------------------


class ReplayStore:
    """Nonces seen, until their tokens cannot be accepted any more.

    With a path, nonces are also appended to that file (no fsync: a token outlives a process,
    not a reboot), so that a restarted daemon still refuses what its predecessor took. A disk that
    takes no nonces refuses nobody, since memory has them: the fault is noted, nothing more is
    appended behind what may be half a record, and each minute the file is tried anew as a whole.
    """

    _RECORD = struct.Struct(">I16s")

    def __init__(self, now_us: int, path: str | None = None, faults: Faults | None = None) -> None:
        """Read what a predecessor kept; `faults` hears of a file that cannot be written.

        Raises:
            OSError: the file is there and cannot be read.
        """
        self._faults = faults
        self._is_behind = False  # the file lacks nonces that memory has
        self._by_minute: dict[int, set[bytes]] = {}
        self._count = 0
        self._minute = now_us // MINUTE_US
        self._path = path
        self._descriptor = -1
        if path is not None:
            self._load(path)

    def remember(self, nonce: bytes, refuse_after_us: int, now_us: int) -> bool:
        """Return whether the nonce is new, and keep it until `refuse_after_us`.

        Raises:
            AuthError: the store is full, which only a flood of valid tokens can do.
        """
        minute = now_us // MINUTE_US
        if minute != self._minute:
            self._forget(minute)
        until = refuse_after_us // MINUTE_US + 1
        bucket = self._by_minute.get(until)
        if bucket is None:
            bucket = self._by_minute[until] = set()
        if nonce in bucket:
            return False
        if self._count >= MAX_REPLAY_ENTRIES:
            raise AuthError("replay_store_full", "too many credentials in the last minutes")
        bucket.add(nonce)
        self._count += 1
        self._append(self._RECORD.pack(until, nonce))
        return True

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __len__(self) -> int:
        return self._count

    def _forget(self, minute: int) -> None:
        """Drop what has passed; rewrite the file when that empties much of it."""
        self._minute = minute
        old = [until for until in self._by_minute if until < minute]
        for until in old:
            self._count -= len(self._by_minute.pop(until))
        if old or self._is_behind:
            self._try_rewrite()

    def _append(self, record: bytes) -> None:
        if self._descriptor < 0 or self._is_behind:
            return
        try:
            written = os.write(self._descriptor, record)
        except OSError as error:
            self._fell_behind(error.strerror or str(error))
        else:
            if written != len(record):
                self._fell_behind("half a record was written")

    def _fell_behind(self, why: str) -> None:
        self._is_behind = True
        if self._faults is not None:
            self._faults.note(
                "replay_store",
                f"{self._path}: {why}: used credentials are kept in memory only, and the file is "
                "tried again each minute",
            )

    def _try_rewrite(self) -> None:
        if self._path is None:
            return
        try:
            self._rewrite(self._path)
        except OSError as error:
            self._fell_behind(error.strerror or str(error))
        else:
            self._is_behind = False

    def _load(self, path: str) -> None:
        try:
            with open(path, "rb") as file:
                content = file.read()
        except FileNotFoundError:
            content = b""
        whole = len(content) - len(content) % self._RECORD.size
        for until, nonce in self._RECORD.iter_unpack(content[:whole]):
            if until >= self._minute:
                self._by_minute.setdefault(until, set()).add(nonce)
        self._count = sum(map(len, self._by_minute.values()))
        self._try_rewrite()

    def _rewrite(self, path: str) -> None:
        """Put all of memory into a new file in place of the old one, or leave that; OSError."""
        new = f"{path}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(new, flags, 0o600)
        try:
            with open(os.dup(descriptor), "wb") as file:
                for until, nonces in self._by_minute.items():
                    file.write(b"".join(self._RECORD.pack(until, nonce) for nonce in nonces))
            os.rename(new, path)
        except OSError:
            os.close(descriptor)
            with contextlib.suppress(OSError):
                os.unlink(new)  # half of it would only take room
            raise
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = descriptor


# --- auth/slurm ---------------------------------------------------------------------------


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
        cluster: ClusterName; tokens of other clusters are refused even with the same key.
        host: this host's name, put into tokens that are issued here.
        service_uid: SlurmUser.
        admin_hosts: hosts whose word for uid 0 and SlurmUser counts; None for every host.
        clock_us: wall clock, microseconds since the epoch.
        replay: store of nonces seen; own memory when None.
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
    ) -> None:
        self._key = key
        self._cluster = cluster
        self._host = host
        self._privileged = frozenset((0, service_uid))
        self._admin_hosts = admin_hosts
        self._clock_us = clock_us
        self._replay = ReplayStore(clock_us()) if replay is None else replay

    def issue(self, peer: Peer, audience: str, kind: str, digest: bytes) -> bytes:
        """Return a token that is good for 60 s, one message and one receiver."""
        now_us = self._clock_us()
        claims = _Claims(
            self._host, peer.role, peer.name, peer.uid, peer.gid, self._cluster, audience,
            kind, digest, os.urandom(NONCE_BYTES), now_us, now_us + TOKEN_LIFE_US,
        )  # fmt: skip
        signed = TOKEN_MAGIC + self._key.key_id + _claims_encoder.encode(claims)
        return signed + hmac.digest(self._key.token_key, signed, "sha256")

    def admit(self, credential: bytes, kind: str, audience: str) -> Admission:
        """Verify key, MAC, cluster, audience, kind, time, rights of the issuer, and novelty."""
        claims = self._open(credential)
        peer = Peer(claims.uid, claims.gid, 0, claims.role, claims.name, claims.host, "slurm")
        try:
            self._check(claims, kind, audience)
        except AuthError as error:
            error.peer = peer
            raise
        return Admission(peer, claims.digest)

    def _check(self, claims: _Claims, kind: str, audience: str) -> None:
        """Raise `AuthError` unless what was signed is meant for this message, here and now."""
        if claims.cluster != self._cluster:
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
        if not self._replay.remember(claims.nonce, claims.expires_us + MAX_SKEW_US, now_us):
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


def check_time(what: str, issued_us: int, expires_us: int, now_us: int) -> None:
    """Refuse what is older than its life or from the future, by more than `MAX_SKEW_US`.

    Raises:
        AuthError: with both times, so that its reader sees whose clock is wrong.
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


# --- job credentials ----------------------------------------------------------------------


class CredentialSigner(Protocol):
    """Signs what the controller allows a node to start, and proves it there."""

    def sign_credential(self, payload: bytes) -> bytes:
        """Return the payload with its proof."""

    def open_credential(self, blob: bytes) -> bytes:
        """Return the payload, or raise `AuthError` when the proof does not hold."""


class KeyCredentialSigner:
    """Job credentials by HMAC-SHA256 over the exact bytes, with a key of their own."""

    def __init__(self, key: Key) -> None:
        self._key = key

    def sign_credential(self, payload: bytes) -> bytes:
        """Return magic, key id, payload, MAC."""
        signed = CREDENTIAL_MAGIC + self._key.key_id + payload
        return signed + hmac.digest(self._key.credential_key, signed, "sha256")

    def open_credential(self, blob: bytes) -> bytes:
        """Return the payload; what it says (time, nodes, epoch) is the caller's to check."""
        start = len(CREDENTIAL_MAGIC) + KEY_ID_BYTES
        if len(blob) < start + MAC_BYTES or not blob.startswith(CREDENTIAL_MAGIC):
            raise AuthError("malformed_credential", "not a job credential")
        if blob[len(CREDENTIAL_MAGIC) : start] != self._key.key_id:
            raise AuthError("wrong_key", "job credential was made with another slurm.key")
        expected = hmac.digest(self._key.credential_key, blob[:-MAC_BYTES], "sha256")
        if not hmac.compare_digest(blob[-MAC_BYTES:], expected):
            raise AuthError("bad_signature", "job credential has a wrong signature")
        return blob[start:-MAC_BYTES]


# --- auth/munge ---------------------------------------------------------------------------


class MungeAuthenticator:
    """AuthType=auth/munge: munged names the uid, our payload binds it to one body.

    Args as `TokenAuthenticator`; `auth_info` is AuthInfo (its `socket=` names munged's socket).

    Raises:
        AuthError: munge's library is not installed.
    """

    def __init__(self, cluster: str, service_uid: int, auth_info: str = "", host: str = "") -> None:
        self._cluster = cluster
        self._host = host
        self._privileged = frozenset((0, service_uid))
        self._auth_info = auth_info
        if not munge.is_installed():
            raise AuthError(
                "no_munge",
                "AuthType=auth/munge: libmunge.so.2 cannot be loaded: install munge "
                "or set AuthType=auth/slurm",
            )

    def issue(self, peer: Peer, audience: str, kind: str, digest: bytes) -> bytes:
        """Return a munge credential of this process; nobody else's can be made."""
        if peer.uid != os.geteuid():
            raise AuthError("token_not_own", "AuthType=auth/munge: ask munge for a credential")
        try:
            return munge.encode_claims(
                self._auth_info, peer.role, peer.name, self._cluster, audience, kind, digest
            )
        except munge.MungeError as error:
            raise AuthError(error.cause, error.text) from None

    def admit(self, credential: bytes, kind: str, audience: str) -> Admission:
        """Let munge verify it, then compare what it was made for."""
        if not credential:
            raise AuthError("missing", "no credential")
        try:
            role, name, cluster, to, of_kind, digest, uid, gid = munge.decode_claims(
                self._auth_info, credential
            )
        except munge.MungeError as error:
            raise AuthError(error.cause, error.text) from None
        if cluster != self._cluster:
            raise AuthError("wrong_cluster", f"credential is for cluster {cluster!r:.64}")
        if to != audience:
            raise AuthError("wrong_audience", f"credential is for {to!r:.64}")
        if of_kind != kind:
            raise AuthError("wrong_kind", f"credential is for a {of_kind!r:.64} message")
        if role != "user" and (
            uid not in self._privileged or role not in ("node", "slurmctld", "slurmdbd")
        ):
            raise AuthError("role_not_own", f"uid {uid} cannot speak as {role!r:.16}")
        return Admission(Peer(uid, gid, 0, role, name, name, "munge"), digest)


class MungeCredentialSigner:
    """Job credentials as munge credentials of SlurmUser or root; their times are in the payload."""

    def __init__(self, service_uid: int, auth_info: str = "") -> None:
        self._privileged = frozenset((0, service_uid))
        self._auth_info = auth_info

    def sign_credential(self, payload: bytes) -> bytes:
        """Return a munge credential over the payload."""
        try:
            return munge.encode(self._auth_info, CREDENTIAL_MAGIC + payload)
        except munge.MungeError as error:
            raise AuthError(error.cause, error.text) from None

    def open_credential(self, blob: bytes) -> bytes:
        """Return the payload of what root or SlurmUser signed."""
        try:
            payload, uid, _ = munge.decode(self._auth_info, blob, accept_used=True)
        except munge.MungeError as error:
            raise AuthError(error.cause, error.text) from None
        if uid not in self._privileged:
            raise AuthError("role_not_own", f"uid {uid} cannot sign job credentials")
        if not payload.startswith(CREDENTIAL_MAGIC):
            raise AuthError("malformed_credential", "not a job credential")
        return payload[len(CREDENTIAL_MAGIC) :]


# --- by configuration ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Identity:
    """What a daemon proves itself with, and checks others with.

    `link_key` is the secret key of the controller's ZeroMQ port; b"" where daemons share no key
    and connections are open to everybody (auth/munge).
    """

    authenticator: Authenticator
    signer: CredentialSigner
    peer: Peer
    link_key: bytes = b""


def load_identity(
    *,
    role: str,
    name: str,
    auth_type: str,
    auth_info: str,
    key_path: str,
    cluster: str,
    host: str,
    service_uid: int,
    clock_us: Callable[[], int],
    admin_hosts: frozenset[str] | None = None,
    replay_path: str | None = None,
    faults: Faults | None = None,
) -> Identity:
    """Return a daemon's identity by AuthType.

    Args:
        role: slurmctld, slurmdbd or node; `name` is the node's name for a node, else the host's.
        key_path: slurm.key, used by auth/slurm.
        admin_hosts: see `TokenAuthenticator`; AuthInfo=admin_hosts=a:b adds to them.
        replay_path: file of nonces seen, in the daemon's state directory.
        faults: hears of a file of nonces that cannot be written.

    Raises:
        KeyFileError: the key cannot be used as it lies there.
        AuthError: munge is asked for and not installed, or AuthType is neither of the two.
    """
    peer = Peer(os.geteuid(), os.getegid(), 0, role, name, host, "own")
    if auth_type == "auth/munge":
        return Identity(
            MungeAuthenticator(cluster, service_uid, auth_info, host),
            MungeCredentialSigner(service_uid, auth_info),
            peer,
        )
    if auth_type != "auth/slurm":
        raise AuthError("auth_type", f"AuthType={auth_type}: auth/munge and auth/slurm are allowed")
    key = load_key(key_path, service_uid)
    if admin_hosts is not None:
        admin_hosts |= extra_admin_hosts(auth_info)
    replay = ReplayStore(clock_us(), replay_path, faults)
    return Identity(
        TokenAuthenticator(key, cluster, host, service_uid, clock_us, admin_hosts, replay),
        KeyCredentialSigner(key),
        peer,
        key.link_key,
    )


def extra_admin_hosts(auth_info: str) -> frozenset[str]:
    """Return the hosts of AuthInfo=admin_hosts=a:b."""
    for word in auth_info.split(","):
        key, _, value = word.strip().partition("=")
        if key.lower() == "admin_hosts":
            return frozenset(value.split(":"))
    return frozenset()
