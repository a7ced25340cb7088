"""A daemon's identity: how it proves itself and checks others, by AuthType."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.wire.auth import Authenticator, AuthError, CredentialSigner, Peer
from pyslurm_ng.wire.auth_jwt import (
    DEFAULT_KEY,
    BearerAuthenticator,
    JwtVerifier,
    load_verifier,
    settings_of,
)
from pyslurm_ng.wire.auth_munge import MungeAuthenticator, MungeCredentialSigner
from pyslurm_ng.wire.auth_slurm import KeyCredentialSigner, TokenAuthenticator, load_key
from pyslurm_ng.wire.replay_store import ReplayStore


@dataclass(frozen=True, slots=True)
class Identity:
    """How a daemon proves itself and checks others.

    `link_key` is the secret key of the controller's ZeroMQ port; b"" where daemons share no key
    and any host may connect (auth/munge). `tokens` verifies and makes tokens, None without
    AuthAltTypes=auth/jwt.
    """

    authenticator: Authenticator
    signer: CredentialSigner
    peer: Peer
    link_key: bytes = b""
    tokens: JwtVerifier | None = None


@dataclass(frozen=True, slots=True)
class AltAuth:
    """AuthAltTypes and AuthAltParameters; `directory` is where jwt_hs256.key lies by default."""

    types: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    directory: str = ""


def with_tokens(
    identity: Identity,
    alt: AltAuth,
    *,
    cluster: str,
    service_uid: int,
    clock_us: Callable[[], int],
) -> Identity:
    """Return an identity that accepts tokens, too, if AuthAltTypes says so.

    Raises:
        KeyFileError: a key cannot be used as it lies there.
        AuthError: a parameter is wrong, or PyJWT is not installed.
    """
    if "auth/jwt" not in alt.types:
        return identity
    default_key = os.path.join(alt.directory, DEFAULT_KEY) if alt.directory else ""
    settings = settings_of(alt.parameters, default_key)
    verifier = load_verifier(settings, service_uid, clock_us)
    authenticator = BearerAuthenticator(identity.authenticator, verifier, cluster)
    return replace(identity, authenticator=authenticator, tokens=verifier)


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
    serves_all: bool = False,
) -> Identity:
    """Return a daemon's identity by AuthType.

    Args:
        role: slurmctld, slurmdbd or node; `name` is the node's name for a node, else the host's.
        key_path: slurm.key, used by auth/slurm.
        admin_hosts: see `TokenAuthenticator`; AuthInfo=admin_hosts=a:b adds to them.
        replay_path: file of nonces seen, in the daemon's state directory.
        faults: hears of a file of nonces that cannot be written.
        serves_all: see `TokenAuthenticator`.

    Raises:
        KeyFileError: the key cannot be used as it lies there.
        AuthError: munge is asked for and not installed, or AuthType is neither of the two.
    """
    peer = Peer(os.geteuid(), os.getegid(), 0, role, name, host, "own")
    if auth_type == "auth/munge":
        return Identity(
            MungeAuthenticator(cluster, service_uid, auth_info, host, serves_all=serves_all),
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
        TokenAuthenticator(
            key, cluster, host, service_uid, clock_us, admin_hosts, replay, serves_all=serves_all
        ),
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
