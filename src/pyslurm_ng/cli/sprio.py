"""sprio: the factors of the priorities of waiting jobs."""

import os

from pyslurm_ng.base.job_ids import JobIdError, parse_job_id
from pyslurm_ng.base.numbers import INFINITE, NO_VAL
from pyslurm_ng.cli.command import (
    Table,
    connect,
    fail,
    is_person,
    read_conf,
    say,
    split_list,
    uid_of,
    write_bytes,
)
from pyslurm_ng.cli.listing.list_format import parse_short
from pyslurm_ng.cli.option_words import NONE, OPTIONAL, REQUIRED
from pyslurm_ng.cli.program import OptionValues, Program, names_clusters, shows_federation
from pyslurm_ng.cli.request_parts import show_all
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Row = dict[str, Any]

OPTIONS = (
    ("autocomplete", "", REQUIRED),
    ("cluster", "M", REQUIRED),
    ("clusters", "M", REQUIRED),
    ("federation", "", NONE),
    ("format", "o", REQUIRED),
    ("help", "", NONE),
    ("helpformat", "", NONE),
    ("jobs", "j", OPTIONAL),
    ("local", "", NONE),
    ("long", "l", NONE),
    ("noheader", "h", NONE),
    ("norm", "n", NONE),
    ("partition", "p", REQUIRED),
    ("sib", "", NONE),
    ("sibling", "", NONE),
    ("sort", "S", REQUIRED),
    ("usage", "", NONE),
    ("user", "u", REQUIRED),
    ("users", "u", REQUIRED),
    ("verbose", "v", NONE),
    ("version", "V", NONE),
    ("weights", "w", NONE),
)
USAGE = (
    "Usage: sprio [-M cluster] [-h|--noheader] [-j jid[s]] [-l|--long] [-n|--norm] [-o format]"
    "\n             [-p partition] [-S sort] [-u user[s]] [-v|--verbose] [-V|--version] "
    "[-w|--weights] [--helpformat] [--usage]"
)
# Letter of the weighted column, field of the factor, the same of its weight, heading, width.
FACTORS = (
    ("A", "age", "AGE", 10),
    ("B", "assoc", "ASSOC", 10),
    ("F", "fairshare", "FAIRSHARE", 10),
    ("J", "size", "JOBSIZE", 10),
    ("P", "partition_factor", "PARTITION", 10),
    ("Q", "qos_factor", "QOS", 10),
    ("T", "tres", "TRES", 20),
)
BASE, NORM_BASE = "%.15i %9r %.10Y %.10S", "%.15i %9r %10y"
LONG = "%.15i %9r %.8u %.8o %.10Y %.10S %.10A %.10B %.10F %.10J %.10P %.10n %.10Q %.11N %.20T"
NORM_LONG = "%.15i %9r %.8u %.8o %10y %10a %10b %10f %10j %10p %10n %10q %20t"
HEADINGS = {
    "c": "CLUSTER",
    "i": "JOBID",
    "n": "QOSNAME",
    "N": "NICE",
    "o": "ACCOUNT",
    "r": "PARTITION",
    "s": "SLUID",
    "S": "SITE",
    "u": "USER",
    "y": "PRIORITY",
    "Y": "PRIORITY",
    **{letter: heading for letter, _, heading, _ in FACTORS},
    **{letter.lower(): heading for letter, _, heading, _ in FACTORS},
}
LETTERS = "".join(sorted(HEADINGS, key=lambda letter: (letter.lower(), letter)))
_TEXT_FIELDS = {"i": "job_id", "n": "qos", "N": "nice", "o": "account", "r": "partition",
                "s": "sluid", "S": "site", "u": "user_name", "Y": "priority"}  # fmt: skip
