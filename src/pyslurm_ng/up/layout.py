"""The files of a cluster that `pyslurm-ng up` makes, below one directory."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

LONGEST_SOCKET_NAME = 40
"""Room for `slurmd-PORT-PORT.sock` and the like behind the run directory."""
SOCKET_PATH_LIMIT = 107
"""The kernel's limit for a Unix socket's path (sun_path), less its end."""
OWNER_LINK = "cluster"
"""Link from a run directory that lies elsewhere to the cluster's own directory."""


class BadRequest(Exception):
    """The requested cluster cannot be built; the text is for the user."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of one cluster; `directory` is absolute."""

    directory: Path

    @property
    def etc(self) -> Path:
        """Configuration files."""
        return self.directory / "etc"

    @property
    def slurm_conf(self) -> Path:
        """The configuration that all programs read."""
        return self.etc / "slurm.conf"

    @property
    def log(self) -> Path:
        """A log file for each daemon."""
        return self.directory / "log"

    @property
    def state(self) -> Path:
        """StateSaveLocation, and the accounting database."""
        return self.directory / "state"

    @property
    def spool(self) -> Path:
        """A SlurmdSpoolDir for each node."""
        return self.directory / "spool"

    @property
    def devices(self) -> Path:
        """Files that act as GPUs."""
        return self.directory / "dev"

    @property
    def hosts(self) -> Path:
        """The hosts file of the nodes, where each has a host name of its own."""
        return self.etc / "hosts"

    @property
    def env_file(self) -> Path:
        """The file that a shell sources to use the cluster."""
        return self.directory / "env.sh"

    @property
    def run(self) -> Path:
        """The directory of pid files and sockets; elsewhere if its path is too long for sockets."""
        plain = self.directory / "run"
        if len(os.fsencode(plain)) + LONGEST_SOCKET_NAME <= SOCKET_PATH_LIMIT:
            return plain
        mark = hashlib.sha256(os.fsencode(self.directory)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"{_run_prefix()}{mark}"

    @property
    def service_run(self) -> Path:
        """Pid files and sockets of slurmctld and slurmdbd; it belongs to SlurmUser.

        It is separate because slurmd is root and must not work where another user may write.
        """
        return self.run / "service"

    def pid_files(self) -> dict[str, Path]:
        """Return the existing pid files by the daemon's name: slurmctld, slurmd-n1 ..."""
        return pid_files_below(self.run)


def prepared_by_others(layout: Layout) -> str:
    """Return what of a cluster's directories somebody else could have prepared; "" for nothing.

    There are keys that others know, links to files of ours, pid files that name other processes,
    and a slurm.conf by which our commands would bring credentials to somebody else.
    """
    directory = layout.directory
    # As it is written, and where links of ours lead.
    above = {*directory.parents, *directory.resolve().parents}
    inside = (directory, layout.etc, layout.log, layout.run, layout.spool)
    told = (_foreign(path, is_above=True) for path in sorted(above))
    return next(filter(None, (*told, *map(_foreign, inside))), "")


def _foreign(path: Path, *, is_above: bool = False) -> str:
    """Return who may change what is here."""
    try:
        named = path.lstat()
    except FileNotFoundError:
        return ""
    try:
        there = path.stat()
    except OSError:
        return f"{path} is a link to nothing"
    own = os.geteuid()
    if stat.S_ISLNK(named.st_mode) and named.st_uid not in (0, own):
        return f"{path} is a link of another user"
    is_open = bool(there.st_mode & stat.S_IWOTH)
    if not is_above:
        if there.st_uid != own:
            return f"{path} belongs to another user"
        return f"every user may write to {path}" if is_open else ""
    # Where others may rename: for root that matters, others choose whom they trust.
    if own == 0 and there.st_uid != 0:
        return f"{path} belongs to another user"
    return f"every user may write to {path}" if is_open and not there.st_mode & stat.S_ISVTX else ""


def pid_files_below(run: Path) -> dict[str, Path]:
    """Return the pid files of a run directory by the daemon's name."""
    return {path.stem: path for path in sorted([*run.glob("*.pid"), *run.glob("service/*.pid")])}


def _run_prefix() -> str:
    return f"pyslurm-ng-{os.geteuid()}-"


def abandoned_runs() -> list[Path]:
    """Return this user's temporary run directories of clusters that were deleted."""
    runs = sorted(Path(tempfile.gettempdir()).glob(f"{_run_prefix()}*"))
    return [path for path in runs if _is_abandoned(path)]


def _is_abandoned(path: Path) -> bool:
    """Return whether a run directory is ours and its cluster is gone."""
    try:
        # The owner is checked first: other users' directories may be closed to us.
        if path.lstat().st_uid != os.geteuid():
            return False
    except FileNotFoundError:
        return False  # another `up` has just removed it
    link = path / OWNER_LINK
    return link.is_symlink() and not link.exists()


def environment(layout: Layout, program_directories: list[Path]) -> dict[str, str]:
    """Return this process's environment with the cluster's commands and configuration in it."""
    variables = {key: value for key, value in os.environ.items() if not key.startswith("SLURM")}
    path = [str(directory) for directory in program_directories]
    variables["PATH"] = os.pathsep.join([*path, os.environ.get("PATH", "/usr/bin:/bin")])
    variables["SLURM_CONF"] = str(layout.slurm_conf)
    return variables
