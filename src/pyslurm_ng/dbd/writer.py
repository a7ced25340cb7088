"""The one thread that writes to the database, request by request."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

import msgspec
import sqlalchemy as sa

from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.faults import Faults
from pyslurm_ng.dbd.admin.change import RefusedError
from pyslurm_ng.dbd.database import error_text
from pyslurm_ng.dbd.ingest.batches import GapError
from pyslurm_ng.dbd.ingest.frames import NewerRecordError
from pyslurm_ng.wire.stream import Call

WRITE_QUEUE = 1024

Work = Callable[[], msgspec.Struct]


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
        self._writes: queue.Queue[tuple[Call, Work] | None] = queue.Queue(WRITE_QUEUE)
        self._thread = threading.Thread(target=self._write_all, name="writer", daemon=True)
        self._thread.start()

    def put(self, call: Call, work: Work) -> None:
        """Let a call wait for its turn; a full queue refuses it."""
        try:
            self._writes.put_nowait((call, work))
        except queue.Full:
            call.error(int(Errno.ESLURM_DB_CONNECTION), "slurmdbd is busy, try again")

    def close(self) -> None:
        """Finish the current write and drop the rest."""
        while True:
            try:
                self._writes.get_nowait()
            except queue.Empty:
                break
        self._writes.put(None)
        self._thread.join(15)

    def _write_all(self) -> None:
        """Work until told to stop; in the thread."""
        while True:
            item = self._writes.get()
            if item is None:
                return
            call, work = item
            try:
                answer = work()
            except NewerRecordError as error:
                self._faults.note("newer_record", str(error))
                self._post(call.error, int(Errno.SLURM_PROTOCOL_VERSION_ERROR), str(error))
            except (RefusedError, GapError) as error:
                self._faults.note("refused", f"{call.kind}: {error}")
                self._post(call.error, int(Errno.ESLURM_BAD_NAME), str(error))
            except sa.exc.SQLAlchemyError as error:
                self._post(call.error, int(Errno.ESLURM_DB_CONNECTION), error_text(error))
            except Exception as bug:  # noqa: BLE001 - reported; the thread must go on
                self._bug(call, bug)
            else:
                self._post(call.reply, answer)