PROGRAM = Program(
    "sprio",
    OPTIONS,
    USAGE,
    same={"cluster": "clusters", "user": "users"},
    environment=(
        ("SLURM_CLUSTERS", "clusters"),
        ("SPRIO_FEDERATION", "federation"),
        ("SPRIO_LOCAL", "local"),
    ),
    tells={"helpformat": lambda: "\n".join(f"%{letter}  {HEADINGS[letter]}" for letter in LETTERS)},
)
_BILLION = 1_000_000_000
_NOBODY = NO_VAL  # the uid of no user: the list is empty then


def main(argv: "list[str]") -> int:
    """Run sprio; return its exit code."""
    options, operands = PROGRAM.read(argv)
    if operands and (options.get("jobs") != "" or len(operands) > 1):
        PROGRAM.no_operands(operands[-1:], with_usage=True)
    if operands:
        options["jobs"] = operands[0] or ","  # an empty list is none, and not -j alone
    conf = read_conf("sprio", "PriorityType")
    if "clusters" not in options and shows_federation(options, conf):
        from pyslurm_ng.cli.clusters import on_each

        confs = PROGRAM.clusters(options, conf)
        is_headed = names_clusters(options)
        return on_each(confs, lambda member: _show(options, member, is_headed), is_apart=is_headed)
    return _show(options, PROGRAM.cluster(options, conf))


def _show(options: "OptionValues", conf: "dict[str, str]", is_headed: bool = False) -> int:
    """Show one cluster, below its name if that is wanted; return the exit code."""
    if is_headed:
        print(f"CLUSTER: {conf.get('ClusterName', 'cluster')}")
    if conf.get("PriorityType", "priority/multifactor").lower().endswith("basic"):
        fail(
            "You are not running a supported priority plugin\n"
            f"({conf['PriorityType']}).\nOnly 'priority/multifactor' is supported."
        )
    try:
        reply = show_all(connect(conf), "ShowPriorities", {"filter": _filter(options)})
    except SlurmError as error:
        fail(f"slurm_load_jobs error: {error.text}" if "jobs" in options else error.text)
    return _print(options, reply)


def _filter(options: "dict[str, str]") -> "dict[str, Any]":
    """Return the filters that the controller applies."""
    job_filter: dict[str, Any] = {}
    if options.get("jobs"):
        job_filter["jobs"] = split_list(options["jobs"])
        for text in options["jobs"].split(","):
            if text and not _is_job(text.strip()):
                fail(f"sprio: error: Invalid job id: {text}")
        if not job_filter["jobs"]:
            return {"uids": [_NOBODY]}
    if "partition" in options:
        # An empty list names no partition: a script may have given an empty variable.
        job_filter["partitions"] = split_list(options["partition"]) or [""]
    if "users" in options:
        job_filter["uids"] = _uids(split_list(options["users"]))
    return job_filter


def _uids(names: "list[str]") -> list[int]:
    """Return the uids of users; an unknown one costs a line, and has no jobs."""
    uids = []
    for name in names:
        uid = uid_of(name)
        if uid >= 0 and is_person(uid):
            uids.append(uid)
        else:
            say(f"sprio: error: Invalid user: {name}\n")
    return uids or [_NOBODY]


def _is_job(text: str) -> bool:
    """Return whether a text is a job's number or SLUID."""
    try:
        name = parse_job_id(text)
    except JobIdError:
        return False
    return name.step < 0 and (text.isdecimal() or bool(name.sluid))


def default_format(options: "dict[str, str]", weights: "Row") -> str:
    """Return the format of the switches; factors that weigh nothing have no column."""
    is_norm = "norm" in options
    if "long" in options:
        return NORM_LONG if is_norm else LONG
    text = NORM_BASE if is_norm else BASE
    if "users" in options:
        text = text.replace("%9r", "%9r %.8u")
    for letter, field, _, width in FACTORS:
        if weights[field]:
            text += f" %{width}{letter.lower()}" if is_norm else f" %.{width}{letter}"
    return text


