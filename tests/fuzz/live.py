"""Fuzz every socket of a live cluster: `python -m tests.fuzz.live [--seconds S] [--at-once]`.

It needs root. One ordinary user and strangers send to slurmctld, slurmd, slurmdbd, slurmrestd and
supervisors, S seconds for each socket. Afterwards: every daemon is the process it was, its memory
is within 64 MiB of its start, no log holds a traceback, and the cluster runs jobs. Prints a line
for each socket; exit code 1 on a finding.
"""

from __future__ import annotations

import argparse
import os
import pwd
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.daemons.faults import open_directory, pid_of, tracebacks
from tests.daemons.live import LiveCluster, start
from tests.world.processes import resident_mib

USER = "nobody"
DAEMONS = ("slurmctld", "slurmdbd", "slurmd-n1", "slurmrestd")
MEMORY_MIB = 64
REPOSITORY = Path(__file__).resolve().parents[2]


def sockets(cluster: LiveCluster) -> list[tuple[str, str, str]]:
    """Return (name, kind, address) of every socket on which daemons listen."""
    rows = []
    conf = dict(
        line.split("=", 1)
        for line in (cluster.directory / "etc" / "slurm.conf").read_text().splitlines()
        if "=" in line and not line.startswith(("NodeName", "PartitionName", "#"))
    )
    port = int(conf["SlurmctldPort"])
    tcp = {"slurmctld": port, "slurmdbd": port + 1, "slurmd-n1": port + 2}
    for path in sorted((cluster.directory / "run").rglob("*.sock")):
        rows.append((f"{path.name.split('-')[0]}, a user", "unix", str(path)))
    for daemon, number in tcp.items():
        rows.append((f"{daemon}, a stranger", "tcp", f"127.0.0.1:{number}"))
    for number in listening(pid_of(cluster, "slurmctld")) - {port}:
        rows.append(("slurmctld's ZeroMQ, a stranger", "zmq", f"127.0.0.1:{number}"))
    for number in listening(pid_of(cluster, "slurmrestd")):
        rows.append(("slurmrestd, a stranger", "http", f"127.0.0.1:{number}"))
        rows.append(("slurmrestd, a user", "token", f"127.0.0.1:{number}"))
    rows.append(("supervisors, a user's srun", "srun", "-n2 --overlap cat"))
    return rows


def listening(pid: int) -> set[int]:
    """Return the TCP ports on which a process listens."""
    words = ["ss", "-Hltnp"]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    return {int(line.split()[3].rpartition(":")[2]) for line in lines if f"pid={pid}," in line}


def send(cluster: LiveCluster, kind: str, address: str, seconds: int) -> str:
    """Send to one socket as an ordinary user; return what the sender printed."""
    group = str(pwd.getpwnam(USER).pw_gid)
    words = ["setpriv", f"--reuid={USER}", f"--regid={group}", "--clear-groups", "--"]
    words += [sys.executable, "-m", "tests.fuzz.doors", kind, address, str(seconds)]
    environment = {**cluster.environment, "PYTHONPATH": f"{REPOSITORY}/src:{REPOSITORY}"}
    done = subprocess.run(
        words, cwd="/tmp", env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or done.stderr[-1000:]


def findings(cluster: LiveCluster, pids: dict[str, int], begun: dict[str, int]) -> list[str]:
    """Return what is wrong with the cluster, and nothing when all is well."""
    wrong = tracebacks(cluster)
    for daemon, pid in pids.items():
        if pid_of(cluster, daemon) != pid or not Path(f"/proc/{pid}").exists():
            wrong.append(f"{daemon} is another process")
        elif resident_mib(pid) > begun[daemon] + MEMORY_MIB:
            wrong.append(f"{daemon} grew from {begun[daemon]} to {resident_mib(pid)} MiB")
    done = cluster.run("srun", "-n1", "-t1", "true")
    if done.returncode:
        wrong.append(f"root's srun: {done.stderr.strip()[:300]}")
    return wrong


def main() -> int:
    """Fuzz one socket after the other, or all at once."""
    parser = argparse.ArgumentParser(description="Fuzz every socket of a live cluster.")
    parser.add_argument("--seconds", type=int, default=600, help="for each socket")
    parser.add_argument("--at-once", action="store_true", help="all sockets at the same time")
    parser.add_argument("--only", default="", help="sockets whose name has this word")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("only root can act as an ordinary user", file=sys.stderr)
        return 1
    is_well = True
    known: list[str] = []
    with open_directory() as directory:
        cluster = start(directory / "c", "--nodes", "1", "--cpus", "8", "--memory", "4096", "--web")
        try:
            pids = {daemon: pid_of(cluster, daemon) for daemon in DAEMONS}
            cluster.run("srun", "-n1", "true")
            begun = {daemon: resident_mib(pid) for daemon, pid in pids.items()}
            rows = [row for row in sockets(cluster) if options.only in row[0]]
            for group in [rows] if options.at_once else [[row] for row in rows]:
                with ThreadPoolExecutor(len(group)) as senders:
                    sent = list(
                        senders.map(
                            lambda row: send(cluster, row[1], row[2], options.seconds), group
                        )
                    )
                cluster.run("scancel", "-u", USER)
                silent = [
                    f"{name}: nothing was sent: {amount}"
                    for (name, _, _), amount in zip(group, sent, strict=True)
                    if not amount.isdecimal() or not int(amount)
                ]
                wrong = [*findings(cluster, pids, begun), *silent]
                wrong = [line for line in wrong if line not in known]
                known += wrong
                for (name, _, _), amount in zip(group, sent, strict=True):
                    print(f"{name:32} {amount} sent", flush=True)
                grown = ", ".join(
                    f"{daemon} {resident_mib(pid) - begun[daemon]:+d} MiB"
                    for daemon, pid in pids.items()
                    if Path(f"/proc/{pid}").exists()
                )
                print(f"{'':32} {grown}: {'FOUND' if wrong else 'ok'}", flush=True)
                if wrong:
                    is_well = False
                    print("\n".join("    " + line for line in wrong[:20]), flush=True)
            if not is_well:
                print(cluster.logs(100))
        finally:
            cluster.down()
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
