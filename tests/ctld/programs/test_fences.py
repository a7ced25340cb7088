"""fence_program: for which nodes it runs, how often, and what its success means."""

from __future__ import annotations

from pyslurm_ng.ctld.programs.fences import Fences
from pyslurm_ng.ctld.rules.ends.node_loss import nodes_down
from pyslurm_ng.ctld.rules.ends.requeue import RequeueRules
from pyslurm_ng.ctld.soft import Soft
from pyslurm_ng.daemon.hooks import HookResult
from pyslurm_ng.model.job import Job
from tests.ctld.rules.started_jobs import running
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of
from tests.world.logs import LineLog
from tests.world.programs import HeldPrograms, Run
from tests.world.writer_room import WriterRoom

SECOND_US = 1_000_000
WORDS = "node_loss=confirmed,fence_program=/sbin/fence,fence_timeout=7"


class Scene(WriterRoom):
    """A silent node and a job that waits for it."""

    def __init__(self, words: str = WORDS, policy: str = "confirmed") -> None:
        self.conf = conf_of(FOUR_NODES + f"SlurmdTimeout=60\nSlurmctldParameters={words}\n")
        super().__init__(cluster_of(self.conf))
        self.soft = Soft(started_us=START_US)
        self.programs = HeldPrograms()
        self.runs = self.programs.runs
        self.log = LineLog()
        self.job: Job = running(self.cluster, node_list="n1")
        self.fences = Fences(
            self.writer, self.soft, self.conf, self.programs, now_us=self.now_us, log=self.log
        )
        self.soft.expect(self.cluster, START_US)
        self.policy = policy

    def lose(self) -> None:
        self.writer.record(
            nodes_down(self.cluster, (0,), "Not responding", self.at_us, policy=self.policy,
                       rules=RequeueRules(delay_s=1))
        )  # fmt: skip

    def at(self, seconds: int) -> list[Run]:
        """Let the daemon look at this time; return what runs then and did not before."""
        before = len(self.runs)
        self.at_us = START_US + seconds * SECOND_US
        self.fences.tick()
        return self.runs[before:]


def test_it_gets_the_node_and_its_jobs() -> None:
    """It has a small environment and a time limit. Exit code 0 is proof."""
    scene = Scene()
    scene.at(60)
    scene.lose()
    (run,) = scene.at(61)
    assert (run.program, run.limit_s) == ("/sbin/fence", 7)
    assert run.environment["SLURM_NODE_NAME"] == "n1"
    assert run.environment["SLURM_JOB_IDS"] == str(scene.job.job_id)
    assert set(run.environment) == {"PATH", "SLURM_NODE_NAME", "SLURM_NODE_ADDR", "SLURM_JOB_IDS"}
    assert scene.at(62) == []  # while it runs
    run.done(HookResult(0, ""))
    assert not scene.job.waits_for_proof
    assert scene.job.lost_runs[0].proof == "fence_program has fenced n1"
    assert scene.at(63) == []


def test_a_failure_is_logged_and_tried_again_after_longer_pauses() -> None:
    """The job waits, and the log says why."""
    scene = Scene()
    scene.at(60)
    scene.lose()
    moments = []
    for second in range(61, 200):
        for run in scene.at(second):
            moments.append(second)
            run.done(HookResult(256, "exit code 1"))
    assert moments == [61, 71, 91, 131]
    assert scene.job.waits_for_proof
    assert "fence_program for node n1: exit code 1; again in 10 s, its jobs wait until then" in (
        scene.log.lines
    )


def test_a_node_that_answers_is_not_fenced() -> None:
    """An administrator has set it down: it will say itself that the job is over."""
    scene = Scene()
    scene.lose()
    for second in range(10, 200, 10):
        scene.soft.heard(0, START_US + second * SECOND_US)
        assert scene.at(second) == []


def test_only_nodes_that_jobs_wait_for_are_fenced() -> None:
    """With Slurm's policy no job waits. Without the program there is nothing to run."""
    for scene in (Scene(policy="slurm"), Scene("node_loss=confirmed")):
        scene.at(60)
        scene.lose()
        assert scene.at(61) == []


def test_what_was_lost_after_it_began_needs_another_run() -> None:
    """A success speaks for the runs that it was begun for."""
    scene = Scene()
    scene.at(60)
    scene.lose()
    (run,) = scene.at(61)
    other = running(scene.cluster, node_list="n2")
    scene.writer.record(nodes_down(scene.cluster, (1,), "x", scene.at_us, policy="confirmed"))
    run.done(HookResult(0, ""))
    assert other.waits_for_proof
    (second,) = scene.at(62)
    assert second.environment["SLURM_NODE_NAME"] == "n2"
