"""scontrol update, create and delete: keys and values as typed to requests."""

import os

from pyslurm_ng.base.job_ids import JobIdError, parse_job_id, split_job_ids
from pyslurm_ng.base.numbers import NO_VAL, SECOND_US
from pyslurm_ng.cli.command import Table, fail, say, uid_of
from pyslurm_ng.cli.control.keys import entity_of, find_key, words_to_settings
from pyslurm_ng.cli.request_parts import change_all
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.control.session import Action, Session

JOB_KEYS = (
    "Account AdminComment ArrayTaskThrottle BurstBuffer ClusterFeatures Clusters Comment "
    "ConsolidateSegments Contiguous CoreSpec CPUsPerTask CpusPerTres Deadline DelayBoot "
    "Dependency EligibleTime EndTime ExcNodeList Extra Features Gres JobName Licenses MailType "
    "MailUser MCSLabel MemPerTres MinCPUsNode MinMemoryCPU MinMemoryNode MinTmpDiskNode Nice "
    "NodeList NumCPUs NumNodes NumTasks OverSubscribe Partition Prefer Priority QOS Reboot "
    "ReqCores ReqNodeList ReqNodes ReqProcs ReqSockets ReqThreads Requeue ReservationName "
    "ResetAccrueTime SegmentSize SiteFactor SpreadSegments StartTime StdErr StdIn StdOut Shared "
    "Switches TasksPerNode ThreadSpec TimeLimit TimeMin TresBind TresFreq TresPerJob TresPerNode "
    "TresPerSocket TresPerTask wait-for-switch WCKey WorkDir"
).split()
# Other names of the same thing.
_JOB_ALIASES = {
    "eligibletime": "starttime",
    "gres": "trespernode",
    "name": "jobname",
    "reqnodes": "numnodes",
    "reqprocs": "numcpus",
    "shared": "oversubscribe",
    "time": "timelimit",
    "reservation": "reservationname",
    "excnodes": "excnodelist",
    "feature": "features",
    "constraint": "features",
    "mincpus": "mincpusnode",
    "minmemory": "minmemorynode",
    "mintmpdisk": "mintmpdisknode",
    "numprocs": "numcpus",
}
_SIZES = frozenset(("numnodes", "nodelist", "reqnodelist"))  # which nodes a running job keeps
_FLAGS = ("contiguous", "oversubscribe", "reboot", "requeue")
_MAX_PRIORITY = NO_VAL - 1
_MOST_NICE = 2147483645
_COUNTS = frozenset(
    ("cpuspertask", "mincpusnode", "mintmpdisknode", "numtasks", "taskspernode")
    + ("reqcores", "reqsockets", "reqthreads")
)
_MEMORY = frozenset(("minmemorycpu", "minmemorynode"))
_DATES = ("starttime", "deadline", "endtime")
NODE_KEYS = (
    "ActiveFeatures AvailableFeatures CertToken Comment CpuBind Extra Gres InstanceId "
    "InstanceType NodeAddr NodeHostName Reason ResumeAfter State Topology Weight"
).split()
_NODE_ALIASES = {"features": "availablefeatures", "feature": "availablefeatures"}
NODE_STATES = (
    "CANCEL_REBOOT DOWN DRAIN FAIL FUTURE IDLE NORESP POWER_DOWN POWER_DOWN_ASAP "
    "POWER_DOWN_FORCE POWER_UP RESUME UNDRAIN"
).split()
_NEEDS_REASON = ("DOWN", "DRAIN", "FAIL")
PARTITION_KEYS = (
    "AllocNodes AllowAccounts AllowGroups AllowQos Alternate CpuBind Default DefaultTime "
    "DefCpuPerGPU DefMemPerCPU DefMemPerGPU DefMemPerNode DenyAccounts DenyQos DisableRootJobs "
    "Exclusive ExclusiveUser ExclusiveTopo GraceTime Hidden LLN MaxCPUsPerNode MaxCPUsPerSocket "
    "MaxMemPerCPU MaxMemPerNode MaxNodes MaxTime MinNodes Nodes OverSubscribe OverTimeLimit "
    "PowerDownOnIdle PreemptMode PriorityJobFactor PriorityTier QOS ReqResv ResumeTimeout "
    "RootOnly SelectTypeParameters Shared State SuspendTime SuspendTimeout Topology "
    "TRESBillingWeights"
).split()


def refuse(word: str) -> "int":
    """Print that a key is not known."""
    say(f"Update of this parameter is not supported: {word}\nRequest aborted")
    return 1


