"""What the benchmarks share: clusters to measure, clocks, and a table of ours beside the peer's.

A cluster is a directory of commands and a SLURM_CONF. The recorded peer is Slurm 26.11 as it was
once measured on another quiet two-core machine: a hint. `--peer-env` names one to compare
with in the same run: the file that `bench/peer.sh up` wrote. `show` gives a verdict (`ok`) only
when other programs used less than half a core before and after the run.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

BARE = [os.path.realpath(sys.executable), "-I", "-S", "-c", "pass"]
"""The interpreter itself: a `python3` on the PATH may be a script that looks for one."""
OTHERS_CORES_LIMIT = 0.5
"""More than this from other programs moves a median too far to be judged."""
OTHERS_WINDOW_S = 2.0
END_LIMIT_S = 120.0


@dataclass(frozen=True)
class Cluster:
    """Commands and a configuration; the same program measures ours and the peer's."""

    name: str
    environment: dict[str, str]

    def argv(self, *words: str) -> list[str]:
        """Return a command with the full path, so that no shell and no search is measured."""
        for directory in self.environment["PATH"].split(os.pathsep):
            if os.access(os.path.join(directory, words[0]), os.X_OK):
                return [os.path.join(directory, words[0]), *words[1:]]
        sys.exit(f"bench: error: {self.name} has no {words[0]}")

    def run(self, *words: str) -> str:
        """Return what a command prints; it has to succeed."""
        done = subprocess.run(
            self.argv(*words), env=self.environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"bench: error: {self.name}: {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    def run_quietly(self, *words: str) -> str:
        """Return what a command prints, whether it succeeds or not."""
        done = subprocess.run(
            self.argv(*words), env=self.environment, capture_output=True, text=True, check=False
        )
        return done.stdout

    def seconds(self, *words: str) -> float:
        """Return how long a command takes from start to exit."""
        return spawn_seconds(self.argv(*words), self.environment)

    def inside(self, job_id: str) -> Cluster:
        """Return the same cluster as a job's own environment shows it."""
        return Cluster(self.name, {**self.environment, "SLURM_JOB_ID": job_id})

    def jobs_named(self, name: str) -> list[str]:
        """Return a line for each job of this name that has not ended."""
        return self.run("squeue", "-h", "-n", name).splitlines()


@contextmanager
def jobs_of_a_run(measured: list[Cluster]) -> Iterator[str]:
    """Give a job name that no other run uses, and end what is left of such jobs afterwards.

    So the next program finds free nodes, whatever happened.
    """
    name = f"bench-{secrets.token_hex(4)}"
    try:
        yield name
    finally:
        for cluster in measured:
            cluster.run("scancel", "--me", f"--name={name}")
        for cluster in measured:
            wait_for(lambda own=cluster: not own.jobs_named(name), END_LIMIT_S, "the end of jobs")


def spawn_seconds(argv: list[str], environment: dict[str, str]) -> float:
    """Return the time from start to exit; posix_spawn, for a fork would be measured, too."""
    quiet = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]
    begin = time.perf_counter()
    child = os.posix_spawnp(argv[0], argv, environment, file_actions=quiet)
    _, status = os.waitpid(child, 0)
    took = time.perf_counter() - begin
    if os.waitstatus_to_exitcode(status):
        sys.exit(f"bench: error: {' '.join(argv)} failed")
    return took


def parser(description: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=description)
    made.add_argument(
        "--peer-env",
        help="file with the peer's PATH, SLURM_CONF, ...; also the env.sh of a cluster of ours",
    )
    made.add_argument("--json", action="store_true", help="print one JSON object per line")
    return made


def clusters(options: argparse.Namespace) -> list[Cluster]:
    """Return our cluster (from SLURM_CONF) and, when told where it is, the peer's."""
    if "SLURM_CONF" not in os.environ:
        sys.exit("bench: error: source the env.sh that `pyslurm-ng up` wrote")
    options.others_cores = others_cores()
    both = [Cluster("ours", dict(os.environ))]
    if options.peer_env:
        environment = dict(os.environ)
        for line in Path(options.peer_env).read_text().splitlines():
            key, _, value = line.removeprefix("export ").partition("=")
            environment[key] = value.replace("$PATH", os.defpath)
        environment["PATH"] += os.pathsep + os.environ["PATH"]
        if environment["SLURM_CONF"] == os.environ["SLURM_CONF"]:
            sys.exit(f"bench: error: {options.peer_env}: the peer is the cluster of SLURM_CONF")
        both.append(Cluster("peer", environment))
    return both


def others_cores() -> float:
    """Return how many cores are busy now; the clusters are idle, so others make them so."""

    def busy_s() -> float:
        user, nice, system, _, _, irq, softirq, *_ = map(
            int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        )
        return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")

    before = busy_s()
    time.sleep(OTHERS_WINDOW_S)
    return (busy_s() - before) / OTHERS_WINDOW_S


def ratio(ours: float, peer: float | None) -> float | None:
    """Return ours as a multiple of the peer's, when there is one."""
    return None if peer is None else ours / peer


def in_turn(rounds: int, measures: dict[str, Callable[[], float]]) -> dict[str, float]:
    """Return each measure's median; they take turns, since the machine's load moves them all."""
    seconds: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            seconds[name].append(measure())
    return {name: statistics.median(values) for name, values in seconds.items()}


def show(options: argparse.Namespace, title: str, rows: list[dict[str, object]]) -> None:
    """Print rows with the same keys, as a table or as JSON lines; judge only on a quiet machine."""
    if hasattr(options, "others_cores"):
        busy = max(options.others_cores, others_cores())
        if busy > OTHERS_CORES_LIMIT:
            rows = [{**row, "ok": None} if "ok" in row else row for row in rows]
            print(f"bench: no verdict: other programs use {busy:.1f} cores", file=sys.stderr)
    if options.json:
        for row in rows:
            print(json.dumps({"bench": title, **row}), flush=True)
        return
    print(f"\n{title}")
    names = list(rows[0])
    cells = [[shown(row[name]) for name in names] for row in rows]
    widths = [max(len(name), *(len(line[i]) for line in cells)) for i, name in enumerate(names)]
    print("  ".join(name.ljust(width) for name, width in zip(names, widths, strict=True)))
    for line in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))
    sys.stdout.flush()


def shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return "-" if value is None else str(value)


def wait_for(done: Callable[[], bool], limit_s: float, what: str | Callable[[], str]) -> None:
    """Wait until something is so; give up by name, which may be looked up then."""
    deadline = time.monotonic() + limit_s
    while not done():
        if time.monotonic() > deadline:
            what = what if isinstance(what, str) else what()
            sys.exit(f"bench: error: {what} took longer than {limit_s:.0f} s")
        time.sleep(0.02)
