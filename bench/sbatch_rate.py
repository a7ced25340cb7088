#!/usr/bin/env python3
"""sbatch of held jobs, one after the other and 16 at once, in turn with the peer: jobs per second.

The goals are the peer's own rate and 1.5 times its rate.
"""

from __future__ import annotations

import subprocess
import time
from functools import partial

from figures import Cluster, clusters, in_turn, jobs_of_a_run, parser, ratio, show

JOBS = 200
ROUNDS = 3
GOALS = {1: 1.0, 16: 1.5}
"""How many at once, and how many times the peer's rate."""


def seconds(cluster: Cluster, name: str, writers: int) -> float:
    """Return the time of all submissions. xargs starts them, for a shell takes longer to fork."""
    words = ("sbatch", "--hold", "-J", name, "-o", "/dev/null", "--wrap", "/bin/true")
    numbers = "\n".join(map(str, range(JOBS)))
    command = ["xargs", "-P", str(writers), "-I@", *cluster.argv(*words)]
    begin = time.perf_counter()
    subprocess.run(
        command, env=cluster.environment, input=numbers, text=True, check=True,
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return time.perf_counter() - begin


def main() -> None:
    options = parser(__doc__ or "").parse_args()
    measured = clusters(options)
    rows: list[dict[str, object]] = []
    for writers, goal in GOALS.items():
        with jobs_of_a_run(measured) as name:
            medians = in_turn(
                ROUNDS, {each.name: partial(seconds, each, name, writers) for each in measured}
            )
        ours = JOBS / medians["ours"]
        peer = JOBS / medians["peer"] if "peer" in medians else None
        rows.append(
            {
                "at_once": writers,
                "ours_per_s": ours,
                "peer_per_s": peer,
                "to_peer": ratio(ours, peer),
                "goal": goal,
                "ok": None if peer is None else ours >= goal * peer,
            }
        )
    show(options, f"sbatch, {JOBS} jobs, medians of {ROUNDS}", rows)


if __name__ == "__main__":
    main()
