"""sacctmgr: view and change accounts, users, associations, QOS and clusters."""

import sys

from pyslurm_ng.cli.accounting.sacctmgr_fields import OPTIONS
from pyslurm_ng.cli.accounting.sacctmgr_session import (
    Session,
    agreed,
    assignment,
    commit,
    read_line,
)
from pyslurm_ng.cli.accounting.usage_reset import reset_usage, resets_usage
from pyslurm_ng.cli.command import fail, say, uid_of, version_line
from pyslurm_ng.cli.option_words import split_line
from pyslurm_ng.cli.program import Program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


VERBS = (
    ("add", "add"), ("create", "add"), ("list", "list"), ("show", "list"), ("modify", "modify"),
    ("update", "modify"), ("delete", "delete"), ("remove", "delete"), ("clear", "clear"),
    ("dump", "dump"), ("load", "load"), ("archive", "archive"), ("ping", "ping"),
    ("reconfigure", "reconfigure"), ("shutdown", "shutdown"), ("version", "version"),
    ("roll", "roll"),
)  # fmt: skip
ENTITIES = {
    "list": (
        "account", "association", "cluster", "configuration", "event", "federation", "problem",
        "qos", "resource", "reservation", "runawayjobs", "stats", "transaction", "tres", "user",
        "wckey", "instance",
    ),
    "add": ("account", "cluster", "coordinator", "federation", "qos", "resource", "user"),
    "modify": ("account", "cluster", "federation", "job", "qos", "resource", "user"),
    "delete": (
        "account", "cluster", "coordinator", "federation", "problem", "qos", "resource", "user",
    ),
    "clear": ("stats",),
}  # fmt: skip
_LISTS = {
    "list": 'Input line must include "Account", "Association", "Cluster", "Configuration",\n'
    '"Event", "Federation", "Problem", "QOS", "Resource", "Reservation",\n'
    '"RunAwayJobs", "Stats", "Transaction", "TRES", "User", or "WCKey"',
    "add": 'Input line must include "Account", "Cluster", "Coordinator", '
    '"Federation", "QOS", "Resource", or "User"',
    "modify": 'Input line must include "Account", "Cluster", "Federation", "Job", "QOS", '
    '"Resource" or "User"',
    "delete": 'Input line must include "Account", "Cluster", "Coordinator", '
    '"Federation", "QOS", "Resource", or "User"',
    "clear": 'Input line must include "Stats"',
}
NOT_YET = {"roll": "slurmdbd adds usage up by itself, again when late records come"}


def main(argv: "list[str]") -> int:
    """Run sacctmgr; return its exit code."""
    # A word of `load` that is spelled as an option; it is none of the other commands.
    is_load = any(word and "load".startswith(word.lower()) and len(word) > 2 for word in argv)
    words = ["test" if is_load and word == "--test" else word for word in argv]
    options, operands = PROGRAM.read(words)
    for word in operands:
        if any("\udc80" <= char <= "\udcff" for char in word):  # bytes that could not be decoded
            fail(f"sacctmgr: error: {word!a} is no UTF-8 text")
    session = Session(options, argv)
    try:
        if not operands:
            return _interactive(session)
        return run(session, operands)
    finally:
        session.close()


