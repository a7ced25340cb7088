"""What a node must still know after a restart, in SlurmdSpoolDir.

steps/          a file for each step, see step_record; only root reads it
jobNNNNN/       a batch script while it runs, ours, which only its user reads
epoch           the newest epoch obeyed
newest_job      the newest job id it has had
suspended       the attempts that are suspended, see suspended_jobs
stepmgr/        files of step managers, see stepmgr.notes; only root reads them
prologs/        an empty file for each attempt whose Prolog has run
stepd.lock      see stepd
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Iterator

from pyslurm_ng.d.spool import step_record
from pyslurm_ng.d.spool.batch_script import SPOOL_FULL, remove_script

_KEEP_FREE_BYTES = 1 << 20
_KEEP_FREE_SHARE = 64  # of a tiny file system, such as an appliance's: this part of it
_KEEP_FREE_FILES = 16
_MOST_REPORTED = 1 << 16
_JOB_DIRECTORY = re.compile(r"job(\d{5,})")


class SpoolFull(Exception):
    """The spool has too little room for a file; one line."""


_MOST_TRACE = 16_384


class Spool:
    """The directory of one node daemon.

    Raises:
        OSError: from the start, if it cannot be made or written.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._kept_job_id = 0
        self.steps = f"{directory}/steps"
        self.managers = f"{directory}/stepmgr"
        self._prologs = f"{directory}/prologs"
        if not os.path.isdir(directory):
            os.makedirs(directory, mode=0o711)
            # Users pass through it to their scripts, and list no jobs of others. A directory that
            # was there is the administrator's business: it may be /tmp.
            os.chmod(directory, 0o711)  # whatever our umask is
        for inner in (self.steps, self.managers, self._prologs):
            os.makedirs(inner, mode=0o700, exist_ok=True)
        if not os.access(self.steps, os.W_OK):
            raise PermissionError(13, "Permission denied", self.steps)

    # Room -------------------------------------------------------------------------------------

    def check_room(self, size: int = 0) -> None:
        """See that so many bytes more leave enough for what running steps still have to write.

        Raises:
            SpoolFull: they do not, or too few files can be made; the text has both sizes.
        """
        space = os.statvfs(self.directory)
        free = (space.f_bfree if os.geteuid() == 0 else space.f_bavail) * space.f_frsize
        kept = min(_KEEP_FREE_BYTES, space.f_blocks * space.f_frsize // _KEEP_FREE_SHARE)
        if size + kept > free:
            raise SpoolFull(
                f"{SPOOL_FULL}: {size} bytes are needed and {kept} kept free, {free} are free in "
                f"{self.directory}"
            )
        if space.f_files and space.f_ffree < _KEEP_FREE_FILES:
            raise SpoolFull(f"{SPOOL_FULL}: {space.f_ffree} files are free in {self.directory}")

    # Epoch ------------------------------------------------------------------------------------

    def epoch(self) -> int:
        """Return the newest epoch obeyed; 0 for a new node."""
        try:
            with open(f"{self.directory}/epoch", encoding="ascii") as file:
                return int(file.read())
        except (FileNotFoundError, ValueError):
            return 0

    def keep_epoch(self, epoch: int) -> None:
        """Remember an epoch before its first order is obeyed.

        Raises:
            OSError: there is no room for a new file or in the old one.
        """
        try:
            self._replace_epoch(epoch)
        except OSError:
            # Orders are obeyed on a full disk, too. The block of the old file is there already.
            self._overwrite_epoch(epoch)

    def _overwrite_epoch(self, epoch: int) -> None:
        descriptor = os.open(f"{self.directory}/epoch", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(descriptor, b"%020d\n" % epoch, 0)
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)

    def _replace_epoch(self, epoch: int) -> None:
        fresh = f"{self.directory}/epoch.new"
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, b"%020d\n" % epoch)
            os.fdatasync(descriptor)
        except OSError:
            os.unlink(fresh)
            raise
        finally:
            os.close(descriptor)
        os.rename(fresh, f"{self.directory}/epoch")

    # Job ids ----------------------------------------------------------------------------------

    def newest_job_id(self) -> int:
        """Return the newest job id that the node has had; 0 for a new node."""
        try:
            with open(f"{self.directory}/newest_job", encoding="ascii") as file:
                self._kept_job_id = int(file.read())
        except (OSError, ValueError):
            self._kept_job_id = 0
        return self._kept_job_id

    def keep_newest_job_id(self, job_id: int) -> None:
        """Remember the newest job id, for a controller with a state from a backup.

        It is not synced, and on a full disk not kept: other nodes and slurmdbd know ids, too.
        """
        if job_id == self._kept_job_id:
            return
        self._kept_job_id = job_id
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        with contextlib.suppress(OSError):
            descriptor = os.open(f"{self.directory}/newest_job", flags, 0o600)
            try:
                os.pwrite(descriptor, b"%010d\n" % job_id, 0)
            finally:
                os.close(descriptor)

    # Prologs ----------------------------------------------------------------------------------

    def mark_prolog(self, job_id: int, attempt: int) -> None:
        """Remember that an attempt's Prolog has run; raises OSError."""
        path = f"{self._prologs}/{job_id}.{attempt}"
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))

    def had_prolog(self, job_id: int, attempt: int) -> bool:
        """Return whether an attempt's Prolog has run."""
        return os.path.exists(f"{self._prologs}/{job_id}.{attempt}")

    def forget_prolog(self, job_id: int, attempt: int) -> None:
        """The job is over here. A mark that cannot be removed does no harm."""
        with contextlib.suppress(OSError):
            os.unlink(f"{self._prologs}/{job_id}.{attempt}")

    # Scripts ----------------------------------------------------------------------------------

    def remove_scripts(self, running: Collection[int]) -> None:
        """Remove the scripts of all jobs but these: their supervisors died before they could.

        Only what can be of our making goes: the spool may be a directory that others use, too.
        """
        for name in os.listdir(self.directory):
            match = _JOB_DIRECTORY.fullmatch(name)
            path = f"{self.directory}/{name}"
            if match is None or int(match[1]) in running:
                continue
            if os.lstat(path).st_uid == os.geteuid() and os.listdir(path) == ["slurm_script"]:
                remove_script(path)

    # Steps ------------------------------------------------------------------------------------

    def step_path(self, job_id: int, step_id: int, attempt: int) -> str:
        """Return where a step's file is."""
        return f"{self.steps}/{step_record.file_name(job_id, step_id, attempt)}"

    def step_files(self) -> Iterator[tuple[str, tuple[int, int, int]]]:
        """Yield path and (job, step, attempt) of every step's file, the oldest job first."""
        steps = []
        for name in os.listdir(self.steps):
            key = step_record.parse_name(name)
            if key is not None:
                steps.append((key, f"{self.steps}/{name}"))
        for key, path in sorted(steps):
            yield path, key

    def take_trace(self, path: str) -> list[str]:
        """Return what a supervisor recorded about its bug, and forget it."""
        try:
            with open(path + ".bug", encoding="utf-8", errors="replace") as file:
                lines = file.read(_MOST_TRACE).splitlines()
            os.unlink(path + ".bug")
        except OSError:
            return []
        return lines

    def mark_reported(self, path: str) -> None:
        """Note that the controller knows a step's end, which is all that a large file is still for.

        Its environment would fill the spool: steps that end at once are begun by the thousand.
        Raises OSError.
        """
        step_record.append(path, {"kind": "reported"})
        if os.stat(path).st_size > _MOST_REPORTED:
            self.empty_step(path)

    def empty_step(self, path: str) -> None:
        """Forget a step but for its name: its credential may still be good for a launch.

        Raises OSError.
        """
        os.truncate(path, 0)
        os.utime(path)

    def remove_step(self, path: str) -> None:
        """Forget a step."""
        for name in (path, path + ".sock", path + ".profile"):
            try:
                os.unlink(name)
            except FileNotFoundError:
                continue
