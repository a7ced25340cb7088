"""A plan follows from the cluster alone: whoever plans again, elsewhere, plans the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench" / "sched_pass.py"


def digests(nodes: int, jobs: int, seed: int, *words: str) -> list[str]:
    """Return what each of three passes planned, in a process that hashes strings in its own way."""
    command = [sys.executable, str(BENCH), f"--nodes={nodes}", f"--jobs={jobs}", "--passes=2",
               "--digest", "--json", *words]  # fmt: skip
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    done = subprocess.run(command, capture_output=True, check=True, env=environment)
    printed: list[str] = json.loads(done.stdout)["digests"]
    return printed


@pytest.mark.parametrize(
    ("nodes", "jobs"), [(60, 200), pytest.param(100_000, 10_000, marks=pytest.mark.soak)]
)
@pytest.mark.parametrize("words", [(), ("--limits",), ("--no-tree", "--limits")])
def test_a_plan_does_not_depend_on_how_strings_are_hashed(
    nodes: int, jobs: int, words: tuple[str, ...]
) -> None:
    """A controller that takes over, and the replay of a bug report, get the same starts."""
    first = digests(nodes, jobs, 1, *words)
    assert len(first) == 3
    assert digests(nodes, jobs, 2, *words) == first
