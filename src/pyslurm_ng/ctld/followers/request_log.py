"""Lines of slurmctld.log about requests: who changed what, and what was refused."""

from __future__ import annotations

from collections.abc import Callable

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.base.plain_text import printable
from pyslurm_ng.ctld.followers.event_log import INFO_LEVEL, SUBMISSION_VERBS, Log
from pyslurm_ng.ctld.followers.request_lines import request_lines
from pyslurm_ng.ctld.rules.context import Context, Decision
from pyslurm_ng.wire.job_messages import AllocateJob, SubmitJob

_DENIALS = (Errno.ESLURM_USER_ID_MISSING, Errno.ESLURM_ACCESS_DENIED)
_USERS = 1000  # of whom the last line is remembered
_LONGEST = 1024

# As Slurm names a request in its log, where that is not the message's name.
_RPC_NAMES = {
    "CancelJobs": "REQUEST_KILL_JOB",
    "CreateNodes": "CREATE_NODE",
    "DeleteNodes": "DELETE_NODE",
    "DeletePartition": "DELETE_PARTITION",
    "DeleteReservation": "DELETE_RESERVATION",
    "Reconfigure": "RECONFIGURE",
    "Shutdown": "SHUTDOWN",
    "UpdateJob": "JOB_UPDATE",
    "UpdateNodes": "UPDATE_NODE",
    "UpdatePartition": "UPDATE_PARTITION",
    "UpdateReservation": "UPDATE_RESERVATION",
}


class RequestLog:
    """Writes Slurm's lines for changes by users and administrators, and for those refused.

    Of refusals a user who is no operator has one a second: a user who asks again and again must
    not be able to fill the log.
    """

    def __init__(self, log: Log, say: Callable[[str], None]) -> None:
        """`say` takes a line that may wait for others of this turn."""
        self._log = log
        self._say = say
        self._last_s: dict[int, int] = {}

    def decided(self, request: object, context: Context, outcome: Decision | Reject) -> None:
        """Hear what a rule has made of a change."""
        caller = context.caller
        if self._log.level < INFO_LEVEL:
            if isinstance(outcome, Reject):
                self._denied(request, context, outcome)
            return
        done, failed = request_lines(request, caller.uid, outcome)
        for line in done:
            self._say(_shown(line))
        if isinstance(outcome, Reject):
            if not self._denied(request, context, outcome):
                return
        elif not failed or not self._may_complain(context):
            return
        for line in failed:
            self._say(_shown(line))

    def _denied(self, request: object, context: Context, reject: Reject) -> bool:
        """Write the line of a refused job or a denied change; return whether more may follow."""
        caller = context.caller
        if not self._may_complain(context):
            return False
        if isinstance(request, SubmitJob | AllocateJob):
            verb = SUBMISSION_VERBS[isinstance(request, SubmitJob)]
            who = f"User={caller.user_name}({caller.uid})"
            self._log.info(f"{verb} {who} refused: {_shown(str(reject))}")
        elif reject.code in _DENIALS:
            kind = type(request).__name__
            name = _RPC_NAMES.get(kind, kind)
            self._log.error(f"Security violation, {name} RPC from uid={caller.uid}")
        return True

    def _may_complain(self, context: Context) -> bool:
        caller, now_s = context.caller, context.now_us // SECOND_US
        if caller.is_operator:
            return True
        if self._last_s.get(caller.uid) == now_s:
            return False
        if len(self._last_s) >= _USERS:
            self._last_s.clear()
        self._last_s[caller.uid] = now_s
        return True


def _shown(line: str) -> str:
    """Return a line as the log has it; cut first, since a user's text may be long."""
    return printable(line[:_LONGEST])
