"""What a step manager tells the controller: steps that were made, steps that are over.

News are noted first, then told together: a job of ten thousand steps costs the controller a message
now and then. They are told once more if slurmd was started again before the answer.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pyslurm_ng.d.stepmgr.hands import Hands
from pyslurm_ng.d.stepmgr.notes import NEWS, NEXT, SENT, Notes
from pyslurm_ng.steps.managed_job import ManagedJob
from pyslurm_ng.wire import node_messages as nm

_PAUSE_S = 0.3
_MOST_BYTES = 256 << 10
_BYTES_PER_S = 64 << 10
"""About two hundred usual steps. Faster ones wait, up to MOST_UNTOLD_BYTES."""
_STEP_BYTES = 1024  # what a step takes in memory beside its texts

_encode = msgspec.msgpack.Encoder().encode


class News:
    """The news of one job.

    Args:
        others: returns what else is in the notes when they are written anew.

    Attributes:
        held_bytes: what steps take of whose end the controller has not heard.
    """

    def __init__(
        self,
        job: ManagedJob,
        notes: Notes,
        hands: Hands,
        others: Callable[[], list[tuple[bytes, bytes]]],
    ) -> None:
        self._job = job
        self._notes = notes
        self._hands = hands
        self._others = others
        self._unsent: list[nm.StepNews] = []
        self._sent = 0
        self._in_flight = 0
        self._last_bytes = 0
        self._is_due = False
        self._told_parts = False
        self._old: list[nm.StepNews] = []
        self.held_bytes = 0
        self._bytes_of: dict[int, int] = {}

    def add(self, news: list[nm.StepNews]) -> None:
        """Note news, and tell them soon."""
        if not news:
            return
        self._unsent += news
        body = nm.encode_news(news)
        for step_news in news:
            if step_news.step is not None:
                self._hold(step_news.step_id, len(body))
        try:
            self._notes.add(NEWS, body)
        except OSError as error:
            self._failed(error)
        self._send_later()

    def _hold(self, step_id: int, size: int) -> None:
        self._release(step_id)
        self._bytes_of[step_id] = size + _STEP_BYTES
        self.held_bytes += size + _STEP_BYTES

    def _release(self, step_id: int) -> None:
        self.held_bytes -= self._bytes_of.pop(step_id, 0)

    def _failed(self, error: OSError) -> None:
        self._hands.error(f"notes of job {self._job.job.job_id}: {error.strerror}")

    def _send_later(self) -> None:
        if self._unsent and not self._in_flight and not self._is_due:
            self._is_due = True
            self._hands.later(max(_PAUSE_S, self._last_bytes / _BYTES_PER_S), self._send_due)

    def _send_due(self) -> None:
        self._is_due = False
        if self._unsent and not self._in_flight:
            self._send()

    def flush(self, *, with_parts: bool) -> None:
        """Tell all news now: the end of the job is reported behind them.

        Args:
            with_parts: what has ended of steps that go on elsewhere, too, but only once.
        """
        if with_parts and not self._told_parts:
            self._told_parts = True
            self._unsent += self._job.partial_news()
        while self._unsent:
            self._send()

    def _send(self) -> None:
        """Send as many news as a message may hold."""
        count = size = 0
        for step_news in self._unsent:
            size += len(_encode(step_news))
            if size > _MOST_BYTES and count:
                break
            count += 1
        body = nm.encode_news(self._unsent[:count])
        del self._unsent[:count]
        self._in_flight += count
        self._last_bytes = len(body)
        self._hands.report(self._job, body)

    def acknowledged(self, report: nm.ManagedSteps) -> None:
        """The controller has some news for good."""
        told = nm.decode_news(report.news)
        count = len(told)
        for step_news in told:
            if step_news.step is None:
                self._release(step_news.step_id)
        self._in_flight = max(0, self._in_flight - count)
        self._sent += count
        try:
            self._notes.add(SENT, _encode(self._sent))
        except OSError as error:
            self._failed(error)  # the controller hears them once more after a restart
        self.tidy()
        self._send_later()

    def tidy(self) -> None:
        """Leave out of the notes what is over, if that is most of them and no news is under way."""
        if self._notes.is_long and not self._in_flight:
            self._renew()

    def _renew(self) -> None:
        """Write the notes anew, without what is over."""
        made = {step_news.step_id for step_news in self._unsent if step_news.step is not None}
        live = [
            nm.StepNews(step.step_id, step)
            for step in self._job.job.steps.values()
            if step.step_id not in made
        ]
        self._sent = len(live)
        records = [
            (NEXT, _encode(self._job.job.next_step_id)),
            (NEWS, nm.encode_news(live)),
            (SENT, _encode(self._sent)),
            (NEWS, nm.encode_news(self._unsent)),
            *self._others(),
        ]
        try:
            self._notes.renew(records)
        except OSError as error:
            self._failed(error)

    # After a restart ----------------------------------------------------------------------------

    def take_up(self, kind: bytes, body: bytes) -> None:
        """Read a record that an earlier slurmd has noted. Raises DecodeError."""
        if kind == NEWS:
            self._old += nm.decode_news(body)
        elif kind == SENT:
            self._sent = msgspec.msgpack.decode(body, type=int)
        elif kind == NEXT:
            job = self._job.job
            job.next_step_id = max(job.next_step_id, msgspec.msgpack.decode(body, type=int))

    def learn(self) -> set[int]:
        """Know what was noted, and tell what was not; return which steps were made."""
        old, self._old = self._old, []
        self._job.learn(old, self._hands.now_us())
        self._unsent = old[self._sent :]
        for index, step_news in enumerate(old):
            if step_news.step is not None:
                self._hold(step_news.step_id, len(nm.encode_news([step_news])))
            elif index < self._sent:
                self._release(step_news.step_id)
        self._send_later()
        return {step_news.step_id for step_news in old if step_news.step is not None}
