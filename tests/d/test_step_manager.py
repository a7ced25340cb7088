"""A job's step manager: what waits, what the controller hears, what a restart keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.numbers import STEP_EXACT, STEP_OVERLAP
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.d.stepmgr.manager import StepManager
from pyslurm_ng.d.stepmgr.notes import Notes
from pyslurm_ng.d.stepmgr.user_shares import MOST_QUEUED_BYTES, refusal
from pyslurm_ng.model.job import Step
from pyslurm_ng.steps.managed_job import ManagedJob
from pyslurm_ng.wire import node_messages as nm
from pyslurm_ng.wire.auth import Peer
from pyslurm_ng.wire.messages import ErrorReply
from pyslurm_ng.wire.step_messages import CreateStep, StepGranted, StepOver, StepWaiting
from pyslurm_ng.wire.stepmgr_messages import QueueStep, StepQueued, StepsOver, WaitSteps
from tests.ctld.rules.steps.step_requests import USER
from tests.model.clusters import START_US, cluster_of, conf_of
from tests.steps.managed import managed

LAUNCH = nm.LaunchStep(credential=b"", programs=[nm.Program(["true"])])


class Asked:
    """A call whose answers are kept."""

    body_bytes = 1000

    def __init__(self, request: Struct, uid: int = USER) -> None:
        self.request = request
        self.peer = Peer(uid, uid, 0, "user", "n1", "n1", "unix")
        self.answers: list[Struct] = []
        self.gone: Callable[[], None] = lambda: None

    def part(self, answer: Struct) -> None:
        self.answers.append(answer)

    reply = part

    def error(self, code: int, text: str) -> None:
        self.answers.append(ErrorReply(code, text))

    def on_gone(self, callback: Callable[[], None]) -> None:
        self.gone = callback


class Host:
    """The hands of a manager, which remember what was done."""

    def __init__(self) -> None:
        self.timers: list[Callable[[], None]] = []
        self.delays: list[float] = []
        self.launched: list[StepGranted] = []
        self.ended: list[int] = []
        self.reports: list[bytes] = []
        self.lines: list[str] = []

    def conf(self) -> SlurmConf:
        return conf_of()

    def now_us(self) -> int:
        return START_US

    def credential(
        self, job: ManagedJob, step: Step, granted: StepGranted, request: CreateStep
    ) -> bytes:
        return b"signed"

    def later(self, delay_s: float, work: Callable[[], None]) -> None:
        self.timers.append(work)
        self.delays.append(delay_s)

    def run(self, work: Iterator[None]) -> None:
        for _ in work:
            pass

    def launch(self, job: ManagedJob, granted: StepGranted, launch: nm.LaunchStep) -> None:
        assert launch.credential == b"signed"
        self.launched.append(granted)

    def end(self, job: ManagedJob, step: Step) -> None:
        self.ended.append(step.step_id)

    def report(self, job: ManagedJob, news: bytes) -> None:
        self.reports.append(news)

    def error(self, text: str) -> None:
        self.lines.append(text)

    def pass_time(self) -> None:
        """Let all timers go off once."""
        timers, self.timers = self.timers, []
        for timer in timers:
            timer()


class Managed:
    """A manager of a job with four CPUs on one node."""

    def __init__(self, path: Path) -> None:
        _, self.credential = managed(cluster_of(), ntasks=4, nodes_min=1, nodes_max=1)
        self.path = path
        self.begin()

    def begin(self) -> None:
        self.host = Host()
        self.manager = StepManager(self.credential, Notes(str(self.path)), self.host)

    def ask(self, request: Struct, uid: int = USER) -> Asked:
        call = Asked(request, uid)
        self.manager.handle(call)  # type: ignore[arg-type]
        return call

    def create(self, number: int = 0, **fields: Any) -> Asked:
        fields = {"ntasks": 1, "flags": STEP_EXACT, **fields}
        job_id = self.credential.job_id
        return self.ask(CreateStep(request_id=number.to_bytes(16, "big"), job_id=job_id, **fields))

    def queue(self, number: int, **fields: Any) -> Asked:
        fields = {"ntasks": 1, "flags": STEP_EXACT, **fields}
        job_id, name = self.credential.job_id, number.to_bytes(16, "big")
        step = CreateStep(request_id=name, job_id=job_id, **fields)
        return self.ask(QueueStep(name, job_id, step, LAUNCH))

    def over(self, step_id: int, status: int = 0) -> None:
        node = self.credential.nodes[0]
        report = nm.StepEnded(self.credential.job_id, 0, step_id, status, START_US, START_US)
        self.manager.ended(node, report)

    def told(self) -> list[nm.StepNews]:
        return [news for body in self.host.reports for news in nm.decode_news(body)]


def step_id_of(call: Asked) -> int:
    (answer,) = call.answers
    assert isinstance(answer, StepGranted | StepQueued), answer
    return answer.step_id


def test_steps_wait_in_their_order_until_there_is_room(tmp_path: Path) -> None:
    """An srun is told that it waits, then granted; at the end it hears that its step is over."""
    job = Managed(tmp_path / "notes")
    first = [job.create(number) for number in range(4)]
    assert [step_id_of(call) for call in first] == [0, 1, 2, 3]
    late = job.create(9)
    assert late.answers == []
    job.host.pass_time()
    assert isinstance(late.answers[0], StepWaiting)
    job.over(2)
    assert isinstance(late.answers[1], StepGranted) and late.answers[1].step_id == 4
    assert isinstance(first[2].answers[1], StepOver)
    busy = job.create(10, no_wait=True)
    assert busy.answers[0].code == Errno.ESLURM_NODES_BUSY  # type: ignore[attr-defined]


def test_queued_steps_begin_by_themselves_and_swait_waits_for_them(tmp_path: Path) -> None:
    """srun --async has left; its number stands for the step from the beginning."""
    job = Managed(tmp_path / "notes")
    queued = [job.queue(number) for number in range(6)]
    assert [step_id_of(call) for call in queued] == list(range(6))
    assert [granted.step_id for granted in job.host.launched] == [0, 1, 2, 3]
    waits = job.ask(WaitSteps(job.credential.job_id))
    for step_id in range(5):
        job.over(step_id)
    assert waits.answers == []
    job.over(5)
    assert waits.answers == [StepsOver(job.credential.job_id)]
    assert job.ask(WaitSteps(job.credential.job_id)).answers == waits.answers
    again = job.queue(3)
    assert step_id_of(again) == 3  # the answer was lost, so it is asked for once more


def test_a_queued_step_can_be_cancelled(tmp_path: Path) -> None:
    """It never begins, and nobody waits for it."""
    job = Managed(tmp_path / "notes")
    for number in range(5):
        job.queue(number)
    assert job.manager.cancel_waiting(4) and not job.manager.cancel_waiting(4)
    for step_id in range(4):
        job.over(step_id)
    assert [granted.step_id for granted in job.host.launched] == [0, 1, 2, 3]
    assert job.ask(WaitSteps(job.credential.job_id)).answers


def test_steps_that_are_queued_and_cancelled_leave_nothing_in_the_spool(tmp_path: Path) -> None:
    """A user filled the spool of a node with steps that never ran."""
    job = Managed(tmp_path / "notes")
    for number in range(4):
        job.queue(number)
    long = msgspec.structs.replace(LAUNCH, environment=bytes(1 << 20))
    for number in range(4, 40):
        name = number.to_bytes(16, "big")
        step = CreateStep(request_id=name, job_id=job.credential.job_id, ntasks=1, flags=STEP_EXACT)
        call = job.ask(QueueStep(name, job.credential.job_id, step, long))
        assert job.manager.cancel_waiting(step_id_of(call))
        for body in job.host.reports:
            job.manager.news.acknowledged(nm.ManagedSteps(1, 0, body))
        job.host.reports.clear()
        job.host.pass_time()
    assert job.path.stat().st_size < 8 << 20
    again = Managed(tmp_path / "notes")
    again.manager.take_up()
    assert len(again.manager.job.job.steps) == 4 and not again.manager.waiting.queued_bytes


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("route", nm.RouteToSrun("10.0.0.1", 22, bytes(32))),
        ("pty", True),
        ("x11", ("all", bytes(16))),
        ("mpi", "pmi2"),
    ],
)
def test_a_queued_step_has_no_srun(tmp_path: Path, name: str, value: object) -> None:
    """Root's supervisor connected to any host and port that the request named."""
    job = Managed(tmp_path / "notes")
    launch = msgspec.structs.replace(LAUNCH, **{name: value})
    step = CreateStep(request_id=bytes(16), job_id=job.credential.job_id, ntasks=1)
    call = job.ask(QueueStep(bytes(16), job.credential.job_id, step, launch))
    (answer,) = call.answers
    assert isinstance(answer, ErrorReply) and answer.text.endswith(f"for: {name}")
    assert not job.host.launched


