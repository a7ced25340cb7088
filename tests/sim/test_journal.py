"""Replaying a recorded journal: the same configuration gives the same waits, another one others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyslurm_ng.conf.slurm_conf import parse_slurm_conf
from pyslurm_ng.ctld.routes import RULES
from pyslurm_ng.ctld.rules.configure import configure
from pyslurm_ng.ctld.rules.context import Caller, Context
from pyslurm_ng.ctld.rules.submit import allocate_job
from pyslurm_ng.journal.checkpoint import write_checkpoint
from pyslurm_ng.journal.segment import SegmentHeader, SegmentReader, encode_frames, segment_path
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import JobRequest
from pyslurm_ng.model.node import NodeFacts
from pyslurm_ng.model.states import NodeState
from pyslurm_ng.sched.backfill import Planner
from pyslurm_ng.sim.controller import SimController
from pyslurm_ng.sim.journal_run import JournalRun
from pyslurm_ng.sim.nodes import PretendNodes
from pyslurm_ng.sim.recorded import read_recording
from pyslurm_ng.sim.world import World
from pyslurm_ng.up.__main__ import main
from pyslurm_ng.wire.job_messages import AllocateJob, SubmitJob
from pyslurm_ng.wire.query_messages import CancelJobs, JobFilter

BEGIN_US = 1_700_000_000_000_000
MINUTE_US = 60_000_000
CONF = """
ClusterName=past
SlurmctldHost=ctl
AuthType=auth/slurm
CredType=cred/slurm
SelectTypeParameters=CR_Core
PriorityType=priority/basic
SchedulerType=sched/builtin
NodeName=n[1-4] CPUs=2 RealMemory=1000
PartitionName=main Nodes=n[1-4] Default=YES MaxTime=INFINITE OverSubscribe=EXCLUSIVE
"""
# minute of submission, user, nodes, limit in minutes, run in minutes, more of the request
JOBS: list[tuple[int, str, int, int, int, dict[str, str]]] = [
    (0, "ann", 3, 60, 50, {}),
    (1, "bob", 4, 60, 30, {}),
    (2, "cay", 1, 30, 20, {}),
    (3, "cay", 1, 30, 10, {"dependency": "afterany:3"}),
    (4, "dan", 2, 30, 15, {"array": "0-3%2"}),
    (5, "ann", 4, 60, 0, {}),  # cancelled while it waits
    (7, "eve", 1, 30, 5, {"origin": "srun"}),  # an allocation without a script
]


class _Accepted:
    def reply(self, answer: object) -> None: ...

    def error(self, code: int, text: str) -> None:
        raise AssertionError(text)


def record(directory: Path) -> Path:
    """Let the jobs run on a cluster and write its journal; return the state directory."""
    conf = parse_slurm_conf(CONF)
    world = World(start_us=BEGIN_US)
    cluster = Cluster()
    first: list[ev.AnyEvent] = configure(cluster, conf, BEGIN_US)
    apply_all(cluster, first)
    first += [
        ev.NodeRegistered(BEGIN_US, node.node_id, NodeFacts(), NodeState.IDLE)
        for node in cluster.living_nodes()
    ]
    apply_all(cluster, first[1:])
    controller = SimController(world, conf, Planner(), cluster=cluster)

    def run_time_us(job_id: int) -> int:
        job = cluster.jobs[job_id]
        return JOBS[int(job.request.comment)][4] * MINUTE_US

    PretendNodes(world, controller.writer, run_time_us)

    def ask(message: SubmitJob | AllocateJob | CancelJobs, user: str) -> None:
        caller = Caller(1000 + ord(user[0]), 100, user, "users")
        context = Context(conf, world.now_us, caller)
        rule = allocate_job if isinstance(message, AllocateJob) else RULES[type(message).__name__]
        controller.writer.change(rule, message, context, _Accepted())

    for number, (minute, user, nodes, limit, _, more) in enumerate(JOBS):
        request = JobRequest(
            nodes_min=nodes,
            nodes_max=nodes,
            time_limit_min=limit,
            comment=str(number),
            work_dir="/",
            **more,
        )
        message: SubmitJob | AllocateJob
        if request.origin:
            message = AllocateJob(bytes(16), request=request)
        else:
            message = SubmitJob(bytes(16), request=request, script=b"#!/bin/sh\n")
        world.at(BEGIN_US + minute * MINUTE_US, lambda m=message, u=user: ask(m, u))
    cancel = CancelJobs(bytes(16), filter=JobFilter(jobs=["6"]))
    world.at(BEGIN_US + 6 * MINUTE_US, lambda: ask(cancel, "ann"))
    world.run()
    payloads = [ev.encode_batch(first), *controller.journal.payloads]
    header = SegmentHeader(b"k" * 16, 1, 1, 0)
    pieces, _ = encode_frames(header.journal_id, header.position, 0, payloads)
    (directory / "journal").mkdir(parents=True)
    path = segment_path(directory / "journal", 1, 1)
    path.write_bytes(header.encode() + b"".join(pieces))
    return directory


def test_the_same_configuration_gives_the_same_starts(tmp_path: Path) -> None:
    """Every job and array task starts at the recorded moment and ends at it, too."""
    recording = read_recording(record(tmp_path / "state"))
    run = JournalRun(recording, parse_slurm_conf(CONF), Planner())
    run.run()
    assert len(recording.runs) == 9
    assert run.runs == recording.runs
    assert not run.refused


def test_a_report_says_who_gains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Backfill lets the short job start at once; table, JSON and page agree."""
    state, conf = record(tmp_path / "state"), tmp_path / "slurm.conf"
    conf.write_text(CONF)
    html = tmp_path / "out.html"
    words = ["sim", "--journal", str(state), "--conf", str(conf), "--html", str(html), "--json"]
    assert main([*words, "--set", "SchedulerType=sched/backfill"]) == 0
    found = json.loads(capsys.readouterr().out)
    users = {row["name"]: row for row in found["users"]}
    assert found["jobs"] == 9
    assert users["cay"]["gain_s"] > 0
    assert users["cay"]["simulated"]["mean_wait_s"] == 0
    assert users["ann"]["recorded"]["jobs"] == 1
    page = html.read_text()
    assert page.count("<svg") == 3 and page.count("<table") == 3
    assert "http" not in page and ">cay<" in page


