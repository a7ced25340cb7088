"""Requests of commands: the user that asks, the rule or query that answers, and the daemon's own
few."""

from __future__ import annotations

import pwd
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Protocol, cast

from msgspec import Struct
from msgspec.structs import replace

from pyslurm_ng import __version__
from pyslurm_ng.base.dates import format_date
from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.faults import Faults
from pyslurm_ng.base.numbers import SECOND_US
from pyslurm_ng.ctld.clock import Clock, latency_us
from pyslurm_ng.ctld.configuration import Configuration
from pyslurm_ng.ctld.followers.recent_submissions import RecentSubmissions
from pyslurm_ng.ctld.journal_shares import JournalShares
from pyslurm_ng.ctld.local_calendar import LOCAL
from pyslurm_ng.ctld.queries import jobs
from pyslurm_ng.ctld.queries.configuration import config_lines
from pyslurm_ng.ctld.queries.diagnostics import show_diagnostics
from pyslurm_ng.ctld.queries.topology import topology_lines
from pyslurm_ng.ctld.routes import QUERIES, RULES, RuleFunction
from pyslurm_ng.ctld.rules.context import Caller, Context, Decision
from pyslurm_ng.ctld.rules.permission import has_level
from pyslurm_ng.ctld.scripts import ScriptStore
from pyslurm_ng.ctld.site_policy.gate import Gate
from pyslurm_ng.ctld.slices import Slices
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.ctld.users.identities import Identities, Person
from pyslurm_ng.ctld.writer import Answer, Writer, explained
from pyslurm_ng.journal.reserve import is_full
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.wire.job_messages import JobAccepted
from pyslurm_ng.wire.messages import Done, Pong, row
from pyslurm_ng.wire.query_messages import (
    BatchScript,
    ConfigText,
    GetBatchScript,
    ShowJobs,
    ShowTopology,
)
from pyslurm_ng.wire.stream import Call

VERSION_TEXT = f"slurm {__version__}"
_INTERNAL = "Slurm internal error, contact system administrator"
# Requests, besides submissions, with which a user could fill the room that ends of running jobs
# need.
_GROWS = frozenset(("SetTrigger", "TopJobs", "UpdateJob", "UpdatePartition", "UpdateReservation"))


class NewJobs(Protocol):
    """Where submissions with a burst buffer wait; `burst_buffers.new_jobs` has it."""

    def takes(self, call: Call, /) -> bool:
        """Return whether a request may bring a burst buffer."""

    def ask(self, call: Call, caller: Caller, /) -> None:
        """Let the site decide about a request."""


