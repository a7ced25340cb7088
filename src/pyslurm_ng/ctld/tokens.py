"""`scontrol token`: tokens of auth/jwt for users, and by whom they may be made."""

from __future__ import annotations

from functools import partial
from typing import cast

from pyslurm_ng.base.error_texts import error_text
from pyslurm_ng.base.errors import Errno
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.wire.auth import AuthError
from pyslurm_ng.wire.auth_jwt import DEFAULT_LIFE_S, JwtVerifier
from pyslurm_ng.wire.call import Call
from pyslurm_ng.wire.messages import CreateToken, TokenCreated
from pyslurm_ng.wire.user_ids import NotKnownYet


class Tokens:
    """Makes tokens.

    Users make them for themselves, unless AuthAltParameters=disable_token_creation; root and
    SlurmUser for everybody. No token makes another: it would outlive the first.
    """

    def __init__(self, verifier: JwtVerifier | None) -> None:
        self._verifier = verifier

    def handle(self, call: Call, caller: Caller) -> None:
        """Answer one request."""
        request = cast(CreateToken, call.request)
        verifier = self._verifier
        if verifier is None:
            call.error(Errno.ESLURM_NOT_SUPPORTED, "AuthAltTypes=auth/jwt is not configured")
            return
        try:
            refusal = self._refusal(verifier, request, caller, via=call.peer.via)
        except NotKnownYet as wait:
            wait.later(partial(self.handle, call, caller))
            return
        if refusal:
            call.error(Errno.ESLURM_ACCESS_DENIED, refusal)
            return
        longest_s = verifier.settings.longest_s
        life_s = DEFAULT_LIFE_S if request.life_s < 0 else request.life_s or longest_s
        if request.life_s < 0:
            life_s = min(life_s, longest_s)
        if life_s > longest_s:
            call.error(
                Errno.ESLURM_ACCESS_DENIED,
                f"lifespan: at most {longest_s} seconds are allowed "
                "(AuthAltParameters=max_token_lifespan)",
            )
            return
        user = request.user or caller.user_name
        try:
            call.reply(TokenCreated(verifier.make(user, life_s)))
        except AuthError as error:
            call.error(Errno.ESLURM_NOT_SUPPORTED, error.text)

    def _refusal(
        self, verifier: JwtVerifier, request: CreateToken, caller: Caller, via: str
    ) -> str:
        """Return why a token is not made, "" if it is."""
        denied = error_text(Errno.ESLURM_ACCESS_DENIED)
        if via == "jwt":
            return f"{denied}: a token is not used to make another"
        if caller.uid in (0, verifier.service_uid):
            return "" if not request.user or _is_known(verifier, request.user) else "no such user"
        if request.user not in ("", caller.user_name):
            return f"{denied}: username= is for root and SlurmUser"
        if not verifier.settings.users_may_create:
            return f"{denied}: AuthAltParameters=disable_token_creation"
        return ""


def _is_known(verifier: JwtVerifier, user: str) -> bool:
    try:
        verifier.users.of(user)
    except NotKnownYet:
        raise
    except AuthError:
        return False
    return True