def test_a_step_counts_with_the_memory_that_it_takes(tmp_path: Path) -> None:
    """Forty thousand steps without a word took 100 MB of the node's slurmd for each job."""
    job = Managed(tmp_path / "notes")
    for number in range(4):
        job.queue(number)
    assert not job.manager.waiting.queued_bytes
    job.queue(4)
    assert job.manager.waiting.queued_bytes > Asked.body_bytes + 2048


def test_thousands_of_steps_are_a_few_messages(tmp_path: Path) -> None:
    """The controller hears of a thousand steps at once, however they came."""
    job = Managed(tmp_path / "notes")
    job.create(0)
    job.host.pass_time()
    for step_id in range(1, 3_001):
        job.over(step_id - 1)
        job.create(step_id)
    for body in job.host.reports:  # grows with each answer
        job.manager.news.acknowledged(nm.ManagedSteps(1, 0, body))
        job.host.pass_time()
    assert len(job.told()) == 6_001
    assert len(job.host.reports) < 14
    assert max(map(len, job.host.reports)) <= 256 << 10


class CountedSteps(dict[int, Step]):
    """Steps that count how often they are gone through."""

    looks = 0

    def __iter__(self) -> Iterator[int]:
        type(self).looks += 1
        return super().__iter__()


def test_many_who_wait_cost_nothing_while_steps_run(tmp_path: Path) -> None:
    """1,500 requests to wait beside 1,000 steps kept slurmd from all others for a minute."""
    job = Managed(tmp_path / "notes")
    for number in range(40):
        job.create(number, flags=STEP_OVERLAP)
    job.manager.job.job.steps = CountedSteps(job.manager.job.job.steps)
    waits = [job.ask(WaitSteps(job.credential.job_id)) for _ in range(200)]
    own = job.ask(WaitSteps(job.credential.job_id, but_step_id=39))
    for step_id in range(38):
        job.over(step_id)
    assert CountedSteps.looks < 200
    assert not any(call.answers for call in waits)
    job.over(38)
    assert own.answers and not any(call.answers for call in waits)
    job.over(39)
    assert all(call.answers == [StepsOver(job.credential.job_id)] for call in waits)


