"""sstat: what the tasks of running steps have used so far."""

from pyslurm_ng.base.job_ids import JobIdError, parse_job_id, split_job_ids
from pyslurm_ng.base.numbers import MAX_NORMAL_STEP_ID, NO_VAL, SHOW_ALL
from pyslurm_ng.base.sluid import sluid_of
from pyslurm_ng.cli.accounting.sstat_fields import DEFAULT_FORMAT, FIELDS, OPTIONS, PID_FORMAT
from pyslurm_ng.cli.accounting.table_layout import TableLayout, choose_fields, field_list, shown
from pyslurm_ng.cli.command import Table, connect, fail, read_conf, say, write_bytes
from pyslurm_ng.cli.node_clients import node_clients
from pyslurm_ng.cli.option_words import NONE
from pyslurm_ng.cli.program import Program
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.wire.client import Client

    Row = dict[str, Any]


NO_EFFECT = ("verbose",)
PROGRAM = Program(
    "sstat",
    (*OPTIONS, ("usage", "", NONE)),
    "Usage: sstat [options] -j <job(.stepid)>\n\tUse --help for help",
    same={"fields": "format"},
    no_effect=NO_EFFECT,
    heading="sstat [<OPTION>] -j <job(.stepid)>\n\nValid <OPTION> values are:",
    hint=False,
    tells={"helpformat": lambda: field_list(FIELDS)},
)


def main(argv: "list[str]") -> int:
    """Run sstat; return its exit code."""
    options, operands = PROGRAM.read(argv)
    lists = (options.get("jobs", ""), *operands)
    jobs = [text for listed in lists for text in split_job_ids(listed)]
    if not jobs:
        fail("sstat: error: You didn't give me any jobs to stat.")
    for text in jobs:
        try:
            parse_job_id(text)
        except JobIdError:
            job, dot, _ = text.partition(".")
            if dot and job.isdecimal():
                fail(f"sstat: fatal: Bad step specified: {job}")
            fail(f"sstat: fatal: Bad job/step specified: {text}")
    default = PID_FORMAT if "pidformat" in options else DEFAULT_FORMAT
    chosen = choose_fields("sstat", options.get("format", default), FIELDS)
    conf = read_conf("sstat")
    client = connect(conf)
    layout = TableLayout(chosen, options)
    if "noheader" not in options:
        write_bytes(layout.header())
    code = 0
    for text in jobs:
        for step in _steps(client, text, all_steps="allsteps" in options):
            row = _measured(conf, client, step)
            if row is None:
                code = 1
                continue
            cells = [_cell(name, row, is_raw="noconvert" in options) for name, _, _ in chosen]
            write_bytes(layout.rows([cells]))
    return code


def _steps(client: "Client", text: str, *, all_steps: bool) -> "list[Row]":
    """Return the selected running steps: the named one, all of a job, or the lowest numbered."""
    try:
        reply = client.call("ShowSteps", {"steps": [text], "flags": SHOW_ALL})
    except SlurmError as error:
        fail(f"sstat: error: couldn't get steps for job {text}: {error.text}")
    steps = Table(reply["fields"], reply["records"], reply["fields"]).dicts()
    if not steps:
        if "." in text:
            say(f"sstat: error: StepId={text} not found running.")
        else:
            say(f"sstat: error: No steps running for JobId={text}")
    return steps if all_steps else sorted(steps, key=lambda step: step["step_id"])[:1]


def _measured(conf: "dict[str, str]", client: "Client", step: "Row") -> "Row | None":
    """Ask the step's nodes and merge their answers; None if one does not answer."""
    from pyslurm_ng.model.job import Usage
    from pyslurm_ng.model.usage import merge, usage_columns, usage_from

    usage: Usage | None = None
    pids: list[str] = []
    request = {"job_id": step["job_id"], "step_id": step["step_id"]}
    for node, daemon in node_clients("sstat", conf, client, step["nodes"]):
        try:
            answer = daemon.call("StepStatus", request)
        except SlurmError as error:
            say(f"sstat: error: slurm_job_step_stat: {node}: {error.text}")
            return None
        finally:
            daemon.close()
        usage = merge(usage, usage_from(answer["usage"]))
        pids += map(str, answer["pids"])
    is_special = step["step_id"] >= MAX_NORMAL_STEP_ID
    return {
        **usage_columns(usage),
        "job_id": step["job_id"],
        "array_job_id": step["array_job_id"],
        "array_task_id": -1 if step["array_task_id"] == NO_VAL else step["array_task_id"],
        "array_tasks": "",
        "het_job_id": step["het_job_id"],
        "het_job_offset": step["het_offset"],
        "step_id": step["step_id"] - 2**32 if is_special else step["step_id"],
        "tasks": step["tasks"],
        "tres_allocated": step["tres"],
        "node_list": step["nodes"],
        "pids": ",".join(pids),
        "energy_j": usage.energy_j if usage else 0,
        "cpu_frequency_khz": 0,
        "end_us": 1,  # so that a frequency that was not measured is shown as 0
        "frequency_min": 0,
        "frequency_max": 0,
        "frequency_governor": 0,
        "sluid": sluid_of(step["sluid"]),
    }


def _cell(name: str, row: "Row", *, is_raw: bool) -> "str | int":
    """Return one field; most are those of sacct."""
    from pyslurm_ng.cli.accounting.sacct_columns import FIELDS as TEXTS, Context, part, size_text

    context = Context(0, "")
    context.raw = is_raw
    if name == "Pids":
        return str(row["pids"])
    if name == "AllocTRES":
        return str(row["tres_allocated"])
    for field, column in (
        ("MaxDiskRead", "in_max"),
        ("AveDiskRead", "in_ave"),
        ("MaxDiskWrite", "out_max"),
        ("AveDiskWrite", "out_ave"),
    ):
        if name == field:
            moved = part(row[f"tres_usage_{column}"], "fs/disk") or "0"
            return size_text(int(moved), context, "")
    own = "NodeList" if name == "Nodelist" else name
    return shown(TEXTS[own][3](row, row, context))
