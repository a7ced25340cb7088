"""Credential and request -> the plain map that a supervisor carries out (see d.stepd.supervisor).

Everything is decided here, so that the supervisor needs no configuration: environment, files,
limits, control groups, CPUs and GPUs of each task.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, get_args

from pyslurm_ng.base import bind_words
from pyslurm_ng.base.bind_words import BindWordsError
from pyslurm_ng.base.gpu_bind import GpuBind, GpuBindError, gpu_part, parse_gpu_bind
from pyslurm_ng.base.numbers import REQ_GET_USER_ENV, REQ_OPEN_APPEND, REQ_OPEN_TRUNCATE
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.conf.values import has_option
from pyslurm_ng.d.host import binding, gres
from pyslurm_ng.d.host.cgroup import Group
from pyslurm_ng.d.host.gpu_binding import TaskGpus, gpu_line, near_gpus, task_gpus
from pyslurm_ng.d.spec import (
    accounting_frequency,
    environment,
    job_counts,
    step_clocks,
    step_frequency,
    step_meter,
    step_mpi,
    step_profile,
    step_x11,
    task_binding,
)
from pyslurm_ng.d.spec.container_spec import words_before
from pyslurm_ng.d.spec.memory_limits import memory_limits
from pyslurm_ng.d.spec.node_setup import (
    Account,
    NodeSetup,
    SpecError,
    alloc_of,
    gpu_view,
    node_settings,
    oom_kill_step,
)
from pyslurm_ng.model import output_names
from pyslurm_ng.model.bounds import RlimitName
from pyslurm_ng.model.ids import STEP_BATCH, STEP_EXTERN, STEP_INTERACTIVE, step_text
from pyslurm_ng.wire import node_messages as nm

if TYPE_CHECKING:
    from pyslurm_ng.d.spool import step_contract as sc

_NULL = "/dev/null"
_UNLIMITED = 1 << 62
_MOST_FOR_EXEC = 6 << 20
"""Bytes of arguments, environment and the pointers to them; the kernel takes no more than that."""
_SAME_NICE = 100  # tells `spawn` to leave it as it is
_LIMITS = {name: getattr(resource, f"RLIMIT_{name}") for name in get_args(RlimitName)}
"""The limits that Slurm propagates; others (RTPRIO, NICE) are the node's business."""


# Common parts ---------------------------------------------------------------------------------


def step_base(
    setup: NodeSetup,
    credential: nm.JobCredential,
    account: Account,
    raw_credential: bytes,
    freq: str = "",
    profile: str = "",
) -> sc.StepBase:
    """Return what scripts and steps have in common, by srun's --acctg-freq and --profile."""
    conf = setup.conf
    every, is_counted = accounting_frequency.sampling(setup, credential.request.acctg_freq, freq)
    step_alloc = alloc_of(credential.step_nodes, credential.step_allocs, setup.node_name)
    over_memory = has_option(conf.job_acct_gather_params, "OverMemoryKill")
    limit_kib = step_alloc.mem_mib * 1024 if over_memory and step_alloc is not None else 0
    return {
        "name": f"{credential.job_id}.{step_text(credential.step_id)}",
        "job": credential.job_id,
        "attempt": credential.attempt,
        "step": credential.step_id,
        "node": setup.node_name,
        "node_index": max(0, _index(credential.step_nodes, setup.node_name)),
        "uid": credential.uid,
        "gid": credential.gid,
        "groups": list(account.groups),
        "credential": raw_credential,
        "kill_wait": conf.kill_wait,
        "unkillable_s": conf.unkillable_step_timeout,
        "cgroup": cgroup_plan(setup, credential),
        "namespace": None,
        "acct": is_counted,
        "acct_every": every,
        "memory_limit_kib": limit_kib,
        "counts_shared": not has_option(conf.job_acct_gather_params, "NoShared"),
        "meter": step_meter.meter_spec(setup, credential) if is_counted else None,
        "profile": step_profile.profile_spec(setup, credential, account, every, profile, freq),
        "oom_kill_step": False,
        "is_batch": credential.step_id == STEP_BATCH,
        "pam": credential.user_name if conf.use_pam else "",
        "task_prologs": [("TaskProlog", conf.task_prolog)] if conf.task_prolog else [],
        "task_epilogs": [("TaskEpilog", conf.task_epilog)] if conf.task_epilog else [],
    }


