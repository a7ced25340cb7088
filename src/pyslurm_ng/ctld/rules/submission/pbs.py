"""JobSubmitPlugins=pbs: dependencies in the words of PBS, and where output goes in the comment.

`before:A` of a new job makes job A wait for it; `on:2` holds a job until two others have named it
so. The comment keeps the count, as in Slurm, so that users see it.

Source: what a running Slurm 22.05 with this plugin does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from pyslurm_ng.base.numbers import NO_VAL, REQ_HOLD
from pyslurm_ng.ctld.rules.context import Context
from pyslurm_ng.ctld.rules.permission import may_change
from pyslurm_ng.ctld.rules.queue.dependency_text import MOST_TERMS, reachable
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Dependency, Job, JobRequest
from pyslurm_ng.model.kept_request import changed_request
from pyslurm_ng.model.states import JobState, Reason
from pyslurm_ng.wire.field_bounds import beyond

PLUGIN = "pbs"
_AFTER = {
    "before": "after",
    "beforeany": "afterany",
    "beforeok": "afterok",
    "beforenotok": "afternotok",
}
_COUNT = re.compile(r"(?<![^,])on:([0-9]{1,9})(?![^,])")
_MOST_COMMENT = 65536  # characters, of model.bounds.LongText
_SHOWN = 100  # characters of a word in a note


class Before(Struct, frozen=True):
    """A job that is to wait for another one, and for what of it: `afterok` and its like."""

    kind: str
    job_id: int


class Translated(Struct, frozen=True):
    """What a dependency in PBS' words comes to.

    Attributes:
        dependency: what is left of it in Slurm's words.
        count: its `on:N`, "" for none; a job with one is held.
        before: the jobs that are to wait.
        discarded: what is left out, a line for each.
    """

    dependency: str = ""
    count: str = ""
    before: tuple[Before, ...] = ()
    discarded: tuple[str, ...] = ()


NO_WORDS = Translated()


def translated(text: str) -> Translated:
    """Return what a dependency comes to; words that neither PBS nor Slurm has are discarded."""
    if text.count(",") + text.count(":") > MOST_TERMS:
        return Translated(text)  # refused later, by its size
    count = ""
    kept, before, discarded = [], list[Before](), []
    for word in filter(None, text.split(",")):
        kind, _, ids = word.partition(":")
        if kind.lower() in _AFTER:
            for job_id in filter(None, ids.split(":")):
                if job_id.isascii() and job_id.isdigit() and len(job_id) < 11 and int(job_id):
                    before.append(Before(_AFTER[kind.lower()], int(job_id)))
                else:
                    discarded.append(_discarded(f"invalid job dependency before {job_id}"))
        elif kind.lower() == "on" and ids and not count and len(ids) < 11:
            count = f"on:{ids}"
        elif kind[:1].isdecimal() or kind.lower().startswith(("after", "singleton", "expand")):
            kept.append(word)
        else:
            discarded.append(_discarded(f"unknown job dependency option {word}"))
    return Translated(",".join(kept), count, tuple(dict.fromkeys(before)), tuple(discarded))


def _discarded(what: str) -> str:
    return f"job_submit/pbs: discarding {what[:_SHOWN]}"


def edited(request: JobRequest, plugins: Iterable[str]) -> tuple[JobRequest, Translated]:
    """Return a request with Slurm's words only; with a count it is held until that is 0."""
    if PLUGIN not in plugins or not request.dependency:
        return request, NO_WORDS
    words = translated(request.dependency)
    request = replace(request, dependency=words.dependency)
    if words.count:
        comment = with_count(request.comment, words.count)
        request = replace(request, comment=comment, flags=request.flags | REQ_HOLD)
    return request, words


def with_output(request: JobRequest, job_id: int, plugins: Iterable[str]) -> JobRequest:
    """Return a request whose comment says where the job's output goes, as PBS' commands show it.

    Only the first %j is replaced. A comment that has no room for it stays as it is.
    """
    if PLUGIN not in plugins:
        return request
    path = request.std_out or "slurm-%j.out"
    if not path.startswith("/"):
        path = f"{request.work_dir}/{path}"
    output = f"stdout={path.replace('%j', str(job_id), 1)}"
    comment = ",".join(filter(None, (request.comment, output)))
    if beyond(JobRequest, {"comment": comment}):
        return request
    return replace(request, comment=comment)


