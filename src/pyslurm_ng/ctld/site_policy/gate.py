"""Requests for jobs wait here for the site's scripts; then they go on as if they came like that.

Only JobSubmitPlugins with scripts (lua, python) bring requests here. What the journal gets is the
request after them, so a replay never runs a script. Others' requests go on meanwhile: a question
that takes long keeps one process and its user waiting, and others are asked another (ADR 0087).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.values import option_int
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.ctld.site_policy.failures import Failures
from pyslurm_ng.ctld.site_policy.job_rows import JobRows
from pyslurm_ng.ctld.site_policy.lookups import Lookups
from pyslurm_ng.ctld.site_policy.process import MEMORY_BYTES, Loop, ScriptProcess
from pyslurm_ng.ctld.site_policy.waiting import Waiting
from pyslurm_ng.ctld.site_policy.walks import SCRIPTED, Log, Passage, Walks
from pyslurm_ng.ctld.site_policy.worker import Process, Worker
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.policy.messages import Begin, Verdict
from pyslurm_ng.wire.query_messages import JobsChanged
from pyslurm_ng.wire.stream import Call

_LIMIT_S = 5
WAITING = 1_000
"""Of one user."""
AT_ONCE = 32
"""Questions that a process has at a time while they are answered quickly."""
MOST_WORKERS = 4
MOST_ENDING = 8
"""Killed processes that have not ended, until no other is started."""


class Gate:
    """Asks the scripts about each request that makes or changes a job.

    Attributes:
        resume: takes a call on, its request and caller as the scripts left them.
    """

    KINDS = frozenset(
        ("SubmitJob", "AllocateJob", "TestJob", "UpdateJob", "HoldJobs", "StoreCrontab")
    )

    def __init__(
        self,
        writer: Writer,
        soft: Soft,
        conf: SlurmConf,
        loop: Loop,
        log: Log,
        context: Callable[[Caller], Context],
        resume: Callable[[Call, Caller], None],
        fault: Callable[[Call, Caller, Exception], None],
        start: Callable[..., Process] = ScriptProcess,
    ) -> None:
        """Have no process yet.

        Args:
            fault: answers a call whose questions could not be made.
            start: makes a process.
        """
        self.resume = resume
        self._fault = fault
        self._start_process = start
        self._writer = writer
        self._loop = loop
        self._log = log
        self._job_rows = JobRows(writer.cluster, soft)
        self._walks = Walks(writer.cluster, self._job_rows, log, context)
        self._waiting = Waiting()
        self._workers: list[Worker] = []
        self._ending: list[Worker] = []  # killed; a file system that hangs may keep them
        self._window = AT_ONCE
        self._failures = Failures()
        self._when_loaded: Callable[[list[str]], None] | None = None
        self._begin, self._limit_s = Begin((), "", "", 0), 0
        self.adopt(conf)

    def adopt(self, conf: SlurmConf) -> None:
        """Use other plugins from now on; scripts that changed are loaded again by themselves."""
        scripted = tuple(name for name in conf.job_submit_plugins if name in SCRIPTED)
        directory = conf.path.rpartition("/")[0] or "."
        begin = Begin(scripted, directory, conf.cluster_name, MEMORY_BYTES)
        limit_s = option_int(conf.slurmctld_parameters, "job_submit_timeout", _LIMIT_S)
        is_other = (begin, limit_s) != (self._begin, self._limit_s)
        self._begin, self._limit_s = begin, limit_s
        self._walks.names = conf.job_submit_plugins
        self._job_rows.tracked = conf.tracked_tres()
        self._failures = Failures()
        if is_other and self._workers:
            passages = [passage for worker in self._workers for passage in worker.open]
            passages += self._waiting.take_all()
            self.close()
            self._waiting, self._window = Waiting(), AT_ONCE
            for passage in passages:
                passage.begin_anew()
                self._waiting.push(passage)
            self._loop.call_later(0.0, self._next)

    def load(self, done: Callable[[list[str]], None]) -> None:
        """Load the scripts, and say what is wrong with them."""
        if not self._begin.plugins:
            done([])
            return
        self._when_loaded = done
        self._start()

    def takes(self, kind: str, caller: Caller) -> bool:
        """Return whether a request has to pass the scripts, and has not yet."""
        return bool(self._begin.plugins) and not caller.is_passed and kind in self.KINDS

    def ask(self, call: Call, caller: Caller) -> None:
        """Let the scripts decide about a call; it goes on, or is refused, later."""
        uid, request_id = caller.uid, getattr(call.request, "request_id", bytes(16))
        if self._writer.cluster.replies.find(uid, request_id) is not None:
            self.resume(call, caller)  # its answer is known already
            return
        passage = Passage(call, caller)
        now_s = self._loop.time()
        why = self._failures.refusal(caller, now_s)
        if not why and self._has_work():
            why = self._failures.refusal_of_all(now_s)
        if why:
            self._refuse(passage, _undecided(why))
            return
        if self._waiting.of(uid) >= WAITING:
            text = f"{WAITING} requests of uid {uid} wait for the site's scripts"
            call.error(Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF, text)
            return
        self._waiting.push(passage)
        self._next()

    def _has_work(self) -> bool:
        return bool(self._waiting) or any(worker.open for worker in self._workers)

    def close(self) -> None:
        """End the processes."""
        for worker in [*self._workers]:
            self._end(worker)

    # Processes ------------------------------------------------------------------------------------

    def _start(self) -> None:
        self._forget_ended()
        if len(self._ending) >= MOST_ENDING:
            self._broke(f"{MOST_ENDING} processes of scripts do not end although they were killed")
            return
        try:
            start = partial(self._start_process, self._loop, self._begin, limit_s=self._limit_s)
            lookups = Lookups(self._writer.cluster, self._job_rows)
            worker = Worker(self, lookups, self._loop, start)
        except OSError as error:
            self._broke(f"cannot start the process of scripts: {error.strerror}")
        else:
            self._workers.append(worker)

    def loaded(self, worker: Worker, errors: list[str]) -> None:
        """Ask what waits, or refuse it; the next request tries again: the file may be mended."""
        for line in errors:
            self._log.error(line)
        self._tell_loaded(errors)
        if errors:
            self._end(worker)
            reject = Reject(Errno.SLURM_ERROR, "\n".join(errors))
            self._refuse_each(self._waiting.take_all(), reject)
        else:
            self._next()

    def _tell_loaded(self, errors: list[str]) -> None:
        tell, self._when_loaded = self._when_loaded, None
        if tell is not None:
            tell(errors)

    def ended(self, worker: Worker, why: str) -> None:
        """Refuse what a process worked on when it came to its end; others are asked the rest."""
        self._end(worker)
        if worker.is_loading:
            self._broke(why)
            return
        self._log.error(f"job_submit: {why}")
        if worker.open:
            passage = worker.open.popleft()
            self._waiting.put_back(worker.open)
            self._refuse(passage, _undecided(why))
            self._release(passage.caller.uid)
            self._note_failure(passage.caller, why)
        self._loop.call_later(0.0, self._next)

    def _note_failure(self, caller: Caller, why: str) -> None:
        """Refuse what waits of a user, or of all, if the scripts are no longer asked about it."""
        now_s = self._loop.time()
        self._failures.failed(caller, why, now_s)
        of_all = self._failures.refusal_of_all(now_s)
        refusal = of_all or self._failures.refusal(caller, now_s)
        if refusal:
            self._log.error(f"job_submit: {refusal}")
            waiting = self._waiting.take_all() if of_all else self._waiting.take(caller.uid)
            self._refuse_each(waiting, _undecided(refusal))

    def _broke(self, why: str) -> None:
        """If there is no process, refuse all that waits, and all requests for a while."""
        self._log.error(f"job_submit: {why}")
        self._tell_loaded([why])
        if self._workers:
            return
        self._failures.broke(why, self._loop.time())
        self._refuse_each(self._waiting.take_all(), _undecided(why))

    def _end(self, worker: Worker) -> None:
        worker.close()
        if worker in self._workers:
            self._workers.remove(worker)
            self._ending.append(worker)
            self._loop.call_later(1.0, self._forget_ended)

    def _forget_ended(self) -> None:
        self._ending = [worker for worker in self._ending if not worker.is_gone]

    def _retire(self, worker: Worker) -> None:
        if not worker.open and len(self._workers) > 1:
            self._end(worker)

    # Questions ------------------------------------------------------------------------------------

    def _next(self) -> None:
        """Ask about the next requests if a process can have more."""
        while self._waiting:
            if not self._begin.plugins:
                passage = self._waiting.pop()
                self.resume(passage.call, passage.caller)  # no script has looked at its rights
                continue
            worker = self._free_worker()
            if worker is None:
                return
            passage = self._waiting.pop()
            if not passage.call.is_gone and (passage.question or self._advance(passage, None)):
                worker.ask(passage)

    def _free_worker(self) -> Worker | None:
        """Return a process that takes one more question; start one if all others are slow."""
        workers = self._workers
        for worker in workers:
            if worker.is_ready and len(worker.open) < self._window:
                return worker
        is_to_come = any(worker.is_ready or worker.is_loading for worker in workers)
        if not is_to_come and len(workers) < MOST_WORKERS:
            self._start()
        return None

    def slow(self, worker: Worker) -> None:
        """Let nobody but its user wait for a question that takes long."""
        worker.is_slow, self._window = True, 1
        self._waiting.hold(worker.open[0].caller.uid)
        self._waiting.put_back(worker.take_back())
        self._next()

    def _release(self, uid: int) -> None:
        """Let a user's requests go on, unless another of them takes long."""
        if not any(worker.is_slow and worker.is_of(uid) for worker in self._workers):
            self._waiting.release(uid)

    def answered(self, worker: Worker, passage: Passage, verdict: Verdict) -> None:
        """Go on with a request as the scripts have decided."""
        self._failures.answered()
        if worker.is_slow:
            worker.is_slow = False
            self._release(passage.caller.uid)
        elif self._window < AT_ONCE:
            self._window += 1
        if worker.is_last:
            self._end(worker)
        for level, text in verdict.log_lines:
            self._log.write(level, text)
        if self._advance(passage, verdict):
            if worker.is_last:
                self._waiting.put_back([passage])
            else:
                worker.ask(passage)
        self._next()
        if len(self._workers) > 1 and worker in self._workers:
            worker.when_idle(partial(self._retire, worker))

    def _advance(self, passage: Passage, verdict: Verdict | None) -> bool:
        """Make a request's next question; return whether there is one."""
        try:
            if passage.walk is None or verdict is None:
                passage.walk = self._walks.begin(passage)
                passage.question = next(passage.walk)
            else:
                passage.question = passage.walk.send(verdict)
        except StopIteration as end:
            self._finish(passage, end.value)
            return False
        except Exception as error:  # noqa: BLE001 - others wait behind it
            self._fault(passage.call, passage.caller, error)
            return False
        return True

    def _finish(self, passage: Passage, outcome: Struct | Reject) -> None:
        if isinstance(outcome, Reject):
            self._refuse(passage, outcome)
            return
        if isinstance(outcome, JobsChanged):
            self._writer.when_durable(partial(passage.call.reply, outcome))
            return
        passage.call.request = outcome
        self.resume(
            passage.call, replace(passage.caller, is_passed=True, notes=tuple(passage.notes))
        )

    # Refusals -------------------------------------------------------------------------------------

    def _refuse(self, passage: Passage, reject: Reject) -> None:
        notes = [*passage.notes, *([reject.detail] if reject.detail else [])]
        self._writer.refuse(passage.call, Reject(reject.code, "\n".join(notes)))

    def _refuse_each(self, passages: Iterable[Passage], reject: Reject) -> None:
        for passage in passages:
            self._refuse(passage, reject)


def _undecided(why: str) -> Reject:
    return Reject(Errno.SLURM_ERROR, f"job_submit: {why}")
