"""scontrol: show and control everything."""

import os
import sys

from pyslurm_ng.cli.command import say, version_line
from pyslurm_ng.cli.control.session import Session
from pyslurm_ng.cli.option_words import NONE, OPTIONAL, REQUIRED, split_line
from pyslurm_ng.cli.program import Program, names_clusters, shows_federation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.cli.control.session import Action
    from pyslurm_ng.cli.program import OptionValues

OPTIONS = (
    ("all", "a", NONE),
    ("autocomplete", "", REQUIRED),
    ("cluster", "M", REQUIRED),
    ("clusters", "M", REQUIRED),
    ("details", "d", NONE),
    ("federation", "", NONE),
    ("future", "F", NONE),
    ("help", "h", NONE),
    ("hide", "", NONE),
    ("json", "", OPTIONAL),
    ("local", "", NONE),
    ("oneliner", "o", NONE),
    ("quiet", "Q", NONE),
    ("sibling", "", NONE),
    ("uid", "u", REQUIRED),
    ("usage", "", NONE),
    ("verbose", "v", NONE),
    ("version", "V", NONE),
    ("yaml", "", OPTIONAL),
)
PROGRAM = Program(
    "scontrol",
    OPTIONS,
    "",
    same={"cluster": "clusters"},
    environment=(
        ("SLURM_CLUSTERS", "clusters"),
        ("SCONTROL_FEDERATION", "federation"),
        ("SCONTROL_LOCAL", "local"),
        ("SCONTROL_SIBLING", "sibling"),
    ),
    tells={"help": lambda: _help_text(), "usage": lambda: _help_text()},
)
# In the order in which an abbreviation finds them.
COMMANDS = (
    "abort all cancel_reboot check cluster completing create delete details errnumstr exit explain "
    "fsdampeningfactor getaddrs getent gethost help hide hold holdu uhold listjobs listpids "
    "liststeps notify oneliner pidinfo ping power quiet quit reboot reconfigure release requeue "
    "requeuehold resume schedloglevel setdebug setdebugflags show shutdown suspend takeover token "
    "top update verbose version wait_job watch write"
).split()
# How many letters of a command Slurm requires, where it is not two.
_SHORTEST = {
    "abort": 5, "cancel_reboot": 3, "cluster": 2, "delete": 3, "details": 1,
    "fsdampeningfactor": 3, "getent": 4, "gethost": 4, "hold": 4, "holdu": 4, "uhold": 2,
    "listpids": 1, "notify": 1, "oneliner": 1, "pidinfo": 3, "ping": 3, "quiet": 4, "quit": 4,
    "reboot": 3, "reconfigure": 3, "release": 3, "requeue": 3, "requeuehold": 3, "resume": 3,
    "schedloglevel": 3, "show": 3, "shutdown": 8, "takeover": 8, "token": 3, "top": 3,
    "update": 1, "verbose": 4, "version": 4, "write": 5,
}  # fmt: skip
REFUSED_COMMANDS = ("abort getent gethost listjobs liststeps").split()


def main(argv: "list[str]") -> int:
    """Run scontrol; return its exit code."""
    options, words = PROGRAM.read(_without_signs(argv))
    session = Session(options, argv)
    session.detail = options.times("details")
    if "hide" in options:
        session.all = False
    if "clusters" in options:
        session.move(PROGRAM.cluster(options, session.conf))
    if not words:
        return _interactive(session)
    if find_command(words[0]) == "show" and shows_federation(options, session.conf):
        return _show_federation(session, options, words)
    return run(session, words)


def _show_federation(session: Session, options: "OptionValues", words: "list[str]") -> int:
    """Show something of each cluster of the federation; what is not of a cluster once."""
    from pyslurm_ng.cli.clusters import on_each
    from pyslurm_ng.cli.control.show import is_of_a_cluster

    if len(words) < 2 or not is_of_a_cluster(words[1]):
        return run(session, words)
    confs = PROGRAM.clusters(options, session.conf)
    is_headed = names_clusters(options)

    def show_one(conf: "dict[str, str]") -> int:
        session.move(conf)
        if is_headed:
            print(f"CLUSTER: {conf.get('ClusterName', 'cluster')}")
        return run(session, words)

    return on_each(confs, show_one, is_apart=is_headed)


