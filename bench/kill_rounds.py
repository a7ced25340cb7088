#!/usr/bin/env python3
"""kill -9 of slurmctld in a stream of submissions, of slurmd under steps: lost, doubled, reused.

The rounds are those of the soak tests, which judge them by invariants: each promised job is there
once, ran once, under an id of its own, and steps survive with all of their output. A round that
breaks one fails. Slurm 26.11, recorded: 1,224 of 2,022 acknowledged jobs lost, 6 ids reused.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from figures import parser, show

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = {
    "slurmctld, 50 rounds of submissions": (
        "tests/ctld/test_kill.py::test_no_promise_is_broken_by_a_kill[50]",
    ),
    "slurmctld, 50 rounds of jobs that run": (
        "tests/daemons/test_faults_daemons.py::test_controller_killed_fifty_times",
    ),
    "slurmd, 20 rounds of 50 steps that write": (
        "tests/daemons/test_node_daemon.py::test_steps_survive_kill_of_slurmd[50-20]",
    ),
}
NOTHING_RUN = 5
"""pytest's exit code when no test was selected: a bar without its test is not met."""


def main() -> None:
    options = parser(__doc__ or "").parse_args()
    rows: list[dict[str, object]] = []
    for what, words in ROUNDS.items():
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *words, "-q", "-n0", "-p", "no:cacheprovider"],
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode == NOTHING_RUN:
            sys.exit(f"bench: error: {what}: no test found")
        last = done.stdout.strip().rpartition("\n")[2]
        rows.append({"what": what, "outcome": last, "ok": done.returncode == 0})
    show(options, "kill -9: nothing lost, nothing twice, no id reused", rows)


if __name__ == "__main__":
    main()
