"""PrologSlurmctld and EpilogSlurmctld: when they run, of what they are told, what follows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pyslurm_ng.base.numbers import END_CLEAN
from pyslurm_ng.ctld.programs.job_programs import JobPrograms
from pyslurm_ng.ctld.rules.ends import job_end
from pyslurm_ng.ctld.rules.nodes import reports
from pyslurm_ng.ctld.rules.starts.dispatch import dispatch, dispatch_het
from pyslurm_ng.ctld.rules.starts.preparation import preparation
from pyslurm_ng.daemon.hooks import HookResult
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.check import check
from pyslurm_ng.model.duty import DutyKind
from pyslurm_ng.model.ids import STEP_BATCH, STEP_EXTERN
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.model.states import JobFlag, JobState, Reason
from pyslurm_ng.sched.backfill.planner import Planner
from pyslurm_ng.sched.frame.policy import policy
from pyslurm_ng.sched.frame.snapshot import snapshot
from pyslurm_ng.wire import node_messages as nm
from tests.model.clusters import FOUR_NODES, START_US, cluster_of, conf_of, submit
from tests.world.logs import LineLog
from tests.world.programs import HeldPrograms
from tests.world.writer_room import WriterRoom

PROLOG = "PrologSlurmctld=/etc/prolog\nPrologTimeout=30\n"
EPILOG = "EpilogSlurmctld=/etc/epilog\nEpilogTimeout=40\n"
SUCCESS = HookResult(0, "")
FAILURE = HookResult(3 << 8, "/etc/prolog: exit code 3")


class Scene(WriterRoom):
    """A cluster whose controller runs programs that end when told to."""

    def __init__(self, more: str) -> None:
        self.conf = conf_of(FOUR_NODES + more)
        super().__init__(cluster_of(self.conf))
        self.hooks = HeldPrograms()
        self.runs = self.hooks.runs
        self.log = LineLog(mark="error: ")
        self.notices: list[tuple[int, str]] = []
        self.restart()

    def restart(self) -> None:
        """Have a controller that knows only the state."""
        self.programs = JobPrograms(
            self.writer,
            self.conf,
            self.hooks,
            now_us=self.now_us,
            log=self.log,
            notify=lambda job_id, text: self.notices.append((job_id, text)),
        )
        self.writer._observers.clear()
        self.writer.observe(self.programs.applied)
        self.programs.begin()

    def record(self, events: Sequence[ev.AnyEvent]) -> None:
        """Apply events, and let the disk have them."""
        self.writer.record(events)
        assert check(self.cluster) == []
        self.sync()

    def end(self, result: HookResult = SUCCESS) -> None:
        """Let the program end that has run longest."""
        self.runs.pop(0).done(result)
        self.sync()
        assert check(self.cluster) == []

    def start(self, *, script: bool = True, requeue: bool = True, **request: object) -> Job:
        """Submit a job and let it have its nodes."""
        job_id = submit(self.cluster, JobRequest(**request), requeue=requeue)  # type: ignore[arg-type]
        job = self.cluster.jobs[job_id]
        if not script:
            job.script_hash = ""
        self.run_pass()
        return job

    def run_pass(self) -> None:
        prepare = preparation(self.conf)
        now_us = self.at_us
        starts = Planner()(snapshot(self.cluster, now_us), policy(self.conf)).starts
        together = [start for start in starts if start.het_job_id]
        if together:
            self.record(dispatch_het(self.cluster, together, now_us, prepare=prepare))
        for start in starts:
            if not start.het_job_id:
                self.record(dispatch(self.cluster, start, now_us, prepare=prepare))

    def duties(self, job: Job) -> list[int]:
        """Return the kinds of duties that nodes owe for a job."""
        every = (duty for of_node in self.cluster.duties.values() for duty in of_node.values())
        return [duty.kind for duty in every if duty.job_id == job.job_id]

    def script_ends(self, job: Job, status: int = 0) -> None:
        """Have the batch node say that the script is over and the node clean."""
        report = nm.BatchEnded(job.job_id, job.attempt, 0, status, START_US, self.at_us, END_CLEAN)
        self.record(reports.judge(self.cluster, job.batch_node_id, report, self.conf, self.at_us))


def test_nodes_begin_when_the_prolog_has_succeeded() -> None:
    """Until then the job is CONFIGURING with a reason, and no node has duties for it."""
    scene = Scene(PROLOG)
    job = scene.start(ntasks=2)
    assert job.state == JobState.RUNNING
    assert job.flags & JobFlag.CONFIGURING
    assert job.reason == Reason.Prolog
    assert (scene.duties(job), job.steps) == ([], {})
    assert (scene.runs[0].program, scene.runs[0].limit_s) == ("/etc/prolog", 30)
    scene.end()
    assert not job.flags & JobFlag.CONFIGURING
    assert job.reason == Reason.NONE
    assert scene.duties(job) == [DutyKind.LAUNCH]
    assert list(job.steps) == [STEP_BATCH]
    assert scene.log.lines == [f"Configuration for JobId={job.job_id} is complete"]


def test_nothing_runs_before_the_allocation_is_durable() -> None:
    """A program does things outside: a crash must not forget why it ran."""
    scene = Scene(PROLOG)
    job_id = submit(scene.cluster, JobRequest())
    (start,) = Planner()(snapshot(scene.cluster, START_US), policy(scene.conf)).starts
    scene.writer.record(dispatch(scene.cluster, start, START_US))
    assert scene.runs == []
    scene.sync()
    assert [run.environment["SLURM_JOB_ID"] for run in scene.runs] == [str(job_id)]


def test_nodes_prepare_after_the_prolog_of_the_controller() -> None:
    """PrologFlags=Alloc: the job goes on configuring until its nodes' own prologs are over."""
    scene = Scene(PROLOG + "PrologFlags=Alloc\n")
    job = scene.start(nodes_min=2, nodes_max=2)
    scene.end()
    assert job.flags & JobFlag.CONFIGURING
    assert job.reason == Reason.NONE
    assert sorted(scene.duties(job)) == [DutyKind.PREPARE, DutyKind.LAUNCH]


