"""Why a request is not answered: an HTTP status with Slurm's error object."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pyslurm_ng.base.error_numbers import Errno, is_unreachable
from pyslurm_ng.base.error_texts import error_text
from pyslurm_ng.wire.daemon_link import SlurmError

BAD_REQUEST, UNAUTHORIZED, NOT_FOUND = 400, 401, 404
NOT_ACCEPTABLE, TOO_LONG, BAD_MEDIA, UNPROCESSABLE = 406, 413, 415, 422
TOO_MANY, NOT_BUILT, UNREACHABLE = 429, 501, 502
_UNKNOWN = (Errno.ESLURM_INVALID_JOB_ID, Errno.ESLURM_INVALID_NODE_NAME)
_STATUS = {
    Errno.SLURM_PROTOCOL_AUTHENTICATION_ERROR: UNAUTHORIZED,
    # What daemons say of a field that is out of its bounds.
    Errno.SLURM_PROTOCOL_INSANE_MSG_LENGTH: BAD_REQUEST,
    Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF: TOO_MANY,
}


@dataclass
class Refusal(Exception):
    """A refused request.

    `payload` is what the answer holds beside the errors. `more` are further error objects.
    """

    status: int
    description: str
    number: int = Errno.SLURM_ERROR
    source: str = ""
    text: str = ""
    payload: dict[str, Any] = field(default_factory=dict)
    more: list[dict[str, Any]] = field(default_factory=list)

    def errors(self) -> list[dict[str, Any]]:
        """Return the error objects of the answer."""
        return [
            {
                "description": self.description,
                "error_number": self.number,
                "error": self.text or error_text(self.number),
                "source": self.source,
            },
            *self.more,
        ]


def is_away(error: SlurmError) -> bool:
    """Return whether a daemon did not answer, rather than refuse."""
    return is_unreachable(error.code) and error.code not in _STATUS


def refusal_of(
    error: SlurmError,
    description: str,
    source: str,
    payload: dict[str, Any] | None = None,
    *,
    may_be_unknown: bool = False,
) -> Refusal:
    """Return what a daemon's refusal means for the requester.

    Args:
        may_be_unknown: whether the path names something that there may not be: 404.
    """
    number = error.code
    status = UNPROCESSABLE
    if is_away(error):
        status = UNREACHABLE
    elif may_be_unknown and number in _UNKNOWN:
        status = NOT_FOUND
    return Refusal(
        _STATUS.get(number, status),
        description,
        number,
        source,
        error.text.replace("\n", ": "),
        payload or {},
    )
