"""What JobSubmitPlugins=pbs makes of `scontrol update job`: its dependency, and its comment."""

from __future__ import annotations

import re

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.ctld.rules.context import Context
from pyslurm_ng.ctld.rules.queue import dependency_text
from pyslurm_ng.ctld.rules.submission import pbs
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job
from pyslurm_ng.wire.query_messages import UpdateJob

_OUTPUT = re.compile(r"(?:^|,)stdout=[^,]*")


class PbsWords:
    """The plugin's part in one update; without the plugin all stays as it is."""

    def __init__(self, cluster: Cluster, request: UpdateJob, context: Context) -> None:
        self._cluster = cluster
        self._settings = request.settings
        self._is_on = pbs.PLUGIN in context.conf.job_submit_plugins
        text = request.settings.get("dependency", "") if self._is_on else ""
        self._words = pbs.translated(text)
        self._names_one = len(request.jobs) == 1 and not request.name
        self.followers = pbs.Followers(cluster, context)

    def refusal(self) -> Reject | None:
        """Refuse words that a submission discards: nobody would read of it."""
        if self._words.discarded:
            return Reject(Errno.ESLURM_DEPENDENCY, "\n".join(self._words.discarded))
        if self._words.before and not self._names_one:
            return Reject(Errno.ESLURM_DEPENDENCY, "before: one job at a time is allowed")
        return None

    def settings(self, job: Job) -> dict[str, str]:
        """Return what is set of a job in Slurm's words."""
        settings, words = self._settings, self._words
        if not self._is_on or not {"dependency", "stdout"} & settings.keys():
            return settings
        plain = dict(settings)
        comment = settings.get("comment", job.comment)
        if settings.get("dependency"):
            plain["dependency"] = words.dependency
            if not words.dependency:
                del plain["dependency"]
        if words.count:
            comment = pbs.with_count(comment, words.count)
            plain["priority"] = "0"
        if settings.get("stdout"):
            output = f"stdout={settings['stdout']}"
            comment = ",".join(filter(None, (_OUTPUT.sub("", comment), output)))
        if comment != job.comment or "comment" in settings:
            plain["comment"] = comment
        return plain

    def let_wait(self, job: Job) -> str:
        """Let the jobs named wait for one that is changed; return why that cannot be, or ""."""
        if not self._words.before:
            return ""
        terms = job.dependencies
        if self._words.dependency:
            parsed = dependency_text.for_update(self._cluster, job, self._words.dependency)
            terms = () if isinstance(parsed, Reject) else parsed[0]
        self.followers.add(job.array_job_id or job.job_id, terms, self._words)
        notes = self.followers.notes
        if notes:
            self.followers.clear()
        return "\n".join(notes)
