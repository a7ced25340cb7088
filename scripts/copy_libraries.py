"""Copy the libraries we need at run time, and theirs, into a directory: copy_libraries.py TARGET.

They are taken from the environment this runs in, as pip installed them there, so an installation
needs no network and has exactly the versions that were tested.
"""

from __future__ import annotations

import re
import shutil
import sys
from importlib import metadata
from pathlib import Path

OURS = "pyslurm-ng"
OPTIONAL = "web"
"""The extra of ours that an installation has, too."""


def needed(name: str) -> set[str]:
    """Return the distributions that `name` needs, with OPTIONAL, markers respected."""
    found: set[str] = set()
    todo = [name]
    while todo:
        owner = todo.pop()
        for requirement in metadata.requires(owner) or []:
            text, _, marker = requirement.partition(";")
            if not applies(marker, OPTIONAL if owner == name else ""):
                continue
            match = re.match(r"[A-Za-z0-9._-]+", text)
            if match and match.group() not in found:
                found.add(match.group())
                todo.append(match.group())
    return found


def applies(marker: str, extra: str) -> bool:
    """Return whether a marker holds here, with an extra; pip brings the code that knows."""
    if not marker.strip():
        return True
    from pip._vendor.packaging.markers import Marker

    return Marker(marker.strip()).evaluate({"extra": extra})


def copy(name: str, target: Path) -> None:
    """Copy each file pip recorded for `name`, except programs and compiled bytecode."""
    distribution = metadata.distribution(name)
    for file in distribution.files or []:
        if file.parts[0] == ".." or "__pycache__" in file.parts or "tests" in file.parts:
            continue
        place = target / file
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(str(distribution.locate_file(file)), place)


def main(arguments: list[str]) -> None:
    if len(arguments) != 1:
        sys.exit("usage: copy_libraries.py TARGET")
    try:
        for name in sorted(needed(OURS)):
            copy(name, Path(arguments[0]))
    except metadata.PackageNotFoundError as problem:
        sys.exit(f"copy_libraries: error: {problem.name} is not installed here; run `make dev`")


if __name__ == "__main__":
    main(sys.argv[1:])
