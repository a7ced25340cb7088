#!/usr/bin/env python3
"""Quality of the schedule of a trace: ours beside textbook EASY and conservative backfilling.

    bench/schedule_quality.py --trace FILE.swf[.gz] --procs N

The textbook ones are programs of their own, see tests/oracle/backfilling.py. Ratios are to the
textbook's: EASY for `bf_reserve_depth=1` and `bf_smart`, conservative for the default.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from figures import parser, show
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sim.trace_run import TraceRun, trace_conf
from pyslurm_ng.sim.workload import TraceJob, read_swf
from tests.oracle.backfilling import conservative, easy, waits_s

OURS = {"default": conservative, "bf_reserve_depth=1": easy, "bf_smart": easy}

Measures = tuple[float, float, int]  # mean bounded slowdown, mean wait and longest wait in s


def main() -> None:
    parse = parser(__doc__ or "")
    parse.add_argument("--trace", required=True)
    parse.add_argument("--procs", type=int, required=True)
    parse.add_argument("--jobs", type=int, default=1 << 62, help="only so many of the trace")
    options = parse.parse_args()
    jobs = read_swf(options.trace).jobs[: options.jobs]
    textbook = {
        choose: _textbook(jobs, waits_s(jobs, options.procs, choose))
        for choose in (easy, conservative)
    }
    rows = [
        _row(f"textbook {choose.__name__}", measures, measures)
        for choose, measures in textbook.items()
    ]
    for name, choose in OURS.items():
        settings = [f"SchedulerParameters={name}"] if name != "default" else []
        measures = TraceRun(jobs, trace_conf(options.procs, settings), Planner()).run()
        measured = measures.mean_bounded_slowdown, measures.mean_wait_s, measures.max_wait_s
        rows.append(_row(name, measured, textbook[choose]))
    show(options, "quality of the schedule", rows)


def _textbook(jobs: Sequence[TraceJob], waits: Sequence[int]) -> Measures:
    slowdowns = (
        max(1.0, (wait + job.run_s) / max(job.run_s, 10))
        for wait, job in zip(waits, jobs, strict=True)
    )
    return sum(slowdowns) / len(jobs), sum(waits) / len(jobs), max(waits)


def _row(name: str, measures: Measures, beside: Measures) -> dict[str, object]:
    slowdown, mean_wait_s, max_wait_s = measures
    return {
        "order": name,
        "slowdown": slowdown,
        "ratio": slowdown / beside[0],
        "mean_wait_s": mean_wait_s,
        "mean_ratio": mean_wait_s / max(1, beside[1]),
        "longest_h": max_wait_s / 3600,
        "longest_ratio": max_wait_s / max(1, beside[2]),
    }


if __name__ == "__main__":
    main()
