"""scontrol: show and steer everything."""

import os
import sys

from pyslurm_ng.cli.command import (
    NONE,
    OPTIONAL,
    REQUIRED,
    UsageError,
    connect,
    fail,
    parse_options,
    read_conf,
    say,
    take_yaml,
    uid_of,
    usage_failure,
    version_line,
)
from pyslurm_ng.wire.client import SlurmError, controller_hosts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from pyslurm_ng.cli.command import Option
    from pyslurm_ng.wire.client import Client

OPTIONS: "tuple[Option, ...]" = (
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
REFUSED = ("autocomplete", "federation", "sibling", "uid")
USAGE = """\
Usage: scontrol [-adFhoQvV] [-M cluster] [--json[=data_parser]] [COMMAND]
  Commands: check completing create delete errnumstr exit explain help hold listpids notify
            pidinfo ping quit reconfigure release requeue requeuehold resume setdebug show
            shutdown suspend top uhold update version wait_job write
  show ENTITY: config daemons federation hostlist hostlistsorted hostnames job licenses
            node partition reservation slurmd step topology"""
# In the order in which an abbreviation finds them.
COMMANDS = (
    "abort all cancel_reboot check cluster completing create delete details errnumstr exit explain "
    "fsdampeningfactor getaddrs getent gethost help hide hold holdu uhold listjobs listpids "
    "liststeps notify oneliner pidinfo ping power quiet quit reboot reconfigure release requeue "
    "requeuehold resume schedloglevel setdebug setdebugflags show shutdown suspend takeover token "
    "top update verbose version wait_job write !!"
).split()
_NOT_YET = (
    "abort cancel_reboot fsdampeningfactor getaddrs getent gethost listjobs liststeps "
    "power reboot schedloglevel setdebugflags takeover token"
).split()
ENTITIES = (
    "aliases assoc_mgr bbstat burstbuffer config daemons dwstat federation hostlist "
    "hostlistsorted hostnames jobs licenses nodes partitions reservations resources slurmd steps "
    "topoconf topology"
).split()


class Session:
    """One run of scontrol: the switches, and the connection once it is needed."""

    def __init__(self, given: "dict[str, str]", argv: "list[str]") -> None:
        self.all = "all" in given or "SCONTROL_ALL" in os.environ
        self.detail = 1 if "details" in given else 0
        self.future = "future" in given or "SCONTROL_FUTURE" in os.environ
        self.oneliner = "oneliner" in given
        self.json = ["scontrol", *argv] if "json" in given else []
        self.quiet = "quiet" in given
        self.last: list[str] = []
        self._conf: dict[str, str] | None = None
        self._client: Client | None = None

    @property
    def conf(self) -> "dict[str, str]":
        """The few keys of slurm.conf that are needed here."""
        if self._conf is None:
            self._conf = read_conf("scontrol", "PreemptMode")
        return self._conf

    @property
    def client(self) -> "Client":
        """The connection to the controller."""
        if self._client is None:
            self._client = connect(self.conf)
        return self._client

    @property
    def preempt_mode(self) -> str:
        """PreemptMode= of the cluster."""
        return self.conf.get("PreemptMode", "OFF").upper()

    def ping(self) -> int:
        """Print whether the controllers are up."""
        hosts = controller_hosts(self.conf.get("SlurmctldHost", "")) or [("localhost", "")]
        try:
            self.client.call("Ping", {}, 2.0)
            is_up = True
        except SlurmError:
            is_up = False
        for index, (name, _) in enumerate(hosts):
            role = "primary" if not index else f"backup{index}" if index > 1 else "backup"
            # Standby controllers do not answer for themselves yet.
            state = "UP" if is_up and not index else "DOWN"
            print(f"Slurmctld({role}) at {name} is {state}")
        return 0 if is_up else 1


def main(argv: "list[str]") -> int:
    """Run scontrol; return its exit code."""
    try:
        found, words = parse_options(argv, OPTIONS)
    except UsageError as problem:
        return usage_failure("scontrol", problem)
    given: dict[str, str] = {}
    for name, value in found:
        given["clusters" if name == "cluster" else name] = value
    if "version" in given:
        print(version_line())
        return 0
    if "help" in given or "usage" in given:
        print(USAGE)
        return 0
    take_yaml(given)
    for name in REFUSED:
        if name in given:
            fail(f"scontrol: error: --{name} is not supported yet")
    session = Session(given, argv)
    session.detail = sum(1 for name, _ in found if name == "details")
    if "hide" in given:
        session.all = False
    if "clusters" in given and given["clusters"] != session.conf.get("ClusterName", "cluster"):
        fail(f"scontrol: error: No cluster '{given['clusters']}' known by database.")
    if words:
        return run(session, words)
    return _interactive(session)


def _interactive(session: Session) -> int:
    """Read commands from stdin until exit; return the last one's exit code."""
    code = 0
    while True:
        sys.stdout.write("scontrol: ")
        sys.stdout.flush()
        line = sys.stdin.readline()
        if not line:
            print()
            return code
        words = split_words(line)
        if not words:
            continue
        if find_command(words[0]) in ("exit", "quit"):
            return code
        try:
            code = run(session, words)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1


def split_words(line: str) -> "list[str]":
    """Return the words of a line; quotes of either kind keep blanks and are taken off."""
    words: list[str] = []
    word, quote, is_open = "", "", False
    for letter in line:
        if quote:
            if letter == quote:
                quote = ""
            else:
                word += letter
        elif letter in "\"'":
            quote, is_open = letter, True
        elif letter in " \t\r\n":
            if word or is_open:
                words.append(word)
            word, is_open = "", False
        else:
            word += letter
    if word or is_open:
        words.append(word)
    return words


def find_command(word: str) -> str:
    """Return the command that a word names, abbreviated or not, or ""."""
    lower = word.lower()
    if lower in COMMANDS:
        return lower
    if len(lower) < 2:
        return ""
    return next((name for name in COMMANDS if name.startswith(lower)), "")


def run(session: Session, words: "list[str]") -> int:
    """Do one command."""
    name = find_command(words[0])
    arguments = words[1:]
    if not name or name == "cluster":
        say(f"invalid keyword: {words[0]}")
        return 1
    if name == "!!":
        return run(session, session.last) if session.last else 0
    session.last = words
    if name in ("all", "hide", "details", "oneliner", "quiet", "verbose"):
        return _switch(session, name)
    if name in ("exit", "quit"):
        return 0
    if name in _NOT_YET:
        say(f"scontrol: error: {name} is not supported yet")
        return 1
    return _ACTIONS[name](session, arguments)


def _switch(session: Session, name: str) -> int:
    """The words that change how the following commands of an interactive session print."""
    if name in ("all", "hide"):
        session.all = name == "all"
    elif name == "details":
        session.detail = 1
    elif name == "oneliner":
        session.oneliner = True
    return 0


def _need(arguments: "list[str]", keyword: str) -> None:
    if not arguments:
        fail(f"too few arguments for keyword:{keyword}")


# Showing --------------------------------------------------------------------------------------


def _show(session: Session, arguments: "list[str]") -> int:
    _need(arguments, "show")
    from pyslurm_ng.cli import scontrol_reservation, scontrol_show as show

    word, rest = arguments[0], arguments[1:]
    entity, equals, value = word.partition("=")
    lower = entity.lower()
    if equals and value:
        rest = [value, *rest]
    found = next((name for name in ENTITIES if lower and name.startswith(lower)), "")
    if lower in ("hostlist", "hostnames"):
        found = lower
    entities: dict[str, Callable[[Session, list[str]], int]] = {
        "config": show.show_config,
        "daemons": _show_daemons,
        "federation": lambda session, words: 0,
        "hostlist": show.show_hostlist,
        "hostlistsorted": lambda session, words: show.show_hostlist(session, words, in_order=True),
        "hostnames": show.show_hostnames,
        "jobs": show.show_job,
        "licenses": show.show_licenses,
        "nodes": show.show_node,
        "partitions": show.show_partition,
        "reservations": scontrol_reservation.show,
        "slurmd": _of_nodes("show_slurmd"),
        "steps": show.show_step,
        "topology": show.show_topology,
    }
    action = entities.get(found)
    if action is None:
        if found:
            say(f"scontrol: error: show {found} is not supported yet")
        else:
            say(f"invalid entity:{word} for keyword:show ")
        return 1
    if len(rest) > 1 and found != "topology":
        fail(f"too many arguments for keyword:{words_text(arguments)}")
    return action(session, rest)


def words_text(words: "list[str]") -> str:
    """Return words as one text."""
    return " ".join(words)


def _own_addresses(host: str) -> "set[str]":
    """Return the addresses that this host's name stands for."""
    import socket

    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(host, None)}
    except OSError:
        return set()


