"""Requests of srun that stay open: steps that wait for others, steps that run.

A step that cannot have its share now is tried again as soon as something of its job has changed,
in the order of asking. If several requests are the same, only the first is tried: if it does not
fit, none of them fits. Thousands may wait in one job, no two the same, so they are tried in slices.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, cast

import msgspec
from msgspec import Struct

from pyslurm_ng.base.errors import Errno, Reject, error_text
from pyslurm_ng.ctld.clock import Timers
from pyslurm_ng.ctld.nodes.credentials import Credentials
from pyslurm_ng.ctld.rules.context import Caller, Context, Decision
from pyslurm_ng.ctld.rules.steps import steps
from pyslurm_ng.ctld.slices import Slices
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.states import JobState
from pyslurm_ng.model.touched import EVERYTHING, touched_jobs
from pyslurm_ng.steps.creation import compact
from pyslurm_ng.steps.share import share_of
from pyslurm_ng.wire.step_messages import (
    CreateStep,
    StepGranted,
    StepManagerAt,
    StepOver,
    StepWaiting,
)

# Steps that follow one another must not see each other's tail as "busy": nodes report an end
# some milliseconds after srun knows of it.
_SAY_BUSY_AFTER_S = 0.25
# A node's report of the end may come after srun has left.
_GONE_GRACE_S = 5.0
_NO_REPORT_S = 30.0
# A slice tries about so many requests; long lists of nodes and remembered refusals count by the
# time that they take.
_SLICE = 16.0
_OF_ONE_CHARACTER = 1 / 512
_OF_ONE_REMEMBERED = 1 / 16

_granted_decoder = msgspec.msgpack.Decoder(StepGranted)


class OpenCall(Protocol):
    """A request that takes several answers; `wire.stream.Call`."""

    request: Struct

    def part(self, answer: Struct) -> None:
        """Send an answer that others follow."""

    def reply(self, answer: Struct) -> None:
        """Send the last answer."""

    def error(self, code: int, text: str) -> None:
        """Refuse."""

    def on_gone(self, callback: Callable[[], None]) -> None:
        """Call back if the connection ends before the last answer."""


@dataclass(eq=False, slots=True)
class _Waiting:
    call: OpenCall
    request: CreateStep
    caller: Caller
    code: int = 0
    was_told: bool = False


class StepCalls:
    """Answers CreateStep."""

    def __init__(
        self,
        writer: Writer,
        credentials: Credentials,
        clock: Timers,
        context: Callable[[Caller], Context],
        slices: Slices,
    ) -> None:
        """Decide with `context(caller)`, sign with `credentials`, and try again in `slices`."""
        self._writer = writer
        self._credentials = credentials
        self._clock = clock
        self._context = context
        self._slices = slices
        self._waiting: dict[int, dict[_Waiting, None]] = {}  # by job, in the order of asking
        self._open: dict[tuple[int, int], OpenCall] = {}
        self._due: set[int] = set()  # jobs that have changed since their requests were tried
        self._at_work: set[int] = set()  # jobs whose requests are being tried
        self._last_us = 0  # what ran out while no controller was there ends at the first tick

    @property
    def waiting_count(self) -> int:
        """How many steps wait for their share."""
        return sum(map(len, self._waiting.values()))

    def handle(self, call: OpenCall, caller: Caller) -> None:
        """Grant, refuse or keep a request."""
        request = call.request = compact(cast(CreateStep, call.request))
        waiting = _Waiting(call, request, caller)
        call.on_gone(partial(self._gone_waiting, waiting))
        if not self._try(waiting):
            self._waiting.setdefault(request.job_id, {})[waiting] = None
            self._clock.call_later(_SAY_BUSY_AFTER_S, partial(self._say_busy, waiting))

    def _try(self, waiting: _Waiting) -> bool:
        """Let the rule decide; return whether that settled the request."""
        request, context = waiting.request, self._context(waiting.caller)
        cluster = self._writer.cluster
        is_known = (waiting.caller.uid, request.request_id) in cluster.replies
        outcome = Decision() if is_known else steps.create_step(cluster, request, context)
        if isinstance(outcome, Reject) and outcome.code in steps.WAIT_CODES:
            waiting.code = outcome.code
            if not request.no_wait:
                return False
        if isinstance(outcome, Decision) and isinstance(outcome.reply, StepManagerAt):
            waiting.call.reply(outcome.reply)
            return True
        answer = _Answer(self, waiting)
        self._writer.change(lambda *_: outcome, request, context, answer)
        return True

    def _say_busy(self, waiting: _Waiting) -> None:
        if waiting in self._waiting.get(waiting.request.job_id, ()):
            waiting.was_told = True
            answer = StepWaiting(waiting.code, error_text(waiting.code))
            self._writer.when_durable(lambda: waiting.call.part(answer))

    # After a change -----------------------------------------------------------------------------

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """See which steps ended and which waiting ones may go now."""
        if not self._waiting and not self._open:
            return
        for event in events:
            if isinstance(event, ev.StepEnded):
                call = self._open.pop((event.job_id, event.step_id), None)
                if call is not None:
                    self._tell_over(call, event)
            if not self._waiting:
                continue
            job_ids = touched_jobs(event)
            hit = self._waiting if job_ids == EVERYTHING else job_ids
            for job_id in hit:
                if job_id in self._waiting:
                    self._due.add(job_id)
                    if job_id not in self._at_work:
                        self._at_work.add(job_id)
                        uid = next(iter(self._waiting[job_id])).caller.uid
                        self._slices.run(self._retry(job_id), uid)

    def _tell_over(self, call: OpenCall, event: ev.StepEnded) -> None:
        job = self._writer.cluster.jobs.get(event.job_id)
        over = StepOver(
            job_id=event.job_id,
            step_id=event.step_id,
            state=event.state,
            exit_code=event.exit_code,
            job_state=int(job.state) if job is not None else int(JobState.COMPLETED),
            reason=job.reason if job is not None else 0,
        )
        self._writer.when_durable(lambda: call.reply(over))

    def _retry(self, job_id: int) -> Iterator[None]:
        """Try all that wait in a job, and again if it has changed meanwhile."""
        try:
            while job_id in self._due:
                self._due.discard(job_id)
                yield from self._retry_each(job_id)
                if job_id in self._due:
                    yield
        finally:
            self._at_work.discard(job_id)

    def _retry_each(self, job_id: int) -> Iterator[None]:
        refused: set[tuple[object, ...]] = set()
        work = 0.0
        for waiting in list(self._waiting.get(job_id, ())):
            if waiting not in self._waiting.get(job_id, ()):
                continue  # its connection has ended since
            shape = _shape(waiting.request)
            if shape in refused:
                work += _OF_ONE_REMEMBERED
            else:
                if self._try_again(waiting):
                    self._gone_waiting(waiting)
                else:
                    refused.add(shape)
                work += 1 + _OF_ONE_CHARACTER * _length(waiting.request)
            if work >= _SLICE:
                work = 0.0
                yield

    def _try_again(self, waiting: _Waiting) -> bool:
        """Let the rule decide once more; who makes it raise is told so and waits no longer."""
        try:
            return self._try(waiting)
        except Exception as error:  # noqa: BLE001 - it costs this request only
            self._writer.spared(f"a waiting step of job {waiting.request.job_id}", error)
            waiting.call.error(Errno.ESLURM_INTERNAL, error_text(Errno.ESLURM_INTERNAL))
            return True

    def tick(self, limited: Iterable[int], fresh: Collection[int] = ()) -> None:
        """End steps past their time limit, of the jobs that may have some.

        Args:
            fresh: jobs that were not looked at before, since their run time was not known.
        """
        now_us, cluster = self._clock.now_us(), self._writer.cluster
        if self._last_us > now_us:
            self._last_us = now_us  # the clock was moved back, and all steps with it
        first = [job_id for job_id in limited if job_id in fresh]
        others = [job_id for job_id in limited if job_id not in fresh]
        for job_ids, last_us in ((first, 0), (others, self._last_us)):
            self._writer.record(
                steps.step_time_limits(cluster, job_ids, last_us, now_us, cluster.next_duty_id)
            )
        self._last_us = now_us

    # Granted ------------------------------------------------------------------------------------

    def granted(self, waiting: _Waiting, granted: StepGranted) -> None:
        """Sign what the rule gave and keep the call until the step is over."""
        cluster, call = self._writer.cluster, waiting.call
        job = cluster.jobs.get(granted.job_id)
        step = job.steps.get(granted.step_id) if job is not None else None
        if job is None or step is None:
            state = int(JobState.CANCELLED)
            call.reply(StepOver(granted.job_id, granted.step_id, state, 0, state))
            return
        share = share_of(step, granted, waiting.request)
        credential = self._credentials.of_step(cluster, job, share)
        key = (job.job_id, step.step_id)
        self._open[key] = call
        call.on_gone(partial(self._gone_open, key, call))
        call.part(msgspec.structs.replace(granted, credential=credential))

    # Connections that end -----------------------------------------------------------------------

    def _gone_waiting(self, waiting: _Waiting) -> None:
        job_id = waiting.request.job_id
        others = self._waiting.get(job_id, {})
        others.pop(waiting, None)
        if not others:
            self._waiting.pop(job_id, None)

    def _gone_open(self, key: tuple[int, int], call: OpenCall) -> None:
        if self._open.get(key) is call:
            del self._open[key]
            self._clock.call_later(_GONE_GRACE_S, partial(self._abandon, key))

    def _abandon(self, key: tuple[int, int]) -> None:
        """End a step without its srun, if the nodes have not reported its end."""
        cluster = self._writer.cluster
        job = cluster.jobs.get(key[0])
        step = job.steps.get(key[1]) if job is not None else None
        if job is None or step is None or key in self._open:
            return
        self._writer.record(steps.kill_step(cluster, job, step, self._clock.now_us()))
        self._clock.call_later(_NO_REPORT_S, partial(self._forget, key))

    def _forget(self, key: tuple[int, int]) -> None:
        """Drop a step that no node knows: srun went before it had launched anything."""
        job = self._writer.cluster.jobs.get(key[0])
        step = job.steps.get(key[1]) if job is not None else None
        if job is None or step is None or key in self._open:
            return
        now_us = self._clock.now_us()
        self._writer.record(
            steps.nodes_left(job, step, step.nodes_pending, 0, JobState.CANCELLED, now_us)
        )


class _Answer:
    """Turns the writer's answer into a signed grant."""

    def __init__(self, calls: StepCalls, waiting: _Waiting) -> None:
        self._calls = calls
        self._waiting = waiting

    def reply(self, answer: Struct | bytes) -> None:
        """The step exists durably; a retried request brings the remembered bytes."""
        granted = _granted_decoder.decode(answer) if isinstance(answer, bytes) else answer
        assert isinstance(granted, StepGranted)
        self._calls.granted(self._waiting, granted)

    def error(self, code: int, text: str) -> None:
        """No step."""
        self._waiting.call.error(code, text)


def _length(request: CreateStep) -> int:
    """Return the characters that a try reads, names of tasks included."""
    return len("".join((request.node_list, request.exclude, *request.task_nodes)))


def _shape(request: CreateStep) -> tuple[object, ...]:
    """Return all that decides whether a request fits."""
    return tuple(
        tuple(value) if isinstance(value, list) else value
        for name in _SHAPE_FIELDS
        for value in (getattr(request, name),)
    )


_SHAPE_FIELDS = tuple(
    name
    for name in CreateStep.__struct_fields__
    if name
    not in ("request_id", "name", "srun_host", "srun_pid", "srun_port", "submit_line", "cwd",
            "std_in", "std_out", "std_err", "time_limit_min")
)  # fmt: skip
