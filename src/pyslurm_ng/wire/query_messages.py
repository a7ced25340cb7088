"""Queries and control: what squeue, sinfo, scontrol, scancel and sdiag ask the controller.

Bulk replies carry `fields`, the names of the columns, and `records`, one blob of concatenated
positional msgpack arrays in that order, so that the controller joins what it keeps packed and a
command decodes only the columns it prints.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from pyslurm_ng.base.numbers import MOST_IDS, MOST_OF_A_PAGE
from pyslurm_ng.model import bounds as b
from pyslurm_ng.wire.table import RequestId, message, reply

Text = b.LongText
Texts = Annotated[list[Text], msgspec.Meta(max_length=MOST_IDS)]
"""Jobs or steps, as typed; each takes 2 us, or 7 us where it names tasks in brackets."""
Names = Annotated[list[b.JobNameText], msgspec.Meta(max_length=4096)]
Numbers = Annotated[list[b.Number32], msgspec.Meta(max_length=4096)]
Settings = Annotated[dict[b.NameText, Text], msgspec.Meta(max_length=256)]


# Cancel flags: what a signal reaches.


class JobFilter(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Which jobs are meant: a job must agree with every filter; an empty filter agrees with all.

    `jobs` holds ids as typed: `27`, `27_3`, `27_[1-4]`, `30+1`. `states` are base states'
    numbers, `state_flags` bits of `JobFlag`; a job agrees with either. `not_uids` leaves out.
    """

    jobs: Texts = []
    uids: Numbers = []
    not_uids: Numbers = []
    accounts: Names = []
    names: Names = []
    partitions: Names = []
    qos: Names = []
    reservations: Names = []
    licenses: Names = []
    wckeys: Names = []
    nodes: Text = ""
    states: Numbers = []
    state_flags: b.FlagBits = 0
    all_states: bool = False
    running_over_s: b.Number32OrNone = -1
    running_under_s: b.Number32OrNone = -1


# Looking --------------------------------------------------------------------------------------


