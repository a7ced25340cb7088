"""sreport: what clusters, accounts, users and reservations have used."""

import sys

from pyslurm_ng.cli.accounting import sreport_reservations, sreport_sizes, sreport_usage
from pyslurm_ng.cli.accounting.sreport_amounts import Unit
from pyslurm_ng.cli.accounting.sreport_fields import OPTIONS
from pyslurm_ng.cli.accounting.sreport_session import NotAnsweredError, Session
from pyslurm_ng.cli.command import fail, say, version_line
from pyslurm_ng.cli.option_words import split_line
from pyslurm_ng.cli.program import Program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    Report: TypeAlias = Callable[[Session, list[str]], None]

REPORTS: "dict[str, tuple[tuple[str, Report], ...]]" = {
    "cluster": (
        ("AccountUtilizationByUser", sreport_usage.accounts),
        ("AccountUtilizationByQOS", sreport_usage.qos),
        ("UserUtilizationByAccount", sreport_usage.users),
        ("UserUtilizationByWckey", sreport_usage.users_by_wckey),
        ("Utilization", sreport_usage.utilization),
        ("WCKeyUtilizationByUser", sreport_usage.wckeys),
    ),
    "job": (
        ("SizesByAccount", sreport_sizes.by_account),
        ("SizesByAccountAndWcKey", sreport_sizes.by_account_and_wckey),
        ("SizesByWckey", sreport_sizes.by_wckey),
    ),
    "reservation": (("Utilization", sreport_reservations.utilization),),
    "user": (("TopUsage", sreport_usage.top),),
}
_VALID = {
    "cluster": '"AccountUtilizationByUser", "AccountUtilizationByQOS", '
    '"UserUtilizationByAccount", "UserUtilizationByWckey", "Utilization", and '
    '"WCKeyUtilizationByUser"',
    "job": '"SizesByAccount, SizesByAccountAndWcKey, and  SizesByWckey"',
    "reservation": '"Utilization"',
    "user": '"Top"',
}
_WORDS = (
    "exit", "help", "nonparsable", "parsable", "parsable2", "quiet", "quit", "time", "verbose",
    "version",
)  # fmt: skip


def main(argv: "list[str]") -> int:
    """Run sreport; return its exit code."""
    options, operands = PROGRAM.read(argv)
    if sum(option in options for option in ("all_clusters", "cluster", "local")) > 1:
        fail("Only one cluster option can be used (--all_clusters OR --cluster OR --local)")
    session = Session(options)
    try:
        if operands:
            run(session, operands)
        else:
            _interactive(session)
        return session.exit_code
    finally:
        session.close()


def run(session: Session, words: "list[str]") -> None:
    """Run one command line; errors are noted in the session's exit code."""
    word = words[0].lower()
    kinds = [kind for kind in REPORTS if len(word) > 1 and kind.startswith(word)]
    if not kinds:
        _set(session, words)
    elif len(words) < 2:
        _refuse(session, f"too few arguments for keyword:{words[0]}")
    elif (report := _report(kinds[0], words[1])) is None:
        _refuse(
            session,
            f"Not valid report {words[1]}\nValid {kinds[0]} reports are, {_VALID[kinds[0]]}",
        )
    else:
        try:
            report(session, words[2:])
        except NotAnsweredError as error:
            _refuse(session, str(error))


def _refuse(session: Session, text: str) -> None:
    say(text)
    session.exit_code = 1


def _report(kind: str, word: str) -> "Report | None":
    """Return the report that a word or its beginning means; None for several or none.

    Reports that are older than those by QOS keep their abbreviations.
    """
    lowered = word.lower()
    names = [(name, report) for name, report in REPORTS[kind] if name.lower().startswith(lowered)]
    whole = [report for name, report in names if name.lower() == lowered]
    if whole:
        return whole[0]
    firsts = ("AccountUtilizationByUser", "SizesByAccount")
    kept = [report for name, report in names if name in firsts]
    if kept:
        return kept[0]
    return names[0][1] if len(names) == 1 else None


def _set(session: Session, words: "list[str]") -> None:
    """Run a command that is no report."""
    word = words[0].lower()
    meant = [name for name in _WORDS if name.startswith(word)] if len(word) > 1 else []
    if not meant:
        _refuse(session, f"invalid keyword: {words[0]}")
        return
    name = word if word in meant else meant[0]
    if name == "help":
        print(PROGRAM.help_text())
    elif name == "version":
        print(version_line())
    elif name == "time":
        if len(words) < 2:
            _refuse(session, f"too few arguments for keyword:{words[0]}")
        else:
            session.unit = Unit(words[1])
    elif name in ("parsable", "parsable2", "nonparsable"):
        session.options.pop("parsable", None)
        session.options.pop("parsable2", None)
        if name != "nonparsable":
            session.options[name] = ""


def _interactive(session: Session) -> None:
    """Read commands until `exit`, `quit` or the end; `!!` repeats the last one."""
    history = ""
    while True:
        print("sreport: ", end="", flush=True)
        line = sys.stdin.readline()
        if not sys.stdin.isatty():
            print(line.rstrip("\n"), flush=True)  # as Slurm, whose terminal library does it
        if not line:
            return
        line = history if line.strip() == "!!" else line.strip()
        try:
            words = split_line(line)
        except ValueError as problem:
            _refuse(session, f"sreport: error: {problem}")
            continue
        if not words:
            continue
        if words[0].lower() in ("exit", "quit"):
            return
        history = line
        run(session, words)


def _usage() -> str:
    return PROGRAM.help_text()


NO_EFFECT = ("immediate",)  # there is nothing to confirm
PROGRAM = Program(
    "sreport",
    OPTIONS,
    "",
    environment=(
        ("SREPORT_CLUSTER", "cluster"),
        ("SREPORT_FEDERATION", "federation"),
        ("SREPORT_LOCAL", "local"),
        ("SREPORT_TRES", "tres"),
    ),
    no_effect=NO_EFFECT,
    opposites=(("parsable", "parsable2"),),
    heading="sreport [<OPTION>] [<COMMAND>]\n\nValid <OPTION> values are:",
    tells={"usage": _usage},
)