def _end_with_memory(spec: sc.StepSpec, *, ends: bool) -> None:
    """Let a step end as a whole when one of its tasks is out of memory."""
    spec["oom_kill_step"] = ends
    if ends and spec["cgroup"] is not None:
        spec["cgroup"]["step_limits"]["dies_whole"] = True


def _index(names: Sequence[str], name: str) -> int:
    return names.index(name) if name in names else -1


def _nice(conf: SlurmConf, sent: Mapping[str, str], uid: int) -> int:
    """Return the nice value of tasks, or what tells `spawn` to leave ours."""
    own = os.getpriority(os.PRIO_PROCESS, 0)
    nice = environment.task_nice(conf.propagate_prio_process, sent, uid, own)
    return _SAME_NICE if nice is None else nice


def _rlimits(limits: Sequence[tuple[str, int, int]]) -> list[tuple[int, int, int]]:
    """Return (resource, soft, hard) of those that are propagated; `spawn` keeps to the node's."""
    rlimits = []
    if not any(name.upper().endswith("CORE") for name, _, _ in limits):
        # Not that of slurmd, which a site may have set to 0 for daemons: as Slurm does it.
        rlimits.append((resource.RLIMIT_CORE, -1, -1))
    for name, soft, hard in limits:
        number = _LIMITS.get(name.upper().removeprefix("RLIMIT_"))
        if number is not None:
            rlimits.append((number, _bounded(soft), _bounded(hard)))
    return rlimits


def _umask(value: int) -> int:
    """Return a valid umask, for any value in a message."""
    return value & 0o777 if value >= 0 else 0o22


def _bounded(value: int) -> int:
    return -1 if value < 0 or value >= _UNLIMITED else value


def cgroup_plan(setup: NodeSetup, credential: nm.JobCredential) -> sc.CgroupPlan | None:
    """Return the control groups of a step, None where they are not used."""
    tree = setup.tree
    if tree is None:
        return None
    job = tree.job(credential.job_id, credential.uid)
    step = tree.step(credential.job_id, credential.uid, step_text(credential.step_id))
    controllers = {"freezer", "unified"}
    if credential.step_id == STEP_EXTERN:
        controllers.add("cpuacct")  # its processes are nobody's children who could count them
    conf = setup.cgroup_conf
    job_limits: sc.GroupLimits = {}
    step_limits: sc.GroupLimits = {}
    if setup.uses("task/cgroup"):
        job_alloc = alloc_of(credential.nodes, credential.allocs, setup.node_name)
        step_alloc = alloc_of(credential.step_nodes, credential.step_allocs, setup.node_name)
        for limits, alloc in ((job_limits, job_alloc), (step_limits, step_alloc)):
            if alloc is None:
                continue
            if conf.constrain_ram_space or conf.constrain_swap_space:
                controllers.add("memory")
                limits |= memory_limits(conf, alloc.mem_mib, setup.memory_mib)
            cpus = setup.host.of_mask(int.from_bytes(alloc.cores, "little"))
            if conf.constrain_cores and cpus:
                controllers.add("cpuset")
                limits["cpus"] = list(cpus)
            if conf.constrain_devices:
                controllers.add("devices")
                denied = gres.denied_devices(setup.devices, alloc.gres)
                limits["denied"] = [list(node) for node in denied]
    return {
        "version": tree.version,
        "job": _chosen(job, controllers),
        "step": _chosen(step, controllers),
        "job_limits": job_limits,
        "step_limits": step_limits,
    }


