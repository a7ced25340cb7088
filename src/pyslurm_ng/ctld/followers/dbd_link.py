"""slurmctld's link to slurmdbd: the journal goes out, associations come in.

The journal on disk is the queue; nothing else buffers. At each contact slurmdbd says which record
it has stored last, and batches go on from there. The next batch follows when the last is
acknowledged. A batch may hold a megabyte, so a slow database makes batches larger but takes no
memory here. Between batches the link rests, unless slurmdbd says that a query waits. One question
is always outstanding for what changed in associations and QOS; its answer is handed to the
controller's writer, which makes events of it.

While slurmdbd is away the link tries again with growing pauses; the controller does not notice.
A record that slurmdbd refuses again and again, though it takes others, is replaced by one without
events, and slurmdbd lists it as a problem: no record can keep back those behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from pyslurm_ng.base.error_numbers import Errno
from pyslurm_ng.base.faults import Faults
from pyslurm_ng.ctld.followers.accounting_records import (
    as_sent,
    checksum_text,
    without_events,
)
from pyslurm_ng.ctld.followers.journal_cursor import common_record
from pyslurm_ng.ctld.history import History
from pyslurm_ng.daemon.log import DaemonLog
from pyslurm_ng.journal.follow import CursorLost, Follow
from pyslurm_ng.journal.segment import Frame, JournalError
from pyslurm_ng.wire.dbd_messages import (
    AssociationUpdate,
    AwaitAssociations,
    BatchAck,
    ClusterRegistered,
    CompareJobs,
    JobsCompared,
    JournalBatch,
    JournalFrame,
    ReadUsage,
    RegisterCluster,
    RewindJournal,
    StoredUsage,
)
from pyslurm_ng.wire.identity import Identity
from pyslurm_ng.wire.stream_client import LinkError, StreamLink, connect_first

RECONNECT_S = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
REGISTER_DEADLINE_S = 30.0
TELL_AGAIN_S = 60.0
BATCH_DEADLINE_S = 3600.0
"""A batch is acknowledged when the database has it; a database may be away for long."""
AWAIT_S = 60
BATCH_BYTES = 1 << 20
REST_RATIO = 4
"""After a batch the link rests for so many times as long as the batch took, and what happens
meanwhile goes together: one transaction for a hundred events costs little more than for one."""
REST_RECORDS = 1000
"""A link with more than this to catch up with does not pause."""
REST_S = (0.1, 0.25)
"""Bounds of that; a first batch after a quiet time goes at once."""

_DOUBTS = {
    Errno.ESLURM_INTERNAL: 4,
    Errno.SLURM_PROTOCOL_INSANE_MSG_LENGTH: 4,
    Errno.SLURM_COMMUNICATIONS_RECEIVE_ERROR: 1,
    Errno.SLURM_PROTOCOL_SOCKET_IMPL_TIMEOUT: 1,
}
"""How much an answer speaks against the one record that was sent. All others say that slurmdbd
cannot take any record now: no database, another cursor, an older version, no right."""
_MOST_DOUBT = 12
"""Where a record is given up: refused three times, or slurmdbd was lost twelve times with it."""
_MOST_GIVEN_UP = 10
"""So many in turn, with none taken between them, say that the fault is not the records'."""


class PastUsage(NamedTuple):
    """How a controller with new state learns what was used before; None: it does not ask."""

    question: Callable[[], ReadUsage | None]
    take: Callable[[StoredUsage], None]


OnUpdate = Callable[[AssociationUpdate], None]


async def _rest(wake: asyncio.Event, rest_s: float) -> None:
    """Let records gather, but not while a query waits for them."""
    timer = asyncio.get_running_loop().call_later(rest_s, wake.set)
    try:
        await wake.wait()
    finally:
        timer.cancel()
        wake.clear()