class Service:
    """Answers the calls of the stream server.

    Attributes:
        configuration: in force now; the daemon replaces it.
        more: handlers by kind of what is more than one rule or query: the daemon's own requests,
            waiting allocations, steps. They answer through `Writer.when_durable`.
        gate: where requests wait for the site's scripts; None without.
        buffers: where submissions with a burst buffer wait for the site; None without.
        submissions: counts each user's of the last hour.
    """

    def __init__(
        self,
        writer: Writer,
        soft: Soft,
        *,
        configuration: Configuration,
        clock: Clock,
        identities: Identities,
        scripts: ScriptStore,
        faults: Faults,
        host: str,
        slices: Slices,
    ) -> None:
        self.configuration = configuration
        self.more: dict[str, Callable[[Call, Caller], None]] = {
            "GetBatchScript": self._batch_script,
            "Ping": self._ping,
            "ResetDiagnostics": self._reset_diagnostics,
            "ShowConfig": self._show_config,
            "ShowDiagnostics": self._show_diagnostics,
            "ShowJobs": self._show_jobs,
            "ShowTopology": self._show_topology,
        }
        self.gate: Gate | None = None
        self.buffers: NewJobs | None = None
        self.submissions: RecentSubmissions | None = None
        self._writer = writer
        self._soft = soft
        self._clock = clock
        self._identities = identities
        self._scripts = scripts
        self._faults = faults
        self._host = host
        self.slices = slices
        self._shares = JournalShares(time.monotonic)
        writer.wrote = self._shares.wrote
        self.started_us = clock.now_us()

    def handle(self, call: Call) -> None:
        """Answer a call, now or when its state is durable or its user is known."""
        now_us = self._clock.now_us()
        self._identities.find(call.peer, now_us, partial(self._known, call, now_us))

    def context(self, caller: Caller) -> Context:
        """Return what a rule may know now."""
        now_us = self._clock.now_us()
        recent = self.submissions.count(caller.uid, now_us) if self.submissions is not None else 0
        return Context(self.configuration.conf, now_us, caller, LOCAL, recent)

    def _known(self, call: Call, begun_us: int, person: Person) -> None:
        caller = self._identities.caller(self._writer.cluster, person, call.peer)
        try:
            self._route(call, caller)
        except Exception as error:  # noqa: BLE001 - one bad request must not stop the others
            self.fault(call, caller, error)
        self._soft.count_call(call.kind, caller.uid, self._clock.now_us() - begun_us)

    def fault(self, call: Call, caller: Caller, error: Exception) -> None:
        """Answer a call whose answer could not be made, and count that."""
        self._faults.note("request", f"{call.kind} of uid {caller.uid}", error)
        call.error(Errno.ESLURM_INTERNAL, _INTERNAL)

    def resume(self, call: Call, caller: Caller) -> None:
        """Go on with a call that the site's scripts have let pass."""
        try:
            self._after_scripts(call, caller)
        except Exception as error:  # noqa: BLE001 - one bad request must not stop the others
            self.fault(call, caller, error)

    def _route(self, call: Call, caller: Caller) -> None:
        kind = call.kind
        wait = self._shares.refusal(kind, caller)
        if wait:
            self._soft.limited[caller.uid] = self._soft.limited.get(caller.uid, 0) + 1
            call.error(Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF, wait)
            return
        if self.gate is not None and self.gate.takes(kind, caller):
            self.gate.ask(call, caller)
            return
        self._after_scripts(call, caller)

    def _after_scripts(self, call: Call, caller: Caller) -> None:
        if self.buffers is not None and self.buffers.takes(call):
            self.buffers.ask(call, caller)
        else:
            self._dispatch(call, caller)

    def admit(self, call: Call, caller: Caller) -> None:
        """Go on with a submission whose burst buffer the site has let pass."""
        try:
            self._dispatch(call, caller)
        except Exception as error:  # noqa: BLE001 - one bad request must not stop the others
            self.fault(call, caller, error)

    def _dispatch(self, call: Call, caller: Caller) -> None:
        kind, writer = call.kind, self._writer
        special = self.more.get(kind)
        if special is not None:
            # Rules check users' rights; these functions are not rules.
            if not has_level(row(kind).owner_rule, caller):
                denied = Reject(Errno.ESLURM_ACCESS_DENIED)
                writer.tell(call.request, self.context(caller), denied)
                writer.refuse(call, denied)
            else:
                special(call, caller)
            return
        rule = RULES.get(kind)
        if rule is not None:
            self.change(call, rule, self.context(caller))
            return
        if kind in QUERIES:
            self._look(call, caller)
            return
        writer.refuse(call, Reject(Errno.ESLURM_NOT_SUPPORTED, f"{kind}: not supported yet"))

    def _look(self, call: Call, caller: Caller) -> None:
        conf, now_us = self.configuration.conf, self._clock.now_us()
        cluster, query = self._writer.cluster, QUERIES[call.kind]
        asked = partial(query, cluster, self._soft, conf, call.request, caller, now_us)
        self._writer.look(asked, call)

    def change(
        self, call: Call, rule: RuleFunction, context: Context, answer: Answer | None = None
    ) -> None:
        """Let a rule decide; what makes the state grow is refused first while the disk is full.

        The outcome goes to `answer`, the call itself unless given.
        """
        answer = call if answer is None else answer
        brings_job = row(call.kind).rate == "submit" or hasattr(call.request, "script")
        if brings_job or call.kind in _GROWS:
            refusal = self._writer.refusal_now()
            if refusal is not None:
                # At once: it says nothing of the state, and what waits for the disk may wait long.
                answer.error(int(refusal.code), explained(refusal))
                return
        if brings_job:
            rule = partial(self._with_scripts, rule)
        if context.caller.notes:
            rule = partial(_with_notes, rule)
        self._writer.change(rule, call.request, context, answer)

    def _with_scripts(
        self, rule: RuleFunction, cluster: Cluster, request: Struct, context: Context
    ) -> Decision | Reject:
        """Keep script and environment of an accepted job before anything names them."""
        outcome = rule(cluster, request, context)
        if isinstance(outcome, Reject) or not outcome.events:
            return outcome
        if not context.caller.is_operator:
            brought = _brought(request)
            more = sum(len(part.script) + len(part.environment) for part in brought)
            theirs = cluster.job_index.by_user.get(context.caller.uid, ())
            refused = self._scripts.refusal(more, theirs, context.conf.max_job_count)
            if refused:
                return Reject(Errno.ESLURM_ACCOUNTING_POLICY, refused)
        stored: list[ev.AnyEvent] = []
        kept: set[str] = set()
        try:
            for content, digest in _contents(request, outcome.events):
                if digest not in kept:
                    stored += self._scripts.put(content, digest, context.now_us)
                kept.add(digest)
        except OSError as error:
            why = "No space left in StateSaveLocation" if is_full(error) else str(error)
            return Reject(Errno.ESLURM_WRITING_TO_FILE, why)
        return Decision([*stored, *outcome.events], outcome.reply, outcome.notes)

    # The daemon's own ---------------------------------------------------------------------------

    def _ping(self, call: Call, caller: Caller) -> None:
        pong = Pong(self._host, "primary", VERSION_TEXT, self._clock.now_us())
        self._writer.when_seen(lambda: call.reply(pong))

    def _batch_script(self, call: Call, caller: Caller) -> None:
        request = cast(GetBatchScript, call.request)

        def query() -> Struct | Reject:
            script = jobs.script_of(self._writer.cluster, request, caller)
            if isinstance(script, Reject):
                return script
            try:
                return BatchScript(script[0], self._scripts.get(script[1]))
            except OSError:
                return Reject(Errno.ESLURM_JOB_SCRIPT_MISSING)

        self._writer.look(query, call)

    def _show_config(self, call: Call, caller: Caller) -> None:
        configuration, now_us = self.configuration, self._clock.now_us()
        lines = config_lines(
            configuration.conf,
            version=__version__,
            boot_time=format_date(self.started_us // SECOND_US),
            next_job_id=self._writer.cluster.next_job_id,
            user_id=_user_id,
            cgroup=configuration.cgroup,
            gather=configuration.gather,
        )
        answer = ConfigText(lines=lines, now_us=now_us)
        self._writer.when_seen(lambda: call.reply(answer))

    def _show_topology(self, call: Call, caller: Caller) -> None:
        request = cast(ShowTopology, call.request)
        self._writer.look(lambda: topology_lines(self._writer.cluster, request), call)

    def _show_jobs(self, call: Call, caller: Caller) -> None:
        """List jobs; many records are packed in slices first, others have their turn meanwhile."""
        request = cast(ShowJobs, call.request)
        conf = self.configuration.conf
        work = jobs.packing(self._writer.cluster, self._soft, conf, request, caller)
        if work is None:
            self._look(call, caller)
        else:
            self.slices.run(self._pack_first(work, call, caller), call.holder.lane)

    def _pack_first(self, work: Iterator[None], call: Call, caller: Caller) -> Iterator[None]:
        try:
            # Many of one user may have waited here, and their command may have been ended.
            while not call.is_gone and next(work, _OVER) is not _OVER:
                yield
            if call.is_gone:
                return
            self._look(call, caller)
        except Exception as error:  # noqa: BLE001 - the command gets an answer all the same
            self.fault(call, caller, error)

    def _show_diagnostics(self, call: Call, caller: Caller) -> None:
        names = {
            uid: self._identities.name_of(uid) for uid in (*self._soft.callers, *self._soft.limited)
        }
        self._soft.clock_latency_us = latency_us()
        asked = partial(
            show_diagnostics,
            self._writer.cluster,
            self._soft,
            self.configuration.conf,
            call.request,  # type: ignore[arg-type]
            caller,
            self._clock.now_us(),
            user_names=names,
        )
        self._writer.look(asked, call)

    def _reset_diagnostics(self, call: Call, caller: Caller) -> None:
        self._soft.reset(self._clock.now_us())
        call.reply(Done())


def _with_notes(
    rule: RuleFunction, cluster: Cluster, request: Struct, context: Context
) -> Decision | Reject:
    """Tell the user what the site's scripts said, whatever comes of the request."""
    outcome, notes = rule(cluster, request, context), context.caller.notes
    if isinstance(outcome, Reject):
        detail = [*notes, *([outcome.detail] if outcome.detail else [])]
        return Reject(outcome.code, "\n".join(detail))
    if isinstance(outcome.reply, JobAccepted):
        return replace(outcome, reply=replace(outcome.reply, notes=[*notes, *outcome.reply.notes]))
    return outcome


class _Brought(Struct, frozen=True):
    """A script and an environment that a request brings; b"" for none."""

    script: bytes
    environment: bytes


def _brought(request: Struct) -> list[_Brought]:
    """Return what a request brings: of one job, or of each entry of a crontab."""
    parts: list[Struct] = getattr(request, "jobs", [request])
    return [_Brought(getattr(part, "script", b""), getattr(part, "environment", b""))
            for part in parts]  # fmt: skip


def _contents(request: Struct, events: Iterable[ev.AnyEvent]) -> Iterator[tuple[bytes, str]]:
    """Yield the contents that new jobs name, with the names that the rule gave them."""
    submitted = [event for event in events if isinstance(event, ev.JobSubmitted)]
    if not submitted:
        return
    brought = _brought(request)
    if len(brought) == 1:  # components share theirs
        submitted = submitted[:1]
    for part, event in zip(brought, submitted, strict=True):
        yield part.script, event.script_hash
        yield part.environment, event.env_hash


_OVER = object()


def _user_id(name: str) -> int:
    try:
        return int(name) if name.isdecimal() else pwd.getpwnam(name).pw_uid
    except KeyError:
        return -1
