"""Every event, in wire order. Append-only: see "Rules for events" in docs/architecture.md.

An event is a fact in the past tense, with its own time and any new ids. A kind's tag is never
reused; fields are added at the end with defaults.
"""

from __future__ import annotations

from pyslurm_ng.base.numbers import NO_VAL

from .assoc import Association, OwnerUsage, Qos, UserRecord
from .buffer_events import BufferChanged as BufferChanged
from .crontab_events import CrontabChanged as CrontabChanged
from .event import Event as Event
from .job import Dependency, JobRequest, LostRun, NodeAlloc, Step, Usage
from .license_server import ServerUse
from .node import DownNode, NodeSpec
from .node_events import (
    NodeRebootIssued as NodeRebootIssued,
    NodeRegistered as NodeRegistered,
    NodesCreated as NodesCreated,
    NodesDeleted as NodesDeleted,
    NodesDown as NodesDown,
    NodesPowered as NodesPowered,
    NodesReturned as NodesReturned,
    NodesSilent as NodesSilent,
    NodeUpdated as NodeUpdated,
)
from .partition import Partition
from .reservation import Reservation
from .topology import Topology
from .trigger_events import (
    TriggerFired as TriggerFired,
    TriggerPulled as TriggerPulled,
    TriggersCleared as TriggersCleared,
    TriggerSet as TriggerSet,
)

# Jobs -----------------------------------------------------------------------------------------


class JobSubmitted(Event, tag=1, frozen=True, array_like=True, gc=False):
    """A job was accepted; its fields are already resolved by the rule."""

    job_id: int
    request: JobRequest
    uid: int
    gid: int
    user_name: str
    group_name: str
    account: str
    qos: str
    assoc_id: int
    partition: str
    time_limit_min: int
    script_hash: str = ""
    env_hash: str = ""
    reason: int = 0
    priority: int = NO_VAL
    begin_us: int = 0
    eligible_us: int = 0
    array_pending: tuple[tuple[int, int, int], ...] = ()
    array_limit: int = 0
    array_count: int = 0
    dependencies: tuple[Dependency, ...] = ()
    dependency_any: bool = False
    requeue: bool = False
    het_job_id: int = 0
    het_offset: int = 0
    alloc_host: str = ""


class JobUpdated(Event, tag=2, frozen=True, array_like=True, gc=False):
    """Named fields of a job took new values: `scontrol update`, hold, release, top.

    `fields` maps Job attribute names to values; `request` replaces the request when given.
    """

    job_id: int
    fields: dict[str, object]
    request: JobRequest | None = None


class ArrayTaskSplit(Event, tag=3, frozen=True, array_like=True, gc=False):
    """One waiting task of an array became a record with a job id of its own.

    `array_job_id` names the record it leaves; the last waiting task keeps that record and its id:
    then `job_id` equals it. With `tasks` a group of waiting tasks (first, last, step) became one
    record, for a change to only these.
    """

    array_job_id: int
    task_id: int
    job_id: int
    tasks: tuple[tuple[int, int, int], ...] = ()


class JobEligible(Event, tag=4, frozen=True, array_like=True, gc=False):
    """A job's begin time passed or its last dependency was met."""

    job_id: int


class DependencyChanged(Event, tag=5, frozen=True, array_like=True, gc=False):
    """The state of a job's dependency terms changed."""

    job_id: int
    dependencies: tuple[Dependency, ...]
    dependency_any: bool = False
    never_satisfied: bool = False


class JobAllocated(Event, tag=6, frozen=True, array_like=True, gc=False):
    """A pending job (or split array task) got its resources and is RUNNING.

    apply creates the duty `duty` (a DutyKind, 0 for none) for the batch node and, with
    `prepare_all`, a PREPARE duty for every other node; duty ids count up from `first_duty_id`.
    """

    job_id: int
    partition: str
    nodes: tuple[NodeAlloc, ...]
    batch_node_id: int
    total_tasks: int
    first_duty_id: int
    scheduler: str = "Main"
    licenses: str = ""
    time_limit_min: int = NO_VAL  # NO_VAL: unchanged
    duty: int = 2
    prepare_all: bool = False
    configuring: bool = False  # CONFIGURING until JobStarted: prologs run or nodes boot first
    reservation: str = ""  # the one it runs in
    rows: int = 1  # how many jobs may share each of its cores
    prolog: bool = False  # PrologSlurmctld runs first: nodes owe nothing before PrologEnded
    waited_for: int = 0  # the Reason of the last pass before this
    priority: int = 0  # that the pass computed for it; 0 if it computed none
    boot_by_us: int = 0  # when its nodes are up, which sleep now or boot for it; 0: they are up


