"""What sends orders to nodes, around four idle nodes; the disk and the wire are the test's."""

from __future__ import annotations

from pathlib import Path

import msgspec

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.ctld.clock import Clock
from pyslurm_ng.ctld.history import History
from pyslurm_ng.ctld.nodes.credentials import Credentials
from pyslurm_ng.ctld.nodes.node_service import NodeService
from pyslurm_ng.ctld.nodes.run_times import RunTimes
from pyslurm_ng.ctld.nodes.sender import Sender
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.ctld.rules.submission.submit import digest_of
from pyslurm_ng.ctld.scripts import ScriptStore
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import Policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.auth import Peer
from pyslurm_ng.wire.auth_slurm import Key, KeyCredentialSigner
from tests.model.clusters import START_US, conf_of, submit
from tests.wire.wire_room import identity
from tests.world.logs import LineLog
from tests.world.writer_room import WriterRoom

SCRIPT = b"#!/bin/sh\ntrue\n"

SIGNER = KeyCredentialSigner(Key.from_secret(b"k" * 32))


class FakeWire:
    """Keeps what was sent; nodes may be away or busy."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, msgspec.Struct]] = []
        self.error: Exception | None = None

    def send(self, peer: str, message: msgspec.Struct) -> None:
        if self.error is not None:
            raise self.error
        self.sent.append((peer, message))


class SteppedClock(Clock):
    """A clock that moves when the test says so."""

    def __init__(self) -> None:
        self.at_us = START_US

    def now_us(self) -> int:
        return self.at_us


class SenderRoom(WriterRoom):
    """Controller parts around four idle nodes; the disk and the wire are the test's."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.wire = FakeWire()
        self.clock = SteppedClock()
        self.scripts = ScriptStore(directory / "scripts")
        self.log = LineLog()
        self.faults = Faults(self.log)
        self.soft = Soft(started_us=START_US)
        self.sender = Sender(
            self.writer,
            self.wire,
            credentials=Credentials(SIGNER, lambda: START_US),
            scripts=self.scripts,
            now_us=self.clock.now_us,
            call_soon=self.soon.append,
            faults=self.faults,
        )
        self.writer.observe(self.scripts.applied)
        self.writer.observe(self.sender.applied)
        self.service = NodeService(
            self.writer,
            self.soft,
            self.sender,
            identity=identity("slurmctld", "ctl"),
            conf=conf_of(),
            clock=self.clock,
            run_times=RunTimes(self.cluster, 0),
            log=self.log,
            faults=self.faults,
            history=History(self.writer, self.clock.now_us, "ctl", self.log, self.faults),
        )

    def say(self, name: str, message: msgspec.Struct) -> list[msgspec.Struct]:
        """Let a node speak; return where its answers will be."""
        answers: list[msgspec.Struct] = []
        self.service.handle(message, Peer(0, 0, 0, "node", name, "h", "slurm"), answers.append)
        return answers

    def register(self, name: str, jobs: list[nm.RunningJob] | None = None) -> list[msgspec.Struct]:
        facts = msgspec.msgpack.encode(NodeFacts(boot_id="b"))
        return self.say(name, nm.RegisterNode(facts, jobs or []))

    def start_job(self) -> int:
        """Submit a batch job and dispatch it; return its id."""
        for event in self.scripts.put(SCRIPT, digest_of(SCRIPT), START_US):
            self.writer.record([event])
        job_id = submit(self.cluster, JobRequest(name="j", ntasks=1))
        self.cluster.jobs[job_id].script_hash = digest_of(SCRIPT)
        result = Planner()(snapshot(self.cluster, START_US), Policy())
        for start in result.starts:
            self.writer.record(dispatch(self.cluster, start, self.clock.now_us()))
        return job_id

    def orders(self) -> list[tuple[str, nm.Order]]:
        return [
            (peer, order)
            for peer, message in self.wire.sent
            if isinstance(message, nm.NodeOrders)
            for order in message.orders
        ]
