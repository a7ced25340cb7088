"""sattach: read the output of a running step and write to its tasks, beside its srun."""

import os

from pyslurm_ng.base.job_ids import JobIdError, JobName, parse_job_id
from pyslurm_ng.base.numbers import MAX_NORMAL_STEP_ID, SHOW_ALL
from pyslurm_ng.cli.command import Table, connect, fail, read_conf, say, user_name
from pyslurm_ng.cli.option_words import NONE, REQUIRED
from pyslurm_ng.cli.program import Program
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from pyslurm_ng.wire.client import Client

OPTIONS = (
    ("autocomplete", "", REQUIRED),
    ("debugger-test", "", NONE),
    ("error-filter", "", REQUIRED),
    ("help", "h", NONE),
    ("input-filter", "", REQUIRED),
    ("label", "l", NONE),
    ("layout", "", NONE),
    ("output-filter", "", REQUIRED),
    ("pty", "", NONE),
    ("quiet", "Q", NONE),
    ("usage", "u", NONE),
    ("verbose", "v", NONE),
    ("version", "V", NONE),
)
REFUSED = ("debugger-test",)
PROGRAM = Program(
    "sattach",
    OPTIONS,
    "Usage: sattach [--error-filter=taskid] [--input-filter=taskid] [-l] [--layout]\n"
    "               [--output-filter=taskid] [--pty] [-Q] [-v] [-V] <jobid.stepid>",
    operands="<jobid.stepid>",
    refused=REFUSED,
)
_FILTERS = ("input-filter", "output-filter", "error-filter")
_MOST_TASK = 2**31 - 1


def main(argv: "list[str]") -> int:
    """Run sattach; return the greatest exit code of the tasks that end meanwhile.

    SLURM_EXIT_ERROR replaces the 1 of sattach's own errors.
    """
    try:
        return _run(argv)
    except SystemExit as end:
        if end.code != 1:
            raise
        from pyslurm_ng.cli.submit.submission import error_code

        raise SystemExit(error_code("sattach")) from None


def _run(argv: "list[str]") -> int:
    options, operands = PROGRAM.read(argv)
    tasks = {option: _task(option, options[option]) for option in _FILTERS if option in options}
    if len(operands) != 1:
        _misused("too many parameters")
    name = _step_name(operands[0])
    if tasks and "pty" in options:
        fail("sattach: error: don't specify both --pty and I/O filtering")
    conf = read_conf("sattach", "SrunPortRange")
    verbose = 0 if "quiet" in options else options.times("verbose")
    if verbose > 1:
        _tell(name, verbose)
    client = connect(conf)
    step = _running(client, name)

    from pyslurm_ng.cli.step.running_step import Attachment

    attachment = Attachment(conf, client, step, verbose=verbose, quiet="quiet" in options)
    if "layout" in options:
        attachment.show_layout()
        return 0
    if step["step_id"] > MAX_NORMAL_STEP_ID and step["name"] in ("batch", "extern"):
        fail(f"sattach: error: {name.text}: its output goes to files; steps of srun are allowed")
    return attachment.run(
        out_task=tasks.get("output-filter", -1),
        err_task=tasks.get("error-filter", tasks.get("output-filter", -1)),
        in_task=tasks.get("input-filter", -1),
        labels="label" in options,
        pty="pty" in options,
    )


def _misused(text: str) -> None:
    print("Usage: sattach [options] <jobid.stepid>", flush=True)
    fail(f"sattach: error: {text}")


def _step_name(text: str) -> "JobName":
    job, dot, _ = text.partition(".")
    try:
        name = parse_job_id(text)
    except JobIdError:
        if dot and job.isdecimal():
            fail(f"sattach: fatal: Bad step specified: {job}")
        name = JobName(text, 0)
    if name.step < 0:
        _misused("Failed to parse stepid from command line options")
    return name


def _task(option: str, text: str) -> int:
    """Return the number of a task."""
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()):
        fail(f'sattach: error: Invalid numeric value "{text}" for {option}.')
    if len(digits) > 10 or int(digits) > _MOST_TASK:
        fail(f"sattach: error: Numeric argument {text} to big for {option}.")
    return int(digits)


def _running(client: "Client", name: "JobName") -> "dict[str, Any]":
    """Return the step's fields; exit with 1 if it does not run."""
    try:
        reply = client.call("ShowSteps", {"steps": [name.text], "flags": SHOW_ALL})
        steps = Table(reply["fields"], reply["records"], reply["fields"]).dicts()
        if not steps:
            raise SlurmError(*_why_not(client, name.text.partition(".")[0]))
    except SlurmError as error:
        text = error.text.removeprefix("Unable to contact slurm controller (connect failure)\n")
        fail(f"sattach: error: Could not get job step info: {text}")
    for step in steps:
        if step["job_id"] == name.job_id:
            return step
    if len(steps) > 1:
        fail(f"sattach: error: {name.text}: {len(steps)} steps; the step of one task is allowed")
    return steps[0]


def _why_not(client: "Client", job: str) -> "tuple[int, str]":
    """Return why a job has no such step, as an error number and its text. Raises SlurmError."""
    from pyslurm_ng.base.error_numbers import Errno
    from pyslurm_ng.base.error_texts import error_text
    from pyslurm_ng.model.states import JobState

    query = {"filter": {"jobs": [job], "all_states": True}, "flags": SHOW_ALL}
    reply = client.call("ShowJobs", query)
    states = {row[0] & 0xFF for row in Table(reply["fields"], reply["records"], ["state"]).rows}
    number = Errno.ESLURM_INVALID_JOB_ID
    if JobState.PENDING in states:
        number = Errno.ESLURM_JOB_PENDING
    elif states and not states & {JobState.RUNNING, JobState.SUSPENDED}:
        number = Errno.ESLURM_ALREADY_DONE
    return number, error_text(number)


def _tell(name: "JobName", verbose: int) -> None:
    """Print the settings, as -vv does."""
    say("sattach: defined options for program `sattach'")
    say(f"sattach: {'-' * 15} {'-' * 21}")
    for label, value in (
        ("job ID", name.job_id),
        ("step ID", name.step),
        ("user", f"`{user_name(os.getuid())}'"),
        ("uid", os.getuid()),
        ("gid", os.getgid()),
        ("verbose", verbose),
    ):
        say(f"sattach: {label:<15}: {value}")
