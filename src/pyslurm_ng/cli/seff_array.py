"""seff-array: how well the tasks of an array used what they had, as histograms."""

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.cli import seff
from pyslurm_ng.cli.accounting import seff_lines
from pyslurm_ng.cli.command import fail, printable
from pyslurm_ng.cli.option_words import NONE, REQUIRED
from pyslurm_ng.data_parser import efficiency

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pyslurm_ng.data_parser.efficiency import Efficiency

OPTIONS = (("help", "h", NONE), ("version", "v", NONE), ("cluster", "c", REQUIRED))
USAGE = """Usage: seff-array [-h] [-v] [-c CLUSTER] <JobID>
       -h    Help menu
       -v    Version
       -c    The cluster of the job"""
_RULE = "-" * 56
_BINS = 10
_MOST_MARKS = 40


def main(argv: "list[str]") -> int:
    """Run seff-array; return its exit code."""
    options, jobs = seff.words_of("seff-array", argv, OPTIONS, USAGE)
    if len(jobs) != 1 or "," in jobs[0]:
        fail(USAGE)
    cluster, tasks = seff.efficiencies("seff-array", jobs[0], options.get("cluster", ""))
    if not tasks:
        fail(seff.NOT_THERE)
    if len(tasks) == 1:
        shown = seff_lines.lines(tasks[0], cluster)
    else:
        shown = _array(jobs[0], tasks, cluster)
    for line in shown:
        print(printable(line))
    return 0


def _array(job_id: str, tasks: "list[Efficiency]", cluster: str) -> "list[str]":
    first = tasks[0]
    job = first.job
    states: dict[str, int] = {}
    for task in tasks:
        states[task.state] = states.get(task.state, 0) + 1
    done = [task for task in tasks if not task.is_waiting and not task.is_running]
    shown = [
        _RULE,
        "Job Information",
        f"ID: {job_id}",
        f"Name: {job['name']}",
        f"Cluster: {cluster}",
        f"User/Group: {job['user'] or job['uid']}/{job['group'] or job['gid']}",
        f"Requested CPUs: {first.cpus} cores on {first.nodes} node(s)",
        f"Requested Memory: {efficiency.memory_text(first.memory_limit_kib)}",
        f"Requested Time: {_limit_text(job['time_limit_min'])}",
        _RULE,
        "Job Status",
        *(f"{state}: {count}" for state, count in sorted(states.items())),
        _RULE,
    ]
    if not done:
        return [*shown, "Efficiency not available: no task has ended.", _RULE]
    shown += [
        "Finished Job Statistics",
        "(excludes pending and running tasks)",
        f"Average CPU Efficiency: {_mean([task.cpu_percent for task in done]):.2f}%",
        "Average Memory Usage: "
        + efficiency.memory_text(_mean([task.memory_kib for task in done])),
        "Average Run-time: " + efficiency.time_text(round(_mean([task.wall_s for task in done]))),
        _RULE,
    ]
    for title, values in (
        ("CPU Efficiency (%)", [task.cpu_percent for task in done]),
        ("Memory Efficiency (%)", [task.memory_percent for task in done]),
        ("Time Efficiency (%)", [task.time_percent for task in done]),
    ):
        shown += [title, _RULE, *_histogram(values), _RULE]
    return shown


def _limit_text(limit_min: int) -> str:
    return "UNLIMITED" if limit_min == INFINITE else efficiency.time_text(60 * limit_min)


def _mean(values: "list[float] | list[int]") -> float:
    return sum(values) / len(values)


def _histogram(percents: "list[float]") -> "list[str]":
    """Return a line for each tenth; the last has all that is above."""
    counts = [0] * _BINS
    for percent in percents:
        counts[min(int(percent * _BINS / 100), _BINS - 1)] += 1
    most = max(counts)
    step = 100 // _BINS
    rows = []
    for number, count in enumerate(counts):
        marks = "#" * (-(-count * _MOST_MARKS // most))
        span = f"{number * step:3d} - {(number + 1) * step:3d}"
        rows.append(f"{span}  [{count:6d}]  {marks}".rstrip())
    return rows
