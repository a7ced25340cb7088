#!/usr/bin/env python3
"""Start to exit of the daily commands on an idle cluster: median of 30, in turn with the peer."""

from __future__ import annotations

import os
from collections.abc import Callable

from figures import BARE, Cluster, clusters, in_turn, parser, show, spawn_seconds

ROUNDS = 30
LIMIT_RATIO = 1.9
"""Times a bare interpreter in the same run: 12 ms where that takes 6.5."""
RECORDED_PEER_MS = "3.5-6"
COMMANDS = ("squeue", "sinfo", "sbatch --wrap", "scancel", "scontrol show job", "sacct -j")


def scancel_seconds(cluster: Cluster) -> float:
    """Return the time to cancel one job, which is submitted before the clock runs."""
    job_id = cluster.run("sbatch", "--parsable", "--hold", "-o", "/dev/null", "--wrap", "true")
    return cluster.seconds("scancel", job_id.strip())


def measures(cluster: Cluster, job_id: str) -> dict[str, Callable[[], float]]:
    return {
        "squeue": lambda: cluster.seconds("squeue"),
        "sinfo": lambda: cluster.seconds("sinfo"),
        "sbatch --wrap": lambda: cluster.seconds(
            "sbatch", "--hold", "-o", "/dev/null", "--wrap", "true"
        ),
        "scancel": lambda: scancel_seconds(cluster),
        "scontrol show job": lambda: cluster.seconds("scontrol", "show", "job", job_id),
        "sacct -j": lambda: cluster.seconds("sacct", "-j", job_id),
    }


def main() -> None:
    options = parser(__doc__ or "").parse_args()
    all_measures: dict[str, Callable[[], float]] = {
        "bare": lambda: spawn_seconds(BARE, dict(os.environ))
    }
    measured = clusters(options)
    for cluster in measured:
        job_id = cluster.run("sbatch", "--parsable", "--hold", "--wrap", "true").strip()
        for name, measure in measures(cluster, job_id).items():
            all_measures[f"{cluster.name} {name}"] = measure
    medians = in_turn(ROUNDS, all_measures)
    for cluster in measured:
        cluster.run("scancel", "--state=PENDING", "--me")
    bare_ms = medians["bare"] * 1e3
    rows: list[dict[str, object]] = []
    for name in COMMANDS:
        ours_ms = medians[f"ours {name}"] * 1e3
        peer = medians.get(f"peer {name}")
        rows.append(
            {
                "command": name,
                "ours_ms": ours_ms,
                "peer_ms": peer * 1e3 if peer is not None else None,
                "recorded_peer_ms": RECORDED_PEER_MS,
                "bare_python_ms": bare_ms,
                "ratio": ours_ms / bare_ms,
                "limit_ratio": LIMIT_RATIO,
                "ok": ours_ms <= LIMIT_RATIO * bare_ms,
            }
        )
    show(options, f"command start to exit, idle cluster, median of {ROUNDS}", rows)


if __name__ == "__main__":
    main()
