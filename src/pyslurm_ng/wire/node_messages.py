"""Messages between the controller and its nodes, and from srun to a node.

**Orders** (controller -> node) are the wire form of duties. They travel in `NodeOrders`, several
at a time, one-way: what a node did comes back as **reports**. Orders are idempotent by duty id and
(job, attempt): a node that has seen one before only reports again. A node obeys no order of an
epoch older than the newest it knows (kept on its disk).

**Reports** (node -> controller) travel in `NodeReports`, a request whose reply `Done` says that
they are durable; until then the node keeps them and sends them again. Reports, too, are
idempotent: a rule ignores what no longer concerns the attempt that runs.

A job that ends quickly costs one message each way: a node holds back the report "launched" for some
milliseconds, and `BatchEnded` stands for it (`duty_id`). With `CLEAN` nothing of it is left there.

**Credentials** (`JobCredential`) say what may be started: signed by the controller
(`wire.auth.CredentialSigner.sign_credential`), carried by LaunchBatch and PrepareJob, and given to
srun in the reply to its CreateStep, which hands it to each node in `LaunchStep`. All that a start
uses comes from the credential; the request adds what users may choose (argv, environment, files).
"""

from typing import Annotated, TypeVar

from msgspec import Meta, Struct
from msgspec.msgpack import Encoder

from pyslurm_ng.base.numbers import INFINITE
from pyslurm_ng.model import bounds as b
from pyslurm_ng.model.job import Usage
from pyslurm_ng.wire.job_credential import (
    CREDENTIAL_LIFE_US as CREDENTIAL_LIFE_US,
    HetComponent as HetComponent,
    JobCredential as JobCredential,
    ManagedNodes as ManagedNodes,
    StepNews as StepNews,
    decode_credential as decode_credential,
    decode_news as decode_news,
    encode_credential as encode_credential,
    encode_news as encode_news,
)
from pyslurm_ng.wire.table import message, reply

ORDERS_AT_ONCE = 4_096
REPORTS_AT_ONCE = 4_096
_MOST_REPORT_BYTES = 3 << 20  # of a NodeReports, which may have 4 MiB
_encode_report = Encoder().encode
ORDER_BYTES = 16 << 20
"""Largest NodeOrders; a sender begins another message before this size is reached."""

_Text = b.LineText
_Blob = Annotated[bytes, Meta(max_length=ORDER_BYTES)]
_Key = Annotated[bytes, Meta(min_length=16, max_length=64)]
_StepKey = Annotated[bytes, Meta(min_length=32, max_length=64)]
_Argv = Annotated[list[b.WordOfArgv], Meta(max_length=b.MOST_WORDS_OF_ARGV)]
_TaskIds = Annotated[list[b.Count], Meta(max_length=1 << 20)]


# Orders ---------------------------------------------------------------------------------------


class _Order(Struct, array_like=True, frozen=True, gc=False):
    duty_id: b.Amount


class PrepareJob(_Order, tag=1, frozen=True, array_like=True, gc=False):
    """Run the prolog and make the job known: an allocation without a script here."""

    credential: _Blob


class LaunchBatch(_Order, tag=2, frozen=True, array_like=True, gc=False):
    """Run the prolog if it has not run, then the script.

    `environment` holds NAME=VALUE entries, each ended by NUL, as /proc/PID/environ does.
    """

    credential: _Blob
    script: _Blob
    environment: _Blob = b""


class SignalJob(_Order, tag=3, frozen=True, array_like=True, gc=False):
    """Signal a step (`step_id`), or by `flags` (model.duty.SIGNAL_*) script, steps, or both."""

    job_id: b.JobIdField
    attempt: b.Count
    step_id: b.Number32OrNone
    signal: b.Signal
    flags: b.FlagBits = 0


class TerminateJob(_Order, tag=4, frozen=True, array_like=True, gc=False):
    """End what is left of a job here (SIGCONT, SIGTERM, after KillWait SIGKILL) and run the epilog.

    `flags` says why, for the line in the job's stderr; `force` skips the wait. The credential tells
    the epilog the job's user on a node that never started any of it, the wait statuses how the job
    ended, and the worst of its steps.
    """

    job_id: b.JobIdField
    attempt: b.Count
    flags: b.FlagBits = 0
    credential: _Blob = b""
    force: bool = False
    exit_code: b.WaitStatus = 0
    derived_exit_code: b.WaitStatus = 0


