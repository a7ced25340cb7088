"""The files that functions of burst_buffer.lua are given: a job's script, and where paths go."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Collection
from pathlib import Path

_MOST_BYTES = 1 << 18
MOST_VARIABLES = 1000
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=[^\0]*")


class JobFiles:
    """A directory for each job below one of StateSaveLocation, for SlurmUser only."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def script(self, name: str, content: bytes) -> str:
        """Write a job's script unless it is there; return its path.

        Raises:
            OSError: there is no room.
        """
        directory = self._directory / name
        path = directory / "script"
        if not path.exists():
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            new_path = directory / "script.new"
            new_path.write_bytes(content)
            new_path.chmod(0o700)
            new_path.rename(path)
        return str(path)

    def fresh_path_file(self, name: str) -> str:
        """Return the path of an empty file for slurm_bb_paths."""
        path = self._directory / name / "path"
        path.write_bytes(b"")
        return str(path)

    def variables(self, name: str) -> tuple[str, ...]:
        """Return the variables that slurm_bb_paths wrote, one a line; other lines are left out."""
        fd = os.open(self._directory / name / "path", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as stream:
            lines = stream.read(_MOST_BYTES).decode("utf-8", "surrogateescape").splitlines()
        return tuple(line for line in lines if _VARIABLE.fullmatch(line))[:MOST_VARIABLES]

    def remove(self, name: str) -> None:
        """Remove a job's files."""
        shutil.rmtree(self._directory / name, ignore_errors=True)

    def begin(self, names: Collection[str]) -> None:
        """Remove the files of all other jobs, after a start."""
        with contextlib.suppress(FileNotFoundError):
            for entry in os.scandir(self._directory):
                if entry.name not in names:
                    self.remove(entry.name)
