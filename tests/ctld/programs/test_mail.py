"""--mail-type: which mail leaves when, through MailProg."""

from __future__ import annotations

import asyncio
import stat
from pathlib import Path

import pytest

from pyslurm_ng.base.numbers import (
    MAIL_ARRAY_TASKS,
    MAIL_BEGIN,
    MAIL_END,
    MAIL_FAIL,
    MAIL_REQUEUE,
    MAIL_STAGE_OUT,
    MAIL_TIME_50,
    MAIL_TIME_90,
    MAIL_TIME_LIMIT,
)
from pyslurm_ng.ctld.programs import runner
from pyslurm_ng.ctld.programs.mailer import Mailer
from pyslurm_ng.ctld.programs.runner import Programs
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.buffer import Buffer, BufferState
from pyslurm_ng.model.duty import DutyKind
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobFlag, JobState
from tests.world.logs import NotedFaults
from tests.world.programs import NotedPrograms
from tests.world.site import Site

ALL = MAIL_BEGIN | MAIL_END | MAIL_FAIL | MAIL_REQUEUE
SECOND_US = 1_000_000


class MailSite(Site):
    """A site with a mailer; mails are only noted."""

    def __init__(self, domain: str = "") -> None:
        super().__init__(f"MailDomain={domain}" if domain else "")
        self.sent = NotedPrograms()
        self.mailer = self.restarted()
        self.follow(lambda events: self.mailer.applied(events))

    def restarted(self) -> Mailer:
        """Return the mailer of a controller that begins now."""
        return Mailer(self.cluster, self.conf, self.sent, lambda done: done(), self.now_us)

    def wants(self, mail_type: int, **request: object) -> Job:
        """Return a job of ten minutes that waits for a minute."""
        job = self.job(name="train", time_limit_min=10, mail_type=mail_type, **request)
        self.now_us += 60 * SECOND_US
        return job

    def runs(self, mail_type: int, **request: object) -> Job:
        """Return a job that starts a minute after it was submitted, and has run for 61 seconds."""
        job = self.wants(mail_type, **request)
        self.run_pass()
        self.now_us += 61 * SECOND_US
        return job

    @property
    def subjects(self) -> list[str]:
        """The subjects of all mails, in order."""
        return [argv[2] for argv, _ in self.sent.runs]


def test_begin_and_end() -> None:
    """Subjects as users' filters know them; what a script of MailProg reads is in variables."""
    site = MailSite()
    site.end(site.runs(ALL))
    assert site.subjects == [
        "Slurm Job_id=1 Name=train Began, Queued time 00:01:00",
        "Slurm Job_id=1 Name=train Ended, Run time 00:01:01, COMPLETED, ExitCode 0",
    ]
    argv, environment = site.sent.runs[1]
    assert argv == ("/bin/mail", "-s", site.subjects[1], "alice")
    assert environment["SLURM_JOB_ID"] == "1"
    assert environment["SLURM_JOB_USER"] == "alice"
    assert environment["SLURM_JOB_MAIL_TYPE"] == "Ended"
    assert environment["SLURM_JOB_STATE"] == "COMPLETED"
    assert environment["SLURM_CLUSTER_NAME"] == "demo"
    assert environment["SLURM_JOB_EXIT_CODE_MAX"] == environment["SLURM_JOB_TERM_SIGNAL_MAX"] == "0"
    assert environment["SLURM_JOB_EXIT_CODE"] == environment["SLURM_JOB_DERIVED_EC"] == "0"
    assert environment["SLURM_JOB_EXIT_CODE2"] == "0:0"
    assert environment["SLURM_JOB_NODELIST"] == "n3"  # as PrologSlurmctld has it


