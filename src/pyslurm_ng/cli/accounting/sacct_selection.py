"""Which jobs sacct shows: its options as a request."""

import os
from time import localtime, mktime, strftime, time

from pyslurm_ng.base.numbers import MAX_NORMAL_STEP_ID, SECOND_US
from pyslurm_ng.cli.command import fail, split_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

MOST_JOBS = 10_000
"""The most of one request, as in wire.dbd_messages. A longer range could fill memory here."""
FLAG_NAMES = {
    "schedsubmit": "SchedSubmit",
    "schedmain": "SchedMain",
    "schedbackfill": "SchedBackfill",
    "startreceived": "StartReceived",
    "none": "None",  # no job is without StartReceived
}
_ACCOUNTED_FLAGS = ("REQUEUED", "RESIZING", "REVOKED")
"""The states beside base states that records have."""
_LISTS = (
    ("accounts", "accounts"), ("partition", "partitions"), ("qos", "qos"), ("name", "names"),
    ("reason", "reasons"), ("constraints", "constraints"),
)  # fmt: skip


def selection(options: "dict[str, str]", clusters: "list[str]") -> "dict[str, Any]":
    """Return the request for what the options select; exit on a bad value.

    An empty list selects nothing, as in Slurm: it asks for the empty name, which no job has.
    """
    if not options.get("state", "x").strip(","):
        options = {name: value for name, value in options.items() if name != "state"}
    start_us, end_us = _window(options)
    request: dict[str, Any] = {
        "clusters": clusters,
        "start_us": start_us,
        "end_us": end_us,
        "with_steps": "allocations" not in options,
        "duplicates": "duplicates" in options,
    }
    for option, field in _LISTS:
        if option in options:
            # Accounts and QOS are lower case everywhere.
            text = options[option].lower() if option in ("accounts", "qos") else options[option]
            request[field] = split_list(text) or [""]
    _check_reasons(request.get("reasons", ()))
    if "wckeys" in options:
        request["wckeys"] = split_list(options["wckeys"])
    if "associations" in options:
        request["association_ids"] = [_integer("associations", word)
                                      for word in split_list(options["associations"])]  # fmt: skip
    if options.get("jobs", "").strip(","):
        request["jobs"] = jobs_of(options["jobs"])
        if not request["with_steps"]:  # the step names its job
            request["jobs"] = [[*job[:3], -1, *job[4:]] for job in request["jobs"]]
        # A SLUID names one record, also that of a run before the newest.
        request["duplicates"] |= not any(wanted_job[0] for wanted_job in request["jobs"])
    if "state" in options:
        request["states"] = states(options["state"])
    if "flags" in options:
        request["flags"] = _flags(options["flags"])
    if "nodelist" in options:
        from pyslurm_ng.base.hostlist import HostlistError, expand

        try:
            request["nodes"] = expand(options["nodelist"]) or [""]
        except HostlistError as problem:
            fail(f"sacct: error: Invalid node list: {problem}")
    chosen = uids(options)
    if chosen:
        request["uids"] = chosen
    if "gid" in options:
        request["gids"] = _gids(options["gid"])
    _ranges(options, request)
    if "whole-hetjob" in options:
        # Without the option the leader's id means all components, another's that one.
        whole = options["whole-hetjob"]
        if whole.lower() not in ("", "yes", "no"):
            fail(f'sacct: error: Invalid --whole-hetjob value "{whole}". Valid values: [yes|no].')
        request["whole_het_job"] = whole.lower() != "no"
        request["only_named_components"] = not request["whole_het_job"]
    return request


def _check_reasons(words: "Iterable[str]") -> None:
    if not words:
        return
    from pyslurm_ng.model.states import Reason, reason_text

    known = {reason_text(reason).lower() for reason in Reason}
    for word in words:
        if word and word.lower() not in known:
            fail(f"sacct: fatal: unrecognized job reason value '{word}'")


def _ranges(options: "dict[str, str]", request: "dict[str, Any]") -> None:
    for option, what, least, most in (
        ("nnodes", "node", "nodes_min", "nodes_max"),
        ("ncpus", "cpu", "cpus_min", "cpus_max"),
    ):
        if option not in options:
            continue
        low, dash, high = options[option].partition("-")
        if not (_is_number(low) and (_is_number(high) or not dash)):
            value = options[option]
            fail(f'sacct: error: Invalid numeric value "{value}" for requested {what} range.')
        if int(low) or dash:
            request[least] = int(low)
        if dash:
            request[most] = int(high)
    limits = {name: options[name] for name in ("timelimit-min", "timelimit-max") if name in options}
    for option, text in limits.items():
        from pyslurm_ng.base.units import UnitError, parse_time_limit_min

        try:
            minutes = parse_time_limit_min(text)
        except UnitError:
            fail("sacct: fatal: Invalid time limit specification")
        if "timelimit-min" in limits:  # the other one counts only beside it
            request["time_limit_" + option[-3:]] = minutes


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 10


def _integer(option: str, text: str) -> int:
    if not _is_number(text):
        fail(f"sacct: error: Invalid value for --{option}: {text!r}; a number is allowed")
    return int(text)