class SuspendJob(_Order, tag=5, frozen=True, array_like=True, gc=False):
    """Stop every process of the job here."""

    job_id: b.JobIdField
    attempt: b.Count


class ResumeJob(_Order, tag=6, frozen=True, array_like=True, gc=False):
    """Continue every process of the job here."""

    job_id: b.JobIdField
    attempt: b.Count


class TerminateStep(_Order, tag=7, frozen=True, array_like=True, gc=False):
    """End one step as `TerminateJob` ends all; the job goes on."""

    job_id: b.JobIdField
    attempt: b.Count
    step_id: b.JobIdField
    flags: b.FlagBits = 0


class RebootNode(_Order, tag=8, frozen=True, array_like=True, gc=False):
    """Run RebootProgram."""

    reason: _Text = ""


class TellJob(_Order, tag=9, frozen=True, array_like=True, gc=False):
    """Write a line into the stderr of a job's script; no duty stands for it."""

    job_id: b.JobIdField
    attempt: b.Count
    text: _Text


Order = (
    PrepareJob
    | LaunchBatch
    | SignalJob
    | TerminateJob
    | SuspendJob
    | ResumeJob
    | TerminateStep
    | RebootNode
    | TellJob
)


@message(kind="NodeOrders", roles="slurmctld", max_bytes=ORDER_BYTES + (1 << 20))
class NodeOrders(Struct, array_like=True, frozen=True):
    """Orders to one node, in the order in which their duties were made; one-way."""

    epoch: b.Amount
    orders: Annotated[list[Order], Meta(max_length=ORDERS_AT_ONCE)]


@message(kind="NodeReconfigure", roles="slurmctld", max_bytes=4096)
class NodeReconfigure(Struct, array_like=True, frozen=True):
    """Read the configuration again and register; one-way."""

    epoch: b.Amount


@message(kind="NodeShutdown", roles="slurmctld", max_bytes=4096)
class NodeShutdown(Struct, array_like=True, frozen=True):
    """Stop slurmd; steps go on. One-way."""

    epoch: b.Amount


@message(kind="NodeRegisterAgain", roles="slurmctld", max_bytes=4096)
class NodeRegisterAgain(Struct, array_like=True, frozen=True):
    """A controller that does not know this node's state asks for a registration; one-way."""

    epoch: b.Amount


# Reports --------------------------------------------------------------------------------------


class _Report(Struct, array_like=True, frozen=True, gc=False):
    job_id: b.JobIdField
    attempt: b.Count


class DutyDone(_Report, tag=1, frozen=True, array_like=True, gc=False):
    """An order was carried out: prepared, launched, signalled, suspended, resumed, rebooting."""

    duty_id: b.Amount


class BatchEnded(_Report, tag=2, frozen=True, array_like=True, gc=False):
    """The script ended with wait status `status`.

    `duty_id` is the launch duty, which this report settles, too; 0 if it was settled before.
    `error` says why a script could not be started; then the status is Slurm's (0:53 for files).
    """

    duty_id: b.Amount
    status: b.WaitStatus
    start_us: b.UnixTimeUs
    end_us: b.UnixTimeUs
    flags: b.FlagBits = 0  # END_*
    usage: Usage | None = None
    error: _Text = ""


class StepEnded(_Report, tag=3, frozen=True, array_like=True, gc=False):
    """All tasks of a step on this node ended; `status` is the worst wait status."""

    step_id: b.JobIdField
    status: b.WaitStatus
    start_us: b.UnixTimeUs
    end_us: b.UnixTimeUs
    flags: b.FlagBits = 0
    usage: Usage | None = None
    error: _Text = ""


class JobTerminated(_Report, tag=4, frozen=True, array_like=True, gc=False):
    """Nothing of a job is left here and the epilog ran; settles the terminate duty.

    Without a duty (0) it answers an order to end a job that the node should not have.
    """

    duty_id: b.Amount
    epilog_status: b.WaitStatus = 0