def _chosen(group: Group, controllers: set[str]) -> dict[str, str]:
    """Return the directories of controllers that are needed; others only cost time."""
    return {name: path for name, path in group.directories.items() if name in controllers}


# Scripts --------------------------------------------------------------------------------------


def batch_spec(
    setup: NodeSetup,
    credential: nm.JobCredential,
    order: nm.LaunchBatch,
    account: Account,
    since_us: int = 0,
) -> sc.StepSpec:
    """Return what the supervisor of a batch script is to do."""
    request = credential.request
    sent = environment.parse_environment(order.environment)
    login: dict[str, str] = {}
    if environment.wants_login(request.flags, sent):
        login = environment.login_variables(credential.user_name, account.home, account.shell)
    settings = node_settings(setup, credential)
    variables = environment.batch_environment(
        credential, settings, sent, gpu_view(setup, credential), login
    )
    variables |= _container_variables(request.container, request.container_options)
    directory = request.work_dir or "/"
    std_in, std_out, std_err = batch_files(setup, credential)
    cpus = setup.host.of_mask(_cores(setup, credential))
    shell: sc.LoginShell | None = None
    if request.flags & REQ_GET_USER_ENV and account.shell:
        home = account.home
        shell = {"shell": account.shell, "home": home, "env": environment.entries(login)}
    before = words_before(setup, credential, request.container, request.container_options, 1)
    return {
        **step_base(setup, credential, account, order.credential),
        "login": shell,
        "duty": order.duty_id,
        "since_us": since_us,
        "env": environment.entries(variables),
        "cwd": directory,
        "umask": _umask(request.umask),
        "rlimits": _rlimits(request.rlimits),
        "nice": _nice(setup.conf, sent, credential.uid),
        "script": order.script,
        "spool": f"{setup.spool}/job{credential.job_id:05d}",
        "append": _appends(setup, request.flags),
        "route": None,
        "label": False,
        "label_width": 1,
        "pty": False,
        "rows": 0,
        "columns": 0,
        "no_kill": False,
        "waits_for_children": False,
        "programs": [[*before, "slurm_script", *request.argv]],
        "script_word": len(before),
        "mpi": None,
        "x11": None,
        "plugins": setup.plugins,
        "frequency": step_frequency.frequency_spec(setup, STEP_BATCH, variables, cpus),
        "clocks": step_clocks.clocks_spec(setup, credential, variables),
        "tasks": [
            {
                "task": 0,
                "local": 0,
                "program": 0,
                **task_binding.unbound(cpus if cpus and setup.uses("task/affinity") else ()),
                "env": [],
                "in": std_in,
                "out": std_out,
                "err": std_err,
            }
        ],
    }


def _appends(setup: NodeSetup, flags: int) -> bool:
    if flags & (REQ_OPEN_APPEND | REQ_OPEN_TRUNCATE):
        return bool(flags & REQ_OPEN_APPEND)
    return bool(setup.conf.job_file_append)


def _cores(setup: NodeSetup, credential: nm.JobCredential) -> int:
    alloc = alloc_of(credential.step_nodes, credential.step_allocs, setup.node_name)
    return int.from_bytes(alloc.cores, "little") if alloc is not None else 0


def batch_files(setup: NodeSetup, credential: nm.JobCredential) -> tuple[str, str, str]:
    """Return the files of a script's input, output and errors."""
    request = credential.request
    names = request.std_in, request.std_out, request.std_err
    fields = _name_fields(setup, credential)
    return output_names.batch_names(*names, request.work_dir or "/", fields)


def _name_fields(
    setup: NodeSetup, credential: nm.JobCredential, task_id: int = 0
) -> output_names.NameFields:
    return output_names.NameFields(
        job_id=credential.job_id,
        array_job_id=credential.array_job_id,
        array_task_id=credential.array_task_id,
        step_id=credential.step_id,
        user=credential.user_name,
        job_name=credential.job_name,
        node_name=setup.node_name,
        node_index=max(0, _index(credential.step_nodes, setup.node_name)),
        task_id=task_id,
    )


