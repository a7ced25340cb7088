"""The job that --jobid of srun names."""

from pyslurm_ng.cli.option_words import OptionError
from pyslurm_ng.wire.client import SlurmError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.wire.client import Client


def job_named(client: "Client", text: str) -> "tuple[int, str]":
    """Return the id that a number, JOB_TASK or SLUID means, and the task of an array.

    Raises:
        OptionError: the text is none of them, or no job has the SLUID.
    """
    if text[:1] == "s":
        text = _id_of_sluid(client, text)
    job, _, task = text.partition("_")
    # Ids have 32 bits; ten digits fit what carries them.
    is_number = job.isdecimal() and (task.isdecimal() or not task)
    if not is_number or max(len(job), len(task)) > 10:
        raise OptionError(f"Invalid job id: {text}", 1)
    return int(job), task


def _id_of_sluid(client: "Client", text: str) -> str:
    """Return the job id that a SLUID stands for; a text that is none as it is."""
    from pyslurm_ng.base.sluid import sluid_of
    from pyslurm_ng.cli.request_parts import record_id

    if not sluid_of(text):
        return text
    try:
        return str(record_id(client, text))
    except SlurmError as problem:
        text = f"Unable to confirm allocation for job {text}: {problem.text}"
        raise OptionError(text, 1) from None