def run(session: Session, words: "list[str]") -> int:
    """Run one command line; return its exit code."""
    if words[0].lower() == "help":
        print(_help())
        return 0
    if words[0].lower() in ("exit", "quit"):
        if words[1:]:
            fail(f"too many arguments for keyword:{words[0].lower()}")
        return 0
    if words[0].lower() in _SWITCHES:  # they are for the commands that follow
        return 0
    verb = _verb(words[0])
    if not verb:
        say(f"invalid keyword: {words[0]}")
        return 1
    if verb == "dump":
        from pyslurm_ng.cli.accounting import sacctmgr_dump

        return sacctmgr_dump.run(session, words[1:])
    if verb == "load":
        from pyslurm_ng.cli.accounting import sacctmgr_load

        return sacctmgr_load.run(session, words[1:])
    if verb == "archive":
        from pyslurm_ng.cli.accounting import sacctmgr_archive

        return sacctmgr_archive.run(session, words[1:])
    if verb in NOT_YET:
        fail(f"sacctmgr: error: {verb} is not supported: {NOT_YET[verb]}")
    if verb in ("ping", "reconfigure", "shutdown", "version"):
        if words[1:]:
            fail(f"too many arguments for {verb} keyword")
        return _daemon(session, verb)
    entity = _match(words[1], _entities(verb)) if words[1:] else ""
    if not entity:
        shown = "list" if verb == "clear" else verb  # as Slurm words it
        say(f"No valid entity in {shown} command\n{_LISTS[verb]}")
        return 1
    if verb in ("add", "modify", "delete", "clear") and "readonly" in session.options:
        say("Can't run this command in readonly mode.")
        return 1
    if verb == "clear":
        session.call("ShowDbdStats", {"clear": True})
        return 0
    if verb == "list":
        from pyslurm_ng.cli.accounting import sacctmgr_list

        return sacctmgr_list.run(session, entity, words[2:])
    return _change(session, verb, entity, words[2:])


def _daemon(session: Session, verb: str) -> int:
    if verb == "version":
        print(version_line())
        return 0
    if verb == "ping":
        return _ping(session)
    session.call(verb.capitalize(), {}, changing=True)
    return 0


def _ping(session: Session) -> int:
    """Print whether slurmdbd answers, and its backup where there is one; exit 1 if neither does."""
    hosts = [("primary", session.conf.get("AccountingStorageHost") or "localhost")]
    if backup := session.conf.get("AccountingStorageBackupHost"):
        hosts.append(("backup", backup))
    answers = [(role, *_answer_of(session, host)) for role, host in hosts]
    if "json" in session.options:
        from pyslurm_ng.cli.accounting.database_documents import print_document
        from pyslurm_ng.data_parser.slurmdbd import ping

        pings = [ping(host, latency_us, role == "primary") for role, host, latency_us in answers]
        print_document(session, "pings", pings)
    else:
        for role, host, latency_us in answers:
            print(f"slurmdbd({role}) at {host} is {'UP' if latency_us >= 0 else 'DOWN'}")
    return 0 if any(latency_us >= 0 for _, _, latency_us in answers) else 1


def _answer_of(session: Session, host: str) -> "tuple[str, int]":
    """Return the name of the slurmdbd of a host and how long it took, -1 where it is silent."""
    from time import monotonic_ns

    from pyslurm_ng.wire.client import Client, SlurmError

    only = {**session.conf, "AccountingStorageHost": host, "AccountingStorageBackupHost": ""}
    client = Client(only, "slurmdbd", wait_s=0.5)
    begin_ns = monotonic_ns()
    try:
        return client.call("Ping", {})["name"], (monotonic_ns() - begin_ns) // 1000
    except SlurmError:
        return host, -1
    finally:
        client.close()


# Changes --------------------------------------------------------------------------------------


def _change(session: Session, verb: str, entity: str, words: "list[str]") -> int:
    where, settings = assignments(words, verb)
    if entity == "job" and not any(key[:1].lower() == "c" for key, _, _ in where):
        where.append(["Clusters", "=", session.cluster])  # job ids mean other jobs elsewhere
    if (verb, entity) == ("add", "user") and not _are_meant(session, where):
        return 1
    request: dict[str, Any] = {
        "verb": verb,
        "entity": entity,
        "where": where,
        "set": settings,
    }
    if verb == "modify" and resets_usage(settings):
        return reset_usage(session, request)
    return commit(session, "ChangeEntities", request)


def assignments(words: "list[str]", verb: str) -> "tuple[list[list[str]], list[list[str]]]":
    """Return conditions and settings as (key, operator, value); words without a key are names.

    What is added has settings alone, so `set` and `where` say nothing there, as in Slurm.
    """
    where: list[list[str]] = []
    settings: list[list[str]] = []
    target = where
    for word in words:
        lowered = word.lower()
        if lowered == "where":
            target = where
        elif lowered == "set":
            target = where if verb == "add" else settings
        else:
            target.append(assignment(word))
    return where, settings


