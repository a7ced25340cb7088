#!/usr/bin/env python3
"""Start to exit of the daily commands on an idle cluster: median of 30, in turn with the peer.

With a peer the limit is the peer's median. Without one it is a multiple of a bare interpreter's.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from figures import (
    BARE,
    Cluster,
    clusters,
    in_turn,
    jobs_of_a_run,
    parser,
    ratio,
    show,
    spawn_seconds,
)

ROUNDS = 30
LIMIT_RATIO = 1.9
"""Times a bare interpreter in the same run: 12 ms where that takes 6.5."""
RECORDED_PEER_MS = "3.5-6"
COMMANDS = ("squeue", "sinfo", "sbatch --wrap", "scancel", "scontrol show job", "sacct -j")


def measures(cluster: Cluster, name: str) -> dict[str, Callable[[], float]]:
    """Return how to time each command. All jobs are held and have this name."""
    options = ("--hold", "-J", name, "-o", "/dev/null", "--wrap", "true")
    job_id = cluster.run("sbatch", "--parsable", *options).strip()

    def scancel_seconds() -> float:
        """Submit a job before the clock runs, then cancel it."""
        return cluster.seconds("scancel", cluster.run("sbatch", "--parsable", *options).strip())

    return {
        "squeue": lambda: cluster.seconds("squeue"),
        "sinfo": lambda: cluster.seconds("sinfo"),
        "sbatch --wrap": lambda: cluster.seconds("sbatch", *options),
        "scancel": scancel_seconds,
        "scontrol show job": lambda: cluster.seconds("scontrol", "show", "job", job_id),
        "sacct -j": lambda: cluster.seconds("sacct", "-j", job_id),
    }


def main() -> None:
    options = parser(__doc__ or "").parse_args()
    all_measures: dict[str, Callable[[], float]] = {
        "bare": lambda: spawn_seconds(BARE, dict(os.environ))
    }
    measured = clusters(options)
    with jobs_of_a_run(measured) as jobs:
        for cluster in measured:
            for name, measure in measures(cluster, jobs).items():
                all_measures[f"{cluster.name} {name}"] = measure
        medians = in_turn(ROUNDS, all_measures)
    rows: list[dict[str, object]] = []
    for name in COMMANDS:
        ours, peer = medians[f"ours {name}"], medians.get(f"peer {name}")
        limit = LIMIT_RATIO * medians["bare"] if peer is None else peer
        rows.append(
            {
                "command": name,
                "ours_ms": ours * 1e3,
                "peer_ms": None if peer is None else peer * 1e3,
                "to_peer": ratio(ours, peer),
                "recorded_peer_ms": RECORDED_PEER_MS,
                "bare_python_ms": medians["bare"] * 1e3,
                "to_bare": ours / medians["bare"],
                "limit_ms": limit * 1e3,
                "ok": ours <= limit,
            }
        )
    show(options, f"command start to exit, idle cluster, median of {ROUNDS}", rows)


if __name__ == "__main__":
    main()
