"""Write the journal of one release into tests/golden/journals, to be replayed for ever after.

Usage: tools/make_golden_journal.py NAME   (the release, e.g. 26.11.0-ng0.1)

A small cluster lives through most kinds of events; the journal it leaves and its last state, as a
checkpoint holds it, are kept. A later version must read both and come to the same digest; where
a change of the model makes that impossible, it needs a converter, not a new file.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from msgspec import Struct

from pyslurm_ng.base.errors import Reject
from pyslurm_ng.conf.slurm_conf import parse_slurm_conf
from pyslurm_ng.ctld.routes import RULES
from pyslurm_ng.ctld.rules import timers
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.ctld.rules.ends.node_loss import nodes_down
from pyslurm_ng.ctld.rules.nodes import registration as nodes, reports
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.ctld.scripts import digest_of
from pyslurm_ng.journal.recovery import Layout, Recovery
from pyslurm_ng.journal.reserve import Reserve
from pyslurm_ng.journal.writer import JournalWriter
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.assoc import Association, Qos, UserRecord
from pyslurm_ng.model.batches import decode_batch, encode_batch
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.duty import DutyKind
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.reservation import Reservation
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.wire import node_messages as nm, query_messages as qm
from pyslurm_ng.wire.job_messages import SubmitJob

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT / "tests" / "golden" / "journals"
SECOND_US = 1_000_000
CONF = """
ClusterName=golden
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
GresTypes=gpu
SlurmdParameters=config_overrides
Licenses=matlab:4
MinJobAge=60
SelectTypeParameters=CR_Core_Memory
NodeName=n[1-4] Sockets=2 CoresPerSocket=4 RealMemory=32000 Gres=gpu:a100:2 Feature=ib
PartitionName=main Nodes=ALL Default=YES MaxTime=1-0 DefaultTime=60 DefMemPerCPU=1000
PartitionName=short Nodes=n[1-2] MaxTime=30 DefMemPerCPU=1000
"""
SCRIPT = b"#!/bin/sh\nsrun hostname\n"


class Life:
    """One cluster with its journal and a clock that is told what to say."""

    def __init__(self, directory: Path) -> None:
        self.conf = parse_slurm_conf(CONF)
        self.cluster = Cluster()
        self.now_us = 1_800_000_000 * SECOND_US
        layout = Layout(directory)
        layout.create()
        recovery = Recovery(layout)
        list(recovery.frames())
        self.writer = JournalWriter(
            layout.journal,
            bytes(range(16)),
            recovery.position._replace(epoch=1),
            first_sequence=1,
            on_durable=lambda sequence: None,
            on_fatal=lambda why: None,
            reserve=Reserve(directory / "reserve", 4096),
        )

    def record(self, events: Sequence[ev.AnyEvent]) -> None:
        """Apply and journal one batch; every batch is a second after the last."""
        apply_all(self.cluster, events)
        self.writer.append(encode_batch(list(events)))
        self.now_us += SECOND_US

    def ask(self, kind: str, request: Struct, uid: int = 1001) -> None:
        """Let a rule decide and record what it says."""
        caller = Caller(uid, uid, f"user{uid}", f"user{uid}", (), uid == 0, uid == 0, "login")
        outcome = RULES[kind](self.cluster, request, Context(self.conf, self.now_us, caller))
        if isinstance(outcome, Reject):
            raise SystemExit(f"{kind}: {outcome}")
        self.record(
            [
                *outcome.events,
                ev.RequestAnswered(self.now_us, uid, getattr(request, "request_id", b""), b"\x80"),
            ]
        )

    def submit(self, number: int, **fields: object) -> int:
        """Submit a batch job and return its id."""
        job_id = self.cluster.next_job_id
        request = JobRequest(name=f"job{number}", work_dir="/home", **fields)  # type: ignore[arg-type]
        self.ask("SubmitJob", SubmitJob(bytes([number]) * 16, request, SCRIPT, b"A=1\0"))
        return job_id

    def schedule(self) -> None:
        """Run a pass and start what it starts."""
        for start in Planner()(snapshot(self.cluster, self.now_us), policy(self.conf)).starts:
            self.record(dispatch(self.cluster, start, self.now_us))

    def report(self, node_id: int, report: nm.Report) -> None:
        """Let a node say something."""
        self.record(reports.judge(self.cluster, node_id, report, self.conf, self.now_us))

    def end(self, job_id: int, status: int) -> None:
        """Let a job's script end and its nodes clean up."""
        job = self.cluster.jobs[job_id]
        launch = self._duty(job.batch_node_id, job_id, DutyKind.LAUNCH)
        self.report(
            job.batch_node_id,
            nm.BatchEnded(job_id, job.attempt, launch, status, self.now_us, self.now_us),
        )
        for alloc in job.nodes:
            duty_id = self._duty(alloc.node_id, job_id, DutyKind.TERMINATE)
            if duty_id:
                self.report(alloc.node_id, nm.JobTerminated(job_id, job.attempt, duty_id))

    def _duty(self, node_id: int, job_id: int, kind: DutyKind) -> int:
        for duty in self.cluster.duties.get(node_id, {}).values():
            if duty.job_id == job_id and duty.kind == kind:
                return duty.duty_id
        return 0