def update(session: "Session", words: "list[str]") -> int:
    """Find the entity to change, and change it."""
    _need(words, "update")
    words = _joined(words)
    settings = words_to_settings(words)
    names = {entity_of(key) for key, _, _ in settings}
    # A job has a partition and a reservation, and a reservation has a partition: the first counts.
    for entity, act in (
        ("stepid", _update_step),
        ("jobid", _update_job),
        ("jobname", _update_job),
        ("nodename", _update_node),
    ):
        if entity in names:
            return act(session, settings)
    if "reservationname" in names:
        from pyslurm_ng.cli.control import reservations

        return reservations.update(session, words)
    if "partitionname" in names:
        return _partition(session, settings, create=False)
    say(
        "No valid entity in update command\n"
        'Input line must include "NodeName", "PartitionName", "Reservation", "JobId", or "StepId"'
    )
    return 1


def _need(words: "list[str]", keyword: str) -> None:
    """Exit because nothing is named; Slurm's text differs from that of its other commands."""
    if not words:
        fail(f"too few arguments for {keyword} keyword")


def _joined(words: "list[str]") -> "list[str]":
    """Return the words with `JobId 27` as `JobId=27`: Slurm takes two keys of jobs in that way."""
    joined: list[str] = []
    for word in words:
        before = joined[-1] if joined else ""
        is_first = len(joined) == 1 and entity_of(before) == "jobid"
        is_key = is_first or before.lower() == "arraytaskthrottle"
        if "=" not in word and is_key:
            joined[-1] = f"{before}={word}"
        else:
            joined.append(word)
    return joined


# Jobs -----------------------------------------------------------------------------------------


def _update_job(session: "Session", settings: "list[tuple[str, str, str]]") -> int:
    request: dict[str, Any] = {"settings": {}}
    by_id = any(entity_of(key) == "jobid" for key, _, _ in settings)
    for key, value, word in settings:
        lower = key.lower()
        if entity_of(key) == "jobid":
            ids = job_ids([value])
            request["jobs"] = ids
        elif entity_of(key) == "jobname" and not by_id:
            request["name"] = value
        elif lower == "userid":
            request["uid"] = uid_of(value)
            if request["uid"] < 0:
                fail(f"Invalid UserID: {value}\nRequest aborted")
        else:
            name = find_key(key, JOB_KEYS, _JOB_ALIASES)
            if not name:
                return refuse(word)
            if name in _DATES:
                value = _moment(session, value, word)
            if name == "arraytaskthrottle" and not value.isdigit():
                fail("Invalid ArrayTaskThrottle value")
            if _is_invalid(name, value):
                fail(_complaint(name, value))
            request["settings"][name] = value
    if not request["settings"]:
        say("No changes specified")
        return 1
    code = change_jobs(session, "UpdateJob", request)
    if not code and not _SIZES.isdisjoint(request["settings"]) and "SLURM_JOB_ID" in os.environ:
        from pyslurm_ng.cli.control.resize import write_scripts

        for job_id in request.get("jobs", ()):
            write_scripts(session, job_id)
    return code


def _is_invalid(name: str, value: str) -> bool:
    """Return whether a key does not take a value: not a flag, a count, a number with a sign."""
    if name == "numcpus":
        return not all(word.isdigit() and int(word) for word in value.split("-", 1))
    if name in _COUNTS:
        return not value.isdigit()
    if name in _MEMORY:
        from pyslurm_ng.base.units import UnitError, parse_mem_mib

        try:
            parse_mem_mib(value)
        except UnitError:
            return True
        return False
    if name in ("timelimit", "timemin"):
        from pyslurm_ng.base.units import UnitError, parse_time_limit_min

        try:
            parse_time_limit_min(value[value[:1] in "+-" and value != "-1" :])
        except UnitError:
            return True
        return False
    if name in _FLAGS:
        return value.lower() not in ("yes", "no", "y", "n", "1", "0")
    if name == "priority":
        is_number = value.isdigit() and int(value) <= _MAX_PRIORITY
        return not is_number and value.upper() not in ("INFINITE", "UNLIMITED", "-1")
    if name in ("nice", "sitefactor"):
        digits = value.removeprefix("-").removeprefix("+")
        return bool(value) and (not digits.isdigit() or int(digits) > _MOST_NICE)
    if name == "switches":
        return not (value.partition("@")[0] or "0").isdigit()
    if name == "mailtype":
        from pyslurm_ng.base.request_words import MAIL_WORDS

        return any(word.strip().upper() not in MAIL_WORDS for word in value.split(","))
    return False


