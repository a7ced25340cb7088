"""RELIABILITY 2: slurmctld dies just before any one call that changes its files.

A fixed list of commands is run once without a fault. What is seen after each command is noted, and
which files were changed. Then strace kills the daemon at the n-th call of one kind on one of these
files, for one n after another. After the restart the state must be one of those noted, and contain
every command that was answered.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.kernels.records import project
from pyslurm_ng.wire.client import SlurmError
from tests.ctld.controller import SOURCE, Controller
from tests.world.soak import amount
from tests.world.waiting import wait_until

pytestmark = [
    pytest.mark.daemons,
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed"),
]
CALLS = ("pwrite64", "fdatasync", "fsync", "rename", "ftruncate", "openat", "mkdir", "write")
MOST_POINTS = 300
STRIDE = amount(usual=10, full=1)
FEW_OF_SCRIPTS = ("00", "01", "7f", "ff")
"""Scripts have 256 directories, which are made one after the other."""
HELD = 1


def _submit(number: int) -> tuple[str, dict[str, Any]]:
    request = {"name": f"j{number}", "work_dir": "/", "flags": HELD, "array": "0-3" * (number == 5)}
    script = b"#!/bin/sh\n# script %d\n" % (number % 3)
    return "SubmitJob", {"request": request, "script": script, "environment": b"A=%d\0" % number}


def _update(job: int, **settings: str) -> tuple[str, dict[str, Any]]:
    return "UpdateJob", {"jobs": [str(job)], "settings": settings}


COMMANDS: tuple[tuple[str, dict[str, Any]], ...] = (
    *(_submit(number) for number in range(1, 11)),
    *(_update(job, comment=f"c{job}", timelimit=str(60 + job)) for job in (1, 2, 3)),
    ("CancelJobs", {"filter": {"jobs": ["4"]}}),
    ("CancelJobs", {"filter": {"jobs": ["5_2"]}}),
    ("UpdatePartition", {"name": "late", "settings": {"nodes": "n[1-2]"}, "create": True}),
    _update(6, partition="late"),
    ("HoldJobs", {"jobs": ["7"], "release": True}),
    ("HoldJobs", {"jobs": ["7"]}),
    *(_submit(number) for number in range(11, 16)),
    *(_update(job, jobname=f"renamed{job}") for job in (8, 9, 10)),
    ("CancelJobs", {"filter": {"jobs": ["1", "2", "3"]}}),
    ("UpdatePartition", {"name": "debug", "settings": {"maxtime": "7-0"}}),
    *(_submit(number) for number in range(16, 24)),
    ("UpdatePartition", {"name": "late", "settings": {"state": "DOWN"}}),
    ("Reconfigure", {}),
)


def observed(controller: Controller) -> object:
    """Return all that the commands may have changed, as commands show it."""
    jobs = controller.call("ShowJobs", flags=2)
    fields = list(jobs["fields"])
    names = ("job_id", "array_task_id", "name", "comment", "partition", "time_limit_min", "state")
    columns = [fields.index(name) for name in names]
    rows = sorted(map(str, project(bytes(jobs["records"]), columns)))
    parts = controller.call("ShowPartitions", flags=2)
    shown = list(parts["fields"])
    kept = [shown.index(name) for name in ("name", "nodes", "max_time", "state") if name in shown]
    return rows, sorted(map(str, project(bytes(parts["records"]), kept)))


def run_commands(controller: Controller) -> int:
    """Run the commands until the daemon is gone; return how many were answered."""
    for number, (kind, fields) in enumerate(COMMANDS):
        try:
            controller.change(kind, **fields)
        except (SlurmError, OSError):
            return number
    return len(COMMANDS)


@dataclass(frozen=True)
class CleanRun:
    """A run without a fault: what is seen before the first command and after each, and the files,
    relative to the controller's directory, that it changed."""

    seen: list[object]
    files: list[str]


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> CleanRun:
    """Run all commands."""
    controller = Controller(tmp_path_factory.mktemp("clean"))
    calls = controller.directory / "calls"
    traced = start_traced(controller, ["-o", str(calls), "-e", "trace=" + ",".join(CALLS)])
    try:
        wait_until(lambda: is_up(controller))
        seen = [observed(controller)]
        for kind, fields in COMMANDS:
            controller.change(kind, **fields)
            seen.append(observed(controller))
    finally:
        controller.stop()
        traced.wait(60)
    assert len({str(state) for state in seen}) > 30
    changes = [line for line in calls.read_text().splitlines() if "O_RDONLY" not in line]
    files = {
        path
        for path in re.findall(rf'"{controller.directory}/([^"]+)"', "\n".join(changes))
        if path != controller.log_file.name and not _is_one_of_many(path)
    }
    assert len(files) > 40
    return CleanRun(seen, sorted(files))


def _is_one_of_many(path: str) -> bool:
    parent, _, name = path.rpartition("/")
    return parent == "state/scripts" and name not in FEW_OF_SCRIPTS


def start_traced(controller: Controller, options: list[str]) -> subprocess.Popen[bytes]:
    """Start slurmctld under strace."""
    program = [sys.executable, "-m", "pyslurm_ng.ctld", "-D", "-f", str(controller.conf_path)]
    return subprocess.Popen(
        ["strace", "-f", "-qq", *options, *program],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=controller.directory,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )


def is_up(controller: Controller) -> bool:
    """Return whether it takes commands; asking one that is gone would take seconds."""
    return "Running as primary controller" in controller.log()


def one_point(directory: Path, call: str, number: int, clean: CleanRun) -> bool:
    """Die at one point and recover; return False when the run never came so far.

    The n-th call is that of the first thread to make so many of them.
    """
    directory.mkdir()
    controller = Controller(directory)
    options = ["-o", os.devnull, "-e", f"trace={call}"]
    options += ["-e", f"inject={call}:signal=SIGKILL:when={number}"]
    options += [word for path in clean.files for word in ("-P", str(directory / path))]
    traced = start_traced(controller, options)
    try:
        wait_until(lambda: traced.poll() is not None or is_up(controller))
        answered = run_commands(controller) if traced.poll() is None else 0
        was_killed = traced.poll() is not None or answered < len(COMMANDS)
    finally:
        if traced.poll() is None:
            controller.stop()
        traced.wait(60)
    controller.start()
    try:
        seen = observed(controller)
        fitting = [count for count, state in enumerate(clean.seen) if state == seen]
        assert fitting, f"{call} {number}: after {answered} answers a state that never was"
        assert fitting[-1] >= answered, f"{call} {number}: {answered} answered, {fitting[-1]} kept"
    finally:
        controller.kill(signal.SIGKILL)
    shutil.rmtree(directory)
    return was_killed


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.mark.parametrize(
    ("call", "number"), [("pwrite64", 17), ("fdatasync", 20), ("rename", 5), ("fsync", 2)]
)
def test_some_crash_points(room: Path, call: str, number: int, clean: CleanRun) -> None:
    """RELIABILITY 2: a few of the points, in each run of the tests."""
    assert one_point(room / "c", call, number, clean), "the daemon never came so far"


@pytest.mark.soak
@pytest.mark.parametrize("call", CALLS)
def test_all_crash_points(room: Path, call: str, clean: CleanRun) -> None:
    """RELIABILITY 2: one point after another, until the daemon outlives the commands.

    Usually each tenth of them; PYSLURM_FULL_SOAK=1 tries all.
    """
    number = 1
    while number < MOST_POINTS and one_point(room / f"c{number}", call, number, clean):
        number += STRIDE
    assert 1 < number < MOST_POINTS