class LaunchFailed(_Report, tag=5, frozen=True, array_like=True, gc=False):
    """A job could not be prepared or launched, and its user did not cause that.

    With `drain` the node asks to be drained for that reason (a failed prolog does).
    """

    duty_id: b.Amount
    code: b.Number32OrNone
    text: _Text
    drain: _Text = ""


class ManagedSteps(_Report, tag=7, frozen=True, array_like=True, gc=False):
    """What has become of steps of a job that this node manages.

    `news` is an encoded list of `StepNews`, the oldest first.
    """

    news: _Blob


class NodeTrouble(_Report, tag=6, frozen=True, array_like=True, gc=False):
    """The node asks to be drained: `Kill task failed`, `Epilog error`; no job: ids are 0."""

    reason: _Text


JobReport = DutyDone | BatchEnded | StepEnded | JobTerminated | LaunchFailed | ManagedSteps
Report = JobReport | NodeTrouble
AnyReport = TypeVar("AnyReport", bound=Report)


@message(kind="NodeReports", roles="node", max_bytes=4 << 20)
class NodeReports(Struct, array_like=True, frozen=True):
    """Reports of one node in order; the reply is `Done` when they are durable.

    `sent_us` is the time of sending by the node's clock, as are the times in them; 0: not given.
    """

    reports: Annotated[list[Report], Meta(max_length=REPORTS_AT_ONCE)]
    sent_us: b.UnixTimeUs = 0


def first_reports(reports: list[AnyReport]) -> list[AnyReport]:
    """Return as many of the first ones as one message may hold, at least one if there is any."""
    size = 0
    for count, report in enumerate(reports[:REPORTS_AT_ONCE]):
        size += len(_encode_report(report))
        if size > _MOST_REPORT_BYTES and count:
            return reports[:count]
    return reports[:REPORTS_AT_ONCE]


class RunningJob(Struct, array_like=True, frozen=True, gc=False):
    """An attempt of a job of which a node has processes, or about which it owes a report.

    `run_us` is how long the node has known it, by a monotonic clock; -1: not known.
    """

    job_id: b.JobIdField
    attempt: b.Count
    step_ids: Annotated[list[b.JobIdField], Meta(max_length=65536)]
    run_us: b.SpanUsOrNone = -1


@message(kind="RegisterNode", roles="node", max_bytes=4 << 20)
class RegisterNode(Struct, array_like=True, frozen=True):
    """A node daemon has come up, or its hardware or configuration changed.

    `facts` is an encoded model.node.NodeFacts. The node's name is in the credential.
    """

    facts: _Blob
    jobs: Annotated[list[RunningJob], Meta(max_length=65536)]
    epoch: b.Amount = 0  # the newest it has obeyed
    conf_hash: _Text = ""
    load_hundredths: b.AmountOrNone = -1
    free_mem_mib: b.AmountOrNone = -1
    newest_job_id: b.JobIdField = 0  # the highest it has had
    dynamic: b.LineText = ""  # of `slurmd -Z`: its line as slurm.conf would have it


@reply("NodeRegistered")
class NodeRegistered(Struct, frozen=True):
    """The node is registered. Open orders follow in NodeOrders.

    Orders without a duty (0) terminate jobs that the node should not have.
    """

    epoch: int
    heartbeat_s: int
    now_us: int
    heartbeat_ms: int = 0  # the same, finer


@message(kind="Heartbeat", roles="node", max_bytes=4096)
class Heartbeat(Struct, array_like=True, frozen=True):
    """The node is up. One-way, or answered with `Done` if the node must know that it was heard."""

    load_hundredths: b.AmountOrNone = -1
    free_mem_mib: b.AmountOrNone = -1
    epoch: b.Amount = 0
    wants_answer: bool = False
    watts: b.Watts = 0  # now, and on average since it is measured
    mean_watts: b.Watts = 0


# srun and commands -> node --------------------------------------------------------------------


class Program(Struct, frozen=True, forbid_unknown_fields=True):
    """The program of some tasks; no `tasks` means all tasks that no other program names."""

    argv: _Argv
    tasks: _TaskIds = []


class RouteToSrun(Struct, frozen=True, forbid_unknown_fields=True):
    """Where stepd connects to: one connection for streams, exits and signals (wire.step_io)."""

    host: b.HostText
    port: b.Number16
    key: _StepKey


