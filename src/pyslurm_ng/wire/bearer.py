"""Bearer tokens as credentials: AuthAltTypes=auth/jwt, `SLURM_JWT`, X-SLURM-USER-TOKEN.

The receiving daemon verifies a token (`wire.auth_jwt`); others only pass it on. Every
command may import this, so the rules of `wire.client` for imports hold here, too.
"""

from __future__ import annotations

from pyslurm_ng.kernels.records import pack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BEARER_MAGIC = b"pJ1"
"""The first bytes of a credential that is a token."""
MOST_TOKEN_BYTES = 8192
"""Tokens of OpenID providers with many groups have some thousand bytes."""


def bearer_credential(token: str, user: str = "") -> bytes:
    """Return a credential of a token; `user` is whom its owner wants to act as, "" for itself."""
    return BEARER_MAGIC + pack([token, user])


def claimed_user(token: str, claim: str = "") -> str:
    """Return the user that a token claims to be of, without believing it; "" if it names none.

    `claim` is the claim that userclaimfield names.
    """
    claims = _claims(token)
    for name in (claim,) if claim else ("sun", "username"):
        if isinstance(claims.get(name), str):
            return str(claims[name])[:64]
    return ""


def claimed_end_s(token: str) -> float:
    """Return the time, in seconds since 1970, at which a token says that it ends.

    It is the end once a daemon has believed the token; of what has none, no time is too late.
    """
    end = _claims(token).get("exp")
    if not isinstance(end, int | float) or isinstance(end, bool):
        return float("inf")
    return float(min(end, 1e15))


def _claims(token: str) -> dict[str, Any]:
    """Return what a token says, unverified; nothing if it is none."""
    from binascii import Error, a2b_base64
    from json import loads

    parts = token.split(".")
    if len(parts) != 3:
        return {}
    text = parts[1].replace("-", "+").replace("_", "/")
    try:
        claims = loads(a2b_base64(text + "=" * (-len(text) % 4)))
    except (Error, ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}