def _without_signs(argv: "list[str]") -> "list[str]":
    """Return the words so that `-NAME` behind setdebugflags is no option."""
    for index, word in enumerate(argv, 1):
        if find_command(word) in ("setdebug", "setdebugflags"):
            return [*argv[:index], "--", *argv[index:]]
    return argv


def _interactive(session: Session) -> int:
    """Read commands from stdin until exit; return 1 if one of them failed.

    As in Slurm, a line that does not come from a terminal is shown behind the prompt.
    """
    code = 0
    is_typed = sys.stdin.isatty()
    last: list[str] = []
    while True:
        sys.stdout.write("scontrol: ")
        sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            print()
            return code
        if not is_typed:
            print(line.rstrip("\n"))
        words = split_line(line)
        if not words:
            continue
        if words[0] == "!!":
            words = last
        last = words
        is_end = bool(words) and find_command(words[0]) in ("exit", "quit")
        try:
            code = (run(session, words) if words else 1) or code
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
        if is_end:
            return code


def find_command(word: str) -> str:
    """Return the command that a word names, abbreviated or not, or ""."""
    lower = word.lower()
    if lower in COMMANDS:
        return lower
    return next(
        (
            name
            for name in COMMANDS
            if name.startswith(lower) and len(lower) >= _SHORTEST.get(name, 2)
        ),
        "",
    )


def run(session: Session, words: "list[str]") -> int:
    """Do one command."""
    name = find_command(words[0])
    arguments = words[1:]
    if not name:
        session.complain(f"invalid keyword: {words[0]}")
        return 1
    if not arguments and name in _NEED_ARGUMENTS:
        is_entity = name in ("create", "delete", "update")
        which = f"{words[0]} keyword" if is_entity else f"keyword:{words[0]}"
        session.complain(f"too few arguments for {which}")
        return 1
    if len(arguments) > _MOST_ARGUMENTS.get(name, len(arguments)):
        session.complain(f"too many arguments for keyword:{words[0]}")
        return 1
    if name in ("all", "hide", "details", "oneliner", "quiet", "verbose"):
        return _switch(session, name)
    if name in ("exit", "quit"):
        return 0
    if name in REFUSED_COMMANDS:
        say(f"scontrol: error: {name} is not supported yet")
        return 1
    return _action(name)(session, arguments)


def _switch(session: Session, name: str) -> int:
    """The words that change how the following commands of an interactive session print."""
    if name in ("all", "hide"):
        session.all = name == "all"
    elif name == "details":
        session.detail = 1
    elif name == "oneliner":
        session.oneliner = True
    else:
        session.quiet, session.verbose = name == "quiet", name == "verbose"
    return 0


def _action(name: str) -> "Action":
    """Return the action of a command; its module is loaded when it is used."""
    if name in _OWN:
        return _OWN[name]
    if name == "show":
        from pyslurm_ng.cli.control.show import show

        return show
    if name == "explain":
        from pyslurm_ng.cli.control.explain import explain

        return explain
    if name == "watch":
        from pyslurm_ng.cli.control.watch import watch

        return watch
    if name == "write":
        from pyslurm_ng.cli.control.write import write

        return write
    if name in ("create", "delete", "update"):
        from pyslurm_ng.cli.control.update import ACTIONS
    elif name in ("cancel_reboot", "power", "reboot"):
        from pyslurm_ng.cli.control.node_orders import ACTIONS
    elif name in ("getaddrs", "takeover", "token"):
        from pyslurm_ng.cli.control.controllers import ACTIONS
    elif name in _TO_DAEMONS:
        from pyslurm_ng.cli.control.daemons import ACTIONS
    else:
        from pyslurm_ng.cli.control.job_actions import ACTIONS
    return ACTIONS[name]


def _help(session: Session, words: "list[str]") -> int:
    print(_help_text())
    return 0


