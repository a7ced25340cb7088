"""JobCompType=jobcomp/filetxt: which lines are written, when, and as Slurm 22.05 writes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pyslurm_ng.cli.accounting.sacct_completion import parse_line
from pyslurm_ng.ctld.followers.completion_log import CompletionLog, completion_line
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.apply import apply
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.states import JobFlag, JobState
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of, submit

RECORDED = Path(__file__).resolve().parents[2] / "golden" / "jobcomp" / "slurm-22.05.log"
LATER_US = START_US + 5_000_000


class Scene:
    """A cluster whose ends go to a file when the disk is done."""

    def __init__(self, path: Path, kind: str = "jobcomp/filetxt") -> None:
        self.conf = conf_of(FOUR_NODES + f"JobCompType={kind}\nJobCompLoc={path}\n")
        self.cluster = cluster_of(self.conf)
        self.path = path
        self.errors: list[str] = []
        self.waiting: list[Callable[[], None]] = []
        self.log = CompletionLog(self.cluster, self.conf, self, self.waiting.append)

    def error(self, text: str) -> None:
        self.errors.append(text)

    def record(self, events: list[ev.AnyEvent]) -> None:
        for event in events:
            apply(self.cluster, event)
            self.log.applied([event])

    def durable(self) -> None:
        waiting, self.waiting[:] = list(self.waiting), []
        for release in waiting:
            release()

    def started(self, **request: object) -> Job:
        job_id = submit(self.cluster, JobRequest(**request))  # type: ignore[arg-type]
        (start,) = Planner()(snapshot(self.cluster, START_US), policy(self.conf)).starts
        self.record(dispatch(self.cluster, start, START_US))
        return self.cluster.jobs[job_id]

    def end(self, job: Job, status: int = 0, flags: int = 0) -> None:
        state = JobState.FAILED if status else JobState.COMPLETED
        end = job_end.End(state, exit_code=status, flags=flags)
        nodes = frozenset(alloc.node_id for alloc in job.nodes)
        self.record(job_end.complete(self.cluster, job, end, LATER_US, clean_nodes=nodes))

    def lines(self) -> list[dict[str, str]]:
        return [parse_line(line) for line in self.path.read_text().splitlines()]


def test_a_line_when_the_end_is_durable(tmp_path: Path) -> None:
    """Only one, though its nodes clean up for a while."""
    scene = Scene(tmp_path / "jobs")
    scene.end(scene.started(), 3 << 8)
    assert not scene.path.exists()
    scene.durable()
    (line,) = scene.lines()
    assert (line["JobState"], line["ExitCode"]) == ("FAILED", "3:0")


def test_a_job_that_never_ran(tmp_path: Path) -> None:
    """It has no nodes, and began when it ended."""
    scene = Scene(tmp_path / "jobs")
    job_id = submit(scene.cluster, JobRequest())
    scene.record([ev.JobEnded(LATER_US, job_id, JobState.CANCELLED)])
    scene.durable()
    (line,) = scene.lines()
    assert (line["JobState"], line["NodeList"], line["NodeCnt"]) == ("CANCELLED", "(null)", "0")
    assert line["StartTime"] == line["EndTime"]


def test_each_run_of_a_requeued_job(tmp_path: Path) -> None:
    """Every one of them used the nodes."""
    scene = Scene(tmp_path / "jobs")
    job = scene.started()
    scene.end(job, 1 << 8, JobFlag.REQUEUED)
    assert job.state == JobState.PENDING
    scene.record([ev.JobEnded(LATER_US, job.job_id, JobState.CANCELLED)])
    scene.durable()
    assert [line["JobState"] for line in scene.lines()] == ["FAILED", "CANCELLED"]


def test_words_and_their_order_are_slurms(tmp_path: Path) -> None:
    """Scripts of sites read these files."""
    scene = Scene(tmp_path / "jobs")
    job = scene.started(name="train", ntasks=2, work_dir="/home/ann")
    scene.end(job)
    line = completion_line(scene.cluster, job, scene.conf)
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


def test_nobody_forges_a_line(tmp_path: Path) -> None:
    """A line's end in a name stays in the line."""
    scene = Scene(tmp_path / "jobs")
    scene.end(scene.started(name="a\nJobId=7 UserId=root(0)"))
    scene.durable()
    assert len(scene.lines()) == 1


def test_a_file_that_was_moved_away(tmp_path: Path) -> None:
    """SIGUSR2 and SIGHUP begin a new one, as for the logs."""
    scene = Scene(tmp_path / "jobs")
    scene.end(scene.started())
    scene.durable()
    scene.path.rename(tmp_path / "old")
    scene.log.reopen()
    scene.end(scene.started())
    scene.durable()
    assert [line["JobId"] for line in scene.lines()] == ["2"]


def test_a_file_that_cannot_be_written_is_told_once(tmp_path: Path) -> None:
    """Jobs go on all the same."""
    scene = Scene(tmp_path / "no" / "such" / "place")
    for _ in range(3):
        scene.end(scene.started())
        scene.durable()
    assert scene.errors == [f"JobCompLoc {scene.path}: No such file or directory"]


@pytest.mark.parametrize("kind", ["", "jobcomp/script"])
def test_nothing_is_written_unless_wanted(tmp_path: Path, kind: str) -> None:
    """The default, and what is not in this version."""
    scene = Scene(tmp_path / "jobs", kind) if kind else Scene(tmp_path / "jobs", "none")
    scene.end(scene.started())
    scene.durable()
    assert not scene.path.exists()
