"""Who asks, from the headers or the socket of a request; the daemons verify tokens themselves."""

from __future__ import annotations

import functools
import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.data_parser.records import user_name
from pyslurm_ng.web.refusal import BAD_REQUEST, UNAUTHORIZED, Refusal
from pyslurm_ng.wire.bearer import MOST_TOKEN_BYTES, bearer_credential, claimed_end_s, claimed_user

LOCAL, JWT = "rest_auth/local", "rest_auth/jwt"
KINDS = (LOCAL, JWT)
_SOURCE = "slurmrestd"


@dataclass(frozen=True)
class Requester:
    """Who a request is for.

    `credential` is what the daemons are shown, b"" for this process's own user. `name` is what a
    token claims; it is nobody's until a daemon has accepted the token (`is_known`), and
    so is `until_s`, the time at which the token ends, in seconds since 1970.
    """

    kind: str
    name: str
    credential: bytes = b""
    group: str = ""
    is_known: bool = False
    until_s: float = inf

    @property
    def share(self) -> bytes:
        """Whose room a request takes: a user's, b"" for all together who are not believed."""
        if not self.is_known:
            return b""
        return self.name.encode("utf-8", "replace") or self.credential


@dataclass(frozen=True)
class SocketPeer:
    """The process at the other end of a Unix socket."""

    uid: int
    gid: int
    pid: int


def requester_of(
    headers: Mapping[str, str], peer: SocketPeer | None, kinds: frozenset[str], claim: str = ""
) -> Requester:
    """Return who asks.

    Args:
        claim: the claim that names a token's user, "" for the usual ones.

    Raises:
        Refusal: nobody who may ask, or a token that is none.
    """
    token = token_of(headers)
    name = headers.get("x-slurm-user-name", "")
    if token:
        if JWT not in kinds:
            raise _refused("tokens are not accepted here: slurmrestd -a rest_auth/jwt")
        return _token_requester(token, name, claim)
    if peer is not None and LOCAL in kinds:
        return _local_requester(peer, name)
    raise _refused("no X-SLURM-USER-TOKEN")


def token_of(headers: Mapping[str, str]) -> str:
    """Return the token that a request shows, "" for none."""
    token = headers.get("x-slurm-user-token", "")
    scheme, _, bearer = headers.get("authorization", "").partition(" ")
    if not token and scheme.lower() == "bearer":
        token = bearer.strip()
    return token


def _token_requester(token: str, name: str, claim: str) -> Requester:
    if len(token) > MOST_TOKEN_BYTES or not token.isascii() or not token.isprintable():
        raise Refusal(
            BAD_REQUEST,
            f"X-SLURM-USER-TOKEN: at most {MOST_TOKEN_BYTES} printable ASCII characters",
            Errno.ESLURM_AUTH_CRED_INVALID,
            _SOURCE,
        )
    if len(name) > 255 or not name.isprintable():
        raise Refusal(
            BAD_REQUEST, "X-SLURM-USER-NAME: no user's name", Errno.ESLURM_USER_ID_MISSING, _SOURCE
        )
    return Requester(
        JWT,
        name or claimed_user(token, claim),
        bearer_credential(token, name),
        until_s=claimed_end_s(token),
    )


def _local_requester(peer: SocketPeer, name: str) -> Requester:
    """Return this process's user, if it asks; root may use whatever runs here."""
    own = os.geteuid()
    own_name, own_group = _own(own)
    if peer.uid not in (0, own):
        raise _refused(f"uid {peer.uid}: this slurmrestd acts for {own_name} only; use a token")
    if name and name != own_name:
        raise _refused(f"X-SLURM-USER-NAME: {name[:64]!r} needs a token")
    return Requester(LOCAL, own_name, group=own_group, is_known=True)


@functools.cache
def _own(uid: int) -> tuple[str, str]:
    """Return name and group of this process's user: the directory is asked once."""
    name = user_name(uid)
    return name, group_name_of(name)


def _refused(text: str) -> Refusal:
    return Refusal(
        UNAUTHORIZED,
        f"Authentication failure: {text}",
        Errno.SLURM_PROTOCOL_AUTHENTICATION_ERROR,
        _SOURCE,
    )


def group_name_of(name: str) -> str:
    """Return the name of a user's own group, "" if it is not known; may block."""
    import grp

    try:
        return grp.getgrgid(pwd.getpwnam(name).pw_gid).gr_name
    except (KeyError, ValueError, OverflowError):
        return ""
