"""Requests for jobs wait here for the site's scripts; then they go on as if they came like that.

Only JobSubmitPlugins with scripts (lua, python) bring requests here. What the journal gets is the
request after them, so a replay never runs a script. Others' requests go on meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.values import option_int
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.ctld.site_policy.lookups import Lookups
from pyslurm_ng.ctld.site_policy.process import MEMORY_BYTES, Loop, ScriptProcess
from pyslurm_ng.ctld.site_policy.walks import SCRIPTED, Log, Passage, Walks
from pyslurm_ng.ctld.writer import Writer
from pyslurm_ng.policy.messages import AskRows, Begin, Rows, Verdict
from pyslurm_ng.wire.lanes import Lanes
from pyslurm_ng.wire.query_messages import JobsChanged
from pyslurm_ng.wire.stream import Call

_LIMIT_S = 5
WAITING = 1_000
"""Of one user."""
AT_ONCE = 32
"""Questions that the process has at a time."""


class Gate:
    """Asks the scripts about each request that makes or changes a job.

    Attributes:
        resume: takes a call on, its request and caller as the scripts left them.
    """

    KINDS = frozenset(("SubmitJob", "AllocateJob", "TestJob", "UpdateJob", "HoldJobs"))

    def __init__(
        self,
        writer: Writer,
        conf: SlurmConf,
        loop: Loop,
        log: Log,
        context: Callable[[Caller], Context],
        resume: Callable[[Call, Caller], None],
    ) -> None:
        self.resume = resume
        self._writer = writer
        self._loop = loop
        self._log = log
        self._walks = Walks(writer.cluster, log, context)
        self._lookups = Lookups(writer.cluster)
        self._queue: Lanes[Passage] = Lanes()
        self._process: ScriptProcess | None = None
        self._open: deque[Passage] = deque()  # in the order of their questions
        self._again: deque[Passage] = deque()  # whose process another one's script has ended
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
        if is_other and self._process is not None:
            self._take_back()
            self.close()
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
        if self._queue.waiting(uid) >= WAITING:
            text = f"{WAITING} requests of uid {uid} wait for the site's scripts"
            call.error(Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF, text)
            return
        passage = Passage(call, caller)
        if self._queue.waiting(uid):
            passage.set_aside()
        self._queue.push(uid, passage)
        self._next()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.close()
            self._process = None

    # One after the other --------------------------------------------------------------------------

    def _start(self) -> None:
        self._lookups.forget()
        try:
            self._process = ScriptProcess(
                self._loop,
                self._begin,
                limit_s=self._limit_s,
                rows=self._rows,
                loaded=self._loaded,
                ended=self._ended,
            )
        except OSError as error:
            self._ended(f"cannot start the process of scripts: {error.strerror}")

    def _loaded(self, errors: list[str]) -> None:
        for line in errors:
            self._log.error(line)
        self._tell_loaded(errors)
        self._next()

    def _tell_loaded(self, errors: list[str]) -> None:
        tell, self._when_loaded = self._when_loaded, None
        if tell is not None:
            tell(errors)

    def _ended(self, why: str) -> None:
        """The process is gone: what it worked on is refused, the rest waits for the next one."""
        if self._process is not None:
            self._process.close()
            self._process = None
        self._log.error(f"job_submit: {why}")
        self._tell_loaded([why])
        self._take_back()
        if self._again or self._queue:
            # If it could not even begin, each request is one more try, so none waits for ever.
            self._refuse(self._pop(), Reject(Errno.SLURM_ERROR, f"job_submit: {why}"))
            self._loop.call_later(0.0, self._next)

    def _take_back(self) -> None:
        """Let what the process has not answered begin again, first."""
        self._again.extendleft(reversed(self._open))
        self._open.clear()

    def _pop(self) -> Passage:
        """Return the next request to begin with, from its beginning."""
        passage = self._again.popleft() if self._again else self._queue.pop()[1]
        passage.notes.clear()
        passage.take_up()
        return passage

    def _next(self) -> None:
        """Begin with the next requests if the process can have more."""
        while (self._again or self._queue) and len(self._open) < AT_ONCE:
            if not self._begin.plugins:
                passage = self._pop()
                self.resume(passage.call, passage.caller)  # no script has looked at its rights
                continue
            if self._process is None:
                self._start()
                return
            errors = self._process.errors
            if errors is None:
                return
            passage = self._pop()
            if passage.call.is_gone:
                continue
            if errors:
                self._refuse(passage, Reject(Errno.SLURM_ERROR, "\n".join(errors)))
                self.close()  # the next request tries again: the file may be mended
                continue
            passage.walk = self._walks.begin(passage)
            self._go_on(passage, None)

    def _go_on(self, passage: Passage, verdict: Verdict | None) -> None:
        assert passage.walk is not None
        try:
            if verdict is None:
                question = next(passage.walk)
            else:
                question = passage.walk.send(verdict)
        except StopIteration as end:
            self._finish(passage, end.value)
            return
        except Exception:
            self._refuse(passage, Reject(Errno.ESLURM_INTERNAL))
            raise
        assert self._process is not None
        partitions = self._lookups.partitions()
        if partitions is not None:
            self._process.send(partitions)
        self._open.append(passage)
        self._process.ask(question, partial(self._answered, passage))

    def _answered(self, passage: Passage, verdict: Verdict) -> None:
        self._open.popleft()
        for level, text in verdict.log_lines:
            self._log.write(level, text)
        self._go_on(passage, verdict)
        self._next()

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

    def _refuse(self, passage: Passage, reject: Reject) -> None:
        notes = [*passage.notes, *([reject.detail] if reject.detail else [])]
        self._writer.refuse(passage.call, Reject(reject.code, "\n".join(notes)))

    def _rows(self, asked: AskRows) -> Rows:
        return self._lookups.rows(asked, self._open[0] if self._open else None)
