"""Tokens of auth/jwt: what is believed, and what an attacker may try."""

from __future__ import annotations

import base64
import hmac
import json
import os
import pwd
from math import inf
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.wire.auth import Admission, Authenticator, AuthError, Peer
from pyslurm_ng.wire.auth_jwt import (
    LONGEST_LIFE_S,
    BearerAuthenticator,
    JwtSettings,
    JwtVerifier,
    load_verifier,
    settings_of,
)
from pyslurm_ng.wire.auth_slurm import KeyFileError
from pyslurm_ng.wire.bearer import MOST_TOKEN_BYTES, bearer_credential, claimed_end_s, claimed_user

NOW_S = 1_800_000_000
SECRET = b"0123456789abcdef0123456789abcdef"
SERVICE_UID = 64030


def clock_us() -> int:
    return NOW_S * SECOND_US


def verifier(**settings: Any) -> JwtVerifier:
    return JwtVerifier(JwtSettings(**settings), SERVICE_UID, clock_us, SECRET)


def signed(claims: dict[str, Any], secret: bytes = SECRET, algorithm: str = "HS256") -> str:
    return jwt.encode(claims, secret, algorithm=algorithm)


def usual(**more: Any) -> dict[str, Any]:
    return {"exp": NOW_S + 100, "iat": NOW_S, "sun": "nobody", **more}


def raw(head: Any, claims: Any, key: bytes = SECRET) -> str:
    """Return a token with any head, signed by HMAC."""
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (head, claims)
    ]
    text = b".".join(parts)
    mac = base64.urlsafe_b64encode(hmac.digest(key, text, "sha256")).rstrip(b"=")
    return (text + b"." + mac).decode()


def test_a_token_that_was_made_is_believed() -> None:
    """As SLURM_JWT of scontrol token."""
    tokens = verifier()
    assert tokens.user_of(tokens.make("nobody", 60)) == "nobody"
    assert tokens.user_of(signed(usual())) == "nobody"


@pytest.mark.parametrize(
    "token",
    [
        "", ".", "..", "a.b.c", "x" * 100, "\x00.\x00.\x00",
        signed(usual(), b"another key, which is also 32 byte"),
        signed(usual(exp=NOW_S - 11)),
        signed(usual(nbf=NOW_S + 11)),
        signed({"sun": "nobody"}),
        signed(usual(exp="tomorrow")),
        raw({"alg": "HS256"}, usual(exp=True)),
        raw({"alg": "HS256"}, usual(exp=float("inf"))),
        raw({"alg": "HS256"}, usual(exp=float("nan"))),
        signed(usual(sun=["nobody"])),
        signed(usual(sun="")),
        signed(usual(sun="no\nbody")),
        signed(usual(sun="x" * 256)),
        signed({"exp": NOW_S + 100}),
        jwt.encode(usual(), None, algorithm="none"),
        raw({"alg": "none"}, usual()),
        raw({"alg": "NONE"}, usual()),
        raw({"alg": ["HS256"]}, usual()),
        raw({"alg": "RS256"}, usual()),
        raw({"alg": "HS512"}, usual()),
        raw({"alg": "HS256", "crit": ["exp"]}, usual()),
        raw({"alg": "HS256", "b64": False, "crit": ["b64"]}, usual()),
        raw([], usual()),
        raw({"alg": "HS256"}, []),
        signed(usual())[:-2],
        signed(usual()) + "A" * MOST_TOKEN_BYTES,
    ],
)  # fmt: skip
def test_what_is_not_believed(token: str) -> None:
    """RELIABILITY 55 and 67: a refusal that is counted, and no other user."""
    with pytest.raises(AuthError):
        verifier().user_of(token)


def test_each_byte_counts() -> None:
    """A token that was altered anywhere is nobody's."""
    token = signed(usual())
    for index, char in enumerate(token):
        altered = token[:index] + ("A" if char != "A" else "B") + token[index + 1 :]
        try:
            assert verifier().user_of(altered) == "nobody"
        except AuthError:
            continue
        # The last bits of base64 carry nothing.
        assert index == len(token) - 1


def key_pair() -> tuple[Any, dict[str, Any]]:
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(private.public_key()))
    return private, {**public, "kid": "one", "alg": "RS256", "use": "sig"}


def jwks(tmp_path: Path, *rows: dict[str, Any]) -> str:
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps({"keys": list(rows)}))
    path.chmod(0o644)
    return str(path)


def test_tokens_of_a_provider(tmp_path: Path) -> None:
    """Their user is in the claim that userclaimfield names."""
    private, row = key_pair()
    other, _ = key_pair()
    settings = settings_of([f"jwks={jwks(tmp_path, row)}", "userclaimfield=preferred"], "")
    tokens = load_verifier(settings, SERVICE_UID, clock_us)
    claims = {"exp": NOW_S + 5, "preferred": "nobody", "sun": "root"}

    def rs256(key: Any, kid: str = "one") -> str:
        return jwt.encode(claims, key, algorithm="RS256", headers={"kid": kid})

    assert tokens.user_of(rs256(private)) == "nobody"
    for token in (
        rs256(other),
        rs256(private, "two"),
        signed(claims),
        raw({"alg": "none"}, claims),
    ):
        with pytest.raises(AuthError):
            tokens.user_of(token)
    with pytest.raises(AuthError, match="no jwt_key"):
        tokens.make("nobody", 60)


