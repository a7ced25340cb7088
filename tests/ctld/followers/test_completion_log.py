"""JobCompType=jobcomp/filetxt: which lines are written, when, and as Slurm 22.05 writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pyslurm_ng.cli.accounting.sacct_completion import parse_line
from pyslurm_ng.conf.lexer import ConfErrors
from pyslurm_ng.ctld.followers.completion_log import CompletionLog
from pyslurm_ng.ctld.followers.completion_records import completion_line
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.job import Job
from pyslurm_ng.model.states import JobFlag, JobState
from tests.model.clusters import FOUR_NODES, conf_of
from tests.world.site import Site

RECORDED = Path(__file__).resolve().parents[2] / "golden" / "jobcomp" / "slurm-22.05.log"


class CompletionSite(Site):
    """A site whose ends go to a file when the disk is done."""

    def __init__(self, path: Path | str, kind: str = "jobcomp/filetxt") -> None:
        super().__init__(f"JobCompType={kind}\nJobCompLoc={path}\n")
        self.path = Path(path)
        self.lost: list[str] = []
        self.waiting: list[Callable[[], None]] = []
        self.runs: list[tuple[Sequence[str], Mapping[str, str], int]] = []
        self.documents: list[tuple[str, dict[str, Any]]] = []
        self.completions = CompletionLog(
            self.cluster, self.conf, self.lost.append, self.waiting.append, self, self
        )
        self.follow(self.completions.applied)

    def run(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        uid: int = 0,
        *,
        kind: str = "",
        about: str = "",
    ) -> None:
        """Note a run of JobCompLoc's program."""
        self.runs.append((argv, environment, uid))

    def post(self, url: str, body: bytes, about: str) -> None:
        """Note a document."""
        self.documents.append((url, json.loads(body)))

    def stop(self) -> None: ...

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


def test_each_line_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """Jobs go on; the administrator reads how many are missing."""
    site = CompletionSite(tmp_path / "no" / "such" / "place")
    for _ in range(3):
        site.end(site.started())
        site.durable()
    why = f"JobCompLoc {site.path}: No such file or directory"
    assert site.lost == [f"JobId={job_id}: {why}" for job_id in (1, 2, 3)]


@pytest.mark.parametrize("kind", ["", "jobcomp/script"])
def test_nothing_is_written_unless_wanted(tmp_path: Path, kind: str) -> None:
    """The default, and what is not in this version."""
    site = CompletionSite(tmp_path / "jobs", kind or "none")
    site.end(site.started())
    site.durable()
    assert not site.path.exists()


RECORDED_SCRIPT = """
    ACCOUNT ARRAYJOBID ARRAYTASKID BATCH CLUSTER CONSTRAINTS DB_FLAGS DEPENDENCY DERIVED_EC END
    EXITCODE GID GROUPNAME JOBID JOBNAME JOBSTATE LIMIT NODECNT NODES PARTITION PROCS QOS
    RESERVATION START STATEREASONPREV STDERR STDIN STDOUT SUBMIT UID USERNAME WORK_DIR
"""
"""The variables that Slurm 22.05 gave a program, but for PATH and PWD."""


def test_a_program_is_told_of_each_run() -> None:
    """In variables with Slurm's names; a line break in a name adds none."""
    site = CompletionSite("/opt/told", "jobcomp/script")
    job = site.started(
        name="a\nJOBID=9", std_in="/dev/null", std_out="/tmp/o", std_err="/tmp/e", nodes_min=1
    )
    site.end(job, JobState.FAILED, 3 << 8)
    assert site.runs == []
    site.durable()
    ((argv, variables, uid),) = site.runs
    assert (argv, uid) == (("/opt/told",), job.uid)
    assert set(variables) == set(RECORDED_SCRIPT.split())
    assert variables["JOBNAME"] == "a JOBID=9"
    assert (variables["JOBSTATE"], variables["EXITCODE"]) == ("FAILED", "3:0")
    assert (variables["NODECNT"], variables["NODES"], variables["LIMIT"]) == ("1", "n3", "01:00:00")
    assert int(variables["END"]) - int(variables["START"]) == 5


RECORDED_DOCUMENT = """
    jobid container username user_id groupname group_id @start @end elapsed partition alloc_node
    nodes total_cpus total_nodes derived_ec exit_code state cpu_hours array_job_id array_task_id
    pack_job_id pack_job_offset het_job_id het_job_offset @submit @eligible @queue_wait work_dir
    std_in std_out cluster ntasks ntasks_per_node cpus_per_task time_limit job_name tres_req
    tres_alloc account parent_accounts
"""
"""The keys of Slurm 22.05's document about a task of an array, but for its script and for
ntasks_per_tres, which no option sets here."""


def test_elasticsearch_gets_a_document_of_each_run() -> None:
    site = CompletionSite("http://search:9200/slurm/_doc", "jobcomp/elasticsearch")
    job = site.job(array="5", std_in="/dev/null", std_out="/tmp/o", nodes_min=1, time_limit_min=3)
    site.run_pass()
    site.now_us += 5_000_000
    site.end(site.cluster.jobs[job.job_id], JobState.COMPLETED)
    site.durable()
    ((url, document),) = site.documents
    assert url == "http://search:9200/slurm/_doc"
    assert set(document) == {*RECORDED_DOCUMENT.split(), "qos"}
    assert (document["state"], document["elapsed"], document["time_limit"]) == ("COMPLETED", 5, 180)
    assert (document["array_task_id"], document["nodes"], document["@queue_wait"]) == (5, "n3", 0)


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ("JobCompType=jobcomp/script", "JobCompLoc: jobcomp/script needs the path of a program"),
        ("JobCompType=jobcomp/script\nJobCompLoc=told", "'told' is not an absolute path"),
        ("JobCompType=jobcomp/elasticsearch", "JobCompLoc: '' is no URL"),
        ("JobCompType=jobcomp/elasticsearch\nJobCompLoc=/x", "JobCompLoc: '/x' is no URL"),
    ],
)
def test_what_cannot_be_told_is_refused_by_name(lines: str, text: str) -> None:
    with pytest.raises(ConfErrors) as refused:
        conf_of(f"{FOUR_NODES}\n{lines}\n")
    assert text in str(refused.value)
