"""Changes that users ask for: each is made once, however often its request is sent."""

from __future__ import annotations

import pwd
import time
from collections import OrderedDict
from collections.abc import Callable

from pyslurm_ng.dbd.admin.verbs import Caller, change, load
from pyslurm_ng.dbd.database import Database
from pyslurm_ng.wire.dbd_messages import ChangeEntities, ChangeResult, LoadFile

REMEMBERED_REPLIES = 1000


class Changes:
    """Makes changes and remembers the newest answers.

    Args:
        has_coordinators: whether coordinators may do more than others.
        patiently: runs a transaction until the database takes it.
        tell: lets controllers know that something has changed.
    """

    def __init__(
        self,
        database: Database,
        service_uid: int,
        *,
        has_coordinators: bool,
        patiently: Callable[[Callable[[], ChangeResult]], ChangeResult],
        tell: Callable[[], None],
    ) -> None:
        self._database = database
        self._service_uid = service_uid
        self._has_coordinators = has_coordinators
        self._patiently = patiently
        self._tell = tell
        self._replies: OrderedDict[tuple[int, bytes], ChangeResult] = OrderedDict()

    def make(self, uid: int, request: ChangeEntities | LoadFile) -> ChangeResult:
        """Make a change, or say what it would be; a repeated request gets its first answer."""
        key = (uid, request.request_id)
        known = self._replies.get(key) if request.commit else None
        if known is not None:
            return known
        is_trusted = is_service(uid, self._service_uid)
        caller = Caller(uid, user_name(uid), is_trusted, self._has_coordinators)
        result = self._patiently(lambda: self._make(request, caller))
        if request.commit and result.changed:
            if any(request.request_id):
                self._replies[key] = result
                while len(self._replies) > REMEMBERED_REPLIES:
                    self._replies.popitem(last=False)
            self._tell()
        return result

    def _make(self, request: ChangeEntities | LoadFile, caller: Caller) -> ChangeResult:
        if isinstance(request, LoadFile):
            return load(self._database, request, caller)
        return change(self._database, request, caller)


def is_service(uid: int, service_uid: int) -> bool:
    """Return whether a user is root or SlurmUser."""
    return uid in (0, service_uid)


_names: dict[int, tuple[float, str]] = {}


def user_name(uid: int) -> str:
    """Return the name of a uid, or its digits; remembered for a minute."""
    known = _names.get(uid)
    now_s = time.monotonic()
    if known is not None and now_s - known[0] < 60:
        return known[1]
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = str(uid)
    _names[uid] = (now_s, name)
    return name
