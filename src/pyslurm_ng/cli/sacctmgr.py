"""sacctmgr: view and change accounts, users, associations, QOS and clusters."""

import os
import sys

from pyslurm_ng.cli.command import fail, read_conf, say, version_line
from pyslurm_ng.cli.option_words import split_line
from pyslurm_ng.cli.program import Program, option_lines
from pyslurm_ng.cli.tables.sacctmgr_fields import OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.wire.client import Client

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
    "delete": ("account", "cluster", "coordinator", "federation", "qos", "resource", "user"),
    "clear": ("stats",),
}  # fmt: skip
_LISTS = {
    "list": 'Input line must include "Account", "Association", "Cluster", "Configuration",\n'
    '"Event", "Federation", "Problem", "QOS", "Resource", "Reservation",\n'
    '"RunAwayJobs", "Stats", "Transaction", "TRES", "User", or "WCKey"',
    "add": 'Input line must include "Account", "Cluster", "Coordinator",\n'
    '"Federation", "QOS", "Resource", or "User"',
    "modify": 'Input line must include "Account", "Cluster", "Federation", "Job", "QOS",\n'
    '"Resource", or "User"',
    "delete": 'Input line must include "Account", "Cluster", "Coordinator",\n'
    '"Federation", "QOS", "Resource", or "User"',
    "clear": 'Input line must include "Stats"',
}
FLAGS = (
    "withassoc", "withcoordinators", "withdeleted", "withrawqoslevel", "withsubaccounts", "tree",
    "onlydefaults", "wolimits", "wopinfo", "woplimits", "withfed", "withclusters", "withassocinfo",
    "all_time",
)  # fmt: skip
CHANGE_TIMEOUT_S = 900
QUESTION_S = 30


def main(argv: "list[str]") -> int:
    """Run sacctmgr; return its exit code."""
    given, operands = PROGRAM.read(argv)
    manager = Manager(given, argv)
    try:
        if not operands:
            return _interactive(manager)
        return manager.run(operands)
    finally:
        manager.close()


class Manager:
    """One invocation: its options and its connection."""

    def __init__(self, given: "dict[str, str]", argv: "list[str]") -> None:
        self.given = given
        self.argv = argv
        self._conf: dict[str, str] = {}
        self._client: Client | None = None

    @property
    def conf(self) -> "dict[str, str]":
        """What of slurm.conf is needed."""
        if not self._conf:
            self._conf = read_conf("sacctmgr", "AccountingStorageType", "PrivateData", "PluginDir",
                                   "TrackWCKey", "TCPTimeout", "AccountingStorageBackupHost",
                                   "AccountingStorageParameters")  # fmt: skip
        return self._conf

    @property
    def client(self) -> "Client":
        """The connection to slurmdbd; leaves when accounting is not kept by one."""
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
        """Ask slurmdbd; leaves with its refusal."""
        from pyslurm_ng.wire.client import SlurmError

        ask = self.client.change if changing else self.client.call
        try:
            return ask(kind, fields, CHANGE_TIMEOUT_S)
        except SlurmError as error:
            if 1000 < error.code < 1900 or error.code == 5004:
                fail(
                    "sacctmgr: error: Problem talking to the database: "
                    f"{error.detail or error.text}"
                )
            fail(error.text if error.text.startswith(" ") else f"sacctmgr: error: {error.text}")

    def run(self, words: "list[str]") -> int:
        """Run one command line; return its exit code."""
        verb = _match(words[0], VERBS)
        if not verb:
            say(f"sacctmgr: error: invalid keyword: {words[0]}")
            return 1
        if verb == "dump":
            from pyslurm_ng.cli import sacctmgr_dump

            return sacctmgr_dump.run(self, words[1:])
        if verb in ("load", "archive", "roll"):
            fail(f"sacctmgr: error: {verb} is not implemented yet")
        if verb in ("ping", "reconfigure", "shutdown", "version"):
            return self._daemon(verb)
        entity = _match(words[1], [(name, name) for name in ENTITIES[verb]]) if words[1:] else ""
        if not entity:
            say(f"No valid entity in {verb} command\n{_LISTS[verb]}")
            return 1
        if verb in ("add", "modify", "delete", "clear") and "readonly" in self.given:
            say("sacctmgr: error: Can't run this command in readonly mode.")
            return 1
        if verb == "clear":
            self.call("ShowDbdStats", {"clear": True})
            return 0
        if verb == "list":
            from pyslurm_ng.cli import sacctmgr_list

            return sacctmgr_list.run(self, entity, words[2:])
        return self._change(verb, entity, words[2:])

    def _daemon(self, verb: str) -> int:
        if verb == "version":
            print(version_line())
            return 0
        if verb == "ping":
            from pyslurm_ng.wire.client import SlurmError

            host = self.conf.get("AccountingStorageHost", "localhost")
            try:
                name = self.client.call("Ping", {})["name"]
            except SlurmError:
                print(f"slurmdbd(primary) at {host} is DOWN")
                return 1
            print(f"slurmdbd(primary) at {name} is UP")
            return 0
        self.call(verb.capitalize(), {}, changing=True)
        return 0

    # Changes ----------------------------------------------------------------------------------

    def _change(self, verb: str, entity: str, words: "list[str]") -> int:
        where, settings = assignments(words, verb)
        request: dict[str, Any] = {
            "verb": verb,
            "entity": entity,
            "where": where,
            "set": settings,
            "commit": "immediate" in self.given,
        }
        result = self.call("ChangeEntities", dict(request), changing=True)
        self._print(result)
        if not result["changed"] or request["commit"]:
            return int(result["exit_code"])
        if not _agreed():
            print(" Changes Discarded")
            return 0
        request["commit"] = True
        result = self.call("ChangeEntities", request, changing=True)
        if result["exit_code"]:
            # Somebody else changed it while the question stood.
            self._print(result)
        return int(result["exit_code"])

    def _print(self, result: "dict[str, Any]") -> None:
        if "quiet" not in self.given or result["exit_code"]:
            for line in result["lines"]:
                print(line)
        for line in result["error_lines"]:
            say(line)


