"""SPANK plugins: none can be loaded, so one that a site requires must not be left out in silence.

Jobs would run without what it decides, so the daemons refuse to start, as Slurm's do.
"""

from __future__ import annotations

import glob
import os

from pyslurm_ng.conf.lexer import ConfError

_MOST_INCLUDES = 16


def spank_errors(path: str, depth: int = 0) -> list[ConfError]:
    """Return one error for each SPANK plugin that a plugstack.conf requires.

    Optional ones may be missing. A warning says that the file is not read.
    """
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return []
    errors = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if len(words) < 2:
            continue
        if words[0] == "required":
            text = f"{words[1]} cannot be loaded by this version; it could be optional or left out"
            errors.append(ConfError(path, number, "required", text))
        elif words[0] == "include" and depth < _MOST_INCLUDES:
            pattern = os.path.join(os.path.dirname(path), words[1])
            for found in sorted(glob.glob(pattern)):
                errors += spank_errors(found, depth + 1)
    return errors
