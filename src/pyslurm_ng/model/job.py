"""Jobs, their requests, allocations and steps: plain records.

`JobRequest` is what a user asked for. It travels unchanged from the command through the wire and
the journal into the Cluster. `Job` is the job that was made from it.
"""

from typing import Annotated

from msgspec import Meta, Struct

from pyslurm_ng.base.numbers import INFINITE, MINUTE_US, NO_VAL
from pyslurm_ng.base.sluid import record_sluid

from .bounds import (
    MOST_CONTAINER_OPTIONS,
    MOST_RLIMITS,
    MOST_TRAFFIC,
    MOST_WORDS_OF_ARGV,
    Amount,
    ArrayText,
    Count,
    DependencyText,
    FlagBits,
    HostListText,
    HostText,
    JobNameText,
    LabelText,
    ListText,
    LongText,
    MailTypes,
    Mebibytes,
    Minutes,
    NameText,
    Nice,
    Number16,
    Number32,
    Number32OrNone,
    PartitionListText,
    PathText,
    Pid,
    Rlimit,
    ShortText,
    Signal,
    SubmitLineText,
    Switch,
    Umask,
    UnixTimeUs,
    UserIdField,
    WordOfArgv,
    WordText,
)
from .states import JobFlag

# Bits of JobRequest.flags: options that are only on or off.

# Bits of JobRequest.mail_type.


class JobRequest(
    Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True, gc=False
):
    """One job as asked for. Counts of 0 mean "not given"; strings are in Slurm's own grammar.

    It is encoded as a map without defaults, on the wire and in the journal, so a field can be added
    anywhere. `scontrol update` replaces the whole record.

    Each field has its bound (model.bounds). The journal is read without bounds: accepted values are
    kept as they are, see `model.accepted`.
    """

    name: JobNameText = ""
    account: NameText = ""
    partition: PartitionListText = ""  # comma list
    qos: ShortText = ""
    reservation: ShortText = ""
    wckey: NameText = ""
    comment: LongText = ""
    admin_comment: LongText = ""
    extra: LongText = ""
    mcs_label: LabelText = ""
    licenses: ListText = ""
    network: ShortText = ""
    flags: FlagBits = 0  # REQ_* bits
    # Size.
    nodes_min: Count = 0
    nodes_max: Number32 = 0
    node_sizes: ListText = ""  # `1,2,4` or `2-10:2` forms of --nodes beyond min-max
    ntasks: Number32 = 0
    ntasks_per_node: Count = 0
    ntasks_per_socket: Count = 0
    ntasks_per_core: Count = 0
    ntasks_per_gpu: Count = 0
    cpus_per_task: Count = 0
    mincpus: Count = 0
    sockets_per_node: Count = 0
    cores_per_socket: Count = 0
    threads_per_core: Count = 0
    core_spec: Number16 = 0
    thread_spec: Number16 = 0
    mem_per_node_mib: Mebibytes = 0
    mem_per_cpu_mib: Mebibytes = 0
    mem_per_gpu_mib: Mebibytes = 0
    tmp_mib: Mebibytes = 0
    # Generic resources, each `name[:type]:count` list, with or without `gres/` as Slurm stores it.
    gres: ListText = ""  # --gres: per node
    gpus: ListText = ""  # --gpus: for the job; `[type:]n` lists
    gpus_per_node: ListText = ""
    gpus_per_socket: ListText = ""
    gpus_per_task: ListText = ""
    cpus_per_gpu: Count = 0
    tres_per_task: ListText = ""
    tres_bind: LongText = ""
    tres_freq: ShortText = ""
    gpu_bind: LongText = ""
    # Place.
    node_list: HostListText = ""  # -w
    exclude: HostListText = ""  # -x
    constraint: ListText = ""
    prefer: ListText = ""
    node_extra: LongText = ""  # what Extra of its nodes must satisfy: `extra`, if that is read
    batch_features: ListText = ""
    cluster_features: ListText = ""
    switches: Count = 0
    switches_wait_s: Number32 = 0
    segment: Count = 0
    distribution: WordText = ""
    plane_size: Count = 0
    hint: WordText = ""
    cpu_bind: LongText = ""
    mem_bind: LongText = ""
    # Time.
    time_limit_min: Minutes = (
        NO_VAL  # minutes; INFINITE for no limit; NO_VAL: the partition's default
    )
    time_min_min: Minutes = NO_VAL
    begin_us: UnixTimeUs = 0
    deadline_us: UnixTimeUs = 0
    delay_boot_min: Minutes = NO_VAL
    # Order.
    nice: Nice = 0
    priority: Number32 = NO_VAL  # given by an operator; 0 holds
    dependency: DependencyText = ""
    array: ArrayText = ""  # `0-9:2%4`
    # Signals and mail.
    signal: Signal = 0  # --signal number
    signal_before_s: Number16 = 60
    mail_type: MailTypes = 0
    mail_user: ListText = ""
    # Files and identity of the submission.
    work_dir: PathText = ""
    std_in: PathText = ""
    std_out: PathText = ""
    std_err: PathText = ""
    command: PathText = ""  # path of the script, empty for --wrap
    submit_line: SubmitLineText = ""
    alloc_node: HostText = ""  # host of the command
    alloc_sid: Pid = 0
    argv: Annotated[
        tuple[WordOfArgv, ...], Meta(max_length=MOST_WORDS_OF_ARGV)
    ] = ()  # arguments of the script
    umask: Umask = 0o22
    # Name (`NOFILE`), soft, hard; -1 is no limit.
    rlimits: Annotated[tuple[Rlimit, ...], Meta(max_length=MOST_RLIMITS)] = ()
    acctg_freq: ShortText = ""
    profile: ShortText = ""
    container: PathText = ""
    # `name=value` of --container-id and the options about an image, without `container-`.
    container_options: Annotated[tuple[LongText, ...], Meta(max_length=MOST_CONTAINER_OPTIONS)] = ()
    burst_buffer: LongText = ""
    uid: UserIdField = NO_VAL  # --uid, root only
    gid: UserIdField = NO_VAL  # --gid
    origin: WordText = ""  # sbatch, salloc, srun
    wait_all_nodes: Switch = NO_VAL
    oom_kill_step: Switch = NO_VAL
    resv_ports: Number32 = NO_VAL
    cron: ShortText = ""  # of a job of a crontab: the five fields that say when it is due