_NAMES = {name.lower(): name for name in JOB_KEYS}


def _complaint(name: str, value: str) -> str:
    """Return Slurm's words for a value that its key does not take."""
    if name == "mailtype":
        return f"Invalid MailType: {value}"
    if name in ("timelimit", "timemin"):
        return f"scontrol: error: Invalid {_NAMES[name]} value"
    if name in ("nice", "sitefactor") and value.strip("+-").isdigit():
        limit = f"(+/- {_MOST_NICE})"
        return f"scontrol: error: {_NAMES[name]} value out of range {limit}. Value ignored"
    return f"scontrol: error: Invalid {_NAMES[name]} value: {value}"


def _moment(session: "Session", value: str, word: str) -> str:
    """Return microseconds since the epoch, in decimal, for a date as typed."""
    from time import time

    from pyslurm_ng.base.dates import DateError, parse_date

    try:
        return str(parse_date(value, int(time())) * SECOND_US)
    except DateError as problem:
        fail(f"{problem}\nInvalid input: {word}\nRequest aborted")


def job_ids(words: "list[str]") -> "list[str]":
    """Return the ids in lists as typed; exit with 1 at a word that is no id."""
    ids = [text for word in words for text in split_job_ids(word)]
    for text in ids:
        try:
            parse_job_id(text)
        except JobIdError:
            fail(f"Invalid job id specified: {text}")
    return ids


def by_key(text: str, request: "dict[str, Any]") -> str:
    """Return a refusal of a text that is too long, with the key of the longest text."""
    field, _, rest = text.partition(": ")
    settings = request.get("settings") or {}
    if field != "settings" or not settings or not rest.endswith("characters are allowed"):
        return text
    return f"{max(settings, key=lambda key: len(str(settings[key])))}: {rest}"


def _no_job_of_name(session: "Session", request: "dict[str, Any]") -> str:
    """Return Slurm's words where no job has a name, or no job of the user."""
    name = request["name"]
    wanted = {"filter": {"names": [name], "all_states": True}}
    if "uid" in request:
        reply = session.client.call("ShowJobs", wanted)
        if Table(reply["fields"], reply["records"], ["job_id"]).rows:
            return f"scontrol: error: No jobs with user ID {request['uid']} and name '{name}'"
    return f"scontrol: error: JobName {name} not found"


def change_jobs(
    session: "Session", kind: str, request: "dict[str, Any]", second_line: str = ""
) -> int:
    """Send a change of jobs and print what failed; return the exit code."""

    def ask(jobs: "list[str]", progress: "dict[str, int]") -> "dict[str, Any]":
        named = {"jobs": jobs} if jobs else {}
        return session.client.change(kind, {**request, **named, **progress})

    try:
        reply = change_all(request.get("jobs") or [], ask)
    except SlurmError as error:
        detail, _, text = error.text.rpartition("\n")
        if kind == "UpdateJob" and detail:
            return refuse(detail)
        say(f"slurm_update error: {by_key(text, request)}")
        return 1
    for text, code, words in reply["errors"]:
        from pyslurm_ng.base.error_numbers import Errno

        is_unknown = code == Errno.ESLURM_INVALID_JOB_ID and kind == "UpdateJob"
        if is_unknown and request.get("name") == text:
            session.complain(_no_job_of_name(session, request))
            continue
        session.complain(f"{words} for job {text}")
        if second_line:
            session.complain(f"{second_line}{words}")
    return 1 if reply["errors"] else 0


def _update_step(session: "Session", settings: "list[tuple[str, str, str]]") -> int:
    request: dict[str, Any] = {}
    for key, value, word in settings:
        if entity_of(key) == "stepid":
            request["step"] = value
        elif find_key(key, ["TimeLimit"], {}) == "timelimit":
            if not value or _is_invalid("timelimit", value):
                fail(_complaint("timelimit", value))
            request["time_limit"] = value
        else:
            return refuse(word)
    if "time_limit" not in request:
        say("No changes specified")
        return 1
    return change_jobs(session, "UpdateStep", request)


# Nodes ----------------------------------------------------------------------------------------


