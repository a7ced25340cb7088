"""scontrol update, create and delete: keys and values as typed to requests."""

import os

from pyslurm_ng.base.job_ids import JobIdError, parse_job_id, split_job_ids
from pyslurm_ng.base.numbers import MOST_WEIGHT, SECOND_US
from pyslurm_ng.cli.command import fail, say, uid_of
from pyslurm_ng.cli.control.keys import entity_of, find_key, words_to_settings
from pyslurm_ng.cli.request_parts import change_all
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
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
JOB_ALIASES = {
    "eligibletime": "starttime",
    "gres": "trespernode",
    "name": "jobname",
    "reqnodes": "numnodes",
    "reqprocs": "numtasks",
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
_BARE = ("nice", "resetaccruetime")  # keys that do something without a value
_DATES = ("starttime", "deadline", "endtime")
NODE_KEYS = (
    "ActiveFeatures AvailableFeatures CertToken Comment CpuBind Extra Gres InstanceId "
    "InstanceType NodeAddr NodeHostName Reason ResumeAfter State Topology Weight"
).split()
_NODE_ALIASES = {"features": "availablefeatures", "feature": "availablefeatures"}
NODE_STATES = (
    "ALLOCATED CANCEL_REBOOT DOWN DRAIN FAIL FUTURE IDLE MIXED NORESP POWER_DOWN POWER_DOWN_ASAP "
    "POWER_DOWN_FORCE POWER_UP RESUME UNDRAIN"
).split()
_CPU_BINDS = ("none", "socket", "ldom", "core", "thread", "off")
_NEEDS_REASON = ("DOWN", "DRAIN", "FAIL")
PARTITION_KEYS = (
    "AllocNodes AllowAccounts AllowGroups AllowQos Alternate CpuBind Default DefaultTime "
    "DefCpuPerGPU DefMemPerCPU DefMemPerGPU DefMemPerNode DenyAccounts DenyQos DisableRootJobs "
    "Exclusive ExclusiveUser ExclusiveTopo GraceTime Hidden JobDefaults LLN MaxCPUsPerNode "
    "MaxCPUsPerSocket "
    "MaxMemPerCPU MaxMemPerNode MaxNodes MaxTime MinNodes Nodes OverSubscribe OverTimeLimit "
    "PowerDownOnIdle PreemptMode Priority PriorityJobFactor PriorityTier QOS ReqResv "
    "ResumeTimeout "
    "RootOnly SelectTypeParameters Shared State SuspendTime SuspendTimeout Topology "
    "TRESBillingWeights"
).split()


def refuse(word: str) -> "int":
    """Print that a key is not known."""
    say(f"Update of this parameter is not supported: {word}\nRequest aborted")
    return 1


def update(session: "Session", words: "list[str]") -> int:
    """Find the entity to change, and change it."""
    words = _joined(words)
    settings = words_to_settings(words)
    names = {entity_of(key) for key, _, _ in settings}
    # A job has a partition and a reservation, and a reservation has a partition: the first counts.
    for entity, act in (("jobid", _update_job), ("stepid", _update_step), ("jobname", _update_job)):
        if entity in names:
            return act(session, settings)
    if "reservationname" in names:
        from pyslurm_ng.cli.control import reservations

        return reservations.update(session, words)
    if "nodename" in names:
        return _update_node(session, settings)
    if "partitionname" in names:
        return _partition(session, settings, create=False)
    if "slurmctlddebug" in names:
        from pyslurm_ng.cli.control import daemons

        levels = [value for key, value, _ in settings if entity_of(key) == "slurmctlddebug"]
        return daemons.set_debug(session, levels[-1:])
    say(
        "No valid entity in update command\n"
        'Input line must include "NodeName", "PartitionName", "Reservation", "JobId", or '
        '"SlurmctldDebug"'
    )
    return 1


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
    typed: dict[str, str] = {}
    by_id = any(entity_of(key) == "jobid" for key, _, _ in settings)
    for key, value, word in settings:
        name = find_key(key, JOB_KEYS, JOB_ALIASES)
        if "=" not in word and name not in _BARE:
            fail(f"Invalid input: {word}\nRequest aborted")
        if entity_of(key) == "jobid":
            request["jobs"] = [value]
        elif entity_of(key) == "jobname" and not by_id:
            if not value:
                fail("scontrol: error: No jobs with name ''")
            request["name"] = value
        elif key.lower() == "userid":
            request["uid"] = uid_of(value)
            if request["uid"] < 0:
                fail(f"Invalid UserID: {value}\nRequest aborted")
        elif not name or (name == "resetaccruetime" and "=" in word):
            return refuse(word)
        else:
            request["settings"][name] = _job_value(name, value)
            typed[name] = word
    if not request["settings"]:
        say("No changes specified")
        return 1
    code = _change_as(session, request, typed)
    if not code and not _SIZES.isdisjoint(request["settings"]) and "SLURM_JOB_ID" in os.environ:
        from pyslurm_ng.cli.control.resize import write_scripts

        for job_id in job_ids(request.get("jobs", []))[0]:
            write_scripts(session, job_id)
    return code


def _change_as(session: "Session", request: "dict[str, Any]", typed: "dict[str, str]") -> int:
    """Send a change of jobs, with --uid as that user."""
    uid = session.uid
    if uid is None:
        return change_jobs(session, "UpdateJob", request, typed=typed)
    from pyslurm_ng.cli.control.user_change import as_user, may_be

    if not may_be(uid):
        for job in request.get("jobs") or [request.get("name", "")]:
            _complain_of_job(session, job, "Invalid user id", "")
        return 1

    def change() -> int:
        session.move(session.conf)  # a connection of this user's own
        return change_jobs(session, "UpdateJob", request, typed=typed)

    return as_user(uid, change)


def _job_value(name: str, value: str) -> str:
    """Return the value of a key as it is sent; exit with Slurm's words if it is none."""
    if name in _DATES:
        return _moment(value)
    from pyslurm_ng.cli.control.job_values import complaint

    text = complaint(name, _NAMES[name], value)
    if text:
        fail(text)
    return value


_NAMES = {name.lower(): name for name in JOB_KEYS}
_NO_JOB = "Invalid job id specified"


def _moment(value: str) -> str:
    """Return microseconds since the epoch, in decimal, for a date as typed."""
    from time import time

    from pyslurm_ng.base.dates import DateError, parse_date

    try:
        return str(parse_date(value, int(time())) * SECOND_US)
    except DateError as problem:
        # Slurm would go on with the other keys.
        fail(f"{problem}\nNo changes specified")


def job_ids(words: "list[str]") -> "tuple[list[str], list[str]]":
    """Return the ids in lists as typed, and the words in which not all are ids."""
    ids: list[str] = []
    refused = []
    for word in words:
        texts = split_job_ids(word)
        try:
            for text in texts or [word]:
                parse_job_id(text)
        except JobIdError:
            refused.append(word)
        else:
            ids += texts
    return ids, refused


def by_key(text: str, request: "dict[str, Any]") -> str:
    """Return a refusal of a text that is too long, with the key of the longest text."""
    field, _, rest = text.partition(": ")
    settings = request.get("settings") or {}
    if field != "settings" or not settings or not rest.endswith("characters are allowed"):
        return text
    return f"{max(settings, key=lambda key: len(str(settings[key])))}: {rest}"


def _no_job_of_name(request: "dict[str, Any]") -> str:
    """Return Slurm's words where no job has a name, or no job of the user."""
    user = f"user ID {request['uid']} and " if "uid" in request else ""
    return f"scontrol: error: No jobs with {user}name '{request['name']}'"


def change_jobs(
    session: "Session",
    kind: str,
    request: "dict[str, Any]",
    second_line: str = "",
    typed: "Mapping[str, str]" = {},  # noqa: B006
) -> int:
    """Send a change of jobs and print what failed; return the exit code.

    Args:
        request: its `jobs` are words as typed, each a list of ids.
        typed: each key's word, for the message that it is not supported.
    """
    jobs, refused = job_ids(request.get("jobs") or [])
    for word in refused:
        _complain_of_job(session, word, _NO_JOB, second_line)
    if refused and not jobs:
        return 1

    def ask(jobs: "list[str]", progress: "dict[str, int]") -> "dict[str, Any]":
        named = {"jobs": jobs} if jobs else {}
        return session.client.change(kind, {**request, **named, **progress})

    try:
        reply = change_all(jobs, ask)
    except SlurmError as error:
        detail, _, text = error.text.rpartition("\n")
        if kind == "UpdateJob" and detail:
            return refuse(typed.get(detail, detail))
        say(f"slurm_update error: {by_key(text, request)}")
        return 1
    if not reply["errors"]:
        return 1 if refused else 0
    from pyslurm_ng.base.error_numbers import Errno
    from pyslurm_ng.cli.control.task_errors import folded

    for text, code, words in folded(reply["errors"]):
        is_denied = kind == "SuspendJobs" and code == Errno.ESLURM_ACCESS_DENIED
        is_name = code == Errno.ESLURM_INVALID_JOB_ID and request.get("name") == text
        if is_name and kind == "HoldJobs" and len(reply["errors"]) == 1 and not refused:
            return 0  # as in Slurm: no job of that name is no error
        if is_name and kind == "UpdateJob":
            session.complain(_no_job_of_name(request))
        elif "_" in text and not (kind == "TopJobs" or is_denied):
            tasks = text.replace("[", "").replace("]", "")
            session.complain(f"{tasks}: {words}")
        else:
            _complain_of_job(session, text, words, second_line)
    return 1


def _complain_of_job(session: "Session", job: str, why: str, second_line: str) -> None:
    session.complain(f"{why} for job {job}")
    if second_line:
        session.complain(f"{second_line}{why}")


def _update_step(session: "Session", settings: "list[tuple[str, str, str]]") -> int:
    request: dict[str, Any] = {}
    for key, value, word in settings:
        if "=" not in word:
            fail(f"Invalid input: {word}\nRequest aborted")
        if entity_of(key) == "stepid":
            try:
                parse_job_id(value)
            except JobIdError:
                fail(f"Invalid StepID parameter: {word}\nRequest aborted")
            request["step"] = value
        elif find_key(key, ["TimeLimit"], {}) == "timelimit":
            request["time_limit"] = _job_value("timelimit", value)
        else:
            return refuse(word)
    if "time_limit" not in request:
        say("No changes specified")
        return 1
    return change_jobs(session, "UpdateStep", request)


# Nodes ----------------------------------------------------------------------------------------


def _update_node(session: "Session", settings: "list[tuple[str, str, str]]") -> int:
    request: dict[str, Any] = {"nodes": "", "settings": {}}
    typed: dict[str, str] = {}
    for key, value, word in settings:
        _need_value(word)
        if entity_of(key) == "nodename":
            request["nodes"] = value
            continue
        name = find_key(key, NODE_KEYS, _NODE_ALIASES)
        if not name:
            return refuse(word)
        request["settings"][name] = _node_value(name, value, word)
        typed[name] = word
    values = request["settings"]
    if values.get("state") in _NEEDS_REASON and not values.get("reason"):
        say("You must specify a reason when DOWNING or DRAINING a node. Request denied")
        return 1
    if not values:
        say("No changes specified")
        return 1
    return _send(session, "UpdateNodes", request, typed)


def _need_value(word: str) -> None:
    """Exit because a word has no `=`."""
    if "=" not in word:
        fail(f"scontrol: error: Invalid input: {word}  Request aborted")


def _node_value(name: str, value: str, word: str) -> str:
    """Return the value of a key as it is sent; exit with Slurm's words if it is none."""
    if name == "weight":
        what = ""
        if value.removeprefix("-").isdecimal():
            what = "is less than zero" if value.startswith("-") else ""
            if not what and int(value) > MOST_WEIGHT:
                what = f"is greater than {MOST_WEIGHT}"
        else:
            what = "is not a valid number"
        if what:
            fail(f"scontrol: error: Weight value ({value}) {what}\nNo changes specified")
    if name == "cpubind" and value.lower().removesuffix("s") not in _CPU_BINDS:
        fail(f"scontrol: error: Invalid input {word}")
    if name != "state":
        return value
    state = _node_state(value)
    if not state:
        fail(
            f"Invalid input: {word}\nRequest aborted\n"
            "Valid states are: NoResp DRAIN FAIL FUTURE RESUME POWER_DOWN POWER_UP "
            "UNDRAIN\nNot all states are valid given a node's prior state"
        )
    return state


def _node_state(value: str) -> str:
    word = value.upper()
    if word in NODE_STATES:
        return word
    matches = [name for name in NODE_STATES if name.startswith(word)] if len(word) > 2 else []
    return matches[0] if matches else ""


def _send(
    session: "Session",
    kind: str,
    request: "dict[str, Any]",
    typed: "Mapping[str, str]",
    doing: str = "slurm_update",
) -> int:
    """Send a change of nodes or of a partition; `typed` has each key's word."""
    try:
        session.client.change(kind, request)
    except SlurmError as error:
        detail, _, text = error.text.rpartition("\n")
        verb = "Error creating the partition" if request.get("create") else f"{doing} error"
        if detail.lower() in typed:
            return refuse(typed[detail.lower()])
        key = detail.partition(":")[0].lower()
        if kind == "UpdatePartition" and key in typed:
            from pyslurm_ng.cli.control.partition_values import complaint

            fail(complaint(key, _partition_key(typed[key]), typed[key]))
        if detail:
            say(detail)
        say(f"{verb}: {text}")
        return 1
    return 0


# Partitions -----------------------------------------------------------------------------------

_PARTITION_NAMES = {name.lower(): name for name in PARTITION_KEYS}
_PARTITION_ALIASES = {"shared": "oversubscribe"}


def _partition_key(word: str) -> str:
    """Return the key of a `Key=Value` as Slurm's messages write it."""
    key = word.partition("=")[0].rstrip("+-")
    return _PARTITION_NAMES[find_key(key, PARTITION_KEYS, _PARTITION_ALIASES)]


def _partition(session: "Session", settings: "list[tuple[str, str, str]]", *, create: bool) -> int:
    from pyslurm_ng.cli.control import partition_values

    request: dict[str, Any] = {"name": "", "settings": {}, "create": create}
    typed: dict[str, str] = {}
    for key, value, word in settings:
        _need_value(word)
        if entity_of(key) == "partitionname":
            request["name"] = value
            continue
        name = find_key(key, PARTITION_KEYS, _PARTITION_ALIASES)
        if name == "priority":  # the old key sets both of today's
            values = {"priorityjobfactor": value, "prioritytier": value}
        elif name == "jobdefaults":
            values = partition_values.job_defaults(value)
            if not values:
                fail("slurm_update error: Invalid JobDefaults specification")
        elif name:
            values = {name: partition_values.plain(name, value)}
        else:
            say(f"scontrol: error: Update of this parameter is not supported: {word}\n")
            fail("scontrol: error: Request aborted")
        if partition_values.is_refused(name, value):
            fail(partition_values.complaint(name, _partition_key(word), word))
        request["settings"] |= values
        typed |= dict.fromkeys(values, word)
    if not create and not (request["name"] and request["settings"]):
        say("scontrol: error: No changes specified")
        return 1
    if not request["name"]:
        say("PartitionName must be given.")
        return 1
    return _send(session, "UpdatePartition", request, typed)


def create(session: "Session", words: "list[str]") -> int:
    """`scontrol create partition|reservation|node ...`, or with the entity as a key."""
    word = "" if "=" in words[0] else entity_of(words[0])
    rest = words[1:] if word else words
    settings = words_to_settings(rest)
    names = {word} if word else {entity_of(key) for key, _, _ in settings}
    # A reservation has a partition, and `Node` of a partition is short for Nodes.
    if "reservationname" in names:
        from pyslurm_ng.cli.control import reservations

        return reservations.create(session, rest)
    if "partitionname" in names:
        return _partition(session, settings, create=True)
    if "nodename" in names:
        from pyslurm_ng.cli.control import new_nodes

        return new_nodes.create(session, words)
    say(f"scontrol: error: Invalid creation entity: {words[0]}")
    return 1


def delete(session: "Session", words: "list[str]") -> int:
    """`scontrol delete ENTITY=NAME`, or with a space between."""
    key, equals, value = words[0].partition("=")
    entity = entity_of(key)
    if not equals and len(words) == 2:
        value = words[1]
    elif not equals or len(words) > 1:
        say("scontrol: error: Proper format is 'delete <ENTITY>=<ID>' or 'delete <ENTITY> <ID>'")
        return 1
    if entity == "partitionname":
        return _delete(session, "DeletePartition", value, f"delete_partition {words[0]}")
    if entity == "reservationname":
        return _delete(session, "DeleteReservation", value, f"delete_reservation {words[0]}")
    if entity == "nodename":
        return _delete(session, "DeleteNodes", value, f"delete_node {words[0]}")
    say(f"Invalid deletion entity: {words[0]}")
    return 1


def _delete(session: "Session", kind: str, name: str, doing: str) -> int:
    try:
        session.client.change(kind, {"nodes" if kind == "DeleteNodes" else "name": name})
    except SlurmError as error:
        lines = error.text.split("\n")
        for line in lines[:-1]:
            say(line)
        say(f"{doing}: {lines[-1]}")
        return 1
    return 0


def update_nodes(
    session: "Session", nodes: str, settings: "dict[str, str]", doing: str = "slurm_update"
) -> int:
    """Change nodes for another command than update, which errors name."""
    return _send(session, "UpdateNodes", {"nodes": nodes, "settings": settings}, {}, doing)


ACTIONS: "dict[str, Action]" = {
    "create": create,
    "delete": delete,
    "update": update,
}
