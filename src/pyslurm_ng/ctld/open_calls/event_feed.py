"""Listeners to what happens to jobs and nodes: FollowEvents, which stays open.

An event is told once its batch is durable. Listeners with the same rights and filters are one
group, for which an event is judged and packed once. While nobody listens nothing is kept; from the
first listener until some time after the last one left, the newest events are kept, so that who was
cut off goes on where it was. Nothing runs for a listener that has nothing to hear.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any, Protocol, cast

from msgspec import Struct
from msgspec.structs import replace

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.hostlist import HostlistError, expand_of_user
from pyslurm_ng.base.numbers import SECOND_US, SHOW_ALL
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.clock import Timers
from pyslurm_ng.ctld.job_filter import agrees
from pyslurm_ng.ctld.queries.event_rows import (
    CHANGES_RIGHTS,
    JobTest,
    audience_text,
    job_event,
    judged_part,
    named_jobs,
    narrowed,
    node_events,
)
from pyslurm_ng.ctld.rules.context import Caller
from pyslurm_ng.ctld.rules.private_data import Audience
from pyslurm_ng.ctld.writer import Answer, Writer
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.job import Job
from pyslurm_ng.wire.event_messages import (
    FROM_NOW,
    Events as Told,
    EventsBegun,
    EventsOver,
    FollowEvents,
    JobEvent,
    NodeEvent,
)
from pyslurm_ng.wire.messages import encode
from pyslurm_ng.wire.query_messages import JobFilter

MOST_KEPT = 8192
"""Events that are kept for listeners that come back."""
KEPT_S = 600.0
"""How long they are kept after the last listener has left."""
LONGEST_US = 3600 * SECOND_US
"""A listener that is older, or whose token has ended, has to ask again."""
MOST_LISTENERS = 1024
MOST_OF_ONE = 64
MOST_GROUPS = 256
GROUPS_OF_ONE = 16
"""Each event is judged once for each group."""
LOOKS_AT_ONCE = 4096
"""Events times groups that are judged in one turn of the loop."""
MOST_FILTER_BYTES = 8 << 20
FILTER_BYTES_OF_ONE = 256 << 10
"""Of requests, which as sets of words take up to thirty times as much; usual ones have 200."""
_NODE_BYTES = 16  # what a name of a node counts, however short the list that names it
MOST_UNSENT_BYTES = 1 << 20
MOST_AT_ONCE = 512
"""Events in one message."""


Handlers = MutableMapping[str, Callable[[Any, Caller], None]]
"""What answers requests, by kind."""


class ListenCall(Protocol):
    """A request that takes several answers; `wire.stream.Call`."""

    request: Struct
    body_bytes: int

    def part(self, answer: Struct | bytes) -> None:
        """Send an answer that others follow."""

    def reply(self, answer: Struct) -> None:
        """Send the last answer."""

    def error(self, code: int, text: str) -> None:
        """Refuse."""

    def on_gone(self, callback: Callable[[], None]) -> None:
        """Call back if the connection ends before the last answer."""

    @property
    def unsent_bytes(self) -> int:
        """What the peer has not taken yet."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """One event; `job` is what decides who hears of the job after it, None of one about nodes."""

    sequence: int
    told: JobEvent | NodeEvent | None  # None: rights may have changed here
    job: Job | None = None


@dataclass(frozen=True, slots=True)
class _Stay:
    """Whose listener it is, and how long it may listen."""

    uid: int
    until_us: int
    filter_bytes: int


@dataclass(eq=False, slots=True)
class _Group:
    """Listeners that hear the same."""

    key: bytes
    audience: Audience
    test: JobTest
    nodes: frozenset[str]
    request: FollowEvents
    listeners: dict[ListenCall, _Stay] = field(default_factory=dict)

    def hears(self, kept: _Kept) -> JobEvent | NodeEvent | None:
        """Return what this group is told of an event."""
        told = kept.told
        if isinstance(told, JobEvent):
            assert kept.job is not None
            is_heard = self.request.with_jobs and self.test(kept.job)
            return told if is_heard and self.audience.sees_job(kept.job) else None
        if told is None or not self.request.with_nodes or self.audience.nodes_private:
            return None
        if self.audience.hides_labels:
            return None  # whose a node is now says nothing of whose it was
        return narrowed(told, self.nodes) if self.nodes else told


class EventFeed:
    """Answers FollowEvents."""

    def __init__(self, writer: Writer, conf: Callable[[], SlurmConf], clock: Timers) -> None:
        """Judge rights by `conf()`, the configuration in force."""
        self._writer = writer
        self._conf = conf
        self._clock = clock
        self._groups: dict[bytes, _Group] = {}
        self._count: Counter[int] = Counter()  # listeners by uid
        self._filter_bytes: Counter[int] = Counter()  # of their requests
        self._fresh: deque[_Kept] = deque()  # not durable yet
        self._kept: deque[_Kept] = deque()
        self._floor = -1  # all behind this batch is kept; -1: nothing is
        self._left_us = 0  # when the last listener left
        self._is_timed = False  # a timer will look whether somebody has come since
        self._until = -1  # up to this batch fresh events may be told
        self._is_telling = False  # and some of them will be in the next turn

    # Listening ----------------------------------------------------------------------------------

    def handle(self, call: ListenCall, caller: Caller) -> None:
        """Refuse a listener, or tell it what it has missed and what comes."""
        refused = self._refusal(caller)
        if refused:
            call.error(Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF, refused)
            return
        request = cast(FollowEvents, call.request)
        group = self._group(request, caller)
        if isinstance(group, Reject):
            self._writer.refuse(cast(Answer, call), group)
            return
        filter_bytes = call.body_bytes + _NODE_BYTES * len(group.nodes)
        if self._has_long_filters(caller.uid, filter_bytes) or self._has_many(group, caller):
            text = "filters of listeners are too many, or too long; one must end before the next"
            call.error(Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF, text)
            return
        if self._floor < 0:
            self._floor = self._writer.durable
        call.on_gone(partial(self._leave, group, call))
        until_us = self._clock.now_us() + LONGEST_US
        if caller.until_us:
            until_us = min(until_us, caller.until_us)
        group.listeners[call] = _Stay(caller.uid, until_us, filter_bytes)
        self._groups[group.key] = group
        self._count[caller.uid] += 1
        self._filter_bytes[caller.uid] += filter_bytes
        self._begin(group, call, request.after)

    def _refusal(self, caller: Caller) -> str:
        if self._count[caller.uid] >= MOST_OF_ONE and not caller.is_operator:
            return f"{MOST_OF_ONE} listeners of uid {caller.uid}; one must end before the next"
        if self._count.total() >= MOST_LISTENERS:
            return f"{MOST_LISTENERS} listeners; one must end before the next"
        return ""

    def _has_long_filters(self, uid: int, more: int) -> bool:
        """Return whether a user's filters, or all, would take too much; the first is let in."""
        own, in_all = self._filter_bytes[uid], self._filter_bytes.total()
        is_over = own + more > FILTER_BYTES_OF_ONE and own > 0
        return is_over or in_all + more > MOST_FILTER_BYTES

    def _has_many(self, group: _Group, caller: Caller) -> bool:
        """Return whether a group would be one too many."""
        groups = self._groups
        if group.key in groups:
            return False
        own = sum(other.audience.caller.uid == caller.uid for other in groups.values())
        return len(groups) >= MOST_GROUPS or (own >= GROUPS_OF_ONE and not caller.is_operator)

    def _group(self, request: FollowEvents, caller: Caller) -> _Group | Reject:
        """Return the group of those that hear the same as this listener."""
        cluster, show_all = self._writer.cluster, bool(request.flags & SHOW_ALL)
        audience = Audience(cluster, self._conf(), caller, show_all=show_all)
        alike = encode(replace(request, after=FROM_NOW))
        key = blake2b(audience_text(audience).encode() + b"\n" + alike).digest()
        known = self._groups.get(key)
        if known is not None:
            return known
        agree = agrees(cluster, request.filter, cluster.time_us, passes_over_nodes=True)
        if isinstance(agree, Reject):
            return agree
        test = agree
        if request.filter.jobs:
            named = named_jobs(request.filter.jobs)
            if isinstance(named, Reject):
                return named
            test = _both(agree, named)
        nodes: frozenset[str] = frozenset()
        if request.nodes:
            try:
                names = expand_of_user(request.nodes, len(cluster.node_index.by_name))
            except HostlistError:
                return Reject(Errno.ESLURM_INVALID_NODE_NAME, request.nodes[:256])
            unknown = [name for name in names if name not in cluster.node_index.by_name]
            if unknown or not names:
                return Reject(Errno.ESLURM_INVALID_NODE_NAME, "".join(unknown[:1]))
            nodes = frozenset(names)
        # The tests have what they need of the texts.
        return _Group(key, audience, test, nodes, replace(request, filter=JobFilter(), nodes=""))

    def _begin(self, group: _Group, call: ListenCall, after: int) -> None:
        """Say where the events begin, and tell those that were missed."""
        is_behind = self._is_telling and bool(self._fresh)
        durable = self._fresh[0].sequence - 1 if is_behind else self._writer.durable
        is_whole = after == FROM_NOW or self._floor <= after <= durable
        first = after if is_whole and after != FROM_NOW else durable
        cluster = self._writer.cluster
        audience = audience_text(group.audience)
        call.part(EventsBegun(first, is_whole, audience, cluster.cluster_name))
        missed = [kept for kept in self._kept if kept.sequence > first]
        for body in _messages(group, missed, durable):
            call.part(body)

    def _leave(self, group: _Group, call: ListenCall) -> None:
        stay = group.listeners.pop(call, None)
        if stay is None:
            return
        if not group.listeners:
            self._groups.pop(group.key, None)
        self._count[stay.uid] -= 1
        self._filter_bytes[stay.uid] -= stay.filter_bytes
        if not self._count[stay.uid]:
            del self._count[stay.uid], self._filter_bytes[stay.uid]
        if not self._count:
            self._left_us = self._clock.now_us()
            self._wait_for_others()

    def _end(self, group: _Group, call: ListenCall, why: str, sequence: int) -> None:
        """Let a listener ask again from behind a batch."""
        self._leave(group, call)
        call.reply(EventsOver(why, sequence))

    def _wait_for_others(self) -> None:
        if not self._is_timed:
            self._is_timed = True
            self._clock.call_later(KEPT_S, self._forget)

    def _forget(self) -> None:
        """Keep nothing any more, if nobody has come since."""
        self._is_timed = False
        if self._count:
            return
        if self._clock.now_us() - self._left_us < KEPT_S * SECOND_US:
            self._wait_for_others()
            return
        self._floor = -1
        self._kept.clear()
        self._fresh.clear()

    @property
    def listener_count(self) -> int:
        """How many listen."""
        return self._count.total()

    # Telling ------------------------------------------------------------------------------------

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """Note events until they are durable."""
        if self._floor < 0:
            return
        cluster, sequence = self._writer.cluster, self._writer.newest
        for event in events:
            of_job = job_event(cluster, event, sequence)
            if of_job is not None:
                told, job = of_job
                self._fresh.append(_Kept(sequence, told, judged_part(job)))
                continue
            for told_nodes in node_events(cluster, event, sequence):
                self._fresh.append(_Kept(sequence, told_nodes))
            if _changes_rights(event):
                self._fresh.append(_Kept(sequence, None))

    def durable(self, sequence: int) -> None:
        """Tell what is durable now, some of it in each turn of the loop."""
        self._until = sequence
        if not self._is_telling:
            self._go_on()

    def _go_on(self) -> None:
        self._is_telling = False
        fresh, looks = self._fresh, 0
        while fresh and fresh[0].sequence <= self._until:
            if looks >= LOOKS_AT_ONCE:
                self._is_telling = True
                self._clock.call_soon(self._go_on)
                return
            kept = self._next_batches(LOOKS_AT_ONCE // max(1, len(self._groups)))
            looks += len(kept) * len(self._groups)
            self._keep(kept)
            self._tell(kept)
            if fresh and fresh[0].told is None:
                self._judge_anew(fresh.popleft().sequence)

    def _next_batches(self, most: int) -> list[_Kept]:
        """Take about so many durable events, up to where rights may have changed."""
        fresh = self._fresh
        kept: list[_Kept] = []
        while fresh and fresh[0].sequence <= self._until and fresh[0].told is not None:
            if len(kept) >= most and fresh[0].sequence != kept[-1].sequence:
                break
            kept.append(fresh.popleft())
        return kept

    def _keep(self, kept: list[_Kept]) -> None:
        self._kept.extend(kept)
        while len(self._kept) > MOST_KEPT:
            self._floor = self._kept.popleft().sequence

    def _tell(self, kept: list[_Kept]) -> None:
        if not kept:
            return
        first, last = kept[0].sequence, kept[-1].sequence
        now_us = self._clock.now_us()
        for group in list(self._groups.values()):
            bodies = list(_messages(group, kept, last))
            for call, stay in list(group.listeners.items()) if bodies else ():
                if stay.until_us < now_us:
                    self._end(group, call, "old", first - 1)
                    continue
                for body in bodies:
                    call.part(body)
                if call.unsent_bytes > MOST_UNSENT_BYTES:
                    self._end(group, call, "slow", last)

    def _judge_anew(self, sequence: int) -> None:
        """Let all ask again: they may have other rights now."""
        for group in list(self._groups.values()):
            for call in list(group.listeners):
                self._end(group, call, "changed", sequence - 1)


def connect(writer: Writer, more: Handlers, conf: Callable[[], SlurmConf], clock: Timers) -> None:
    """Let a controller answer FollowEvents."""
    feed = EventFeed(writer, conf, clock)
    writer.observe(feed.applied, is_brittle=True)
    writer.follow(feed.durable)
    more["FollowEvents"] = feed.handle


def _changes_rights(event: ev.AnyEvent) -> bool:
    if isinstance(event, ev.AssocChanged):
        return bool(event.users or event.users_removed)
    return type(event) in CHANGES_RIGHTS


def _both(first: JobTest, second: JobTest) -> JobTest:
    return lambda job: first(job) and second(job)


def _messages(group: _Group, events: Iterable[_Kept], sequence: int) -> Iterable[bytes]:
    """Yield messages of what a group hears; batches are told whole."""
    jobs: list[JobEvent] = []
    nodes: list[NodeEvent] = []
    last = 0
    for kept in events:
        if len(jobs) + len(nodes) >= MOST_AT_ONCE and kept.sequence != last:
            yield encode(Told(last, jobs, nodes))
            jobs, nodes = [], []
        told = group.hears(kept)
        if told is None:
            continue
        last = kept.sequence
        if isinstance(told, JobEvent):
            jobs.append(told)
        else:
            nodes.append(told)
    if jobs or nodes:
        yield encode(Told(sequence, jobs, nodes))
