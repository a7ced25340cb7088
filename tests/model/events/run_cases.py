"""What each event of a job that runs changes: of its steps, its end and what follows."""

from __future__ import annotations

from msgspec import structs

from pyslurm_ng.model import events as ev
from pyslurm_ng.model.buffer import Buffer, BufferState
from pyslurm_ng.model.cluster import RUNS_EPILOG
from pyslurm_ng.model.duty import Duty, DutyKind
from pyslurm_ng.model.ids import STEP_BATCH
from pyslurm_ng.model.job import (
    SUSPENDED_BY_OPERATOR,
    LostRun,
    Step,
    Usage,
)
from pyslurm_ng.model.states import JobFlag, JobState, Reason
from tests.model.events.effect import (
    GONE,
    RUNNING,
    SITE,
    WAITING,
    Case,
    allocated,
    at,
    part,
    recorded,
    submitted,
)
from tests.model.events.job_cases import ARRAY, BEHIND, SUSPENDED

CANCELLED = ev.JobCompleting(at(40), 1, JobState.CANCELLED, 0, Reason.NONE, 2, (0, 1))
COMPLETING = (*RUNNING, CANCELLED)
CLEAN = (*COMPLETING, ev.DutiesDone(at(41), ((0, 2), (1, 3))))
ENDED = (*CLEAN, ev.JobEnded(at(42), 1, JobState.CANCELLED))
STEP = Step(0, "hostname", 1001, 2, 2, (part(0, 1, 0), part(1, 1, 0)), at(25),
            nodes_pending=(0, 1))  # fmt: skip
WITH_STEP = (*RUNNING, ev.StepCreated(at(25), 1, STEP))
RUNNING_WITH_EPILOG = (
    *RUNNING,
    ev.ConfigLoaded(
        at(30),
        "demo",
        SITE[0].nodes,
        SITE[0].partitions,
        licenses=SITE[0].licenses,
        programs=RUNS_EPILOG,
    ),
)
LOST = LostRun(0, 1, "n2", "boot-1", policy="fence")

STAGING_IN = Buffer(1, BufferState.STAGING_IN, "fast", 3, at(20))
STAGING_OUT = Buffer(1, BufferState.STAGING_OUT, "fast", 3, at(20))