def test_a_torn_tail_is_said_and_not_cut(tmp_path: Path) -> None:
    """Reading changes nothing on disk; what was torn is named."""
    state = record(tmp_path / "state")
    path = next((state / "journal").iterdir())
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    recording = read_recording(path)
    assert any("torn" in note for note in recording.notes)
    assert path.read_bytes() == whole[:-10]


def test_bad_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No journal, a newer version, contradicting options."""
    conf, empty = tmp_path / "slurm.conf", tmp_path / "empty"
    conf.write_text(CONF)
    empty.mkdir()
    assert main(["sim", "--journal", str(empty), "--conf", str(conf)]) != 0
    assert "there is no journal segment" in capsys.readouterr().err
    assert main(["sim", "--journal", str(empty)]) == 2
    assert "--conf" in capsys.readouterr().err
    assert main(["sim", "--journal", str(empty), "--procs", "3"]) == 2
    segment_path(empty, 1, 9).write_bytes(SegmentHeader(b"k" * 16, 1, 9, 0).encode())
    capsys.readouterr()
    assert main(["sim", "--journal", str(empty), "--conf", str(conf)]) != 0
    assert "begins with record 9" in capsys.readouterr().err


def test_a_replay_may_begin_at_a_checkpoint(tmp_path: Path) -> None:
    """Jobs that run and wait there go on as recorded; the older records are named by number."""
    state = record(tmp_path / "state")
    path = next((state / "journal").iterdir())
    with SegmentReader(path) as reader:
        frames = list(reader)
    cluster, cut = Cluster(), 8
    for frame in frames[:cut]:
        for event in ev.decode_batch(frame.payload):
            apply_all(cluster, [event])
    assert cluster.active and cluster.pending
    path.unlink()
    (state / "checkpoint").mkdir()
    last = frames[cut - 1].position
    write_checkpoint(state / "checkpoint", b"k" * 16, last, cluster.to_bytes())
    header = SegmentHeader(b"k" * 16, 1, last.sequence + 1, last.checksum)
    pieces, _ = encode_frames(
        header.journal_id, header.position, 0, [frame.payload for frame in frames[cut:]]
    )
    later = segment_path(state / "journal", 1, last.sequence + 1)
    later.write_bytes(header.encode() + b"".join(pieces))
    recording = read_recording(state)
    assert f"records 1 to {cut} are only in a checkpoint" in recording.notes[0]
    run = JournalRun(recording, parse_slurm_conf(CONF), Planner())
    run.run()
    assert len(run.runs) == len(recording.runs) >= 8
    assert run.runs == recording.runs
