"""Two recordings are equal when they differ only in what differs from run to run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "compare_reference.py"


def recorded(root: Path, stdout: str, name: str = "squeue/default") -> None:
    path = root / f"{name}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = f"[alice@login]$ squeue -j 7\n----- stdout\n{stdout}----- stderr\n----- exit 0\n"
    path.write_text(text)


def compare(tmp_path: Path, *more: str) -> tuple[int, str]:
    argv = [sys.executable, str(TOOL), str(tmp_path / "a"), str(tmp_path / "b"), *more]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_moments_times_and_ids_do_not_count(tmp_path: Path) -> None:
    """They are of the run."""
    recorded(tmp_path / "a", "   12 main  R  1:05  StartTime=2026-11-20T12:00:00\n")
    recorded(tmp_path / "b", "    3 main  R  0:01  StartTime=2026-11-21T03:04:05\n")
    code, text = compare(tmp_path)
    assert (code, text.split()[0]) == (0, "equal")


def test_states_and_exit_codes_count(tmp_path: Path) -> None:
    """ExitCode=0:15 is no time."""
    recorded(tmp_path / "a", "JobId=1 JobState=CANCELLED ExitCode=0:15\n")
    recorded(tmp_path / "b", "JobId=2 JobState=CANCELLED ExitCode=0:9\n")
    code, text = compare(tmp_path, "--diff")
    assert code == 1
    assert "-JobId=<job> JobState=CANCELLED ExitCode=0:15" in text


def test_json_is_compared_by_content(tmp_path: Path) -> None:
    """Spelling of empty lists and of slashes means nothing."""
    recorded(tmp_path / "a", '{\n  "flags": [\n  ],\n  "lineage": "\\/root"\n}\n')
    recorded(tmp_path / "b", '{\n  "flags": [],\n  "lineage": "/root"\n}\n')
    assert compare(tmp_path)[0] == 0


def test_what_was_not_recorded_is_missing(tmp_path: Path) -> None:
    """A command that was left out is no success."""
    recorded(tmp_path / "a", "x\n")
    recorded(tmp_path / "a", "x\n", "sinfo/default")
    recorded(tmp_path / "b", "x\n")
    code, text = compare(tmp_path)
    assert code == 1
    assert "missing      sinfo/default.txt" in text


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    """One line, exit code 2."""
    (tmp_path / "a").mkdir()
    code, text = compare(tmp_path)
    assert (code, text) == (2, f"compare_reference: error: {tmp_path}/b: not a directory\n")


def test_a_line_with_a_reason_is_explained_and_others_stay(tmp_path: Path) -> None:
    """A reason is about its files and lines only; it cannot hide what breaks beside them."""
    for root, verb in ((tmp_path / "a", "a using"), (tmp_path / "b", "using")):
        recorded(root, f"Job 7 to start at 2026 {verb} 2 processors\n", "env/sbatch_test_only")
    assert compare(tmp_path)[0] == 0
    recorded(tmp_path / "b", "Job 7 is not\nto start at all\n", "env/sbatch_test_only")
    code, text = compare(tmp_path, "--diff")
    assert (code, text.split()[:2]) == (1, ["differs", "1"])
    assert "+Job <job> is not" in text and "+to start at all" not in text


def test_rows_of_accounting_are_matched_by_job(tmp_path: Path) -> None:
    """Their order, jobs of the part that was run twice and what was measured do not count."""
    head = "JobID            MaxRSS      State \n------------ ---------- ---------- \n"
    last = "2                 5188K  COMPLETED \n"
    recorded(tmp_path / "a", f"{head}10                          FAILED \n{last}", "sacct/x")
    recorded(
        tmp_path / "b", f"{head}{last}10             1M     FAILED \n90  x  FAILED\n", "sacct/x"
    )
    code, text = compare(tmp_path)
    assert code == 1  # a cell at another place is another cell
    row = "10                   1M     FAILED \n"
    recorded(tmp_path / "b", f"{head}{last}{row}90 x FAILED\n", "sacct/x")
    assert compare(tmp_path)[0] == 0
    recorded(tmp_path / "b", f"{head}{last}{row.replace('FAILED', 'TIMEOU')}", "sacct/x")
    code, text = compare(tmp_path, "--diff")
    assert code == 1 and "FAILED" in text


def test_the_page_lists_every_reason() -> None:
    """The page and the comparer speak of the same differences."""
    done = subprocess.run(
        [sys.executable, str(TOOL), "--reasons"], capture_output=True, text=True, check=True
    )
    page = TOOL.parents[1] / "docs" / "reference" / "reference-differences.md"
    assert "| choice |" in done.stdout and done.stdout in page.read_text()
