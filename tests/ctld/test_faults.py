"""What raises about one job, node, message or record costs only that; the loop goes on."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path

import msgspec
import pytest

from pyslurm_ng.base.faults import Faults
from pyslurm_ng.ctld.nodes import node_service
from pyslurm_ng.ctld.queries import job_fields, jobs
from pyslurm_ng.ctld.rules import timers
from pyslurm_ng.ctld.rules.rule_faults import sparing
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.ctld.users import identities, reservation_groups
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply_all
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.job import Job, JobRequest, NodeAlloc
from pyslurm_ng.model.states import JobState
from pyslurm_ng.wire import node_messages as nm
from tests.cli.reference_cluster import queue
from tests.cli.run_command import run_command
from tests.ctld.nodes.sender_room import SenderRoom
from tests.model.clusters import START_US, cluster_of, conf_of, submit
from tests.world.logs import LineLog
from tests.world.writer_ends import Heard
from tests.world.writer_room import WriterRoom

MINUTE_US = 60_000_000


class Spared:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def __call__(self, text: str, error: Exception) -> None:
        self.told.append(text)


class Room(WriterRoom):
    """A writer that says whom its faults cost."""

    def __init__(self) -> None:
        self.spared = Spared()
        super().__init__(spared=self.spared)


def licenses(count: int) -> list[ev.AnyEvent]:
    """Return some events of one batch."""
    return [ev.LicensesUpdated(START_US, ((f"l{number}", 1),)) for number in range(count)]


def test_an_observer_that_raises_about_one_event_gets_the_others() -> None:
    """Orders, mail and log lines of other jobs in the same batch are not lost."""
    room, heard, others = Room(), [], []

    def brittle(events: Sequence[ev.AnyEvent]) -> None:
        for event in events:
            assert isinstance(event, ev.LicensesUpdated)
            name = event.licenses[0][0]
            if name == "l1":
                raise ValueError(name)
            heard.append(name)

    room.writer.observe(brittle, is_brittle=True)
    room.writer.observe(others.extend)
    room.writer.record(licenses(3))
    assert heard == ["l0", "l2"]
    assert len(others) == 3
    assert len(room.spared.told) == 1
    room.sync()
    assert len(room.journal.payloads) == 1


def test_an_answer_that_raises_delays_no_other() -> None:
    """A broken connection must not hold up the answers that wait behind it."""
    room, heard, told = Room(), Heard(), []
    room.writer.follow(told.append)
    room.writer.follow(lambda sequence: 1 // 0)
    room.writer.follow(told.append)
    room.writer.record(licenses(1))
    room.writer.when_durable(lambda: [].pop())
    room.writer.when_durable(lambda: heard.reply("second"))
    room.sync()
    assert heard.told == ["second"]
    assert told == [1, 1]
    assert room.spared.told == ["an answer", "a follower"]


def test_a_rule_is_asked_again_about_each_thing_alone() -> None:
    """One of several that raises is left out, and only that."""
    spared, asked = Spared(), []

    def rule(things: Collection[int]) -> list[ev.AnyEvent]:
        asked.append(tuple(things))
        if 2 in things:
            raise ValueError
        return [ev.JobEligible(1, thing) for thing in things]

    events = sparing("job", rule, (1, 2, 3), spared)
    assert [event.job_id for event in events] == [1, 3]  # type: ignore[union-attr]
    assert spared.told == ["job 2"]
    assert asked[0] == (1, 2, 3)


def running(cluster: Cluster, count: int) -> list[Job]:
    """Return jobs that run, each on a node of its own, with a limit of a minute."""
    jobs = []
    for node_id in range(count):
        job_id = submit(cluster, JobRequest(), time_limit_min=1)
        alloc = NodeAlloc(node_id, 2, b"\x01", 100, 1)
        apply_all(
            cluster,
            [
                ev.JobAllocated(
                    START_US, job_id, "main", (alloc,), node_id, 1, cluster.next_duty_id,
                    configuring=False,
                )
            ],
        )  # fmt: skip
        jobs.append(cluster.jobs[job_id])
    return jobs


def test_time_limits_end_jobs_beside_one_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a job's limit cannot be judged, that job goes on; all others end."""
    cluster, spared = cluster_of(), Spared()
    jobs_here = running(cluster, 3)
    odd = jobs_here[1]
    usual = timers.end_limit_us

    def raising(cluster: Cluster, conf: object, job: Job) -> int:
        if job.job_id == odd.job_id:
            raise OverflowError("nobody foresaw this")
        return usual(cluster, conf, job)  # type: ignore[arg-type]

    monkeypatch.setattr(timers, "end_limit_us", raising)
    now_us = START_US + 2 * MINUTE_US
    for second in range(8):  # kinds have their turns
        now_us += 1_000_000 * second
        apply_all(cluster, timers.due(cluster, conf_of(), {}, now_us, spared=spared))
    assert [job.state for job in jobs_here] == [
        JobState.TIMEOUT, JobState.RUNNING, JobState.TIMEOUT,
    ]  # fmt: skip
    assert f"job {odd.job_id}" in spared.told


