"""squeue: jobs and steps in the queue."""

import os

from pyslurm_ng.base.numbers import (
    JOB_FLAG_COMPLETING,
    JOB_FLAG_STAGE_OUT,
    JOB_PENDING,
    JOB_RUNNING,
    JOB_SUSPENDED,
    NO_UID,
    SHOW_ALL,
    SHOW_DETAIL,
)
from pyslurm_ng.base.state_names import job_state_list, parse_job_state
from pyslurm_ng.cli.command import (
    Table,
    fail,
    is_person,
    read_conf,
    say,
    split_list,
    uid_of,
    write_bytes,
)
from pyslurm_ng.cli.listing.job_columns import ALL_LETTERS, BY_LETTER, FIELDS, ID_FIELDS, Context
from pyslurm_ng.cli.listing.job_order import UNSORTABLE, fields_to_sort, sort_jobs
from pyslurm_ng.cli.listing.list_format import Format, lines_of, parse_long, parse_short
from pyslurm_ng.cli.listing.squeue_options import (
    choose_format,
    headings,
    parameters,
    shows_closed,
)
from pyslurm_ng.cli.option_words import NONE, OPTIONAL, REQUIRED
from pyslurm_ng.cli.program import Program, names_clusters, on_clients, repeat
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.wire.client import Client

OPTIONS = (
    ("accounts", "A", REQUIRED),
    ("all", "a", NONE),
    ("array", "r", NONE),
    ("autocomplete", "", REQUIRED),
    ("cluster", "M", REQUIRED),
    ("clusters", "M", REQUIRED),
    ("expand-patterns", "", NONE),
    ("federation", "", NONE),
    ("follow", "", NONE),
    ("Format", "O", REQUIRED),
    ("format", "o", REQUIRED),
    ("help", "", NONE),
    ("helpformat", "", NONE),
    ("helpFormat", "", NONE),
    ("helpstate", "", NONE),
    ("hide", "", NONE),
    ("iterate", "i", REQUIRED),
    ("jobs", "j", OPTIONAL),
    ("json", "", OPTIONAL),
    ("licenses", "L", REQUIRED),
    ("local", "", NONE),
    ("long", "l", NONE),
    ("me", "", NONE),
    ("name", "n", REQUIRED),
    ("node", "w", REQUIRED),
    ("nodelist", "w", REQUIRED),
    ("nodes", "w", REQUIRED),
    ("noconvert", "", NONE),
    ("noheader", "h", NONE),
    ("notme", "", NONE),
    ("only-job-state", "", NONE),
    ("partitions", "p", REQUIRED),
    ("priority", "P", NONE),
    ("qos", "q", REQUIRED),
    ("reservation", "R", REQUIRED),
    ("running-over", "", REQUIRED),
    ("running-under", "", REQUIRED),
    ("sib", "", NONE),
    ("sibling", "", NONE),
    ("sort", "S", REQUIRED),
    ("start", "", NONE),
    ("states", "t", REQUIRED),
    ("steps", "s", OPTIONAL),
    ("usage", "", NONE),
    ("user", "u", REQUIRED),
    ("users", "u", REQUIRED),
    ("verbose", "v", NONE),
    ("version", "V", NONE),
    ("yaml", "", OPTIONAL),
)
_SAME = {
    "cluster": "clusters",
    "node": "nodelist",
    "nodes": "nodelist",
    "sib": "sibling",
    "user": "users",
}
_ENVIRONMENT = (
    ("SQUEUE_ACCOUNT", "accounts"),
    ("SQUEUE_ALL", "all"),
    ("SQUEUE_ARRAY", "array"),
    ("SLURM_CLUSTERS", "clusters"),
    ("SQUEUE_FEDERATION", "federation"),
    ("SQUEUE_LOCAL", "local"),
    ("SQUEUE_SIBLING", "sibling"),
    ("SQUEUE_FORMAT2", "Format"),
    ("SQUEUE_FORMAT", "format"),
    ("SQUEUE_LICENSES", "licenses"),
    ("SQUEUE_NAMES", "name"),
    ("SQUEUE_PARTITION", "partitions"),
    ("SQUEUE_PRIORITY", "priority"),
    ("SQUEUE_QOS", "qos"),
    ("SQUEUE_SORT", "sort"),
    ("SQUEUE_STATES", "states"),
    ("SQUEUE_USERS", "users"),
)
USAGE = """\
Usage: squeue [-A account] [--clusters names] [-i seconds] [--job jobid]
              [-n name] [-o format] [--only-job-state] [-p partitions]
              [--qos qos] [--reservation reservation] [--sort fields] [--start]
              [--step step_id] [-t states] [-u user_name] [--usage]
              [-L licenses] [-w nodes] [--federation] [--local] [--sibling]
              [--expand-patterns] [--json=data_parser] [--yaml=data_parser]
              [--running-over=time] [--running-under=time] [-ahjlrsv]"""

