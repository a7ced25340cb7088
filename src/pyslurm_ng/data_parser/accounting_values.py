"""What sacct and its documents make of a stored job or step: times, names, file patterns."""

from pyslurm_ng.base.numbers import NO_VAL, SECOND_US, STEP_BATCH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Row = dict[str, Any]

STEP_NAMES = {-5: "batch", -4: "extern", -6: "interactive", -3: "TBD"}


def layout_text(distribution: str) -> str:
    """Return a distribution of tasks as accounting names it: Block, Cyclic:Block, Unknown."""
    return ":".join(word.capitalize() for word in distribution.split(":"))


def step_name(step_id: int) -> str:
    """Return the part of a step's id behind the point."""
    return STEP_NAMES.get(step_id) or str(step_id)


def planned_s(job: "Row", now_us: int) -> int:
    """Return how long a job was, or has been, eligible before it started: seconds."""
    if not job["eligible_us"]:
        return 0
    until: int = job["start_us"] or job["end_us"] or now_us
    eligible: int = job["eligible_us"]
    return max(0, until // SECOND_US - eligible // SECOND_US)


def expand_pattern(text: str, job: "Row", step_id: int = STEP_BATCH) -> str:
    """Return a file name pattern with those `%` letters replaced that are known here."""
    if "%" not in text and "\\" not in text:
        return text
    from pyslurm_ng.base.file_patterns import expand

    task = job["array_task_id"]
    return expand(
        text,
        job_id=job["job_id"],
        array_job_id=job["array_job_id"],
        array_task_id=task if task >= 0 else NO_VAL,
        user=job["user"],
        job_name=job["name"],
        step_id=step_id,
    )


def run_s(row: "Row", start_us: int, end_us: int, now_us: int) -> int:
    """Return seconds of run time without suspension; 0 for a job that never started."""
    if not start_us:
        return 0
    suspended_us: int = row["suspended_us"]
    if row.get("suspend_start_us") and not end_us:
        suspended_us += now_us - row["suspend_start_us"]
    # Both ends are cut to whole seconds first, as the columns Start and End show them.
    span_s = (end_us or now_us) // SECOND_US - start_us // SECOND_US
    return max(0, span_s - suspended_us // SECOND_US)
