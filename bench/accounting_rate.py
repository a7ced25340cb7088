"""Journal events and finished jobs that slurmdbd stores per second, SQLite with every sync.

Four events a job (submitted, allocated, completing, ended) and a batch step, in messages of the
size the controller sends. The bar is 20,000 job records a second. `--json` prints one object. Where
other programs use the processors, the rates by processor time say more.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from pyslurm_ng.daemon.process_settings import settle_memory
from pyslurm_ng.dbd import schema
from pyslurm_ng.dbd.database import Database, sqlite_url
from pyslurm_ng.dbd.ingest.batches import ingest
from pyslurm_ng.dbd.ingest.frames import decode_frame
from pyslurm_ng.model.batches import encode_batch
from tests.dbd.accounting_room import (
    JOURNAL,
    at,
    configured,
    finished,
    on,
    register,
    rows,
    started,
    submitted,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--frames-per-message", type=int, default=1_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    begin = at("12:00:00")
    payloads = [encode_batch([configured(begin)])]
    for job_id in range(1, options.jobs + 1):
        when = begin + job_id
        payloads.append(encode_batch([submitted(when, job_id)]))
        payloads.append(encode_batch(started(when, job_id, on(1 + job_id % 4))))
        payloads.append(encode_batch(finished(when, job_id, 3, 0)))
    with tempfile.TemporaryDirectory() as directory:
        database = Database(sqlite_url(f"{directory}/accounting.sqlite"))
        database.open()
        register(database)
        settle_memory()  # as slurmdbd does before it serves
        events = 0
        start, used = time.perf_counter(), time.process_time()
        for first in range(0, len(payloads), options.frames_per_message):
            piece = payloads[first : first + options.frames_per_message]
            frames = [
                decode_frame(1, first + offset + 1, payload) for offset, payload in enumerate(piece)
            ]
            events += ingest(database, 1, JOURNAL, first, frames)[2]
        seconds, cpu_s = time.perf_counter() - start, time.process_time() - used
        stored = len(rows(database, schema.jobs, "job_id"))
        stored += len(rows(database, schema.steps, "step_id"))
        database.close()
    figures = {
        "events_per_s": round(events / seconds),
        "records_per_s": round(stored / seconds),
        "jobs_per_s": round(options.jobs / seconds),
        "records_per_cpu_s": round(stored / cpu_s),
        "jobs_per_cpu_s": round(options.jobs / cpu_s),
        "bar_per_s": 20_000,
        "seconds": round(seconds, 3),
        "cpu_s": round(cpu_s, 3),
    }
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:20s} {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