class JobStarted(Event, tag=7, frozen=True, array_like=True, gc=False):
    """Prologs are over and the script (or allocation) runs; CONFIGURING ends."""

    job_id: int
    attempt: int


class JobSuspended(Event, tag=8, frozen=True, array_like=True, gc=False):
    """A job was stopped; its CPUs are free for others, its memory is not."""

    job_id: int
    first_duty_id: int


class JobResumed(Event, tag=9, frozen=True, array_like=True, gc=False):
    """A suspended job runs again.

    With `moves_suspend_us` this is the job's `suspend_us` from now on; events of older journals
    leave it, and are played as they were then.
    """

    job_id: int
    first_duty_id: int
    moves_suspend_us: bool = False


class JobSignalled(Event, tag=10, frozen=True, array_like=True, gc=False):
    """A running job's steps or script must get a signal; each node has a duty.

    `marks` is or-ed into the job's `time_signalled`; `kill_us` says when SIGKILL follows.
    """

    job_id: int
    signal: int
    flags: int
    step_id: int
    first_duty_id: int
    marks: int = 0
    kill_us: int = 0
    node_ids: tuple[int, ...] = ()  # empty: all the job's
    cancelled_by: int = NO_VAL  # who ended this step by scancel


class JobCompleting(Event, tag=11, frozen=True, array_like=True, gc=False):
    """A running job is over; its final state is known, its nodes clean up.

    Each living node gets a terminate duty. If `node_ids` is empty there are none, and JobEnded
    follows.
    """

    job_id: int
    state: int
    exit_code: int
    reason: int
    first_duty_id: int
    node_ids: tuple[int, ...]
    flags: int = 0  # JobFlag bits to add, e.g. REQUEUED
    cancelled_by: int = NO_VAL
    reason_text: str = ""
    failed_node: str = ""
    derived_exit_code: int = -1  # -1: unchanged
    duty_flags: int = 0  # SIGNAL_* bits for the terminate duties: why, so that nodes can say it
    end_us: int = 0  # when its script ended, if the report came late


class JobEnded(Event, tag=12, frozen=True, array_like=True, gc=False):
    """A job reached its final state: the last node is clean, or it never ran."""

    job_id: int
    state: int
    exit_code: int = 0
    reason: int = 0
    cancelled_by: int = NO_VAL
    reason_text: str = ""
    derived_exit_code: int = -1
    priority: int = 0  # that it had if it ended while it waited; 0 if it was held, or not known


class JobRequeued(Event, tag=13, frozen=True, array_like=True, gc=False):
    """A job is pending again with the next attempt."""

    job_id: int
    attempt: int
    begin_us: int
    reason: int = 0
    priority: int = NO_VAL
    flags: int = 0  # JobFlag bits it now carries: REQUEUE_HOLD, SPECIAL_EXIT
    reason_text: str = ""
    launch_failures: int = 0  # runs in a row that could not be launched


class JobPurged(Event, tag=14, frozen=True, array_like=True, gc=False):
    """Records older than MinJobAge were dropped."""

    job_ids: tuple[int, ...]


class StepCreated(Event, tag=15, frozen=True, array_like=True, gc=False):
    """A step got its share of the job's resources and its id."""

    job_id: int
    step: Step


class StepEnded(Event, tag=16, frozen=True, array_like=True, gc=False):
    """All nodes of a step reported, or its job ended."""

    job_id: int
    step_id: int
    state: int
    exit_code: int
    usage: Usage | None = None
    end_us: int = 0  # when its last task ended, if earlier than this event
    cancelled_by: int = NO_VAL  # 0 when it used more memory than it had


class JobResized(Event, tag=17, frozen=True, array_like=True, gc=False):
    """A running job gave back nodes or memory; `nodes` is what it still holds.

    With `first_duty_id` the nodes that it gave up must be cleaned of it; until then its allocation
    there stays. Without it these nodes are lost.
    """

    job_id: int
    nodes: tuple[NodeAlloc, ...]
    first_duty_id: int = 0


