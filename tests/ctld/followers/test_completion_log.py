"""JobCompType=jobcomp/filetxt: which lines are written, when, and as Slurm 22.05 writes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pyslurm_ng.cli.accounting.sacct_completion import parse_line
from pyslurm_ng.ctld.followers.completion_log import CompletionLog, completion_line
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobFlag, JobState
from tests.world.logs import LineLog
from tests.world.site import Site

RECORDED = Path(__file__).resolve().parents[2] / "golden" / "jobcomp" / "slurm-22.05.log"


class CompletionSite(Site):
    """A site whose ends go to a file when the disk is done."""

    def __init__(self, path: Path, kind: str = "jobcomp/filetxt") -> None:
        super().__init__(f"JobCompType={kind}\nJobCompLoc={path}\n")
        self.path = path
        self.log = LineLog()
        self.waiting: list[Callable[[], None]] = []
        self.completions = CompletionLog(self.cluster, self.conf, self.log, self.waiting.append)
        self.follow(self.completions.applied)

    def durable(self) -> None:
        """Let the disk be done with all that was recorded."""
        waiting, self.waiting[:] = list(self.waiting), []
        for release in waiting:
            release()

    def started(self, **request: object) -> Job:
        """Return a job that starts now; five seconds pass."""
        job = self.accept(**request)  # type: ignore[arg-type]
        self.run_pass()
        self.now_us += 5_000_000
        return job

    def lines(self) -> list[dict[str, str]]:
        """Return what is in the file."""
        return [parse_line(line) for line in self.path.read_text().splitlines()]


def test_a_line_when_the_end_is_durable(tmp_path: Path) -> None:
    """Only one, though its nodes clean up for a while."""
    site = CompletionSite(tmp_path / "jobs")
    site.end(site.started(), JobState.FAILED, 3 << 8)
    assert not site.path.exists()
    site.durable()
    (line,) = site.lines()
    assert (line["JobState"], line["ExitCode"]) == ("FAILED", "3:0")


def test_a_job_that_never_ran(tmp_path: Path) -> None:
    """It has no nodes, and began when it ended."""
    site = CompletionSite(tmp_path / "jobs")
    job_id = site.accept().job_id
    site.apply([ev.JobEnded(site.now_us, job_id, JobState.CANCELLED)])
    site.durable()
    (line,) = site.lines()
    assert (line["JobState"], line["NodeList"], line["NodeCnt"]) == ("CANCELLED", "(null)", "0")
    assert line["StartTime"] == line["EndTime"]


def test_each_run_of_a_requeued_job(tmp_path: Path) -> None:
    """Each run used the nodes.

    If they are clean at once, the job is already waiting again when the line is written.
    """
    site = CompletionSite(tmp_path / "jobs")
    job = site.started()
    site.end(job, JobState.FAILED, 1 << 8, JobFlag.REQUEUED)
    assert job.state == JobState.PENDING
    site.apply([ev.JobEnded(site.now_us, job.job_id, JobState.CANCELLED)])
    site.durable()
    failed, cancelled = site.lines()
    assert (failed["JobState"], failed["ExitCode"]) == ("FAILED", "1:0")
    assert (failed["NodeCnt"], failed["Partition"], failed["ProcCnt"]) == ("1", "main", "1")
    assert "unknown" not in (failed["StartTime"], failed["EndTime"])
    assert (cancelled["JobState"], cancelled["NodeList"]) == ("CANCELLED", "(null)")


def test_words_and_their_order_are_slurms(tmp_path: Path) -> None:
    """Scripts of sites read these files."""
    site = CompletionSite(tmp_path / "jobs")
    job = site.started(name="train", ntasks=2, work_dir="/home/ann")
    site.end(job)
    line = completion_line(site.cluster, job, site.conf)
    recorded = RECORDED.read_text().splitlines()[2]
    assert recorded.startswith("JobId=1 ")
    assert list(parse_line(line)) == list(parse_line(recorded))
    assert line.startswith(
        "JobId=1 UserId=user1001(1001) GroupId=user1001(1001) Name=train JobState=COMPLETED "
        "Partition=main TimeLimit=60 StartTime="
    )
    values = parse_line(line)
    assert (values["NodeCnt"], values["ProcCnt"]) == ("1", "2")
    assert values["Tres"] == "cpu=2,mem=2000M,node=1,billing=2"
    assert values["WorkDir"] == "/home/ann"


def test_no_user_forges_a_line(tmp_path: Path) -> None:
    """A line end in a name does not end the line."""
    site = CompletionSite(tmp_path / "jobs")
    site.end(site.started(name="a\nJobId=7 UserId=root(0)"))
    site.durable()
    assert len(site.lines()) == 1


def test_a_file_that_was_moved_away(tmp_path: Path) -> None:
    """SIGUSR2 and SIGHUP begin a new one, as for the logs."""
    site = CompletionSite(tmp_path / "jobs")
    site.end(site.started())
    site.durable()
    site.path.rename(tmp_path / "old")
    site.completions.reopen()
    site.end(site.started())
    site.durable()
    assert [line["JobId"] for line in site.lines()] == ["2"]


def test_a_file_that_cannot_be_written_is_reported_once(tmp_path: Path) -> None:
    """Jobs go on."""
    site = CompletionSite(tmp_path / "no" / "such" / "place")
    for _ in range(3):
        site.end(site.started())
        site.durable()
    assert site.log.lines == [f"JobCompLoc {site.path}: No such file or directory"]


@pytest.mark.parametrize("kind", ["", "jobcomp/script"])
def test_nothing_is_written_unless_wanted(tmp_path: Path, kind: str) -> None:
    """The default, and what is not in this version."""
    site = CompletionSite(tmp_path / "jobs", kind or "none")
    site.end(site.started())
    site.durable()
    assert not site.path.exists()