# Steps ----------------------------------------------------------------------------------------


def step_spec(
    setup: NodeSetup,
    credential: nm.JobCredential,
    request: nm.LaunchStep,
    account: Account,
    since_us: int = 0,
) -> sc.StepSpec:
    """Return what the supervisor of a step's tasks on this node is to do.

    Raises:
        SpecError: a binding or a list of programs that does not fit.
    """
    route, sent, asked = request.route, _sent(request), (request.acctg_freq, request.profile)
    tasks, bound = _step_tasks(setup, credential, request)
    ends = oom_kill_step(setup, request.oom_kill_step, credential.request.oom_kill_step)
    variables = _step_variables(setup, credential, request, sent) | bound
    if credential.step_id == STEP_INTERACTIVE:
        variables = job_counts.interactive_variables(variables, sent)
    elif request.keeps_counts:
        variables = job_counts.kept_counts(variables, sent)
    variables["SLURM_OOM_KILL_STEP"] = str(int(ends))
    _leave_to_tasks(variables, setup, credential)
    mpi = step_mpi.mpi_spec(credential, request)
    variables |= step_mpi.step_variables(request.mpi, mpi)
    before = words_before(
        setup, credential, request.container, request.container_options, len(tasks)
    )
    variables |= _container_variables(request.container, request.container_options)
    spec: sc.StepSpec = {
        **step_base(setup, credential, account, request.credential, *asked),
        "login": None,
        "duty": 0,
        "since_us": since_us,
        "env": environment.entries(variables),
        "cwd": request.cwd,
        "umask": _umask(request.umask),
        "rlimits": _rlimits(request.rlimits),
        "script": b"",
        "spool": "",
        "append": request.append,
        "route": {"host": route.host, "port": route.port, "key": route.key} if route else None,
        "label": request.label,
        "label_width": len(str(max(0, sum(map(len, credential.step_tasks)) - 1))),
        "pty": request.pty,
        "rows": request.pty_rows,
        "columns": request.pty_columns,
        "nice": _nice(setup.conf, sent, credential.uid),
        "no_kill": request.no_kill,
        "waits_for_children": request.waits_for_children,
        "programs": [
            before + _argv(request, program, setup.node_name) for program in request.programs
        ],
        "script_word": 0,
        "tasks": tasks,
        "mpi": mpi,
        "x11": step_x11.x11_spec(setup, credential, request, account),
        "plugins": setup.plugins,
        "frequency": step_frequency.frequency_spec(
            setup, credential.step_id, variables, setup.host.of_mask(_cores(setup, credential))
        ),
        "clocks": step_clocks.clocks_spec(setup, credential, variables),
    }
    if request.task_prolog:
        spec["task_prologs"].append(("--task-prolog", request.task_prolog))
    if request.task_epilog:
        spec["task_epilogs"].insert(0, ("--task-epilog", request.task_epilog))
    _end_with_memory(spec, ends=ends)
    if request.kill_wait_s >= 0:
        spec["kill_wait"] = request.kill_wait_s
    return spec


def _container_variables(bundle: str, options: Sequence[str]) -> dict[str, str]:
    """Return what tells a task of its container."""
    variables = {"SLURM_CONTAINER": bundle} if bundle else {}
    name = next((word[3:] for word in options if word.startswith("id=")), "")
    return {**variables, "SLURM_CONTAINER_ID": name} if name else variables