def test_silent_nodes_go_down_beside_one_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node whose loss cannot be worked out must not keep another one's jobs waiting."""
    cluster, spared = cluster_of(), Spared()
    usual = timers.silence.silent_nodes

    def raising(cluster: Cluster, conf: object, seen_us: dict[int, int], now_us: int) -> object:
        if 1 in seen_us:
            raise KeyError(1)
        return usual(cluster, conf, seen_us, now_us)  # type: ignore[arg-type]

    monkeypatch.setattr(timers.silence, "silent_nodes", raising)
    now_us = START_US + 1_000 * MINUTE_US
    for second in range(8):
        now_us += 1_000_000 * second
        seen_us = dict.fromkeys(range(4), START_US)
        apply_all(cluster, timers.due(cluster, conf_of(), seen_us, now_us, spared=spared))
    states = [node.state.name for node in cluster.living_nodes()]
    assert states == ["DOWN", "IDLE", "DOWN", "DOWN"]
    assert "node 1" in spared.told


def test_a_job_of_which_no_order_can_be_made_costs_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other orders of the batch leave, and the daemon's log names the duty."""
    room = SenderRoom(tmp_path)
    for name in ("n1", "n2", "n3", "n4"):
        room.register(name)
    room.sync()
    first = room.start_job()
    usual = type(room.sender)._order

    def raising(self: object, cluster: Cluster, duty: object) -> object:
        if duty.job_id == first:  # type: ignore[attr-defined]
            raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")
        return usual(self, cluster, duty)  # type: ignore[arg-type]

    monkeypatch.setattr(type(room.sender), "_order", raising)
    room.sync()
    room.wire.sent.clear()
    room.register(room.cluster.node(room.cluster.jobs[first].nodes[0].node_id).spec.name)
    second = room.start_job()
    room.sync()
    of_node = room.cluster.duties[room.cluster.jobs[second].nodes[0].node_id]
    assert {of_node[order.duty_id].job_id for _, order in room.orders()} == {second}
    assert room.faults.counts["order"] >= 1


