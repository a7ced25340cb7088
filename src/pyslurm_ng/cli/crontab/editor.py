"""An editor on a copy of a crontab."""

import os

EXAMPLE = """\
# Each line is an entry: when it is due, and a command. The five fields for the time are minute,
# hour, day of month, month and day of week; @hourly, @daily, @weekly, @monthly and @yearly stand
# for them.
# Options of sbatch for one entry are in #SCRON lines above it. NAME=value lines set variables.
#
# DIR=/home/me
# #SCRON --partition=short --time=10
# 30 6 * * mon-fri $DIR/report
"""


class NoEditor(Exception):
    """The editor could not be run, or ended with an error."""


def edited(text: str) -> str:
    """Return a text as the user leaves it behind in an editor.

    Raises:
        NoEditor: the text must stay as it was.
    """
    import tempfile

    descriptor, path = tempfile.mkstemp(prefix="scrontab-")
    try:
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        _run(path)
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError as problem:
        raise NoEditor(str(problem)) from None
    finally:
        try:
            os.unlink(path)
        except OSError:
            pass


def _run(path: str) -> None:
    """Let the user edit a file, with VISUAL, EDITOR or vi; these may have arguments."""
    import subprocess

    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    code = subprocess.call(["/bin/sh", "-c", f'{editor} "$1"', "scrontab", path])
    if code:
        raise NoEditor(f"{editor}: exit code {code}")


def with_bad_lines(text: str, first_line: int, last_line: int) -> str:
    """Return a text in which wrong lines are comments."""
    lines = text.split("\n")
    for number in range(first_line - 1, min(last_line, len(lines))):
        lines[number] = f"#BAD: {lines[number]}"
    return "\n".join(lines)
