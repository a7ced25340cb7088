"""Lines of slurmctld.log about changes that their users may not make."""

from __future__ import annotations

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.ctld.followers.event_log import Log
from pyslurm_ng.ctld.rules.context import Context

_DENIALS = (Errno.ESLURM_USER_ID_MISSING, Errno.ESLURM_ACCESS_DENIED)
_USERS = 1000  # of whom the last line is remembered


class PermissionLog:
    """Writes Slurm's line for a denied change, one for each user and second.

    A user who asks again and again must not be able to fill the log.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._last_s: dict[int, int] = {}

    def refused(self, request: object, context: Context, reject: Reject) -> None:
        """Hear of a change that a rule has refused."""
        uid, now_s = context.caller.uid, context.now_us // SECOND_US
        if reject.code not in _DENIALS or self._last_s.get(uid) == now_s:
            return
        if len(self._last_s) >= _USERS:
            self._last_s.clear()
        self._last_s[uid] = now_s
        self._log.error(f"Security violation, {type(request).__name__} RPC from uid={uid}")
