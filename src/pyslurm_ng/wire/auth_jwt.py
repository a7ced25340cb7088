"""AuthAltTypes=auth/jwt: tokens of `scontrol token` (HS256) and of an OpenID provider (RS256).

A program that holds a token acts as its user until the token expires. The algorithm is that of the
key, never that of the token alone: HS256 is tried with the secret key only, RS256 with the public
keys of the JWKS only, and no other is known.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import msgspec

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.wire.auth import Admission, Authenticator, AuthError, Peer
from pyslurm_ng.wire.auth_slurm import KeyFileError, read_secret
from pyslurm_ng.wire.bearer import BEARER_MAGIC, MOST_TOKEN_BYTES
from pyslurm_ng.wire.user_ids import UserIds

HS256, RS256 = "HS256", "RS256"
DEFAULT_KEY = "jwt_hs256.key"
LEEWAY_S = 10
DEFAULT_LIFE_S = 1800
LONGEST_LIFE_S = 100 * 365 * 86400
"""What `lifespan=infinite` means."""
_LATEST_S = 1 << 40
MOST_JWKS_BYTES = 1 << 20
MOST_KEYS = 100
MOST_NAME = 255
_USUAL_CLAIMS = ("sun", "username")

_wrapped = msgspec.msgpack.Decoder(tuple[str, str])


@dataclass(frozen=True)
class JwtSettings:
    """AuthAltParameters: files and rules."""

    key_path: str = ""
    jwks_path: str = ""
    claim: str = ""
    longest_s: int = LONGEST_LIFE_S
    users_may_create: bool = True


def settings_of(parameters: Sequence[str], default_key: str) -> JwtSettings:
    """Return the settings in AuthAltParameters.

    Args:
        default_key: the secret key's file if neither jwt_key nor jwks is given; "" for none.

    Raises:
        AuthError: a word without its value.
    """
    values: dict[str, str] = {}
    for word in parameters:
        name, _, value = word.strip().partition("=")
        values[name.lower()] = value
    longest = values.get("max_token_lifespan", "") or str(LONGEST_LIFE_S)
    if not (longest.isdecimal() and longest.isascii() and 0 < int(longest) <= LONGEST_LIFE_S):
        raise AuthError("auth_type", f"AuthAltParameters=max_token_lifespan={longest}: seconds")
    jwks, key = values.get("jwks", ""), values.get("jwt_key", "")
    if not key and not jwks:
        key = default_key
    if not key and not jwks:
        raise AuthError("auth_type", "AuthAltParameters: jwt_key= or jwks= is needed")
    return JwtSettings(
        key, jwks, values.get("userclaimfield", ""), int(longest),
        users_may_create="disable_token_creation" not in values,
    )  # fmt: skip


@dataclass
class JwtVerifier:
    """Verifies tokens and makes them; `keys` are the JWKS' public keys by their id."""

    settings: JwtSettings
    service_uid: int
    clock_us: Callable[[], int]
    secret: bytes = b""
    keys: dict[str, Any] = field(default_factory=dict)
    users: UserIds = field(init=False)

    def __post_init__(self) -> None:
        self.users = UserIds(self.clock_us)

    def user_of(self, token: str) -> str:
        """Return the user that a valid token is of.

        Raises:
            AuthError: not signed by a key of ours, expired, or of nobody.
        """
        return self._name_in(self._claims(token))

    def _name_in(self, claims: dict[str, Any]) -> str:
        names = (self.settings.claim,) if self.settings.claim else _USUAL_CLAIMS
        name = next((claims[key] for key in names if key in claims), None)
        if not isinstance(name, str) or not 0 < len(name) <= MOST_NAME or not name.isprintable():
            raise AuthError("bad_token", f"token has no {' or '.join(names)}")
        return name

    def _claims(self, token: str) -> dict[str, Any]:
        import jwt

        if len(token) > MOST_TOKEN_BYTES:
            raise AuthError("bad_token", f"token is longer than {MOST_TOKEN_BYTES} bytes")
        try:
            head = jwt.get_unverified_header(token)
            algorithm, key = self._key(head)
            # Times are checked below, by the daemon's clock.
            claims = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                options={
                    "require": ["exp"], "verify_aud": False, "verify_exp": False,
                    "verify_nbf": False, "verify_iat": False, "verify_sub": False,
                    "verify_jti": False,
                },
            )  # fmt: skip
        except jwt.PyJWTError as error:
            raise AuthError("bad_token", f"token is not valid: {str(error)[:100]}") from None
        except (ValueError, TypeError, RecursionError, OverflowError):
            raise AuthError("bad_token", "token is not valid") from None
        self._check_times(claims)
        return dict(claims)

    def _check_times(self, claims: dict[str, Any]) -> None:
        """Raise AuthError unless the token holds now."""
        now_s = self.clock_us() / SECOND_US
        for name in ("exp", "nbf"):
            when = claims.get(name)
            if when is None and name == "nbf":
                continue
            if isinstance(when, bool) or not isinstance(when, int | float):
                raise AuthError("bad_token", f"token has no valid {name}")
            if not -inf < when < inf:  # an integer may be longer than any float
                raise AuthError("bad_token", f"token has no valid {name}")
            if name == "exp" and when < now_s - LEEWAY_S:
                raise AuthError("expired", "token is expired")
            if name == "nbf" and when > now_s + LEEWAY_S:
                raise AuthError("from_future", "token is not valid yet")

    def _key(self, head: dict[str, Any]) -> tuple[str, Any]:
        """Return the algorithm and the key that a token may have been signed with."""
        algorithm = head.get("alg")
        if algorithm == HS256 and self.secret:
            return HS256, self.secret
        if algorithm == RS256 and self.keys:
            name = head.get("kid", "")
            key = self.keys.get(name) if isinstance(name, str) else None
            if key is None and len(self.keys) == 1 and "kid" not in head:
                key = next(iter(self.keys.values()))
            if key is not None:
                return RS256, key
            raise AuthError("bad_token", "token names a key that is not in the JWKS")
        shown = algorithm if isinstance(algorithm, str) else ""
        raise AuthError("bad_token", f"token has algorithm {shown[:16]!r}, which is not accepted")

    def peer_of(self, token: str, user: str, cluster: str) -> Peer:
        """Return whom a token acts for: its user, or the user that root or SlurmUser names.

        Raises:
            NotKnownYet: a user is being looked up.
            AuthError: an invalid token, an unknown user, or one that may not act for another.
        """
        claims = self._claims(token)
        owner = self._name_in(claims)
        uid, gid = self.users.of(owner)
        if user and user != owner:
            if uid not in (0, self.service_uid):
                raise AuthError("not_their_token", f"the token of {owner} may not act as {user!r}")
            uid, gid = self.users.of(user)
        until_us = int(min(claims["exp"], _LATEST_S) * SECOND_US)
        return Peer(uid, gid, 0, "user", "jwt", "jwt", "jwt", cluster, until_us)

    def make(self, user: str, life_s: int) -> str:
        """Return a new token of a user.

        Raises:
            AuthError: there is no secret key: tokens come from the provider.
        """
        import jwt

        if not self.secret:
            raise AuthError("auth_type", "there is no jwt_key: tokens come from the JWKS' provider")
        now_s = self.clock_us() // SECOND_US
        claims = {"exp": now_s + life_s, "iat": now_s, "sun": user}
        return jwt.encode(claims, self.secret, algorithm=HS256)


