#!/usr/bin/env python3
"""How long the simulator takes for a month of a large machine, every job by the real scheduler.

The workload is generated: sizes log-uniform, run times exponential, nine tenths of the machine.
"""

from __future__ import annotations

import resource

from figures import parser, show
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sim.trace_run import TraceRun, trace_conf
from pyslurm_ng.sim.workload import random_jobs

LIMIT_S = 60.0
FULL = (2000, 100_000, 30.0)  # nodes, jobs and days that the limit is for


def main() -> None:
    parse = parser(__doc__ or "")
    parse.add_argument("--nodes", type=int, default=FULL[0])
    parse.add_argument("--jobs", type=int, default=FULL[1])
    parse.add_argument("--days", type=float, default=FULL[2])
    parse.add_argument("--load", type=float, default=0.9, help="work offered, of the machine's")
    parse.add_argument("--seed", type=int, default=1)
    options = parse.parse_args()
    span_s = int(options.days * 86_400)
    jobs = list(random_jobs(options.seed, options.jobs, options.nodes, span_s, options.load))
    outcome = TraceRun(jobs, trace_conf(options.nodes), Planner()).run()
    is_full = (options.nodes, options.jobs, options.days) == FULL
    row: dict[str, object] = {
        "jobs": outcome.jobs,
        "nodes": options.nodes,
        "days": options.days,
        "passes": outcome.passes,
        "utilisation": outcome.utilisation,
        "mean_wait_s": outcome.mean_wait_s,
        "seconds": outcome.seconds,
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    if is_full:
        row |= {"limit_s": LIMIT_S, "ok": outcome.jobs == FULL[1] and outcome.seconds <= LIMIT_S}
    show(options, "simulate a month with conservative backfill", [row])


if __name__ == "__main__":
    main()
