"""Bearer tokens as credentials: AuthAltTypes=auth/jwt, `SLURM_JWT`, X-SLURM-USER-TOKEN.

The receiving daemon verifies a token (`wire.auth_jwt`); others only pass it on. Every
command may import this, so the rules of `wire.client` for imports hold here, too.
"""

from pyslurm_ng.kernels.records import pack

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
    from binascii import Error, a2b_base64
    from json import loads

    parts = token.split(".")
    if len(parts) != 3:
        return ""
    text = parts[1].replace("-", "+").replace("_", "/")
    try:
        claims = loads(a2b_base64(text + "=" * (-len(text) % 4)))
    except (Error, ValueError, RecursionError):
        return ""
    if not isinstance(claims, dict):
        return ""
    for name in (claim,) if claim else ("sun", "username"):
        if isinstance(claims.get(name), str):
            return str(claims[name])[:64]
    return ""
