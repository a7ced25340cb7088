"""Which jobs sacct shows: its options as a request."""

import os
from time import localtime, mktime, strftime, time

from pyslurm_ng.base.numbers import MAX_NORMAL_STEP_ID, SECOND_US
from pyslurm_ng.cli.command import fail, split_list

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_JOBS = 10_000
"""The most of one request, as in wire.dbd_messages. A longer range could fill memory here."""
FLAG_NAMES = {
    "schedsubmit": "SchedSubmit",
    "schedmain": "SchedMain",
    "schedbackfill": "SchedBackfill",
    "startreceived": "StartReceived",
}


def selection(given: "dict[str, str]", cluster: str) -> "dict[str, Any]":
    """Return the request for what the options select; exit on a bad value."""
    start_us, end_us = _window(given)
    request: dict[str, Any] = {
        "clusters": [cluster],
        "start_us": start_us,
        "end_us": end_us,
        "with_steps": "allocations" not in given,
        "duplicates": "duplicates" in given,
    }
    for option, field in (
        ("accounts", "accounts"), ("partition", "partitions"), ("qos", "qos"), ("name", "names"),
        ("wckeys", "wckeys"), ("reason", "reasons"), ("constraints", "constraints"),
    ):  # fmt: skip
        if option in given:
            request[field] = split_list(given[option])
    if "associations" in given:
        request["association_ids"] = [_integer("associations", word)
                                      for word in split_list(given["associations"])]  # fmt: skip
    if "jobs" in given:
        request["jobs"] = jobs_of(given["jobs"])
        # A SLUID names one record, also that of a run before the newest.
        request["duplicates"] |= not any(wanted_job[0] for wanted_job in request["jobs"])
    if "state" in given:
        request["states"] = states(given["state"])
    if "flags" in given:
        request["flags"] = _flags(given["flags"])
    if "nodelist" in given:
        from pyslurm_ng.base.hostlist import HostlistError, expand

        try:
            request["nodes"] = expand(given["nodelist"])
        except HostlistError as problem:
            fail(f"sacct: error: Invalid node list: {problem}")
    chosen = uids(given)
    if chosen:
        request["uids"] = chosen
    if "gid" in given:
        request["gids"] = _gids(given["gid"])
    _ranges(given, request)
    if given.get("whole-hetjob", "no") in ("", "yes"):
        request["whole_het_job"] = True
    return request


def _ranges(given: "dict[str, str]", request: "dict[str, Any]") -> None:
    for option, least, most in (("nnodes", "nodes_min", "nodes_max"),
                                ("ncpus", "cpus_min", "cpus_max")):  # fmt: skip
        if option in given:
            low, dash, high = given[option].partition("-")
            request[least] = _integer(option, low)
            if dash:
                request[most] = _integer(option, high)
    for option, field in (("timelimit-min", "time_limit_min"), ("timelimit-max", "time_limit_max")):
        if option in given:
            from pyslurm_ng.base.units import UnitError, parse_time_limit_min

            try:
                request[field] = parse_time_limit_min(given[option])
            except UnitError:
                fail(f"sacct: fatal: Invalid time limit specification: {given[option]}")


def _integer(option: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 10:
        fail(f"sacct: error: Invalid value for --{option}: {text!r}; a number is allowed")
    return int(text)


def _window(given: "dict[str, str]") -> "tuple[int, int]":
    """Return the period to look at, in microseconds.

    The defaults are Slurm's: with states a moment rather than a period.
    """
    now_s = int(time())
    start_s = end_s = now_s
    if "jobs" in given:
        start_s = 0
    elif "state" not in given:
        today = localtime(now_s)
        midnight = (today.tm_year, today.tm_mon, today.tm_mday, 0, 0, 0, 0, 0, -1)
        start_s = int(mktime(midnight))
    if "starttime" in given:
        start_s = _moment(given["starttime"], now_s)
        if "state" in given:
            end_s = start_s
    if "endtime" in given:
        end_s = _moment(given["endtime"], now_s)
    if start_s > end_s:
        from pyslurm_ng.base.dates import format_date

        fail(
            f"sacct: error: Start time ({format_date(start_s)}) requested is after end time "
            f"({format_date(end_s)})."
        )
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


def jobs_of(text: str) -> "list[list[int]]":
    """Return job id, task, component and step of each item of --jobs; -1 for any.

    An item that is a SLUID has its number behind them.
    """
    from pyslurm_ng.base.job_ids import JobIdError, parse_job_id

    jobs: list[list[int]] = []
    for word in _split_outside_brackets(text):
        try:
            name = parse_job_id(word)
        except JobIdError:
            fail(f"sacct: fatal: Bad job/step specified: {word}")
        count = sum((high - low) // by + 1 for low, high, by in name.tasks)
        if len(jobs) + count > MOST_JOBS:
            fail(f"sacct: fatal: Bad job/step specified: {word}: at most {MOST_JOBS} are allowed")
        step = name.step - 2**32 if name.step > MAX_NORMAL_STEP_ID else name.step
        tasks = [task for low, high, by in name.tasks for task in range(low, high + 1, by)]
        for task in tasks or [-1]:
            sluid = [name.sluid] if name.sluid else []
            jobs.append([name.job_id, task, name.het_offset, step, *sluid])
    return jobs


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
        else:
            numbers.append(next(name for flag, name, _ in JOB_FLAGS if flag == bit))
    return numbers


def _flags(text: str) -> "list[str]":
    flags = []
    for word in split_list(text):
        names = [name for key, name in FLAG_NAMES.items() if key.startswith(word.lower())]
        if not names:
            fail(f"sacct: fatal: Invalid flag: {word}")
        flags.append(names[0])
    return flags


def uids(given: "dict[str, str]") -> "list[int]":
    """Return the users to show; empty for all users, the default of root and with job ids."""
    if "user" in given:
        from pyslurm_ng.cli.command import uid_of

        wanted_uids = []
        for word in split_list(given["user"]):
            uid = uid_of(word)
            if uid < 0:
                fail(f"sacct: fatal: Invalid user id: {word}")
            wanted_uids.append(uid)
        return wanted_uids
    if "allusers" in given or "jobs" in given or os.getuid() == 0:
        return []
    return [os.getuid()]


def _gids(text: str) -> "list[int]":
    import grp

    gids = []
    for word in split_list(text):
        try:
            gids.append(int(word) if word.isdigit() else grp.getgrnam(word).gr_gid)
        except KeyError:
            fail(f"sacct: fatal: Invalid group id: {word}")
    return gids