def _show_daemons(session: Session, arguments: "list[str]") -> int:
    """Print which daemons this host should run."""
    from pyslurm_ng.cli.command import Table

    host = os.uname().nodename
    short = host.partition(".")[0]
    names = {host, short, "localhost"}
    daemons = []
    for name, _ in controller_hosts(session.conf.get("SlurmctldHost", "")):
        if name in names:
            daemons.append("slurmctld")
            break
    try:
        reply = session.client.call("ShowNodes", {"flags": 1})
        rows = Table(reply["fields"], reply["records"], ["hostname", "address"]).rows
        own = names | _own_addresses(host)
        if any(not own.isdisjoint(row) for row in rows):
            daemons.append("slurmd")
    except SlurmError as error:
        say(f"slurm_load_node error: {error.text}")
        return 1
    print(" ".join(daemons))
    return 0


def _completing(session: Session, arguments: "list[str]") -> int:
    """Print jobs whose nodes still clean up."""
    from pyslurm_ng.cli.command import Table
    from pyslurm_ng.cli.fmt import SECOND_US, Dates, long_time

    try:
        wanted = {"filter": {"state_flags": 1 << 15}, "flags": 1}
        reply = session.client.call("ShowJobs", wanted)
    except SlurmError as error:
        say(f"slurm_load_jobs error: {error.text}")
        return 1
    dates = Dates(reply["now_us"])
    for job_id, end_us, nodes in Table(
        reply["fields"], reply["records"], ["job_id", "end_us", "nodes"]
    ).rows:
        waited = long_time(max(0, (reply["now_us"] - end_us) // SECOND_US))
        print(
            f"JobId={job_id} EndTime={dates.text(end_us)} CompletingTime={waited} "
            f"Nodes(COMPLETING)={nodes}"
        )
    return 0


def _of_nodes(name: str) -> "Callable[[Session, list[str]], int]":
    """Return an action of `scontrol_nodes`, which is loaded when it is used."""

    def act(session: Session, arguments: "list[str]") -> int:
        from pyslurm_ng.cli import scontrol_nodes

        action: Callable[[Session, list[str]], int] = getattr(scontrol_nodes, name)
        return action(session, arguments)

    return act


def _ping(session: Session, arguments: "list[str]") -> int:
    return session.ping()


def _version(session: Session, arguments: "list[str]") -> int:
    print(version_line())
    return 0


def _help(session: Session, arguments: "list[str]") -> int:
    print(USAGE)
    return 0


# Steering -------------------------------------------------------------------------------------


def _chosen(arguments: "list[str]", keyword: str) -> "dict[str, Any]":
    """Return ids, or a name and owner, of `27,28` or `jobname=x userid=u`."""
    from pyslurm_ng.cli.scontrol_update import job_ids

    _need(arguments, keyword)
    request: dict[str, Any] = {}
    plain = []
    for word in arguments:
        key, equals, value = word.partition("=")
        if not equals:
            plain.append(word)
        elif key.lower() in ("jobname", "name"):
            request["name"] = value
        elif key.lower() in ("jobid", "job"):
            plain.append(value)
        elif key.lower() in ("userid", "user", "uid"):
            request["uid"] = uid_of(value)
        else:
            fail(f"Invalid input: {word}")
    if plain:
        request["jobs"] = job_ids(plain)
    elif "name" not in request:
        fail(f"too few arguments for keyword:{keyword}")
    return request


def _hold(session: Session, arguments: "list[str]") -> int:
    return _holding(session, _chosen(arguments, "hold"))


def _uhold(session: Session, arguments: "list[str]") -> int:
    return _holding(session, {**_chosen(arguments, "uhold"), "as_user": True})


def _release(session: Session, arguments: "list[str]") -> int:
    return _holding(session, {**_chosen(arguments, "release"), "release": True})


def _holding(session: Session, request: "dict[str, Any]") -> int:
    from pyslurm_ng.cli.scontrol_update import change_jobs

    return change_jobs(session, "HoldJobs", request, "slurm_suspend error:")


def _steer(kind: str, keyword: str, **more: bool) -> "Callable[[Session, list[str]], int]":
    """Return the action of a command that takes only job ids."""

    def act(session: Session, arguments: "list[str]") -> int:
        from pyslurm_ng.cli.scontrol_update import change_jobs, job_ids

        extra: dict[str, Any] = dict(more)
        words = list(arguments)
        while words and kind == "RequeueJobs":
            lower = words[0].lower()
            if lower == "incomplete":
                extra["incomplete"] = True
            elif lower in ("state=specialexit", "state=se", "specialexit", "se"):
                extra["special_exit"] = True
            else:
                break
            words.pop(0)
        _need(words, keyword)
        return change_jobs(session, kind, {"jobs": job_ids(words), **extra})

    return act


def _control(kind: str, verb: str) -> "Callable[[Session, list[str]], int]":
    """Return the action of a command about the daemons themselves."""

    def act(session: Session, arguments: "list[str]") -> int:
        fields: dict[str, Any] = {}
        if kind == "Shutdown" and arguments:
            if arguments[0].lower() not in ("slurmctld", "controller"):
                fail(f"invalid shutdown argument:{arguments[0]}")
            fields["controller_only"] = True
        try:
            reply = session.client.change(kind, fields, timeout_s=60.0)
        except SlurmError as error:
            say(f"{verb} error: {error.text}")
            return 1
        for note in reply.get("notes", ()):
            say(note)
        return 0

    return act


def _update(session: Session, arguments: "list[str]") -> int:
    _need(arguments, "update")
    from pyslurm_ng.cli import scontrol_update

    return scontrol_update.update(session, arguments)


def _create(session: Session, arguments: "list[str]") -> int:
    _need(arguments, "create")
    from pyslurm_ng.cli import scontrol_update

    return scontrol_update.create(session, arguments)


def _delete(session: Session, arguments: "list[str]") -> int:
    from pyslurm_ng.cli import scontrol_update

    return scontrol_update.delete(session, arguments)


def _write(session: Session, arguments: "list[str]") -> int:
    """`write batch_script ID [FILE|-]`."""
    _need(arguments, "write")
    what = arguments[0].lower()
    if not "batch_script".startswith(what) or len(what) < 2:
        if "config".startswith(what):
            from pyslurm_ng.cli.scontrol_write import write_config

            return write_config(session, arguments[1:])
        say(f"invalid write operation:{arguments[0]}")
        return 1
    if len(arguments) < 2:
        fail("too few arguments for keyword:write batch_script")
    job = arguments[1]
    try:
        reply = session.client.call("GetBatchScript", {"job": job})
    except SlurmError as error:
        say(f"job script retrieval failed: {error.text}")
        return 1
    name = arguments[2] if len(arguments) > 2 else f"slurm-{job}.sh"
    if name == "-":
        sys.stdout.flush()
        view = memoryview(reply["script"])
        while view:
            view = view[os.write(1, view) :]
        return 0
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o700)
        with open(descriptor, "wb") as stream:
            stream.write(reply["script"])
    except OSError as problem:
        say(f"failed to open file `{name}`: {problem.strerror}")
        return 1
    print(f"batch script for job {job} written to {name}")
    return 0


def _check(session: Session, arguments: "list[str]") -> int:
    """Validate configuration files without a daemon; print every problem."""
    from pyslurm_ng.conf.check import check, check_warnings
    from pyslurm_ng.conf.quick import find_conf

    code = 0
    for path in arguments or [find_conf()]:
        problems = check(path)
        for line in problems:
            say(line)
        if problems:
            code = 1
            continue
        for line in check_warnings(path):
            say(line)
        print(f"{path}: no errors")
    return code


def _wait_job(session: Session, arguments: "list[str]") -> int:
    """Block until the nodes of a job are ready."""
    from time import sleep

    from pyslurm_ng.cli.command import Table

    _need(arguments, "wait_job")
    while True:
        try:
            wanted = {"filter": {"jobs": arguments[:1], "all_states": True}, "flags": 1}
            reply = session.client.call("ShowJobs", wanted)
        except SlurmError as error:
            say(f"slurm_load_jobs error: {error.text}")
            return 1
        rows = Table(reply["fields"], reply["records"], ["job_id", "state", "flags"]).rows
        job_id, state, flags = rows[0]
        if state > 2:
            say(f"Job {job_id} no longer running")
            return 1
        if state == 1 and not flags & 1 << 14:
            print(f"Job {job_id} is ready")
            return 0
        sleep(1)


def _explain(session: Session, arguments: "list[str]") -> int:
    from pyslurm_ng.cli.scontrol_explain import explain

    return explain(session, arguments)


_ACTIONS: "dict[str, Callable[[Session, list[str]], int]]" = {
    "check": _check,
    "completing": _completing,
    "create": _create,
    "delete": _delete,
    "explain": _explain,
    "errnumstr": lambda session, words: _error_text(words),
    "help": _help,
    "hold": _hold,
    "holdu": _uhold,
    "uhold": _uhold,
    "listpids": _of_nodes("list_pids"),
    "notify": _of_nodes("notify"),
    "pidinfo": _of_nodes("pid_info"),
    "ping": _ping,
    "reconfigure": _control("Reconfigure", "slurm_reconfigure"),
    "release": _release,
    "requeue": _steer("RequeueJobs", "requeue"),
    "requeuehold": _steer("RequeueJobs", "requeuehold", hold=True),
    "resume": _steer("SuspendJobs", "resume", resume=True),
    "setdebug": _of_nodes("set_debug"),
    "show": _show,
    "shutdown": _control("Shutdown", "slurm_shutdown"),
    "suspend": _steer("SuspendJobs", "suspend"),
    "top": _steer("TopJobs", "top"),
    "update": _update,
    "version": _version,
    "wait_job": _wait_job,
    "write": _write,
}


def _error_text(words: "list[str]") -> int:
    from pyslurm_ng.base.error_texts import error_text

    _need(words, "errnumstr")
    if not words[0].lstrip("-").isdigit():
        say(f"Invalid error number: {words[0]}")
        return 1
    print(error_text(int(words[0])))
    return 0
