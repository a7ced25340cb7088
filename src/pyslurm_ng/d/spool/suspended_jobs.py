"""Which attempts are suspended, for a slurmd that is started again: the file `suspended`.

The controller orders a suspension once. It is not synced: if the machine dies, so do the jobs.
"""

from __future__ import annotations

import os


class SuspendedJobs:
    """The file in the spool; on a full disk the newest suspensions are not kept."""

    def __init__(self, directory: str) -> None:
        self._path = f"{directory}/suspended"
        self._kept: set[tuple[int, int]] = set()

    def read(self) -> set[tuple[int, int]]:
        """Return job ids and attempts."""
        try:
            with open(self._path, encoding="ascii") as file:
                words = [line.split() for line in file]
            self._kept = {(int(job_id), int(attempt)) for job_id, attempt in words}
        except (OSError, ValueError):
            self._kept = set()
        return set(self._kept)

    def keep(self, attempts: set[tuple[int, int]]) -> None:
        """Remember these alone. Raises OSError."""
        if attempts == self._kept:
            return
        fresh = f"{self._path}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        with open(os.open(fresh, flags, 0o600), "w", encoding="ascii") as file:
            file.writelines(f"{job_id} {attempt}\n" for job_id, attempt in sorted(attempts))
        os.rename(fresh, self._path)
        self._kept = set(attempts)
