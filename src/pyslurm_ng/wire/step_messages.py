"""Steps and allocations: what srun and salloc ask of the controller when there is a job.

`CreateStep` and `AllocateJob` (wire.job_messages) stay open: their answers come one after the
other on the same request, the last when the step or the allocation is over. A command that loses
the connection asks again with the same request id and is given the same step or job. If the
connection of an allocation is lost for longer than a grace period, the job is ended.

    CreateStep  -> StepWaiting*, StepGranted, StepOver, or StepManagerAt
    AllocateJob -> JobAccepted, AllocationGranted, JobNotice*, AllocationOver
"""

from typing import Annotated

import msgspec

from pyslurm_ng.base.numbers import INFINITE, NO_VAL
from pyslurm_ng.model import bounds as b
from pyslurm_ng.wire.table import RequestId, message, reply

MOST_STEP_NAMES = 65536
"""The most node names of one message: more tasks are never placed singly.

A million of them took the controller 10 ms to decode.
"""
_Names = Annotated[list[b.NameText], msgspec.Meta(max_length=MOST_STEP_NAMES)]


@message(kind="CreateStep", roles="user", owner_rule="owner", rate="change", max_bytes=4 << 20,
         stays_open=True)  # fmt: skip
class CreateStep(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Give a step its share of a running job; counts of 0 and texts of "" mean "not given".

    `flags` are model.job.STEP_*. Without STEP_EXACT the step takes all that the job has on its
    nodes. `task_nodes` names the node of each task (--distribution=arbitrary). A request that
    must wait for other steps is answered later, unless `no_wait`.
    """

    request_id: RequestId
    job_id: b.JobIdField
    array_task_id: b.Number32 = NO_VAL
    name: b.JobNameText = ""
    ntasks: b.StepCount = 0
    ntasks_per_node: b.StepCount = 0
    ntasks_per_socket: b.StepCount = 0
    nodes_min: b.StepCount = 0
    nodes_max: b.StepCount = 0
    cpus_per_task: b.StepCount = 0
    threads_per_core: b.StepCount = 0
    flags: b.FlagBits = 0
    overcommit: bool = False
    mem_per_node_mib: b.Mebibytes = 0
    mem_per_cpu_mib: b.Mebibytes = 0
    gres: b.ListText = ""  # --gres: per node; `none` for nothing at all
    gpus: b.ListText = ""
    gpus_per_node: b.ListText = ""
    gpus_per_task: b.ListText = ""
    tres_per_task: b.ListText = ""  # `gres/shard=1`: resources other than CPUs and GPUs
    node_list: b.HostListText = ""
    exclude: b.HostListText = ""
    task_nodes: _Names = []
    relative: Annotated[int, msgspec.Meta(ge=-1, le=1 << 24)] = -1
    distribution: b.WordText = ""
    plane_size: b.StepCount = 0
    tres_bind: b.LongText = ""
    resv_ports: Annotated[int, msgspec.Meta(ge=-1, le=65535)] = -1  # -1: none; 0: by the tasks
    time_limit_min: b.Minutes = INFINITE
    no_wait: bool = False
    srun_host: b.HostText = ""
    srun_pid: b.Pid = 0
    srun_port: b.Number16 = 0
    submit_line: b.LongText = ""
    cwd: b.PathText = ""
    std_in: b.PathText = ""
    std_out: b.PathText = ""
    std_err: b.PathText = ""
    network: b.ShortText = ""
    container: b.PathText = ""
    container_id: b.ShortText = ""


@reply("StepWaiting", max_bytes=65536)
class StepWaiting(msgspec.Struct, frozen=True):
    """The step must wait; `code` and `text` say for what. More answers follow."""

    code: int
    text: str


@reply("StepGranted")
class StepGranted(msgspec.Struct, frozen=True):
    """The step exists. `nodes`, `addresses`, `tasks` and `cpus` are parallel.

    `tasks` holds the global task ids of each node; `credential` starts them (LaunchStep).
    """

    job_id: int
    step_id: int
    nodes: list[str]
    addresses: list[tuple[str, int]]
    tasks: list[list[int]]
    cpus: list[int]
    distribution: str
    cpus_per_task: int
    kill_wait_s: int
    gpus_per_task: int = 0
    flags: int = 0
    credential: bytes = b""


@reply("StepManagerAt", max_bytes=65536)
class StepManagerAt(msgspec.Struct, frozen=True):
    """The job's own step manager gives its steps their shares: ask that node daemon."""

    job_id: int
    node: str
    address: tuple[str, int]


@reply("StepOver", max_bytes=65536)
class StepOver(msgspec.Struct, frozen=True):
    """Every node has reported the step's end, or its job is over."""

    job_id: int
    step_id: int
    state: int
    exit_code: int
    job_state: int
    reason: int = 0


@message(kind="CompleteStep", roles="user", owner_rule="owner", rate="change", max_bytes=4 << 20)
class CompleteStep(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """srun could not launch on `nodes`: nothing of the step runs there, and no report will come."""

    request_id: RequestId
    job_id: b.JobIdField
    step_id: b.JobIdField
    nodes: _Names
    exit_code: b.WaitStatus = 0  # wait status


@message(kind="AskFileCredential", roles="user", owner_rule="owner", rate="read", max_bytes=4096)
class AskFileCredential(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Ask for what sbcast needs to write files on the nodes of a job, or of one step of it."""

    job_id: b.JobIdField
    step_id: b.Number32 = NO_VAL


@reply("FileCredential")
class FileCredential(msgspec.Struct, frozen=True):
    """The nodes of a job; `credential` lets its owner write there (SendFile)."""

    job_id: int
    nodes: list[str]
    addresses: list[tuple[str, int]]
    credential: bytes


class GrantedComponent(msgspec.Struct, frozen=True):
    """What a job, or one component of a heterogeneous job, has.

    `cpus_per_node` and `tasks_per_node` are in the repeat form; `end_us` is 0 for no limit.
    """

    job_id: int
    name: str
    cluster: str
    partition: str
    account: str
    qos: str
    nodes: str
    node_count: int
    cpus_per_node: str
    tasks_per_node: str
    ntasks: int
    start_us: int
    end_us: int
    time_limit_min: int
    reservation: str = ""
    licenses: str = ""
    step_manager: tuple[str, str, int] = ("", "", 0)  # its node, address and port


@reply("AllocationGranted")
class AllocationGranted(GrantedComponent, frozen=True):
    """The job has its resources and its nodes are prepared.

    `components` are those of a heterogeneous job, the first included. `variables` are `NAME=value`
    of the site for the command: of slurm_bb_paths.
    """

    components: list[GrantedComponent] = []
    variables: tuple[str, ...] = ()


@reply("JobNotice", max_bytes=65536)
class JobNotice(msgspec.Struct, frozen=True):
    """A line for the stderr of the command that waits for the job (`scontrol notify`)."""

    job_id: int
    text: str


@reply("AllocationOver", max_bytes=65536)
class AllocationOver(msgspec.Struct, frozen=True):
    """The allocation ended, or the job ended before it got one."""

    job_id: int
    state: int
    exit_code: int
    reason: int = 0


@message(kind="CompleteJob", roles="user", owner_rule="owner", rate="change", max_bytes=4096)
class CompleteJob(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """salloc, srun: the work in this allocation is over with this wait status.

    A job that is still pending is cancelled ("revoked").
    """

    request_id: RequestId
    job_id: b.JobIdField
    exit_code: b.WaitStatus = 0
