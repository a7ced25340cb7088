"""--mail-type: which mail leaves when, through MailProg."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from pyslurm_ng.base.numbers import (
    MAIL_ARRAY_TASKS,
    MAIL_BEGIN,
    MAIL_END,
    MAIL_FAIL,
    MAIL_REQUEUE,
    MAIL_TIME_50,
    MAIL_TIME_90,
    MAIL_TIME_LIMIT,
)
from pyslurm_ng.ctld.programs import runner
from pyslurm_ng.ctld.programs.mailer import Mailer
from pyslurm_ng.ctld.programs.runner import Programs
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.states import JobState
from tests.cli.reference_cluster import ReferenceCluster, at
from tests.world.logs import LineLog

ALL = MAIL_BEGIN | MAIL_END | MAIL_FAIL | MAIL_REQUEUE
SECOND_US = 1_000_000


class Sent:
    """Stands for MailProg: keeps what it would be run with."""

    def __init__(self) -> None:
        self.runs: list[tuple[Sequence[str], dict[str, str]]] = []

    def run(self, argv: Sequence[str], environment: dict[str, str], uid: int) -> None:
        self.runs.append((argv, environment))

    @property
    def subjects(self) -> list[str]:
        return [argv[2] for argv, _ in self.runs]


class Post:
    """The reference cluster with a mailer."""

    def __init__(self, domain: str = "") -> None:
        self.reference = ReferenceCluster()
        self.sent = Sent()
        self.conf = replace(self.reference.conf, mail_domain=domain)
        self.mailer = self.restarted()

    def restarted(self) -> Mailer:
        """Return the mailer of a controller that begins now."""
        cluster = self.reference.cluster
        return Mailer(cluster, self.conf, self.sent, lambda done: done(), at("12:10:14"))

    def submit(self, mail_type: int, job_id: int = 100, **fields: object) -> None:
        self.reference.submit(
            job_id,
            "alice",
            "12:09:14",
            "train",
            minutes=10,
            mail_type=mail_type,
            **fields,  # type: ignore[arg-type]
        )

    def apply(self, *events: ev.AnyEvent) -> None:
        self.reference.apply(list(events))
        self.mailer.applied(events)

    def start(self, job_id: int = 100) -> None:
        """Let it run from 12:10:14 on n1."""
        before = self.reference.cluster.next_duty_id
        self.reference.start(job_id, 1, ("n1", 1 << job_id % 16, 1000, 0))
        job = self.reference.cluster.jobs[job_id]
        self.mailer.applied(
            [
                ev.JobAllocated(
                    time_us=at("12:10:14"),
                    job_id=job_id,
                    partition="main",
                    nodes=job.nodes,
                    batch_node_id=0,
                    total_tasks=1,
                    first_duty_id=before,
                )
            ]
        )

    def end(self, state: JobState, status: int, job_id: int = 100, flags: int = 0) -> None:
        """Let it end at 12:11:15, and its node be clean at once."""
        self.apply(
            ev.JobCompleting(
                time_us=at("12:11:15"), job_id=job_id, state=state, exit_code=status, reason=0,
                first_duty_id=0, node_ids=(), flags=flags,
            )
        )  # fmt: skip
        self.apply(ev.JobEnded(at("12:11:16"), job_id, state, exit_code=status))


def test_begin_and_end() -> None:
    """Subjects as users' filters know them; what a script of MailProg reads is in variables."""
    post = Post()
    post.submit(ALL)
    post.start()
    post.end(JobState.COMPLETED, 0)
    assert post.sent.subjects == [
        "Slurm Job_id=100 Name=train Began, Queued time 00:01:00",
        "Slurm Job_id=100 Name=train Ended, Run time 00:01:01, COMPLETED, ExitCode 0",
    ]
    argv, environment = post.sent.runs[1]
    assert argv == ("/bin/mail", "-s", post.sent.subjects[1], "alice")
    assert environment["SLURM_JOB_ID"] == "100"
    assert environment["SLURM_JOB_USER"] == "alice"
    assert environment["SLURM_JOB_MAIL_TYPE"] == "Ended"
    assert environment["SLURM_JOB_STATE"] == "COMPLETED"
    assert environment["SLURM_CLUSTER_NAME"] == "demo"


