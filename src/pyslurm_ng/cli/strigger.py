"""strigger: programs that the controller runs when something happens to nodes, jobs or itself."""

import os
import stat

from pyslurm_ng.base.job_ids import JobIdError, parse_job_id
from pyslurm_ng.cli.command import connect, fail, is_person, printable, read_conf, say, uid_of
from pyslurm_ng.cli.option_words import NONE, OPTIONAL, REQUIRED
from pyslurm_ng.cli.program import OptionValues, Program
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.wire.client import Client

    Row = dict[str, Any]

# Event and its letter, in the order in which they are shown.
_EVENTS = (
    ("time", "t"),
    ("fini", "f"),
    ("down", "d"),
    ("up", "u"),
    ("drained", "D"),
    ("draining", ""),
    ("resume", "R"),
    ("fail", "F"),
    ("idle", "I"),
    ("reconfig", "r"),
    ("burst_buffer", ""),
    ("primary_slurmctld_resumed_operation", "A"),
    ("primary_slurmctld_acct_buffer_full", "e"),
    ("primary_slurmdbd_failure", "g"),
    ("primary_slurmdbd_resumed_operation", "G"),
)
# There is no second controller that could see the first one fail (ADR 0036), and slurmctld
# does not hear how slurmdbd stands with its database.
_REFUSED = (
    ("backup_slurmctld_assumed_control", "C"),
    ("backup_slurmctld_failure", "B"),
    ("backup_slurmctld_resumed_operation", "c"),
    ("primary_database_failure", "h"),
    ("primary_database_resumed_operation", "H"),
    ("primary_slurmctld_failure", "a"),
    ("primary_slurmctld_resumed_control", "b"),
)
OPTIONS = (
    ("autocomplete", "", REQUIRED),
    *((name, letter, NONE) for name, letter in _REFUSED),
    ("clear", "", NONE),
    ("cluster", "M", REQUIRED),
    ("clusters", "M", REQUIRED),
    *((name, letter, NONE) for name, letter in _EVENTS),
    ("flags", "", REQUIRED),
    ("get", "", NONE),
    ("help", "", NONE),
    ("id", "i", REQUIRED),
    ("jobid", "j", REQUIRED),
    ("node", "n", OPTIONAL),
    ("noheader", "N", NONE),
    ("offset", "o", REQUIRED),
    ("program", "p", REQUIRED),
    ("quiet", "Q", NONE),
    ("set", "", NONE),
    ("usage", "", NONE),
    ("user", "", REQUIRED),
    ("verbose", "v", NONE),
    ("version", "V", NONE),
)
REFUSED = tuple(name for name, _ in _REFUSED)
USAGE = "Usage: strigger [--set | --get | --clear | --version] [-AdDeFfgGiIjMnNopQrRtuvV]"
PROGRAM = Program(
    "strigger",
    OPTIONS,
    USAGE,
    same={"cluster": "clusters"},
    environment=(("SLURM_CLUSTERS", "clusters"),),
    refused=REFUSED,
)
_MOST_OFFSET_S = 32000
_ESRCH = 3
_HEADER = f"TRIG_ID RES_TYPE   RES_ID {'TYPE':<35} OFFSET USER     FLAGS PROGRAM"


def main(argv: "list[str]") -> int:
    """Run strigger; return its exit code."""
    options, _ = PROGRAM.read(argv)
    actions = [name for name in ("set", "get", "clear") if name in options]
    if len(actions) != 1:
        fail(
            "strigger: error: You must use exactly one of the following options: --set, --get or "
            "--clear"
        )
    conf = PROGRAM.cluster(options, read_conf("strigger"))
    events = [name for name, _ in _EVENTS if name in options]
    job = _job(options)
    uid = _user(options)
    offset_s = _offset(options)
    is_permanent = _flags(options)
    if ("time" in options or "fini" in options) and not job and actions != ["clear"]:
        fail("strigger: error: You must specify a --jobid value")
    client = connect(conf)
    job = _id_of_sluid(client, job)
    if actions == ["set"]:
        request = {
            "events": events,
            "program": _program(options, events),
            "job": job,
            "nodes": options.get("node", ""),
            "offset_s": offset_s,
            "is_permanent": is_permanent,
        }
        return _set(client, request, options)
    trigger_id = _trigger_id(options)
    if actions == ["clear"]:
        return _clear(client, options, trigger_id, job, uid)
    return _get(client, options, events, trigger_id, job, uid)


# Reading options ------------------------------------------------------------------------------


def _job(options: OptionValues) -> str:
    """Return --jobid as typed, "" without it."""
    if "jobid" not in options:
        return ""
    text = options["jobid"]
    try:
        name = parse_job_id(text)
    except JobIdError:
        name = None
    if name is None or not (name.job_id or name.sluid):
        fail(f"strigger: error: Invalid jobid {text}")
    return text


def _id_of_sluid(client: "Client", text: str) -> str:
    """Return the job id that a SLUID stands for; a text that is none as it is."""
    if not text or not parse_job_id(text).sluid:
        return text
    from pyslurm_ng.cli.request_parts import record_id

    try:
        return str(record_id(client, text))
    except SlurmError as error:
        fail(f"strigger: error: Invalid jobid {text}: {error.text}")


def _user(options: OptionValues) -> int:
    """Return the uid of --user, -1 without it."""
    if "user" not in options:
        return -1
    uid = uid_of(options["user"])
    if uid < 0 or not is_person(uid):
        fail(f"strigger: error: Invalid user {options['user']}")
    return uid


