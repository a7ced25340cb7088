"""swait: wait until the steps of a job with a step manager are over."""

import os

from pyslurm_ng.base.job_ids import JobIdError, parse_job_id
from pyslurm_ng.base.numbers import REQ_STEPMGR
from pyslurm_ng.cli.command import connect, fail, read_conf, say
from pyslurm_ng.cli.option_words import NONE, REQUIRED
from pyslurm_ng.cli.program import Program
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from pyslurm_ng.wire.client import Client

OPTIONS = (
    ("autocomplete", "", REQUIRED),
    ("help", "h", NONE),
    ("quiet", "Q", NONE),
    ("timeout", "", REQUIRED),
    ("usage", "", NONE),
    ("verbose", "v", NONE),
    ("version", "V", NONE),
)
PROGRAM = Program(
    "swait",
    OPTIONS,
    "Usage: swait [-hQvV] [--timeout=SECS] [--usage] [<jobid>[_<task>] | s<sluid>]",
    operands="[<jobid>[_<task>] | s<sluid>]",
)
_MISUSED = 2
_TOO_LATE = 1
_AGAIN_S = 1.0
_MOST_S = 1 << 31


def main(argv: "list[str]") -> int:
    """Run swait; 0 when no step is left, 1 when it took too long, 2 when there is no such job."""
    options, operands = PROGRAM.read(argv)
    if len(operands) > 1:
        _fail("too many parameters")
    text = operands[0] if operands else os.environ.get("SLURM_JOB_ID", "")
    if not text:
        _fail("no job id given")
    limit_s = _seconds(options["timeout"]) if "timeout" in options else -1
    conf = read_conf("swait")
    client = connect(conf)
    job_id = _job_of(client, text)
    from time import monotonic

    end = monotonic() + limit_s if limit_s >= 0 else -1.0
    if "verbose" in options and "quiet" not in options:
        say(f"swait: waiting for the steps of JobId={job_id}")
    while True:
        try:
            left_s = max(0.0, end - monotonic()) if end >= 0 else None
            if _is_over(conf, client, job_id, left_s):
                return 0
        except TimeoutError:
            if "quiet" not in options:
                say(f"swait: error: steps of JobId={job_id} still run or wait after {limit_s} s")
            return _TOO_LATE


def _fail(text: str) -> "NoReturn":
    fail(f"swait: error: {text}", _MISUSED)


def _seconds(text: str) -> int:
    if not text.isdecimal() or len(text) > 10 or int(text) > _MOST_S:
        _fail(f"--timeout: {text}: a number of seconds is allowed")
    return int(text)


def _job_of(client: "Client", text: str) -> int:
    """Return the id of a running job with a step manager; ends with 2 if it is none."""
    from pyslurm_ng.cli.step.step_manager import job_row
    from pyslurm_ng.model.states import JobState

    try:
        name = parse_job_id(text)
        tasks = [first for first, last, _ in name.tasks if first == last]
        if name.step >= 0 or name.het_offset >= 0 or (name.tasks and len(tasks) != 1):
            raise JobIdError(text)
    except JobIdError:
        _fail(f"{text}: cannot parse job id")
    shown = str(name.job_id) if name.job_id else text
    # Around us is one record: the last task of an array has the array's number.
    is_own = text == os.environ.get("SLURM_JOB_ID", "")
    try:
        row = job_row(client, text, is_record=is_own)
    except SlurmError as problem:
        if name.tasks and _exists(client, shown):
            _fail(f"JobId={shown}: not an array job")
        _fail(f"cannot load JobId={shown}: {problem.text.rpartition(chr(10))[2]}")
    if row is None:
        _fail(f"JobId={shown}: several jobs have this id; <jobid>_<task> names one")
    if not row[1] & REQ_STEPMGR:
        _fail(f"JobId={row[0]} does not have stepmgr enabled")
    if row[3] & 0xFF == JobState.PENDING:
        _fail(f"JobId={row[0]} is pending: it has no steps yet")
    return row[0]


def _exists(client: "Client", text: str) -> bool:
    from pyslurm_ng.cli.step.step_manager import job_row

    try:
        job_row(client, text)
    except SlurmError:
        return False
    return True


def _is_over(
    conf: "dict[str, str]", controller: "Client", job_id: int, left_s: "float | None"
) -> bool:
    """Wait until no step is left; return False if the node daemon was lost meanwhile.

    Raises:
        TimeoutError: it took too long.
    """
    from time import monotonic, sleep

    from pyslurm_ng.base.error_numbers import Errno
    from pyslurm_ng.cli.step.step_manager import job_row, manager_of
    from pyslurm_ng.model.states import JobState

    begun = monotonic()
    try:
        manager = manager_of("swait", conf, controller, job_id)
        if manager is None:
            return True
        manager.begin("WaitSteps", {"job_id": job_id, "but_step_id": _own_step(job_id)})
        manager.receive(left_s)
        return True
    except SlurmError as problem:
        passed_s = monotonic() - begun
        if left_s is not None and passed_s >= left_s:
            raise TimeoutError from None
        if problem.code == Errno.ESLURM_ACCESS_DENIED:
            _fail(f"JobId={job_id}: {problem.text}")
    try:
        row = job_row(controller, str(job_id), is_record=True)
    except SlurmError:
        return True  # it has been forgotten
    if row is None or row[3] & 0xFF not in (JobState.RUNNING, JobState.SUSPENDED, JobState.PENDING):
        return True
    sleep(_AGAIN_S if left_s is None else min(_AGAIN_S, left_s))
    return False


def _own_step(job_id: int) -> int:
    """Return the step that swait itself runs in, -1 for none of this job."""
    step = os.environ.get("SLURM_STEP_ID", "")
    is_own = os.environ.get("SLURM_JOB_ID", "") == str(job_id)
    return int(step) if is_own and step.isdecimal() else -1
