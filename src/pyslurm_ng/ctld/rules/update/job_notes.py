"""The notes of a job (comment, Extra, AdminComment), and which mail it brings."""

from __future__ import annotations

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.request_words import MAIL_WORDS
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.ctld.rules.submission import mcs
from pyslurm_ng.ctld.rules.submission.account import (
    default_wckey,
    may_use_wckey,
    tracks_wckeys,
)
from pyslurm_ng.ctld.rules.submission.place import node_extra
from pyslurm_ng.ctld.rules.update.job_change import Change


def mail_type(change: Change, value: str) -> int:
    """Set the events about which mail is sent."""
    bits = 0
    for word in value.split(","):
        bit = MAIL_WORDS.get(word.strip().upper())
        if bit is None:
            return Errno.ESLURM_NOT_SUPPORTED
        bits |= bit
    change.request["mail_type"] = bits
    return 0


def mcs_label(change: Change, value: str) -> int:
    """Set the label of a waiting job, if its user's jobs may have it."""
    context, job = change.context, change.job
    if not context.caller.is_operator:
        return Errno.ESLURM_ACCESS_DENIED
    kind = mcs.kind_of(context.conf)
    owner = Caller(job.uid, job.gid, job.user_name, job.group_name, (job.group_name,))
    if value and not (kind and mcs.may_have(value, kind, job.account, owner, context.conf)):
        return Errno.ESLURM_INVALID_MCS_LABEL
    if job.nodes:
        return Errno.ESLURM_JOB_NOT_PENDING  # its neighbours were chosen by the label
    change.request["mcs_label"] = value
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


def wckey(change: Change, value: str) -> int:
    """Set the workload characterisation key, one that the job's user has, while it waits.

    Without a value it is the user's default.
    """
    if not change.is_pending:
        return Errno.ESLURM_JOB_NOT_PENDING
    if not value and tracks_wckeys(change.context.conf):
        value = default_wckey(change.cluster, change.job.user_name)
    if not may_use_wckey(change.cluster, change.job.user_name, value, change.context.conf):
        return Errno.ESLURM_INVALID_WCKEY
    change.request["wckey"] = value
    return 0
