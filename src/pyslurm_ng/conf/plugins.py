"""Plugins by which a site changes or judges what users ask for.

One that cannot be loaded must not be left out in silence: jobs would run without the site's rules.
So the daemons refuse to start, as Slurm's do.
"""

from __future__ import annotations

import glob
import os

from pyslurm_ng.conf.lexer import ConfError, Entry

BUILT_IN = {
    "jobsubmitplugins": ("all_partitions", "logging", "require_timelimit"),
    "clifilterplugins": ("syslog",),
}
"""By key: what works, or only writes to a log and so decides nothing."""
_MOST_INCLUDES = 16


def plugin_errors(lines: list[list[Entry]]) -> list[ConfError]:
    """Return one error for each plugin that the lines of a slurm.conf name and nobody can load."""
    errors = []
    for line in lines:
        for entry in line:
            built_in = BUILT_IN.get(entry.key.lower())
            if built_in is None:
                continue
            for word in entry.value.split(","):
                name = word.strip().lower().removeprefix("cli_filter/")
                if name not in ("", "none", *built_in):
                    errors.append(_refused(entry, word.strip(), built_in))
    return errors


def _refused(entry: Entry, name: str, built_in: tuple[str, ...]) -> ConfError:
    text = (
        f"{name} cannot be loaded by this version, and jobs must not go without what it decides; "
        f"{', '.join(built_in)} are allowed"
    )
    return ConfError(entry.file, entry.line, entry.key, text)


def spank_errors(path: str, depth: int = 0) -> list[ConfError]:
    """Return one error for each SPANK plugin that a plugstack.conf requires.

    Optional ones may be missing; whoever reads the warnings hears that the file is not read.
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