def with_count(comment: str, count: str) -> str:
    """Return a comment with a count instead of any that it has; a long one is cut for it."""
    rest = _COUNT.sub("", comment)[: _MOST_COMMENT - len(count) - 1]
    return ",".join(filter(None, (*rest.split(","), count)))


class Followers:
    """Gathers what `before:` of jobs means for others; one of them may be named several times."""

    def __init__(self, cluster: Cluster, context: Context) -> None:
        self._cluster = cluster
        self._context = context
        self._jobs: dict[int, Job] = {}
        self.notes: list[str] = []

    def clear(self) -> None:
        """Let nobody wait after all."""
        self._jobs, self.notes = {}, []

    def add(self, job_id: int, own_terms: Iterable[Dependency], words: Translated) -> None:
        """Let the jobs that its words name wait for a job, which waits for `own_terms` itself."""
        self.notes += words.discarded
        earlier = {job_id, *(reachable(self._cluster, own_terms) if words.before else ())}
        for each in words.before:
            target = self._jobs.get(each.job_id) or self._cluster.jobs.get(each.job_id)
            why = self._obstacle(target, each.job_id, earlier)
            if target is None or why:
                self.notes.append(_discarded(why))
                continue
            followed = self._following(target, Dependency(each.kind, job_id))
            if beyond(JobRequest, {"dependency": followed.request.dependency}):
                self.notes.append(_discarded(f"before {each.job_id}: it waits for too many jobs"))
                continue
            self._jobs[each.job_id] = followed

    def _obstacle(self, target: Job | None, target_id: int, earlier: set[int]) -> str:
        """Return why a job cannot be made to wait for one behind those of `earlier`, or ""."""
        if target is None:
            return f"invalid job dependency before {target_id}"
        if not may_change(self._cluster, target, self._context.caller) or target.request.cron:
            return f"before {target_id}: Access/permission denied"
        if target.state != JobState.PENDING:
            return f"job before dependency on non-pending job {target_id}"
        if target.dependency_any:
            return f"before {target_id}: it waits for any of several jobs, not for all"
        if len(target.dependencies) >= MOST_TERMS:
            return f"before {target_id}: it waits for too many jobs"
        if target.job_id in earlier or target.array_job_id in earlier:
            return f"before {target_id}: Circular job dependency"
        return ""

    def _following(self, job: Job, term: Dependency) -> Job:
        """Return a job that waits for one more, and is released if that was the last it counts."""
        text = f"{term.kind}:{term.job_id}"
        request = changed_request(
            job.request, dependency=",".join(filter(None, (job.request.dependency, text)))
        )
        terms = job.dependencies if term in job.dependencies else (*job.dependencies, term)
        priority, reason, comment = job.priority, job.reason, job.comment
        count = _COUNT.search(comment)
        if count is not None and int(count[1]):
            open_count = int(count[1]) - 1
            comment = f"{comment[: count.start()]}on:{open_count}{comment[count.end() :]}"
            request = changed_request(request, comment=comment)
            if open_count == 0 and reason == Reason.JobHeldUser:
                priority = NO_VAL
        if priority and reason != Reason.DependencyNeverSatisfied:
            reason = Reason.Dependency
        return replace(
            job, dependencies=terms, request=request, comment=comment, priority=priority,
            reason=reason, eligible_us=0, accrue_us=0,
        )  # fmt: skip

    def events(self) -> list[ev.AnyEvent]:
        """Return what changes for the jobs that wait from now on."""
        return [
            ev.JobUpdated(
                self._context.now_us,
                job_id,
                {
                    "dependencies": msgspec.to_builtins(job.dependencies),
                    "comment": job.comment,
                    "priority": job.priority,
                    "reason": int(job.reason),
                    "eligible_us": 0,
                    "accrue_us": 0,
                },
                job.request,
            )
            for job_id, job in self._jobs.items()
        ]
