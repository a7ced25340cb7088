#!/usr/bin/env python3
"""How many batch scripts one node can start and see end: slurmd's runner, template, supervisors.

No controller and no network: what a node costs by itself. Beside it, the same program started by a
shell loop, which is the least that can be.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pyslurm_ng.d.spool.step_contract import StepSpec, TaskSpec
from pyslurm_ng.d.steps.step_runner import StepKey, StepRunner
from pyslurm_ng.model.ids import STEP_BATCH

SCRIPT = b"#!/bin/sh\nexec /bin/true\n"


def spec(directory: str, job_id: int) -> StepSpec:
    """Return what slurmd would tell a supervisor of a one-line script."""
    task: TaskSpec = {"task": 0, "local": 0, "program": 0, "cpus": b"", "memory_mode": -1,
            "memory_nodes": b"", "report": "", "problem": "", "env": [], "in": "/dev/null",
            "out": "/dev/null", "err": "/dev/null"}  # fmt: skip
    environment = [b"PATH=/usr/bin:/bin"] + [b"SLURM_VARIABLE_%d=value" % n for n in range(40)]
    return {
        "duty": 0, "since_us": 0, "credential": b"", "login": None,
        "name": f"{job_id}.batch", "job": job_id, "attempt": 0, "step": STEP_BATCH, "node": "n1",
        "node_index": 0, "uid": os.getuid(), "gid": os.getgid(), "groups": [os.getgid()],
        "cwd": "/", "umask": 0o22, "rlimits": [], "env": environment, "nice": 0,
        "script": SCRIPT, "spool": f"{directory}/job{job_id:05d}", "append": False, "route": None,
        "label": False, "label_width": 1, "kill_wait": 30, "unkillable_s": 60, "cgroup": None,
        "acct": True, "acct_every": 30, "memory_limit_kib": 0, "task_prologs": [],
        "task_epilogs": [], "pty": False, "rows": 0, "columns": 0, "is_batch": True,
        "no_kill": False, "oom_kill_step": False, "waits_for_children": False, "programs": [["x"]],
        "tasks": [task],
    }  # fmt: skip


async def launch(directory: str, jobs: int, at_once: int) -> tuple[float, int]:
    """Return seconds for all jobs, and how many did not end well."""
    room = asyncio.Semaphore(at_once)
    ended = 0
    bad = 0
    over = asyncio.Event()

    def on_ended(key: StepKey, records: object) -> None:
        nonlocal ended, bad
        assert isinstance(records, dict)
        ended += 1
        bad += records.get("end", {}).get("status", 1) != 0
        room.release()
        if ended == jobs:
            over.set()

    runner = StepRunner(directory, on_started=lambda key, pids: None, on_ended=on_ended)
    await runner.begin()
    begin = time.perf_counter()
    for job_id in range(1, jobs + 1):
        await room.acquire()
        path = f"{directory}/{job_id}.{STEP_BATCH}.0"
        runner.start((job_id, STEP_BATCH, 0), path, spec(directory, job_id))
    await over.wait()
    seconds = time.perf_counter() - begin
    runner.close()
    return seconds, bad


def busy_s() -> float:
    """Return the processor seconds of the whole machine that were not idle."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    ticks = sum(map(int, fields)) - int(fields[3]) - int(fields[4])
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="launch-rate-") as directory:
        before = busy_s()
        seconds, bad = asyncio.run(launch(directory, options.jobs, options.at_once))
        busy = busy_s() - before
    begin = time.perf_counter()
    loop = f"i=0; while [ $i -lt {options.jobs} ]; do sh -c 'exec /bin/true'; i=$((i+1)); done"
    subprocess.run(["sh", "-c", loop], check=True)
    least = time.perf_counter() - begin
    figures = {
        "jobs": options.jobs,
        "launches_per_s": round(options.jobs / seconds, 1),
        "machine_ms_per_job": round(1000 * busy / options.jobs, 2),
        "shell_loop_per_s": round(options.jobs / least, 1),
        "failed": bad,
    }
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:20} {value}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
