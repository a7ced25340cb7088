#!/usr/bin/env python3
"""Job records that slurmdbd stores in a MariaDB for a second, ours beside Slurm 22.05's.

    bench/peer.sh up DIRECTORY
    python bench/peer_ingest.py --peer DIRECTORY [--jobs 3000]

The peer's slurmdbd is stopped, its controller is given jobs that are held and cancelled, so that it
keeps their records, and slurmdbd is started again: the clock runs until the controller has none
left. Ours then stores the events of as many such jobs, in messages of 1,000 as a controller sends
them, in another database of the same server. Each job is two changes of one record.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import sqlalchemy as sa

from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database import Database, mysql_url
from pyslurm_ng.dbd.ingest.batches import ingest
from pyslurm_ng.dbd.ingest.frames import decode_frame
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.batches import encode_batch
from pyslurm_ng.model.states import JobState
from tests.dbd.accounting_room import JOURNAL, at, configured, register, submitted

AT_ONCE = 4
FRAMES_OF_MESSAGE = 1_000
PATIENCE_S = 600
_QUEUE = re.compile(r"DBD Agent queue size: (\d+)")


class Peer:
    """A cluster of Slurm 22.05 as `bench/peer.sh` makes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        lines = (folder / "env").read_text().splitlines()
        self.environment = dict(line.split("=", 1) for line in lines)

    def run(self, *words: str) -> str:
        """Return what a command prints; it has to succeed."""
        program = f"{self.environment['PATH']}/{words[0]}"
        done = subprocess.run(
            [program, *words[1:]], env=self.environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    def pid(self, name: str) -> int:
        """Return the process of a daemon."""
        return int((self.folder / f"{name}.pid").read_text())

    def waiting_records(self) -> int:
        """Return how many records the controller keeps for slurmdbd."""
        size = _QUEUE.search(self.run("sdiag"))
        return int(size.group(1)) if size else 0

    def stop_database_daemon(self) -> None:
        """End slurmdbd; the controller keeps its records from now on."""
        pid = self.pid("slurmdbd")
        os.kill(pid, signal.SIGTERM)
        while Path(f"/proc/{pid}").exists():
            time.sleep(0.1)

    def start_database_daemon(self) -> None:
        """Start slurmdbd again as `bench/peer.sh` does."""
        root = self.folder / "root"
        mount = f"mount -t overlay overlay -o lowerdir={root}/usr:/usr /usr && exec slurmdbd"
        library = "usr/lib/x86_64-linux-gnu"
        environment = {
            "PATH": os.environ["PATH"] + ":/usr/sbin",
            "LD_LIBRARY_PATH": f"{root}/{library}/slurm-wlm:{root}/{library}",
            "SLURM_CONF": str(self.folder / "slurm.conf"),
        }
        subprocess.run(["unshare", "-m", "sh", "-c", mount], env=environment, check=True)


def processor_s(pid: int) -> float:
    """Return the processor time that a process has used."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def peer_rate(peer: Peer, jobs: int) -> dict[str, float]:
    """Return how fast the peer's slurmdbd stores jobs that its controller has kept."""
    peer.stop_database_daemon()

    def submit(count: int) -> list[str]:
        words = ("sbatch", "--parsable", "--hold", "-o", "/dev/null", "--wrap", "true")
        return [peer.run(*words).strip() for _ in range(count)]

    with ThreadPoolExecutor(AT_ONCE) as pool:
        ids = [word for part in pool.map(submit, [jobs // AT_ONCE] * AT_ONCE) for word in part]
    for first in range(0, len(ids), 500):
        peer.run("scancel", *ids[first : first + 500])
    waiting = peer.waiting_records()
    database_s = processor_s(peer.pid("mariadbd"))
    begun_s = time.perf_counter()
    peer.start_database_daemon()
    first_s = 0.0
    while (remaining := peer.waiting_records()) and time.perf_counter() - begun_s < PATIENCE_S:
        if remaining < waiting and not first_s:
            first_s, first_remaining = time.perf_counter(), remaining
        time.sleep(0.05)
    took_s = time.perf_counter() - (first_s or begun_s)
    stored = (first_remaining if first_s else waiting) * len(ids) / max(waiting, 1)
    used_s = processor_s(peer.pid("slurmdbd")) + processor_s(peer.pid("mariadbd")) - database_s
    return {
        "jobs": len(ids),
        "records_kept": waiting,
        "jobs_per_s": round(stored / took_s),
        "jobs_per_cpu_s": round(len(ids) / used_s),
    }


def own_rate(peer: Peer, jobs: int) -> dict[str, float]:
    """Return how fast the same is stored here, in the same server."""
    database = Database(mysql_url("127.0.0.1", 0, "root", None, "bench", f"{peer.folder}/db/sock"))
    database.open()
    register(database)
    begin = at("12:00:00")
    payloads = [encode_batch([configured(begin)])]
    for job_id in range(1, jobs + 1):
        when = begin + job_id
        payloads.append(encode_batch([submitted(when, job_id)]))
    for job_id in range(1, jobs + 1):
        end = ev.JobEnded(begin + jobs + job_id, job_id, JobState.CANCELLED, cancelled_by=1001)
        payloads.append(encode_batch([end]))
    database_s, own_s = processor_s(peer.pid("mariadbd")), time.process_time()
    begun_s = time.perf_counter()
    for first in range(0, len(payloads), FRAMES_OF_MESSAGE):
        piece = payloads[first : first + FRAMES_OF_MESSAGE]
        frames = [decode_frame(1, first + number + 1, data) for number, data in enumerate(piece)]
        ingest(database, 1, JOURNAL, first, frames)
    took_s = time.perf_counter() - begun_s
    used_s = time.process_time() - own_s + processor_s(peer.pid("mariadbd")) - database_s
    with database.engine.connect() as connection:
        stored = connection.execute(sa.select(sa.func.count()).select_from(schema.jobs)).scalar()
        connection.exec_driver_sql("DROP DATABASE bench")
    database.close()
    assert stored == jobs
    return {
        "jobs": jobs,
        "jobs_per_s": round(jobs / took_s),
        "jobs_per_cpu_s": round(jobs / used_s),
    }


def main() -> int:
    """Print an object for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--peer", type=Path, required=True, help="the directory of bench/peer.sh")
    parser.add_argument("--jobs", type=int, default=3000)
    options = parser.parse_args()
    peer = Peer(options.peer)
    rates = {"ours": own_rate(peer, options.jobs), "slurm 22.05": peer_rate(peer, options.jobs)}
    for name, figures in rates.items():
        print(json.dumps({"slurmdbd": name, "load": round(os.getloadavg()[0], 1), **figures}))
    times = rates["ours"]["jobs_per_s"] / max(rates["slurm 22.05"]["jobs_per_s"], 1)
    print(json.dumps({"times_the_peer": round(times, 1), "bar": 5}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
