"""`scontrol token`: who may make tokens for whom; which daemons take them."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.ctld.tokens import Tokens
from pyslurm_ng.dbd.options import Options, load_configuration
from pyslurm_ng.wire.auth import Authenticator, AuthError, Peer
from pyslurm_ng.wire.auth_jwt import (
    BearerAuthenticator,
    JwtSettings,
    JwtVerifier,
    settings_of,
)
from pyslurm_ng.wire.bearer import bearer_credential
from pyslurm_ng.wire.identity import AltAuth, Identity, load_identity, with_tokens
from pyslurm_ng.wire.messages import CreateToken

NOW_US = 1_800_000_000_000_000
SECRET = b"0123456789abcdef0123456789abcdef"
SERVICE_UID = 64030


@dataclass
class Asked:
    """A call that keeps its answer."""

    request: CreateToken
    peer: Peer
    token: str = ""
    refusals: list[tuple[int, str]] = field(default_factory=list)

    def reply(self, answer: Any) -> None:
        self.token = answer.token

    def error(self, code: int, text: str) -> None:
        self.refusals.append((code, text))


def verifier(**settings: Any) -> JwtVerifier:
    return JwtVerifier(JwtSettings(**settings), SERVICE_UID, lambda: NOW_US, SECRET)


def ask(
    tokens: JwtVerifier | None, uid: int, name: str, user: str = "", life_s: int = -1,
    via: str = "unix",
) -> Asked:  # fmt: skip
    call = Asked(CreateToken(user, life_s), Peer(uid, uid, 0, "user", "h", "h", via))
    Tokens(tokens).handle(call, Caller(uid, uid, name))  # type: ignore[arg-type]
    return call


def test_who_may_make_tokens() -> None:
    """Users for themselves, root and SlurmUser for all; a token for nobody."""
    tokens = verifier()
    rules = settings_of(["jwt_key=/k", "disable_token_creation"], "")
    closed = JwtVerifier(rules, SERVICE_UID, lambda: NOW_US, SECRET)
    assert tokens.user_of(ask(tokens, 1001, "alice").token) == "alice"
    assert tokens.user_of(ask(tokens, 1001, "alice", "alice").token) == "alice"
    for uid in (0, SERVICE_UID):
        assert tokens.user_of(ask(tokens, uid, "x", "nobody").token) == "nobody"
        assert ask(tokens, uid, "x", "no such user").refusals
    for refused in (
        ask(tokens, 1001, "alice", "root"),
        ask(tokens, 1001, "alice", via="jwt"),
        ask(tokens, 0, "root", via="jwt"),
        ask(closed, 1001, "alice"),
    ):
        assert refused.token == ""
        assert refused.refusals[0][0] == Errno.ESLURM_ACCESS_DENIED
    assert ask(closed, 0, "root").token
    assert ask(None, 0, "root").refusals[0][0] == Errno.ESLURM_NOT_SUPPORTED


def test_how_long_tokens_last() -> None:
    """Half an hour unless asked for, at most max_token_lifespan."""
    import jwt

    def life_s(token: str) -> int:
        claims = jwt.decode(token, options={"verify_signature": False})
        return int(claims["exp"] - claims["iat"])

    tokens = verifier(longest_s=3600)
    assert life_s(ask(tokens, 1001, "alice").token) == 1800
    assert life_s(ask(tokens, 1001, "alice", life_s=60).token) == 60
    assert life_s(ask(tokens, 1001, "alice", life_s=0).token) == 3600
    assert ask(tokens, 1001, "alice", life_s=3601).refusals
    assert life_s(ask(verifier(longest_s=60), 1001, "alice").token) == 60


def identity_of(tmp_path: Path, alt: AltAuth) -> Identity:
    """Return a daemon's identity with slurm.key, and what AuthAltTypes adds."""
    key = tmp_path / "slurm.key"
    key.write_bytes(SECRET)
    key.chmod(0o600)
    own = os.geteuid()
    usual = load_identity(
        role="slurmctld", name="h", auth_type="auth/slurm", auth_info="", key_path=str(key),
        cluster="c", host="h", service_uid=own, clock_us=lambda: NOW_US,
    )  # fmt: skip
    return with_tokens(usual, alt, cluster="c", service_uid=own, clock_us=lambda: NOW_US)


def admits(authenticator: Authenticator, token: str) -> bool:
    try:
        peer = authenticator.admit(bearer_credential(token), "Ping", "slurmctld").peer
    except AuthError:
        return False
    assert peer.uid == pwd.getpwnam("nobody").pw_uid
    return True


def test_daemons_take_tokens_if_told_so(tmp_path: Path) -> None:
    """With AuthAltTypes=auth/jwt; by default the key lies in StateSaveLocation."""
    token = verifier().make("nobody", 60)
    assert not admits(identity_of(tmp_path, AltAuth()).authenticator, token)
    with pytest.raises(Exception, match=r"jwt_hs256\.key"):
        identity_of(tmp_path, AltAuth(("auth/jwt",), (), str(tmp_path)))
    key = tmp_path / "jwt_hs256.key"
    key.write_bytes(SECRET)
    key.chmod(0o600)
    identity = identity_of(tmp_path, AltAuth(("auth/jwt",), (), str(tmp_path)))
    assert admits(identity.authenticator, token)
    assert isinstance(identity.authenticator, BearerAuthenticator) and identity.tokens


def test_slurmdbd_takes_tokens_if_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By slurmdbd.conf, which names the key's file."""
    (tmp_path / "slurm.conf").write_text("ClusterName=c\nSlurmctldHost=h\n")
    (tmp_path / "slurmdbd.conf").write_text(
        "DbdHost=localhost\nStorageType=accounting_storage/sqlite\nStorageLoc=/tmp/x.sqlite\n"
        f"AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key={tmp_path}/jwt.key\n"
    )
    (tmp_path / "slurmdbd.conf").chmod(0o600)
    key = tmp_path / "jwt.key"
    key.write_bytes(SECRET)
    key.chmod(0o600)
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    alt = load_configuration(Options()).alt_auth
    assert alt == AltAuth(("auth/jwt",), (f"jwt_key={tmp_path}/jwt.key",))
    assert admits(identity_of(tmp_path, alt).authenticator, verifier().make("nobody", 60))
