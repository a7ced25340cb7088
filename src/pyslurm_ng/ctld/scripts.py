"""Batch scripts and environments, one file per content, as long as a job names it.

What makes a submission durable is the journal, which carries the contents (`ScriptStored`). The
files here are read when a job starts; they reach the disk before a checkpoint lets the journal
forget the contents.
"""

from __future__ import annotations

import contextlib
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster

_CACHE_BYTES = 16 << 20
USUAL_BYTES = 64 << 10
"""A submission with no more than that is not asked what its user has already."""
MOST_BYTES = 1 << 30
"""What the contents that one user's jobs name may take of the state directory."""
MOST_BYTES_OF_EACH = 128 << 10
"""Where MaxJobCount is high, so much for each job that it allows."""


class ScriptStore:
    """Contents by digest in a directory of two hundred and fifty-six subdirectories.

    `put` returns what the journal must record; `applied` counts who names what, so that the last
    job's purge removes a file.
    """

    def __init__(self, directory: Path) -> None:
        """Open or create the directory.

        `when_durable` is the writer's once there is one: a file goes only after the purge that
        let go of it is on disk.

        Raises:
            OSError: it cannot be made.
        """
        self._directory = directory
        self.when_durable: Callable[[Callable[[], None]], None] = lambda release: release()
        directory.mkdir(mode=0o700, exist_ok=True)
        for number in range(256):
            (directory / f"{number:02x}").mkdir(mode=0o700, exist_ok=True)
        self._users: dict[str, int] = {}
        self._of_job: dict[int, tuple[str, ...]] = {}
        self._pairs: dict[tuple[str, ...], tuple[str, ...]] = {}  # each held once
        self._cache: OrderedDict[str, bytes] = OrderedDict()
        self._cached_bytes = 0

    def path(self, digest: str) -> Path:
        """Return the path of a content's file."""
        return self._directory / digest[:2] / digest

    def put(self, content: bytes, digest: str, now_us: int) -> list[ev.AnyEvent]:
        """Keep a content; return the event that makes it durable, none if it is known.

        Args:
            digest: of the content, which the rule has made: that of a long environment takes longer
                than all else about a submission.

        Raises:
            OSError: there is no room.
        """
        if not digest or digest in self._users:
            return []
        self._write(digest, content)
        self._remember(digest, content)
        return [ev.ScriptStored(time_us=now_us, digest=digest, content=content)]

    def refusal(self, more: int, job_ids: Iterable[int], most_jobs: int) -> str:
        """Return why a user may not bring contents of so many bytes; "" if that may be.

        Args:
            job_ids: the user's other jobs; what they name counts once.
            most_jobs: MaxJobCount.
        """
        if more <= USUAL_BYTES:
            return ""
        stored_bytes = 0
        for digest in {digest for job_id in job_ids for digest in self._of_job.get(job_id, ())}:
            with contextlib.suppress(FileNotFoundError):
                stored_bytes += self.path(digest).stat().st_size
        most = max(MOST_BYTES, MOST_BYTES_OF_EACH * most_jobs)
        if stored_bytes + more <= most:
            return ""
        return (
            f"script and environment: {more} bytes, and those of the user's other jobs have "
            f"{stored_bytes} bytes; at most {most} are kept for one user"
        )

    def get(self, digest: str) -> bytes:
        """Return a content.

        Raises:
            OSError: the file is missing or unreadable.
        """
        if not digest:
            return b""
        content = self._cache.get(digest)
        if content is None:
            content = self.path(digest).read_bytes()
            self._remember(digest, content)
        else:
            self._cache.move_to_end(digest)
        return content

    def restore(self, event: ev.ScriptStored) -> None:
        """Write a content found in the journal, unless its file is there as it should be."""
        path = self.path(event.digest)
        try:
            if path.stat().st_size == len(event.content):
                return
        except FileNotFoundError:
            pass
        self._write(event.digest, event.content)

    def begin(self, cluster: Cluster) -> list[str]:
        """Count the users of every content after recovery; remove files that no job names.

        Returns:
            Digests that jobs name and that are not there.
        """
        for job in cluster.jobs.values():
            self._use(job.job_id, (job.script_hash, job.env_hash))
        known = set()
        for number in range(256):
            for entry in os.scandir(self._directory / f"{number:02x}"):
                if entry.name in self._users:
                    known.add(entry.name)
                else:
                    os.unlink(entry.path)
        return [digest for digest in self._users if digest not in known]

    def applied(self, events: Sequence[ev.AnyEvent]) -> None:
        """Follow the jobs: which content each names, and which jobs are gone."""
        for event in events:
            if isinstance(event, ev.JobSubmitted):
                self._use(event.job_id, (event.script_hash, event.env_hash))
            elif isinstance(event, ev.ArrayTaskSplit):
                if event.job_id != event.array_job_id:
                    self._use(event.job_id, self._of_job.get(event.array_job_id, ()))
            elif isinstance(event, ev.JobPurged):
                for job_id in event.job_ids:
                    self._drop(job_id)

    def _use(self, job_id: int, digests: Iterable[str]) -> None:
        named = tuple(digest for digest in digests if digest)
        if not named:
            return
        self._of_job[job_id] = self._pairs.setdefault(named, named)
        for digest in named:
            self._users[digest] = self._users.get(digest, 0) + 1

    def _drop(self, job_id: int) -> None:
        named = self._of_job.pop(job_id, ())
        for digest in named:
            user_count = self._users[digest] - 1
            if user_count:
                self._users[digest] = user_count
                continue
            del self._users[digest]
            self._pairs.pop(named, None)
            self.when_durable(partial(self._remove, digest))

    def _remove(self, digest: str) -> None:
        """Remove a file, unless a job submitted meanwhile names it again."""
        if digest in self._users:
            return
        self._cached_bytes -= len(self._cache.pop(digest, b""))
        # Other answers wait behind this one; `begin` removes files that are no longer named.
        with contextlib.suppress(OSError):
            os.unlink(self.path(digest))

    def _write(self, digest: str, content: bytes) -> None:
        path = self.path(digest)
        new_path = path.with_suffix(".new")
        fd = os.open(new_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(fd, rest) :]
            os.rename(new_path, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(new_path)  # on a full disk half of it would only take room
            raise
        finally:
            os.close(fd)

    def _remember(self, digest: str, content: bytes) -> None:
        if len(content) > _CACHE_BYTES // 4:
            return
        self._cache[digest] = content
        self._cached_bytes += len(content)
        while self._cached_bytes > _CACHE_BYTES:
            _, oldest = self._cache.popitem(last=False)
            self._cached_bytes -= len(oldest)
