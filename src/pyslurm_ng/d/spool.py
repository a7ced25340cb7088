"""What a node must still know after a restart, in SlurmdSpoolDir.

steps/          a file for each step, see step_record; only root reads it
jobNNNNN/       a batch script while it runs, only its user reads it
epoch           the newest epoch obeyed
prologs/        an empty file for each attempt whose Prolog has run
stepd.lock      see stepd
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from pyslurm_ng.d import step_record


class Spool:
    """The directory of one node daemon.

    Raises:
        OSError: from the start, if it cannot be made or written.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.steps = f"{directory}/steps"
        self._prologs = f"{directory}/prologs"
        if not os.path.isdir(directory):
            os.makedirs(directory, mode=0o755)
            # Users pass through it to their scripts, whatever our umask says. A directory that
            # was there is the administrator's business: it may be /tmp.
            os.chmod(directory, 0o755)
        for inner in (self.steps, self._prologs):
            os.makedirs(inner, mode=0o700, exist_ok=True)
        if not os.access(self.steps, os.W_OK):
            raise PermissionError(13, "Permission denied", self.steps)

    # Epoch ------------------------------------------------------------------------------------

    def epoch(self) -> int:
        """Return the newest epoch obeyed; 0 for a new node."""
        try:
            with open(f"{self.directory}/epoch", encoding="ascii") as file:
                return int(file.read())
        except (FileNotFoundError, ValueError):
            return 0

    def keep_epoch(self, epoch: int) -> None:
        """Remember an epoch before its first order is obeyed."""
        fresh = f"{self.directory}/epoch.new"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, b"%d\n" % epoch)
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(fresh, f"{self.directory}/epoch")

    # Prologs ----------------------------------------------------------------------------------

    def mark_prolog(self, job_id: int, attempt: int) -> None:
        """Remember that an attempt's Prolog has run."""
        path = f"{self._prologs}/{job_id}.{attempt}"
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))

    def had_prolog(self, job_id: int, attempt: int) -> bool:
        """Return whether an attempt's Prolog has run."""
        return os.path.exists(f"{self._prologs}/{job_id}.{attempt}")

    def forget_prolog(self, job_id: int, attempt: int) -> None:
        """The job is over here."""
        try:
            os.unlink(f"{self._prologs}/{job_id}.{attempt}")
        except FileNotFoundError:
            return

    # Steps ------------------------------------------------------------------------------------

    def step_path(self, job_id: int, step_id: int, attempt: int) -> str:
        """Return where a step's file is."""
        return f"{self.steps}/{step_record.file_name(job_id, step_id, attempt)}"

    def found_steps(self) -> Iterator[tuple[str, tuple[int, int, int]]]:
        """Yield path and (job, step, attempt) of every step's file, the oldest job first."""
        found = []
        for name in os.listdir(self.steps):
            key = step_record.parse_name(name)
            if key is not None:
                found.append((key, f"{self.steps}/{name}"))
        for key, path in sorted(found):
            yield path, key

    def remove_step(self, path: str) -> None:
        """Forget a step."""
        for name in (path, path + ".sock"):
            try:
                os.unlink(name)
            except FileNotFoundError:
                continue
