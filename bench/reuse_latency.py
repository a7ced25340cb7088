#!/usr/bin/env python3
"""How soon a freed core is given to the next job while 10,000 jobs wait; from the journal.

Every node is full of one-core jobs that end at random times. The k-th release after the cluster
is full is used by the k-th start after that; what lies between is the time to reuse. Ours only:
the peer keeps whole seconds.
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

from figures import clusters, parser, show, wait_for
from pyslurm_ng.base.numbers import NO_VAL
from pyslurm_ng.conf.quick import quick
from pyslurm_ng.journal.recovery import Layout
from pyslurm_ng.journal.segment import SegmentReader, list_segments
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.batches import decode_batch
from pyslurm_ng.wire.client import QUICK_KEYS
from pyslurm_ng.wire.daemon_link import socket_path
from submit_rate import Pipe, body

LIMIT_MS = 50.0
SCRIPT = b"#!/bin/bash\nexec sleep $(( RANDOM % 6 + 6 )).$(( RANDOM % 10 ))\n"


def submit(path: str, jobs: int) -> None:
    """Enter a queue of jobs of one core and many time limits."""
    pipe = Pipe(path)
    sent = answered = 0
    while answered < jobs:
        while sent < jobs and sent - answered < 64:
            limit_min = 5 + sent % 40
            request = body(f"r{sent}", SCRIPT, time_limit_min=limit_min, priority=NO_VAL)
            pipe.send("SubmitJob", sent, request)
            sent += 1
        answered += pipe.replies()


def events_of(state: Path) -> list[ev.AnyEvent]:
    """Return all events of a journal in their order."""
    events: list[ev.AnyEvent] = []
    for segment in list_segments(Layout(state).journal):
        with SegmentReader(segment.path) as reader:
            for frame in reader:
                events += decode_batch(frame.payload)
    return events


def waits_ms(events: list[ev.AnyEvent], begin_us: int, slots: int) -> list[float]:
    """Return how long each freed core was free."""
    freed: list[int] = []
    used: list[int] = []
    running = 0
    is_full = False
    for event in events:
        if isinstance(event, ev.JobAllocated):
            running += 1
            if is_full:
                used.append(event.time_us)
        elif isinstance(event, ev.JobEnded) and running:
            running -= 1
            if is_full:
                freed.append(event.time_us)
        is_full = is_full or (running >= slots and event.time_us >= begin_us)
    return [(use - free) / 1e3 for free, use in zip(freed, used, strict=False)]


def main() -> None:
    parse = parser(__doc__ or "")
    parse.add_argument("--jobs", type=int, default=10_000)
    parse.add_argument("--seconds", type=float, default=60.0)
    options = parse.parse_args()
    cluster = clusters(options)[0]
    conf = quick(os.environ["SLURM_CONF"], (*QUICK_KEYS, "StateSaveLocation"))
    submit(socket_path(conf), options.jobs)
    slots = int(cluster.run("sinfo", "-h", "-o", "%C").strip().split("/")[3])
    wait_for(
        lambda: len(cluster.run("squeue", "-h", "-t", "R", "-o", "%A").split()) >= slots, 120, "it"
    )
    begin_us = time.time_ns() // 1000
    time.sleep(options.seconds)
    gaps_ms = waits_ms(events_of(Path(conf["StateSaveLocation"])), begin_us, slots)
    cluster.run("scancel", "--me")
    cuts = statistics.quantiles(gaps_ms, n=100, method="inclusive")
    rows: list[dict[str, object]] = [
        {
            "what": "freed to used",
            "cores": len(gaps_ms),
            "p50_ms": cuts[49],
            "p99_ms": cuts[98],
            "max_ms": max(gaps_ms),
            "limit_p99_ms": LIMIT_MS,
            "ok": cuts[98] <= LIMIT_MS,
        }
    ]
    show(options, f"{options.jobs} pending jobs, {slots} cores", rows)


if __name__ == "__main__":
    main()