def _print(options: OptionValues, reply: "Row") -> int:
    weights = Table(reply["more_fields"], reply["more_records"], reply["more_fields"]).dicts()[0]
    of_site = "" if "long" in options else os.environ.get("SPRIO_FORMAT")
    text = options.get("format") or of_site or default_format(options, weights)
    chosen = parse_short(text, HEADINGS, LETTERS)
    for letter in chosen.bad:
        say(f"sprio: error: Invalid job format specification: {letter}")
    rows = Table(reply["fields"], reply["records"], reply["fields"]).dicts()
    if options.get("jobs") and not rows:
        print("Unable to find jobs matching user/id(s) specified")
        return 0
    out = _settings(options).encode(errors="replace") if "verbose" in options else b""
    if "noheader" not in options:
        out += chosen.header({column.key: HEADINGS[column.key] for column in chosen.columns})
    if "weights" in options:
        weights["name"] = reply["cluster_name"]
        write_bytes(
            out + chosen.lines([[_weight(column.key, weights)] for column in chosen.columns])
        )
        return 0
    _sort(rows, options.get("sort", "i,-y"))
    if not chosen.columns:
        # The format has only unknown parts: they are printed as they are, a line for each row.
        lines = len(rows) + ("noheader" not in options)
        out = f"{chosen.head}\n".encode(errors="replace") * lines
    elif rows:
        out += chosen.lines(
            [
                [cell(column.key, row, weights, reply["cluster_name"]) for row in rows]
                for column in chosen.columns
            ]
        )
    write_bytes(out)
    return 0


def _settings(options: OptionValues) -> str:
    """Return what -v prints first."""
    rule = "-" * 29
    return "\n".join(
        (
            rule,
            f"format     = {options.get('format', '(null)')}",
            f"job_flag   = {int('jobs' in options)}",
            f"jobs       = {options.get('jobs') or '(null)'}",
            f"partition  = {options.get('partition', '(null)')}",
            f"users      = {options.get('users', '(null)')}",
            f"verbose    = {options.times('verbose') or 1}",
            f"{rule}\n\n\n",
        )
    )


def _sort(rows: "list[Row]", text: str) -> None:
    """Sort by letters, each with an optional sign, the first one first."""
    fields = {letter: field for letter, field, _, _ in FACTORS}
    fields.update({letter.lower(): field for letter, field, _, _ in FACTORS})
    fields.update(_TEXT_FIELDS, y="priority")
    for index, letter in reversed([*enumerate(text)]):
        if letter in "+-, ":
            continue
        field = fields.get(letter)
        if field is None:
            fail(f"sprio: error: Invalid sort specification: {letter}")
        rows.sort(key=lambda row: row.get(field, 0), reverse=text[index - 1 : index] == "-")


def _weight(letter: str, weights: "Row") -> str:
    if letter == "i":
        return "Weights"
    if letter == "S":
        return "1"
    if letter == "c":
        return str(weights["name"])
    if letter == "t":
        return ""  # Slurm has no weights to go with the shares of each TRES
    field = next((field for upper, field, _, _ in FACTORS if upper == letter.upper()), "")
    return str(weights[field]) if field else ""


def cell(letter: str, row: "Row", weights: "Row", cluster: str) -> str:
    """Return one cell: a factor in 0 to 1 for a small letter, times its weight for a large one."""
    if letter == "c":
        return cluster
    if letter == "y":
        return f"{row['priority'] / INFINITE:.8f}"
    if letter == "o":
        return row["account"] or "(null)"
    if letter in _TEXT_FIELDS:
        return str(row[_TEXT_FIELDS[letter]])
    field = next(field for upper, field, _, _ in FACTORS if upper == letter.upper())
    if field == "tres":
        return str(row["tres" if letter.islower() else "tres_weighted"])
    factor = row.get(field, 0) / _BILLION
    if letter.islower():
        return f"{factor:.7f}"
    # Rounded as in Slurm, a half to the even number, so each column may differ by one.
    return f"{weights[field] * factor:.0f}"
