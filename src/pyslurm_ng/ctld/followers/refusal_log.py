"""Lines of slurmctld.log about jobs that are refused, and changes that their users may not make."""

from __future__ import annotations

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.base.plain_text import printable
from pyslurm_ng.ctld.followers.event_log import Log
from pyslurm_ng.ctld.rules.context import Context
from pyslurm_ng.wire.job_messages import AllocateJob, SubmitJob

_DENIALS = (Errno.ESLURM_USER_ID_MISSING, Errno.ESLURM_ACCESS_DENIED)
_USERS = 1000  # of whom the last line is remembered


class RefusalLog:
    """Writes a line for a refused job and Slurm's for a denied change, one a user and second.

    A user who asks again and again must not be able to fill the log.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._last_s: dict[int, int] = {}

    def refused(self, request: object, context: Context, reject: Reject) -> None:
        """Hear of a change that a rule has refused."""
        is_job = isinstance(request, SubmitJob | AllocateJob)
        caller, now_s = context.caller, context.now_us // SECOND_US
        if not is_job and reject.code not in _DENIALS:
            return
        if self._last_s.get(caller.uid) == now_s:
            return
        if len(self._last_s) >= _USERS:
            self._last_s.clear()
        self._last_s[caller.uid] = now_s
        if is_job:
            text = printable(str(reject))[:1024]
            self._log.info(f"submit: User={caller.user_name}({caller.uid}) refused: {text}")
        else:
            self._log.error(
                f"Security violation, {type(request).__name__} RPC from uid={caller.uid}"
            )