class StepNodesDone(Event, tag=18, frozen=True, array_like=True, gc=False):
    """Some of a step's nodes have no task of it left; the others go on.

    `exit_code` is the worst wait status there, `usage` their share.
    """

    job_id: int
    step_id: int
    node_ids: tuple[int, ...]
    exit_code: int = 0
    state: int = 3
    usage: Usage | None = None


class StepUpdated(Event, tag=19, frozen=True, array_like=True, gc=False):
    """A step that runs got another time limit."""

    job_id: int
    step_id: int
    time_limit_min: int


# Nodes ----------------------------------------------------------------------------------------


class DutiesDone(Event, tag=25, frozen=True, array_like=True, gc=False):
    """Nodes did what they owed; pairs of node and duty id."""

    done: tuple[tuple[int, int], ...]


class DutiesDropped(Event, tag=26, frozen=True, array_like=True, gc=False):
    """Duties no longer make sense: the node is gone or the job was purged."""

    dropped: tuple[tuple[int, int], ...]


class LostRunsChanged(Event, tag=27, frozen=True, array_like=True, gc=False):
    """Nodes were lost with a run of a job on them, or such a run is now known to be over.

    The event holds what is known now of these runs. It replaces what was known of the same attempt
    and node.
    """

    job_id: int
    lost_runs: tuple[LostRun, ...]


# Configuration --------------------------------------------------------------------------------


class ConfigLoaded(Event, tag=30, frozen=True, array_like=True, gc=False):
    """The nodes and partitions that slurm.conf describes, at start or reconfigure.

    A node keeps its id under the same name. A node that is no longer configured is removed; its
    jobs have ended before this event.
    """

    cluster_name: str
    nodes: tuple[NodeSpec, ...]
    partitions: tuple[Partition, ...]
    down_nodes: tuple[DownNode, ...] = ()
    licenses: tuple[tuple[str, int], ...] = ()
    conf_hash: str = ""
    first_job_id: int = 1
    max_job_id: int = 67043328
    topologies: tuple[Topology, ...] = ()
    programs: int = 0  # RUNS_* bits: what the controller itself runs for every job


class PartitionUpdated(Event, tag=31, frozen=True, array_like=True, gc=False):
    """A partition was created or changed."""

    partition: Partition


class PartitionDeleted(Event, tag=32, frozen=True, array_like=True, gc=False):
    """A partition was deleted."""

    name: str


class LicensesUpdated(Event, tag=33, frozen=True, array_like=True, gc=False):
    """Licence totals changed, or licence servers reported others."""

    licenses: tuple[tuple[str, int], ...]
    servers: tuple[ServerUse, ...] = ()


# Reservations ---------------------------------------------------------------------------------


class ReservationCreated(Event, tag=40, frozen=True, array_like=True, gc=False):
    """A reservation was made."""

    reservation: Reservation


class ReservationUpdated(Event, tag=41, frozen=True, array_like=True, gc=False):
    """A reservation was changed; replaced whole."""

    reservation: Reservation


class ReservationDeleted(Event, tag=42, frozen=True, array_like=True, gc=False):
    """A reservation was deleted or is over."""

    name: str


# Associations ---------------------------------------------------------------------------------


class AssocChanged(Event, tag=50, frozen=True, array_like=True, gc=False):
    """slurmdbd reported new, changed and removed associations and users."""

    changed: tuple[Association, ...] = ()
    removed: tuple[int, ...] = ()
    users: tuple[UserRecord, ...] = ()
    users_removed: tuple[str, ...] = ()
    version: int = 0
    replace: bool = False  # a full snapshot: associations that it does not name are removed


class QosChanged(Event, tag=51, frozen=True, array_like=True, gc=False):
    """slurmdbd reported new, changed and removed QOS."""

    changed: tuple[Qos, ...] = ()
    removed: tuple[str, ...] = ()
    replace: bool = False


class UsageReset(Event, tag=52, frozen=True, array_like=True, gc=False):
    """Usage of associations and QOS was set to zero; with `is_all` the usage of all of them.

    What running jobs of the associations have used so far no longer counts.
    """

    assoc_ids: tuple[int, ...]
    qos: tuple[str, ...] = ()
    is_all: bool = False