def test_steps_of_which_the_controller_has_not_heard_are_bounded(tmp_path: Path) -> None:
    """Steps with long texts, made and ended at once, took slurmd's memory: 4 GiB for each job."""
    job = Managed(tmp_path / "notes")

    def why(request: type = CreateStep, uid: int = USER) -> Reject | None:
        asked = job.create(1).request if request is CreateStep else WaitSteps(1)
        return refusal([job.manager], uid, asked)

    number = 0
    while why() is None:
        assert number < 2_000, job.manager.news.held_bytes
        call = job.create(number + 2, submit_line="x" * 65_536, flags=STEP_OVERLAP)
        job.over(step_id_of(call))
        number += 1
    refused = why()
    assert refused is not None and refused.code == Errno.SLURMCTLD_COMMUNICATIONS_BACKOFF
    assert why(uid=USER + 1) is None and why(WaitSteps) is None  # others, and who only waits
    again = Managed(tmp_path / "notes")
    again.manager.take_up()
    assert abs(again.manager.news.held_bytes - job.manager.news.held_bytes) < 8192
    job.manager.news.flush(with_parts=False)
    for body in job.host.reports:
        job.manager.news.acknowledged(nm.ManagedSteps(1, 0, body))
    assert why() is None and job.manager.news.held_bytes < 8192


def test_long_news_are_told_slowly(tmp_path: Path) -> None:
    """slurmctld's journal is on one disk; usual steps are told three times a second."""
    job = Managed(tmp_path / "notes")
    paces = []
    for length in (10, 60_000, 60_000, 10):
        for number in range(4):
            call = job.create(len(paces) * 10 + number, submit_line="x" * length)
            job.over(step_id_of(call))
        job.host.pass_time()
        (report,) = job.host.reports
        job.host.reports.clear()
        job.manager.news.acknowledged(nm.ManagedSteps(1, 0, report))
        job.create(1_000 + len(paces), flags=STEP_OVERLAP)
        paces.append(job.host.delays[-1])
    assert (paces[0], paces[3] < 1.2) == (0.3, True)
    assert 3.5 < paces[1] < 4.0 and 3.5 < paces[2] < 4.0


def test_queued_steps_of_a_user_are_bounded_over_all_jobs(tmp_path: Path) -> None:
    """Each job may queue 64 MiB; many jobs of one user on a node may not."""
    job = Managed(tmp_path / "notes")
    request = job.queue(1).request
    job.manager.waiting.queued_bytes = MOST_QUEUED_BYTES // 2 + 1
    assert refusal([job.manager], USER, request) is None
    refused = refusal([job.manager, job.manager], USER, request)
    assert refused is not None and refused.code == Errno.ESLURM_STEP_LIMIT
    assert refusal([job.manager, job.manager], USER + 1, request) is None


