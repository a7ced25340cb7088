"""scontrol's commands about daemons: listpids, pidinfo, notify, reconfigure, shutdown ..."""

import os

from pyslurm_ng.base.job_ids import JobIdError, parse_job_id, step_text
from pyslurm_ng.base.numbers import INFINITE, SECOND_US, SHOW_ALL, SHOW_DETAIL
from pyslurm_ng.cli.command import Table, fail, printable, say
from pyslurm_ng.cli.listing.list_format import Dates, date_line
from pyslurm_ng.cli.node_clients import node_clients
from pyslurm_ng.cli.request_parts import record_id
from pyslurm_ng.wire.client import SlurmError
from pyslurm_ng.wire.daemon_link import controller_hosts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.control.session import Action, Session
    from pyslurm_ng.wire.client import Client

NO_TASK = -1
MOST_DAMPENING = 65535


def _daemons(session: "Session", node: str) -> "list[tuple[str, Client]]":
    return node_clients("scontrol", session.conf, session.client, node)


# listpids -------------------------------------------------------------------------------------


def list_pids(session: "Session", words: "list[str]") -> int:
    """`listpids [job[.step]] [node]`: the processes of steps, here or on a node."""
    if len(words) > 2:
        fail("too many arguments for keyword:listpids")
    job_id, step_id = 0, INFINITE
    if words and words[0] != "*":
        try:
            parsed = parse_job_id(words[0])
        except JobIdError:
            fail(f'"{words[0]}" does not look like a jobid')
        job_id, step_id = parsed.job_id, INFINITE if parsed.step == -1 else parsed.step
        if parsed.tasks or parsed.het_offset >= 0 or parsed.sluid:
            try:
                job_id = record_id(session.client, words[0].partition(".")[0])
            except SlurmError as error:
                fail(f"slurm_load_jobs error: {error.text}")
    print(f"{'PID':<8} {'JOBID':<8} {'STEPID':<8} {'LOCALID':<7} {'GLOBALID':<8}")
    code, rows = 0, []
    nodes = []
    for node, client in _daemons(session, words[1] if len(words) > 1 else ""):
        try:
            rows += client.call("ListPids", {"job_id": job_id, "step_id": step_id})["rows"]
            nodes.append(node)
        except SlurmError as error:
            say(f"slurm_load_pids error on {node}: {error.text}")
            code = 1
        client.close()
    if job_id and not rows and nodes:
        from pyslurm_ng.base.hostlist import fold

        target = f"JobId={job_id}" if step_id == INFINITE else f"StepId={words[0]}"
        fail(f"{target} does not exist on node {fold(nodes)}.")
    if not rows and nodes:
        fail("No job steps exist on this node.")
    for pid, job, step, local, task in rows:
        ids = [str(number) if number > NO_TASK else "-" for number in (local, task)]
        print(f"{pid:<8} {job:<8} {step_text(step):<8} {ids[0]:<7} {ids[1]:<8}")
    return code


def pid_info(session: "Session", words: "list[str]") -> int:
    """`pidinfo PID`: when the job of a process of this host must end."""
    if not words:
        fail("missing argument for keyword:pidinfo")
    if not words[0].isdecimal():
        fail("Failed to locate job for requested pid")
    pid, job_id = int(words[0]), 0
    for node, client in _daemons(session, ""):
        try:
            rows = client.call("ListPids", {})["rows"]
        except SlurmError as error:
            fail(f"slurm_pid2jobid error on {node}: {error.text}")
        job_id = job_id or next((job for row_pid, job, *_ in rows if row_pid == pid), 0)
        client.close()
    if not job_id:
        fail("Failed to locate job for requested pid")
    try:
        query = {
            "filter": {"jobs": [str(job_id)], "all_states": True},
            "flags": SHOW_ALL | SHOW_DETAIL,
        }
        reply = session.client.call("ShowJobs", query)
    except SlurmError as error:
        fail(f"slurm_load_jobs error: {error.text}")
    from pyslurm_ng.cli.control.show_jobs import job_end_us

    row = Table(reply["fields"], reply["records"], reply["fields"]).dicts()[0]
    end_us = job_end_us(row)
    if end_us <= 0:
        print(f"Slurm JobId={job_id} has no time limit")
        return 0
    left_s = max(0, end_us - reply["now_us"]) // SECOND_US
    print(f"Slurm JobId={job_id} ends at {date_line(end_us)}\nJob remaining time is {left_s}")
    return 0


