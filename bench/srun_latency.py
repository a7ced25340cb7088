#!/usr/bin/env python3
"""Start to exit of `srun hostname`: inside an allocation and with one of its own; median of 30."""

from __future__ import annotations

import os
from collections.abc import Callable

from figures import BARE, Cluster, clusters, in_turn, parser, show, spawn_seconds

ROUNDS = 30
LIMIT_MS = 40.0
QUIET_BARE_MS = 6.5
"""What a bare interpreter takes on the quiet machine that the limit is for."""
INSIDE, ALONE = "srun hostname, inside", "srun hostname, alone"


def inside(cluster: Cluster) -> tuple[str, Callable[[], float]]:
    """Return a job that keeps an allocation, and how to time a step of it."""
    job_id = cluster.run(
        "sbatch", "--parsable", "-n2", "-o", "/dev/null", "--wrap", "sleep 3600"
    ).strip()
    jobs = Cluster(cluster.name, {**cluster.environment, "SLURM_JOB_ID": job_id})
    return job_id, lambda: jobs.seconds("srun", "-n1", "--overlap", "hostname")


def main() -> None:
    options = parser(__doc__ or "").parse_args()
    measures: dict[str, Callable[[], float]] = {
        "bare": lambda: spawn_seconds(BARE, dict(os.environ))
    }
    measured = clusters(options)
    jobs = []
    for cluster in measured:
        job_id, measure = inside(cluster)
        jobs.append((cluster, job_id))
        measures[f"{cluster.name} {INSIDE}"] = measure
        measures[f"{cluster.name} {ALONE}"] = lambda own=cluster: own.seconds(
            "srun", "-n1", "hostname"
        )
    medians = in_turn(ROUNDS, measures)
    for cluster, job_id in jobs:
        cluster.run("scancel", job_id)
    bare_ms = medians["bare"] * 1e3
    rows: list[dict[str, object]] = []
    for name in (INSIDE, ALONE):
        ours_ms = medians[f"ours {name}"] * 1e3
        peer = medians.get(f"peer {name}")
        limit_ms = LIMIT_MS * max(1.0, bare_ms / QUIET_BARE_MS)
        rows.append(
            {
                "command": name,
                "ours_ms": ours_ms,
                "peer_ms": peer * 1e3 if peer is not None else None,
                "bare_python_ms": bare_ms,
                "limit_ms": limit_ms if name == INSIDE else None,
                "ok": ours_ms <= limit_ms if name == INSIDE else True,
            }
        )
    show(options, f"srun start to exit, median of {ROUNDS}", rows)


if __name__ == "__main__":
    main()