DEFAULT_FORMAT = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
LONG_FORMAT = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"
START_FORMAT = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
STATE_FORMAT = "%.18i %.2t"
# The fields that the controller sends without SHOW_DETAIL; a test compares the lists.
BRIEF_FIELDS = frozenset(
    "job_id array_job_id array_task_id array_tasks array_limit het_job_id het_offset user_id "
    "user_name name partition account qos state flags submit_us start_us end_us suspend_us "
    "suspended_us time_limit_min node_count cpus tasks nodes priority reason reason_text "
    "expected_start_us sched_nodes".split()
)


PROGRAM = Program(
    "squeue",
    OPTIONS,
    USAGE,
    same=_SAME,
    environment=_ENVIRONMENT,
    opposites=(("format", "Format"), ("me", "users"), ("all", "hide")),
    tells={
        "helpformat": lambda: "\n".join(
            f"%{letter}: {FIELDS[BY_LETTER[letter]][1]}" for letter in ALL_LETTERS
        ),
        "helpFormat": lambda: " ".join(sorted(FIELDS)),
        "helpstate": lambda: job_state_list().replace(",", "\n"),
    },
)


def main(argv: "list[str]") -> int:
    """Run squeue; return its exit code."""
    options, operands = PROGRAM.read(argv)
    choose_format(options, [name for name, _ in options.pairs])
    for name in ("jobs", "steps"):
        # Their argument is optional, so getopt leaves one that stands apart among the operands.
        if operands and options.get(name) == "":
            options[name] = operands.pop(0) or ","
    PROGRAM.no_operands(operands, with_usage=True)
    confs = PROGRAM.clusters(options, read_conf("squeue"))
    job_filter = filter_of(options)
    if "verbose" in options:
        write_bytes(parameters(options, options.times("verbose")))
    if "follow" in options:
        return _follow(options, job_filter)
    show = on_clients(
        confs,
        lambda client, name: _show(options, client, job_filter, argv, name),
        is_apart=names_clusters(options),
    )
    return repeat("squeue", options, show)


def _follow(options: "dict[str, str]", job_filter: "dict[str, Any]") -> int:
    """List jobs, and then each that changes."""
    from pyslurm_ng.cli.command import connect
    from pyslurm_ng.cli.listing.squeue_follow import check_options, follow_jobs

    check_options(options)
    conf = read_conf("squeue")
    client = connect(conf)
    plain = {name: value for name, value in options.items() if name != "verbose"}
    bare = {**plain, "noheader": ""}
    try:
        return follow_jobs(
            conf,
            job_filter,
            lambda shown_filter, is_first: show_jobs(
                plain if is_first else bare, client, shown_filter
            ),
            has_states=bool(options.get("states")),
            show_flags=SHOW_ALL if "all" in options else 0,
        )
    except SlurmError as error:
        return failed(error)