# show slurmd ----------------------------------------------------------------------------------


def show_slurmd(session: "Session", words: "list[str]") -> int:
    """Print what the node daemons of this host, or of a node, report about themselves."""
    code = 0
    for node, client in _daemons(session, words[0] if words else ""):
        try:
            status = client.call("ShowNodeDaemon", {})
        except SlurmError as error:
            say(f"slurm_load_slurmd_status error on {node}: {error.text}")
            code = 1
            continue
        for line in slurmd_lines(status):
            print(printable(line))
        print()
        client.close()
    return code


def slurmd_lines(status: "dict[str, Any]") -> "list[str]":
    """Return the lines about one node daemon."""
    dates = Dates(status["started_us"])
    steps = " ".join(f"{job}.{step_text(step)}" for job, step in status["steps"])
    level = max(0, status["log_level"])
    pairs = (
        ("Active Steps", steps or "NONE"),
        ("Actual CPUs", status["cpus"]),
        ("Actual Boards", status["boards"]),
        ("Actual sockets", status["sockets"]),
        ("Actual cores", status["cores_per_socket"]),
        ("Actual threads per core", status["threads_per_core"]),
        ("Actual real memory", f"{status['real_memory_mib']} MB"),
        ("Actual temp disk space", f"{status['tmp_disk_mib']} MB"),
        ("Boot time", dates.text(status["started_us"])),
        ("Hostname", status["node"]),
        ("Last slurmctld msg time", dates.text(status["last_order_us"], "NONE")),
        ("Slurmd PID", status["pid"]),
        ("Slurmd Debug", level),
        ("Slurmd Logfile", status["log_file"] or "(null)"),
        ("Version", status["version"]),
    )
    return [f"{name:<24} = {value}" for name, value in pairs]


# notify, setdebug -----------------------------------------------------------------------------


def notify(session: "Session", words: "list[str]") -> int:
    """`notify JOB TEXT...`: a line for the stderr of a script, srun or salloc."""
    if len(words) < 2:
        fail("too few arguments for keyword:notify")
    try:
        parse_job_id(words[0])
    except JobIdError:
        fail(f"Invalid job_id {words[0]}")
    try:
        session.client.call("NotifyJob", {"job": words[0], "text": " ".join(words[1:])})
    except SlurmError as error:
        detail, _, text = error.text.rpartition("\n")
        say(f"job notify failure: {detail or text}")
        return 1
    return 0


def set_debug(session: "Session", words: "list[str]") -> int:
    """`setdebug LEVEL [nodes=NODES]`: how much daemons log, until they read their files again."""
    from pyslurm_ng.daemon.log import LEVELS

    word = words[0].lower()
    level = int(word) if word.isdecimal() else LEVELS.index(word) if word in LEVELS else -1
    if not 0 <= level < len(LEVELS):
        fail(f"invalid debug level: {words[0]}")
    if len(words) > 1:
        return _set_node_debug(session, level, words[1].removeprefix("nodes="))
    return _set(session, "SetDebugLevel", {"level": level}, "slurm_set_debug_level")


def _set_node_debug(session: "Session", level: int, nodes: str) -> int:
    """Let node daemons log more or less."""
    code = 0
    for node, client in _daemons(session, nodes):
        try:
            client.call("SetDebugLevel", {"level": level})
        except SlurmError as error:
            say(f"slurm_set_slurmd_debug_level error on {node}: {error.text}")
            code = 1
        client.close()
    return code


def _set(session: "Session", kind: str, fields: "dict[str, Any]", verb: str) -> int:
    from pyslurm_ng.base.error_numbers import Errno

    try:
        session.client.call(kind, fields)
    except SlurmError as error:
        is_denied = error.code in (Errno.ESLURM_ACCESS_DENIED, Errno.ESLURM_USER_ID_MISSING)
        say(f"{verb} error: {'Permission denied' if is_denied else error.text}")
        return 1
    return 0


