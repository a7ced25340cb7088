"""The variables that jobs, steps and tasks find: one pure function for each of them.

Later entries win: what the user sent, then the job's, then the step's, then the task's. Facts of
this host come in `NodeSettings`, so nothing here looks at the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from pyslurm_ng.base.hostlist import fold, fold_numbers
from pyslurm_ng.base.numbers import (
    NO_VAL,
    REQ_EXPORT_NONE,
    REQ_GET_USER_ENV,
    REQ_MEM_SET,
    REQ_NTASKS_SET,
    REQ_OVERCOMMIT,
    SECOND_US,
)
from pyslurm_ng.d.host.gpu_names import CUDA, GPU_VARIABLES, ROCR
from pyslurm_ng.d.spec import step_manager
from pyslurm_ng.d.spec.task_tres import as_typed, task_resources
from pyslurm_ng.model.ids import STEP_BATCH, step_variable
from pyslurm_ng.model.job import JobRequest, NodeAlloc
from pyslurm_ng.model.task_counts import usable_cpus
from pyslurm_ng.sched.cons_tres.layout import counts_text, shown_distribution, tasks_on_nodes
from pyslurm_ng.wire.node_messages import JobCredential, LaunchStep

_NICEST = 19
_TASK_TRES = "SLURM_TRES_PER_TASK"
_LAUNCHERS = {
    "HYDRA_BOOTSTRAP": "slurm",
    "HYDRA_LAUNCHER_EXTRA_ARGS": "--external-launcher",
    "I_MPI_HYDRA_BOOTSTRAP": "slurm",
    "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": "--external-launcher",
    "OMPI_MCA_plm_slurm_args": "--external-launcher",
    "PRTE_MCA_plm_slurm_args": "--external-launcher",
}
_OTHER_LAUNCHERS = {name: word for name, word in _LAUNCHERS.items() if "HYDRA" not in name}


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """What of this node and its configuration goes into environments."""

    node_name: str
    host_name: str
    conf_path: str
    tmp_dir: str = "/tmp"
    oom_kill_step: bool = False
    mem_per_cpu_mib: int = 0  # defaults of partition or cluster, shown as if asked for
    mem_per_node_mib: int = 0
    starts_hydra: bool = True


@dataclass(frozen=True, slots=True)
class GpuView:
    """GPUs as their users are to see them.

    `job` are the host numbers the job holds here, `step` those of the step or task, `visible`
    the numbers that go into CUDA_VISIBLE_DEVICES: counted from 0 where devices are confined.
    A job may have GPUs in parts instead: `in_parts`, so many `shards` or such a percentage of MPS.
    """

    job: Sequence[int] = ()
    step: Sequence[int] = ()
    visible: Sequence[int] = ()
    names: Sequence[str] = ()  # UUIDs in place of these numbers
    in_parts: bool = False
    shards: int = 0
    mps_percentage: int = 0
    variables: Sequence[str] = GPU_VARIABLES


def parse_environment(blob: bytes) -> dict[str, str]:
    """Return the NAME=VALUE entries of a blob, each ended by NUL; others are left out."""
    environment = {}
    for entry in blob.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals and name:
            environment[_text(name)] = _text(value)
    return environment


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def entries(variables: dict[str, str]) -> list[bytes]:
    """Return variables as exec wants them."""
    return [
        f"{name}={value}".encode("utf-8", "surrogateescape") for name, value in variables.items()
    ]


# The job --------------------------------------------------------------------------------------


def job_variables(credential: JobCredential, settings: NodeSettings) -> dict[str, str]:
    """Return what every process of a job sees, whichever step it belongs to."""
    request = credential.request
    nodes = fold(list(credential.nodes))
    variables = {
        "SLURM_CLUSTER_NAME": credential.cluster,
        "SLURM_CONF": settings.conf_path,
        "SLURM_JOBID": str(credential.job_id),
        "SLURM_JOB_ID": str(credential.job_id),
        "SLURM_JOB_NAME": credential.job_name or "sbatch",
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_NODELIST": nodes,
        "SLURM_JOB_NUM_NODES": str(len(credential.nodes)),
        "SLURM_JOB_CPUS_PER_NODE": counts_text(
            usable_cpus(request, alloc) for alloc in credential.allocs
        ),
        "SLURM_JOB_PARTITION": credential.partition,
        "SLURM_JOB_UID": str(credential.uid),
        "SLURM_JOB_GID": str(credential.gid),
        "SLURM_JOB_USER": credential.user_name,
        "SLURM_JOB_START_TIME": str(credential.start_us // SECOND_US),
        "SLURM_OOM_KILL_STEP": str(int(settings.oom_kill_step)),
    }
    for name, value in (
        ("SLURM_JOB_SLUID", credential.sluid),
        ("SLURM_JOB_ACCOUNT", credential.account),
        ("SLURM_JOB_QOS", credential.qos),
        ("SLURM_JOB_RESERVATION", credential.reservation),
        ("SLURM_JOB_LICENSES", credential.licenses),
        ("SLURM_JOB_DEPENDENCY", credential.dependency),
        ("SLURM_WCKEY", credential.wckey),
        ("SLURM_NETWORK", request.network),
        ("SLURM_CONTAINER", request.container),
    ):
        if value:
            variables[name] = value
    if credential.end_us:
        variables["SLURM_JOB_END_TIME"] = str(credential.end_us // SECOND_US)
    if request.segment:
        variables["SLURM_JOB_SEGMENT_SIZE"] = str(request.segment)
    variables |= array_variables(credential)
    if request.flags & REQ_OVERCOMMIT:
        variables["SLURM_OVERCOMMIT"] = "1"
    return variables


def _memory(credential: JobCredential, settings: NodeSettings) -> dict[str, str]:
    """Return the one memory variable that applies: as asked for, else the default."""
    request = credential.request
    for name, asked in (
        ("SLURM_MEM_PER_NODE", request.mem_per_node_mib),
        ("SLURM_MEM_PER_CPU", request.mem_per_cpu_mib),
        ("SLURM_MEM_PER_GPU", request.mem_per_gpu_mib),
    ):
        if asked:
            return {name: str(asked)}
    if request.flags & REQ_MEM_SET:
        return {"SLURM_MEM_PER_NODE": "0"}
    if settings.mem_per_cpu_mib:
        return {"SLURM_MEM_PER_CPU": str(settings.mem_per_cpu_mib)}
    if settings.mem_per_node_mib:
        return {"SLURM_MEM_PER_NODE": str(settings.mem_per_node_mib)}
    return {}


def array_variables(credential: JobCredential) -> dict[str, str]:
    if not credential.array_job_id or credential.array_task_id == NO_VAL:
        return {}
    return {
        "SLURM_ARRAY_JOB_ID": str(credential.array_job_id),
        "SLURM_ARRAY_TASK_ID": str(credential.array_task_id),
        "SLURM_ARRAY_TASK_COUNT": str(credential.array_count),
        "SLURM_ARRAY_TASK_MAX": str(credential.array_max),
        "SLURM_ARRAY_TASK_MIN": str(credential.array_min),
        "SLURM_ARRAY_TASK_STEP": str(credential.array_step or 1),
    }


def _ports_wish(count: int) -> str:
    """Return what makes an srun ask for ports as its job did: a count, or that some are wanted."""
    return "" if count == NO_VAL else str(count or "set")


def request_variables(request: JobRequest, allocs: Sequence[NodeAlloc]) -> dict[str, str]:
    """Return what repeats the options of sbatch and salloc, and the task count they amount to."""
    numbers = (
        ("SLURM_NTASKS_PER_NODE", request.ntasks_per_node),
        ("SLURM_NTASKS_PER_CORE", request.ntasks_per_core),
        ("SLURM_NTASKS_PER_SOCKET", request.ntasks_per_socket),
        ("SLURM_NTASKS_PER_GPU", request.ntasks_per_gpu),
        ("SLURM_CPUS_PER_TASK", request.cpus_per_task),
        ("SLURM_CPUS_PER_GPU", request.cpus_per_gpu),
        # A hint has set it, and srun takes only one of the two from its variables.
        ("SLURM_THREADS_PER_CORE", 0 if request.hint else request.threads_per_core),
        ("SLURM_DIST_PLANESIZE", request.plane_size),
    )
    texts = (
        ("SLURM_HINT", request.hint),
        ("SLURM_RESV_PORTS", _ports_wish(request.resv_ports)),
        ("SLURM_GPUS", request.gpus),
        ("SLURM_GPUS_PER_NODE", request.gpus_per_node),
        ("SLURM_GPUS_PER_SOCKET", request.gpus_per_socket),
        ("SLURM_GPUS_PER_TASK", request.gpus_per_task),
        ("SLURM_GPU_BIND", request.gpu_bind),
        ("SLURM_TRES_BIND", request.tres_bind),
        ("SLURM_DISTRIBUTION", shown_distribution(request.distribution, request.plane_size)),
        ("SLURM_PROFILE", request.profile),
    )
    variables = {name: str(value) for name, value in numbers if value}
    variables |= {name: value.removeprefix("gpu:") for name, value in texts if value}
    tres = tres_per_task(request)
    if tres:
        variables[_TASK_TRES] = tres
    if request.flags & REQ_NTASKS_SET and request.ntasks:
        variables["SLURM_NTASKS"] = variables["SLURM_NPROCS"] = str(request.ntasks)
    elif request.ntasks_per_node:
        tasks = request.ntasks_per_node * len(allocs)
        variables["SLURM_NTASKS"] = variables["SLURM_NPROCS"] = str(tasks)
    elif request.ntasks_per_gpu or request.gpus_per_task:
        tasks = sum(alloc.tasks for alloc in allocs)
        variables["SLURM_NTASKS"] = variables["SLURM_NPROCS"] = str(tasks)
    return variables


def tres_per_task(request: JobRequest) -> str:
    """Return SLURM_TRES_PER_TASK: as asked, or what -c and --gpus-per-task amount to."""
    words = [f"cpu={request.cpus_per_task}"] if request.cpus_per_task else []
    if request.gpus_per_task:
        kind, _, count = request.gpus_per_task.rpartition(":")
        kind = kind.removeprefix("gpu").lstrip(":")
        words.append(f"gres/gpu:{kind}={count}" if kind else f"gres/gpu={count}")
    if request.tres_per_task:
        words.append(request.tres_per_task)
    return ",".join(words)


def gpu_variables(view: GpuView, *, is_step: bool) -> dict[str, str]:
    """Return the variables of GPUs; none where the job has none here."""
    if not view.job and not view.in_parts:
        return {}
    variables = dict.fromkeys(view.variables, _list(view.visible))
    for name in (CUDA, ROCR):
        if view.names and name in variables:
            variables[name] = ",".join(view.names)
    if view.shards:
        variables["SLURM_SHARDS_ON_NODE"] = str(view.shards)
    if view.mps_percentage:
        variables["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(view.mps_percentage)
    if not view.job:
        return variables
    variables["SLURM_JOB_GPUS"] = _list(view.job)
    if is_step:
        variables["SLURM_STEP_GPUS"] = _list(view.step)
    return variables


def variables_of_parts(view: GpuView) -> tuple[str, ...]:
    """Return names that only jobs with GPUs in parts have from here; others may set them."""
    names = ("SLURM_SHARDS_ON_NODE", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE")
    return names if view.in_parts else names[:1]


def _list(numbers: Iterable[int]) -> str:
    return ",".join(map(str, numbers))


# The batch script -----------------------------------------------------------------------------


def batch_environment(
    credential: JobCredential,
    settings: NodeSettings,
    sent: dict[str, str],
    gpus: GpuView,
    login: dict[str, str],
) -> dict[str, str]:
    """Return a batch script's environment but for SLURM_TASK_PID.

    Args:
        sent: what sbatch let through.
        login: the user's login variables, for what `sent` does not have.
    """
    alloc = _alloc_here(credential.nodes, credential.allocs, settings.node_name)
    variables = dict(login)
    variables |= sent
    variables |= job_variables(credential, settings)
    meant = request_variables(credential.request, credential.allocs)
    variables |= meant | as_typed(sent.get(_TASK_TRES, ""), meant.get(_TASK_TRES, ""))
    # Steps get these from the script that starts them, not from the job: srun alone has none.
    variables |= _memory(credential, settings)
    variables |= {
        "SLURM_JOB_OVERSUBSCRIBE": credential.oversubscribe,
        "SLURM_JOB_EXCLUSIVE": credential.exclusive,
        "ENVIRONMENT": "BATCH",
        "HOSTNAME": settings.host_name,
        "TMPDIR": settings.tmp_dir,
        "SLURMD_NODENAME": settings.node_name,
        "SLURM_NNODES": str(len(credential.nodes)),
        "SLURM_CPUS_ON_NODE": str(usable_cpus(credential.request, alloc)),
        "SLURM_TASKS_PER_NODE": counts_text(tasks_on_nodes(credential.request, credential.allocs)),
        "SLURM_NODEID": "0",
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_GTIDS": "0",
        "SLURM_STEPID": "-5",
        "SLURM_STEP_ID": "-5",
        "SLURM_RESTART_COUNT": str(credential.attempt),
        "SLURM_SUBMIT_DIR": sent.get("SLURM_SUBMIT_DIR", credential.request.work_dir),
        "SLURM_SUBMIT_HOST": sent.get("SLURM_SUBMIT_HOST", credential.request.alloc_node),
        "SLURM_PRIO_PROCESS": sent.get("SLURM_PRIO_PROCESS", "0"),
    }
    variables |= topology_variables(credential, settings.node_name)
    variables |= step_manager.manager_variables(credential)
    variables |= _het_variables(credential, settings)
    variables |= gpu_variables(gpus, is_step=False)
    if gpus.job:
        variables["SLURM_GPUS_ON_NODE"] = str(len(gpus.job))
    return variables | (_LAUNCHERS if settings.starts_hydra else _OTHER_LAUNCHERS)


_OF_COMPONENTS = (
    "SLURM_JOB_ID", "SLURM_JOB_NAME", "SLURM_JOB_NODELIST", "SLURM_JOB_NUM_NODES",
    "SLURM_JOB_CPUS_PER_NODE", "SLURM_JOB_PARTITION", "SLURM_JOB_ACCOUNT", "SLURM_JOB_QOS",
    "SLURM_JOB_RESERVATION",
)  # fmt: skip


def _het_variables(credential: JobCredential, settings: NodeSettings) -> dict[str, str]:
    """Return what a heterogeneous job's script is told of each component, in both spellings."""
    components = credential.het_components
    if not components:
        return {}
    size = str(len(components))
    variables = {"SLURM_HET_SIZE": size, "SLURM_PACK_SIZE": size}
    for offset, component in enumerate(components):
        own = msgspec.structs.replace(
            credential,
            job_id=component.job_id,
            job_name=component.job_name,
            request=component.request,
            nodes=component.nodes,
            allocs=component.allocs,
            partition=component.partition,
            account=component.account,
            qos=component.qos,
            het_components=(),
        )
        own_variables = {
            name: value
            for name, value in job_variables(own, settings).items()
            if name in _OF_COMPONENTS
        }
        own_variables |= request_variables(component.request, component.allocs)
        own_variables |= _memory(own, settings)
        own_variables["SLURM_TASKS_PER_NODE"] = counts_text(
            tasks_on_nodes(component.request, component.allocs)
        )
        for name, value in own_variables.items():
            variables[f"{name}_HET_GROUP_{offset}"] = value
            variables[f"{name}_PACK_GROUP_{offset}"] = value
    return variables