def _step_tasks(
    setup: NodeSetup, credential: nm.JobCredential, request: nm.LaunchStep
) -> tuple[list[sc.TaskSpec], dict[str, str]]:
    """Return the step's tasks on this node, and the variables that tell where they are bound.

    Raises:
        SpecError: a binding or a list of programs that does not fit.
    """
    accounting_frequency.check(setup, credential, request.acctg_freq)
    task_ids = _task_ids(setup, credential)
    try:
        words = _step_binding(setup, credential, request)
        bound = task_binding.bind_step(setup.host, setup.node_name, task_ids, words)
        bind = _gpu_bind(credential, request)
        gpus = _share_gpus(setup, bind, gpu_view(setup, credential).step, bound.tasks)
        programs = _programs(request, task_ids)
        tasks: list[sc.TaskSpec] = [
            {
                **_task(setup, credential, request, local, task_id, gpus[local]),
                "program": programs[task_id],
                **bound.tasks[local],
            }
            for local, task_id in enumerate(task_ids)
        ]
    except (binding.BindError, BindWordsError, GpuBindError) as error:
        raise SpecError(str(error)) from None
    return tasks, bound.variables


def _step_variables(
    setup: NodeSetup,
    credential: nm.JobCredential,
    request: nm.LaunchStep,
    sent: dict[str, str],
) -> dict[str, str]:
    """Return the variables of all tasks, but for what depends on the node's cores and devices."""
    route = request.route
    srun = environment.SrunAddress(
        host=request.host_ip or (route.host if route else ""),
        port=route.port if route else 0,
        umask=request.umask,
    )
    variables = environment.step_environment(
        credential, node_settings(setup, credential), sent, srun
    )
    if request.all_ranks:
        node_index = credential.step_nodes.index(setup.node_name)
        task_ids = _task_ids(setup, credential)
        variables |= environment.het_step_variables(task_ids, node_index, request)
    return variables


def _task_ids(setup: NodeSetup, credential: nm.JobCredential) -> tuple[int, ...]:
    """Return the step's tasks on this node."""
    return credential.step_tasks[credential.step_nodes.index(setup.node_name)]


def _leave_to_tasks(
    variables: dict[str, str], setup: NodeSetup, credential: nm.JobCredential
) -> None:
    """Leave out the variables about GPUs that each task has for itself."""
    view = gpu_view(setup, credential)
    for name in (*environment.task_variables(0, 0, view), *environment.variables_of_parts(view)):
        variables.pop(name, None)


def _step_binding(
    setup: NodeSetup, credential: nm.JobCredential, request: nm.LaunchStep
) -> task_binding.StepBinding:
    """Return how a step's tasks are to be bound: as srun says, else as the configuration does."""
    is_shell = credential.step_id == STEP_INTERACTIVE  # all of the job's CPUs here are its own
    kind, fallback, is_verbose = task_binding.configured_kind(setup.conf, credential.bind_kind)
    return task_binding.StepBinding(
        cores=_cores(setup, credential),
        cpu_words=bind_words.cpu_bind("none" if is_shell else request.cpu_bind),
        mem_words=bind_words.mem_bind(request.mem_bind),
        needs=binding.TaskNeeds(
            tasks=0,
            cpus_per_task=credential.step_cpus_per_task or 1,
            kind=kind,
            fallback=fallback,
            distribution=credential.step_distribution,
            tasks_per_socket=request.tasks_per_socket,
            threads_per_core=request.threads_per_core,
        ),
        is_verbose=is_verbose,
        is_used=setup.uses("task/affinity"),
    )


def _task(
    setup: NodeSetup,
    credential: nm.JobCredential,
    request: nm.LaunchStep,
    local: int,
    task_id: int,
    gpus: TaskGpus,
) -> sc.TaskPlace:
    view = gpu_view(setup, credential, gpus.seen)
    rank = request.first_rank + task_id
    fields = _name_fields(setup, credential, rank)
    std_in, std_out, std_err = _streams(request, fields, task_id)
    return {
        "task": task_id,
        "local": local,
        "env": environment.entries(
            environment.task_variables(rank, local, view)
            | step_mpi.task_variables(request.mpi, rank)
        ),
        "in": std_in,
        "out": std_out,
        "err": std_err,
    }