class UsageKept(Event, tag=53, frozen=True, array_like=True, gc=False):
    """The usage of some associations and QOS was recorded.

    It counts all runs that ended no later than `until_us`. The usage of the others has not changed.
    """

    until_us: int
    owners: tuple[OwnerUsage, ...]


# Control --------------------------------------------------------------------------------------


class EpochStarted(Event, tag=60, frozen=True, array_like=True, gc=False):
    """A controller took command; nodes refuse orders of an older epoch."""

    epoch: int
    host: str
    boot: str = ""


class RequestAnswered(Event, tag=61, frozen=True, array_like=True, gc=False):
    """The reply to a changing request, kept a day so that a retry gets the same one."""

    uid: int
    request_id: bytes
    reply: bytes


class ScriptStored(Event, tag=62, frozen=True, array_like=True, gc=False):
    """A batch script or environment that later events name by `digest`.

    It is in the journal so that it is as durable as the submission, on standbys too. Apply ignores
    it. Each controller keeps its own file until no job names it.
    """

    digest: str
    content: bytes


class NumbersSkipped(Event, tag=63, frozen=True, array_like=True, gc=False):
    """Nodes or slurmdbd have seen job ids and attempts that this state lacks.

    A backup was restored, or the newest records were lost. They are not given out again.

    `next_job_id` 0: it stays as it is. `attempts` are (job id, attempt) of pending jobs, the
    attempt that the next start has.
    """

    next_job_id: int = 0
    attempts: tuple[tuple[int, int], ...] = ()


class TimesMoved(Event, tag=64, frozen=True, array_like=True, gc=False):
    """A clock was wrong: recorded times are moved, so that the time since then stays the same.

    `job_ids` are the jobs whose runs are moved. With `is_all` all other times of the Cluster from
    which durations are counted are moved, and recorded time itself. Only this event may move
    recorded time back. Times that users have set (begin times, deadlines, reservations) are wall
    time and stay.
    """

    shift_us: int
    job_ids: tuple[int, ...]
    is_all: bool = False


# The controller's programs --------------------------------------------------------------------


class PrologEnded(Event, tag=70, frozen=True, array_like=True, gc=False):
    """PrologSlurmctld, or with DeferBatch the prolog on every node, succeeded: nodes may begin.

    apply creates their duties as for JobAllocated; `configuring` means that the job still waits
    for them.
    """

    job_id: int
    attempt: int
    first_duty_id: int
    duty: int = 2
    prepare_all: bool = False
    configuring: bool = False
    booted: bool = False  # its nodes are up: its time begins now


class EpilogEnded(Event, tag=71, frozen=True, array_like=True, gc=False):
    """EpilogSlurmctld of a job's run is over, whether or not it succeeded."""

    job_id: int
    attempt: int


class JobIdsSeen(Event, tag=72, frozen=True, array_like=True, gc=False):
    """A user may have seen job ids below this one although a crash would undo their submissions.

    A controller that starts after this gives none of them out; 0 ends this again. ADR 0021.
    """

    below: int


AnyEvent = (
    JobSubmitted
    | JobUpdated
    | ArrayTaskSplit
    | JobEligible
    | DependencyChanged
    | JobAllocated
    | JobStarted
    | JobSuspended
    | JobResumed
    | JobSignalled
    | JobCompleting
    | JobEnded
    | JobRequeued
    | JobPurged
    | StepCreated
    | StepEnded
    | StepUpdated
    | JobResized
    | StepNodesDone
    | NodeRegistered
    | NodeUpdated
    | NodesDown
    | NodesReturned
    | NodesSilent
    | DutiesDone
    | DutiesDropped
    | LostRunsChanged
    | ConfigLoaded
    | PartitionUpdated
    | PartitionDeleted
    | LicensesUpdated
    | ReservationCreated
    | ReservationUpdated
    | ReservationDeleted
    | AssocChanged
    | QosChanged
    | UsageReset
    | UsageKept
    | EpochStarted
    | RequestAnswered
    | ScriptStored
    | NumbersSkipped
    | TimesMoved
    | PrologEnded
    | EpilogEnded
    | JobIdsSeen
    | TriggerSet
    | TriggersCleared
    | TriggerPulled
    | TriggerFired
    | NodeRebootIssued
    | NodesCreated
    | NodesDeleted
    | CrontabChanged
    | NodesPowered
    | BufferChanged
)
