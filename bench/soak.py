#!/usr/bin/env python3
"""An hour of ordinary work at a steady rate, and whether anything grows.

Submits single jobs, arrays and jobs with steps to the cluster in SLURM_CONF, asks squeue, sacct
and scontrol all along, and samples every process of the cluster and what its directories hold. A
line is fitted through the second half: the first fills caches, and slurmd keeps ended jobs for 15
minutes. Ours only. With MinJobAge=60 slurmctld is level before the second half.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from figures import Cluster, clusters, parser, show
from pyslurm_ng.conf.quick import quick

MINUTES = 65.0
JOBS_PER_S = 10.0
SAMPLE_S = 30.0
ARRAY_TASKS = 10
STEP_JOB = "srun -n2 true; srun -n1 true & srun -n1 true & wait"
DAEMONS = ("slurmctld", "slurmdbd", "slurmd", "slurmstepd", "slurmrestd")
COMMAND_SERVER = "pyslurm-command-server"
DIRECTORIES = ("StateSaveLocation", "SlurmdSpoolDir", "SlurmdPidFile")
LIMITS = {"MiB": 4.0, "fds": 4.0, "threads": 2.0, "processes": 2.0, "files": 20.0}
"""More than this in the second half is growth, if the line is steeper than its doubt, too."""
DOUBTS = 3.0
QUESTIONS = (
    ("squeue", "-h"),
    ("sacct", "-X", "-n", "-S", "now-2minutes"),
    ("scontrol", "show", "nodes"),
    ("sinfo", "-h"),
    ("squeue", "--json"),
    ("scontrol", "show", "jobs"),
    ("sdiag",),
    ("sacct", "--json", "-S", "now-1minutes"),
)
Sample = dict[str, float]


@dataclass
class Work:
    """What was begun, so that the figures say what was carried."""

    jobs: int = 0
    steps: int = 0
    commands: int = 0
    failures: int = 0


def begin_jobs(cluster: Cluster, number: int, work: Work) -> Iterator[subprocess.Popen[bytes]]:
    """Start one round of commands: 20 jobs, of which an array is half, and three questions."""
    quiet = ("-o", "/dev/null", "--mem=1")
    submissions: list[tuple[str, ...]] = [("sbatch", *quiet, "--wrap", "true")] * 8
    submissions.append(("sbatch", *quiet, f"--array=1-{ARRAY_TASKS}", "--wrap", "true"))
    submissions.append(("sbatch", *quiet, "-n2", "--wrap", STEP_JOB))
    submissions.append(("sbatch", *quiet, "--wrap", "sleep 3600"))
    work.jobs += len(submissions) - 1 + ARRAY_TASKS
    work.steps += 3
    questions = [QUESTIONS[(number * 3 + more) % len(QUESTIONS)] for more in range(3)]
    cancel = ("scancel", "--me", "--state=RUNNING", "--name=wrap") if number % 15 == 14 else None
    for words in [*submissions, *questions, *([cancel] if cancel else [])]:
        work.commands += 1
        yield subprocess.Popen(
            cluster.argv(*words),
            env=cluster.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def one_round(cluster: Cluster, number: int, work: Work) -> None:
    """Run the commands of a round, four at a time."""
    running: list[subprocess.Popen[bytes]] = []
    for process in begin_jobs(cluster, number, work):
        running.append(process)
        if len(running) == 4:
            work.failures += running.pop(0).wait(300) != 0
    work.failures += sum(process.wait(300) != 0 for process in running)


def label(process: psutil.Process) -> str:
    """Return which daemon this is, with its node."""
    words = process.cmdline()
    node = words[words.index("-N") + 1] if "-N" in words[:-1] else ""
    return f"{process.name()} {node}".strip()


def processes_of(cluster: Cluster) -> Iterator[tuple[str, psutil.Process]]:
    """Yield the daemons of this cluster, and the command servers of the installation it has."""
    conf_path = cluster.environment["SLURM_CONF"]
    prefix = os.path.dirname(os.path.dirname(cluster.argv("sbatch")[0]))
    for process in psutil.process_iter():
        try:
            name, words = process.name(), process.cmdline()
            if name == COMMAND_SERVER:
                # A server keeps no environment; its children are commands.
                if words[0].startswith(prefix) and process.ppid() == 1:
                    yield name, process
            elif name in DAEMONS and (
                conf_path in words or process.environ().get("SLURM_CONF") == conf_path
            ):
                yield label(process), process
        except psutil.Error:
            continue


def sample(cluster: Cluster, directories: dict[str, Path]) -> Sample:
    """Return all that could grow, by name."""
    values: dict[str, float] = {}

    def add(name: str, value: float) -> None:
        values[name] = values.get(name, 0.0) + value

    for name, process in processes_of(cluster):
        try:
            add(f"{name}: MiB", process.memory_info().rss / (1 << 20))
            add(f"{name}: fds", process.num_fds())
            add(f"{name}: threads", process.num_threads())
            add(f"{name}: processes", 1)
        except psutil.Error:
            continue
    for name, directory in directories.items():
        add(f"{name}: files", sum(len(files) for _, _, files in os.walk(directory)))
        add(f"{name}: directories", sum(len(below) for _, below, _ in os.walk(directory)))
    return values


def line(times: list[float], values: list[float]) -> tuple[float, float]:
    """Return the slope of the best line and its standard error."""
    middle, mean = statistics.fmean(times), statistics.fmean(values)
    spread = sum((at - middle) ** 2 for at in times)
    slope = sum((at - middle) * value for at, value in zip(times, values, strict=True)) / spread
    residual_sum = sum(
        (value - mean - slope * (at - middle)) ** 2 for at, value in zip(times, values, strict=True)
    )
    return slope, (residual_sum / (len(times) - 2) / spread) ** 0.5


def rows_of(samples: list[tuple[float, Sample]]) -> list[dict[str, object]]:
    """Return a row for each value: first, last, and what it grew by in the second half."""
    half = samples[len(samples) // 2 :]
    times = [at for at, _ in half]
    rows: list[dict[str, object]] = []
    for name in sorted({name for _, values in half for name in values}):
        values = [taken.get(name, 0.0) for _, taken in half]
        slope, doubt = line(times, values)
        grown = slope * (times[-1] - times[0])
        limit = LIMITS.get(name.rpartition(": ")[2], 20.0)
        grows = grown > limit and slope > DOUBTS * doubt
        rows.append(
            {
                "what": name,
                "at_begin": samples[0][1].get(name, 0.0),
                "half_time": values[0],
                "at_end": values[-1],
                "second_half_by_line": grown,
                "limit": limit,
                "grows": grows,
            }
        )
    return rows


def soak(cluster: Cluster, options: argparse.Namespace) -> tuple[list[tuple[float, Sample]], Work]:
    """Work for that long; return samples and what was done."""
    conf = quick(cluster.environment["SLURM_CONF"], DIRECTORIES)
    directories = {
        "state": Path(conf["StateSaveLocation"]),
        "spool": Path(conf["SlurmdSpoolDir"].partition("%")[0]),
        "run": Path(conf["SlurmdPidFile"].partition("%")[0]).parent,
    }
    work, samples, rounds = Work(), [], 0
    begin = next_sample = next_round = time.monotonic()
    while (now := time.monotonic()) < begin + options.minutes * 60:
        if now >= next_sample:
            samples.append((now - begin, sample(cluster, directories)))
            next_sample += SAMPLE_S
            if options.samples:
                with Path(options.samples).open("a") as out:
                    out.write(json.dumps({"s": now - begin, **vars(work), **samples[-1][1]}) + "\n")
        before = work.jobs
        one_round(cluster, rounds, work)
        rounds += 1
        next_round += (work.jobs - before) / options.rate
        time.sleep(max(0.0, min(next_round, next_sample) - time.monotonic()))
        next_round = max(next_round, time.monotonic())
    return samples, work


def main() -> None:
    parse = parser(__doc__ or "")
    parse.add_argument("--minutes", type=float, default=MINUTES)
    parse.add_argument("--rate", type=float, default=JOBS_PER_S, help="jobs a second")
    parse.add_argument("--samples", help="file to which each sample is added as a line of JSON")
    options = parse.parse_args()
    cluster = clusters(options)[0]
    try:
        samples, work = soak(cluster, options)
    finally:
        cluster.run_quietly("scancel", "--me")
    if len(samples) < 8:
        sys.exit("bench: error: too short for a line: take more minutes")
    carried = f"{work.jobs} jobs with {work.steps} steps, {work.commands} commands"
    title = f"{options.minutes:g} minutes: {carried}, of which {work.failures} failed"
    show(options, title, rows_of(samples))


if __name__ == "__main__":
    main()
