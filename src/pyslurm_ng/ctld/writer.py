"""One owner of the Cluster: request -> rule -> events -> apply -> journal -> release.

One law: nothing leaves the process before the batch it depends on is durable. So every answer,
a refusal's too, is put behind the newest batch that the Cluster contains at that moment, and is
let go when the journal says that this batch is safe. A query's answer promises nothing and waits
a tenth of a second at most: see `waiting_queries`. Everything decided in one
turn of the loop is one batch, and batches that gather while the disk works share its next sync.

The class knows neither sockets nor clocks nor files: the daemon and the simulator give it edges.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from pyslurm_ng.base.errors import Errno, Reject, error_text
from pyslurm_ng.ctld.rules.context import Caller, Context, Decision
from pyslurm_ng.ctld.rules.rule_faults import Spared, raise_it
from pyslurm_ng.ctld.waiting_queries import CallLater, WaitingQueries
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply
from pyslurm_ng.model.batches import about_bytes, encode_batch
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.wire.messages import Done, encode
from pyslurm_ng.wire.query_messages import Cancelled, JobsChanged

_NO_REQUEST_ID = bytes(16)
_MOST_REMEMBERED = 4096
_ERRORS_REMEMBERED, _ID_REMEMBERED = 16, 64


class Journal(Protocol):
    """Where batches become durable; `journal.writer.JournalWriter` or the simulator's disk."""

    space_low: bool
    is_stalled: bool

    @property
    def appended(self) -> int:
        """The newest sequence given out."""

    @property
    def is_busy(self) -> bool:
        """Whether new requests should be refused."""

    def append(self, payload: bytes) -> int:
        """Queue one batch and return its sequence."""


Release: TypeAlias = Callable[[], None]


class Answer(Protocol):
    """How one request is answered; `wire.stream.Call` is one."""

    def reply(self, answer: Struct | bytes) -> None:
        """Send the answer; bytes are a message's body."""

    def error(self, code: int, text: str) -> None:
        """Refuse with Slurm's number and one line."""


class QueryAnswer(Answer, Protocol):
    """How a query is answered, perhaps long after its rows were taken."""

    def prepared(self, answer: Struct | bytes) -> Release:
        """Return what sends the answer later; what waits counts against its sender's share."""


Rule: TypeAlias = Callable[[Cluster, "Struct", Context], "Decision | Reject"]
Query: TypeAlias = Callable[[], "Struct | bytes | Reject"]
Applied: TypeAlias = Callable[[Sequence[ev.AnyEvent]], None]


def explained(reject: Reject) -> str:
    """Return a refusal's own words, if it has any, above Slurm's for its number."""
    text = error_text(reject.code)
    return f"{reject.detail}\n{text}" if reject.detail else text


RECORD_BYTES = 4 << 20
"""From this size on a decision begins a new record: slurmdbd gets each in one message."""