def _offset(options: OptionValues) -> int:
    text = options.get("offset", "0")
    digits = text.lstrip("+-")
    offset_s = 0
    if digits.isdigit() and digits.isascii() and len(text) - len(digits) <= 1:
        offset_s = int(text) if len(digits) < 10 else _MOST_OFFSET_S + 1
    elif text != "0":
        fail(f"strigger: error: Invalid --offset value {text}: seconds, as in 60 or -300")
    if abs(offset_s) > _MOST_OFFSET_S:
        fail(f"strigger: error: The --offset parameter must be between +/-{_MOST_OFFSET_S}")
    return offset_s


def _flags(options: OptionValues) -> bool:
    """Return whether --flags says PERM, its only word."""
    words = options["flags"].split(",") if "flags" in options else []
    if any(word.lower() != "perm" for word in words):
        fail(f"strigger: error: Invalid flags {options['flags']}")
    return bool(words)


def _trigger_id(options: OptionValues) -> int:
    """Return the number of --id; what is none means 0 and counts as not given, as in Slurm."""
    text = options.get("id", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _program(options: OptionValues, events: "list[str]") -> str:
    """Return --program, a path with arguments after blanks, if a file like that can be run."""
    if not events:
        fail("strigger: error: You must specify a trigger")
    if "program" not in options:
        fail("strigger: error: You must specify a --program value")
    program = options["program"]
    if not program.startswith("/"):
        fail('strigger: error: The --program value must start with "/"')
    path = program.split()[0]
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        fail("strigger: error: Invalid --program value, file not found")
    if not stat.S_ISREG(mode):
        fail("strigger: error: Invalid --program value, not regular file")
    if not os.access(path, os.X_OK):
        fail("slurm_set_trigger: Access/permission denied")
    return program


# Asking ---------------------------------------------------------------------------------------


def _set(client: "Client", request: "Row", options: OptionValues) -> int:
    try:
        client.change("SetTrigger", request)
    except SlurmError as error:
        fail(f"slurm_set_trigger: {error.text}")
    if "verbose" in options:
        say("strigger: trigger set")
    return 0


def _clear(client: "Client", options: OptionValues, trigger_id: int, job: str, uid: int) -> int:
    if not trigger_id and not job and uid < 0:
        fail("strigger: error: You must specify a --id, --jobid, or --user to clear")
    request = {
        "trigger_id": trigger_id,
        "job_id": parse_job_id(job).job_id if job else 0,
        "uid": uid,
    }
    try:
        client.change("ClearTriggers", request)
    except SlurmError as error:
        if "quiet" in options and error.code == _ESRCH:
            return 0
        fail(f"slurm_clear_trigger: {error.text}")
    if "verbose" in options:
        if job:
            say(f"strigger: triggers for job {parse_job_id(job).job_id} cleared")
        elif uid >= 0:
            say(f"strigger: triggers for user {uid} cleared")
        else:
            say(f"strigger: trigger {trigger_id} cleared")
    return 0


def _get(
    client: "Client",
    options: OptionValues,
    events: "list[str]",
    trigger_id: int,
    job: str,
    uid: int,
) -> int:
    try:
        triggers = client.call("ShowTriggers", {})["triggers"]
    except SlurmError as error:
        fail(f"slurm_get_triggers: {error.text}")
    if "verbose" in options:
        say(f"strigger: Read {len(triggers)} trigger records")
    job_id = parse_job_id(job).job_id if job else 0
    nodes = _nodes(options)
    lines = [
        _line(trigger)
        for trigger in triggers
        if trigger_id in (0, trigger["trigger_id"])
        and job_id in (0, trigger["job_id"])
        and uid in (-1, trigger["uid"])
        and (not events or not set(events).isdisjoint(trigger["events"]))
        and (nodes is None or _is_about(trigger, nodes))
    ]
    # As in Slurm there is no header above nothing.
    if lines and "noheader" not in options:
        print(_HEADER)
    for line in lines:
        print(line)
    return 0


def _nodes(options: OptionValues) -> "frozenset[str] | None":
    """Return the nodes of --node, none for all of them; None without it."""
    if "node" not in options:
        return None
    from pyslurm_ng.base.hostlist import HostlistError, expand

    try:
        return frozenset(expand(options["node"]))
    except HostlistError:
        fail(f"strigger: error: Invalid node name {options['node']}")


def _is_about(trigger: "Row", nodes: "frozenset[str]") -> bool:
    """Return whether a trigger is about any of some nodes."""
    if _resource(trigger) != "node":
        return False
    if not nodes or not trigger["nodes"]:
        return True
    from pyslurm_ng.base.hostlist import expand

    return not nodes.isdisjoint(expand(trigger["nodes"]))


def _resource(trigger: "Row") -> str:
    """Return what a trigger is about in one word."""
    if trigger["job_id"]:
        return "job"
    kinds = {_kind(event) for event in trigger["events"]}
    return kinds.pop() if len(kinds) == 1 else "node"


def _kind(event: str) -> str:
    for kind in ("slurmctld", "slurmdbd"):
        if event.startswith(f"primary_{kind}"):
            return kind
    return "other" if event == "burst_buffer" else "node"


def _line(trigger: "Row") -> str:
    """Return one row; a trigger of several events names them all."""
    kind, events = _resource(trigger), ",".join(trigger["events"])
    subject = str(trigger["job_id"] or trigger["nodes"] or ("(null)" if kind == "other" else "*"))
    flags = "PERM" if trigger["is_permanent"] else ""
    return (
        f"{trigger['trigger_id']:7d} {kind:<9} {subject:>7} {events:<35} {trigger['offset_s']:6d} "
        f"{trigger['user']:<8} {flags:<5} {printable(trigger['program'])}"
    )