def topology_variables(credential: JobCredential, node_name: str) -> dict[str, str]:
    """Return where this node is in the network; a flat one has only nodes."""
    address, pattern = node_name, "node"
    if credential.node_addresses:
        position = credential.nodes.index(node_name)
        address = credential.node_addresses[position] or node_name
        pattern = credential.address_pattern or "node"
    return {"SLURM_TOPOLOGY_ADDR": address, "SLURM_TOPOLOGY_ADDR_PATTERN": pattern}


def _alloc_here(nodes: Sequence[str], allocs: Sequence[NodeAlloc], node_name: str) -> NodeAlloc:
    return allocs[nodes.index(node_name)]


# Steps ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SrunAddress:
    """Where the srun of a step is."""

    host: str = ""
    port: int = 0
    umask: int = 0o22


def step_environment(
    credential: JobCredential,
    settings: NodeSettings,
    sent: dict[str, str],
    srun: SrunAddress,
) -> dict[str, str]:
    """Return what all tasks of a step on this node share; `sent` is srun's own environment."""
    alloc = _alloc_here(credential.step_nodes, credential.step_allocs, settings.node_name)
    node_id = credential.step_nodes.index(settings.node_name)
    counts = [len(tasks) for tasks in credential.step_tasks]
    total = sum(counts)
    step_id = step_variable(credential.step_id)
    variables = dict(sent)
    variables |= job_variables(credential, settings)
    if credential.het_job_id:
        # Components are told by their groups; for tasks the job has one id, that of the first.
        variables |= dict.fromkeys(("SLURM_JOB_ID", "SLURM_JOBID"), str(credential.het_job_id))
    if credential.step_ports:
        variables["SLURM_STEP_RESV_PORTS"] = fold_numbers(credential.step_ports)
    variables["SLURM_JOB_NAME"] = sent.get("SLURM_JOB_NAME", variables["SLURM_JOB_NAME"])
    variables.pop("SLURM_GPUS_PER_TASK", None)  # said by SLURM_TRES_PER_TASK
    variables.pop("SLURM_GPUS_ON_NODE", None)  # of the job; a step may have fewer
    gpus = sum(gres.count for gres in alloc.gres if gres.name == "gpu")
    if gpus:
        variables["SLURM_GPUS_ON_NODE"] = str(gpus)
    variables |= {
        "SLURMD_DEBUG": "2",
        "SLURMD_NODENAME": settings.node_name,
        "SLURM_JOB_GROUP": credential.group_name,
        "SLURM_NNODES": str(len(credential.step_nodes)),
        "SLURM_CPUS_ON_NODE": str(alloc.cpus),
        "SLURM_TASKS_PER_NODE": counts_text(counts),
        "SLURM_NTASKS": str(total),
        "SLURM_NPROCS": str(total),
        "SLURM_NODEID": str(node_id),
        "SLURM_GTIDS": _list(credential.step_tasks[node_id]),
        "SLURM_STEPID": step_id,
        "SLURM_STEP_ID": step_id,
        "SLURM_STEP_NODELIST": fold(list(credential.step_nodes)),
        "SLURM_STEP_NUM_NODES": str(len(credential.step_nodes)),
        "SLURM_STEP_NUM_TASKS": str(total),
        "SLURM_STEP_TASKS_PER_NODE": counts_text(counts),
        "SLURM_UMASK": f"{srun.umask:04o}",
        "SLURM_PRIO_PROCESS": sent.get("SLURM_PRIO_PROCESS", "0"),
        "TMPDIR": sent.get("TMPDIR", settings.tmp_dir),
    }
    if srun.host:
        variables["SLURM_LAUNCH_NODE_IPADDR"] = srun.host
        variables["SLURM_SRUN_COMM_HOST"] = srun.host
    if srun.port:
        variables["SLURM_SRUN_COMM_PORT"] = str(srun.port)
        variables["SLURM_STEP_LAUNCHER_PORT"] = str(srun.port)
    if credential.step_cpus_per_task:
        variables["SLURM_CPUS_PER_TASK"] = str(credential.step_cpus_per_task)
    asked = credential.request
    asks_memory = asked.mem_per_node_mib or asked.mem_per_cpu_mib
    if credential.step_distribution and ("SLURM_JOB_ID" in sent or asks_memory):
        # As with Slurm: an srun that makes its allocation shows the default for --mem only.
        variables["SLURM_DISTRIBUTION"] = credential.step_distribution
    variables |= _step_tres(credential, sent.get(_TASK_TRES, ""))
    variables |= topology_variables(credential, settings.node_name)
    return variables