def test_no_other_user_is_served(tmp_path: Path) -> None:
    """Not even root: it may end the job, but has no steps in it."""
    job = Managed(tmp_path / "notes")
    for uid in (USER + 1, 0):
        for request in (WaitSteps(job.credential.job_id), job.create(1).request):
            call = job.ask(request, uid)
            assert call.answers[0].code == Errno.ESLURM_ACCESS_DENIED  # type: ignore[attr-defined]


def test_a_restart_keeps_shares_queue_and_news(tmp_path: Path) -> None:
    """A slurmd that was killed goes on: no share is given twice, no news is lost or told again."""
    job = Managed(tmp_path / "notes")
    for number in range(6):
        job.queue(number)
    job.host.pass_time()
    (report,) = job.host.reports
    job.manager.news.acknowledged(nm.ManagedSteps(1, 0, report))
    job.over(0)  # 4 begins; the controller has not heard of both
    with open(job.path, "ab") as file:
        file.write(b"\0\0\1\0N torn")
    job.begin()
    job.manager.take_up()
    assert sorted(job.manager.job.job.steps) == [1, 2, 3, 4]
    assert job.host.launched == []
    job.over(1)
    assert [granted.step_id for granted in job.host.launched] == [5]
    assert step_id_of(job.queue(77)) == 6
    job.manager.news.flush(with_parts=False)
    made = [news.step_id for news in job.told() if news.step is not None]
    over = [news.step_id for news in job.told() if news.step is None]
    assert (made, over) == ([4, 5], [0, 1])


def test_a_lost_answer_runs_no_step_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if slurmd was started again, and the notes made anew, before srun asked once more.

    RELIABILITY 38b.
    """
    monkeypatch.setattr("pyslurm_ng.d.stepmgr.notes._SPARE_BYTES", 0)
    job = Managed(tmp_path / "notes")
    assert step_id_of(job.queue(1)) == 0
    job.over(0)
    job.manager.news.flush(with_parts=False)
    for body in job.host.reports:
        job.manager.news.acknowledged(nm.ManagedSteps(1, 0, body))
    assert b"N" not in {kind for kind, body in Notes(str(job.path)).read() if body != b"\x90"}
    job.begin()
    job.manager.take_up()
    assert step_id_of(job.queue(1)) == 0 and not job.host.launched
    assert step_id_of(job.queue(2)) == 1


def test_the_end_of_the_job_is_the_end_of_all_waiting(tmp_path: Path) -> None:
    """srun and swait are told; nothing begins any more."""
    job = Managed(tmp_path / "notes")
    calls = [job.create(number) for number in range(5)]
    waits = job.ask(WaitSteps(job.credential.job_id))
    job.manager.job_over()
    assert all(isinstance(call.answers[-1], StepOver) for call in calls)
    assert waits.answers
    late = job.create(9)
    assert late.answers[0].code == Errno.ESLURM_ALREADY_DONE  # type: ignore[attr-defined]


def test_a_step_whose_srun_is_gone_ends(tmp_path: Path) -> None:
    """Its nodes are told; if none of them knows it, its share is free after a while."""
    job = Managed(tmp_path / "notes")
    call = job.create(0)
    job.host.timers.clear()
    call.gone()
    job.host.pass_time()
    assert job.host.ended == [0]
    job.host.pass_time()
    assert not job.manager.job.job.steps


def test_a_suspended_job_gives_no_shares(tmp_path: Path) -> None:
    """They are given when it goes on."""
    job = Managed(tmp_path / "notes")
    job.manager.suspend(is_suspended=True)
    call = job.create(0)
    assert call.answers == []
    job.manager.suspend(is_suspended=False)
    assert step_id_of(call) == 0


def test_a_waiting_step_is_kept_short(tmp_path: Path) -> None:
    """As in the controller: a name of each task was an object of its own, charged as 3 bytes."""
    room = Managed(tmp_path / "notes")
    name = room.credential.nodes[0]
    room.create(1, ntasks=4)
    names = [name.encode().decode() for _ in range(60_000)]
    call = room.create(2, task_nodes=names)
    assert isinstance(call.request, CreateStep)
    assert call.request.task_nodes == [name]
    assert len(room.manager.waiting) == 1


def test_a_step_names_no_more_tasks_than_its_job_may_have(tmp_path: Path) -> None:
    """No name of them is looked for."""
    room = Managed(tmp_path / "notes")
    refused = room.create(1, ntasks=0, task_nodes=["elsewhere"] * 60_000)
    assert [answer.code for answer in refused.answers] == [Errno.ESLURM_BAD_TASK_COUNT]
    refused = room.create(2, ntasks=0, task_nodes=["elsewhere"])
    assert [answer.code for answer in refused.answers] == [
        Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE
    ]
