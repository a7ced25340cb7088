"""sacct: accounting of jobs and steps."""

import os
from time import localtime, mktime, time

from pyslurm_ng.cli.command import fail, read_conf, split_list, write_bytes
from pyslurm_ng.cli.program import Program, foreign_cluster, option_lines
from pyslurm_ng.cli.tables.sacct_fields import (
    BRIEF_FORMAT,
    DEFAULT_FORMAT,
    FIELDS,
    LONG_FORMAT,
    OPTIONS,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.cli.sacct_columns import Context
    from pyslurm_ng.wire.client import Client

    Row = dict[str, Any]

SAME = {
    "cluster": "clusters",
    "fields": "format",
    "group": "gid",
    "help-fields": "helpformat",
    "uid": "user",
}
REPEATABLE = ("jobs", "accounts", "user", "state", "partition", "name", "nodelist")
FLAG_NAMES = {
    "schedsubmit": "SchedSubmit",
    "schedmain": "SchedMain",
    "schedbackfill": "SchedBackfill",
    "startreceived": "StartReceived",
}
TEXT_LINE = "-" * 80


def main(argv: "list[str]") -> int:
    """Run sacct; return its exit code."""
    given, operands = PROGRAM.read(argv)
    if operands:
        fail(f"sacct: error: Unknown arguments:\nsacct: error:  {' '.join(operands)}")
    for name in REPEATABLE:  # lists may be given in pieces
        if name in given:
            given[name] = ",".join(value for other, value in given.pairs if other == name)
    if "completion" in given:
        return _completions(given)
    if "file" in given:
        fail("sacct: error: --file is for --completion only")
    return _report(given, argv)


def _completions(given: "dict[str, str]") -> int:
    from pyslurm_ng.cli import sacct_completion

    usual = sacct_completion.LONG_FORMAT if "long" in given else sacct_completion.FORMAT
    conf = read_conf("sacct", "JobCompLoc")
    return sacct_completion.show(conf, given, _chosen_fields(given, usual))


def _report(given: "dict[str, str]", argv: "list[str]") -> int:
    conf = read_conf("sacct", "AccountingStorageType", "PrivateData")
    storage = conf.get("AccountingStorageType", "")
    if not storage.endswith("slurmdbd"):
        fail("Slurm accounting storage is disabled")
    from pyslurm_ng.wire.client import Client

    client = Client(conf, "slurmdbd", wait_s=0.5)
    try:
        return _answer(client, conf, given, argv)
    finally:
        client.close()


def _answer(
    client: "Client", conf: "dict[str, str]", given: "dict[str, str]", argv: "list[str]"
) -> int:
    cluster = conf.get("ClusterName", "cluster").lower()
    foreign = foreign_cluster(given.get("clusters", os.environ.get("SLURM_CLUSTERS", "")), cluster)
    if foreign:
        fail(f"sacct: error: --clusters={foreign}: other clusters are not supported yet")
    if "batch-script" in given or "env-vars" in given:
        return _texts(client, cluster, given)
    request = _selection(given, cluster)
    if "json" in given:
        from pyslurm_ng.cli import sacct_json

        request["columns"], request["step_columns"] = sacct_json.columns()
        jobs = list(_ask(client, request))
        write_bytes(sacct_json.document(jobs, cluster, argv))
        return 0
    chosen = _chosen_fields(given)
    return _table(client, request, chosen, given)


# Selection ------------------------------------------------------------------------------------


def _selection(given: "dict[str, str]", cluster: str) -> "dict[str, Any]":
    """Return the request for what the options select; leaves on a bad value."""
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
        request["jobs"] = _jobs(given["jobs"])
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
    # An end in whole seconds includes what happened within the last of them.
    return start_s * 1_000_000, end_s * 1_000_000 + 999_999


def _moment(text: str, now_s: int) -> int:
    from pyslurm_ng.base.dates import DateError, parse_date

    try:
        return parse_date(text, now_s, past=True)
    except DateError as problem:
        fail(str(problem))


def _jobs(text: str) -> "list[list[int]]":
    from pyslurm_ng.base.job_ids import JobIdError, parse_job_id

    found: list[list[int]] = []
    for word in _split_outside_brackets(text):
        try:
            name = parse_job_id(word)
        except JobIdError:
            fail(f"sacct: fatal: Bad job/step specified: {word}")
        step = name.step - 2**32 if name.step > 4294967280 else name.step
        tasks = [task for low, high, by in name.tasks for task in range(low, high + 1, by)]
        for task in tasks or [-1]:
            found.append([name.job_id, task, name.het_offset, step])
    return found


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
    """Return the names of states as records have them; leaves on an unknown one."""
    from pyslurm_ng.base.state_names import JOB_FLAGS, JOB_STATES, parse_job_state

    found = []
    for word in split_list(text):
        state = parse_job_state(word)
        if state is None:
            fail(f"sacct: fatal: unrecognized job state value '{word}'")
        number, bit = state
        if number >= 0:
            found.append(JOB_STATES[number][0])
        else:
            found.append(next(name for flag, name, _ in JOB_FLAGS if flag == bit))
    return found


def _flags(text: str) -> "list[str]":
    found = []
    for word in split_list(text):
        names = [name for key, name in FLAG_NAMES.items() if key.startswith(word.lower())]
        if not names:
            fail(f"sacct: fatal: Invalid flag: {word}")
        found.append(names[0])
    return found


def uids(given: "dict[str, str]") -> "list[int]":
    """Return the users to show, empty for all: root's default, and with ids of jobs anybody's."""
    if "user" in given:
        from pyslurm_ng.cli.command import uid_of

        found = []
        for word in split_list(given["user"]):
            uid = uid_of(word)
            if uid < 0:
                fail(f"sacct: fatal: Invalid user id: {word}")
            found.append(uid)
        return found
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


# Answers --------------------------------------------------------------------------------------


def _ask(client: "Client", request: "dict[str, Any]") -> "Any":
    """Yield (part of the answer, jobs) as they come; leaves when the daemon refuses."""
    from pyslurm_ng.wire.client import SlurmError

    try:
        yield from client.stream("ListJobRecords", request, 600)
    except SlurmError as error:
        _fail_for(error)


def _fail_for(error: "Any") -> None:
    if 1000 < error.code < 1900 or error.code == 5004:
        detail = error.detail or error.text
        fail(f"sacct: error: Problem talking to the database: {detail}")
    fail(f"sacct: error: {error.text}")


def rows_of(part: "dict[str, Any]", request: "dict[str, Any]") -> "list[tuple[Row, Row | None]]":
    """Return (job, None) and (job, step) in print order; only the steps asked for by -j."""
    from pyslurm_ng._records import project

    names = part["fields"]
    jobs = [
        dict(zip(names, values, strict=True))
        for values in project(part["records"], range(len(names)))
    ]
    steps: dict[int, list[Row]] = {}
    step_names = part["step_fields"]
    if request.get("step_columns"):
        for values in project(part["step_records"], range(len(step_names))):
            steps.setdefault(values[0], []).append(dict(zip(step_names, values, strict=True)))
    only = [one for one in request.get("jobs", ()) if one[3] != -1]
    found: list[tuple[Row, Row | None]] = []
    for position, job in enumerate(jobs):
        own = steps.get(position, ())
        if only:
            wanted = [one for one in request["jobs"] if _names(one, job)]
            numbers = {one[3] for one in wanted}
            if -1 not in numbers:
                found += [(job, step) for step in own if step["step_id"] in numbers]
                continue
        found.append((job, None))
        found += [(job, step) for step in own]
    return found


def _names(selector: "list[int]", job: "Row") -> bool:
    job_id, task, offset, _ = selector
    if task >= 0:
        return bool(job["array_job_id"] == job_id and job["array_task_id"] in (task, -1))
    if offset >= 0:
        return bool(job["het_job_id"] == job_id and job["het_job_offset"] == offset)
    return job_id in (job["job_id"], job["array_job_id"], job["het_job_id"])


def _table(
    client: "Client",
    request: "dict[str, Any]",
    chosen: "list[tuple[str, int, bool]]",
    given: "dict[str, str]",
) -> int:
    from pyslurm_ng._records import render
    from pyslurm_ng.cli.sacct_columns import FIELDS as TEXTS, Context

    job_columns, step_columns = _columns(TEXTS, chosen, request)
    request["columns"], request["step_columns"] = job_columns, step_columns
    spec = layout(given, chosen)
    is_first = True
    for part in _ask(client, request):
        context = Context(part["now_us"], part["cluster"])
        _set_units(context, given, request)
        context.qos = part["qos"]
        if is_first and "noheader" not in given:
            write_bytes(header(given, chosen, spec))
        is_first = False
        rows = rows_of(part, request)
        if "array" in given:
            rows = _expand_arrays(rows)
        makers = [(TEXTS[name][1], TEXTS[name][3]) for name, _, _ in chosen]
        write_bytes(render(_cells(rows, makers, context), spec))
    return 0


def _cells(rows: "list[tuple[Row, Row | None]]", makers: "Any", context: "Context") -> "Any":
    for job, step in rows:
        if step is None:
            yield [_cell(of_job(job, context)) if of_job else "" for of_job, _ in makers]
        else:
            yield [_cell(of_step(step, job, context)) if of_step else "" for _, of_step in makers]


def _cell(value: "Any") -> "str | int":
    """Return a cell as it may stand in a line: control characters of users' texts are shown."""
    if isinstance(value, str) and not value.isprintable():
        return "".join(char if char.isprintable() else "?" for char in value)
    return value  # type: ignore[no-any-return]


def _is_parsable(given: "dict[str, str]") -> bool:
    return "parsable2" in given or "parsable" in given


def layout(given: "dict[str, str]", chosen: "list[tuple[str, int, bool]]") -> "Any":
    """Return how `render` is to print the fields."""
    from pyslurm_ng._records import MARK, RIGHT

    if not _is_parsable(given):
        return [(width, (0 if is_left else RIGHT) | MARK, " ") for _, width, is_left in chosen]
    delimiter = given.get("delimiter", "|")
    tail = delimiter if "parsable2" not in given else ""
    return [(0, 0, delimiter)] * (len(chosen) - 1) + [(0, 0, tail)]


def header(given: "dict[str, str]", chosen: "list[tuple[str, int, bool]]", spec: "Any") -> bytes:
    """Return the names of the fields, and a line below them unless for programs."""
    from pyslurm_ng._records import MARK, render

    lines = [[name for name, _, _ in chosen]]
    plain = [(width, flags & ~MARK, tail) for width, flags, tail in spec]
    if not _is_parsable(given):
        lines.append(["-" * width for width, _, _ in spec])
    return render(lines, plain)


def _columns(
    texts: "Any", chosen: "list[tuple[str, int, bool]]", request: "dict[str, Any]"
) -> "tuple[list[str], list[str]]":
    """Return the stored columns that the fields need."""
    job: dict[str, None] = {}
    step: dict[str, None] = {}
    for name, _, _ in chosen:
        job.update(dict.fromkeys(texts[name][0]))
        step.update(dict.fromkeys(texts[name][2]))
    if request.get("jobs") or not job:
        ids = ("job_id", "array_job_id", "array_task_id", "het_job_id", "het_job_offset")
        job.update(dict.fromkeys(ids))
    job.update(dict.fromkeys(("array_job_id", "array_task_id", "array_tasks")))
    step["step_id"] = None
    return list(job), list(step) if request["with_steps"] else []


def _expand_arrays(rows: "list[tuple[Row, Row | None]]") -> "list[tuple[Row, Row | None]]":
    """Return a row for each waiting task of an array (--array)."""
    found: list[tuple[Row, Row | None]] = []
    for job, step in rows:
        if not job["array_tasks"]:
            found.append((job, step))
            continue
        for word in job["array_tasks"].partition("%")[0].split(","):
            span, _, by = word.partition(":")
            first, _, last = span.partition("-")
            for task in range(int(first), int(last or first) + 1, int(by or 1)):
                found.append(({**job, "array_tasks": "", "array_task_id": task}, step))
    return found


def _set_units(context: "Context", given: "dict[str, str]", request: "dict[str, Any]") -> None:
    unit = given.get("units", "").upper()
    if unit and (len(unit) != 1 or unit not in "KMGTP"):
        fail(f"sacct: fatal: Invalid unit type '{given['units']}'; K, M, G, T, P are allowed")
    context.unit = unit
    context.raw = "noconvert" in given
    context.truncate = "truncate" in given
    context.start_us, context.end_us = request["start_us"], request["end_us"]


def _chosen_fields(given: "dict[str, str]", usual: str = "") -> "list[tuple[str, int, bool]]":
    """Return name, width, and whether aligned to the left, of the fields to print.

    `usual` takes the place of the formats that other options stand for.
    """
    if "format" in given:
        text = given["format"]
    elif usual:
        text = usual
    elif "brief" in given:
        text = BRIEF_FORMAT
    elif "long" in given:
        text = LONG_FORMAT
    else:
        text = os.environ.get("SACCT_FORMAT", "") or DEFAULT_FORMAT
    chosen = []
    for word in split_list(text):
        name, percent, size = word.partition("%")
        if name.lower() == "all":
            chosen += [(field, width, is_left) for field, width, is_left in FIELDS]
            continue
        field = _field(name)
        if field is None:
            fail(f'sacct: error: Invalid field requested: "{name}"')
        full, width, is_left = field
        if percent:
            digits = size.lstrip("-")
            if not digits.isdigit() or len(digits) > 5:
                fail(f'sacct: error: Invalid field requested: "{word}"')
            # A width given aligns to the right unless it is negative.
            width, is_left = int(digits), size.startswith("-")
        chosen.append((full, width, is_left))
    if not chosen:
        fail("sacct: error: No fields requested")
    return chosen


def _field(name: str) -> "tuple[str, int, bool] | None":
    wanted = name.lower()
    for field in FIELDS:
        if field[0].lower() == wanted:
            return field
    for field in FIELDS:
        if field[0].lower().startswith(wanted):
            return field
    return None


# Texts ----------------------------------------------------------------------------------------


def _texts(client: "Client", cluster: str, given: "dict[str, str]") -> int:
    """Print stored scripts or environments (-B, --env-vars)."""
    from pyslurm_ng.wire.client import SlurmError

    is_script = "batch-script" in given
    if "jobs" not in given:
        option = "--batch-script" if is_script else "--env-vars"
        fail(f"sacct: fatal: {option} requires job ids, given with -j")
    for selector in _jobs(given["jobs"]):
        job_id = selector[0]
        fields = {"cluster": cluster, "job_id": job_id, "want_environment": not is_script}
        try:
            text = client.call("GetJobScript", fields)["text"]
        except SlurmError as error:
            _fail_for(error)
        if is_script:
            print(f"Batch Script for {job_id}")
        else:
            print(f"Environment used for {job_id} (must be batch to display)")
        print(TEXT_LINE)
        text = text.replace("\0", "\n")
        print(text or "NONE", end="" if text.endswith("\n") else "\n")
    return 0


def _help_format() -> str:
    lines = []
    names = [name for name, _, _ in FIELDS]
    for first in range(0, len(names), 4):
        lines.append(" ".join(f"{name:<19s}" for name in names[first : first + 4]))
    return "\n".join(lines)


def _help_state() -> str:
    from pyslurm_ng.base.state_names import job_state_list

    return job_state_list().replace(",", "\n").upper()


def _help_reason() -> str:
    from pyslurm_ng.model.states import Reason, reason_text

    return "\n".join(reason_text(reason) for reason in Reason)


def _usage() -> str:
    names = " ".join(f"--{name}" for name, _, _ in OPTIONS)
    return f"sacct [<OPTION>]\n    Valid <OPTION> values are: {names}"


def _help() -> str:
    """Return the options; what they do is in the manual page."""
    options = option_lines(OPTIONS, SAME)
    return f"sacct [<OPTION>]\n    Valid <OPTION> values are:\n{options}"


PROGRAM = Program(
    "sacct",
    OPTIONS,
    "",
    same=SAME,
    tells={
        "help": _help,
        "usage": _usage,
        "helpformat": _help_format,
        "helpreason": _help_reason,
        "helpstate": _help_state,
    },
)