class Writer:
    """Decides requests against the newest state and releases answers when they may be known.

    Attributes:
        cluster: the state; only this class changes it.
        durable: the newest sequence that is safe.
        spared: is told what was raised about one thing only; others of its kind go on.
        wrote: is told which user's request has added about how many bytes to the journal.
        decided: is told what a rule has made of each change.
        priority_of: what a waiting job's place in the queue is worth, for the record of its end.
    """

    def __init__(
        self,
        cluster: Cluster,
        journal: Journal,
        *,
        call_soon: Callable[[Callable[[], None]], object],
        on_bug: Callable[[str, BaseException], None],
        spared: Spared = raise_it,
        call_later: CallLater | None = None,
        encode: Callable[[list[ev.AnyEvent]], bytes] = encode_batch,
    ) -> None:
        """Begin behind the journal's newest record, which must be in `cluster` already.

        Args:
            call_soon: runs a function at the end of the present turn.
            on_bug: a rule's events broke an invariant, so memory is ahead of the journal; it must
                end the process, and is not expected to return.
            call_later: runs a function after some seconds; without, queries wait for the disk as
                long as it takes.
            spared: is told what an observer or an answer raised; the state is sound all the same,
                so others hear of it.
            encode: makes a record of a batch; of a journal that keeps none it need not.
        """
        self.cluster = cluster
        self.durable = journal.appended
        self._journal = journal
        self._call_soon = call_soon
        self._on_bug = on_bug
        self.spared = spared
        self.wrote: Callable[[Caller, int], None] = _uncounted
        self.decided: Callable[[Struct, Context, Decision | Reject], None] = _unnoticed
        self.priority_of: Callable[[Job], int] = _unranked
        self._encode = encode
        self._waiting_queries = WaitingQueries(self, call_later) if call_later is not None else None
        self._batch: list[ev.AnyEvent] = []
        self._batch_bytes = 0
        self._waiting: deque[tuple[int, Release]] = deque()
        self._observers: list[tuple[Applied, bool]] = []
        self._followers: list[Callable[[int], None]] = []
        self._is_closed = False

    def observe(self, applied: Applied, *, is_brittle: bool = False) -> None:
        """Call with events as soon as they are applied; views are kept this way.

        RequestAnswered is not among them: no view is made of what a request was answered.

        An observer must not let anything out but through `when_durable`.

        Args:
            is_brittle: it makes something of each event, which may raise: it is shown them one by
                one, so that one costs none of the others.
        """
        self._observers.append((applied, is_brittle))

    def follow(self, durable: Callable[[int], None]) -> None:
        """Call with the newest durable sequence, each time it has grown."""
        self._followers.append(durable)

    # Deciding ---------------------------------------------------------------------------------

    def change(self, rule: Rule, request: Struct, context: Context, answer: Answer) -> None:
        """Let a rule decide a changing request; answer when the outcome is durable.

        A request with a known id gets the answer that it got the first time.
        """
        request_id: bytes = getattr(request, "request_id", _NO_REQUEST_ID)
        uid = context.caller.uid
        if request_id != _NO_REQUEST_ID:
            body = self.cluster.replies.find(uid, request_id)
            if body is not None:
                self.when_durable(partial(answer.reply, body))
                return
        outcome = rule(self.cluster, request, context)
        if isinstance(outcome, Reject):
            self.tell(request, context, outcome)
            self.refuse(answer, outcome)
            return
        reply = outcome.reply
        if reply is None:
            reply = Done(list(outcome.notes), outcome.refused)
        body = encode(reply)
        if outcome.events:
            events = list(outcome.events)
            if request_id != _NO_REQUEST_ID:
                events.append(
                    ev.RequestAnswered(
                        time_us=context.now_us,
                        uid=uid,
                        request_id=request_id,
                        reply=_remembered(reply, body),
                    )
                )
            self.wrote(context.caller, self.record_sized(events))
        self.tell(request, context, outcome)
        self.when_durable(lambda: answer.reply(reply))

    def tell(self, request: Struct, context: Context, outcome: Decision | Reject) -> None:
        """Say what became of a change; nothing that this raises keeps the answer back."""
        try:
            self.decided(request, context, outcome)
        except Exception as error:  # noqa: BLE001 - the state is sound, and the user gets an answer
            self.spared(f"the line of {type(request).__name__}", error)

    def look(self, query: Query, answer: QueryAnswer) -> None:
        """Answer a query when all it saw is durable, or soon; the rows are taken now."""
        outcome = query()
        if isinstance(outcome, Reject):
            code, text = int(outcome.code), explained(outcome)
            self.when_seen(lambda: answer.error(code, text))
        else:
            self.when_seen(answer.prepared(outcome))

    def refuse(self, answer: Answer, reject: Reject) -> None:
        """Refuse once the state that was the reason is durable."""
        text = explained(reject)
        self.when_durable(lambda: answer.error(int(reject.code), text))

    def refusal_now(self) -> Reject | None:
        """Why no new work is taken at the moment: the state file system is nearly full."""
        if self._journal.space_low or self._journal.is_stalled:
            return Reject(Errno.ESLURM_WRITING_TO_FILE, "No space left in StateSaveLocation")
        return None

    @property
    def is_busy(self) -> bool:
        """Whether so much waits for the disk that no further requests should be taken."""
        return self._journal.is_busy

    # Recording --------------------------------------------------------------------------------

    def record(self, events: Sequence[ev.AnyEvent]) -> None:
        """Apply events at once and put them into this turn's batch."""
        self.record_sized(events)

    def record_sized(self, events: Sequence[ev.AnyEvent]) -> int:
        """Do as `record`, and return about how many bytes they take in the journal."""
        if not events or self._is_closed:
            return 0
        if not self._batch:
            self._call_soon(self.flush)
        events = [self._apply(event) for event in events]
        size = self._add(events)
        shown = [event for event in events if type(event) is not ev.RequestAnswered]
        whole = (shown,) if shown else ()
        single = [(event,) for event in shown]
        for applied, is_brittle in self._observers:
            for part in single if is_brittle else whole:
                try:
                    applied(part)
                except Exception as error:  # noqa: BLE001 - the state is sound, others go on
                    self.spared(f"{applied.__qualname__} of {_name(part[0])}", error)
        return size

    def _apply(self, event: ev.AnyEvent) -> ev.AnyEvent:
        """Apply an event, and return it as it is recorded."""
        if type(event) is ev.JobEnded:
            event = self._ranked(event)
        try:
            apply(self.cluster, event)
        except Exception as bug:
            self._on_bug(f"cannot apply {event!r:.500}", bug)
            raise
        return event

    def _ranked(self, end: ev.JobEnded) -> ev.JobEnded:
        """Return the end of a job, with the priority that it has if it waits.

        Nine rules end jobs, and all they know is the cluster; what a place in the queue is worth
        is the scheduler's. So it is asked where every end passes. Other events pay for a look at
        their type, which is nothing beside applying them.
        """
        job = self.cluster.jobs.get(end.job_id)
        if job is None or job.start_us:
            return end
        try:
            return replace(end, priority=self.priority_of(job))
        except Exception as error:  # noqa: BLE001 - the job ends all the same
            self.spared("a priority", error)
            return end

    def _add(self, events: Sequence[ev.AnyEvent]) -> int:
        """Put a decision's events into the batch; close it first where it is large already.

        So a record holds no more than `RECORD_BYTES` and one decision, which is bounded by its
        message. A change of many jobs may be parted between two of them: each is whole by itself,
        and its sender, not answered yet, asks again after a crash.
        """
        may_part, size = True, 0
        for event in events:
            if self._batch_bytes > RECORD_BYTES and (may_part or type(event) is ev.JobUpdated):
                self.flush()
            may_part = False
            self._batch.append(event)
            own = about_bytes(event)
            self._batch_bytes += own
            size += own
        return size

    def flush(self) -> None:
        """Close this turn's batch and hand it to the journal."""
        if not self._batch:
            return
        batch, self._batch, self._batch_bytes = self._batch, [], 0
        self.cluster.sequence = self._journal.append(self._encode(batch))

    def close(self) -> None:
        """Take no further work: the process is about to end.

        What was decided is flushed, and its answers leave when the journal says so. Whatever
        comes later changes nothing and is not answered, so its sender asks the next controller.
        """
        if self.cluster.ids_seen_below:
            # All that was seen is durable when the journal ends in good order.
            self.record([ev.JobIdsSeen(self.cluster.time_us, 0)])
        self.flush()
        self._is_closed = True

    # Releasing --------------------------------------------------------------------------------

    @property
    def newest(self) -> int:
        """The sequence of the newest batch that the Cluster contains, open ones included."""
        return self._journal.appended + (1 if self._batch else 0)

    def when_durable(self, release: Release) -> None:
        """Call when everything that the Cluster contains now is durable; at once if it is."""
        if self._is_closed:
            return
        newest = self.newest
        if newest <= self.durable:
            release()
        else:
            self._waiting.append((newest, release))

    def when_seen(self, release: Release) -> None:
        """Call when everything that the Cluster contains now is durable, or soon.

        For answers that only read the state. No job id in them is given to another job.
        """
        if self._waiting_queries is None or self.newest <= self.durable:
            self.when_durable(release)
        elif not self._is_closed:
            self._waiting_queries.add(partial(self._let_go, release))

    def _let_go(self, release: Release) -> None:
        try:
            release()
        except Exception as error:  # noqa: BLE001 - it costs this answer only
            self.spared("an answer", error)

    def on_durable(self, sequence: int) -> None:
        """Let go what waited for batches up to `sequence`; called on the loop by the journal."""
        if sequence <= self.durable:
            return
        self.durable = sequence
        waiting = self._waiting
        while waiting and waiting[0][0] <= sequence:
            self._let_go(waiting.popleft()[1])
        if self._waiting_queries is not None:
            for release in self._waiting_queries.safe():
                release()
        for tell in self._followers:
            try:
                tell(sequence)
            except Exception as error:  # noqa: BLE001 - it costs this follower only
                self.spared("a follower", error)

    @property
    def waiting_count(self) -> int:
        """How many answers wait for the disk."""
        return len(self._waiting) + (
            len(self._waiting_queries) if self._waiting_queries is not None else 0
        )


def _uncounted(caller: Caller, size: int) -> None:
    """Count nothing: no user's share is bounded."""


def _unranked(job: Job) -> int:
    return 0


def _unnoticed(request: Struct, context: Context, outcome: Decision | Reject) -> None:
    """Tell nobody of a change."""


def _name(event: ev.AnyEvent) -> str:
    """Return what an event is, and of which job."""
    job_id = getattr(event, "job_id", 0)
    return f"{type(event).__name__} of job {job_id}" if job_id else type(event).__name__


def _remembered(reply: Struct, body: bytes) -> bytes:
    """Return what a repeated request gets: of a long list of errors the first ones, cut.

    Each is about an id as the user has typed it, so a short change could be answered by megabytes.
    """
    if len(body) <= _MOST_REMEMBERED or not isinstance(reply, Cancelled | JobsChanged):
        return body
    errors = [
        (typed[:_ID_REMEMBERED], code, text)
        for typed, code, text in reply.errors[:_ERRORS_REMEMBERED]
    ]
    if isinstance(reply, Cancelled):
        reply = replace(reply, done=[])
    return encode(replace(reply, errors=errors))
