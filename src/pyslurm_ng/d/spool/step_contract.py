"""What slurmd and the supervisors say to each other, as types; it is not imported at run time.

They speak msgpack maps, because a supervisor lives for weeks and there is one for each step: a
library that checks records would cost each of them its start and its memory. These types cost
nothing (they are imported under TYPE_CHECKING only), and mypy holds both sides to them.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypedDict

Entries = list[bytes]  # NAME=value


class Route(TypedDict):
    """How a supervisor reaches its srun."""

    host: str
    port: int
    key: bytes


class GroupLimits(TypedDict, total=False):
    """Limits of one control group; a missing limit does not limit."""

    mem_mib: int
    swap_mib: int
    swappiness: int
    cpus: list[int]
    denied: list[list[Any]]
    dies_whole: bool


class CgroupPlan(TypedDict):
    """The control groups of a step: directories by controller, and limits."""

    version: int
    job: dict[str, str]
    step: dict[str, str]
    job_limits: GroupLimits
    step_limits: GroupLimits


class LoginShell(TypedDict):
    """What --get-user-env runs to have a user's environment."""

    shell: str
    home: str
    env: Entries


class Binding(TypedDict):
    """Where one task may run; if that is wrong, the task gets the error instead of a start."""

    cpus: bytes
    memory_mode: int
    memory_nodes: bytes
    report: str
    problem: str


TaskPlace = TypedDict(
    "TaskPlace",
    {
        "task": int,
        "local": int,
        "env": Entries,
        # Files; None goes to and from srun.
        "in": str | None,
        "out": str | None,
        "err": str | None,
    },
)


class TaskSpec(TaskPlace, Binding):
    """One task; `program` is its number in the step's `programs`."""

    program: int


class PrivatePlace(TypedDict):
    """A directory that each job has for itself, and the job's directory that has what is in it."""

    path: str
    directory: str
    flags: int  # MS_*
    tmpfs: bool


class NamespaceSpec(TypedDict):
    """A job's mount namespace on this node, made by its first process here."""

    uid: int
    directories: list[str]  # of this attempt alone; the namespace is kept in the first
    places: list[PrivatePlace]
    shared: bool  # later mounts of the host appear in it
    init_script: str
    script: str
    script_wait_s: int
    epilog: str
    epilog_wait_s: int
    env: Entries  # of the scripts


class StepBase(TypedDict):
    """What scripts and steps have in common."""

    name: str  # 12.0, 12.batch
    job: int
    attempt: int
    step: int
    node: str
    node_index: int  # in the step
    uid: int
    gid: int
    groups: list[int]
    credential: bytes
    kill_wait: int  # seconds
    unkillable_s: int
    cgroup: CgroupPlan | None
    namespace: NamespaceSpec | None
    acct: bool
    acct_every: int  # seconds; 0: never
    memory_limit_kib: int
    counts_shared: bool  # shared memory is part of a task's memory
    meter: MeterSpec | None
    profile: ProfileSpec | None
    oom_kill_step: bool
    is_batch: bool
    pam: str  # the user for whom PAM opens a session; "" without UsePAM
    task_prologs: list[tuple[str, str]]  # what it is called, and the program
    task_epilogs: list[tuple[str, str]]


class MpiSpec(TypedDict):
    """What the tasks' MPI libraries are told; ranks and nodes count over all components."""

    kind: str  # pmi2, pmix
    job: str  # 12.0
    world: str  # no other run has this name: libraries name shared memory after it
    ranks: int
    first_rank: int
    first_node: int
    mapping: str  # which rank is on which node: PMI_process_mapping
    nodes: list[str]
    secret: str  # which only the tasks know; "" for pmi2


class X11Spec(TypedDict):
    """How X clients of a step reach the user's X server through srun."""

    cookie: bytes
    directory: str  # of the file that has it; "": the user's home directory and xauth
    home: str


class PluginsSpec(TypedDict):
    """The plugins of plugstack.conf, in their order."""

    lines: list[dict[str, Any]]  # PlugLine.fields()
    owners: list[int]  # users that a plugin's file may belong to
    limit_s: int  # for one call