def filter_of(options: "dict[str, str]") -> "dict[str, Any]":
    """Return the options as the wire's JobFilter.

    An empty list names no job: a script may have given an empty variable.
    """
    job_filter: dict[str, Any] = {}
    for option, field in (
        ("accounts", "accounts"),
        ("name", "names"),
        ("partitions", "partitions"),
        ("qos", "qos"),
        ("licenses", "licenses"),
        ("reservation", "reservations"),
    ):
        if option in options:
            job_filter[field] = split_list(options[option])
    if options.get("nodelist"):
        job_filter["nodes"] = options["nodelist"]
    if "me" in options:
        job_filter["uids"] = [os.getuid()]
    elif "users" in options:
        job_filter["uids"] = _uids(options["users"])
    if "notme" in options:
        job_filter["not_uids"] = [os.getuid()]
    if options.get("jobs"):
        job_filter["jobs"] = _job_ids(options["jobs"])
    for option, field in (("running-over", "running_over_s"), ("running-under", "running_under_s")):
        if option in options:
            job_filter[field] = _seconds(option, options[option])
    if [] in job_filter.values() or "" in (options.get("states"), options.get("nodelist")):
        return {"uids": [NO_UID]}
    job_filter.update(_states(options))
    return job_filter


def _job_ids(text: str) -> "list[str]":
    from pyslurm_ng.base.job_ids import JobIdError, parse_job_id, split_job_ids

    texts = split_job_ids(text)
    for job_id in texts:
        try:
            parse_job_id(job_id)
        except JobIdError:
            fail(f"squeue: error: Invalid job id: {job_id}")
    return texts


def _uids(text: str) -> "list[int]":
    uids = []
    for word in split_list(text):
        uid = uid_of(word)
        if uid < 0 or not is_person(uid):
            say(f"squeue: error: Invalid user: {word}\n")
            uid = NO_UID  # an empty list would mean the jobs of all users
        uids.append(uid)
    return uids


def _seconds(option: str, text: str) -> int:
    from pyslurm_ng.base.units import UnitError, parse_time_limit_s

    try:
        return parse_time_limit_s(text)
    except UnitError:
        fail(f"squeue: error: Invalid time specification: --{option}={text}")


def _states(options: "dict[str, str]") -> "dict[str, Any]":
    text = options.get("states", "")
    if not text:
        if "start" in options:
            return {"states": [JOB_PENDING]}
        # All jobs that are not over; a job that is over but cleans up counts as completing, and one
        # whose burst buffer is staged out is listed as long as that takes.
        return {
            "states": [JOB_PENDING, JOB_RUNNING, JOB_SUSPENDED],
            "state_flags": JOB_FLAG_COMPLETING | JOB_FLAG_STAGE_OUT,
        }
    states: list[int] = []
    flags = 0
    if text.lower() == "all":
        return {"all_states": True}
    for word in split_list(text):
        state = parse_job_state(word)
        if state is None:
            fail(
                f"squeue: error: Invalid job state specified: {word}\n"
                f"squeue: error: Valid job states include: {job_state_list()}\n"
            )
        if state[0] >= 0:
            states.append(state[0])
        flags |= state[1]
    return {"states": states, "state_flags": flags}


# Jobs -----------------------------------------------------------------------------------------


def _show(
    options: "dict[str, str]",
    client: "Client",
    job_filter: "dict[str, Any]",
    argv: "list[str]",
    cluster: str,
) -> int:
    try:
        if "steps" in options:
            from pyslurm_ng.cli.listing.squeue_steps import show_steps

            return show_steps(options, client, job_filter, argv)
        if "json" in options:
            from pyslurm_ng.cli.listing.job_documents import print_jobs

            return print_jobs(["squeue", *argv], client, job_filter, shows_closed(options))
        return show_jobs(options, client, job_filter)
    except SlurmError as error:
        if names_clusters(options):
            print(f"CLUSTER: {cluster}")
        return failed(error)


def failed(error: SlurmError) -> int:
    """Print why the controller gave no answer; return the exit code."""
    detail, _, text = error.text.rpartition("\n")
    if text == "Invalid node name specified" and detail:
        say(f"squeue: error: Invalid node name {detail}")
    else:
        say(f"slurm_load_jobs error: {text}")
    return 1