class DbdLink:
    """Keeps one slurmdbd up to date.

    Args:
        registration: how the cluster introduces itself; its journal_id names the journal.
        journal: the directory of the journal's segments.
        durable: returns the newest sequence that is durable.
        on_update: called on the loop with what changed in associations, QOS and users; an update
            that changes nothing is not passed on.
        past: takes what was used before this state began; None if the state is not new.
        history: is told what slurmdbd has stored of a past that the journal has lost.
        start: the newest record that was in the journal when the process began.

    Attributes:
        acknowledged: the newest sequence slurmdbd has stored; segments before it may go.
        is_connected: whether slurmdbd answered the last time.
        contact: set when slurmdbd's first answer has been taken: ids go on behind its own.
    """

    def __init__(
        self,
        *,
        identity: Identity,
        places: Sequence[tuple[str, int]],
        registration: RegisterCluster,
        journal: Path,
        durable: Callable[[], int],
        on_update: OnUpdate,
        log: DaemonLog,
        faults: Faults,
        history: History,
        past: PastUsage | None = None,
        start: int = 0,
        acknowledged: int = 0,
    ) -> None:
        self._identity = identity
        self._places = places
        self._registration = registration
        self._journal = journal
        self._durable = durable
        self._on_update = on_update
        self._log = log
        self._faults = faults
        self._history = history
        self._past = past
        self._start = start
        self.contact = asyncio.Event()
        self._careful_until = 0  # records up to here are sent one by one
        self._doubts: dict[int, int] = {}  # by sequence; see `_doubt`
        self._given_up = 0  # in turn
        self._grown = asyncio.Event()
        self._is_wanted = asyncio.Event()  # a query waits for the newest records
        self._store_id = ""
        self._version = 0
        self._was_told, self._told_s = "", 0.0
        self.acknowledged = acknowledged
        self.is_connected = False

    @property
    def backlog(self) -> int:
        """How many batches wait for slurmdbd."""
        return max(0, self._durable() - self.acknowledged)

    def wake(self, _durable: int = 0) -> None:
        """Say that the journal has grown; give this to `Writer.follow`."""
        self._grown.set()

    async def run(self) -> None:
        """Connect, send and listen until cancelled."""
        attempt = 0
        while True:
            try:
                link = await connect_first(self._identity, "slurmdbd", self._places)
            except LinkError as error:
                self._say(f"slurmdbd: {error}")
            else:
                try:
                    await self._talk(link)
                except LinkError as error:
                    self._say(f"slurmdbd: {error}")
                except (JournalError, OSError) as error:
                    self._say(f"slurmdbd: cannot read the journal: {error}")
                except Exception as error:  # noqa: BLE001 - counted; the link is opened again
                    self._faults.note("accounting", "the link to slurmdbd is opened again", error)
                finally:
                    link.close()
                    if self.is_connected:
                        attempt = 0
                    self.is_connected = False
            await asyncio.sleep(RECONNECT_S[min(attempt, len(RECONNECT_S) - 1)])
            attempt += 1

    async def _talk(self, link: StreamLink) -> None:
        """Register, then send and listen until the connection fails."""
        answer = await link.request(self._registration, REGISTER_DEADLINE_S)
        assert isinstance(answer, ClusterRegistered)
        stored = await self._agree(link, answer)
        self.acknowledged = stored
        self.is_connected = True
        self.contact.set()
        self._log.verbose(f"slurmdbd: registered, journal stored up to {stored}")
        tasks = [
            asyncio.ensure_future(self._send(link, stored)),
            asyncio.ensure_future(self._listen(link)),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _agree(self, link: StreamLink, answer: ClusterRegistered) -> int:
        """Return the record behind which slurmdbd wants the journal.

        If it has stored more than the journal still has, job ids and attempts go on behind
        its own, and what this journal holds from the last common record on is new to it.
        """
        history, journal = self._history, self._journal
        history.registered(answer, is_first=not self.contact.is_set())
        common = await asyncio.get_running_loop().run_in_executor(
            None, common_record, journal, answer, self._start, self._durable()
        )
        if common is None:
            return answer.sequence
        cluster = self._registration.cluster
        known = await link.request(CompareJobs(cluster, history.living_jobs()), REGISTER_DEADLINE_S)
        assert isinstance(known, JobsCompared)
        # If we end before slurmdbd has heard of it, the next start finds the same again.
        await history.settle(answer, common.sequence, known)
        rewind = RewindJournal(
            cluster,
            self._registration.journal_id,
            common.epoch,
            common.sequence,
            checksum_text(common.checksum) if common.sequence else "",
            history.living_jobs(),
        )
        await link.request(rewind, REGISTER_DEADLINE_S)
        return common.sequence

    async def _send(self, link: StreamLink, stored: int) -> None:
        """Send the records after `stored`, and new ones, batch by batch."""
        follow = Follow(self._journal, stored)
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._grown.clear()
                durable = self._durable()
                if follow.sequence >= durable:
                    await self._grown.wait()
                    continue
                before = self.acknowledged
                try:
                    # Reads of files may wait for the disk; the loop may not.
                    frames = await loop.run_in_executor(None, follow.read, durable, BATCH_BYTES)
                except CursorLost as lost:
                    self._log.error(f"slurmdbd: accounting of some jobs is lost: {lost}")
                    follow = self._from_oldest(follow)
                    continue
                begun_s = loop.time()
                while frames:
                    count = 1 if frames[0].sequence <= self._careful_until else len(frames)
                    await self._deliver(link, before, frames[:count])
                    before, frames = frames[count - 1].sequence, frames[count:]
                if follow.sequence >= self._durable() - REST_RECORDS:
                    took_s = loop.time() - begun_s
                    await _rest(
                        self._is_wanted, min(max(REST_RATIO * took_s, REST_S[0]), REST_S[1])
                    )
        finally:
            follow.close()

    def _from_oldest(self, follow: Follow) -> Follow:
        """Return a reader that begins with the oldest record there is."""
        from pyslurm_ng.journal.segment import list_segments

        follow.close()
        segments = list_segments(self._journal)
        first = segments[0].first_sequence if segments else self._durable() + 1
        return Follow(self._journal, first - 1)

    async def _deliver(self, link: StreamLink, after: int, frames: list[Frame]) -> None:
        """Send some records, and wait until they are stored."""
        batch = JournalBatch(
            cluster=self._registration.cluster,
            journal_id=self._registration.journal_id,
            after=after,
            frames=[self._as_sent(frame) for frame in frames],
        )
        try:
            answer = await link.request(batch, BATCH_DEADLINE_S)
        except LinkError as error:
            self._doubt(frames, error)
            raise
        assert isinstance(answer, BatchAck)
        self.acknowledged = max(self.acknowledged, answer.sequence)
        given_up = sum(
            frame.sequence in self._doubts and self._is_given_up(frame) for frame in frames
        )
        self._given_up = self._given_up + given_up if given_up == len(frames) else 0
        self._doubts.clear()

    def _is_given_up(self, frame: Frame) -> bool:
        is_doubtful = self._doubts.get(frame.sequence, 0) >= _MOST_DOUBT
        return is_doubtful and self._given_up < _MOST_GIVEN_UP

    def _as_sent(self, frame: Frame) -> JournalFrame:
        if not self._is_given_up(frame):
            return as_sent(frame)
        why = "slurmdbd refused it again and again"
        self._faults.note("accounting_record", f"record {frame.sequence} of the journal: {why}")
        return without_events(frame, why)

    def _doubt(self, frames: list[Frame], error: LinkError) -> None:
        """Remember a refused batch: its records are sent one by one, until the bad one is found."""
        weight = _DOUBTS.get(error.code)
        if weight is None:
            return
        self._careful_until = max(self._careful_until, frames[-1].sequence)
        if len(frames) == 1:
            sequence = frames[0].sequence
            self._doubts[sequence] = self._doubts.get(sequence, 0) + weight

    async def _listen(self, link: StreamLink) -> None:
        """Ask for what changed, again and again; each answer comes when there is something."""
        while True:
            question = AwaitAssociations(
                cluster=self._registration.cluster,
                store_id=self._store_id,
                version=self._version,
                wait_s=AWAIT_S,
                durable=self._durable(),
            )
            answer = await link.request(question, AWAIT_S + REGISTER_DEADLINE_S)
            assert isinstance(answer, AssociationUpdate)
            if answer.journal_wanted:
                self._is_wanted.set()
            if answer.version == self._version and answer.store_id == self._store_id:
                continue
            try:
                self._on_update(answer)
            except Exception as error:  # noqa: BLE001 - noted; later changes come all the same
                self._faults.note("associations", "a change of associations is not taken", error)
            self._store_id, self._version = answer.store_id, answer.version
            await self._ask_for_the_past(link)

    async def _ask_for_the_past(self, link: StreamLink) -> None:
        """Learn what was used before a new state: once, and when the associations are known."""
        past, self._past = self._past, None
        question = past.question() if past is not None else None
        if past is None or question is None:
            return
        try:
            stored = await link.request(question, BATCH_DEADLINE_S)
        except LinkError:
            self._past = past
            raise
        assert isinstance(stored, StoredUsage)
        past.take(stored)

    def _say(self, text: str) -> None:
        """Log a failure; the same one again only after a while."""
        now_s = asyncio.get_running_loop().time()
        if text != self._was_told or now_s >= self._told_s + TELL_AGAIN_S:
            self._was_told, self._told_s = text, now_s
            self._log.error(text)
