"""What sacct and its documents make of a stored job or step: times, names, file patterns."""

from pyslurm_ng.base.numbers import NO_VAL, SECOND_US, STEP_BATCH

STEP_NAMES = {-5: "batch", -4: "extern", -6: "interactive", -3: "TBD"}


def layout_text(distribution: str) -> str:
    """Return a distribution of tasks as accounting names it: Block, Cyclic:Block, Unknown."""
    return ":".join(word.capitalize() for word in distribution.split(":"))


def step_name(step_id: int) -> str:
    """Return the part of a step's id behind the point."""
    return STEP_NAMES.get(step_id) or str(step_id)


def planned_s(eligible_us: int, start_us: int, end_us: int, now_us: int) -> int:
    """Return how long a job was, or has been, eligible before it started: seconds."""
    if not eligible_us:
        return 0
    return max(0, (start_us or end_us or now_us) // SECOND_US - eligible_us // SECOND_US)


def expand_pattern(
    text: str,
    job_id: int,
    array_job_id: int,
    array_task_id: int,
    user: str,
    job_name: str,
    step_id: int = STEP_BATCH,
) -> str:
    """Return a file name pattern with those `%` letters replaced that are known here."""
    if "%" not in text and "\\" not in text:
        return text
    from pyslurm_ng.base.file_patterns import expand

    return expand(
        text,
        job_id=job_id,
        array_job_id=array_job_id,
        array_task_id=array_task_id if array_task_id >= 0 else NO_VAL,
        user=user,
        job_name=job_name,
        step_id=step_id,
    )


def run_s(start_us: int, end_us: int, suspended_us: int, suspend_start_us: int, now_us: int) -> int:
    """Return seconds of run time without suspension; 0 for a job that never started."""
    if not start_us:
        return 0
    if suspend_start_us and not end_us:
        suspended_us += now_us - suspend_start_us
    # Both ends are cut to whole seconds first, as the columns Start and End show them.
    span_s = (end_us or now_us) // SECOND_US - start_us // SECOND_US
    return max(0, span_s - suspended_us // SECOND_US)