def _step_tres(credential: JobCredential, typed: str) -> dict[str, str]:
    """Return what a step says of its resources for each task and of their binding.

    Args:
        typed: --tres-per-task as srun's user, or the job's, wrote it; it stands if it is true.
    """
    variables = {}
    words = [f"cpu={credential.step_cpus_per_task}"] if credential.step_cpus_per_task else []
    bind = credential.step_tres_bind
    if credential.step_gpus_per_task:
        words.append(f"gres/gpu={credential.step_gpus_per_task}")
        bind = bind or f"gres/gpu:per_task:{credential.step_gpus_per_task}"
    own = (credential.step_cpus_per_task, credential.step_gpus_per_task)
    if words and (not typed or (task_resources(typed) or ())[:2] != own):
        variables[_TASK_TRES] = ",".join(words)
    if bind:
        variables["SLURM_TRES_BIND"] = variables["SLURMD_TRES_BIND"] = bind
    return variables


def het_step_variables(
    task_ids: Sequence[int], node_index: int, request: LaunchStep
) -> dict[str, str]:
    """Return what a step says that is one of several components' with common ranks and nodes.

    Nodes are in the order of components, so that SLURM_NODEID is a place among them.
    """
    tasks, nodes = str(request.all_ranks), str(request.all_node_count)
    per_node = request.all_tasks_per_node
    return {
        "SLURM_NTASKS": tasks,
        "SLURM_NPROCS": tasks,
        "SLURM_STEP_NUM_TASKS": tasks,
        "SLURM_GTIDS": _list(request.first_rank + task_id for task_id in task_ids),
        "SLURM_NODEID": str(request.first_node + node_index),
        "SLURM_NNODES": nodes,
        "SLURM_STEP_NUM_NODES": nodes,
        "SLURM_NODELIST": request.all_job_nodes,
        "SLURM_STEP_NODELIST": request.all_nodes,
        "SLURM_TASKS_PER_NODE": per_node,
        "SLURM_STEP_TASKS_PER_NODE": per_node,
        "SLURM_JOB_NUM_NODES": str(request.all_job_node_count),
        "SLURM_JOB_NODELIST": request.all_job_nodes,
        "SLURM_JOB_CPUS_PER_NODE": request.all_cpus_per_node,
    }