@pytest.mark.parametrize(
    ("mail_type", "state", "status", "wanted"),
    [
        (ALL, JobState.FAILED, 3 << 8, ["Failed, Run time 00:01:01, FAILED, ExitCode 3"]),
        (MAIL_END, JobState.FAILED, 3 << 8, ["Ended, Run time 00:01:01, FAILED, ExitCode 3"]),
        (MAIL_FAIL, JobState.COMPLETED, 0, []),
        (MAIL_FAIL, JobState.FAILED, 11, ["Failed, Run time 00:01:01, FAILED, Signal 11"]),
        (MAIL_FAIL, JobState.CANCELLED, 0, []),
        (0, JobState.FAILED, 1 << 8, []),
        (
            MAIL_TIME_LIMIT | MAIL_FAIL,
            JobState.TIMEOUT,
            15,
            [
                "Reached time limit, Run time 00:01:01",
                "Failed, Run time 00:01:01, TIMEOUT, Signal 15",
            ],
        ),
    ],
)
def test_an_end_is_told_once_if_asked_for(
    mail_type: int, state: JobState, status: int, wanted: list[str]
) -> None:
    """Only what was asked for; one mail for one end."""
    post = Post()
    post.submit(mail_type)
    post.start()
    post.sent.runs.clear()
    post.end(state, status)
    head = "Slurm Job_id=100 Name=train "
    assert [subject.removeprefix(head) for subject in post.sent.subjects] == wanted


def test_shares_of_the_time_limit_once_each() -> None:
    """Half of ten minutes is over five minutes after the start; 90 % was not asked about twice."""
    post = Post()
    post.submit(MAIL_TIME_50 | MAIL_TIME_90)
    post.start()
    for clock in ("12:11:00", "12:15:13", "12:15:15", "12:15:16", "12:19:15", "12:19:16"):
        post.mailer.tick(at(clock))
    assert [subject.partition("Reached ")[2] for subject in post.sent.subjects] == [
        "50% of time limit, Run time 00:05:01",
        "90% of time limit, Run time 00:09:01",
    ]


def test_a_restarted_controller_says_nothing_twice() -> None:
    """The end was told when it began; only the node's cleaning up is seen by the successor."""
    post = Post()
    post.submit(ALL)
    post.start()
    post.apply(
        ev.JobCompleting(at("12:11:15"), 100, JobState.COMPLETED, 0, 0, 5, (0,)),
    )
    before = list(post.sent.subjects)
    post.mailer = post.restarted()
    post.mailer.applied([ev.JobEnded(at("12:11:16"), 100, JobState.COMPLETED)])
    assert post.sent.subjects == before and len(before) == 2


def test_a_job_that_never_ran() -> None:
    post = Post()
    post.submit(MAIL_END)
    post.apply(ev.JobEnded(at("12:11:16"), 100, JobState.CANCELLED))
    assert post.sent.subjects == [
        "Slurm Job_id=100 Name=train Ended, Run time 00:00:00, CANCELLED, ExitCode 0"
    ]


def _array(post: Post, mail_type: int) -> None:
    """Two tasks of an array run and end one after the other; the last one keeps the array's id."""
    post.submit(mail_type, array=((0, 1, 1),))
    for task, job_id in ((0, 101), (1, 100)):
        post.apply(ev.ArrayTaskSplit(at("12:10:00"), 100, task, job_id))
        post.start(job_id)
    post.end(JobState.COMPLETED, 0, 101)
    post.end(JobState.FAILED, 2 << 8, 100)


