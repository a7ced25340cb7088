"""What is written about a job, and whom mail tells."""

from __future__ import annotations

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import (
    MAIL_ARRAY_TASKS,
    MAIL_BEGIN,
    MAIL_END,
    MAIL_FAIL,
    MAIL_INVALID_DEPEND,
    MAIL_REQUEUE,
    MAIL_STAGE_OUT,
    MAIL_TIME_50,
    MAIL_TIME_80,
    MAIL_TIME_90,
    MAIL_TIME_LIMIT,
)
from pyslurm_ng.ctld.rules.submission.place import node_extra
from pyslurm_ng.ctld.rules.update.job_change import Change

_MAIL_WORDS = {
    "NONE": 0,
    "BEGIN": MAIL_BEGIN,
    "END": MAIL_END,
    "FAIL": MAIL_FAIL,
    "REQUEUE": MAIL_REQUEUE,
    "ALL": MAIL_BEGIN | MAIL_END | MAIL_FAIL | MAIL_REQUEUE | MAIL_STAGE_OUT | MAIL_INVALID_DEPEND,
    "STAGE_OUT": MAIL_STAGE_OUT,
    "TIME_LIMIT": MAIL_TIME_LIMIT,
    "TIME_LIMIT_90": MAIL_TIME_90,
    "TIME_LIMIT_80": MAIL_TIME_80,
    "TIME_LIMIT_50": MAIL_TIME_50,
    "ARRAY_TASKS": MAIL_ARRAY_TASKS,
    "INVALID_DEPEND": MAIL_INVALID_DEPEND,
}


def mail_type(change: Change, value: str) -> int:
    """Set of which events mail tells."""
    bits = 0
    for word in value.split(","):
        bit = _MAIL_WORDS.get(word.strip().upper())
        if bit is None:
            return Errno.ESLURM_NOT_SUPPORTED
        bits |= bit
    change.request["mail_type"] = bits
    return 0


def comment(change: Change, value: str) -> int:
    """Set the comment."""
    change.fields["comment"] = value
    change.request["comment"] = value
    return 0


def extra(change: Change, value: str) -> int:
    """Write Extra, a note of any text but for a pending job that asks nodes for it."""
    change.request["extra"] = value
    if change.is_pending:
        demanded = node_extra(value, change.context.conf)
        if isinstance(demanded, Reject):
            return demanded.code
        change.request["node_extra"] = demanded
    return 0


def admin_comment(change: Change, value: str) -> int:
    """Set the administrators' comment."""
    if not change.context.caller.is_operator:
        return Errno.ESLURM_ACCESS_DENIED
    change.fields["admin_comment"] = value
    change.request["admin_comment"] = value
    return 0
