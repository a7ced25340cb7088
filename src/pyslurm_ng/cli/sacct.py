"""sacct: accounting of jobs and steps."""

import os

from pyslurm_ng.cli.accounting.job_records import (
    connect_to_database,
    fail_for,
    parts_of,
    rows_of,
)
from pyslurm_ng.cli.accounting.sacct_fields import (
    BRIEF_FORMAT,
    DEFAULT_FORMAT,
    FIELDS,
    LONG_FORMAT,
    OPTIONS,
)
from pyslurm_ng.cli.accounting.sacct_selection import jobs_of, selection, window_text
from pyslurm_ng.cli.accounting.table_layout import TableLayout, choose_fields, field_list, shown
from pyslurm_ng.cli.command import fail, read_conf, say, split_list, write_bytes
from pyslurm_ng.cli.program import Program, shows_federation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from pyslurm_ng.cli.accounting.sacct_columns import Context
    from pyslurm_ng.cli.accounting.table_layout import Chosen
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
TEXT_LINE = "-" * 80


def main(argv: "list[str]") -> int:
    """Run sacct; return its exit code."""
    options, operands = PROGRAM.read(argv)
    if operands:
        words = "".join(f"\nsacct: error:  {word}" for word in operands)
        fail(f"sacct: error: Unknown arguments:{words}")
    for name in REPEATABLE:  # lists may be given in pieces
        if name in options:
            options[name] = ",".join(value for other, value in options.pairs if other == name)
    if "long" in options and "format" in options:
        fail(
            "sacct: fatal: Options -o(--format) and -l(--long) are mutually exclusive. "
            "Please remove one and retry."
        )
    if "batch-script" in options and "env-vars" in options:
        fail("sacct: fatal: Options --batch-script and --env-vars are mutually exclusive")
    if "completion" in options or "file" in options:
        return _completions(options)
    return _report(options, argv)


def _completions(options: "dict[str, str]") -> int:
    from pyslurm_ng.cli.accounting import sacct_completion

    usual = sacct_completion.LONG_FORMAT if "long" in options else sacct_completion.FORMAT
    conf = read_conf("sacct", "JobCompLoc", "JobCompType")
    return sacct_completion.show(conf, options, _chosen_fields(options, usual))


def _report(options: "dict[str, str]", argv: "list[str]") -> int:
    client, conf = connect_to_database("sacct", "PrivateData")
    try:
        return _answer(client, conf, options, argv)
    finally:
        client.close()


def _answer(
    client: "Client", conf: "dict[str, str]", options: "dict[str, str]", argv: "list[str]"
) -> int:
    cluster = conf.get("ClusterName", "cluster").lower()
    if "batch-script" in options or "env-vars" in options:
        return _texts(client, cluster, options)
    request = selection(options, wanted_clusters(client, options, conf))
    if "qos" in options:
        _check_qos(client, request["qos"])
    if "verbose" in options:
        say(f"sacct: {window_text(request)}")
    if "json" in options:
        from pyslurm_ng.cli.documents import database_tail
        from pyslurm_ng.data_parser.accounting_jobs import columns, document

        request["columns"], request["step_columns"] = columns()
        more = database_tail(["sacct", *argv], cluster)
        for piece in document(_ask(client, request, options), cluster, more):
            write_bytes(piece)
        return 0
    chosen = _chosen_fields(options)
    return _table(client, request, chosen, options)


# Answers --------------------------------------------------------------------------------------


def _ask(client: "Client", request: "dict[str, Any]", options: "dict[str, str]") -> "Any":
    """Yield the parts of the answers, cluster by cluster; exits when the daemon refuses."""
    told = "" if "verbose" in options else None
    for part in parts_of("sacct", client, request):
        if told is not None and part["is_behind"] and part["cluster"] != told:
            told = part["cluster"]
            say(
                f"sacct: slurmdbd may lack the newest records of cluster {told}: its slurmctld is "
                "away, far behind or silent"
            )
        yield part