def load_verifier(
    settings: JwtSettings, service_uid: int, clock_us: Callable[[], int]
) -> JwtVerifier:
    """Return a verifier with the keys of the files.

    Raises:
        KeyFileError: a file cannot be used as it lies there.
        AuthError: PyJWT is not installed.
    """
    try:
        import jwt  # noqa: F401
    except ImportError:
        raise AuthError(
            "auth_type",
            "AuthAltTypes=auth/jwt: PyJWT is not installed: pip install pyslurm-ng[web]",
        ) from None
    secret = read_secret(settings.key_path, service_uid) if settings.key_path else b""
    keys = _load_jwks(settings.jwks_path, service_uid) if settings.jwks_path else {}
    return JwtVerifier(settings, service_uid, clock_us, secret, keys)


def _load_jwks(path: str, service_uid: int) -> dict[str, Any]:
    """Return the RSA keys of a JWKS file by their id."""
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    try:
        with open(path, "rb") as stream:
            status = os.fstat(stream.fileno())
            if status.st_mode & 0o022 or status.st_uid not in (0, service_uid, os.geteuid()):
                raise KeyFileError(f"{path}: writable by others than root and SlurmUser")
            document = json.loads(stream.read(MOST_JWKS_BYTES))
        rows = document["keys"]
        keys = {
            str(row["kid"]): PyJWK.from_dict(row, algorithm=RS256).key
            for row in rows[:MOST_KEYS]
            if row.get("kty") == "RSA" and row.get("alg", RS256) == RS256
        }
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, PyJWTError, RecursionError):
        raise KeyFileError(f'{path}: no JWKS: {{"keys": [...]}} with RSA keys and kid') from None
    if not keys:
        raise KeyFileError(f"{path}: no RSA key for RS256")
    return keys


class BearerAuthenticator:
    """Accepts tokens beside the credentials of AuthType."""

    def __init__(self, usual: Authenticator, verifier: JwtVerifier, cluster: str) -> None:
        self._usual = usual
        self._verifier = verifier
        self._cluster = cluster

    def issue(
        self, peer: Peer, audience: str, kind: str, digest: bytes, cluster: str = ""
    ) -> bytes:
        """Return a credential as AuthType makes it.

        Raises:
            AuthError: a token's owner asks: a credential would outlive the token.
        """
        if peer.via == "jwt":
            raise AuthError("bad_token", "credentials are not issued for tokens")
        return self._usual.issue(peer, audience, kind, digest, cluster)

    def admit(self, credential: bytes, kind: str, audience: str) -> Admission:
        """Return the sender, by the form of the credential."""
        if not credential.startswith(BEARER_MAGIC):
            return self._usual.admit(credential, kind, audience)
        try:
            token, user = _wrapped.decode(credential[len(BEARER_MAGIC) :])
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise AuthError("bad_token", "no token") from None
        if len(user) > MOST_NAME or not user.isprintable():
            raise AuthError("unknown_user", "no user's name")
        return Admission(self._verifier.peer_of(token, user, self._cluster), None)