def _window(options: "dict[str, str]") -> "tuple[int, int]":
    """Return the period to look at, in microseconds.

    The defaults are Slurm's: with states a moment rather than a period.
    """
    now_s = int(time())
    start_s = end_s = now_s
    if "jobs" in options:
        start_s = 0
    elif "state" not in options:
        today = localtime(now_s)
        midnight = (today.tm_year, today.tm_mon, today.tm_mday, 0, 0, 0, 0, 0, -1)
        start_s = int(mktime(midnight))
    if options.get("starttime"):
        start_s = _moment(options["starttime"], now_s)
        if "state" in options:
            end_s = start_s
    if options.get("endtime"):
        end_s = _moment(options["endtime"], now_s)
    if start_s > end_s:
        from pyslurm_ng.base.dates import format_date

        fail(
            f"sacct: error: Start time ({format_date(start_s)}) requested is after end time "
            f"({format_date(end_s)})."
        )
    start_s, end_s = max(0, start_s), max(0, end_s)  # no job is older than the clock
    # An end in whole seconds includes all of its last second.
    return start_s * SECOND_US, end_s * SECOND_US + 999_999


def window_text(request: "dict[str, Any]") -> str:
    """Return what -v says of the period and the states."""
    chosen = ",".join(request.get("states", ())) or "Eligible"
    start_s, end_s = request["start_us"] // SECOND_US, request["end_us"] // SECOND_US
    end_s = max(end_s, start_s + 1)
    begin = strftime("%c", localtime(start_s)) if start_s else "Epoch 0"
    return f"Jobs {chosen} in the time window from {begin} to {strftime('%c', localtime(end_s))}"


def _moment(text: str, now_s: int) -> int:
    from pyslurm_ng.base.dates import DateError, parse_date

    try:
        return parse_date(text, now_s, past=True)
    except DateError as problem:
        fail(str(problem))


def jobs_of(text: str, command: str = "sacct") -> "list[list[int]]":
    """Return job id, task, component and step of each item of --jobs; -1 for any.

    An item that is a SLUID has its number behind them.
    """
    from pyslurm_ng.base.job_ids import JobIdError, parse_job_id

    jobs: list[list[int]] = []
    for word in _split_outside_brackets(text):
        try:
            name = parse_job_id(word)
        except JobIdError:
            fail(f"{command}: fatal: {_bad_job(word)}")
        count = sum((high - low) // by + 1 for low, high, by in name.tasks)
        if len(jobs) + count > MOST_JOBS:
            what = f"Bad job/step specified: {word}"
            fail(f"{command}: fatal: {what}: at most {MOST_JOBS} are allowed")
        step = name.step - 2**32 if name.step > MAX_NORMAL_STEP_ID else name.step
        tasks = [task for low, high, by in name.tasks for task in range(low, high + 1, by)]
        for task in tasks or [-1]:
            sluid = [name.sluid] if name.sluid else []
            jobs.append([name.job_id, task, name.het_offset, step, *sluid])
    return jobs


def _bad_job(word: str) -> str:
    """Return what is wrong with an item of --jobs: the part behind the number, or all of it."""
    end = next((at for at, char in enumerate(word) if not char.isdecimal()), len(word))
    part = {"_": "job array element", "+": "hetjob offset", ".": "step"}.get(word[end : end + 1])
    return (
        f"Bad {part} specified: {word[:end]}"
        if end and part
        else (f"Bad job/step specified: {word}")
    )


def _split_outside_brackets(text: str) -> "list[str]":
    words, depth, begin = [], 0, 0
    for index, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if char == "," and not depth:
            words.append(text[begin:index].strip())
            begin = index + 1
    words.append(text[begin:].strip())
    return [word for word in words if word]


def states(text: str) -> "list[str]":
    """Return the names of states as records have them; exit on an unknown one."""
    from pyslurm_ng.base.state_names import JOB_FLAGS, JOB_STATES, parse_job_state

    numbers = []
    for word in split_list(text):
        state = parse_job_state(word)
        if state is None:
            fail(f"sacct: fatal: unrecognized job state value '{word}'")
        number, bit = state
        if number >= 0:
            numbers.append(JOB_STATES[number][0])
            continue
        name = next(name for flag, name, _ in JOB_FLAGS if flag == bit)
        if name not in _ACCOUNTED_FLAGS:
            fail(f"sacct: fatal: job state {word} is not supported / accounted")
        numbers.append(name)
    return numbers


def _flags(text: str) -> "list[str]":
    flags = []
    for word in split_list(text):
        names = [name for key, name in FLAG_NAMES.items() if key.startswith(word.lower())]
        if not names:
            fail(f"sacct: error: str_2_job_flags: Invalid job flag {word}")
        flags.append(names[0])
    return flags or [""]


def uids(options: "dict[str, str]") -> "list[int]":
    """Return the users to show; empty for all users, the default of root, with jobs and nodes."""
    if "user" in options:
        from pyslurm_ng.cli.command import uid_of, user_name

        wanted_uids = []
        for word in split_list(options["user"]) or [""]:
            uid = uid_of(word)
            if uid < 0 or user_name(uid) == str(uid):
                fail(f"sacct: error: Invalid user id: {word}")
            wanted_uids.append(uid)
        return wanted_uids
    if os.getuid() == 0 or any(word in options for word in ("allusers", "jobs", "nodelist")):
        return []
    return [os.getuid()]


def _gids(text: str) -> "list[int]":
    import grp

    gids = []
    for word in split_list(text) or [""]:
        try:
            group = grp.getgrgid(int(word)) if _is_number(word) else grp.getgrnam(word)
        except (KeyError, OverflowError):
            fail(f"sacct: error: Invalid group id: {word}")
        gids.append(group.gr_gid)
    return gids