@message(kind="LaunchStep", roles="user|node", owner_rule="owner", rate="change")
class LaunchStep(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Start this node's tasks of a step; the sender's uid must be the credential's.

    `std_in`, `std_out`, `std_err`: "" or `all` routes the stream to srun, `/dev/null` or `none`
    closes it, anything else is a file name pattern, opened as the user. An empty `std_err` with a
    `std_out` file and no `stderr_task` means "where stdout goes". `stdin_task` and the like are -1
    for all tasks or the only one.
    """

    credential: _Blob
    programs: Annotated[list[Program], Meta(min_length=1, max_length=65536)]
    environment: _Blob = b""
    cwd: b.PathText = "/"
    route: RouteToSrun | None = None
    std_in: b.PathText = ""
    std_out: b.PathText = ""
    std_err: b.PathText = ""
    stdin_task: b.Number32OrNone = -1
    stdout_task: b.Number32OrNone = -1
    stderr_task: b.Number32OrNone = -1
    append: bool = False
    label: bool = False  # prefix lines in files with the task number
    pty: bool = False
    pty_rows: b.Number16 = 0
    pty_columns: b.Number16 = 0
    umask: b.Umask = 0o22
    rlimits: Annotated[list[b.Rlimit], Meta(max_length=b.MOST_RLIMITS)] = []
    cpu_bind: b.LongText = ""
    gpu_bind: b.LongText = ""
    mem_bind: b.LongText = ""
    task_prolog: b.PathText = ""
    task_epilog: b.PathText = ""
    nice: b.Nice = 0  # of older commands; their SLURM_PRIO_PROCESS counts
    kill_wait_s: b.Number32OrNone = -1
    oom_kill_step: Annotated[int, Meta(ge=-1, le=1)] = -1  # -1: as the job or the node says
    waits_for_children: bool = False  # the step ends with the last process its tasks left
    acctg_freq: b.ShortText = ""
    no_kill: bool = False  # the step survives srun's death
    host_ip: b.HostText = ""  # srun's, for SLURM_LAUNCH_NODE_IPADDR
    first_rank: Annotated[int, Meta(ge=0, le=1 << 30)] = 0  # of several components' steps
    all_ranks: Annotated[int, Meta(ge=0, le=1 << 30)] = 0  # 0: the step is alone
    tasks_per_socket: Annotated[int, Meta(ge=0, le=1 << 24)] = 0  # at most; 0: any number
    threads_per_core: Annotated[int, Meta(ge=0, le=1 << 16)] = 0  # that tasks use; 0: all
    program: b.PathText = ""  # in place of the first word of argv; %N stands for the node's name
    first_node: Annotated[int, Meta(ge=0, le=1 << 30)] = 0  # from here on of all components
    all_nodes: b.FoldedText = ""
    all_node_count: Annotated[int, Meta(ge=0, le=1 << 30)] = 0
    all_tasks_per_node: b.FoldedText = ""
    all_job_nodes: b.FoldedText = ""
    all_job_node_count: Annotated[int, Meta(ge=0, le=1 << 30)] = 0
    all_cpus_per_node: b.FoldedText = ""
    keeps_counts: bool = False  # SLURM_NTASKS and others stay as they are around srun
    mpi: b.ShortText = ""  # pmi2, pmix; none and "": the tasks know nothing of each other
    all_ranks_of_nodes: b.FoldedText = ""  # blocks of ranks, as in PMI_process_mapping
    x11: tuple[b.WordText, Annotated[bytes, Meta(max_length=64)]] = ("", b"")  # nodes, cookie
    mpi_secret: Annotated[bytes, Meta(max_length=64)] = b""  # what ranks show to a PMIx server
    container: b.PathText = ""  # an OCI bundle
    container_options: Annotated[
        tuple[b.LongText, ...], Meta(max_length=b.MOST_CONTAINER_OPTIONS)
    ] = ()  # as a JobRequest has them
    profile: b.ShortText = ""  # srun's --profile


@message(kind="SendFile", roles="user", owner_rule="owner", rate="change")
class SendFile(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A block of a file for this node; the sender's uid must be the credential's.

    Blocks of one file have the same `key` and come in order, each after the answer to the previous
    one. The first has the credential and names the file; later ones have only data.
    """

    key: _Key
    credential: _Blob = b""
    path: b.PathText = ""  # absolute
    mode: b.FileMode = 0o600
    times_us: Annotated[list[b.FileTimeUs], Meta(max_length=2)] = []  # access and change
    force: bool = False  # replaces what is there
    make_directory: bool = False  # the last one of the path
    data: _Blob = b""
    is_packed: bool = False  # all data of the file is one stream of zlib
    is_last: bool = False


@reply("StepLaunched")
class StepLaunched(Struct, frozen=True):
    """The supervisor runs. It tells srun over its own connection that each task has begun."""

    node: str
    pid: int


@message(kind="AttachStep", roles="user", max_bytes=4096)
class AttachStep(Struct, frozen=True, forbid_unknown_fields=True):
    """`sattach`: send copies of a step's output to a port, and take input from there.

    Only the owner and administrators may. Without a route only the tasks here are asked for.
    """

    job_id: b.JobIdField
    step_id: b.JobIdField
    route: RouteToSrun | None = None


@reply("StepAttached")
class StepAttached(Struct, frozen=True):
    """The step's tasks on this node, and the node's number in the step."""

    node: str
    node_index: int
    tasks: list[int]


@message(kind="SignalStep", roles="user|node", owner_rule="owner", rate="change", max_bytes=4096)
class SignalStep(Struct, frozen=True, forbid_unknown_fields=True):
    """Signal the tasks of a step here; signal 9 ends the step."""

    job_id: b.JobIdField
    step_id: b.JobIdField
    signal: b.Signal


@message(kind="ListPids", roles="user", max_bytes=4096)
class ListPids(Struct, frozen=True, forbid_unknown_fields=True):
    """`scontrol listpids`: processes of a job (0: all jobs) and step here."""

    job_id: b.JobIdField = 0
    step_id: b.JobIdField = INFINITE


@reply("PidList")
class PidList(Struct, frozen=True):
    """Rows of pid, job id, step id, local id and global id of its task; ids -1 where unknown."""

    node: str
    rows: list[tuple[int, int, int, int, int]]


@message(kind="AdoptLogin", roles="user", max_bytes=4096)
class AdoptLogin(Struct, frozen=True, forbid_unknown_fields=True):
    """`pam_pyslurm_adopt`: put a login of this host into a job of its user; root alone may ask.

    `start_ticks` is when the process began, in ticks since boot, since numbers are used again.
    """

    uid: b.UserIdField
    pid: b.Pid
    start_ticks: b.Amount
    node: b.HostText = ""  # "": whichever node daemon hears it
    picks_newest: bool = True  # where the user has several jobs


@reply("LoginAdopted")
class LoginAdopted(Struct, frozen=True):
    """The user's jobs on this node, which of them has the login now, and why none has.

    `namespace` is the file by which the job's private directories are entered; "" without any.
    """

    node: str
    jobs: int
    job_id: int = 0
    problem: str = ""
    namespace: str = ""


@message(kind="StepStatus", roles="user", owner_rule="owner", max_bytes=4096)
class StepStatus(Struct, frozen=True, forbid_unknown_fields=True):
    """`sstat`: the usage so far of a running step's tasks on this node."""

    job_id: b.JobIdField
    step_id: b.JobIdField


@reply("StepUsage")
class StepUsage(Struct, frozen=True):
    """Usage up to now, and the processes that were measured."""

    node: str
    usage: Usage
    pids: list[int]


@message(kind="ShowNodeDaemon", roles="user", max_bytes=4096)
class ShowNodeDaemon(Struct, frozen=True, forbid_unknown_fields=True):
    """`scontrol show slurmd`: what a node daemon reports about itself."""


@reply("NodeDaemonStatus")
class NodeDaemonStatus(Struct, frozen=True):
    """Facts of the host or, with config_overrides, of the configuration; steps as job and step."""

    node: str
    hostname: str
    steps: list[tuple[int, int]]
    cpus: int
    boards: int
    sockets: int
    cores_per_socket: int
    threads_per_core: int
    real_memory_mib: int
    tmp_disk_mib: int
    started_us: int
    last_order_us: int
    pid: int
    log_level: int
    log_file: str
    version: str