def set_debug_flags(session: "Session", words: "list[str]") -> int:
    """`setdebugflags {+|-}FLAG... `: DebugFlags of slurmctld, until it reads its files again."""
    from pyslurm_ng.conf.tables.keys import PARAMETERS

    known = next(key.choices for key in PARAMETERS if key.name == "DebugFlags")
    names = {name.lower(): name for name in known}
    change: dict[str, list[str]] = {"add": [], "remove": []}
    for word in words:
        if word.lower().startswith("nodes="):
            fail(f"scontrol: error: setdebugflags {word}: only slurmctld has DebugFlags yet")
        if word[:1] not in ("+", "-"):
            fail(f"invalid debug flag: {word}\nUsage: setdebugflags [+|-]NAME")
        for flag in filter(None, word[1:].split(",")):
            if flag.lower() not in names:
                fail(f"scontrol: error: Invalid DebugFlag: {flag}\ninvalid debug flag: {word}")
            change["add" if word[0] == "+" else "remove"].append(names[flag.lower()])
    from pyslurm_ng.conf.effects.words import SLURM_WORDS

    for flag in change["add"]:
        if flag.lower() not in SLURM_WORDS["DebugFlags"].same:
            say(f"scontrol: DebugFlags={flag} has no effect in pyslurm-ng yet")
    return _set(session, "SetDebugFlags", change, "slurm_set_debug_flags")


def set_scheduling_log(session: "Session", words: "list[str]") -> int:
    """`schedloglevel 0|1|disable|enable`: whether slurmctld writes SlurmSchedLogFile."""
    levels = {"0": False, "disable": False, "1": True, "enable": True}
    is_on = levels.get(words[0].lower())
    if is_on is None:
        fail(f"invalid schedlog level: {words[0]}")
    return _set(session, "SetSchedulingLog", {"is_on": is_on}, "slurm_set_schedlog_level")


def set_dampening(session: "Session", words: "list[str]") -> int:
    """`fsdampeningfactor N`: FairShareDampeningFactor, until slurmctld reads its files again."""
    if not words[0].isdecimal() or not 1 <= int(words[0]) <= MOST_DAMPENING:
        fail(f"invalid dampening factor: {words[0]}")
    return _set(session, "SetDampening", {"factor": int(words[0])}, "slurm_set_fs_dampeningfactor")


# This host and the controller ----------------------------------------------------------------


def _own_addresses(host: str) -> "set[str]":
    """Return the addresses of this host's name."""
    import socket

    try:
        return {str(address[4][0]) for address in socket.getaddrinfo(host, None)}
    except OSError:
        return set()


def show_daemons(session: "Session", arguments: "list[str]") -> int:
    """Print which daemons this host should run."""
    host = os.uname().nodename
    short = host.partition(".")[0]
    names = {host, short, "localhost"}
    daemons = []
    for name, _ in controller_hosts(session.conf.get("SlurmctldHost", "")):
        if name in names:
            daemons.append("slurmctld")
            break
    try:
        reply = session.client.call("ShowNodes", {"flags": SHOW_ALL})
        rows = Table(reply["fields"], reply["records"], ["hostname", "address"]).rows
        own = names | _own_addresses(host)
        if any(not own.isdisjoint(row) for row in rows):
            daemons.append("slurmd")
    except SlurmError as error:
        say(f"slurm_load_node error: {error.text}")
        return 1
    print(" ".join(daemons))
    return 0


def _control(kind: str, verb: str) -> "Action":
    """Return the action of a command about the daemons themselves."""

    def act(session: "Session", arguments: "list[str]") -> int:
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


ACTIONS: "dict[str, Action]" = {
    "fsdampeningfactor": set_dampening,
    "listpids": list_pids,
    "notify": notify,
    "pidinfo": pid_info,
    "ping": lambda session, words: session.ping(as_json=bool(session.json)),
    "reconfigure": _control("Reconfigure", "slurm_reconfigure"),
    "schedloglevel": set_scheduling_log,
    "setdebug": set_debug,
    "setdebugflags": set_debug_flags,
    "shutdown": _control("Shutdown", "slurm_shutdown"),
}