def test_a_report_that_raises_costs_one_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node's other reports count, it is answered, and it is asked what it still runs."""
    room = SenderRoom(tmp_path)
    room.register("n1")
    room.sync()
    first, second = room.start_job(), room.start_job()
    room.sync()
    usual = node_service.judge

    def raising(cluster: Cluster, node_id: int, report: nm.Report, *rest: object) -> object:
        if getattr(report, "job_id", 0) == first:
            raise ZeroDivisionError
        return usual(cluster, node_id, report, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(node_service, "judge", raising)
    node = room.cluster.jobs[second].nodes[0].node_id
    name = room.cluster.node(node).spec.name
    room.register(name)
    room.sync()
    room.wire.sent.clear()
    ends: list[nm.Report] = [
        nm.BatchEnded(job_id, 0, 0, 0, START_US, START_US) for job_id in (first, second)
    ]
    answers = room.say(name, nm.NodeReports(ends))
    room.sync()
    assert len(answers) == 1
    assert room.cluster.jobs[second].state == JobState.COMPLETED
    assert room.cluster.jobs[first].state == JobState.RUNNING
    assert room.faults.counts["report"] == 1
    assert any(isinstance(message, nm.NodeRegisterAgain) for _, message in room.wire.sent)


def test_a_message_that_raises_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that waits gets an error and goes on."""
    room = SenderRoom(tmp_path)
    monkeypatch.setattr(node_service, "register", lambda *words: 1 // 0)
    answers = room.register("n1")
    assert answers
    assert msgspec.structs.asdict(answers[0])["text"] == "RegisterNode: internal error"
    assert room.faults.counts == {"node": 1}


LISTINGS = (["squeue"], ["squeue", "-t", "all"], ["scontrol", "show", "job"])


@pytest.mark.parametrize("words", LISTINGS)
def test_one_record_that_raises_leaves_the_listing(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """squeue of all jobs must not fail for one of them."""
    reference = queue()
    spared = Spared()
    reference.soft.spared = spared
    whole = run_command(monkeypatch, reference, "root", words).stdout
    assert "train" in whole
    usual = jobs.brief_values

    def raising(cluster: Cluster, job: Job, tasks: object) -> job_fields.Values:
        if job.request.name == "train":
            raise OverflowError("nobody foresaw this")
        return usual(cluster, job, tasks)  # type: ignore[arg-type]

    monkeypatch.setattr(jobs, "brief_values", raising)
    reference = queue()
    reference.soft.spared = spared
    ran = run_command(monkeypatch, reference, "root", words)
    assert ran.code == 0
    assert "train" not in ran.stdout
    assert "wide" in ran.stdout
    assert spared.told


def test_a_record_that_cannot_be_packed_is_left_out() -> None:
    """It is reported, and all other records are listed."""
    cluster, soft = cluster_of(), Soft(started_us=1)
    soft.spared = spared = Spared()
    good, odd = submit(cluster, JobRequest(name="good")), submit(cluster, JobRequest(name="odd"))
    cluster.jobs[odd].submit_us = 1 << 70
    assert [*jobs.live_records(cluster, soft)] == [good]
    assert spared.told == [f"job {odd} is not listed"]
    assert job_fields.BRIEF


def test_faults_are_logged_once_a_minute() -> None:
    """A user who finds a request that raises cannot fill the log with it."""
    log, now_s = LineLog(), [0.0]
    faults = Faults(log, lambda: now_s[0])
    for _ in range(1000):
        faults.note("request", "UpdateJob of uid 1001", ValueError("x"))
    told = [line for line in log.lines if line.startswith("fault")]
    assert len(told) == 1
    assert faults.counts == {"request": 1000}
    now_s[0] = 61.0
    faults.note("request", "UpdateJob of uid 1001")
    assert "999 more of this kind" in log.lines[-1]


def test_sdiag_shows_faults_only_when_there_are_any(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without faults the output is Slurm's. -r sets the counts to zero."""
    reference = queue()
    assert "Faults" not in run_command(monkeypatch, reference, "root", ["sdiag"]).stdout
    reference.soft.faults.update(job=2, request=40)
    text = run_command(monkeypatch, reference, "root", ["sdiag"]).stdout
    section = text.partition("Faults by kind")[2].splitlines()
    assert [line.split() for line in section[1:]] == [["request", "count:40"], ["job", "count:2"]]
    shown = json.loads(run_command(monkeypatch, reference, "root", ["sdiag", "--json"]).stdout)
    assert shown["statistics"]["faults_by_kind"][0] == {"kind": "request", "count": 40}
    reference.soft.reset(1)
    assert "Faults" not in run_command(monkeypatch, reference, "root", ["sdiag"]).stdout


def test_ids_and_names_that_no_directory_can_have_are_nobodys() -> None:
    """Otherwise a request waits for ever, and all later ones of that user with it."""
    person = identities.look_up(1 << 40, 1 << 40)
    assert (person.user_name, person.groups) == ("", ())
    assert reservation_groups.look_up_members(["a\0b", "no-such-group"]) == {
        "a\0b": (),
        "no-such-group": (),
    }
