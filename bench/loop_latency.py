#!/usr/bin/env python3
"""How long squeue and sbatch take while passes over a long queue run back to back.

slurmctld recovers a full cluster with a long queue (that of sched_pass) from a checkpoint; its
nodes never answer. Each command is timed in turn without passes and with: a job is held and
released all the time, which makes the next pass due. Start to exit; the difference of the 99th
percentiles is what the limit is for.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import socket
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from figures import Cluster, parser, show, spawn_seconds, wait_for
from pyslurm_ng.conf.slurm_conf import parse_slurm_conf
from pyslurm_ng.journal.checkpoint import write_checkpoint
from pyslurm_ng.journal.recovery import Layout
from pyslurm_ng.journal.segment import ORIGIN
from sched_pass import MINUTE_US, conf_text, prepare, tree_text

LIMIT_MS = 20.0
COMMANDS = {
    "squeue of one user": ("squeue", "-h", "-u", "1005"),
    "squeue of one job": ("squeue", "-h", "-j", "{job}"),
    "sbatch": ("sbatch", "--hold", "-o", "/dev/null", "--wrap", "true"),
}


def free_port() -> int:
    """Return a port that nobody has at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def write_cluster(directory: Path, nodes: int, jobs: int, parameters: str) -> str:
    """Write configuration and state of a full cluster; return the last job's id."""
    text = conf_text(nodes, parameters).replace("SlurmctldHost=bench\n", "")
    text += f"""
SlurmctldHost={socket.gethostname().partition(".")[0]}(127.0.0.1)
SlurmctldPort={free_port()}
SlurmUser=root
SlurmdTimeout=0
MaxJobCount=1000000
StateSaveLocation={directory}/state
SlurmctldPidFile={directory}/slurmctld.pid
SlurmctldLogFile={directory}/slurmctld.log
TopologyPlugin=topology/tree
"""
    conf = parse_slurm_conf(text)
    (directory / "slurm.conf").write_text(text)
    (directory / "topology.conf").write_text(tree_text(conf))
    key = directory / "slurm.key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o600)
    cluster, _ = prepare(
        conf, jobs, 1, 20, has_tree=True, begin_us=time.time_ns() // 1000 - 2 * MINUTE_US
    )
    layout = Layout(directory / "state")
    layout.state.mkdir()
    layout.create()
    write_checkpoint(layout.checkpoints, secrets.token_bytes(16), ORIGIN, cluster.to_bytes())
    return str(cluster.next_job_id - 1)


def passes_so_far(cluster: Cluster) -> int:
    """Return how many passes sdiag has counted."""
    cycles = re.search(r"Total cycles:\s+(\d+)", cluster.run("sdiag"))
    return int(cycles[1]) if cycles else 0


def keep_busy(cluster: Cluster, job: str, ended: threading.Event) -> None:
    """Make the next pass due again and again."""
    while not ended.is_set():
        cluster.run("scontrol", "hold", job)
        cluster.run("scontrol", "release", job)
        ended.wait(0.05)


def percentile_ms(values: list[float], part: float) -> float:
    return statistics.quantiles(values, n=1000, method="inclusive")[int(part * 1000) - 1] * 1e3


def timed(cluster: Cluster, job: str, rounds: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    argvs = {
        name: cluster.argv(*(word.format(job=job) for word in words))
        for name, words in COMMANDS.items()
    }
    for _ in range(rounds):
        for name, argv in argvs.items():
            seconds[name].append(spawn_seconds(argv, cluster.environment))
    return seconds


def main() -> None:
    parse = parser(__doc__ or "")
    parse.add_argument("--parameters", default="", help="SchedulerParameters")
    parse.add_argument("--nodes", type=int, default=10_000)
    parse.add_argument("--jobs", type=int, default=100_000)
    parse.add_argument("--rounds", type=int, default=300)
    options = parse.parse_args()
    with tempfile.TemporaryDirectory(prefix="pyslurm-ng-bench.") as name:
        directory = Path(name)
        job = write_cluster(directory, options.nodes, options.jobs, options.parameters)
        bin_directory = Path(__file__).resolve().parents[1] / ".venv" / "bin"
        environment = dict(os.environ)
        environment["PATH"] = f"{bin_directory}{os.pathsep}{environment['PATH']}"
        environment["SLURM_CONF"] = str(directory / "slurm.conf")
        cluster = Cluster("ours", environment)
        daemon = subprocess.Popen(
            cluster.argv("slurmctld", "-D"), env=environment, stderr=subprocess.DEVNULL
        )
        try:
            report(options, cluster, job)
        finally:
            daemon.terminate()
            daemon.wait()


def report(options: argparse.Namespace, cluster: Cluster, job: str) -> None:
    rounds = options.rounds
    wait_for(lambda: "is UP" in cluster.run_quietly("scontrol", "ping"), 60, "the start")
    before = -1

    def settled() -> bool:
        nonlocal before
        last, before = before, passes_so_far(cluster)
        return last == before

    wait_for(settled, 120, "the first passes")
    idle = timed(cluster, job, rounds)
    begun = passes_so_far(cluster)
    ended = threading.Event()
    keeper = threading.Thread(target=keep_busy, args=(cluster, job, ended))
    keeper.start()
    try:
        busy = timed(cluster, job, rounds)
    finally:
        ended.set()
        keeper.join()
    made = passes_so_far(cluster) - begun
    rows: list[dict[str, object]] = []
    for name in COMMANDS:
        idle_ms, busy_ms = percentile_ms(idle[name], 0.99), percentile_ms(busy[name], 0.99)
        rows.append(
            {
                "command": name,
                "idle_p50_ms": percentile_ms(idle[name], 0.5),
                "idle_p99_ms": idle_ms,
                "passes_p50_ms": percentile_ms(busy[name], 0.5),
                "passes_p99_ms": busy_ms,
                "above_ms": busy_ms - idle_ms,
                "limit_ms": LIMIT_MS,
                "ok": busy_ms - idle_ms <= LIMIT_MS,
            }
        )
    show(options, f"{rounds} rounds each, {made} passes meanwhile", rows)


if __name__ == "__main__":
    main()
