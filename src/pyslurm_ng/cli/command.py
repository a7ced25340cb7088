"""What the commands that show or control share: the controller, rows, error lines."""

import os
import sys

from pyslurm_ng.data_parser.records import Table as Table, user_name as user_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from pyslurm_ng.wire.client import Client


_shows_errors = True


def hide_errors() -> None:
    """Hide errors, as -QQ asks; fatal ones are still shown."""
    global _shows_errors
    _shows_errors = False


def say(text: str) -> None:
    """Print lines on stderr, after earlier output on stdout.

    A terminal that has been closed takes none; what the command has to do does not depend on it.
    """
    if not _shows_errors and text.split(" ", 2)[1:2] == ["error:"]:
        return
    sys.stdout.flush()
    try:
        sys.stderr.write(printable(text, "\n\t") + "\n")
    except OSError:
        return


def printable(text: str, kept: str = "") -> str:
    """Return a text without characters that would command the reader's terminal, but for `kept`.

    What users call their jobs, and what their programs are called, is read by administrators.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in kept else "?" for char in text)


def version_line() -> str:
    """Return what -V prints."""
    from pyslurm_ng import SLURM_VERSION

    return f"slurm {SLURM_VERSION}"


def read_conf(command: str, *more_keys: str) -> "dict[str, str]":
    """Return the keys of slurm.conf needed to talk to the controller, and `more_keys`.

    Leaves with exit code 1 when the file cannot be read.
    """
    from pyslurm_ng.conf.quick import find_conf, quick
    from pyslurm_ng.wire.client import QUICK_KEYS

    path = find_conf()
    try:
        values = quick(path, (*QUICK_KEYS, *more_keys))
    except OSError as problem:
        missing = problem.filename or path  # slurm.conf, or a file that it includes
        fail(
            f"{command}: error: s_p_parse_file: unable to read {missing!r}: {problem.strerror}\n"
            f"{command}: fatal: Could not establish a configuration source"
        )
    if not values:
        # Not one key that every slurm.conf has: SLURM_CONF names a file of another kind.
        fail(
            f"{command}: error: ClusterName needs to be specified\n"
            f"{command}: fatal: Unable to process configuration file"
        )
    return values


def connect(conf: "dict[str, str]") -> "Client":
    """Return a client of the controller; it connects with the first request.

    The garbage collector is switched off: a command makes records and exits, and a search for
    cycles among ten thousand of them took half the time of a long listing.
    """
    import gc

    gc.disable()
    from pyslurm_ng.wire.client import Client

    return Client(conf)


def fail(text: str, code: int = 1) -> "NoReturn":
    """Print lines on stderr and leave."""
    say(text)
    raise SystemExit(code)


def uid_of(text: str) -> int:
    """Return the uid of a user's name or number, -1 for an unknown one."""
    import pwd

    try:
        return pwd.getpwnam(text).pw_uid
    except (KeyError, ValueError):
        pass
    return int(text) if text.isdecimal() and len(text) <= 10 else -1


def is_person(uid: int) -> bool:
    """Return whether a user has this number."""
    from pwd import getpwuid

    try:
        return bool(getpwuid(uid))
    except (KeyError, OverflowError):
        return False


def split_list(text: str) -> list[str]:
    """Return the words of a comma list."""
    return [word.strip() for word in text.split(",") if word.strip()]


_kept: "list[bytes] | None" = None  # pieces of a JSON document; None: written as they come
_as_yaml = False
_version = ""  # "" for the newest


def take_document(options: "dict[str, str]", version: str) -> None:
    """Treat --yaml as --json; its documents, and those of an older version, are changed at last."""
    global _kept, _as_yaml, _version
    _as_yaml = "yaml" in options
    _version = version
    _kept = [] if _as_yaml or version else None
    if _as_yaml:
        options["json"] = options.pop("yaml")


def write_bytes(output: "bytes | memoryview") -> None:
    """Write rendered text to stdout after earlier output."""
    if _kept is not None:
        _kept.append(bytes(output))
        if not _kept[-1].endswith(b"\n}\n"):
            return
        output = _changed(b"".join(_kept))
        _kept.clear()
    sys.stdout.flush()
    view = memoryview(output)
    while view:
        view = view[os.write(1, view) :]


def _changed(document: bytes) -> bytes:
    """Return a JSON document as an older version has it, or as YAML."""
    if _version:
        from json import loads

        from pyslurm_ng.data_parser.json_text import encode
        from pyslurm_ng.data_parser.versions import of_version

        document = (encode(of_version(loads(document), _version), 0) + "\n").encode()
    if not _as_yaml:
        return document
    from pyslurm_ng.data_parser.yaml_text import from_json

    return from_json(document)
