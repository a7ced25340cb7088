#!/usr/bin/env python3
"""Steps of one allocation, in turn with the peer: one, one after the other, and 64 at once.

The allocation has 4 nodes and 64 tasks. The goals are 0.7 of the peer's time for one step, 1.3
times its rate of steps in a row, and 1.5 times its rate of 64 at once. Medians.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from figures import Cluster, clusters, in_turn, jobs_of_a_run, parser, ratio, show, wait_for

NODES, TASKS = 4, 64
ROUNDS, WIDE_ROUNDS = 30, 7
IN_A_ROW = 50
START_LIMIT_S = 60.0
ONE = ("srun", "-N1", "-n1", "/bin/true")
AT_ONCE = ("srun", "--exact", "-N1", "-n1", "--mem=10", "/bin/true")
WIDE = ("srun", f"-N{NODES}", f"-n{TASKS}", "/bin/true")


@dataclass(frozen=True)
class Figure:
    """What is measured. Seconds become milliseconds, or steps per second where `steps` is set."""

    rounds: int
    measure: Callable[[Cluster], float]
    steps: int = 0
    goal: float | None = None
    """As a multiple of the peer's figure."""

    def shown(self, seconds: float) -> float:
        return self.steps / seconds if self.steps else seconds * 1e3

    def is_reached(self, ours: float, peer: float | None) -> bool | None:
        if self.goal is None or peer is None:
            return None
        return ours >= self.goal * peer if self.steps else ours <= self.goal * peer


def in_a_row(cluster: Cluster) -> float:
    """Return the seconds of one step after the other, as a script of a user runs them."""
    begin = time.perf_counter()
    for _ in range(IN_A_ROW):
        cluster.seconds(*ONE)
    return time.perf_counter() - begin


def at_once(cluster: Cluster) -> float:
    """Return the seconds until all steps that start together are over."""
    begin = time.perf_counter()
    steps = [
        subprocess.Popen(cluster.argv(*AT_ONCE), env=cluster.environment) for _ in range(TASKS)
    ]
    if any(map(subprocess.Popen.wait, steps)):
        raise SystemExit(f"bench: error: a step of {cluster.name} failed")
    return time.perf_counter() - begin


ALONE = {"srun -n1, a job of its own: ms": Figure(ROUNDS, lambda cluster: cluster.seconds(*ONE))}
INSIDE = {
    "srun -n1: ms": Figure(ROUNDS, lambda job: job.seconds(*ONE), goal=0.7),
    f"srun -N{NODES} -n{TASKS}: ms": Figure(WIDE_ROUNDS, lambda job: job.seconds(*WIDE)),
    "in a row: steps/s": Figure(3, in_a_row, steps=IN_A_ROW, goal=1.3),
    f"{TASKS} at once: steps/s": Figure(3, at_once, steps=TASKS, goal=1.5),
}


def allocation(cluster: Cluster, name: str) -> Cluster:
    """Start a job that keeps the nodes; return the cluster as its scripts see it."""
    job_id = cluster.run(
        "sbatch", "--parsable", "-J", name, f"-N{NODES}", f"-n{TASKS}", "--mem-per-cpu=100",
        "-o", "/dev/null", "--wrap", "sleep 3600",
    ).strip()  # fmt: skip

    def state() -> str:
        return cluster.run("squeue", "-h", "-j", job_id, "-o", "%T %R").strip()

    wait_for(
        lambda: state().startswith("RUNNING "),
        START_LIMIT_S,
        lambda: f"the start of job {job_id} of {cluster.name} ({state()})",
    )
    return cluster.inside(job_id)


def rows_of(figures: dict[str, Figure], measured: list[Cluster]) -> list[dict[str, object]]:
    """Measure each figure, in turn with the peer, and return its row."""
    rows: list[dict[str, object]] = []
    for what, figure in figures.items():
        medians = in_turn(
            figure.rounds, {each.name: partial(figure.measure, each) for each in measured}
        )
        ours = figure.shown(medians["ours"])
        peer = figure.shown(medians["peer"]) if "peer" in medians else None
        rows.append(
            {
                "what": what,
                "ours": ours,
                "peer": peer,
                "to_peer": ratio(ours, peer),
                "goal": figure.goal,
                "ok": figure.is_reached(ours, peer),
            }
        )
    return rows


def main() -> None:
    options = parser(__doc__ or "").parse_args()
    measured = clusters(options)
    rows = rows_of(ALONE, measured)
    with jobs_of_a_run(measured) as name:
        rows += rows_of(INSIDE, [allocation(cluster, name) for cluster in measured])
    show(options, f"steps of a job on {NODES} nodes", rows)


if __name__ == "__main__":
    main()