def _gpu_bind(credential: nm.JobCredential, request: nm.LaunchStep) -> GpuBind:
    """Return how tasks share GPUs: as srun was told, or what follows from --gpus-per-task."""
    text = request.gpu_bind or gpu_part(credential.step_tres_bind)
    if not text and credential.step_gpus_per_task:
        text = f"per_task:{credential.step_gpus_per_task}"
    return parse_gpu_bind(text) if text else GpuBind()


def _share_gpus(
    setup: NodeSetup, bind: GpuBind, step_gpus: Sequence[int], tasks: list[sc.Binding]
) -> list[TaskGpus]:
    """Return the GPUs of the tasks bound, and have each told what there is to tell."""
    shared = []
    for local, task in enumerate(tasks):
        # A task that may run anywhere is near all of them.
        cpus = _numbers(task["cpus"])
        near = near_gpus(setup.host, setup.devices, cpus) if cpus else step_gpus
        gpus = task_gpus(bind, step_gpus, local, near=near, is_confined=setup.confines_devices)
        if gpus.problem:
            task["report"] += f"slurmstepd-{setup.node_name}: error: {gpus.problem}\n"
        if bind.is_verbose:
            seen = gres.visible(step_gpus, gpus.seen, setup.confines_devices)
            task["report"] += gpu_line(gpus, step_gpus, seen)
        shared.append(gpus)
    return shared


def _numbers(mask_bytes: bytes) -> list[int]:
    mask = int.from_bytes(mask_bytes, "little")
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def _sent(request: nm.LaunchStep) -> dict[str, str]:
    """Return srun's environment. Raises SpecError if no exec takes it with the arguments."""
    shared = len(request.environment) + 8 * request.environment.count(b"\0")
    longest = max(sum(len(word) + 9 for word in program.argv) for program in request.programs)
    if shared + longest > _MOST_FOR_EXEC:
        raise SpecError(
            f"Argument list too long: arguments and environment take {shared + longest} bytes, "
            f"{_MOST_FOR_EXEC} are allowed"
        )
    return environment.parse_environment(request.environment)


def _programs(request: nm.LaunchStep, task_ids: Sequence[int]) -> dict[int, int]:
    """Return the number of each task's program. Raises SpecError."""
    own_tasks = set(task_ids)
    numbers: dict[int, int] = {}
    rest = -1
    for number, program in enumerate(request.programs):
        for task_id in own_tasks.intersection(program.tasks):
            numbers.setdefault(task_id, number)
        if not program.tasks:
            rest = number
    for task_id in task_ids:
        if numbers.setdefault(task_id, rest) < 0 or not request.programs[numbers[task_id]].argv:
            raise SpecError(f"no program for task {task_id}")
    return numbers


def _argv(request: nm.LaunchStep, program: nm.Program, node_name: str) -> list[str]:
    argv = list(program.argv)
    if request.program and argv and not program.tasks:
        argv[0] = request.program.replace("%N", node_name)
    return argv


def _streams(
    request: nm.LaunchStep, fields: output_names.NameFields, task_id: int
) -> tuple[str | None, str | None, str | None]:
    """Return the files of one task; None routes a stream to srun."""

    if request.pty and fields.task_id:
        return _NULL, _NULL, _NULL  # the terminal is task zero's alone, as the manual says

    def chosen(pattern: str, only: int) -> str | None:
        if only >= 0 and task_id != only:
            return _NULL
        if pattern in ("", "all"):
            return None if request.route is not None else _NULL
        return output_names.absolute(output_names.expand(pattern, fields), request.cwd)

    std_out = chosen(request.std_out, request.stdout_task)
    std_err = chosen(request.std_err, request.stderr_task)
    if not request.std_err and request.std_out and request.stderr_task < 0:
        std_err = std_out
    return chosen(request.std_in, request.stdin_task), std_out, std_err
