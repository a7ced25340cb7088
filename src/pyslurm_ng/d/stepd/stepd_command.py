"""How slurmstepd is started."""

from __future__ import annotations

import os
import sys

import pyslurm_ng


def stepd_command() -> list[str]:
    """Return how to run slurmstepd: the program beside this daemon's, else this interpreter."""
    beside = os.path.join(os.path.dirname(os.readlink("/proc/self/exe")), "slurmstepd")
    if os.access(beside, os.X_OK):
        return [beside]
    package_dir = os.path.dirname(os.path.dirname(os.path.abspath(pyslurm_ng.__file__)))
    code = (
        f"import sys; sys.path.insert(0, {package_dir!r}); "
        "from pyslurm_ng.d.stepd.template import main; sys.exit(main(sys.argv[1:]))"
    )
    return [sys.executable, "-I", "-S", "-c", code]