def wanted_clusters(
    client: "Client", options: "dict[str, str]", conf: "dict[str, str]"
) -> "list[str]":
    """Return the clusters of -M, -L or the federation; unknown ones have no jobs, as in Slurm."""
    own = conf.get("ClusterName", "cluster").lower()
    if "allclusters" not in options and shows_federation(options, conf):
        rows = _entities(client, "federation")
        federations = {row["Federation"] for row in rows if row["Cluster"] == own}
        return [str(row["Cluster"]) for row in rows if row["Federation"] in federations] or [own]
    text = options.get("clusters", own).lower()
    if "allclusters" not in options and text in (own, "-1"):
        return [own]
    names = dict.fromkeys(split_list(text))
    known = [str(row["Cluster"]).lower() for row in _entities(client, "cluster")]
    if "allclusters" in options or "all" in names:
        return known
    return [name for name in names if name in known]


def _entities(client: "Client", entity: str) -> "list[Row]":
    """Return slurmdbd's rows of an entity by field name; exits when it refuses."""
    from pyslurm_ng.kernels.records import project
    from pyslurm_ng.wire.client import SlurmError

    try:
        answer = client.call("ListEntities", {"entity": entity, "where": [], "flags": []})
    except SlurmError as error:
        _fail_for(error)
    names = answer["fields"]
    rows = project(answer["records"], range(len(names)))
    return [dict(zip(names, values, strict=True)) for values in rows]


def _check_qos(client: "Client", names: "list[str]") -> None:
    """Exit if a QOS is not known."""
    known = [str(row["Name"]) for row in _entities(client, "qos")]
    for name in filter(None, names):
        if name.lower() not in known:
            fail(
                f"sacct: error: You gave a bad qos '{name}'. Valid QOS's are {','.join(known)}\n"
                "sacct: fatal: problem processing qos list"
            )


def _fail_for(error: "Any") -> "NoReturn":
    fail_for("sacct", error)


def _table(
    client: "Client",
    request: "dict[str, Any]",
    chosen: "list[Chosen]",
    options: "dict[str, str]",
) -> int:
    from pyslurm_ng.cli.accounting.sacct_columns import FIELDS as TEXTS, Context

    job_columns, step_columns = _columns(TEXTS, chosen, request)
    request["columns"], request["step_columns"] = job_columns, step_columns
    layout = TableLayout(chosen, options)
    unit = _unit(options)
    header = b"" if "noheader" in options else layout.header()
    for part in _ask(client, request, options):
        context = Context(part["now_us"], part["cluster"])
        _set_units(context, options, request, unit)
        context.qos = part["qos"]
        write_bytes(header)
        header = b""
        rows = rows_of(part, request)
        if "array" in options:
            rows = _expand_arrays(rows)
        makers = [(TEXTS[name][1], TEXTS[name][3]) for name, _, _ in chosen]
        write_bytes(layout.rows(_cells(rows, makers, context)))
    write_bytes(header)
    return 0


def _cells(rows: "list[tuple[Row, Row | None]]", makers: "Any", context: "Context") -> "Any":
    for job, step in rows:
        if step is None:
            yield [shown(of_job(job, context)) if of_job else "" for of_job, _ in makers]
        else:
            yield [shown(of_step(step, job, context)) if of_step else "" for _, of_step in makers]


def _columns(
    texts: "Any", chosen: "list[Chosen]", request: "dict[str, Any]"
) -> "tuple[list[str], list[str]]":
    """Return the stored columns that the fields need."""
    job: dict[str, None] = {}
    step: dict[str, None] = {}
    for name, _, _ in chosen:
        job.update(dict.fromkeys(texts[name][0]))
        step.update(dict.fromkeys(texts[name][2]))
    if request.get("jobs") or not job:
        ids = ("job_id", "array_job_id", "array_task_id", "het_job_id", "het_job_offset", "sluid")
        job.update(dict.fromkeys(ids))
    job.update(dict.fromkeys(("array_job_id", "array_task_id", "array_tasks")))
    step["step_id"] = None
    return list(job), list(step) if request["with_steps"] else []


