"""`pyslurm-ng sim`: a trace in, one object of measures out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from pyslurm_ng.up.__main__ import main


def swf(number: int, submit_s: int, run_s: int, processors: int, limit_s: int) -> str:
    """Return a line of the Standard Workload Format."""
    return f"{number} {submit_s} -1 {run_s} {processors} -1 -1 {processors} {limit_s} -1 1 5"


# The second job must wait for the first; the third fits beside it and before the second.
JOBS = [
    swf(1, 0, 600, 3, 600),
    swf(2, 10, 600, 4, 600),
    swf(3, 20, 300, 1, 540),
]
MEASURES = {
    "jobs",
    "mean_bounded_slowdown",
    "mean_wait_s",
    "max_wait_s",
    "utilisation",
    "makespan_s",
    "passes",
    "seconds",
}


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Run the command; return its exit code and output."""
    code = main(["sim", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_backfill_starts_the_small_job_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One object with all measures; waits are those of the schedule drawn above."""
    trace = tmp_path / "trace.swf.gz"
    trace.write_bytes(gzip.compress(("; a header\n" + "\n".join(JOBS) + "\n").encode()))
    code, out, _ = run(capsys, "--trace", str(trace), "--procs", "4", "--json")
    measured = json.loads(out)
    assert code == 0
    assert set(measured) == MEASURES
    assert measured["jobs"] == 3
    assert measured["max_wait_s"] == 590
    assert measured["mean_wait_s"] == pytest.approx(590 / 3)
    assert measured["makespan_s"] == 1200


def test_settings_reach_the_scheduler(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """sched/builtin is strict: the small job waits for the wide one; --set beats --conf."""
    trace, conf = tmp_path / "trace.swf", tmp_path / "slurm.conf"
    trace.write_text("\n".join(JOBS) + "\n")
    conf.write_text("SchedulerType=sched/builtin\nNodeName=x[1-9]\n")
    words = ("--trace", str(trace), "--procs", "4", "--conf", str(conf), "--json")
    _, strict, _ = run(capsys, *words)
    _, loose, _ = run(capsys, *words, "--set", "SchedulerType=sched/backfill")
    assert json.loads(strict)["max_wait_s"] == 1180
    assert json.loads(loose)["max_wait_s"] == 590


def test_settings_may_be_in_included_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And are named there when they are wrong; lines of nodes are not looked at."""
    trace, conf, more = (tmp_path / name for name in ("trace.swf", "slurm.conf", "more.conf"))
    trace.write_text("\n".join(JOBS) + "\n")
    conf.write_text("Include more.conf\nClusterName=c\n")
    more.write_text("NodeName=x CPUs=none\nSchedulerType=sched/builtin\n")
    words = ("--trace", str(trace), "--procs", "4", "--conf", str(conf), "--json")
    _, out, _ = run(capsys, *words)
    assert json.loads(out)["max_wait_s"] == 1180
    more.write_text("MinJobAge=young\n")
    code, _, err = run(capsys, *words)
    assert code == 2
    assert f"{more}:1: MinJobAge: 'young' is not a number" in err


def test_bad_input_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Broken lines with their numbers, jobs that cannot run, unknown keys: one line each."""
    trace = tmp_path / "trace.swf"
    trace.write_text("\n".join([*JOBS, "1 2 x", swf(9, 1, 1, 64, 60)]) + "\n")
    code, _, err = run(capsys, "--trace", str(trace), "--procs", "4", "--json")
    assert code == 0
    assert f"{trace}:4: 3 columns where 18 are expected" in err
    assert "1 job wants more than 4 processors; left out" in err
    code, _, err = run(capsys, "--trace", str(trace), "--procs", "4", "--set", "Nonsense=1")
    assert code == 2
    assert err.count("\n") == 1
    assert "Nonsense" in err
    code, _, err = run(capsys, "--trace", str(trace), "--procs", "4", "--set", "NodeName=a")
    assert code == 2
    assert err == "pyslurm-ng: error: Invalid value for --set: NodeName: " + (
        "the machine follows from --procs\n"
    )
    trace.write_text("; nothing else\n1\n")
    code, _, err = run(capsys, "--trace", str(trace), "--procs", "4")
    assert code == 2
    assert err.splitlines() == [
        f"pyslurm-ng: sim: {trace}:2: 1 column where 18 are expected",
        f"pyslurm-ng: error: {trace}: no job in it has run",
    ]


def test_a_gzipped_file_needs_no_special_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No other file is read as one, and one that was cut gives one line."""
    packed, plain, cut = (tmp_path / name for name in ("a.swf", "b.swf.gz", "c.swf.gz"))
    whole = gzip.compress(("\n".join(JOBS) + "\n").encode())
    packed.write_bytes(whole)
    plain.write_text("\n".join(JOBS) + "\n")
    cut.write_bytes(whole[:-12])
    for trace in (packed, plain):
        code, out, _ = run(capsys, "--trace", str(trace), "--procs", "4", "--json")
        assert code == 0 and json.loads(out)["jobs"] == 3
    code, _, err = run(capsys, "--trace", str(cut), "--procs", "4")
    assert code == 2
    assert err.startswith(f"pyslurm-ng: error: {cut}: Compressed file ended")


def test_what_is_wrong_with_settings_is_named_where_it_was_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace, conf = tmp_path / "trace.swf", tmp_path / "slurm.conf"
    trace.write_text("\n".join(JOBS) + "\n")
    conf.write_text("NodeName=x[1-9] \\\n  CPUs=4\n\nPriorityWeightAge=old\n")
    words = ("--trace", str(trace), "--procs", "4")
    code, _, err = run(capsys, *words, "--conf", str(conf), "--set", "Nonsense=1")
    assert code == 2
    assert f"{conf}:4: PriorityWeightAge: 'old' is not a number" in err
    assert "--set: Nonsense: unknown key" in err
    code, _, err = run(capsys, *words, "--set", "SchedulerParameters=bf_smrt")
    assert code == 0
    assert "--set: SchedulerParameters: 'bf_smrt' is unknown and ignored" in err
