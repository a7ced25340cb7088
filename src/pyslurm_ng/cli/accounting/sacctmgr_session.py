"""One run of sacctmgr: its options, its connection to slurmdbd, and how it reads words and rows."""

import os
import sys
from contextlib import contextmanager

from pyslurm_ng.base.error_numbers import Errno, is_unreachable
from pyslurm_ng.cli.command import fail, read_conf, say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from pyslurm_ng.wire.client import Client

    Row = dict[str, Any]

FLAGS = (
    "withassoc", "withcoordinators", "withdeleted", "withrawqoslevel", "withsubaccounts", "tree",
    "onlydefaults", "wolimits", "wopinfo", "woplimits", "withfed", "withclusters", "withassocinfo",
    "all_time", "all_clusters",
)  # fmt: skip
CHANGE_TIMEOUT_S = 900
QUESTION_S = 30


class Session:
    """One invocation: its options and its connection."""

    def __init__(self, options: "dict[str, str]", argv: "list[str]") -> None:
        self.options = options
        self.argv = argv
        self._conf: dict[str, str] = {}
        self._client: Client | None = None

    @property
    def conf(self) -> "dict[str, str]":
        """The keys of slurm.conf that are needed."""
        if not self._conf:
            self._conf = read_conf("sacctmgr", "AccountingStorageType", "PrivateData", "PluginDir",
                                   "TrackWCKey", "TCPTimeout", "AccountingStorageBackupHost",
                                   "AccountingStorageParameters")  # fmt: skip
        return self._conf

    @property
    def client(self) -> "Client":
        """The connection to slurmdbd; exits if slurmdbd does not keep accounting here."""
        if self._client is None:
            storage = self.conf.get("AccountingStorageType", "") or "accounting_storage/none"
            if not storage.endswith("slurmdbd"):
                fail(
                    "You are not running a supported accounting_storage plugin\n"
                    f"({storage}).\n"
                    "Only 'accounting_storage/slurmdbd' and 'accounting_storage/mysql' are "
                    "supported."
                )
            from pyslurm_ng.wire.client import Client

            if "verbose" in self.options:
                host = self.conf.get("AccountingStorageHost", "localhost")
                say(
                    f"sacctmgr: slurmdbd at {host}:{self.conf.get('AccountingStoragePort', '6819')}"
                )
            self._client = Client(self.conf, "slurmdbd", wait_s=0.5)
        return self._client

    def close(self) -> None:
        """End the connection."""
        if self._client is not None:
            self._client.close()

    @property
    def cluster(self) -> str:
        """This cluster's name."""
        return self.conf.get("ClusterName", "cluster").lower()

    def call(self, kind: str, fields: "dict[str, Any]", changing: bool = False) -> "dict[str, Any]":
        """Ask slurmdbd; exits with the text of a refusal."""
        from pyslurm_ng.wire.client import SlurmError

        ask = self.client.change if changing else self.client.call
        try:
            return ask(kind, fields, CHANGE_TIMEOUT_S)
        except SlurmError as error:
            if error.code == Errno.SLURM_PROTOCOL_INSANE_MSG_LENGTH:
                fail(f"sacctmgr: error: {_too_long(fields) or error.detail or error.text}")
            if is_unreachable(error.code):
                fail(
                    "sacctmgr: error: Problem talking to the database: "
                    f"{error.detail or error.text}"
                )
            fail(error.text if error.text.startswith(" ") else f"sacctmgr: error: {error.text}")


def _too_long(fields: "dict[str, Any]") -> str:
    """Return `comment: at most 65536 characters are allowed` for the first longer value, or ""."""
    from pyslurm_ng.model.bounds import LongText

    most = LongText.__metadata__[0].max_length  # type: ignore[attr-defined]
    for key, _, value in (*fields.get("where", ()), *fields.get("set", ())):
        if len(value) > most:
            return f"{key}: at most {most} characters are allowed"
    return ""


COMMIT = "Would you like to commit changes? (You have 30 seconds to decide)"


def commit(
    session: Session,
    kind: str,
    request: "dict[str, Any]",
    is_test: bool = False,
    question: str = COMMIT,
) -> int:
    """Say what a change would be, ask, and make it; return the exit code.

    Args:
        is_test: only say what it would be.
        question: what is asked.
    """
    request["commit"] = "immediate" in session.options and not is_test
    result = session.call(kind, dict(request), changing=True)
    answered(session, result)
    if not result["changed"] or request["commit"] or is_test:
        return int(result["exit_code"])
    if not agreed(question):
        print(" Changes Discarded")
        return 0
    request["commit"] = True
    result = session.call(kind, request, changing=True)
    if result["exit_code"]:
        # Another administrator changed it while the question was open.
        answered(session, result)
    return int(result["exit_code"])


def answered(session: Session, result: "dict[str, Any]") -> int:
    """Print what slurmdbd says to a change; return the exit code."""
    if "quiet" not in session.options or result["exit_code"]:
        for line in result["lines"]:
            print(line)
    for line in result["error_lines"]:
        say(line)
    return int(result["exit_code"])


def assignment(word: str) -> "list[str]":
    """Return (key, operator, value) of `key=value`, `key+=value`, `key-=value` or a bare word."""
    key, equals, value = word.partition("=")
    if not equals:
        return ["", "=", word]
    if key[-1:] in ("+", "-"):
        return [key[:-1], f"{key[-1]}=", _unquoted(value)]
    return [key, "=", _unquoted(value)]


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1] or "''"
    return text


def is_flag(word: str) -> str:
    """Return the flag word (withassoc, tree ...) that a word means; "" if none."""
    lowered = word.lower()
    least = 5 if lowered.startswith("with") else 3 if lowered == "wol" else 4
    for name in FLAGS:
        if lowered == name or (len(lowered) >= least and name.startswith(lowered)):
            return name
    return ""


def agreed(question: str) -> bool:
    """Ask on the terminal; no answer within the time is a no, other words are asked again."""
    print(question)
    while True:
        print("(N/y): ", end="", flush=True)
        answer = _answer()
        if answer is None:
            print("timeout")
            return False
        print()
        if answer in (b"", b"y", b"yes", b"n", b"no"):
            return answer[:1] == b"y"
        print("Y or N please")


def read_line() -> str:
    """Return the next line of stdin, "" at its end.

    Nothing behind the line is taken: a command's answer may be the next one, the command after it
    the one that follows.
    """
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError):
        return sys.stdin.readline()
    line = bytearray()
    while not line.endswith(b"\n"):
        letter = os.read(descriptor, 1)
        if not letter:
            break
        line += letter
    return line.decode(errors="replace")


def _answer() -> "bytes | None":
    """Return what was typed, in lower case; None if nothing was typed in time.

    On a terminal it is one key, for which nobody has to press Enter; else a line.
    """
    from select import select

    try:
        with _keys_at_once():
            ready, _, _ = select([sys.stdin], [], [], QUESTION_S)
            if not ready:
                return None
            typed = os.read(0, 1).decode(errors="replace") if sys.stdin.isatty() else read_line()
            return typed.strip().lower().encode()
    except (OSError, ValueError):
        return b""


@contextmanager
def _keys_at_once() -> "Iterator[None]":
    """Let a terminal pass each key on at once, and as before afterwards."""
    if not sys.stdin.isatty():
        yield
        return
    import termios

    before = termios.tcgetattr(0)
    now = termios.tcgetattr(0)
    now[3] &= ~termios.ICANON
    try:
        termios.tcsetattr(0, termios.TCSANOW, now)
        yield
    finally:
        termios.tcsetattr(0, termios.TCSANOW, before)