def assignments(words: "list[str]", verb: str) -> "tuple[list[list[str]], list[list[str]]]":
    """Return conditions and settings as (key, operator, value); words without a key are names."""
    where: list[list[str]] = []
    settings: list[list[str]] = []
    target = where
    for word in words:
        lowered = word.lower()
        if lowered == "where":
            target = where
        elif lowered == "set" and verb != "add":
            target = settings
        else:
            target.append(assignment(word))
    return where, settings


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


def _match(word: str, table: "Any") -> str:
    """Return what a word, or its beginning, stands for; plurals count."""
    wanted = word.lower()
    for name, meaning in table:
        if wanted in (name, name + "s"):
            return str(meaning)
    for name, meaning in table:
        if name.startswith(wanted):
            return str(meaning)
    return ""


def _agreed() -> bool:
    """Ask on the terminal; no answer within the time is a no."""
    from select import select

    print("Would you like to commit changes? (You have 30 seconds to decide)")
    print("(N/y): ", end="", flush=True)
    try:
        ready, _, _ = select([sys.stdin], [], [], QUESTION_S)
        answer = os.read(sys.stdin.fileno(), 256) if ready else b""
    except (OSError, ValueError):
        answer = b""
    if not ready:
        print("timeout")
    return answer.strip().lower() in (b"y", b"yes")


def _interactive(manager: Manager) -> int:
    """Read commands until `exit`; the last one's exit code is ours."""
    code = 0
    history = ""
    while True:
        print("sacctmgr: ", end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            return code
        line = history if line.strip() == "!!" else line.strip()
        words = split_line(line)
        if not words:
            continue
        if words[0].lower() in ("exit", "quit"):
            return code
        history = line
        if words[0].lower() in ("verbose", "oneliner", "parsable", "readonly", "associations"):
            manager.given[words[0].lower()] = ""
            continue
        try:
            code = manager.run(words)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1


def is_flag(word: str) -> str:
    """Return the flag word (withassoc, tree ...) that a word stands for, empty if none."""
    lowered = word.lower()
    for name in FLAGS:
        if lowered == name or (len(lowered) >= 5 and name.startswith(lowered)):
            return name
    return ""


def _help() -> str:
    return (
        "sacctmgr [<OPTION>] [<COMMAND>]\n"
        "    Valid <OPTION> values are:\n"
        f"{option_lines(OPTIONS)}\n"
        "    <COMMAND> is: add|list|modify|delete ENTITY [where] KEY=VALUE... [set KEY=VALUE...]\n"
        "       ping | reconfigure | shutdown | version | clear stats"
    )


PROGRAM = Program("sacctmgr", OPTIONS, "", tells={"help": _help, "usage": _help})