class GresAlloc(Struct, array_like=True, frozen=True, gc=False):
    """Generic resources of one kind held on one node."""

    name: str  # `gpu`
    type: str  # `a100` or empty
    count: int
    indexes: bytes = b""  # bit mask of device indexes, little endian; empty when without devices
    parts: tuple[int, ...] = ()  # of each of several GPUs held in part; for one GPU see `count`


class NodeAlloc(Struct, array_like=True, frozen=True, gc=False):
    """What one job or step holds on one node."""

    node_id: int
    cpus: int  # all threads of its cores
    cores: bytes  # bit mask of core indexes (socket-major), little endian
    mem_mib: int
    tasks: int = 0
    gres: tuple[GresAlloc, ...] = ()
    idle_cpus: int = 0  # held with its cores, but not used or charged: CR_CPU

    @property
    def charged_cpus(self) -> int:
        """The CPUs that the job may use. They count against limits and accounts."""
        return self.cpus - self.idle_cpus


class Traffic(Struct, array_like=True, frozen=True, gc=False):
    """The bytes that a step's nodes moved over a network or file system, by any process."""

    tres: NameText  # ic/ofed, ic/sysfs, fs/lustre
    read: Amount = 0  # in all
    written: Amount = 0
    max_read: Amount = 0  # on one node
    max_read_node: NameText = ""
    max_read_task: Number32OrNone = 0  # the first one there
    max_written: Amount = 0
    max_written_node: NameText = ""
    max_written_task: Number32OrNone = 0


class Usage(Struct, array_like=True, frozen=True, gc=False):
    """What a step used, summed or maximal over its tasks; times in microseconds, sizes in KiB.

    `gpu_util` is what a task's processes took of their GPUs' time, in percent. Where GPUs or energy
    are not measured, their fields are 0.
    """

    user_us: Amount = 0
    system_us: Amount = 0
    max_rss_kib: Amount = 0
    max_rss_node: NameText = ""
    max_rss_task: Number32OrNone = 0
    ave_rss_kib: Amount = 0
    max_vmsize_kib: Amount = 0
    max_vmsize_node: NameText = ""
    max_vmsize_task: Number32OrNone = 0
    ave_vmsize_kib: Amount = 0
    max_pages: Amount = 0
    max_pages_node: NameText = ""
    max_pages_task: Number32OrNone = 0
    ave_pages: Amount = 0
    min_cpu_us: Amount = 0
    min_cpu_node: NameText = ""
    min_cpu_task: Number32OrNone = 0
    ave_cpu_us: Amount = 0
    max_disk_read: Amount = 0
    max_disk_read_node: NameText = ""
    max_disk_read_task: Number32OrNone = 0
    ave_disk_read: Amount = 0
    max_disk_write: Amount = 0
    max_disk_write_node: NameText = ""
    max_disk_write_task: Number32OrNone = 0
    ave_disk_write: Amount = 0
    ntasks: Amount = 0  # tasks counted, so that partial usages can be merged
    max_gpu_util: Amount = 0
    max_gpu_util_node: NameText = ""
    max_gpu_util_task: Number32OrNone = 0
    ave_gpu_util: Amount = 0
    max_gpu_mem_kib: Amount = 0
    max_gpu_mem_node: NameText = ""
    max_gpu_mem_task: Number32OrNone = 0
    ave_gpu_mem_kib: Amount = 0
    energy_j: Amount = 0
    traffic: Annotated[tuple[Traffic, ...], Meta(max_length=MOST_TRAFFIC)] = ()


