"""oci.conf: how the tasks of a job with --container are run."""

from __future__ import annotations

import re
from typing import Any

from pyslurm_ng.conf.lexer import ConfError, ConfErrors, ConfText, Entry, parse_text, read_conf
from pyslurm_ng.conf.plain_conf import raise_errors, read_keys
from pyslurm_ng.conf.schema import Table
from pyslurm_ng.conf.tables.keys import OCI

PATTERN_LETTERS = "%@bejmnprstuUZ"
"""What may stand after a percent sign in commands and paths."""
_TABLE = Table(OCI, "oci.conf")
_PATTERN = re.compile(r"%(.?)", re.DOTALL)
_EXPRESSIONS = ("EnvExclude", "RunTimeEnvExclude")


def load_oci_conf(path: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the keys of an oci.conf with their values, and warnings.

    Raises:
        ConfErrors: with every problem found.
    """
    return _build(read_conf(path))


def parse_oci_conf(text: str) -> dict[str, Any]:
    """Read an oci.conf given as a string. Raises ConfErrors."""
    return _build(parse_text(text, "oci.conf"))[0]


def _build(text: ConfText) -> tuple[dict[str, Any], tuple[str, ...]]:
    values, entries, warnings = read_keys(text, _TABLE, "oci.conf", {})
    for name, entry in entries.items():
        if name in _EXPRESSIONS:
            try:
                re.compile(entry.value)
            except re.error as error:
                text.fail(entry, f"is no regular expression: {error}")
        elif name.startswith("RunTime") or name in ("ContainerPath", "MountSpoolDir"):
            letters = [match[1] for match in _PATTERN.finditer(entry.value)]
            for letter in letters:
                if not letter or letter not in PATTERN_LETTERS:
                    known = " ".join(f"%{word}" for word in PATTERN_LETTERS)
                    text.fail(entry, f"%{letter} means nothing; {known} are allowed")
            if name == "ContainerPath" and "m" in letters:
                text.fail(entry, "%m would be SlurmdSpoolDir, where users can make no files")
    _check_commands(text, set(entries))
    raise_errors(text)
    by_name = {key.name: values[key.attribute] for key in OCI}
    return by_name, (*warnings, *_unused(entries))


def _check_commands(text: ConfText, names: set[str]) -> None:
    """Refuse a file without the commands of one of the two ways to run a container."""
    problem = ""
    if "RunTimeRun" in names:
        return
    if "RunTimeCreate" in names and not {"RunTimeStart", "RunTimeDelete"} <= names:
        problem = "RunTimeCreate needs RunTimeStart and RunTimeDelete"
    elif "RunTimeCreate" not in names:
        problem = "RunTimeRun or RunTimeCreate is needed"
    if problem:
        text.errors.append(ConfError(text.path, 0, "", problem))


def _unused(entries: dict[str, Entry]) -> list[str]:
    """Return a line for each command in whose place RunTimeRun is used, as in Slurm."""
    if "RunTimeRun" not in entries:
        return []
    return [
        f"{entry.file}:{entry.line}: {name} is not used: RunTimeRun is there"
        for name, entry in entries.items()
        if name in ("RunTimeCreate", "RunTimeStart")
    ]


def file_errors(path: str) -> list[ConfError]:
    """Return everything that is wrong with an oci.conf."""
    try:
        load_oci_conf(path)
    except ConfErrors as problems:
        return problems.errors
    return []