@pytest.mark.parametrize("flag", ["Contain", "DeferBatch", "ForceRequeueOnFail", "X11", "Serial"])
def test_flags_that_imply_alloc(flag: str) -> None:
    """They make nodes prepare at the allocation."""
    assert preparation(conf_of(FOUR_NODES + f"PrologFlags={flag}\n")).every_node
    assert not preparation(conf_of(FOUR_NODES + "PrologFlags=NoHold\n")).every_node


@pytest.mark.parametrize("flag", ["Contain", "X11", "RunInJob"])
def test_an_extern_step_on_all_nodes(flag: str) -> None:
    """It begins with the job, its nodes end it, and a job without those words has none."""
    scene = Scene(f"PrologFlags={flag}\n")
    job = scene.start(nodes_min=2, nodes_max=2)
    assert sorted(job.steps) == [STEP_BATCH, STEP_EXTERN]
    step = job.steps[STEP_EXTERN]
    assert (step.name, step.nodes_pending) == ("extern", tuple(n.node_id for n in job.nodes))
    for alloc in job.nodes:
        ended = nm.StepEnded(job.job_id, job.attempt, STEP_EXTERN, 0, 0, 0)
        scene.record(reports.judge(scene.cluster, alloc.node_id, ended, scene.conf, scene.at_us))
    assert list(job.steps) == [STEP_BATCH]
    assert list(Scene("PrologFlags=Alloc\n").start(ntasks=1).steps) == [STEP_BATCH]


def test_it_waits_for_the_controllers_prolog() -> None:
    scene = Scene(PROLOG + "PrologFlags=Contain\n")
    job = scene.start(nodes_min=2, nodes_max=2)
    assert job.steps == {}
    scene.end()
    assert sorted(job.steps) == [STEP_BATCH, STEP_EXTERN]


def test_a_script_may_wait_for_all_nodes() -> None:
    """DeferBatch: it is launched when the last of them has prepared, and once."""
    scene = Scene(PROLOG + "PrologFlags=DeferBatch\n")
    job = scene.start(nodes_min=2, nodes_max=2)
    scene.end()
    assert (scene.duties(job), job.steps) == ([DutyKind.PREPARE] * 2, {})
    prepared(scene, job)
    assert (scene.duties(job), list(job.steps)) == ([DutyKind.LAUNCH], [STEP_BATCH])
    assert job.flags & JobFlag.CONFIGURING
    prepared(scene, job)
    assert (scene.duties(job), job.flags & JobFlag.CONFIGURING) == ([], 0)


def test_commands_need_not_wait() -> None:
    """NoHold: salloc goes on; its steps wait on the nodes."""
    scene = Scene("PrologFlags=Alloc,NoHold\n")
    job_id = submit(scene.cluster, JobRequest(nodes_min=2, nodes_max=2))
    job = scene.cluster.jobs[job_id]
    job.script_hash = ""
    scene.run_pass()
    assert scene.duties(job) == [DutyKind.PREPARE] * 2
    assert not job.flags & JobFlag.CONFIGURING
    script = scene.start(ntasks=1)
    assert script.flags & JobFlag.CONFIGURING


