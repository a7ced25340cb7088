#!/usr/bin/env python3
"""`sbatch` and `sacct -j` at once, eight side by side: is the job known, and how long does it wait?

The added time is that of this sacct less that of another for the same job a moment later.
"""

from __future__ import annotations

import statistics
from concurrent.futures import ThreadPoolExecutor

from figures import Cluster, clusters, parser, show

SIDE_BY_SIDE = 8
LIMIT_MS = 5.0


def rounds(cluster: Cluster, count: int) -> list[float]:
    """Return the added milliseconds of each job."""
    results = []
    for _ in range(count):
        job_id = cluster.run(
            "sbatch", "--parsable", "--hold", "-o", "/dev/null", "--wrap", "true"
        ).strip()
        words = ("sacct", "-nX", "-o", "jobid", "-j", job_id)
        first_s = cluster.seconds(*words)
        results.append(1e3 * (first_s - cluster.seconds(*words)))
        cluster.run("scancel", job_id)
    return results


def known_at_once(cluster: Cluster, count: int) -> int:
    """Return how many jobs the first sacct has printed."""
    known = 0
    for _ in range(count):
        job_id = cluster.run(
            "sbatch", "--parsable", "--hold", "-o", "/dev/null", "--wrap", "true"
        ).strip()
        known += job_id in cluster.run("sacct", "-nX", "-o", "jobid", "-j", job_id)
        cluster.run("scancel", job_id)
    return known


def main() -> None:
    made = parser(__doc__ or "")
    made.add_argument("--jobs", type=int, default=1000)
    options = made.parse_args()
    rows: list[dict[str, object]] = []
    for cluster in clusters(options):
        share = options.jobs // SIDE_BY_SIDE
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            known = sum(
                pool.map(
                    lambda _, own=cluster, count=share: known_at_once(own, count),
                    range(SIDE_BY_SIDE),
                )
            )
        alone = rounds(cluster, 50)
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            parts = pool.map(
                lambda _, own=cluster, count=share // 5: rounds(own, count), range(SIDE_BY_SIDE)
            )
            crowded = [added_ms for part in parts for added_ms in part]
        rows.append(
            {
                "cluster": cluster.name,
                "known at once": f"{known} of {share * SIDE_BY_SIDE}",
                "added ms, alone": round(statistics.median(alone), 1),
                "added ms, eight": round(statistics.median(crowded), 1),
                "limit ms": LIMIT_MS,
            }
        )
    show(options, "read your writes", rows)


if __name__ == "__main__":
    main()