def format_of(options: "dict[str, str]") -> Format:
    """Return the format that the options choose, keyed by long names; say what is wrong."""
    text = options.get("Format")
    if text is not None:
        chosen = parse_long(text, FIELDS)
    else:
        if "format" in options:
            text = options["format"]
        elif "start" in options:
            text = START_FORMAT
        elif "long" in options:
            text = LONG_FORMAT
        elif "only-job-state" in options:
            text = STATE_FORMAT
        else:
            text = DEFAULT_FORMAT
        chosen = parse_short(text, BY_LETTER, ALL_LETTERS)
        for column in chosen.columns:
            column.key = BY_LETTER[column.key]
    for word in chosen.bad:
        say(f"squeue: error: Invalid job format specification: {word}")
    return chosen


def sort_keys(options: "dict[str, str]") -> "list[tuple[str, bool]]":
    """Return (long field name, descending) from the most to the least important.

    A sign belongs to the letter that follows it; commas only separate letters.
    """
    text = options.get("sort") or ("S" if "start" in options else "P,t,-p")
    keys = []
    descending = False
    for letter in text:
        if letter in "+-#, ":
            descending = letter == "-"
            continue
        name = BY_LETTER.get(letter)
        if name is None or letter in UNSORTABLE:
            fail(f"squeue: error: Invalid sort specification: {letter}")
        keys.append((name, descending))
        descending = False
    return keys


def _listed(client: "Client", request: "dict[str, Any]") -> "dict[str, Any]":
    if not request["filter"].get("jobs"):
        return client.call("ShowJobs", request)
    from pyslurm_ng.cli.request_parts import show_all

    return show_all(client, "ShowJobs", request)


def show_jobs(options: "dict[str, str]", client: "Client", job_filter: "dict[str, Any]") -> int:
    """Ask for jobs and print them."""
    chosen = format_of(options)
    keys = sort_keys(options)
    fields = FIELDS
    if "expand-patterns" in options:
        from pyslurm_ng.cli.listing.file_columns import FILES

        fields = {**FIELDS, **FILES}
    field_names: dict[str, None] = {}
    for column in chosen.columns:
        field_names.update(dict.fromkeys(fields[column.key][2]))
    for name, _ in keys:
        field_names.update(dict.fromkeys(fields_to_sort(name)))
    field_names.update(dict.fromkeys((*ID_FIELDS, "partition", "state")))
    flags = SHOW_ALL if shows_closed(options) else 0
    if not BRIEF_FIELDS.issuperset(field_names):
        flags |= SHOW_DETAIL
    reply = _listed(client, {"filter": job_filter, "flags": flags})
    table = Table(reply["fields"], reply["records"], list(field_names))
    if "array" in options:
        _expand_arrays(table)
    if "priority" in options:
        _expand_partitions(table, job_filter.get("partitions"))
    sort_jobs(table, keys, reply["now_us"])
    context = Context(reply["now_us"], reply["cluster_name"], is_raw="noconvert" in options)
    out = [headings(options, context, len(table.rows))]
    out.append(lines_of(chosen, table, context, fields, "noheader" not in options))
    write_bytes(b"".join(out))
    return 0


def _expand_arrays(table: Table) -> None:
    """Replace the record of an array's waiting tasks by one row for each task."""
    tasks_at, task_at = table.at["array_tasks"], table.at["array_task_id"]
    rows = []
    for row in table.rows:
        if not row[tasks_at]:
            rows.append(row)
            continue
        values = list(row)
        values[tasks_at] = ""
        for task_id in _task_ids(row[tasks_at]):
            values[task_at] = task_id
            rows.append(tuple(values))
    table.rows = rows


def _task_ids(text: str) -> "list[int]":
    ids: list[int] = []
    for part in text.split(","):
        span, _, step = part.partition(":")
        first, _, last = span.partition("-")
        ids.extend(range(int(first), int(last or first) + 1, int(step or 1)))
    return ids


def _expand_partitions(table: Table, only: "list[str] | None") -> None:
    """Replace a pending job that names several partitions by one row for each of them."""
    partition_at, state_at = table.at["partition"], table.at["state"]
    rows = []
    for row in table.rows:
        if row[state_at] or "," not in row[partition_at]:
            rows.append(row)
            continue
        values = list(row)
        for name in row[partition_at].split(","):
            if only and name not in only:
                continue
            values[partition_at] = name
            rows.append(tuple(values))
    table.rows = rows