def prepared(scene: Scene, job: Job) -> None:
    """Have all nodes say that they have done what they owe for a job."""
    for alloc in job.nodes:
        for duty in list(scene.cluster.duties.get(alloc.node_id, {}).values()):
            report = nm.DutyDone(job.job_id, job.attempt, duty.duty_id)
            scene.record(
                reports.judge(scene.cluster, alloc.node_id, report, scene.conf, scene.at_us)
            )


def test_a_batch_job_whose_prolog_fails_is_requeued() -> None:
    """As in Slurm 22.05: it waits two minutes; its nodes are free again at once."""
    scene = Scene(PROLOG)
    job = scene.start()
    scene.end(FAILURE)
    assert job.flags & JobFlag.COMPLETING
    assert job.flags & JobFlag.REQUEUED
    assert scene.log.lines == [f"error: prolog_slurmctld JobId={job.job_id}: {FAILURE.text}"]
    ended_us = scene.at_us
    clean(scene, job)
    assert (job.state, job.reason) == (JobState.PENDING, Reason.BeginTime)
    assert (job.attempt, job.launch_failures) == (1, 1)
    assert job.begin_us == ended_us + 121_000_000


def clean(scene: Scene, job: Job) -> None:
    """Let the nodes of a completing job report that they are clean."""
    now_us = scene.at_us
    for node_id in job.nodes_pending:
        duty_id = next(
            duty.duty_id
            for duty in scene.cluster.duties[node_id].values()
            if duty.job_id == job.job_id
        )
        report = nm.JobTerminated(job.job_id, job.attempt, duty_id)
        scene.record(reports.judge(scene.cluster, node_id, report, scene.conf, now_us))


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (True, "Requested operation is presently disabled"),
        (False, "Only batch jobs are accepted or processed"),
    ],
)
def test_one_that_cannot_be_requeued_is_cancelled(script: bool, why: str) -> None:
    """root cancels it, as Slurm shows. A command that waits for the allocation gets the reason."""
    scene = Scene(PROLOG)
    job = scene.start(script=script, requeue=False, origin="salloc")
    scene.end(FAILURE)
    assert (job.state, job.cancelled_by) == (JobState.CANCELLED, 0)
    assert scene.log.lines[-1] == f"unable to requeue JobId={job.job_id}: {why}"
    assert scene.notices == [(job.job_id, "salloc: PrologSlurmctld failed, job killed")]


def test_force_requeue_on_fail() -> None:
    """The site's word counts more than the user's."""
    scene = Scene(PROLOG + "PrologFlags=ForceRequeueOnFail\n")
    job = scene.start(requeue=False)
    scene.end(FAILURE)
    clean(scene, job)
    assert job.state == JobState.PENDING


def test_a_cancelled_job_ends_its_prolog() -> None:
    """The prolog's result no longer counts."""
    scene = Scene(PROLOG)
    job = scene.start()
    (run,) = scene.runs
    scene.record(job_end.complete(scene.cluster, job, job_end.End(JobState.CANCELLED), scene.at_us))
    assert run.is_killed
    assert scene.cluster.prologs == {}
    scene.end()
    assert scene.duties(job) == [DutyKind.TERMINATE]


def test_a_signal_answered_by_a_node_starts_nothing() -> None:
    """A node that does not know the job reports such a duty as done at once."""
    scene = Scene(PROLOG)
    job = scene.start()
    now_us = scene.at_us
    duty_id = scene.cluster.next_duty_id
    scene.record([ev.JobSignalled(now_us, job.job_id, 10, 0, -1, duty_id)])
    report = nm.DutyDone(job.job_id, job.attempt, duty_id)
    scene.record(reports.judge(scene.cluster, job.batch_node_id, report, scene.conf, now_us))
    assert job.flags & JobFlag.CONFIGURING


def test_a_suspended_job_begins_when_it_is_resumed() -> None:
    """Others may have its cores when its prolog ends."""
    scene = Scene(PROLOG)
    job = scene.start()
    now_us = scene.at_us
    scene.record([ev.JobSuspended(now_us, job.job_id, scene.cluster.next_duty_id)])
    scene.end()
    assert DutyKind.LAUNCH not in scene.duties(job)
    scene.record([ev.JobResumed(now_us, job.job_id, scene.cluster.next_duty_id)])
    assert DutyKind.LAUNCH in scene.duties(job)


def test_a_restart_runs_it_again() -> None:
    """The state has the programs that the controller still has to run."""
    scene = Scene(PROLOG + EPILOG)
    first, second = scene.start(), scene.start()
    scene.end()
    scene.script_ends(first)
    assert [run.program for run in scene.runs] == ["/etc/prolog", "/etc/epilog"]
    scene.runs.clear()
    scene.restart()
    assert [(run.program, run.environment["SLURM_JOB_ID"]) for run in scene.runs] == [
        ("/etc/prolog", str(second.job_id)),
        ("/etc/epilog", str(first.job_id)),
    ]


