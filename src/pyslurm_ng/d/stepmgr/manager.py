"""The step manager of one job: gives shares, keeps what must wait, tells the controller the news.

What fits is decided by `steps`, the same rules as the controller's. Here are the calls that wait,
the steps that were queued (`srun --async`), and the notes from which a restarted slurmd goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from pyslurm_ng.base.errors import Errno, Reject, error_text
from pyslurm_ng.d.stepmgr.hands import Hands
from pyslurm_ng.d.stepmgr.news import News
from pyslurm_ng.d.stepmgr.notes import ANSWERED, CANCELLED, QUEUED, Notes
from pyslurm_ng.d.stepmgr.waiting import (
    StepWaits,
    WaitingStep,
    WaitingSteps,
    needs_srun,
    queued_note,
    read_note,
)
from pyslurm_ng.model.job import Step
from pyslurm_ng.model.states import JobState
from pyslurm_ng.steps.creation import WAIT_CODES, compact
from pyslurm_ng.steps.managed_job import ManagedJob
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.call import Call
from pyslurm_ng.wire.messages import Done
from pyslurm_ng.wire.step_messages import (
    CompleteStep,
    CreateStep,
    StepGranted,
    StepOver,
    StepWaiting,
)
from pyslurm_ng.wire.stepmgr_messages import QueueStep, StepQueued, WaitSteps

_SAY_BUSY_AFTER_S = 0.25
# A node's report of the end may come after srun has left; srun may have gone before a launch.
_GONE_GRACE_S = 5.0
_NO_REPORT_S = 30.0
_MOST_QUEUED_BYTES = 64 << 20
_STEP_BYTES = 2560  # what a step with nothing but a name takes in memory
_TRIES_AT_ONCE = 8
_MOST_REQUESTS = 4096

_encode = msgspec.msgpack.Encoder().encode
_decode_answered = msgspec.msgpack.Decoder(list[tuple[bytes, int]]).decode
TOO_MUCH = "steps that wait have too long variables and arguments: wait until some have begun"


class StepManager:
    """Serves the steps of one job, for its user alone."""

    def __init__(self, credential: nm.JobCredential, notes: Notes, hands: Hands) -> None:
        self.job = ManagedJob(credential)
        self._notes = notes
        self._hands = hands
        self.waiting = WaitingSteps()
        self._open: dict[int, Call] = {}
        self._waits = StepWaits(self.job, self.waiting)
        self.news = News(self.job, notes, hands, self._kept_notes)
        self._granted: dict[bytes, int] = {}
        self._is_trying = False
        self._is_due = False
        self._is_over = False

    # Requests -----------------------------------------------------------------------------------

    def handle(self, call: Call) -> None:
        """Answer a request of the job's user, now or later."""
        request = call.request
        if call.peer.uid != self.job.job.uid:
            call.error(Errno.ESLURM_ACCESS_DENIED, error_text(Errno.ESLURM_ACCESS_DENIED))
        elif isinstance(request, WaitSteps):
            self._waits.add(call, request, is_over=self._is_over)
        elif self._is_over:
            call.error(Errno.ESLURM_ALREADY_DONE, error_text(Errno.ESLURM_ALREADY_DONE))
        elif isinstance(request, CreateStep):
            self._create(call, request)
        elif isinstance(request, QueueStep):
            self._queue(call, request)
        elif isinstance(request, CompleteStep):
            self.not_launched(request)
            call.reply(Done())

    def _create(self, call: Call, request: CreateStep) -> None:
        request = call.request = compact(request)
        waiting = WaitingStep(request, call.peer.uid, call)
        call.on_gone(partial(self._gone_waiting, waiting))
        known = self._granted.get(request.request_id)
        if known is not None:
            # The step has been made; what it has is known to the first who asked.
            text = error_text(Errno.ESLURM_DUPLICATE_STEP_ID)
            call.error(Errno.ESLURM_DUPLICATE_STEP_ID, text)
            return
        if self.waiting.has_alike(request) or not self._try(waiting):
            waiting.code = waiting.code or int(Errno.ESLURM_NODES_BUSY)
            if request.no_wait:
                call.error(waiting.code, error_text(waiting.code))
                return
            self.waiting.add(waiting)
            self._hands.later(_SAY_BUSY_AFTER_S, partial(self._say_busy, waiting))

    def _queue(self, call: Call, request: QueueStep) -> None:
        known = self._granted.get(request.request_id)
        if known is not None:
            call.reply(StepQueued(self.job.job.job_id, known))
            return
        problem = needs_srun(request.launch)
        if problem:
            call.error(Errno.ESLURM_NOT_SUPPORTED, problem)
            return
        request = msgspec.structs.replace(request, step=compact(request.step))
        size = call.body_bytes + _STEP_BYTES
        self.news.tidy()
        if self.waiting.queued_bytes + size > _MOST_QUEUED_BYTES or self._notes.is_full:
            call.error(Errno.ESLURM_STEP_LIMIT, TOO_MUCH)
            return
        conf = self._hands.conf()
        tried = self.job.create(request.step, call.peer.uid, conf, self._hands.now_us())
        if isinstance(tried, Reject) and tried.code not in WAIT_CODES:
            call.error(tried.code, tried.detail or error_text(tried.code))
            return
        step_id = self.job.reserve_id(conf)
        if isinstance(step_id, Reject):
            call.error(step_id.code, error_text(step_id.code))
            return
        waiting = WaitingStep(request.step, call.peer.uid, None, request, step_id, size=size)
        try:
            self._notes.add(QUEUED, queued_note(waiting))
        except OSError as error:
            call.error(Errno.ESLURMD_JOB_NOTRUNNING, f"spool: {error.strerror}")
            return
        self._remember(request.request_id, step_id)
        call.reply(StepQueued(self.job.job.job_id, step_id))
        self.waiting.add(waiting)
        self.try_all()

    def _tell_over(self) -> None:
        self._waits.tell(is_over=self._is_over)

    def _remember(self, request_id: bytes, step_id: int) -> None:
        self._granted[request_id] = step_id
        if len(self._granted) > _MOST_REQUESTS:
            del self._granted[next(iter(self._granted))]

    def _kept_notes(self) -> list[tuple[bytes, bytes]]:
        """Return what stays in the notes when steps that are over are left out.

        Who lost the answer asks once more, perhaps after a restart, and must not run a step twice.
        """
        answered = [*self._granted.items()]
        return [(ANSWERED, _encode(answered)), *self.waiting.notes()]

    # Shares -------------------------------------------------------------------------------------

    def _try(self, waiting: WaitingStep) -> bool:
        """Give a step its share, or refuse it; return whether that settled it."""
        now_us = self._hands.now_us()
        outcome = self.job.create(
            waiting.request, waiting.uid, self._hands.conf(), now_us, waiting.step_id
        )
        if isinstance(outcome, Reject):
            if outcome.code in WAIT_CODES:
                waiting.code = outcome.code
                return False
            self._refuse(waiting, outcome)
            return True
        self._give(waiting, *outcome, now_us)
        return True

    def _refuse(self, waiting: WaitingStep, why: Reject) -> None:
        text = why.detail or error_text(why.code)
        if waiting.call is not None:
            waiting.call.error(why.code, text)
        else:
            self._hands.error(f"StepId={self.job.job.job_id}.{waiting.step_id}: {text}")
            self._tell_over()

    def _give(self, waiting: WaitingStep, step: Step, granted: StepGranted, now_us: int) -> None:
        credential = self._hands.credential(self.job, step, granted, waiting.request)
        self.news.add(self.job.created(step, now_us))
        granted = msgspec.structs.replace(granted, credential=credential)
        if waiting.queued is not None:
            launch = msgspec.structs.replace(waiting.queued.launch, credential=credential)
            self._hands.launch(self.job, granted, launch)
            return
        self._remember(waiting.request.request_id, step.step_id)
        call = waiting.call
        assert call is not None
        self._open[step.step_id] = call
        call.on_gone(partial(self._gone_open, step.step_id, call))
        call.part(granted)

    def _say_busy(self, waiting: WaitingStep) -> None:
        if waiting in self.waiting and waiting.call is not None:
            waiting.call.part(StepWaiting(waiting.code, error_text(waiting.code)))

    def try_all(self) -> None:
        """See which of those that wait fit now, some in each turn of the loop."""
        self._is_due = True
        if not self._is_trying and len(self.waiting):
            self._is_trying = True
            self._hands.run(self._tries())

    def _tries(self) -> Iterator[None]:
        try:
            while self._is_due and not self._is_over:
                self._is_due = False
                count = 0
                for head in self.waiting.heads():
                    waiting: WaitingStep | None = head
                    while waiting is not None and waiting in self.waiting:
                        count += 1
                        if not self._try(waiting):
                            break
                        self.waiting.remove(waiting)
                        waiting = self.waiting.next_alike(waiting)
                        if count % _TRIES_AT_ONCE == 0:
                            yield
                    if count % _TRIES_AT_ONCE == 0:
                        yield
        finally:
            self._is_trying = False

    # Ends ---------------------------------------------------------------------------------------

    def ended(self, node: str, report: nm.StepEnded) -> None:
        """A node says that a step is over there."""
        self._over(self.job.ended(node, report, self._hands.now_us()))

    def not_launched(self, message: CompleteStep) -> None:
        """Nothing of a step runs on some nodes."""
        self._over(self.job.not_launched(message, self._hands.now_us()))

    def _over(self, news: list[nm.StepNews]) -> None:
        self.news.add(news)
        for step_news in news:
            call = self._open.pop(step_news.step_id, None)
            if call is not None:
                call.reply(
                    StepOver(
                        self.job.job.job_id, step_news.step_id, step_news.state,
                        step_news.exit_code, int(JobState.RUNNING),
                    )
                )  # fmt: skip
        if news:
            self.try_all()
            self._tell_over()

    def cancel_waiting(self, step_id: int) -> bool:
        """Forget a queued step; return whether there was one of that number."""
        waiting = self.waiting.queued(step_id)
        if waiting is None:
            return False
        self.waiting.remove(waiting)
        try:
            self._notes.add(CANCELLED, _encode(step_id))
        except OSError as error:
            self._hands.error(f"notes of job {self.job.job.job_id}: {error.strerror}")
        self._tell_over()
        return True

    def suspend(self, *, is_suspended: bool) -> None:
        """The job is stopped, or goes on."""
        self.job.suspend(is_suspended=is_suspended)
        if not is_suspended:
            self.try_all()

    def job_over(self) -> None:
        """The job ends: no step begins any more, and those who wait are told."""
        if self._is_over:
            return
        self._is_over = True
        for waiting in list(self.waiting):
            self.waiting.remove(waiting)
            if waiting.call is not None:
                self._reply_over(waiting.call, -1)
        for step_id, call in self._open.items():
            self._reply_over(call, step_id)
        self._open.clear()
        self._tell_over()

    def _reply_over(self, call: Call, step_id: int) -> None:
        state = int(JobState.CANCELLED)
        call.reply(StepOver(self.job.job.job_id, max(0, step_id), state, 0, state))

    # Connections that end -----------------------------------------------------------------------

    def _gone_waiting(self, waiting: WaitingStep) -> None:
        self.waiting.remove(waiting)

    def _gone_open(self, step_id: int, call: Call) -> None:
        if self._open.get(step_id) is call:
            del self._open[step_id]
            self._hands.later(_GONE_GRACE_S, partial(self._abandon, step_id))

    def _abandon(self, step_id: int) -> None:
        """End a step without its srun, if the nodes have not reported its end."""
        step = self.job.job.steps.get(step_id)
        if step is not None and not self._is_over:
            self._hands.end(self.job, step)
            self._hands.later(_NO_REPORT_S, partial(self._forget, step_id))

    def _forget(self, step_id: int) -> None:
        """Drop a step that no node knows: srun went before it had launched anything."""
        step = self.job.job.steps.get(step_id)
        if step is not None and not self._is_over:
            nodes = self.job.node_names(step.nodes_pending)
            self.not_launched(CompleteStep(bytes(16), self.job.job.job_id, step_id, nodes, 0))

    # Notes --------------------------------------------------------------------------------------

    def take_up(self) -> None:
        """Go on where a slurmd before this one was; raises OSError, DecodeError."""
        queued: dict[int, WaitingStep] = {}
        for kind, body in self._notes.read():
            if kind == QUEUED:
                waiting = read_note(body)
                queued[waiting.step_id] = waiting
                assert waiting.queued is not None
                self._remember(waiting.queued.request_id, waiting.step_id)
            elif kind == CANCELLED:
                queued.pop(msgspec.msgpack.decode(body, type=int), None)
            elif kind == ANSWERED:
                for request_id, step_id in _decode_answered(body):
                    self._remember(request_id, step_id)
            else:
                self.news.take_up(kind, body)
        made = self.news.learn()
        for step_id, waiting in queued.items():
            self.job.job.next_step_id = max(self.job.job.next_step_id, step_id + 1)
            if step_id not in made:
                self.waiting.add(waiting)
        self.try_all()