def live(life: Life) -> None:
    """Go through most of what can happen to a cluster."""
    life.record([ev.EpochStarted(life.now_us, 1, "ctl", "boot")])
    life.record(configure(life.cluster, life.conf, life.now_us))
    life.record(
        [
            ev.QosChanged(life.now_us, changed=(Qos(1, "normal"),)),
            ev.AssocChanged(
                life.now_us,
                changed=(Association(1, "root", "", ""), Association(2, "phys", "user1001", "")),
                users=(UserRecord("user1001", "phys"),),
                version=7,
            ),
        ]
    )
    for node_id in range(4):
        facts = NodeFacts(arch="x86_64", cpus=8, real_memory_mib=32000, boot_id=f"b{node_id}",
                          sockets=2, cores_per_socket=4, threads_per_core=1)  # fmt: skip
        life.record(nodes.register(life.cluster, node_id, facts, [], life.conf, life.now_us))
    life.record([ev.ScriptStored(life.now_us, digest_of(SCRIPT), SCRIPT)])
    first = life.submit(1, ntasks=2, gpus_per_node="1", licenses="matlab:1")
    wide = life.submit(2, nodes_min=2, nodes_max=2, time_limit_min=10, signal=10)
    array = life.submit(3, array="0-9%2")
    after = life.submit(4, dependency=f"afterok:{first}")
    held_job = life.submit(5, flags=1)
    life.schedule()
    life.ask("HoldJobs", qm.HoldJobs(b"h" * 16, [str(held_job)], release=True))
    life.end(first, 0)
    life.schedule()
    life.ask("CancelJobs", qm.CancelJobs(b"c" * 16, qm.JobFilter(jobs=[f"{array}_[5-9]"])))
    life.ask("SuspendJobs", qm.SuspendJobs(b"s" * 16, [str(wide)]), uid=0)
    life.ask("SuspendJobs", qm.SuspendJobs(b"t" * 16, [str(wide)], resume=True), uid=0)
    drain = {"state": "DRAIN", "reason": "fan"}
    life.ask("UpdateNodes", qm.UpdateNodes(b"n" * 16, "n4", drain), uid=0)
    new = {"nodes": "n3"}
    life.ask("UpdatePartition", qm.UpdatePartition(b"p" * 16, "new", new, create=True), uid=0)
    life.record(
        [
            ev.ReservationCreated(
                life.now_us, Reservation("maint", life.now_us, life.now_us + 60 * SECOND_US, (3,))
            )
        ]
    )
    life.record([ev.NodesSilent(life.now_us, (2,), silent=True)])
    life.record(nodes_down(life.cluster, (2,), "Not responding", life.now_us, for_silence=True))
    if life.cluster.jobs[after].nodes:
        life.end(after, 256)
    life.now_us += 700 * SECOND_US
    life.record(timers.due(life.cluster, life.conf, {}, life.now_us))
    life.ask("DeletePartition", qm.DeletePartition(b"d" * 16, "new"), uid=0)


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    directory = GOLDEN / sys.argv[1]
    if directory.exists():
        raise SystemExit(f"{directory}: exists; the journal of a release is never written again")
    directory.mkdir(parents=True)
    try:
        life = Life(directory)
        live(life)
        life.writer.close()
    except BaseException:
        shutil.rmtree(directory)
        raise
    (directory / "reserve").unlink()
    shutil.rmtree(directory / "checkpoint")
    (directory / "state").write_bytes(life.cluster.to_bytes())
    kinds = {type(event).__name__ for event in _events(directory)}
    print(f"{directory.name}: {life.writer.durable} records, {len(kinds)} kinds of events")
    print("without: " + ", ".join(sorted(set(_all_kinds()) - kinds)))


def _events(directory: Path) -> list[ev.AnyEvent]:
    layout = Layout(directory)
    layout.create()
    events = [
        event
        for frames in Recovery(layout).frames()
        for frame in frames
        for event in decode_batch(frame.payload)
    ]
    shutil.rmtree(layout.checkpoints)
    return events


def _all_kinds() -> list[str]:
    return [kind.__name__ for kind in ev.AnyEvent.__args__]  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