def test_a_public_key_is_no_secret(tmp_path: Path) -> None:
    """The classic: HS256 with the public key, which everybody knows."""
    private, row = key_pair()
    tokens = load_verifier(settings_of([f"jwks={jwks(tmp_path, row)}"], ""), SERVICE_UID, clock_us)
    public = private.public_key()
    for form in (serialization.Encoding.PEM, serialization.Encoding.DER):
        known = public.public_bytes(form, serialization.PublicFormat.SubjectPublicKeyInfo)
        for head in ({"alg": "HS256", "kid": "one"}, {"alg": "RS256", "kid": "one"}):
            with pytest.raises(AuthError):
                tokens.user_of(raw(head, usual(), known))


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"keys": []}', '{"keys": [1]}', '{"keys": 1}'])
def test_a_jwks_that_is_none(tmp_path: Path, text: str) -> None:
    """The daemon says so at its start."""
    path = tmp_path / "jwks.json"
    path.write_text(text)
    with pytest.raises(KeyFileError):
        load_verifier(JwtSettings(jwks_path=str(path)), SERVICE_UID, clock_us)


def test_a_key_that_others_may_read(tmp_path: Path) -> None:
    """Whoever reads it is everybody."""
    path = tmp_path / "jwt_hs256.key"
    path.write_bytes(SECRET)
    path.chmod(0o644)
    with pytest.raises(KeyFileError, match="mode 0644"):
        load_verifier(JwtSettings(key_path=str(path)), os.geteuid(), clock_us)


def test_who_may_act_for_others() -> None:
    """RELIABILITY 67: root and SlurmUser, as a portal in front needs it; nobody else."""
    tokens = verifier()
    nobody = pwd.getpwnam("nobody")
    assert tokens.peer_of(signed(usual()), "", "c").uid == nobody.pw_uid
    assert tokens.peer_of(signed(usual()), "nobody", "c").uid == nobody.pw_uid
    with pytest.raises(AuthError) as refused:
        tokens.peer_of(signed(usual()), "root", "c")
    assert refused.value.cause == "not_their_token"
    assert tokens.peer_of(signed(usual(sun="root")), "nobody", "c").uid == nobody.pw_uid
    with pytest.raises(AuthError, match="not known"):
        tokens.peer_of(signed(usual(sun="root")), "no such user", "c")
    with pytest.raises(AuthError, match="not known"):
        tokens.peer_of(signed(usual(sun="0")), "", "c")


class Usual:
    """Accepts every credential as root's."""

    def issue(
        self, peer: Peer, audience: str, kind: str, digest: bytes, cluster: str = ""
    ) -> bytes:
        return b"credential"

    def admit(self, credential: bytes, kind: str, audience: str) -> Admission:
        return Admission(Peer(0, 0, 0, "user", "h", "h", "slurm"), b"")


def test_tokens_stand_beside_the_usual_credentials() -> None:
    """The form of the credential says which it is."""
    authenticator: Authenticator = BearerAuthenticator(Usual(), verifier(), "c")
    assert authenticator.admit(b"pT1...", "Ping", "slurmctld").peer.via == "slurm"
    peer = authenticator.admit(bearer_credential(signed(usual())), "Ping", "slurmctld").peer
    assert (peer.via, peer.uid, peer.role) == ("jwt", pwd.getpwnam("nobody").pw_uid, "user")
    with pytest.raises(AuthError):
        authenticator.issue(peer, "slurmctld", "Ping", b"")
    for credential in (b"pJ1", b"pJ1\xff", b"pJ1\x93\x01\x02\x03", b"pJ1\x92\xa0\xa0"):
        with pytest.raises(AuthError):
            authenticator.admit(credential, "Ping", "slurmctld")


def test_settings() -> None:
    """AuthAltParameters, word by word."""
    settings = settings_of(
        ["jwt_key=/k", "disable_token_creation", "max_token_lifespan=60", "userclaimfield=u"], ""
    )
    assert settings == JwtSettings("/k", "", "u", 60, users_may_create=False)
    assert settings_of([], "/state/jwt_hs256.key").key_path == "/state/jwt_hs256.key"
    assert settings_of([], "/k").longest_s == LONGEST_LIFE_S
    with pytest.raises(AuthError):
        settings_of([], "")
    with pytest.raises(AuthError):
        settings_of(["max_token_lifespan=soon"], "/k")


@pytest.mark.parametrize("end", [NOW_S + 100, NOW_S + 100.5, 1e300, 10**4000])
def test_when_a_token_ends_is_told(end: float) -> None:
    """By that, answers that go on for long end with it."""
    peer = verifier().peer_of(signed({"sun": "nobody", "exp": end}), "", "demo")
    assert peer.until_us == int(min(end, 2**40) * SECOND_US)


@pytest.mark.parametrize(
    ("claims", "end_s"),
    [({"exp": 7}, 7), ({"exp": 1e300}, 1e15), ({}, inf), ({"exp": "7"}, inf), ([], inf)],
)
def test_the_end_that_a_token_names(claims: Any, end_s: float) -> None:
    """slurmrestd has no key; the end holds once a daemon has believed the token."""
    assert claimed_end_s(raw({}, claims)) == end_s
    assert claimed_end_s("a.b") == inf


def test_what_a_token_claims_is_for_display_only() -> None:
    """It is read without a key, and never raises."""
    assert claimed_user(signed(usual())) == "nobody"
    for token in ("", "a.b.c", "..", "a.\xff.c", raw({}, [1]), raw({}, {"sun": 3})):
        assert claimed_user(token) == ""