def _expand_arrays(rows: "list[tuple[Row, Row | None]]") -> "list[tuple[Row, Row | None]]":
    """Return a row for each waiting task of an array (--array)."""
    expanded: list[tuple[Row, Row | None]] = []
    for job, step in rows:
        if not job["array_tasks"]:
            expanded.append((job, step))
            continue
        for word in job["array_tasks"].partition("%")[0].split(","):
            span, _, by = word.partition(":")
            first, _, last = span.partition("-")
            for task in range(int(first), int(last or first) + 1, int(by or 1)):
                expanded.append(({**job, "array_tasks": "", "array_task_id": task}, step))
    return expanded


def _unit(options: "dict[str, str]") -> str:
    """Return the letter of --units, "" without the option."""
    unit = options.get("units", "")
    if "units" in options and (len(unit) != 1 or unit.upper() not in "KMGTP"):
        fail(
            f"sacct: error: Invalid unit type '{unit}'. Possible options are 'KMGTP'\n"
            "sacct: fatal: Invalid unit type"
        )
    return unit.upper()


def _set_units(
    context: "Context", options: "dict[str, str]", request: "dict[str, Any]", unit: str
) -> None:
    context.unit = unit
    context.raw = "noconvert" in options
    context.truncate = "truncate" in options
    context.local_uids = "use-local-uid" in options
    context.expands = "expand-patterns" in options
    context.start_us, context.end_us = request["start_us"], request["end_us"]


def _chosen_fields(options: "dict[str, str]", usual: str = "") -> "list[Chosen]":
    """Return the fields to print; `usual` is used unless options choose others."""
    lists = [options["format"]] if "format" in options else []
    if "brief" in options:
        lists.append(BRIEF_FORMAT)
    if "long" in options and not usual:
        lists.append(LONG_FORMAT)
    if not lists:
        lists.append(usual or os.environ.get("SACCT_FORMAT", "") or DEFAULT_FORMAT)
    text = ",".join(lists)
    return choose_fields("sacct", text, FIELDS)


# Texts ----------------------------------------------------------------------------------------


def _texts(client: "Client", cluster: str, options: "dict[str, str]") -> int:
    """Print stored scripts or environments (-B, --env-vars)."""
    from pyslurm_ng.base.sluid import sluid_text
    from pyslurm_ng.wire.client import SlurmError

    is_script = "batch-script" in options
    if "jobs" not in options:
        what = "scripts" if is_script else "environment"
        fail(
            f"sacct: fatal: When requesting job {what} you must also request specific jobs with "
            "the '-j' option."
        )
    for selector in jobs_of(options["jobs"]):
        job_id, sluid = selector[0], selector[4:]
        fields = {"cluster": cluster, "job_id": job_id, "want_environment": not is_script}
        if sluid:
            fields["sluid"] = sluid[0]
        try:
            answer = client.call("GetJobScript", fields)
        except SlurmError as error:
            _fail_for(error)
        if not answer["is_known"]:
            continue
        text = answer["text"]
        name = sluid_text(sluid[0]) if sluid else job_id
        if is_script:
            print(f"Batch Script for {name}")
        else:
            print(f"Environment used for {name} (must be batch to display)")
        print(TEXT_LINE)
        text = text.replace("\0", "\n")
        print(text or "NONE", end="" if text.endswith("\n") else "\n")
    return 0


def _help_state() -> str:
    from pyslurm_ng.base.state_names import job_state_list

    return job_state_list().replace(",", "\n").upper()


def _help_reason() -> str:
    from pyslurm_ng.model.states import Reason, reason_text

    return "\n".join(reason_text(reason) for reason in Reason)


PROGRAM = Program(
    "sacct",
    OPTIONS,
    "Usage: sacct [options]\n\tUse --help for help",
    same=SAME,
    environment=(("SACCT_FEDERATION", "federation"), ("SACCT_LOCAL", "local")),
    heading="sacct [<OPTION>]\n\nValid <OPTION> values are:",
    hint=False,
    tells={
        "helpformat": lambda: field_list(FIELDS),
        "helpreason": _help_reason,
        "helpstate": _help_state,
    },
)
