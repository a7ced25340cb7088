"""AuthType=auth/munge: requests and job credentials as munge credentials (`wire.munge`)."""

from __future__ import annotations

import os

from pyslurm_ng.wire import munge
from pyslurm_ng.wire.auth import CREDENTIAL_MAGIC, Admission, AuthError, Peer


class MungeAuthenticator:
    """AuthType=auth/munge: munged names the uid, our payload binds it to one body.

    Args as `TokenAuthenticator`; `auth_info` is AuthInfo (its `socket=` names munged's socket).

    Raises:
        AuthError: munge's library is not installed.
    """

    def __init__(
        self,
        cluster: str,
        service_uid: int,
        auth_info: str = "",
        host: str = "",
        *,
        serves_all: bool = False,
    ) -> None:
        self._cluster = cluster
        self._serves_all = serves_all
        self._host = host
        self._privileged = frozenset((0, service_uid))
        self._auth_info = auth_info
        if not munge.is_installed():
            raise AuthError(
                "no_munge",
                "AuthType=auth/munge: libmunge.so.2 cannot be loaded: install munge "
                "or set AuthType=auth/slurm",
            )

    def issue(
        self, peer: Peer, audience: str, kind: str, digest: bytes, cluster: str = ""
    ) -> bytes:
        """Return a munge credential of this process; munge makes none for another user."""
        if peer.uid != os.geteuid():
            raise AuthError("token_not_own", "AuthType=auth/munge: ask munge for a credential")
        try:
            return munge.encode_claims(
                self._auth_info, peer.role, peer.name, cluster or self._cluster, audience, kind,
                digest,
            )  # fmt: skip
        except munge.MungeError as error:
            raise AuthError(error.cause, error.text) from None

    def admit(self, credential: bytes, kind: str, audience: str) -> Admission:
        """Let munge verify a credential, then compare the request that it was made for."""
        if not credential:
            raise AuthError("missing", "no credential")
        try:
            role, name, cluster, to, of_kind, digest, uid, gid = munge.decode_claims(
                self._auth_info, credential
            )
        except munge.MungeError as error:
            raise AuthError(error.cause, error.text) from None
        if cluster != self._cluster and not self._serves_all:
            raise AuthError("wrong_cluster", f"credential is for cluster {cluster!r:.64}")
        if to != audience:
            raise AuthError("wrong_audience", f"credential is for {to!r:.64}")
        if of_kind != kind:
            raise AuthError("wrong_kind", f"credential is for a {of_kind!r:.64} message")
        if role != "user" and (
            uid not in self._privileged or role not in ("node", "slurmctld", "slurmdbd")
        ):
            raise AuthError("role_not_own", f"uid {uid} cannot speak as {role!r:.16}")
        return Admission(Peer(uid, gid, 0, role, name, name, "munge", cluster), digest)


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
        """Return the payload, if root or SlurmUser signed it."""
        try:
            payload, uid, _ = munge.decode(self._auth_info, blob, accept_used=True)
        except munge.MungeError as error:
            raise AuthError(error.cause, error.text) from None
        if uid not in self._privileged:
            raise AuthError("role_not_own", f"uid {uid} cannot sign job credentials")
        if not payload.startswith(CREDENTIAL_MAGIC):
            raise AuthError("malformed_credential", "not a job credential")
        return payload[len(CREDENTIAL_MAGIC) :]