class Step(Struct, array_like=True, gc=False):
    """One job step."""

    step_id: int
    name: str
    uid: int
    ntasks: int
    cpus: int
    nodes: tuple[NodeAlloc, ...]
    created_us: int
    state: int = 1  # JobState
    start_us: int = 0
    end_us: int = 0
    time_limit_min: int = INFINITE
    exit_code: int = 0  # wait status
    distribution: str = ""
    srun_host: str = ""
    srun_pid: int = 0
    srun_port: int = 0
    submit_line: str = ""
    flags: int = 0  # STEP_* bits
    cwd: str = ""
    std_in: str = ""
    std_out: str = ""
    std_err: str = ""
    cpus_per_task: int = 1
    tres_per_node: str = ""
    usage: Usage | None = None
    nodes_pending: tuple[int, ...] = ()  # nodes that have not reported their end
    network: str = ""
    container: str = ""
    suspended_us: int = 0
    end_state: int = 3  # JobState its finished nodes reported; COMPLETED while all went well
    ports: tuple[int, ...] = ()  # reserved on all its nodes
    cancelled_by: int = NO_VAL  # who ended it by scancel, while its job goes on
    container_id: str = ""


class _NoSteps(dict[int, Step]):
    """The steps of a job that has none: all such jobs share it, so it takes no entries."""

    def __setitem__(self, key: int, value: Step) -> None:
        raise TypeError("a job without steps gets a dict of its own before its first")


NO_STEPS: dict[int, Step] = _NoSteps()  # an empty dict for each waiting job would take 64 bytes


class Dependency(Struct, array_like=True, gc=False):
    """One term of a dependency: `kind:job_id[_task][+delay]`.

    `state` is 0 while open, 1 when met, 2 when it can never be met.
    """

    kind: str  # after afterany afterok afternotok aftercorr singleton
    job_id: int = 0
    task_id: int = NO_VAL
    delay_min: int = 0
    state: int = 0


class LostRun(Struct, array_like=True, frozen=True, gc=False):
    """A run of a job on a node that was lost with it: the run may go on there unseen."""

    attempt: int
    node_id: int
    node: str  # its name; it may have left the configuration
    boot_id: str = ""  # of the node at that time
    policy: str = "slurm"  # `node_loss` then; under any other the next run waits for `proof`
    proof: str = ""  # how it is known that nothing of the run is left there; "" until then

    @property
    def blocks(self) -> bool:
        """Whether the next run must wait until this one is known to have ended."""
        return not self.proof and self.policy != "slurm"


# What suspended a job, unless another job preempted it.
SUSPENDED_BY_OPERATOR = -1  # set only for a job that ends while suspended
SUSPENDED_BY_GANG = -2  # other jobs have their turn on cores that they share with it


