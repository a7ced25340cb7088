"""The entries of a crontab, each as the request of the job that recurs.

Source: the manual's page of scrontab: comments, `NAME=value` lines for all that follow, `#SCRON`
lines with options of sbatch for the next entry, and entries.
"""

import os

from pyslurm_ng.base.cron import CronError, parse, split_spec
from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.cli.submit import submission
from pyslurm_ng.cli.submit.directives import split_directive
from pyslurm_ng.cli.submit.option_state import SCRIPT
from pyslurm_ng.cli.submit.options import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DIRECTIVE = "#SCRON"
_HEAD = "#!/bin/sh\n# This job was created by scrontab.\n\n"
# An entry's job waits for its time by itself, is one job, and is nobody else's.
_NOT_HERE = ("array", "begin", "parsable", "test-only", "wait", "wrap", "uid", "gid")


class BadEntry(Exception):
    """Lines that cannot be an entry."""

    def __init__(self, first_line: int, last_line: int, text: str) -> None:
        super().__init__(text)
        self.first_line, self.last_line = first_line, last_line


def entries_of(text: str, conf: "dict[str, str]", home: str) -> "list[dict[str, Any]]":
    """Return the entries of a crontab as the fields of `CronJob`.

    Args:
        home: the user's home directory, where jobs run unless --chdir says otherwise.

    Raises:
        BadEntry: the first wrong lines.
    """
    entries: list[dict[str, Any]] = []
    variables: dict[str, str] = {}
    directives: list[tuple[int, str]] = []
    for number, raw_line in enumerate(text.split("\n"), start=1):
        line = raw_line.strip()
        if line.startswith(_DIRECTIVE):
            directives.append((number, line[len(_DIRECTIVE) :]))
            continue
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        if equals and name.rstrip().isidentifier() and name.isascii():
            variables[name.rstrip()] = _unquoted(value.strip())
            continue
        first = directives[0][0] if directives else number
        try:
            entries.append(_entry(first, number, line, directives, variables, conf, home))
        except (OptionError, CronError) as problem:
            raise BadEntry(first, number, str(problem)) from None
        directives = []
    if directives:
        first, last = directives[0][0], directives[-1][0]
        raise BadEntry(first, last, f"{_DIRECTIVE}: no entry follows")
    return entries


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value


def _entry(
    first_line: int,
    last_line: int,
    line: str,
    directives: "list[tuple[int, str]]",
    variables: "dict[str, str]",
    conf: "dict[str, str]",
    home: str,
) -> "dict[str, Any]":
    """Return one entry. Raises OptionError, CronError."""
    times, command = split_spec(line)
    parse(times)
    if not command:
        raise CronError("a command is needed behind the time")
    options = Options("sbatch")
    options.apply("export", "NONE", SCRIPT)
    for number, words in directives:
        _read(options, words, number)
    submission.finish(options, conf)
    request = options.request
    request.setdefault("name", command.split()[0].rpartition("/")[2].rstrip(";&|)") or "scrontab")
    request.setdefault("work_dir", home)
    submission.describe_origin(options, [])
    request["origin"] = "scrontab"
    request["submit_line"] = submission.plain_text(line)
    request["rlimits"] = submission.limits(options.settings.get("propagate", ""), conf)
    own = {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}
    environment = submission.job_environment(options, {})
    return {
        "first_line": first_line,
        "last_line": last_line,
        "times": times,
        "request": request,
        "script": os.fsencode(f"{_HEAD}{command}\n"),
        "environment": b"".join(b"%b=%b\0" % pair for pair in own.items()) + environment,
    }


def _read(options: Options, words: str, number: int) -> None:
    """Read the options of one #SCRON line. Raises OptionError."""
    pairs, rest = options.split_words(split_directive(words, f"line {number}"))
    if rest:
        raise OptionError(f"line {number}: {rest[0]} is no option")
    for name, _ in pairs:
        if name in _NOT_HERE:
            raise OptionError(f"line {number}: --{name} is not allowed in a crontab")
    options.apply_all(pairs, SCRIPT)
