#!/usr/bin/env python3
"""1,000 jobs of /bin/true: jobs per second from the first submission to the last accounted end.

Ours and the peer's take turns. The goal is four times the peer's best round for single jobs, and
five times for one array. `--jobs 100000` beside `--jobs 1000` shows whether the rate stays.
"""

from __future__ import annotations

import statistics
import subprocess
import time

from figures import Cluster, clusters, jobs_of_a_run, parser, ratio, show, wait_for

JOBS = 1000
WRITERS = 16
RECORDED_TUNED = {"single jobs": 58.0, "one array": 67.0}
GOALS = {"single jobs": 4.0, "one array": 5.0}
"""Times the peer's rate."""
JOBS_LIMIT_S = 3600.0


def accounted(cluster: Cluster, name: str) -> int:
    """Return how many jobs of this name accounting knows to be over."""
    lines = cluster.run("sacct", "-X", "-n", "-P", "--name", name, "-o", "JobID,State")
    return sum(line.endswith("COMPLETED") for line in lines.splitlines())


def single(cluster: Cluster, name: str, jobs: int) -> None:
    script = f"seq {jobs} | xargs -P {WRITERS} -I@ sbatch -J {name} -o /dev/null --wrap /bin/true"
    subprocess.run(
        ["bash", "-c", script], env=cluster.environment, check=True, stdout=subprocess.DEVNULL
    )


def array(cluster: Cluster, name: str, jobs: int) -> None:
    cluster.run("sbatch", "-J", name, f"--array=1-{jobs}", "-o", "/dev/null", "--wrap", "/bin/true")


def rate(cluster: Cluster, how: str, jobs: int) -> float:
    """Return jobs per second, from before the first submission until all are accounted."""
    with jobs_of_a_run([cluster]) as name:
        begin = time.perf_counter()
        (single if how == "single jobs" else array)(cluster, name, jobs)
        wait_for(lambda: not cluster.jobs_named(name), JOBS_LIMIT_S, "the jobs")
        wait_for(lambda: accounted(cluster, name) >= jobs, JOBS_LIMIT_S, "accounting")
        return jobs / (time.perf_counter() - begin)


def main() -> None:
    parse = parser(__doc__ or "")
    parse.add_argument("--jobs", type=int, default=JOBS)
    parse.add_argument("--rounds", type=int, default=3, help="ours and the peer's take turns")
    options = parse.parse_args()
    measured = clusters(options)
    rows: list[dict[str, object]] = []
    for how, recorded in RECORDED_TUNED.items():
        rates: dict[str, list[float]] = {cluster.name: [] for cluster in measured}
        for _ in range(options.rounds):
            for cluster in measured:
                rates[cluster.name].append(rate(cluster, how, options.jobs))
        ours = statistics.median(rates["ours"])
        peer = max(rates["peer"]) if "peer" in rates else None
        limit = GOALS[how] * (peer or recorded)
        rows.append(
            {
                "how": how,
                "ours_per_s": ours,
                "peer_best_per_s": peer,
                "to_peer": ratio(ours, peer),
                "recorded_peer_tuned_per_s": recorded,
                "limit_per_s": limit,
                "ok": ours >= limit,
            }
        )
    show(options, f"{options.jobs} jobs of /bin/true, accounted", rows)


if __name__ == "__main__":
    main()
