#!/usr/bin/env python3
"""How long the replay of a recorded month takes, and how much memory.

The journal is that of a generated month, as bench/sim_speed.py has it; it is written to a
directory of its own first, then read and run again under the same configuration.
"""

from __future__ import annotations

import resource
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from figures import parser, show
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.journal.segment import SegmentHeader, encode_frames, segment_path
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.batches import encode_batch
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.states import NodeState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sim.comparison import compare
from pyslurm_ng.sim.journal_run import JournalRun
from pyslurm_ng.sim.page import page
from pyslurm_ng.sim.recorded import read_recording
from pyslurm_ng.sim.trace_run import TraceRun, trace_conf
from pyslurm_ng.sim.workload import random_jobs


def main() -> None:
    parse = parser(__doc__ or "")
    parse.add_argument("--nodes", type=int, default=2000)
    parse.add_argument("--jobs", type=int, default=100_000)
    parse.add_argument("--days", type=float, default=30.0)
    parse.add_argument("--load", type=float, default=0.9, help="work offered, of the machine's")
    parse.add_argument("--seed", type=int, default=1)
    parse.add_argument("--html", help="write the report there, too")
    options = parse.parse_args()
    conf = trace_conf(options.nodes, ["MinJobAge=300"])
    directory = Path(tempfile.mkdtemp(prefix="replay-"))
    try:
        size = _record(directory, conf, options)
        begun = time.perf_counter()
        recording = read_recording(directory)
        read_s = time.perf_counter() - begun
        run = JournalRun(recording, conf, Planner())
        run.run()
        comparison = compare(run)
        if options.html:
            Path(options.html).write_text(page(comparison, "A generated month"))
        same = sum(run.runs.get(key) == job_run for key, job_run in recording.runs.items())
    finally:
        shutil.rmtree(directory)
    row: dict[str, object] = {
        "jobs": len(recording.runs),
        "records": recording.records,
        "journal_mib": size / 2**20,
        "same_as_recorded": same,
        "read_s": read_s,
        "run_s": run.seconds,
        "mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    show(options, "replay a recorded month", [row])


def _record(directory: Path, conf: SlurmConf, options: object) -> int:
    """Write the journal of a generated month; return its size in bytes."""
    values = vars(options)
    span_s = int(values["days"] * 86_400)
    jobs = list(
        random_jobs(values["seed"], values["jobs"], values["nodes"], span_s, values["load"])
    )
    trace = TraceRun(jobs, conf, Planner())
    payloads = [encode_batch(_beginning(conf, trace.world.now_us))]

    def keep(events: Sequence[ev.AnyEvent]) -> None:
        payloads.append(encode_batch(list(events)))

    trace.controller.writer.observe(keep)
    trace.run()
    header = SegmentHeader(b"k" * 16, 1, 1, 0)
    pieces, _ = encode_frames(header.journal_id, header.position, 0, payloads)
    return segment_path(directory, 1, 1).write_bytes(header.encode() + b"".join(pieces))


def _beginning(conf: SlurmConf, now_us: int) -> list[ev.AnyEvent]:
    cluster = Cluster()
    events: list[ev.AnyEvent] = configure(cluster, conf, now_us)
    apply_all(cluster, events)
    events += [
        ev.NodeRegistered(now_us, node.node_id, NodeFacts(), NodeState.IDLE)
        for node in cluster.living_nodes()
    ]
    return events


if __name__ == "__main__":
    main()