class Job(Struct, array_like=True, gc=False):
    """A job, or an array's waiting tasks held as one record.

    A job of the Cluster holds its request in the short form of `kept_request`.

    A record with `array_pending` stands for all tasks that have not started; a task that starts or
    is changed alone is split off into a record and job id of its own.
    """

    job_id: int
    request: JobRequest
    uid: int
    gid: int
    user_name: str
    group_name: str
    submit_us: int
    # Resolved by the submit rule.
    account: str
    qos: str
    assoc_id: int
    partition: str  # the comma list as given; once started, the partition that it runs in
    time_limit_min: int
    script_hash: str = ""
    env_hash: str = ""
    # Array.
    array_job_id: int = 0
    array_task_id: int = NO_VAL
    array_pending: tuple[tuple[int, int, int], ...] = ()  # first, last, step; ascending
    array_limit: int = 0
    array_count: int = 0
    array_min: int = 0
    array_max: int = 0
    array_step: int = 0
    # Heterogeneous job.
    het_job_id: int = 0
    het_offset: int = 0
    # Life.
    state: int = 0  # JobState
    flags: int = 0  # JobFlag bits
    reason: int = 0  # Reason that is a fact (held, begin time, why it ended); passes add others
    reason_text: str = ""
    attempt: int = 0  # Slurm's restart count
    priority: int = NO_VAL  # set by hand; 0 is held; NO_VAL: computed
    nice: int = 0
    site_factor: int = 0
    eligible_us: int = 0  # 0 while it waits for a begin time or dependency
    accrue_us: int = 0
    begin_us: int = 0
    start_us: int = 0
    end_us: int = 0
    suspend_us: int = 0  # when it was last suspended or resumed
    suspended_us: int = 0  # how long before that, in all
    last_eval_us: int = 0
    dependencies: tuple[Dependency, ...] = ()
    dependency_any: bool = False
    requeue: bool = False
    exit_code: int = 0  # wait status
    derived_exit_code: int = 0
    cancelled_by: int = NO_VAL  # uid
    scheduler: str = ""  # Main, Backfill
    # Allocation, empty while pending.
    nodes: tuple[NodeAlloc, ...] = ()
    nodes_pending: tuple[int, ...] = ()  # nodes whose terminate duty is open
    batch_node_id: int = -1
    total_tasks: int = 0
    licenses_alloc: str = ""
    steps: dict[int, Step] = {}
    next_step_id: int = 0
    time_signalled: int = 0  # bits: warned (--signal), TERM sent, KILL sent
    kill_us: int = 0  # when the KILL after TERM is due, 0 if none
    failed_node: str = ""
    admin_comment: str = ""
    system_comment: str = ""
    comment: str = ""
    preempt_us: int = 0
    resize_us: int = 0
    alloc_host: str = ""  # salloc / srun connection's host
    reservation: str = ""  # that it runs in; the request names all that it may use
    preempt_end_us: int = 0  # preempted, and killed when this grace is over; 0 without
    preempt_mode: str = ""  # CANCEL or REQUEUE: what happens to it when the grace is over
    suspended_by: int = 0  # the job that preempted it by suspension; 0 if anything else did
    # Nodes for which a waiting job preempted others: kept for it until they are gone.
    claim: tuple[NodeAlloc, ...] = ()
    claim_victims: tuple[int, ...] = ()
    claim_partition: str = ""
    claim_tasks: int = 0  # total_tasks of the start to come
    launch_failures: int = 0  # runs in a row that could not be launched
    rows: int = 1  # how many jobs may share each of its cores; 1: none is shared
    nodes_before: tuple[NodeAlloc, ...] = ()  # of the run that a requeue ended; shown until a start
    nodes_leaving: tuple[NodeAlloc, ...] = ()  # given up, but still to be cleaned of the job
    # Until when its usage has been charged, because it was resized or moved to another QOS then;
    # and how long it had been suspended by then.
    charged_us: int = 0
    charged_suspended_us: int = 0
    start_priority: int = 0  # computed when it started; 0 while it waits
    lost_runs: tuple[LostRun, ...] = ()
    boot_by_us: int = 0  # when its nodes, which boot now, must be up; its time begins by then

    @property
    def sluid(self) -> int:
        """The number of its newest record."""
        return record_sluid(self.submit_us, self.resize_us, self.job_id)

    @property
    def nodes_held(self) -> tuple[NodeAlloc, ...]:
        """What is in use for it while it runs, including nodes that it is leaving."""
        return self.nodes + self.nodes_leaving if self.nodes_leaving else self.nodes

    @property
    def waits_for_proof(self) -> bool:
        """Whether a lost run may still go on, so that the next one has to wait."""
        return any(run.blocks for run in self.lost_runs)


def limit_end_us(job: Job) -> int:
    """Return when a started job's time limit is used up; suspensions extend it. 0 means never."""
    if job.time_limit_min >= NO_VAL:  # INFINITE, too
        return 0
    begin_us = max(job.start_us, job.boot_by_us)
    return begin_us + job.suspended_us + job.time_limit_min * MINUTE_US


def is_completing(job: Job) -> bool:
    """Return whether a job is over but some node still cleans up."""
    return bool(job.flags & JobFlag.COMPLETING)