def task_variables(task_id: int, local_id: int, gpus: GpuView) -> dict[str, str]:
    """Return the variables of one task of a step, except SLURM_TASK_PID."""
    variables = {"SLURM_PROCID": str(task_id), "SLURM_LOCALID": str(local_id)}
    variables |= gpu_variables(gpus, is_step=True)
    return variables


def task_nice(mode: int, sent: Mapping[str, str], uid: int, own: int) -> int | None:
    """Return the nice value of a job's tasks as PropagatePrioProcess wants it; None for slurmd's.

    Only root's tasks may have a higher priority than slurmd, and with mode 2 no tasks.

    Args:
        sent: the submitting command's environment: its SLURM_PRIO_PROCESS is propagated.
        own: slurmd's nice value.
    """
    text = sent.get("SLURM_PRIO_PROCESS", "")
    if not mode or not text.lstrip("-").isdecimal():
        return None
    if mode == 1 and not uid:
        return min(int(text), _NICEST)
    return min(max(int(text), own + 1 if mode == 2 else own), _NICEST)


# Logins -----------------------------------------------------------------------------------------


def wants_login(flags: int, sent: dict[str, str]) -> bool:
    """Return whether a job is to have the variables of a login.

    With --export=NIL, which is REQ_EXPORT_NONE alone, its variables are Slurm's and no others.
    """
    if flags & REQ_GET_USER_ENV:
        return True
    return "HOME" not in sent and not flags & REQ_EXPORT_NONE


def login_variables(user_name: str, home: str, shell: str) -> dict[str, str]:
    """Return what a fresh login would set, for jobs that bring few variables."""
    return {
        "HOME": home,
        "LOGNAME": user_name,
        "MAIL": f"/var/mail/{user_name}",
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games",
        "SHELL": shell or "/bin/sh",
        "USER": user_name,
    }


def is_batch(credential: JobCredential) -> bool:
    """Return whether a credential is for a batch script."""
    return credential.step_id == STEP_BATCH