@message(kind="ShowJobs", roles="user", max_bytes=4 << 20)
class ShowJobs(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """List jobs. `flags` are SHOW_* bits; `strict` makes an unknown id an error.

    With `most`, only that many jobs with ids above `after_job` are looked at: a command may print a
    long list piece by piece. A filter by ids is answered as a whole.
    """

    filter: JobFilter = JobFilter()
    flags: b.FlagBits = 0
    strict: bool = False
    after_job: b.JobIdField = 0
    most: Annotated[int, msgspec.Meta(ge=0, le=MOST_OF_A_PAGE)] = 0


@message(kind="ShowSteps", roles="user", max_bytes=4 << 20)
class ShowSteps(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """List steps of running jobs; `steps` holds ids as typed: `21`, `21.0`, `27_3.batch`."""

    filter: JobFilter = JobFilter()
    steps: Texts = []
    flags: b.FlagBits = 0


@message(kind="ShowPriorities", roles="user", max_bytes=1 << 20)
class ShowPriorities(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """sprio: priorities of waiting jobs by factor."""

    filter: JobFilter = JobFilter()


@message(kind="ExplainJob", roles="user", max_bytes=1 << 16)
class ExplainJob(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`scontrol explain job`: why one job waits and until when, or why it runs where it runs."""

    job: Text


class HolderShown(msgspec.Struct, frozen=True):
    """What keeps nodes that a job shall get: `kind` is job, planned or reservation.

    `until_us` is 0 where the end is not known. `licenses` are kept instead of nodes.
    """

    kind: str
    name: str
    user: str
    nodes: str
    cpus: int
    from_us: int
    until_us: int
    licenses: str = ""


class SoonerShown(msgspec.Struct, frozen=True):
    """An option that would let the job start at `start_us`."""

    option: str
    start_us: int
    preempts: list[str] = []  # the jobs that would have to leave for that


class HistoryLine(msgspec.Struct, frozen=True):
    """Something that happened to the job."""

    time_us: int
    text: str


@reply("JobExplained", max_bytes=1 << 20)
class JobExplained(msgspec.Struct, frozen=True):
    """One job's explanation; times of 0 are not known, `start_us` of -1: not in the window.

    `waits_for` says in sentences what has to happen first. `ahead` is how many jobs of the
    partition go first, -1 where no queue decides. `holders_left_out` counts those not shown.
    """

    now_us: int
    job_id: str
    name: str
    user: str
    state: str
    partition: str
    reason: str
    waits_for: list[str]
    submit_us: int
    ahead: int
    start_us: int
    nodes: str
    holders: list[HolderShown]
    holders_left_out: int
    sooner: list[SoonerShown]
    history: list[HistoryLine]
    history_begin_us: int = 0
    is_estimate: bool = False  # the start is not kept for the job
    is_late: bool = False  # there was no time to work out a start
    untried: int = 0  # changes there was no time for


@message(kind="ShowNodes", roles="user", max_bytes=4 << 20)
class ShowNodes(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """List nodes, of a hostlist expression or all; `addresses`: only where their slurmds listen."""

    nodes: Text = ""
    flags: b.FlagBits = 0
    addresses: bool = False


@message(kind="ShowPartitions", roles="user", max_bytes=1 << 20)
class ShowPartitions(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """List partitions. With `with_nodes` the reply holds the node records as well (sinfo)."""

    flags: b.FlagBits = 0
    with_nodes: bool = False


@message(kind="ShowConfig", roles="user", max_bytes=1024)
class ShowConfig(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The running configuration as `scontrol show config` prints it."""


@message(kind="ShowLicenses", roles="user", max_bytes=1 << 16)
class ShowLicenses(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Licences with totals and use."""

    names: Names = []


@message(kind="ShowReservations", roles="user", max_bytes=1 << 16)
class ShowReservations(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Advance reservations."""

    name: Text = ""


@message(kind="ShowAssociations", roles="user", max_bytes=1 << 20)
class ShowAssociations(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Associations, QOS and users with limits and the usage that counts; empty lists mean all.

    `parts` are of assoc, qos and users.
    """

    users: Names = []
    accounts: Names = []
    qos: Names = []
    parts: Names = []


class Counted(msgspec.Struct, frozen=True):
    """Usage that counts against limits: TRES by name, seconds used and minutes still promised."""

    jobs: int = 0
    accruing: int = 0  # jobs that wait and gather age
    submitted: int = 0
    wall_min: float = 0.0
    tres: dict[str, int] = {}
    tres_s: dict[str, float] = {}
    run_min: dict[str, int] = {}
    usage_s: float = 0.0  # billing-seconds, faded


class UserShown(msgspec.Struct, frozen=True):
    """A user that accounting knows."""

    name: str
    default_account: str
    default_wckey: str
    admin_level: str


class AssociationShown(msgspec.Struct, frozen=True):
    """An association; `limits` holds only those that are set, by the field names of the model.

    `level_shares` is the sum of the shares of its level; shares of -1 are those of the parent. For
    `norm_shares`, `norm_usage`, `effective_usage` and `level` see `sched.fair_share.ShareFigures`;
    a `factor` of -1 is none.
    """

    assoc_id: int
    account: str
    user: str
    partition: str
    parent: str
    parent_id: int
    lineage: str
    comment: str
    priority: int
    shares: int
    level_shares: int
    norm_shares: float
    norm_usage: float
    effective_usage: float
    level: float
    factor: float
    is_default: bool
    limits: dict[str, int | dict[str, int]]
    counted: Counted


class QosShown(msgspec.Struct, frozen=True):
    """A QOS, with what counts for it in all, by account and by uid."""

    qos_id: int
    name: str
    priority: int
    preempt_mode: str
    limits: dict[str, int | dict[str, int]]
    counted: Counted
    accounts: dict[str, Counted]
    users: dict[str, Counted]


@reply("AssociationsShown")
class AssociationsShown(msgspec.Struct, frozen=True):
    """The accounting records that the controller uses; `tres` are all names, in order."""

    cluster_name: str
    tres: list[str]
    users: list[UserShown]
    associations: list[AssociationShown]
    qos: list[QosShown]


@message(kind="ShowTopology", roles="user", max_bytes=1 << 20)
class ShowTopology(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Lines of the network topology: of one node or switch, of all, or all as topology.yaml."""

    node: Text = ""
    unit: Text = ""
    as_yaml: bool = False


@message(kind="ShowDiagnostics", roles="user", max_bytes=1024)
class ShowDiagnostics(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Counters for sdiag."""


@message(kind="ResetDiagnostics", roles="user", owner_rule="operator", rate="change",
         max_bytes=1024)  # fmt: skip
class ResetDiagnostics(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`sdiag -r`: set the counters to zero."""


@message(kind="GetBatchScript", roles="user", owner_rule="rule", max_bytes=1024)
class GetBatchScript(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The script of one job, for its owner and operators."""

    job: Text


@reply("Records")
class Records(msgspec.Struct, frozen=True):
    """Rows of one kind; `extras` holds further facts by name, such as other rows.

    `next_job` is the `after_job` of the question for the rest; 0 where this is all.
    """

    now_us: int
    fields: list[str]
    records: bytes
    cluster_name: str = ""
    more_fields: list[str] = []
    more_records: bytes = b""
    last_update_us: int = 0
    next_job: int = 0


@reply("ConfigText")
class ConfigText(msgspec.Struct, frozen=True):
    """Lines ready to print."""

    lines: list[str]
    now_us: int = 0


@reply("Diagnostics")
class Diagnostics(msgspec.Struct, frozen=True):
    """Counters by name; `messages` rows are kind, count, total microseconds, and `users` alike.

    `faults` counts faults by kind, see `base.faults`. `connections` has what these hold now, and
    what was refused since the start. `limited` rows are uid, name, and requests that `rl_enable`
    told to back off.
    """

    now_us: int
    since_us: int
    counters: dict[str, int]
    messages: list[tuple[str, int, int]]
    users: list[tuple[int, str, int, int]]
    pending: list[tuple[str, int]] = []
    faults: list[tuple[str, int]] = []
    connections: list[tuple[str, int]] = []
    limited: list[tuple[int, str, int]] = []


@reply("BatchScript", max_bytes=16 << 20)
class BatchScript(msgspec.Struct, frozen=True):
    """The bytes of a script."""

    job_id: int
    script: bytes


# Steering -------------------------------------------------------------------------------------


@message(kind="CancelJobs", roles="user", owner_rule="rule", rate="change", max_bytes=4 << 20)
class CancelJobs(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Cancel or signal jobs and steps in one request.

    `filter.jobs` may name steps (`21.0`). `signal` 0 ends the jobs and steps (TERM, then KILL);
    `flags` are CANCEL_* bits. `from_job` and `below_job` are of the reply that said to go on.
    """

    request_id: RequestId
    filter: JobFilter = JobFilter()
    signal: b.Signal = 0
    flags: b.FlagBits = 0
    from_job: b.JobIdField = 0
    below_job: b.JobIdField = 0


@reply("Cancelled")
class Cancelled(msgspec.Struct, frozen=True):
    """What became of each id named: `errors` are (id as typed, number, text).

    `count` jobs or steps were reached; `done` names them when CANCEL_VERBOSE was asked for.
    `is_partial` and what follows are those of `JobsChanged`.
    """

    count: int
    errors: list[tuple[str, int, str]]
    done: list[str] = []
    is_partial: bool = False
    next_id: int = 0
    next_job: int = 0
    below_job: int = 0


@message(kind="UpdateJob", roles="user", owner_rule="rule", rate="change", max_bytes=1 << 20)
class UpdateJob(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`scontrol update job`: `settings` maps lower-case keys to values as typed.

    Times are sent as microseconds since the epoch in decimal. Jobs are named by id or by name
    (and owner).
    """

    request_id: RequestId
    settings: Settings
    jobs: Texts = []
    name: Text = ""
    uid: b.Number32OrNone = -1
    from_job: b.JobIdField = 0
    below_job: b.JobIdField = 0


@message(kind="UpdateStep", roles="user", owner_rule="rule", rate="change", max_bytes=1 << 19)
class UpdateStep(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`scontrol update stepid=`: of a step, or of all steps of a job; the limit is as typed."""

    request_id: RequestId
    step: Text
    time_limit: Text


@message(kind="HoldJobs", roles="user", owner_rule="rule", rate="change", max_bytes=1 << 20)
class HoldJobs(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """hold, uhold (`as_user`) and release (`release`)."""

    request_id: RequestId
    jobs: Texts = []
    name: Text = ""
    uid: b.Number32OrNone = -1
    as_user: bool = False
    release: bool = False
    from_job: b.JobIdField = 0
    below_job: b.JobIdField = 0


@message(kind="RequeueJobs", roles="user", owner_rule="rule", rate="change", max_bytes=1 << 20)
class RequeueJobs(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """requeue and requeuehold; `incomplete` leaves out jobs that are over."""

    request_id: RequestId
    jobs: Texts
    hold: bool = False
    special_exit: bool = False
    incomplete: bool = False
    from_job: b.JobIdField = 0
    below_job: b.JobIdField = 0


@message(kind="SuspendJobs", roles="user", owner_rule="rule", rate="change", max_bytes=1 << 20)
class SuspendJobs(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """suspend, or resume with `resume`."""

    request_id: RequestId
    jobs: Texts
    resume: bool = False
    from_job: b.JobIdField = 0
    below_job: b.JobIdField = 0


@message(kind="TopJobs", roles="user", owner_rule="rule", rate="change", max_bytes=1 << 20)
class TopJobs(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`scontrol top`: put these first among the owner's pending jobs."""

    request_id: RequestId
    jobs: Texts


@reply("JobsChanged")
class JobsChanged(msgspec.Struct, frozen=True):
    """Errors by id as (id as typed, number, text); ids without one were changed.

    With `is_partial` there is more to change: the same request is to be sent again with the ids
    from index `next_id` on, `from_job` as `next_job` and `below_job` as here.
    """

    count: int
    errors: list[tuple[str, int, str]]
    is_partial: bool = False
    next_id: int = 0
    next_job: int = 0
    below_job: int = 0


@message(kind="UpdateNodes", roles="user", owner_rule="admin", rate="change", max_bytes=1 << 20)
class UpdateNodes(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`scontrol update node`: a hostlist or ALL."""

    request_id: RequestId
    nodes: Text
    settings: Settings


@message(kind="CreateNodes", roles="user", owner_rule="admin", rate="change", max_bytes=1 << 18)
class CreateNodes(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`scontrol create nodename=`: dynamic nodes as a line of slurm.conf describes them."""

    request_id: RequestId
    line: Text


@message(kind="DeleteNodes", roles="user", owner_rule="admin", rate="change", max_bytes=1 << 18)
class DeleteNodes(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`scontrol delete nodename=`: dynamic nodes that nothing uses, all or none."""

    request_id: RequestId
    nodes: Text


@message(kind="UpdatePartition", roles="user", owner_rule="admin", rate="change",
         max_bytes=1 << 20)  # fmt: skip
class UpdatePartition(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Create (`create`) or change a partition."""

    request_id: RequestId
    name: Text
    settings: Settings
    create: bool = False


@message(kind="DeletePartition", roles="user", owner_rule="admin", rate="change",
         max_bytes=1 << 16)  # fmt: skip
class DeletePartition(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Delete a partition that no job uses."""

    request_id: RequestId
    name: Text


@message(kind="UpdateReservation", roles="user", owner_rule="operator", rate="change",
         max_bytes=1 << 20)  # fmt: skip
class UpdateReservation(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Create (`create`) or change a reservation; without a name it is given one.

    `settings` maps lower-case keys to values as typed; a key may end in `+` or `-` to add or take
    away. Moments are microseconds since the epoch in decimal.
    """

    request_id: RequestId
    name: Text
    settings: Settings
    create: bool = False


@reply("ReservationNamed")
class ReservationNamed(msgspec.Struct, frozen=True):
    """The name of the reservation made or changed."""

    name: str


@message(kind="DeleteReservation", roles="user", owner_rule="rule", rate="change",
         max_bytes=1 << 16)  # fmt: skip
class DeleteReservation(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Delete a reservation that no running job uses."""

    request_id: RequestId
    name: Text


@message(kind="NotifyJob", roles="user", owner_rule="rule", rate="change", max_bytes=1 << 16)
class NotifyJob(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`scontrol notify`: a line for the stderr of a batch script, srun or salloc."""

    job: Text
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]


@message(kind="SetDebugLevel", roles="user", owner_rule="admin", rate="change", max_bytes=1024)
class SetDebugLevel(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`scontrol setdebug`: how much a daemon logs, 0 (quiet) to 9 (debug5), until reconfigured."""

    level: Annotated[int, msgspec.Meta(ge=0, le=9)]


_DebugFlags = Annotated[
    list[Annotated[str, msgspec.Meta(max_length=64)]], msgspec.Meta(max_length=64)
]


@message(kind="SetDebugFlags", roles="user", owner_rule="admin", rate="change", max_bytes=1 << 14)
class SetDebugFlags(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`scontrol setdebugflags`: words of DebugFlags to add and to take away, until reconfigured."""

    add: _DebugFlags = []
    remove: _DebugFlags = []


@message(kind="SetDampening", roles="user", owner_rule="admin", rate="change", max_bytes=1024)
class SetDampening(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`scontrol fsdampeningfactor`: FairShareDampeningFactor, until reconfigured."""

    factor: Annotated[int, msgspec.Meta(ge=1, le=65535)]


@message(kind="SetSchedulingLog", roles="user", owner_rule="admin", rate="change", max_bytes=1024)
class SetSchedulingLog(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """`scontrol schedloglevel`: whether SlurmSchedLogFile is written, until reconfigured."""

    is_on: bool
