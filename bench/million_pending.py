#!/usr/bin/env python3
"""A million tasks that wait: 200,000 single jobs and arrays, and what everybody else then gets.

The nodes are full, so each pass of the scheduler looks at the whole queue. Needs a cluster of its
own in SLURM_CONF with MaxJobCount and MaxArraySize above a million; cancels all jobs of the user at
the end. Ours only: Slurm gives each of the single jobs 8.4 KiB and was not asked for more.
"""

from __future__ import annotations

import os
import re
import statistics
import time

from figures import Cluster, clusters, parser, show
from pyslurm_ng.conf.quick import quick
from pyslurm_ng.wire.client import QUICK_KEYS
from pyslurm_ng.wire.daemon_link import socket_path
from submit_rate import OUTSTANDING, Pipe, body, controller, restart_seconds

SINGLE_JOBS = 200_000
ARRAYS = 2
TASKS = 1_000_000
ROUNDS = 10
OTHER_USER = "nobody"
NO_PRIORITY = None
MIB = 1 << 20
RESTART_LIMIT_S = 10.0
MEMORY_LIMIT_MIB = 1536.0


def submit(path: str, single: int, tasks: int) -> float:
    """Submit jobs that wait for nodes; return seconds until all are on disk."""
    bodies = [body(f"bench-{number}", priority=NO_PRIORITY) for number in range(single)]
    bodies += [
        body("bench-array", priority=NO_PRIORITY, array=f"0-{tasks // ARRAYS - 1}")
        for _ in range(ARRAYS)
    ]
    pipe = Pipe(path)
    begin = time.perf_counter()
    sent = answered = 0
    while answered < len(bodies):
        while sent < len(bodies) and sent - answered < OUTSTANDING:
            sent += 1
            pipe.send("SubmitJob", sent, bodies[sent - 1])
        answered += pipe.replies()
    return time.perf_counter() - begin


def pass_seconds(cluster: Cluster) -> tuple[float, float]:
    """Return the last and the longest time of a pass as sdiag says it."""
    said = cluster.run("sdiag")
    values = [int(text) for text in re.findall(r"(?:Last cycle|Max cycle): +(\d+)", said)]
    return values[0] / 1e6, values[1] / 1e6


def median_seconds(cluster: Cluster, *words: str) -> float:
    return statistics.median(cluster.seconds(*words) for _ in range(ROUNDS))


def measured(cluster: Cluster, single: int, tasks: int) -> list[tuple[str, float, float | None]]:
    """Return (what, value, limit); the order matters, since each adds to what is there."""
    conf = quick(os.environ["SLURM_CONF"], (*QUICK_KEYS, "SlurmctldPidFile"))
    path = socket_path(conf)
    cluster.run("sbatch", "-N4", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 86400")
    wrap = ("sbatch", "-o", "/dev/null", "--wrap", "/bin/true")
    rows: list[tuple[str, float, float | None]] = []
    questions = {"squeue -j": ("squeue", "-j", "1"), "sbatch": wrap}
    if os.geteuid() == 0:
        # A user with one job among all those of others.
        cluster.run("sbatch", f"--uid={OTHER_USER}", "-H", "-D/", "-o/dev/null", "--wrap", "true")
        questions["squeue -u"] = ("squeue", "-u", OTHER_USER)
    alone = {what: median_seconds(cluster, *words) for what, words in questions.items()}
    before = controller(conf).memory_info().rss
    seconds = submit(path, single, tasks - single)
    rows.append(("submissions per second", (single + ARRAYS) / seconds, None))
    time.sleep(5.0)
    grown = controller(conf).memory_info().rss - before
    rows.append(("slurmctld, MiB", controller(conf).memory_info().rss / MIB, MEMORY_LIMIT_MIB))
    rows.append(("KiB per single job", grown / single / 1024, 2.0))
    cluster.run(*wrap)
    time.sleep(5.0)
    last, longest = pass_seconds(cluster)
    rows += [("last pass, seconds", last, None), ("longest pass, seconds", longest, None)]
    for what, words in questions.items():
        value = median_seconds(cluster, *words)
        rows.append((f"{what}, seconds (before: {alone[what]:.4f})", value, None))
    rows.append(("sinfo, seconds", median_seconds(cluster, "sinfo"), None))
    rows.append(("squeue of all, seconds", cluster.seconds("squeue", "-h"), None))
    rows.append(("squeue -r of all, seconds", cluster.seconds("squeue", "-h", "-r"), None))
    rows.append(("squeue --json, seconds", cluster.seconds("squeue", "--json"), None))
    rows.append(("slurmctld after them, MiB", controller(conf).memory_info().rss / MIB, None))
    rows.append(("restart, seconds", restart_seconds(cluster, conf), RESTART_LIMIT_S))
    rows.append(("slurmctld then, MiB", controller(conf).memory_info().rss / MIB, MEMORY_LIMIT_MIB))
    rows.append(("scancel of all, seconds", cluster.seconds("scancel", "--me"), None))
    return rows


def main() -> None:
    parse = parser(__doc__ or "")
    parse.add_argument("--jobs", type=int, default=SINGLE_JOBS, help="single ones")
    parse.add_argument("--tasks", type=int, default=TASKS, help="of arrays and single jobs")
    options = parse.parse_args()
    cluster = clusters(options)[0]
    try:
        figures = measured(cluster, options.jobs, options.tasks)
    finally:
        cluster.run_quietly("scancel", "--me")
        if os.geteuid() == 0:
            cluster.run_quietly("scancel", f"--user={OTHER_USER}")
    rows = [
        {"what": what, "ours": value, "limit": limit, "ok": limit is None or value <= limit}
        for what, value, limit in figures
    ]
    show(options, f"{options.tasks} tasks wait, {options.jobs} of them single jobs", rows)


if __name__ == "__main__":
    main()
