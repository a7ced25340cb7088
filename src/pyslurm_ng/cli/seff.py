"""seff: how much of its processors and memory a job used."""

from pyslurm_ng.cli.accounting import seff_lines
from pyslurm_ng.cli.accounting.job_records import connect_to_database, parts_of, rows_of
from pyslurm_ng.cli.accounting.sacct_selection import jobs_of
from pyslurm_ng.cli.command import fail, printable, version_line
from pyslurm_ng.cli.option_words import NONE, UsageError, split_words
from pyslurm_ng.data_parser import efficiency

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.data_parser.efficiency import Efficiency, Row

OPTIONS = (("help", "h", NONE), ("version", "v", NONE), ("debug", "d", NONE))
USAGE = """Usage: seff [Options] <JobID>
       Options:
       -h    Help menu
       -v    Version
       -d    Debug mode: display raw Slurm data"""
NOT_THERE = "Job not found."


def main(argv: "list[str]") -> int:
    """Run seff; return its exit code."""
    options, jobs = words_of("seff", argv, OPTIONS, USAGE)
    job_id = ",".join(jobs)
    if len(jobs) != 1 or "," in job_id:
        fail(USAGE)
    cluster, records = efficiencies("seff", job_id)
    if job_id.isdecimal():  # no other task of the array, no other component
        records = [used for used in records if used.job["job_id"] == int(job_id)]
    for used in records:
        raw = seff_lines.raw_lines(used, cluster) if "debug" in options else []
        for line in (*raw, *seff_lines.lines(used, cluster)):
            print(printable(line))
    if not records:
        fail(NOT_THERE)
    return 0


def words_of(
    command: str, argv: "list[str]", rows: "tuple[tuple[str, str, int], ...]", usage: str
) -> "tuple[dict[str, str], list[str]]":
    """Return options and operands; exits after -h and -v, and if they cannot be read."""
    by_name = {row[0]: row for row in rows}
    by_letter = {row[1]: row for row in rows}
    try:
        pairs, operands = split_words(argv, by_name, by_letter, mixed=True)
    except UsageError as problem:
        fail(f"{command}: {problem}\n{usage}")
    options = {name: value or "" for name, value in pairs}
    if "help" in options:
        print(usage)
        raise SystemExit(0)
    if "version" in options:
        print(version_line())
        raise SystemExit(0)
    return options, operands


def efficiencies(command: str, job: str, cluster: str = "") -> "tuple[str, list[Efficiency]]":
    """Return the cluster and the figures of each record of a job, an array or a het job."""
    selectors = jobs_of(job, command)
    if not selectors or any(selector[3] != -1 for selector in selectors):
        fail(NOT_THERE)
    client, conf = connect_to_database(command)
    cluster = (cluster or conf.get("ClusterName", "cluster")).lower()
    request = {
        "clusters": [cluster],
        "jobs": selectors,
        "columns": list(efficiency.JOB_COLUMNS),
        "step_columns": list(efficiency.STEP_COLUMNS),
    }
    tasks = [selector[1] for selector in selectors if selector[1] >= 0]
    records: list[Efficiency] = []
    try:
        for part in parts_of(command, client, request):
            steps: list[Row] = []
            last = len(records)
            for job_row, step in reversed(rows_of(part, request)):
                if step is not None:
                    steps.append(step)  # steps come behind their job
                    continue
                if not tasks or _is_task(job_row, tasks):
                    records.insert(last, efficiency.Efficiency(job_row, steps, part["now_us"]))
                steps = []
    finally:
        client.close()
    return cluster, records


def _is_task(job: "Row", tasks: "list[int]") -> bool:
    """Return whether a record is that of one of these tasks, or of several that wait."""
    if not job["array_tasks"]:
        return job["array_task_id"] in tasks
    for word in job["array_tasks"].partition("%")[0].split(","):
        bounds, _, step = word.partition(":")
        first, _, last = bounds.partition("-")
        waiting = range(int(first), int(last or first) + 1, int(step or 1))
        if any(task in waiting for task in tasks):
            return True
    return False
