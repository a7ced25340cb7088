"""squeue's names of files with their patterns replaced, for --expand-patterns."""

from pyslurm_ng.base.file_patterns import expand
from pyslurm_ng.data_parser.job_values import below, default_stdout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.cli.listing.job_columns import Cells, Context, Field

_OF_JOB = ("work_dir", "array_job_id", "job_id", "array_task_id", "user_name", "name", "batch_host")


def _expanded(
    name: str, job_id: int, array_job_id: int, task_id: int, user: str, job: str, host: str
) -> str:
    return expand(
        name,
        job_id=job_id,
        array_job_id=array_job_id,
        array_task_id=task_id,
        user=user,
        job_name=job,
        node_name=host or None,
        node_index=0,
        task_id=0,
    )


def _stdout(context: "Context", *columns: "Cells") -> "Cells":
    cells = []
    for name, work_dir, array_id, job_id, *rest in zip(*columns, strict=False):
        cells.append(_expanded(default_stdout(name, work_dir, array_id), job_id, array_id, *rest))
    return cells


def _other(empty: str, columns: "tuple[Cells, ...]") -> "Cells":
    cells = []
    for name, work_dir, array_id, job_id, *rest in zip(*columns, strict=False):
        path = below(name, work_dir)
        cells.append(_expanded(path, job_id, array_id, *rest) if name else empty)
    return cells


def _stderr(context: "Context", *columns: "Cells") -> "Cells":
    return _other("", columns)


def _stdin(context: "Context", *columns: "Cells") -> "Cells":
    return _other("/dev/null", columns)


FILES: "dict[str, Field]" = {
    "stderr": ("", "STDERR", ("std_err", *_OF_JOB), _stderr),
    "stdin": ("", "STDIN", ("std_in", *_OF_JOB), _stdin),
    "stdout": ("", "STDOUT", ("std_out", *_OF_JOB), _stdout),
}