@pytest.mark.parametrize(
    ("mail_type", "state", "status", "subjects"),
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
def test_an_end_sends_one_mail_if_asked_for(
    mail_type: int, state: JobState, status: int, subjects: list[str]
) -> None:
    """Only what was asked for; one mail for one end."""
    site = MailSite()
    job = site.runs(mail_type)
    site.sent.runs.clear()
    site.end(job, state, status)
    head = "Slurm Job_id=1 Name=train "
    assert [subject.removeprefix(head) for subject in site.subjects] == subjects


def test_shares_of_the_time_limit_once_each() -> None:
    """Half of ten minutes is over five minutes after the start; 90 % was not asked about twice."""
    site = MailSite()
    job = site.runs(MAIL_TIME_50 | MAIL_TIME_90)
    for after_s in (46, 299, 301, 302, 541, 542):
        site.mailer.tick(job.start_us + after_s * SECOND_US)
    assert [subject.partition("Reached ")[2] for subject in site.subjects] == [
        "50% of time limit, Run time 00:05:01",
        "90% of time limit, Run time 00:09:01",
    ]


def test_a_restarted_controller_sends_no_mail_twice() -> None:
    """The first mailer told of the end when it began.

    The next one sees only that the node is clean.
    """
    site = MailSite()
    job = site.runs(ALL)
    over = job_end.End(JobState.COMPLETED, exit_code=0)
    site.apply(job_end.complete(site.cluster, job, over, site.now_us))
    before = list(site.subjects)
    site.mailer = site.restarted()
    cleaning = site.duty(job, DutyKind.TERMINATE)
    site.apply([ev.DutiesDone(site.now_us, ((cleaning.node_id, cleaning.duty_id),))])
    site.apply(job_end.finish(site.cluster, job, job.state, 0, job.flags, site.now_us))
    assert job.state == JobState.COMPLETED and not job.nodes_pending
    assert site.subjects == before and len(before) == 2


def test_a_job_that_never_ran() -> None:
    site = MailSite()
    job = site.wants(MAIL_END)
    site.apply([ev.JobEnded(site.now_us, job.job_id, JobState.CANCELLED)])
    assert site.subjects == [
        "Slurm Job_id=1 Name=train Ended, Run time 00:00:00, CANCELLED, ExitCode 0"
    ]


def test_a_requeue_tells_how_long_the_job_ran() -> None:
    site = MailSite()
    job = site.runs(MAIL_REQUEUE)
    completing = ev.JobCompleting(
        site.now_us, job.job_id, JobState.PREEMPTED, 0, 0, 0, (), flags=JobFlag.REQUEUED
    )
    site.apply([completing])
    site.apply([ev.JobRequeued(site.now_us, job.job_id, 1, 0)])
    assert site.subjects == ["Slurm Job_id=1 Name=train Requeued, Run time 00:01:01"]
    assert site.sent.runs[0][1]["SLURM_JOB_RUN_TIME"] == "00:01:01"


def _array(site: MailSite, mail_type: int) -> None:
    """Two tasks of an array run and end one after the other; the last one keeps the array's id."""
    record = site.runs(mail_type, array="0-1")
    first = site.cluster.jobs[record.job_id + 1]
    assert (first.array_task_id, record.array_task_id) == (0, 1)
    site.end(first)
    site.end(record, JobState.FAILED, 2 << 8)


def test_an_array_sends_mail_as_one_job() -> None:
    """A thousand tasks send two mails unless ARRAY_TASKS is asked for."""
    site = MailSite()
    _array(site, ALL)
    assert site.subjects == [
        "Slurm Array Summary Job_id=1_* (1) Name=train Began",
        "Slurm Array Summary Job_id=1_* (1) Name=train Failed, Mixed, ExitCode [0-2]",
    ]
    assert site.sent.runs[1][1]["SLURM_JOB_EXIT_CODE_MAX"] == "2"


def test_each_task_of_an_array() -> None:
    site = MailSite()
    _array(site, ALL | MAIL_ARRAY_TASKS)
    heads = [subject.partition(" Name=")[0] for subject in site.subjects]
    tasks = [f"Slurm Array Task Job_id=1_{task} ({2 - task})" for task in (0, 1)]
    assert heads == [*tasks, *tasks]
    assert site.sent.runs[0][1]["SLURM_ARRAY_TASK_ID"] == "0"


@pytest.mark.parametrize(("is_hurried", "count"), [(False, 1), (True, 0)])
def test_a_stage_out_that_is_over(is_hurried: bool, count: int) -> None:
    """Nobody hears of a stage-out that did not take place."""
    site = MailSite()
    job = site.runs(MAIL_STAGE_OUT)
    site.end(job)
    for state in (BufferState.STAGING_OUT, BufferState.TEARDOWN, BufferState.COMPLETE):
        buffer = Buffer(job.job_id, state, is_hurried=is_hurried)
        site.apply([ev.BufferChanged(site.now_us, job.job_id, buffer)])
    assert site.subjects == ["Slurm Job_id=1 Name=train Staged Out"] * count


def test_plain_names_get_the_mail_domain() -> None:
    """MailDomain completes plain names.

    A name that MailProg would read as an option or a command may be in an old journal; then the
    job's user gets the mail.
    """
    site = MailSite("example.org")
    for name in ("", "boss", "a@b.c", "-x", "|id"):
        job = site.accept(mail_type=MAIL_END, mail_user=name)
        site.apply([ev.JobEnded(site.now_us, job.job_id, JobState.CANCELLED)])
    assert [argv[3] for argv, _ in site.sent.runs] == [
        "user1001@example.org",
        "boss@example.org",
        "a@b.c",
        "user1001@example.org",
        "user1001@example.org",
    ]


def _program(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_programs_get_their_words_and_a_clean_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment of slurmctld is not passed on to a mail program."""
    monkeypatch.setenv("SECRET", "x")
    out = tmp_path / "out"
    program = _program(
        tmp_path / "mail", f'echo "$@" >{out}.new; env >>{out}.new; mv {out}.new {out}'
    )
    noted = NotedFaults()

    async def run() -> None:
        programs = Programs(noted.note)
        programs.run((program, "-s", "a b", "alice"), {"SLURM_JOB_ID": "7"})
        await asyncio.gather(*programs._tasks)

    asyncio.run(run())
    lines = out.read_text().splitlines()
    assert lines[0] == "-s a b alice" and "SLURM_JOB_ID=7" in lines
    assert not [line for line in lines if line.startswith("SECRET")] and not noted.told


def test_a_users_mails_wait_for_no_other_users_mails(tmp_path: Path) -> None:
    """An array may ask for a mail of each task. What does not fit into a user's share is lost."""
    out = tmp_path / "out"
    program = _program(tmp_path / "mail", f'echo "$1" >>{out}')
    noted = NotedFaults()

    async def run() -> None:
        programs = Programs(noted.note)
        for _ in range(runner.AT_ONCE + 50):
            programs.run((program, "alice"), {}, 1001)
        programs.run((program, "bob"), {}, 1002)
        await asyncio.gather(*programs._tasks)
        for _ in range(runner.WAITING):
            programs.run((program, "never"), {}, 1001)
        programs.run((program, "alice"), {}, 1001, kind="jobcomp", about="JobId=7")
        programs.stop()

    asyncio.run(run())
    lines = out.read_text().splitlines()
    assert len(lines) == runner.AT_ONCE + 51
    assert lines.index("bob") < 2 * runner.AT_ONCE + 2
    why = f"{program} for JobId=7: not run, because 1000 runs for uid 1001 wait"
    assert noted.told[0] == ("jobcomp", why)
    not_run = ("program", f"{program}: not run before the end")
    assert noted.told[1:] == [not_run] * runner.WAITING


def test_failing_programs_are_told(tmp_path: Path) -> None:
    """`Faults` counts each, and fills no log."""
    noted = NotedFaults()

    async def run() -> None:
        programs = Programs(noted.note, limit_s=0.2)
        programs.run((str(tmp_path / "none"),), {})
        await asyncio.gather(*programs._tasks)
        programs.run((_program(tmp_path / "hangs", "exec sleep 60"),), {})
        await asyncio.gather(*programs._tasks)

    asyncio.run(run())
    assert noted.told == [
        ("program", f"{tmp_path}/none: No such file or directory"),
        ("program", f"{tmp_path}/hangs: killed after 0 s"),
    ]
