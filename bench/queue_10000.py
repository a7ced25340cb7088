#!/usr/bin/env python3
"""A queue of 10,000 pending jobs: squeue, squeue --json, and one scancel for all of them."""

from __future__ import annotations

import subprocess

from figures import Cluster, clusters, in_turn, parser, show
from pyslurm_ng.conf.quick import quick
from pyslurm_ng.wire.client import QUICK_KEYS
from pyslurm_ng.wire.daemon_link import socket_path
from submit_rate import submit_many

JOBS = 10_000
ROUNDS = 7
# name -> (limit in seconds, Slurm 26.11 as recorded)
FIGURES = {"squeue": (0.060, 0.094), "squeue --json": (0.8, 7.6), "scancel all": (0.5, 6.0)}


def fill(cluster: Cluster, jobs: int) -> None:
    """Submit held jobs one by one: the tasks of an array would be one record and one line.

    Ours take them over one connection, which spares minutes; the peer gets an sbatch for each.
    """
    if cluster.name == "ours":
        submit_many(socket_path(quick(cluster.environment["SLURM_CONF"], QUICK_KEYS)), jobs)
        return
    script = f"seq {jobs} | xargs -P 4 -I@ sbatch --hold -o /dev/null --wrap true"
    subprocess.run(
        ["bash", "-c", script], env=cluster.environment, check=True, stdout=subprocess.DEVNULL
    )


def main() -> None:
    parse = parser(__doc__ or "")
    parse.add_argument("--jobs", type=int, default=JOBS)
    options = parse.parse_args()
    measured = clusters(options)
    for cluster in measured:
        fill(cluster, options.jobs)
    measures = {}
    for cluster in measured:
        measures[f"{cluster.name} squeue"] = lambda c=cluster: c.seconds("squeue")
        measures[f"{cluster.name} squeue --json"] = lambda c=cluster: c.seconds("squeue", "--json")
    medians = in_turn(ROUNDS, measures)
    for cluster in measured:
        medians[f"{cluster.name} scancel all"] = cluster.seconds(
            "scancel", "--state=PENDING", "--me"
        )
    rows: list[dict[str, object]] = [
        {
            "what": name,
            "ours_s": medians[f"ours {name}"],
            "peer_s": medians.get(f"peer {name}"),
            "recorded_peer_s": recorded,
            "limit_s": limit,
            "ok": medians[f"ours {name}"] <= limit,
        }
        for name, (limit, recorded) in FIGURES.items()
    ]
    show(options, f"queue of {options.jobs} pending jobs, median of {ROUNDS}", rows)


if __name__ == "__main__":
    main()
