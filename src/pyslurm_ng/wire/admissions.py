"""Which frames are admitted, whose they are, and the number of a refusal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.wire import table
from pyslurm_ng.wire.auth import (
    Admission,
    Authenticator,
    AuthError,
    Peer,
    answer_audience,
    body_digest,
    own_peer,
)
from pyslurm_ng.wire.frame import BadFrame
from pyslurm_ng.wire.table import MessageError
from pyslurm_ng.wire.user_ids import NotKnownYet


class Admissions:
    """Judges frames by their heads; a sender is whom the kernel or the credential names.

    Attributes:
        has_proof: some sender was admitted already.
    """

    __slots__ = ("_audience", "_authenticator", "_peer", "_waiting", "has_proof")

    def __init__(
        self, authenticator: Authenticator | None, audience: str, peer: Peer | None
    ) -> None:
        """Admit for `audience`; `peer` is the process at a Unix socket's other end, or None."""
        self._authenticator = authenticator
        self._audience = audience
        self._peer = peer
        self._waiting: Admission | None = None
        self.has_proof = False

    def judge(
        self,
        kind: str,
        flags: int,
        sequence: int,
        credential: bytes,
        body_bytes: int,
        later: Callable[[], None],
    ) -> Admission | None:
        """Return the sender of a frame; the same one again until `let_in`.

        None is a sender whose ids are being looked up: `later` is called when that has ended.

        Raises:
            BadFrame: no such request, too long, or no sender that is believed.
        """
        row = table.find_row(kind)
        if flags or row is None or row.is_reply:
            text = f"unknown message type {kind}. {table.OLDER_HERE}"
            raise BadFrame("unknown_kind", text, sequence)
        if body_bytes > row.max_bytes:
            raise BadFrame(
                "too_long",
                f"{kind}: {body_bytes} bytes, at most {row.max_bytes} are allowed",
                sequence,
            )
        if self._waiting is None:
            # Kept until there is room for the frame: a credential is accepted once.
            try:
                self._waiting = self._sender(kind, sequence, credential)
            except NotKnownYet as wait:
                wait.later(later)
                return None
            self.has_proof = True
        return self._waiting

    def let_in(self) -> None:
        """Note that the frame is received now: the next one needs its own credential."""
        self._waiting = None

    def _sender(self, kind: str, sequence: int, credential: bytes) -> Admission:
        if not credential and self._peer is not None:
            return Admission(self._peer, None)
        if self._authenticator is None:
            raise BadFrame("missing", "credentials are not accepted here", sequence)
        try:
            admission = self._authenticator.admit(credential, kind, self._audience)
        except NotKnownYet:
            raise
        except AuthError as error:
            raise BadFrame(error.cause, error.text, sequence) from error
        if admission.peer.role == "user":
            return admission
        return replace(admission, proves=self._prover(admission.peer, credential))

    def _prover(self, asked_by: Peer, request: bytes) -> Callable[[str, bytes], bytes]:
        """Return a function that signs answers to a daemon; a stranger at our port has none."""
        authenticator, audience = self._authenticator, self._audience
        assert authenticator is not None

        def proof(kind: str, body: bytes) -> bytes:
            own, to = own_peer(audience, asked_by.host), answer_audience(request)
            try:
                return authenticator.issue(own, to, kind, body_digest(body), asked_by.cluster)
            except AuthError:
                return b""  # munged is away: the other end asks again

        return proof


def refusal_code(error: Exception) -> int:
    """Return Slurm's number for a message that is refused: credential, role or form is wrong."""
    if isinstance(error, AuthError):
        return Errno.SLURM_PROTOCOL_AUTHENTICATION_ERROR
    if isinstance(error, MessageError) and error.cause == "newer_sender":
        return Errno.SLURM_PROTOCOL_VERSION_ERROR
    if isinstance(error, MessageError) and error.cause == "role":
        return Errno.ESLURM_ACCESS_DENIED
    return Errno.SLURM_PROTOCOL_INSANE_MSG_LENGTH
