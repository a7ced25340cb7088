"""The questions that a request brings to the site's scripts, and what their answers make of it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol, TypeAlias, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pyslurm_ng.base.errors import Errno, Reject, error_text
from pyslurm_ng.base.numbers import INFINITE, NO_VAL
from pyslurm_ng.ctld.job_filter import JobFinder
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.ctld.rules.permission import may_change
from pyslurm_ng.ctld.rules.submission import plugins
from pyslurm_ng.ctld.rules.submission.account import with_own_priority
from pyslurm_ng.ctld.rules.submission.place import hidden_partitions
from pyslurm_ng.ctld.rules.submission.submit import refused_rights
from pyslurm_ng.ctld.site_policy import changes
from pyslurm_ng.ctld.site_policy.job_rows import JobRows
from pyslurm_ng.daemon.log import INFO
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.policy.messages import Question, Row, Verdict
from pyslurm_ng.wire import table
from pyslurm_ng.wire.crontab_messages import StoreCrontab
from pyslurm_ng.wire.job_messages import AllocateJob, SubmitJob, TestJob
from pyslurm_ng.wire.query_messages import HoldJobs, JobsChanged, UpdateJob
from pyslurm_ng.wire.stream import Call

SCRIPTED = ("lua", "python")
MOST_CHANGED = 1_000
"""Jobs of one `scontrol update job` that scripts are asked about."""
_TOO_MANY = Reject(
    Errno.ESLURM_NOT_SUPPORTED, f"job_submit: one change may name {MOST_CHANGED} jobs at most"
)

Walk: TypeAlias = Generator[Question, Verdict, "Struct | Reject"]
"""What comes of it is the request as it goes on, a refusal, or an answer: `JobsChanged`."""
_request_decoder = msgspec.msgpack.Decoder(JobRequest)
_encode = msgspec.msgpack.Encoder().encode
_ASIDE = HoldJobs(bytes(table.REQUEST_ID_BYTES))


class Log(Protocol):
    """Where lines of scripts go."""

    def error(self, text: str) -> None:
        """Something is wrong."""

    def write(self, level: int, text: str) -> None:
        """Write a line of some level."""


class Passage:
    """One call on its way through the scripts.

    Attributes:
        walk: what makes its questions; None before the first.
        question: what is not answered yet; another process may be asked it again.
    """

    def __init__(self, call: Call, caller: Caller) -> None:
        self.call = call
        self.caller = caller
        self.notes: list[str] = []
        self.walk: Walk | None = None
        self.question: Question | None = None
        self.job_ids: list[int] = []
        self._body: bytes | None = None

    def begin_anew(self) -> None:
        """Forget what scripts have said."""
        self.notes.clear()
        self.walk = self.question = None

    def set_aside(self) -> None:
        """Keep the request as it came, until `take_up`: objects of short texts take 20 times more.

        Its user is charged for what came, and a thousand may wait.
        """
        self._body = table.encode(self.call.request)
        self.call.request = _ASIDE

    def take_up(self) -> None:
        """Have the request as an object again."""
        if self._body is not None:
            self.call.request = table.decode_request(self.call.kind, self._body)
            self._body = None


class Walks:
    """Makes the questions of a request; the answer to each is sent back into the walk.

    Attributes:
        names: JobSubmitPlugins in order.
    """

    def __init__(
        self,
        cluster: Cluster,
        job_rows: JobRows,
        log: Log,
        context: Callable[[Caller], Context],
    ) -> None:
        self.names: tuple[str, ...] = ()
        self._cluster = cluster
        self._job_rows = job_rows
        self._log = log
        self._context = context
        self._number = 0

    def begin(self, passage: Passage) -> Walk:
        """Return the walk of a call."""
        if isinstance(passage.call.request, UpdateJob):
            return self._change(passage, passage.call.request)
        if isinstance(passage.call.request, HoldJobs):
            return self._hold(passage, passage.call.request)
        if isinstance(passage.call.request, StoreCrontab):
            return self._crontab(passage, passage.call.request)
        return self._submission(passage)

    def _submission(self, passage: Passage) -> Walk:
        """Ask about each component of a submission."""
        message = cast("SubmitJob | AllocateJob | TestJob", passage.call.request)
        environment: bytes = getattr(message, "environment", b"")
        script: bytes = getattr(message, "script", b"")
        parts: list[JobRequest] = [message.request, *getattr(message, "components", ())]
        for index, part in enumerate(parts):
            prefix = f"{index}: " if len(parts) > 1 else ""
            offset = index if len(parts) > 1 else NO_VAL
            known = {"het_job_offset": offset, "pack_job_offset": offset}
            outcome = yield from self._part(passage, prefix, part, environment, script, known)
            if isinstance(outcome, Reject):
                return outcome
            parts[index], environment, script = outcome
        fields: dict[str, Any] = {"request": parts[0]}
        if len(parts) > 1:
            fields["components"] = parts[1:]
        fields.update(
            (name, value)
            for name, value in (("environment", environment), ("script", script))
            if hasattr(message, name)
        )
        return replace(message, **fields)

    def _crontab(self, passage: Passage, message: StoreCrontab) -> Walk:
        """Ask about the job of each entry."""
        jobs = []
        for job in message.jobs:
            prefix = f"line {job.last_line}: "
            outcome = yield from self._part(
                passage, prefix, job.request, job.environment, job.script
            )
            if isinstance(outcome, Reject):
                passage.notes.append(f"{prefix}{error_text(outcome.code)}")
                return outcome
            request, environment, script = outcome
            jobs.append(replace(job, request=request, environment=environment, script=script))
        return replace(message, jobs=jobs)

    def _part(
        self,
        passage: Passage,
        prefix: str,
        part: JobRequest,
        environment: bytes,
        script: bytes,
        known: Row | None = None,
    ) -> Generator[Question, Verdict, tuple[JobRequest, bytes, bytes] | Reject]:
        """Ask about one job; return what the scripts make of it."""
        refusal = refused_rights(part, self._context(passage.caller))
        if refusal is not None:
            return refusal
        part = with_own_priority(part, passage.caller)
        for name in self.names:
            if name not in SCRIPTED:
                edited = self._edited(part, name, passage.caller)
                if isinstance(edited, Reject):
                    return edited
                part = edited
                continue
            verdict = yield self._question(
                name,
                part,
                passage.caller,
                {**self._known(passage.caller), **(known or {})},
                environment=environment,
                script=script,
            )
            passage.notes += [prefix + line for line in verdict.user_lines]
            if verdict.code:
                return Reject(verdict.code)
            try:
                part = _request_decoder.decode(verdict.request)
            except msgspec.ValidationError as error:
                return Reject(Errno.SLURM_ERROR, f"job_submit/{name}: {error}")
            environment = environment if verdict.environment is None else verdict.environment
            script = script if verdict.script is None else verdict.script
        return part, environment, script

    def _edited(self, part: JobRequest, name: str, caller: Caller) -> JobRequest | Reject:
        context = self._context(caller)
        return plugins.edited(self._cluster, part, (name,), context)

    def _question(
        self,
        name: str,
        request: JobRequest | dict[str, Any],
        caller: Caller,
        known: Row,
        *,
        environment: bytes = b"",
        script: bytes = b"",
        record: Row | None = None,
    ) -> Question:
        self._number = self._number % 0xFFFFFFFF + 1
        return Question(
            number=self._number,
            plugins=(name,),
            uid=caller.uid,
            request=msgspec.Raw(_encode(request)),
            known=known,
            hidden=hidden_partitions(self._cluster, caller),
            environment=environment,
            script=script,
            record=record,
        )

    def _known(self, caller: Caller) -> Row:
        user = self._cluster.users.get(caller.user_name)
        return {
            "user_id": caller.uid,
            "user_name": caller.user_name,
            "group_id": caller.gid,
            "group_name": caller.group_name,
            "default_account": (user.default_account or None) if user is not None else None,
        }

    def _change(self, passage: Passage, message: UpdateJob) -> Walk:
        """Ask about each job that a change names; all must come out alike."""
        outcome: dict[str, str] | None = None
        named_jobs = self._named_jobs(message, passage.caller)
        if isinstance(named_jobs, Reject):
            return named_jobs
        for text, job in named_jobs:
            before = changes.as_request(message.settings, job)
            settings = message.settings
            after = before
            for name in self.names:
                if name not in SCRIPTED:
                    continue
                verdict = yield self._change_question(name, after, job, passage.caller)
                for line in verdict.user_lines:
                    self._log.write(INFO, f"job_submit/{name}: JobId={job.job_id}: {line}")
                if verdict.code:
                    return JobsChanged(0, [(text, verdict.code, error_text(verdict.code))])
                after = msgspec.msgpack.decode(verdict.request)
            settings = changes.as_settings(settings, before, after)
            if outcome is not None and settings != outcome:
                why = "job_submit: the jobs named need different changes: name one at a time"
                return Reject(Errno.ESLURM_NOT_SUPPORTED, why)
            outcome = settings
        if outcome is None:
            return message
        try:
            return msgspec.convert(
                {**msgspec.structs.asdict(message), "settings": outcome}, UpdateJob
            )
        except msgspec.ValidationError as error:
            return Reject(Errno.SLURM_ERROR, f"job_submit: {error}")

    def _hold(self, passage: Passage, message: HoldJobs) -> Walk:
        """Ask whether jobs may be held or released: to scripts a change of the priority alone."""
        named_jobs = self._named_jobs(message, passage.caller)
        if isinstance(named_jobs, Reject):
            return named_jobs
        priority = {"priority": INFINITE if message.release else 0}
        for text, job in named_jobs:
            for name in self.names:
                if name in SCRIPTED:
                    verdict = yield self._change_question(name, priority, job, passage.caller)
                    if verdict.code:
                        return JobsChanged(0, [(text, verdict.code, error_text(verdict.code))])
        return message

    def _change_question(
        self, name: str, request: dict[str, Any], job: Job, caller: Caller
    ) -> Question:
        known: Row = {"user_id": job.uid, "user_name": job.user_name, "job_id": job.job_id}
        return self._question(name, request, caller, known, record=self._job_rows.record(job))

    def _named_jobs(
        self, message: UpdateJob | HoldJobs, caller: Caller
    ) -> Sequence[tuple[str, Job]] | Reject:
        """Return the jobs that a change names, each once, with the text that names it.

        A change is refused where not all of its jobs can be looked at: it must reach no job that
        scripts do not see. Jobs that the caller may not change are left out: the change is refused
        for them, and no script has to work on that.
        """
        cluster = self._cluster
        named: dict[int, tuple[str, Job]] = {}
        if message.name:
            for job_id, job in cluster.jobs.items():
                is_meant = job.request.name == message.name and message.uid in (-1, job.uid)
                if is_meant and may_change(cluster, job, caller):
                    named[job_id] = (str(job_id), job)
            return _TOO_MANY if len(named) > MOST_CHANGED else [*named.values()]
        texts = dict.fromkeys(message.jobs)
        if len(texts) > MOST_CHANGED:
            return _TOO_MANY
        finder = JobFinder(cluster)
        for text in texts:
            for job, _ in finder.named(text):
                if may_change(cluster, job, caller):
                    named.setdefault(job.job_id, (text, job))
        if finder.is_over:
            return finder.refusal
        return _TOO_MANY if len(named) > MOST_CHANGED else [*named.values()]
