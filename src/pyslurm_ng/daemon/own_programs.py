"""Where the commands and daemons of this installation are."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path


def program_directories() -> list[Path]:
    """Return where our commands and daemons are, commands first.

    Beside the native launcher, in the sbin next to it, or where pip puts the scripts of a wheel.
    Programs of the same names beside a system's Python are Slurm's, so they are never used.
    """
    own = Path(os.readlink("/proc/self/exe"))
    if own.name.startswith("python"):
        return [
            directory for directory in _script_directories() if (directory / "slurmctld").exists()
        ][:1]
    root = own.parent.parent
    if own.parent.name == "bin" and root.name == "pyslurm-ng" and root.parent.name == "lib":
        root = root.parent.parent  # the interpreter of an installation
    directories = []
    for directory in (own.parent, root / "bin", root / "sbin", Path(sys.prefix) / "bin"):
        ours = (directory / "squeue").exists() or (directory / "slurmctld").exists()
        if ours and directory not in directories:
            directories.append(directory)
    return directories


def _script_directories() -> list[Path]:
    """Return where pip may have put the scripts of this package, by the package's place."""
    package = Path(__file__).resolve()
    schemes = [sysconfig.get_default_scheme(), *sysconfig.get_scheme_names()]
    directories = []
    for scheme in schemes:
        paths = sysconfig.get_paths(scheme)
        if package.is_relative_to(Path(paths["platlib"]).resolve()):
            directories.append(Path(paths["scripts"]))
    return [*directories, Path(sys.prefix) / "bin"]
