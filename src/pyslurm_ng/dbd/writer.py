"""The one thread that writes to the database, request by request, in fair turns.

One lane is one uid, and each has one request in its turn, so a user whose changes are refused one
after another delays the changes of others by one. Administrators and daemons share a lane that goes
first: the journals of controllers come with it. What this process has to write itself comes when no
call waits, or behind a few.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.faults import Faults
from pyslurm_ng.dbd.admin.change import RefusedError
from pyslurm_ng.dbd.database import SupersededError, error_text
from pyslurm_ng.dbd.ingest.batches import GapError
from pyslurm_ng.dbd.ingest.frames import NewerRecordError
from pyslurm_ng.wire.lanes import Lanes
from pyslurm_ng.wire.shares import PRIVILEGED
from pyslurm_ng.wire.stream import Call

WAITING_PER_LANE = 256
CALLS_PER_OWN = 8
"""Work of this process waits for so many calls at most: it goes on even where calls always wait."""

Work = Callable[[], msgspec.Struct]
T = TypeVar("T")


class Writer:
    """A queue of calls with the work that answers each.

    Args:
        post: runs a function on the loop, from any thread.
        bug: called with an unexpected exception; it answers the call.
        faults: counts refused records.
    """

    def __init__(
        self,
        *,
        post: Callable[..., None],
        bug: Callable[[Call, BaseException], None],
        faults: Faults,
    ) -> None:
        self._post = post
        self._bug = bug
        self._faults = faults
        self._changed = threading.Condition()
        self._first: deque[tuple[Call, Work]] = deque()
        self._others: Lanes[tuple[Call, Work]] = Lanes()
        self._own: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._calls_before_own = 0
        self._is_stopping = False
        self._thread = threading.Thread(target=self._write_all, name="writer", daemon=True)
        self._thread.start()

    def put(self, call: Call, lane: int, work: Work) -> None:
        """Let a call wait for its turn; a lane with too many is told to come back."""
        with self._changed:
            waiting = len(self._first) if lane == PRIVILEGED else self._others.waiting(lane)
            if waiting >= WAITING_PER_LANE:
                text = f"{waiting} changes of this user wait; ask again later"
                call.error(Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF, text)
                return
            if lane == PRIVILEGED:
                self._first.append((call, work))
            else:
                self._others.push(lane, (call, work))
            self._changed.notify()

    def run(self, work: Callable[[], T]) -> T:
        """Do work of this process behind the calls that wait, and return what it returns.

        Raises:
            CancelledError: the writer was closed before.
            Exception: what the work raises.
        """
        future: Future[T] = Future()
        with self._changed:
            if self._is_stopping:
                raise CancelledError
            self._own.append((future, work))
            self._changed.notify()
        return future.result()

    def close(self) -> None:
        """Finish the current write and drop the rest."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
            for future, _ in self._own:
                future.cancel()
            self._own.clear()
        self._thread.join(15)

    def _next(self) -> tuple[Call, Work] | tuple[Future[Any], Callable[[], Any]] | None:
        """Wait for the next call in turn, or work of this process; None to stop."""
        with self._changed:
            while not self._is_stopping:
                is_free = not self._first and not self._others
                if self._own and (is_free or self._calls_before_own >= CALLS_PER_OWN):
                    self._calls_before_own = 0
                    return self._own.popleft()
                self._calls_before_own += bool(self._own)
                if self._first:
                    return self._first.popleft()
                if self._others:
                    return self._others.pop()[1]
                self._changed.wait()
        return None

    def _write_all(self) -> None:
        """Work until told to stop; in the thread."""
        while (batch := self._next()) is not None:
            call, work = batch
            if isinstance(call, Future):
                _do_own(call, work)
                continue
            try:
                answer = work()
            except NewerRecordError as error:
                self._faults.note("newer_record", str(error))
                self._post(call.error, int(Errno.SLURM_PROTOCOL_VERSION_ERROR), str(error))
            except (RefusedError, GapError, SupersededError) as error:
                self._faults.note("refused", f"{call.kind}: {error}")
                self._post(call.error, int(Errno.ESLURM_BAD_NAME), str(error))
            except sa.exc.SQLAlchemyError as error:
                self._post(call.error, int(Errno.ESLURM_DB_CONNECTION), error_text(error))
            except Exception as bug:  # noqa: BLE001 - reported; the thread must go on
                self._bug(call, bug)
            else:
                self._post(call.reply, answer)


def _do_own(future: Future[Any], work: Callable[[], Any]) -> None:
    """Do work whose caller waits for it, and takes what it raises."""
    try:
        future.set_result(work())
    except Exception as error:  # noqa: BLE001 - the caller's
        future.set_exception(error)