def test_the_epilog_holds_the_job_and_not_its_nodes() -> None:
    """The job is COMPLETING until the program is over; others may have its nodes before."""
    scene = Scene(EPILOG)
    job = scene.start(nodes_min=4, nodes_max=4)
    scene.script_ends(job, 4 << 8)
    clean(scene, job)
    assert job.flags & JobFlag.COMPLETING
    assert not any(use.allocs for use in scene.cluster.node_index.use)
    (run,) = scene.runs
    assert (run.program, run.limit_s) == ("/etc/epilog", 40)
    assert run.environment["SLURM_JOB_EXIT_CODE"] == "1024"
    assert run.environment["SLURM_JOB_EXIT_CODE2"] == "4:0"
    scene.end(HookResult(5 << 8, "/etc/epilog: exit code 5"))
    assert (job.state, job.flags & JobFlag.COMPLETING) == (JobState.FAILED, 0)
    assert scene.log.lines == [
        f"error: epilog_slurmctld JobId={job.job_id}: /etc/epilog: exit code 5"
    ]


def test_the_nodes_may_be_last() -> None:
    """The last of program and nodes ends the job."""
    scene = Scene(EPILOG)
    job = scene.start(nodes_min=2, nodes_max=2)
    scene.script_ends(job)
    scene.end()
    assert job.flags & JobFlag.COMPLETING
    clean(scene, job)
    assert (job.state, job.flags & JobFlag.COMPLETING) == (JobState.COMPLETED, 0)


def test_components_start_when_all_their_prologs_have_succeeded() -> None:
    """Their script runs once, beside the leader, and may rely on all of them."""
    scene = Scene(PROLOG)
    leader = submit(scene.cluster, JobRequest(), het_job_id=1)
    other = submit(scene.cluster, JobRequest(), het_job_id=1, het_offset=1)
    scene.run_pass()
    assert len(scene.runs) == 2
    jobs = scene.cluster.jobs
    scene.end()
    assert scene.duties(jobs[leader]) == []
    scene.end()
    assert scene.duties(jobs[leader]) == [DutyKind.LAUNCH]
    assert scene.duties(jobs[other]) == []
    assert not (jobs[leader].flags | jobs[other].flags) & JobFlag.CONFIGURING


def test_variables_of_the_prolog() -> None:
    """The variables that Slurm's manual lists, with the values that 22.05 gives."""
    scene = Scene(PROLOG)
    job = scene.start(
        name="train",
        nodes_min=2,
        nodes_max=2,
        ntasks=4,
        constraint="ib",
        std_out="out-%j.txt",
        work_dir="/home/ann",
    )
    environment = scene.runs[0].environment
    for name, value in (
        ("SLURM_CLUSTER_NAME", "demo"),
        ("SLURM_JOB_ACCOUNT", "acct"),
        ("SLURM_JOB_CONSTRAINTS", "ib"),
        ("SLURM_JOB_GROUP", "user1001"),
        ("SLURM_JOBID", "1"),
        ("SLURM_JOB_NAME", "train"),
        ("SLURM_JOB_NUM_NODES", "2"),
        ("SLURM_JOB_PARTITION", "main"),
        ("SLURM_JOB_RESTART_COUNT", "0"),
        ("SLURM_JOB_STDERR", "/home/ann/out-1.txt"),
        ("SLURM_JOB_STDIN", "/dev/null"),
        ("SLURM_JOB_STDOUT", "/home/ann/out-1.txt"),
        ("SLURM_JOB_UID", "1001"),
        ("SLURM_JOB_END_TIME", str(job.start_us // 1_000_000 + 3600)),
        ("SLURM_SCRIPT_CONTEXT", "prolog_slurmctld"),
    ):
        assert environment[name] == value
    assert not [name for name in environment if not name.startswith("SLURM")]
    assert "SLURM_JOB_EXIT_CODE" not in environment


def test_array_tasks_have_their_variables() -> None:
    """Each task has its own program."""
    scene = Scene(PROLOG)
    submit(scene.cluster, JobRequest(), ranges=((3, 4, 1),))
    scene.run_pass()
    scene.run_pass()
    told = [
        (run.environment["SLURM_ARRAY_JOB_ID"], run.environment["SLURM_ARRAY_TASK_ID"])
        for run in scene.runs
    ]
    assert told == [("1", "3"), ("1", "4")]