def _help_text() -> str:
    """Return what --help, --usage and the word help print."""
    from pyslurm_ng.cli.command_texts import COMMANDS as COMMAND_TEXTS, SCONTROL_ENTITIES
    from pyslurm_ng.cli.option_lists import table

    own = [
        ("check [<file>...]", "check configuration files without a daemon"),
        ("explain <job_id>", "say why a job waits and what would help"),
        ("watch [jobs|nodes|job <ids>|node <names>]", "print what happens as it happens"),
        ("all, hide", "show hidden partitions, or leave them out"),
        ("details", "show more of each record"),
        ("oneliner", "one line per record"),
        ("quiet, verbose", "less or more text on stderr"),
        ("exit", "end scontrol"),
        ("quit", "end scontrol"),
        ("!!", "repeat the last command"),
    ]
    blocks = [
        "scontrol [<OPTION>] [<COMMAND>]",
        f"Valid <OPTION> values are:\n{PROGRAM.option_list()}",
        "Without a command, scontrol reads commands until exit.",
        f"Valid <COMMAND> values are:\n{table([*COMMAND_TEXTS['scontrol'], *own])}",
        f"<ENTITY> may be:\n{table(SCONTROL_ENTITIES)}",
        "<SPECIFICATIONS> are KEY=VALUE words, as `scontrol show` prints them; a key may be "
        "shortened.\nCommands, entities and keys are case-insensitive.",
    ]
    return "\n\n".join(blocks)


def _version(session: Session, words: "list[str]") -> int:
    if words:
        say("too many arguments for version keyword")
    print(version_line())
    return 1 if words else 0


def _check(session: Session, arguments: "list[str]") -> int:
    """Validate configuration files without a daemon; print every problem."""
    from pyslurm_ng.conf.check import check_here
    from pyslurm_ng.conf.quick import find_conf

    code = 0
    for path in arguments or [find_conf()]:
        problems, warnings = check_here(path)
        for line in problems or warnings:
            say(line)
        if problems:
            code = 1
        else:
            print(f"{path}: no errors")
    return code


def _error_text(session: Session, words: "list[str]") -> int:
    from pyslurm_ng.base.error_texts import error_text

    if len(words) != 1:
        say("one arguments required for keyword:errnumstr")
        return 1
    if not words[0].removeprefix("-").isdecimal():
        say("numeric arguments required for keyword:errnumstr")
        return 1
    number = int(words[0])
    print(os.strerror(number) if 0 < number < _FIRST_ERROR else error_text(number))
    return 0


def _cluster(session: Session, words: "list[str]") -> int:
    """`cluster NAME`: ask that cluster from now on; without a name, that of slurm.conf."""
    own = session.own_conf
    if not words:
        session.move(own)
        return 0
    from pyslurm_ng.cli.clusters import only_conf

    session.move(only_conf("scontrol", words[0], own))
    return 0


_OWN: "dict[str, Action]" = {
    "check": _check,
    "cluster": _cluster,
    "errnumstr": _error_text,
    "help": _help,
    "version": _version,
}
# As in Slurm, `all` and `hide` take no notice of words behind them.
_FIRST_ERROR = 1000  # of Slurm's; those below are the system's
_NEED_ARGUMENTS = (
    "create delete fsdampeningfactor getaddrs hold holdu notify power release requeue requeuehold "
    "resume schedloglevel setdebug setdebugflags show suspend top uhold update wait_job write"
).split()
_MOST_ARGUMENTS = {
    "cancel_reboot": 1, "cluster": 1, "fsdampeningfactor": 1, "getaddrs": 1, "pidinfo": 1,
    "schedloglevel": 1, "setdebug": 2, "wait_job": 1, "write": 3,
    "completing": 0, "details": 0, "exit": 0, "oneliner": 0, "ping": 0, "quiet": 0, "quit": 0,
    "verbose": 0,
}  # fmt: skip
_TO_DAEMONS = (
    "fsdampeningfactor listpids notify pidinfo ping reconfigure schedloglevel setdebug "
    "setdebugflags shutdown"
).split()