CASES = [
    Case(
        "a suspended job gives its cores back, not its memory, and each node is told",
        RUNNING,
        ev.JobSuspended(at(30), 1, 2),
        {
            "next_duty_id": 4,
            "jobs.1.state": JobState.SUSPENDED,
            "jobs.1.suspend_us": at(30),
            "duties.2": Duty(2, DutyKind.SUSPEND, 0, 1, 0, at(30)),
            "duties.3": Duty(3, DutyKind.SUSPEND, 1, 1, 0, at(30)),
            "used.n1.cpus": 0,
            "used.n2.cpus": 0,
        },
    ),
    Case(
        "a resumed job has its cores again, and the time it stood still is counted",
        SUSPENDED,
        ev.JobResumed(at(75), 1, 4, moves_suspend_us=True),
        {
            "next_duty_id": 6,
            "jobs.1.state": JobState.RUNNING,
            "jobs.1.suspended_us": 45_000_000,
            "jobs.1.suspend_us": at(75),
            "duties.4": Duty(4, DutyKind.RESUME, 0, 1, 0, at(75)),
            "duties.5": Duty(5, DutyKind.RESUME, 1, 1, 0, at(75)),
            "used.n1.cpus": 2,
            "used.n2.cpus": 2,
        },
    ),
    Case(
        "a signal is due to each node of the job, and SIGKILL at its moment",
        RUNNING,
        ev.JobSignalled(at(30), 1, 15, 4, 0, 2, marks=2, kill_us=at(60)),
        {
            "next_duty_id": 4,
            "jobs.1.time_signalled": 2,
            "jobs.1.kill_us": at(60),
            "duties.2": Duty(2, DutyKind.SIGNAL, 0, 1, 0, at(30), 0, 15, 4),
            "duties.3": Duty(3, DutyKind.SIGNAL, 1, 1, 0, at(30), 0, 15, 4),
        },
    ),
    Case(
        "a signal to some nodes goes there alone",
        RUNNING,
        ev.JobSignalled(at(30), 1, 10, 0, -1, 2, node_ids=(1,)),
        {"next_duty_id": 3, "duties.2": Duty(2, DutyKind.SIGNAL, 1, 1, 0, at(30), -1, 10, 0)},
    ),
    Case(
        "a step that a user ends remembers whom",
        WITH_STEP,
        ev.JobSignalled(at(30), 1, 9, 0, 0, 2, node_ids=(1,), cancelled_by=1001),
        {
            "next_duty_id": 3,
            "jobs.1.steps": {0: structs.replace(STEP, cancelled_by=1001)},
            "duties.2": Duty(2, DutyKind.SIGNAL, 1, 1, 0, at(30), 0, 9, 0),
        },
    ),
    Case(
        "a job that is over keeps its cores until its nodes are clean",
        (*RUNNING, ev.JobSignalled(at(30), 1, 15, 0, -1, 2, kill_us=at(60))),
        ev.JobCompleting(
            at(40),
            1,
            JobState.TIMEOUT,
            15,
            Reason.TimeLimit,
            4,
            (0, 1),
            flags=JobFlag.REQUEUED,
            reason_text="too long",
            failed_node="n2",
            derived_exit_code=256,
            duty_flags=8,
            end_us=at(39),
        ),
        {
            "next_duty_id": 6,
            "jobs.1.state": JobState.TIMEOUT,
            "jobs.1.flags": JobFlag.COMPLETING | JobFlag.REQUEUED,
            "jobs.1.exit_code": 15,
            "jobs.1.derived_exit_code": 256,
            "jobs.1.reason": Reason.TimeLimit,
            "jobs.1.reason_text": "too long",
            "jobs.1.failed_node": "n2",
            "jobs.1.end_us": at(39),
            "jobs.1.kill_us": 0,
            "jobs.1.nodes_pending": (0, 1),
            "duties.2": GONE,
            "duties.3": GONE,
            "duties.4": Duty(4, DutyKind.TERMINATE, 0, 1, 0, at(40), flags=8),
            "duties.5": Duty(5, DutyKind.TERMINATE, 1, 1, 0, at(40), flags=8),
        },
    ),
    Case(
        "of a job whose nodes are lost everything is free at once",
        (*WAITING, allocated(licenses="matlab:1")),
        ev.JobCompleting(at(40), 1, JobState.NODE_FAIL, 0, Reason.NONE, 0, (), cancelled_by=5),
        {
            "jobs.1.state": JobState.NODE_FAIL,
            "jobs.1.flags": JobFlag.COMPLETING,
            "jobs.1.cancelled_by": 5,
            "jobs.1.end_us": at(40),
            "duties.1": GONE,
            "nodes.n1.last_busy_us": at(40),
            "nodes.n2.last_busy_us": at(40),
            "used.n1.cpus": 0,
            "used.n1.mem_mib": 0,
            "used.n2.cpus": 0,
            "used.n2.mem_mib": 0,
        },
    ),
    Case(
        "a job that is cancelled while suspended cleans up without its cores",
        SUSPENDED,
        ev.JobCompleting(at(40), 1, JobState.CANCELLED, 0, Reason.NONE, 4, (0, 1)),
        {
            "next_duty_id": 6,
            "jobs.1.state": JobState.CANCELLED,
            "jobs.1.flags": JobFlag.COMPLETING,
            "jobs.1.end_us": at(40),
            "jobs.1.suspended_us": 10_000_000,
            "jobs.1.suspended_by": SUSPENDED_BY_OPERATOR,
            "jobs.1.nodes_pending": (0, 1),
            "duties.2": GONE,
            "duties.3": GONE,
            "duties.4": Duty(4, DutyKind.TERMINATE, 0, 1, 0, at(40)),
            "duties.5": Duty(5, DutyKind.TERMINATE, 1, 1, 0, at(40)),
        },
    ),
    Case(
        "with EpilogSlurmctld the controller owes the job its end, too",
        RUNNING_WITH_EPILOG,
        CANCELLED,
        {
            "next_duty_id": 4,
            "epilogs": (1,),
            "jobs.1.state": JobState.CANCELLED,
            "jobs.1.flags": JobFlag.COMPLETING,
            "jobs.1.end_us": at(40),
            "jobs.1.nodes_pending": (0, 1),
            "duties.2": Duty(2, DutyKind.TERMINATE, 0, 1, 0, at(40)),
            "duties.3": Duty(3, DutyKind.TERMINATE, 1, 1, 0, at(40)),
        },
    ),
    Case(
        "a job whose nodes are clean is over, as it was said before",
        CLEAN,
        ev.JobEnded(at(42), 1, JobState.CANCELLED, exit_code=9, reason=Reason.NodeDown),
        {"jobs.1.flags": 0},
    ),
    Case(
        "a waiting job that ends says when, why and by whom",
        BEHIND,
        ev.JobEnded(at(42), 2, JobState.CANCELLED, 1, Reason.NONE, 1001, "scancel", 2, 7),
        {
            "jobs.2.state": JobState.CANCELLED,
            "jobs.2.end_us": at(42),
            "jobs.2.exit_code": 1,
            "jobs.2.derived_exit_code": 2,
            "jobs.2.reason": Reason.NONE,
            "jobs.2.reason_text": "scancel",
            "jobs.2.cancelled_by": 1001,
        },
    ),
    Case(
        "a requeued job waits as if it had never run, for its second attempt",
        CLEAN,
        ev.JobRequeued(at(42), 1, 1, at(162), Reason.BeginTime, 0, JobFlag.REQUEUE_HOLD, "held", 3),
        {
            "jobs.1.state": JobState.PENDING,
            "jobs.1.flags": JobFlag.REQUEUE_HOLD,
            "jobs.1.attempt": 1,
            "jobs.1.submit_us": at(42),
            "jobs.1.launch_failures": 3,
            "jobs.1.priority": 0,
            "jobs.1.begin_us": at(162),
            "jobs.1.eligible_us": 0,
            "jobs.1.accrue_us": 0,
            "jobs.1.reason": Reason.BeginTime,
            "jobs.1.reason_text": "held",
            "jobs.1.nodes": (),
            "jobs.1.nodes_before": (part(0), part(1)),
            "jobs.1.batch_node_id": -1,
            "jobs.1.total_tasks": 0,
            "jobs.1.start_us": 0,
            "jobs.1.end_us": 0,
            "jobs.1.scheduler": "",
        },
    ),
    Case(
        "jobs are purged with what hung on them",
        (*ENDED, submitted(2)),
        ev.JobPurged(at(400), (1,)),
        {"jobs.1": GONE},
    ),
    Case(
        "a step gets its number, and the next one that after it",
        RUNNING,
        ev.StepCreated(at(25), 1, STEP),
        {"jobs.1.steps": {0: STEP}, "jobs.1.next_step_id": 1},
    ),
    Case(
        "the script's step takes no number",
        RUNNING,
        ev.StepCreated(at(25), 1, Step(STEP_BATCH, "batch", 1001, 1, 2, (part(0),), at(25))),
        {"jobs.1.steps": {STEP_BATCH: Step(STEP_BATCH, "batch", 1001, 1, 2, (part(0),), at(25))}},
    ),
    Case(
        "the worst exit of a job's steps is its derived one",
        WITH_STEP,
        ev.StepEnded(at(35), 1, 0, JobState.FAILED, 512, Usage(user_us=9), at(34), 0),
        {"jobs.1.steps": {}, "jobs.1.derived_exit_code": 512},
    ),
    Case(
        "how the script of a cancelled job ended is known afterwards",
        (
            *RUNNING,
            ev.StepCreated(at(25), 1, Step(STEP_BATCH, "batch", 1001, 1, 2, (part(0),), at(25))),
            CANCELLED,
        ),
        ev.StepEnded(at(41), 1, STEP_BATCH, JobState.CANCELLED, 15),
        {"jobs.1.steps": {}, "jobs.1.exit_code": 15},
    ),
    Case(
        "a step gets another time limit",
        WITH_STEP,
        ev.StepUpdated(at(35), 1, 0, 5),
        {
            "jobs.1.steps": {
                0: Step(
                    0,
                    "hostname",
                    1001,
                    2,
                    2,
                    STEP.nodes,
                    at(25),
                    nodes_pending=(0, 1),
                    time_limit_min=5,
                )
            }
        },
    ),
    Case(
        "a job that gives up a node keeps it until the node is clean",
        RUNNING,
        ev.JobResized(at(30), 1, (part(0),), 2),
        {
            "next_duty_id": 3,
            "jobs.1.nodes": (part(0),),
            "jobs.1.nodes_leaving": (part(1),),
            "jobs.1.resize_us": at(30),
            "jobs.1.charged_us": at(30),
            "duties.2": Duty(2, DutyKind.TERMINATE, 1, 1, 0, at(30)),
        },
    ),
    Case(
        "a job that lost a node has it no longer, and may hold less memory on the other",
        RUNNING,
        ev.JobResized(at(30), 1, (part(0, mem_mib=50),)),
        {
            "jobs.1.nodes": (part(0, mem_mib=50),),
            "jobs.1.resize_us": at(30),
            "jobs.1.charged_us": at(30),
            "nodes.n2.last_busy_us": at(30),
            "used.n1.mem_mib": 50,
            "used.n2.cpus": 0,
            "used.n2.mem_mib": 0,
        },
    ),
    Case(
        "a step goes on where its tasks are not over",
        WITH_STEP,
        ev.StepNodesDone(at(33), 1, 0, (1,), 256, JobState.FAILED, Usage(user_us=5, ntasks=1)),
        {
            "jobs.1.steps": {
                0: Step(
                    0,
                    "hostname",
                    1001,
                    2,
                    2,
                    STEP.nodes,
                    at(25),
                    nodes_pending=(0,),
                    exit_code=256,
                    end_state=JobState.FAILED,
                    usage=Usage(user_us=5, ntasks=1),
                )
            }
        },
    ),
    Case(
        "a run that was lost with its node is remembered",
        COMPLETING,
        ev.LostRunsChanged(at(41), 1, (LOST,)),
        {"jobs.1.lost_runs": (LOST,)},
    ),
    Case(
        "the proof that a lost run is over takes its record's place",
        (*COMPLETING, ev.LostRunsChanged(at(41), 1, (LOST,))),
        ev.LostRunsChanged(at(45), 1, (LostRun(0, 1, "n2", "boot-1", "fence", "rebooted"),)),
        {"jobs.1.lost_runs": (LostRun(0, 1, "n2", "boot-1", "fence", "rebooted"),)},
    ),
    Case(
        "after PrologSlurmctld the nodes get their orders",
        (*WAITING, allocated(prolog=True, configuring=True, duty=0)),
        ev.PrologEnded(at(25), 1, 0, 1, prepare_all=True, configuring=True),
        {
            "next_duty_id": 3,
            "prologs": (),
            "jobs.1.reason": Reason.NONE,
            "duties.1": Duty(1, DutyKind.LAUNCH, 0, 1, 0, at(25)),
            "duties.2": Duty(2, DutyKind.PREPARE, 1, 1, 0, at(25)),
        },
    ),
    Case(
        "after PrologSlurmctld the first node of an interactive job only prepares",
        (*WAITING, allocated(prolog=True, configuring=True, duty=0)),
        ev.PrologEnded(at(25), 1, 0, 1, duty=DutyKind.PREPARE),
        {
            "next_duty_id": 2,
            "prologs": (),
            "jobs.1.flags": 0,
            "jobs.1.reason": Reason.NONE,
            "duties.1": Duty(1, DutyKind.PREPARE, 0, 1, 0, at(25)),
        },
    ),
    Case(
        "the time of a job begins when its nodes are up",
        (*WAITING, allocated(configuring=True, duty=0, boot_by_us=at(80))),
        ev.PrologEnded(at(25), 1, 0, 1, booted=True),
        {
            "next_duty_id": 2,
            "jobs.1.flags": 0,
            "jobs.1.start_us": at(25),
            "jobs.1.boot_by_us": 0,
            "duties.1": Duty(1, DutyKind.LAUNCH, 0, 1, 0, at(25)),
        },
    ),
    Case(
        "a job has a burst buffer",
        WAITING,
        ev.BufferChanged(at(20), 1, STAGING_IN),
        {"buffers": (STAGING_IN,)},
    ),
    Case(
        "a task leaves an array with a burst buffer of its own",
        (*ARRAY, ev.BufferChanged(at(14), 1, Buffer(1, pool="fast", size=3))),
        ev.ArrayTaskSplit(at(15), 1, 2, 2),
        {
            "next_job_id": 3,
            "jobs.1.array_pending": ((0, 1, 1), (3, 3, 1)),
            "jobs.2": recorded(
                2,
                array_job_id=1,
                array_task_id=2,
                array_limit=2,
                array_count=4,
                array_max=3,
                array_step=1,
            ),
            "buffers": (Buffer(1, pool="fast", size=3), Buffer(2, pool="fast", size=3)),
        },
    ),
    Case(
        "the files of a job are copied away",
        (*RUNNING, ev.BufferChanged(at(40), 1, STAGING_IN)),
        ev.BufferChanged(at(41), 1, STAGING_OUT),
        {"buffers": (STAGING_OUT,), "jobs.1.flags": JobFlag.STAGE_OUT},
    ),
    Case(
        "a job has no burst buffer any longer",
        (*RUNNING, ev.BufferChanged(at(40), 1, STAGING_OUT)),
        ev.BufferChanged(at(41), 1, None),
        {"buffers": (), "jobs.1.flags": 0},
    ),
    Case(
        "after EpilogSlurmctld the controller owes the job nothing",
        (*RUNNING_WITH_EPILOG, CANCELLED),
        ev.EpilogEnded(at(45), 1, 0),
        {"epilogs": ()},
    ),
]
