"""sacctmgr load: read the flat file that `sacctmgr dump` writes, and let slurmdbd take it."""

from pyslurm_ng.cli.accounting.flat_file import LineError, read
from pyslurm_ng.cli.accounting.sacctmgr_session import Session, commit
from pyslurm_ng.cli.command import fail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_BYTES = 24 << 20
"""slurmdbd takes no larger message."""


def run(session: Session, words: "list[str]") -> int:
    """Read the file and do what it says; return the exit code."""
    request: dict[str, Any] = {"cluster": "", "clean": False}
    path = ""
    is_test = False
    for word in words:
        key, equals, value = word.partition("=")
        name = key.lower()
        if equals and name and "cluster".startswith(name):
            request["cluster"] = value.lower()
        elif equals and name and "file".startswith(name):
            path = _only(path, value)
        elif not equals and len(name) > 1 and "clean".startswith(name):
            request["clean"] = True
        elif not equals and name == "test":
            is_test = True
        elif equals:
            fail(f" Unknown option: {word}")
        else:
            path = _only(path, word)
    if not path:
        fail(" No filename given, specify one with file=''")
    if "readonly" in session.options:
        fail("Can't run this command in readonly mode.")
    request["lines"] = _lines(path)
    return commit(session, "LoadFile", request, is_test)


def _only(path: str, word: str) -> str:
    if path:
        fail(f" File name already set to {path}")
    return word


def _lines(path: str) -> "list[list[object]]":
    """Return the lines of the file that say something; exit if one cannot be read."""
    try:
        with open(path, "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        fail(f' Unable to read "{path}": {error.strerror}')
    if len(content) > MOST_BYTES:
        fail(f' Unable to read "{path}": it has more than {MOST_BYTES >> 20} MiB')
    lines = []
    for number, raw in enumerate(content.split(b"\n"), 1):
        try:
            line = raw.decode().strip()
        except UnicodeDecodeError:
            fail(f" Misformatted line({number}): it is not UTF-8")
        if not line or line.startswith("#"):
            continue
        if not line.isprintable():
            fail(f" Misformatted line({number}): it has control characters")
        try:
            lines.append(read(number, line))
        except LineError as error:
            fail(str(error))
    return lines
