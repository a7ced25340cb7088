"""Traces in, measures out."""

from __future__ import annotations

import gzip
from pathlib import Path

from pyslurm_ng.sim.trace_run import TraceRun, trace_conf
from pyslurm_ng.sim.workload import TraceJob, parse_swf, random_jobs, read_swf
from tests.world.passes import in_strict_order

LINE = "{} {} -1 {} {} -1 -1 {} {} -1 1 7 -1 -1 -1 -1 -1 -1"


def line(number: int, submit: int, run: int, procs: int, asked: int) -> str:
    """One line of a trace in which allocated and asked processors agree."""
    return LINE.format(number, submit, run, procs, procs, asked)


def test_broken_lines_are_named_and_left_out() -> None:
    """A trace with broken lines is usable, and says which they are."""
    text = ["; a comment", line(1, 0, 5, 2, 10), "1 2 3", line(2, 4, 5, 1, 10), "a " * 18]
    trace = parse_swf(text)
    assert [job.number for job in trace.jobs] == [1, 2]
    assert [number for number, _ in trace.broken] == [3, 5]
    assert trace.complaints("t.swf")[0] == "t.swf:3: 3 columns where 18 are expected"


def test_numbers_beyond_any_clock_are_broken_lines() -> None:
    huge = line(2, 10**13, 5, 1, 10)
    trace = parse_swf([line(1, 0, 5, 2, 10), huge, "inf " * 18, "nan " * 18, "1e400 " * 18])
    assert [job.number for job in trace.jobs] == [1]
    assert trace.broken == [
        (2, "a column is over 10000000000"),
        (3, "a column is not a number"),
        (4, "a column is not a number"),
        (5, "a column is not a number"),
    ]


def test_gzipped_traces_are_read(tmp_path: Path) -> None:
    """Archives keep them compressed."""
    path = tmp_path / "t.swf.gz"
    path.write_bytes(gzip.compress((line(1, 3, 5, 2, 10) + "\n").encode()))
    assert read_swf(str(path)).jobs == [TraceJob(1, 3, 5, 2, 10, 7)]


def test_first_come_first_served_on_two_processors() -> None:
    """The second job waits for the first, the third for the second, though it would fit."""
    jobs = [TraceJob(1, 0, 100, 1, 120, 1), TraceJob(2, 10, 50, 2, 60, 1)]
    jobs.append(TraceJob(3, 20, 10, 1, 60, 2))
    outcome = TraceRun(jobs, trace_conf(2), in_strict_order).run()
    assert outcome.jobs == 3
    assert outcome.max_wait_s == 130
    assert outcome.mean_wait_s == (0 + 90 + 130) / 3
    assert outcome.makespan_s == 160
    assert outcome.utilisation == (100 + 100 + 10) / (2 * 160)
    assert outcome.mean_bounded_slowdown == (1 + 140 / 50 + 140 / 10) / 3


def test_generated_workloads_repeat_by_seed() -> None:
    """A generator is a function of its seed."""
    first = list(random_jobs(5, 50, 100, 86400))
    assert first == list(random_jobs(5, 50, 100, 86400))
    assert all(job.requested_s > job.run_s for job in first)