def _update_node(session: "Session", settings: "list[tuple[str, str, str]]") -> int:
    request: dict[str, Any] = {"nodes": "", "settings": {}}
    values = request["settings"]
    for key, value, word in settings:
        if entity_of(key) == "nodename":
            request["nodes"] = value
            continue
        name = find_key(key, NODE_KEYS, _NODE_ALIASES)
        if not name:
            return refuse(word)
        if name == "state":
            value = _node_state(value)
            if not value:
                say(
                    f"Invalid input: {word}\nRequest aborted\n"
                    "Valid states are: NoResp DRAIN FAIL FUTURE RESUME POWER_DOWN POWER_UP "
                    "UNDRAIN\nNot all states are valid given a node's prior state"
                )
                return 1
        if name == "weight" and not value.isdigit():
            fail(f"scontrol: error: Invalid {key} value: {value}")
        values[name] = value
    if values.get("state") in _NEEDS_REASON and not values.get("reason"):
        say("You must specify a reason when DOWNING or DRAINING a node. Request denied")
        return 1
    return _send(session, "UpdateNodes", request)


def _node_state(value: str) -> str:
    word = value.upper()
    if word in NODE_STATES:
        return word
    matches = [name for name in NODE_STATES if name.startswith(word)] if len(word) > 2 else []
    return matches[0] if matches else ""


def _send(session: "Session", kind: str, request: "dict[str, Any]") -> int:
    try:
        session.client.change(kind, request)
    except SlurmError as error:
        detail, _, text = error.text.rpartition("\n")
        if detail and detail.lower() in (name.lower() for name in NODE_KEYS + PARTITION_KEYS):
            value = request.get("settings", {}).get(detail.lower(), "")
            return refuse(f"{detail}={value}")
        if detail:
            say(detail)
        verb = "slurm_create_partition" if request.get("create") else "slurm_update"
        say(f"{verb} error: {text}")
        return 1
    return 0


# Partitions -----------------------------------------------------------------------------------


def _partition(session: "Session", settings: "list[tuple[str, str, str]]", *, create: bool) -> int:
    request: dict[str, Any] = {"name": "", "settings": {}, "create": create}
    for key, value, word in settings:
        if entity_of(key) == "partitionname":
            request["name"] = value
            continue
        if key.lower() == "priority":  # the old key sets both of today's
            request["settings"] |= {"priorityjobfactor": value, "prioritytier": value}
            continue
        name = find_key(key, PARTITION_KEYS, {"shared": "oversubscribe"})
        if not name:
            return refuse(word)
        request["settings"][name] = value
    if not request["name"]:
        say("PartitionName must be given.")
        return 1
    return _send(session, "UpdatePartition", request)


def create(session: "Session", words: "list[str]") -> int:
    """`scontrol create partition|reservation|node ...`, or with the entity as a key."""
    _need(words, "create")
    word = "" if "=" in words[0] else entity_of(words[0])
    rest = words[1:] if word else words
    settings = words_to_settings(rest)
    names = {word} if word else {entity_of(key) for key, _, _ in settings}
    if "nodename" in names:
        say("scontrol: error: create node is not supported yet")
        return 1
    if "reservationname" in names:
        from pyslurm_ng.cli.control import reservations

        return reservations.create(session, rest)
    if "partitionname" in names:
        return _partition(session, settings, create=True)
    say(f"scontrol: error: Invalid creation entity: {words[0]}")
    return 1


def delete(session: "Session", words: "list[str]") -> int:
    """`scontrol delete ENTITY=NAME`, or with a space between."""
    _need(words, "delete")
    key, equals, value = words[0].partition("=")
    entity = entity_of(key)
    if not equals and len(words) == 2:
        value = words[1]
    elif not equals or len(words) > 1:
        say("scontrol: error: Proper format is 'delete <ENTITY>=<ID>' or 'delete <ENTITY> <ID>'")
        return 1
    if entity == "partitionname":
        return _delete(session, "DeletePartition", value, f"delete_partition {' '.join(words)}")
    if entity == "reservationname":
        return _delete(session, "DeleteReservation", value, f"delete_reservation {' '.join(words)}")
    if entity == "nodename":
        say("scontrol: error: delete node is not supported yet")
        return 1
    say(f"Invalid deletion entity: {words[0]}")
    return 1


def _delete(session: "Session", kind: str, name: str, doing: str) -> int:
    try:
        session.client.change(kind, {"name": name})
    except SlurmError as error:
        lines = error.text.split("\n")
        for line in lines[:-1]:
            say(line)
        say(f"{doing}: {lines[-1]}")
        return 1
    return 0


ACTIONS: "dict[str, Action]" = {"create": create, "delete": delete, "update": update}