def _are_meant(session: Session, where: "list[list[str]]") -> bool:
    """Ask about each user to be added whom this host does not know; with -i all are meant."""
    if "immediate" in session.options:
        return True
    names = [value for key, _, value in where if key.lower() in ("", "name", "names", "user")]
    return all(
        uid_of(name) >= 0
        or agreed(
            f"There is no uid for user '{name}'\n"
            "Are you sure you want to continue? (You have 30 seconds to decide)"
        )
        for name in filter(None, ",".join(names).split(","))
    )


def _entities(verb: str) -> "list[tuple[str, str]]":
    """Return the words for entities of a verb, and what they mean."""
    names = [(name, name) for name in ENTITIES[verb]]
    more = (("acct", "account"), ("tx", "transaction"), ("txn", "transaction"))
    return names + [(name, entity) for name, entity in more if entity in ENTITIES[verb]]


def _verb(word: str) -> str:
    """Return the verb that a word or its beginning means; all but two need three letters."""
    least = 1 if word[:1].lower() in ("m", "u") else 3
    if len(word) < least:
        return ""
    return next((verb for name, verb in VERBS if name.startswith(word.lower())), "")


def _match(word: str, table: "Any") -> str:
    """Return the entity that a word or its only beginning means; plurals are allowed."""
    lower_word = word.lower()
    for name, meaning in table:
        if lower_word in (name, name + "s"):
            return str(meaning)
    if lower_word and "transaction".startswith(lower_word) and "transaction" in dict(table):
        return "transaction"  # TRES needs three letters
    meanings = {str(meaning) for name, meaning in table if name.startswith(lower_word)}
    return meanings.pop() if len(meanings) == 1 else ""


def _interactive(session: Session) -> int:
    """Read commands until `exit`; return 1 if one of them failed.

    As in Slurm, a line that does not come from a terminal is shown behind the prompt.
    """
    code = 0
    is_typed = sys.stdin.isatty()
    history = ""
    while True:
        print("sacctmgr: ", end="", flush=True)
        line = read_line()
        if not line:
            return code
        if not is_typed:
            print(line.rstrip("\n"))
        line = history if line.strip() == "!!" else line.strip()
        words = split_line(line)
        if not words:
            continue
        if words[0].lower() in ("exit", "quit"):
            return code
        history = line
        if words[0].lower() in _SWITCHES:
            session.options[words[0].lower()] = ""
            continue
        try:
            code = run(session, words) or code
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1


_SWITCHES = ("verbose", "oneliner", "parsable", "quiet", "readonly", "associations")


def _help() -> str:
    """Return what --help, --usage and the word help print."""
    from textwrap import wrap

    from pyslurm_ng.cli.command_texts import COMMANDS, SACCTMGR_ENTITIES
    from pyslurm_ng.cli.option_lists import table

    names = dict.fromkeys(words.split()[1] for words, _ in SACCTMGR_ENTITIES)
    blocks = [
        "sacctmgr [<OPTION>] [<COMMAND>]",
        f"Valid <OPTION> values are:\n{PROGRAM.option_list()}",
        "Without a command, sacctmgr reads commands until exit.",
        f"Valid <COMMAND> values are:\n{table(COMMANDS['sacctmgr'])}",
        "<ENTITY> may be:\n"
        + "\n".join(wrap(", ".join(names), initial_indent="  ", subsequent_indent="  ")),
        f"<SPECS> are different for each command and entity:\n{table(SACCTMGR_ENTITIES)}",
        "Format=NAME%30 prints 30 characters of a field.\n"
        "Commands, entities and keys are case-insensitive.",
    ]
    return "\n\n".join(blocks)


PROGRAM = Program("sacctmgr", OPTIONS, "", tells={"help": _help, "usage": _help})