class FrequencySpec(TypedDict):
    """What a step's CPUs are set to: `low`, `medium`, `highm1`, `high` or kHz; "" for as is."""

    cpus: list[int]
    low: str
    high: str
    governor: str
    is_asked: bool  # by the user; else by CpuFreqDef


class MeterSpec(TypedDict):
    """What of the file of the node's meter is a step's own; see `d.meter.snapshot`."""

    path: str
    gpus: list[int]  # numbers of device files
    gpu_use: bool
    node_energy: bool
    gpu_energy: bool
    traffic: list[tuple[str, str]]  # TRES of accounting and their part of the file


class ProfileSpec(TypedDict):
    """Which series of a step are kept, and what publishes them."""

    every_s: dict[str, int]  # by series: energy, lustre, network, task
    meter: str  # the path of the file of the node's meter
    command: list[str]  # of `d.profile.publisher`
    starts_at_once: bool
    about: dict[str, Any]  # what the publisher reads


class ClocksSpec(TypedDict):
    """What a step's GPUs are set to: `low`, `medium`, `highm1`, `high` or MHz; "" for as is."""

    command: list[str]  # of `d.meter.clocks`
    gpus: list[int]  # numbers of device files
    graphics: str
    memory: str
    is_verbose: bool
    is_asked: bool  # by the user; else by GpuFreqDef


class StepSpec(StepBase):
    """All that a supervisor is told: the first record of its step's file."""

    duty: int  # of the launch; 0 for a step of srun
    since_us: int  # by the clock of this boot
    env: Entries
    login: LoginShell | None
    cwd: str
    umask: int
    rlimits: list[tuple[int, int, int]]
    nice: int
    script: bytes
    spool: str
    append: bool
    route: Route | None
    label: bool
    label_width: int
    pty: bool
    rows: int
    columns: int
    no_kill: bool
    waits_for_children: bool
    programs: list[list[str]]
    script_word: int  # the place of the batch script among the words of its program
    tasks: list[TaskSpec]
    mpi: MpiSpec | None
    x11: X11Spec | None
    plugins: PluginsSpec | None
    frequency: FrequencySpec | None
    clocks: ClocksSpec | None


class FileSpec(TypedDict):
    """A file that sbcast sends: its user, its path and its final attributes."""

    uid: int
    gid: int
    groups: list[int]
    path: str
    mode: int
    times_us: list[int]
    force: bool
    make_directory: bool
    is_packed: bool
    group_files: list[str]  # by which the writer joins its job's control group
    namespace: NamespaceSpec | None


class ReadSpec(TypedDict):
    """A part of a job's output that its owner reads; `offset` of -1 means the last bytes."""

    uid: int
    gid: int
    groups: list[int]
    path: str
    offset: int
    length: int
    namespace: NamespaceSpec | None


# Orders to a supervisor --------------------------------------------------------------------------


class SignalOrder(TypedDict):
    """Signal the script alone, or all processes of the step."""

    do: Literal["signal"]
    number: int
    scope: Literal["script", "all"]


class TerminateOrder(TypedDict):
    """End the step: SIGTERM, and SIGKILL after `wait_s`; `why` goes to its stderr."""

    do: Literal["terminate"]
    why: str
    wait_s: float


class SuspendOrder(TypedDict):
    """Stop all processes of the step, or let them go on."""

    do: Literal["suspend", "resume"]


class SayOrder(TypedDict):
    """Write a line to the step's stderr."""

    do: Literal["say"]
    text: str


class Question(TypedDict):
    """Ask whether it is there, for its processes, or for its usage; `tag` comes back."""

    do: Literal["ping", "pids", "usage"]
    tag: int


class ReaderOrder(TypedDict):
    """Connect to a sattach, or only say which tasks are here; `tag` comes back."""

    do: Literal["reader"]
    tag: int
    route: Route | None


class AdoptOrder(TypedDict):
    """Take a process from outside into an extern step; `tag` comes back."""

    do: Literal["adopt"]
    tag: int
    pid: int
    start: int  # in ticks since boot


Order: TypeAlias = (
    "SignalOrder | TerminateOrder | SuspendOrder | SayOrder | Question | ReaderOrder | AdoptOrder"
)
