"""scrontab: show, edit and replace a user's crontab, whose entries are batch jobs that recur."""

import os
import sys

from pyslurm_ng.cli.command import connect, fail, printable, read_conf, say
from pyslurm_ng.cli.option_words import NONE, REQUIRED
from pyslurm_ng.cli.program import Program
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pwd import struct_passwd

    from pyslurm_ng.wire.client import Client

OPTIONS = (
    ("autocomplete", "", REQUIRED),
    ("edit", "e", NONE),
    ("help", "h", NONE),
    ("list", "l", NONE),
    ("remove", "r", NONE),
    ("usage", "", NONE),
    ("user", "u", REQUIRED),
    ("verbose", "v", NONE),
    ("version", "V", NONE),
)
PROGRAM = Program(
    "scrontab",
    OPTIONS,
    "Usage: scrontab [-v] [-u user] file\n       scrontab [-v] [-u user] [-e | -l | -r]",
    operands="[file]",
)
_MOST_BYTES = 65536


def main(argv: "list[str]") -> int:
    """Run scrontab; return its exit code."""
    from pyslurm_ng.cli.submit import submission

    options, operands = PROGRAM.read(argv)
    verbs = [name for name in ("edit", "list", "remove") if name in options]
    if len(verbs) + len(operands) != 1:
        fail(
            "scrontab: error: one of -e, -l, -r and a file is allowed"
            if verbs or operands
            else "scrontab: error: a file is needed, - for the standard input, or -e, -l or -r"
        )
    conf = read_conf("scrontab", "ScronParameters", *submission.CONF_KEYS)
    words = conf.get("ScronParameters", "").lower().split(",")
    if "enable" not in [word.strip() for word in words]:
        fail("scrontab: fatal: scrontab is disabled on this cluster")
    user = _user(options.get("user"))
    if verbs == ["list"]:
        return _list(connect(conf), user)
    _become(user)
    table = _Crontab(connect(conf), conf, user, is_verbose="verbose" in options)
    try:
        if verbs == ["remove"]:
            return table.store("")
        if verbs == ["edit"]:
            return table.edit()
        return table.take_file(operands[0])
    except SlurmError as problem:
        say(f"scrontab: error: {problem.text}")
        return 1


def _user(name: "str | None") -> "struct_passwd":
    from pwd import getpwnam, getpwuid

    try:
        if name is None:
            return getpwuid(os.getuid())
        return getpwuid(int(name)) if name.isdecimal() else getpwnam(name)
    except (KeyError, OverflowError):
        fail(f"scrontab: fatal: Could not find user {name or os.getuid()}")


def _become(user: "struct_passwd") -> None:
    """Become the user of -u, so that the jobs are submitted as theirs."""
    if user.pw_uid == os.getuid():
        return
    try:
        os.initgroups(user.pw_name, user.pw_gid)
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
    except PermissionError:
        fail("scrontab: fatal: Only root can edit the crontabs of other users")


def _list(client: "Client", user: "struct_passwd") -> int:
    try:
        text = _shown(client, user.pw_uid)
    except SlurmError as problem:
        fail(f"scrontab: error: {problem.text}")
    if not text:
        fail(f"scrontab: no crontab for {user.pw_name}")
    sys.stdout.write(printable(text, "\n\t"))
    return 0


def _shown(client: "Client", uid: int) -> str:
    return str(client.call("ShowCrontab", {"uid": uid})["text"])


class _Crontab:
    """One run that changes a user's crontab."""

    def __init__(
        self,
        client: "Client",
        conf: "dict[str, str]",
        user: "struct_passwd",
        *,
        is_verbose: bool = False,
    ) -> None:
        self._is_verbose = is_verbose
        self._client = client
        self._conf = conf
        self._user = user
        self._bad_lines = (0, 0)

    def store(self, text: str) -> int:
        """Replace the crontab; return the exit code after a line about what is wrong."""
        from pyslurm_ng.cli.crontab.lines import BadEntry, entries_of

        self._bad_lines = (0, 0)
        try:
            jobs = entries_of(text, self._conf, self._user.pw_dir)
        except BadEntry as problem:
            return self._is_bad(problem.first_line, problem.last_line, str(problem))
        reply = self._client.change("StoreCrontab", {"text": text, "jobs": jobs})
        if reply["first_line"]:
            return self._is_bad(reply["first_line"], reply["last_line"], reply["problem"])
        for job, job_id in zip(jobs, reply["job_ids"]) if self._is_verbose else ():  # noqa: B905
            say(f"scrontab: {_lines(job['first_line'], job['last_line'])}: job {job_id}")
        return 0

    def _is_bad(self, first: int, last: int, problem: str) -> int:
        self._bad_lines = first, last
        say(f"scrontab: error: There was an issue with the job on {_lines(first, last)}\n"
            f"scrontab: error: {problem}")  # fmt: skip
        return 1

    def take_file(self, name: str) -> int:
        """Replace the crontab by a file's content."""
        text = _content(name)
        code = self.store(text)
        if code:
            say("scrontab: error: errors in crontab file, cannot install")
        return code

    def edit(self) -> int:
        """Let the user edit the crontab until it can be stored."""
        from pyslurm_ng.cli.crontab.editor import EXAMPLE, NoEditor, edited, with_bad_lines

        before = _shown(self._client, self._user.pw_uid)
        text = before or EXAMPLE
        while True:
            try:
                new = edited(text)
            except NoEditor as problem:
                fail(f"scrontab: error: no changes made to crontab: {problem}")
            if new == text:
                say("scrontab: no changes made to crontab")
                return 0
            _checked(new)
            if not self.store(new):
                return 0
            text = with_bad_lines(new, *self._bad_lines)
            say(
                "There are errors in your crontab.\nThe failed line(s) are commented out with #BAD:"
            )
            if not _wants_retry():
                return 1


def _lines(first: int, last: int) -> str:
    return f"line {last}" if first == last else f"lines {first}-{last}"


def _wants_retry() -> bool:
    while True:
        sys.stdout.write("Do you want to retry the edit? (y/n) ")
        sys.stdout.flush()
        answer = sys.stdin.readline()
        if not answer or answer[0] in "nN":
            return False
        if answer[0] in "yY":
            return True


def _content(name: str) -> str:
    """Return a file's text; - is the standard input."""
    try:
        if name == "-":
            return _checked(sys.stdin.read(_MOST_BYTES + 1))
        with open(name, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as problem:
        fail(f"scrontab: fatal: {name}: {problem.strerror}")
    return _checked(data.decode("utf-8", "replace"))


def _checked(text: str) -> str:
    if "\0" in text or len(text) > _MOST_BYTES:
        fail(f"scrontab: error: a crontab is a text of at most {_MOST_BYTES} characters")
    return text