def test_an_array_is_told_of_as_one() -> None:
    """A thousand tasks are two mails unless ARRAY_TASKS is asked for."""
    post = Post()
    _array(post, ALL)
    assert post.sent.subjects == [
        "Slurm Array Summary Job_id=100_* (100) Name=train Began, Queued time 00:01:00",
        "Slurm Array Summary Job_id=100_* (100) Name=train Failed, Mixed, ExitCode [0-2]",
    ]
    assert post.sent.runs[1][1]["SLURM_JOB_EXIT_CODE_MAX"] == "2"


def test_each_task_of_an_array() -> None:
    post = Post()
    _array(post, ALL | MAIL_ARRAY_TASKS)
    heads = [subject.partition(" Name=")[0] for subject in post.sent.subjects]
    tasks = [f"Slurm Array Task Job_id=100_{task} ({101 - task})" for task in (0, 1)]
    assert heads == [*tasks, *tasks]
    assert post.sent.runs[0][1]["SLURM_ARRAY_TASK_ID"] == "0"


def test_plain_names_get_the_mail_domain() -> None:
    """MailDomain completes plain names.

    What MailProg would take for an option or a command may be in an old journal; the user gets it.
    """
    post = Post("example.org")
    for job_id, user in ((100, ""), (101, "boss"), (102, "a@b.c"), (103, "-x"), (104, "|id")):
        post.submit(MAIL_END, job_id, mail_user=user)
        post.apply(ev.JobEnded(at("12:11:16"), job_id, JobState.CANCELLED))
    assert [argv[3] for argv, _ in post.sent.runs] == [
        "alice@example.org",
        "boss@example.org",
        "a@b.c",
        "alice@example.org",
        "alice@example.org",
    ]


def _program(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_programs_get_their_words_and_nothing_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What slurmctld was started with is no business of a mail program."""
    monkeypatch.setenv("SECRET", "x")
    out = tmp_path / "out"
    program = _program(
        tmp_path / "mail", f'echo "$@" >{out}.new; env >>{out}.new; mv {out}.new {out}'
    )
    log = LineLog()

    async def run() -> None:
        programs = Programs(log)
        programs.run((program, "-s", "a b", "alice"), {"SLURM_JOB_ID": "7"})
        await asyncio.gather(*programs._tasks)

    asyncio.run(run())
    lines = out.read_text().splitlines()
    assert lines[0] == "-s a b alice" and "SLURM_JOB_ID=7" in lines
    assert not [line for line in lines if line.startswith("SECRET")] and not log.lines


def test_a_users_mails_wait_for_no_other_users_mails(tmp_path: Path) -> None:
    """An array may ask for a mail of each task. What does not fit into a user's share is lost."""
    out = tmp_path / "out"
    program = _program(tmp_path / "mail", f'echo "$1" >>{out}')
    log = LineLog()

    async def run() -> None:
        programs = Programs(log)
        for _ in range(runner.AT_ONCE + 50):
            programs.run((program, "alice"), {}, 1001)
        programs.run((program, "bob"), {}, 1002)
        await asyncio.gather(*programs._tasks)
        for _ in range(runner.WAITING + 1):
            programs._queue.push(1001, ((program, "never"), {}))
        programs.run((program, "alice"), {}, 1001)
        assert programs.dropped == 1
        programs.stop()

    asyncio.run(run())
    lines = out.read_text().splitlines()
    assert len(lines) == runner.AT_ONCE + 51
    assert lines.index("bob") < 2 * runner.AT_ONCE + 2
    assert log.lines == [f"{program}: 1000 runs for uid 1001 wait; dropping further ones"]


def test_failing_programs_are_logged_once(tmp_path: Path) -> None:
    """A missing mail program must not fill the log with a line for each job."""
    log = LineLog()

    async def run() -> None:
        programs = Programs(log, limit_s=0.2)
        for _ in range(20):
            programs.run((str(tmp_path / "none"),), {})
        await asyncio.gather(*programs._tasks)
        programs.run((_program(tmp_path / "hangs", "exec sleep 60"),), {})
        await asyncio.gather(*programs._tasks)

    asyncio.run(run())
    assert log.lines == [
        f"{tmp_path}/none: No such file or directory",
        f"{tmp_path}/hangs: killed after 0 s",
    ]
