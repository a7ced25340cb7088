"""Which share of its job a step gets: one set of rules for slurmctld and for step managers. Pure.

`create` refuses with one of `WAIT_CODES` when the step could run later: who asked keeps the request
and asks again when the job has changed.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from pyslurm_ng.base.errors import Errno, Reject
from pyslurm_ng.base.hostlist import HostlistError, expand, expand_of_user
from pyslurm_ng.base.numbers import (
    REQ_EXCLUSIVE,
    STEP_BESIDE_ALL,
    STEP_EXACT,
    STEP_MEM_ZERO,
    STEP_OVERLAP,
)
from pyslurm_ng.base.tres import TresError
from pyslurm_ng.conf.slurm_conf import SlurmConf
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.ids import STEP_INTERACTIVE
from pyslurm_ng.model.job import Job, Step, is_completing
from pyslurm_ng.model.node import Node, spec_with_facts
from pyslurm_ng.model.sizes import job_sizes
from pyslurm_ng.model.states import TERMINAL_STATES, JobFlag, JobState
from pyslurm_ng.sched.cons_tres.layout import LayoutError, parse_distribution
from pyslurm_ng.sched.cons_tres.step_select import (
    Lack,
    NodeShare,
    StepNeed,
    StepPlace,
    place,
    shares_of,
)
from pyslurm_ng.steps.salloc_step import as_interactive
from pyslurm_ng.steps.step_gres import gpus_per_task, gres_of_step, tres_per_node
from pyslurm_ng.steps.step_ports import has_ports, reserve_ports
from pyslurm_ng.wire.step_messages import CreateStep, StepGranted

WAIT_CODES = frozenset(
    (
        Errno.ESLURM_NODES_BUSY,
        Errno.ESLURM_PORTS_BUSY,
        Errno.ESLURM_PROLOG_RUNNING,
        Errno.ESLURM_DISABLED,
    )
)
_NEVER = {
    Lack.NODES: Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE,
    Lack.CPUS: Errno.ESLURM_TOO_MANY_REQUESTED_CPUS,
    Lack.MEMORY: Errno.ESLURM_INVALID_TASK_MEMORY,
    Lack.GRES: Errno.ESLURM_INSUFFICIENT_GRES,
}
_NOT_IN_JOB = Reject(Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE)


def create(
    cluster: Cluster,
    job: Job,
    message: CreateStep,
    conf: SlurmConf,
    now_us: int,
    step_id: int = -1,
) -> tuple[Step, StepGranted] | Reject:
    """Give a step nodes, cores, memory and devices of its job; the grant has no credential.

    Args:
        step_id: that it was given before; the job's next one unless given.
    """
    if message.flags & STEP_BESIDE_ALL:
        if STEP_INTERACTIVE in job.steps:
            return Reject(Errno.ESLURM_DUPLICATE_STEP_ID)
        message = as_interactive(message)
    if step_id < 0:
        step_id = job.next_step_id
        if step_id >= conf.max_step_count:
            return Reject(Errno.ESLURM_STEP_LIMIT)
    if len(message.task_nodes) > conf.max_tasks_per_node * len(job.nodes):
        return Reject(Errno.ESLURM_BAD_TASK_COUNT)  # before each name is looked for
    candidates = _candidates(cluster, job, message)
    if isinstance(candidates, Reject):
        return candidates
    need = _need(cluster, job, message, candidates, conf)
    if isinstance(need, Reject):
        return need
    if need.nodes_min > len(job.nodes):
        detail = f"Only allocated {len(job.nodes)} nodes asked for {need.nodes_min}"
        return Reject(Errno.ESLURM_REQUESTED_NODE_CONFIG_UNAVAILABLE, detail)
    step_place = _step_place(cluster, job, need, candidates, _prefers_idle(message))
    if isinstance(step_place, Reject):
        return step_place
    if max(map(len, step_place.tasks)) > conf.max_tasks_per_node:
        return Reject(Errno.ESLURM_BAD_TASK_COUNT)
    ports = _ports(cluster, job, message, step_place, conf, step_id)
    if isinstance(ports, Reject):
        return ports
    step = _step(job, message, need, step_place, now_us, ports, step_id)
    return step, _granted(cluster, job, step, message, step_place, conf)


def compact(message: CreateStep) -> CreateStep:
    """Return a request without names that no task needs, and each name as one object.

    It is kept as long as the step waits and runs, and is charged only for what came over the wire.
    """
    if not message.task_nodes:
        return message
    known: dict[str, str] = {}
    names = message.task_nodes[: message.ntasks or None]
    return msgspec.structs.replace(
        message, task_nodes=[known.setdefault(name, name) for name in names]
    )


def node_address(node: Node) -> tuple[str, int]:
    """Return where a node's daemon listens."""
    return node.facts.addr or node.spec.addr, node.spec.port


def refusal_of_job(job: Job, uid: int) -> Reject | None:
    """Return why this user gets no step in this job, or not now."""
    if job.uid != uid:
        return Reject(Errno.ESLURM_ACCESS_DENIED)
    if job.state == JobState.PENDING:
        return Reject(Errno.ESLURM_JOB_PENDING)
    if job.state in TERMINAL_STATES or is_completing(job):
        return Reject(Errno.ESLURM_ALREADY_DONE)
    if job.state == JobState.SUSPENDED:
        return Reject(Errno.ESLURM_DISABLED)
    if job.flags & JobFlag.CONFIGURING:
        return Reject(Errno.ESLURM_PROLOG_RUNNING)
    return None


def _candidates(cluster: Cluster, job: Job, message: CreateStep) -> list[int] | Reject:
    """Return positions in the job's nodes that the step may use, in order of preference."""
    count = len(job.nodes)
    position_of = {
        node.spec.name: position
        for position, alloc in enumerate(job.nodes)
        if (node := cluster.nodes[alloc.node_id]) is not None
    }
    try:
        most = len(cluster.node_index.by_name)
        node_names = expand_of_user(message.node_list, most)
        unwanted = set(expand_of_user(message.exclude, most))
    except HostlistError:
        return Reject(Errno.ESLURM_INVALID_NODE_NAME)
    if any(name not in position_of for name in (*node_names, *message.task_nodes)):
        return _NOT_IN_JOB
    if unwanted.intersection(node_names):
        return _NOT_IN_JOB
    if message.task_nodes:
        return list(dict.fromkeys(position_of[name] for name in message.task_nodes))
    first = list(dict.fromkeys(position_of[name] for name in node_names))
    limit = message.nodes_max or message.nodes_min
    if first and (not limit or limit <= len(first)):
        return first[:limit] if limit else first
    if message.relative >= 0:
        if message.relative >= count:
            return _NOT_IN_JOB
        rest = list(range(message.relative, count))
    else:
        rest = list(range(count))
    taken = set(first)
    names = {position: name for name, position in position_of.items()}
    return first + [
        position
        for position in rest
        if position not in taken and names.get(position, "") not in unwanted
    ]


def _prefers_idle(message: CreateStep) -> bool:
    """Return whether nodes without a step come first, as in Slurm: in their order otherwise.

    So steps one after the other have the same node and find each other's files there, and those
    at once have one each.
    """
    is_packed = message.distribution.lower().endswith(",pack")
    return not (message.node_list or message.task_nodes or message.relative >= 0 or is_packed)


def _need(
    cluster: Cluster, job: Job, message: CreateStep, candidates: list[int], conf: SlurmConf
) -> StepNeed | Reject:
    try:
        distribution = parse_distribution(message.distribution, message.plane_size)
        packs = any(word.upper() == "CR_PACK_NODES" for word in conf.select_type_parameters)
        packs = packs and distribution.pack is None
        if packs:
            distribution = replace(distribution, pack=True)
        gres = gres_of_step(job, message)
    except LayoutError:
        return Reject(Errno.ESLURM_BAD_DIST)
    except TresError:
        return Reject(Errno.ESLURM_INVALID_GRES)
    if 0 < job.request.threads_per_core < message.threads_per_core:
        return Reject(Errno.ESLURM_BAD_THREAD_PER_CORE)
    per_node, per_cpu, whole = _memory(cluster, job, message)
    positions: tuple[int, ...] = ()
    ntasks = message.ntasks
    if message.task_nodes:
        where = {cluster.node(job.nodes[index].node_id).spec.name: index for index in candidates}
        positions = tuple(where[name] for name in message.task_nodes)
        if ntasks > len(positions):
            return Reject(Errno.ESLURM_BAD_TASK_COUNT)
        positions = positions[:ntasks] if ntasks else positions
        ntasks = len(positions)
    elif distribution.node == "arbitrary":
        return Reject(Errno.ESLURM_BAD_DIST)
    # Before they are dealt out one by one: under overcommit any number would find a place.
    most = conf.max_tasks_per_node
    if message.ntasks_per_node > most or ntasks > most * len(candidates):
        return Reject(Errno.ESLURM_BAD_TASK_COUNT)
    nodes_min = min(message.nodes_min, ntasks) if ntasks else message.nodes_min
    nodes_max = message.nodes_max or (nodes_min if message.nodes_min else 0)
    if packs:
        nodes_min = min(nodes_min, 1)  # no more nodes than its tasks fill
    name_count = len(set(expand(message.node_list)))
    if name_count and not message.nodes_min:
        nodes_min = min(name_count, ntasks) if ntasks else name_count
    return StepNeed(
        ntasks=ntasks,
        nodes_min=nodes_min,
        nodes_max=max(nodes_max, nodes_min) if nodes_max else 0,
        tasks_per_node=message.ntasks_per_node or _tasks_that_fit(job, message, candidates),
        cpus_per_task=max(1, message.cpus_per_task),
        threads_per_core=message.threads_per_core,
        is_exact=bool(message.flags & STEP_EXACT),
        is_overlapping=bool(message.flags & STEP_OVERLAP),
        overcommit=message.overcommit or bool(positions),
        mem_per_node_mib=per_node,
        mem_per_cpu_mib=per_cpu,
        mem_all=whole,
        distribution=distribution,
        gres_per_node=gres.per_node,
        gres_per_task=gres.per_task,
        gres_total=gres.in_all,
        gres_whole=gres.whole,
        task_positions=positions,
        tasks_per_socket=message.ntasks_per_socket,
        aims_high=0 < nodes_min < nodes_max and not name_count and not distribution.pack,
    )


def _tasks_that_fit(job: Job, message: CreateStep, candidates: list[int]) -> int:
    """Return how many tasks -c alone means on each whole node: as many as have their CPUs.

    0 where other options say how many, or where the job has no more CPUs than it asked for.
    """
    is_told = message.ntasks or message.task_nodes or message.gpus or message.gpus_per_task
    if is_told or not message.cpus_per_task or not job.request.flags & REQ_EXCLUSIVE:
        return 0
    least = min((job.nodes[index].cpus for index in candidates), default=0)
    return least // message.cpus_per_task


def _memory(cluster: Cluster, job: Job, message: CreateStep) -> tuple[int, int, bool]:
    """Return memory (per node, per CPU, all of the job's): as asked, else as the job has it."""
    if message.flags & STEP_MEM_ZERO:
        return 0, 0, False
    if message.mem_per_node_mib:
        return message.mem_per_node_mib, 0, False
    if message.mem_per_cpu_mib:
        return 0, message.mem_per_cpu_mib, False
    sizes = job_sizes(job.request, cluster.partitions.get(job.partition))
    if sizes.mem_per_cpu_mib and message.flags & STEP_EXACT:
        return 0, sizes.mem_per_cpu_mib, False
    return 0, 0, True


def _step_place(
    cluster: Cluster, job: Job, need: StepNeed, candidates: list[int], prefers_idle: bool
) -> StepPlace | Reject:
    """Return where the step goes; busy if it could go there once other steps are over."""
    specs = {
        alloc.node_id: spec_with_facts(node)
        for alloc in job.nodes
        if (node := cluster.nodes[alloc.node_id]) is not None
    }

    busy = {
        node_id
        for step in (job.steps.values() if prefers_idle else ())
        if step.step_id < STEP_INTERACTIVE
        for node_id in step.nodes_pending
    }

    def ordered(*, ignore_steps: bool) -> list[NodeShare]:
        shares = shares_of(job, specs, ignore_steps=ignore_steps)
        chosen = [shares[position] for position in candidates]
        return sorted(chosen, key=lambda share: share.alloc.node_id in busy)

    step_place = place(need, ordered(ignore_steps=need.is_overlapping))
    if isinstance(step_place, StepPlace):
        return step_place
    if not need.is_overlapping:
        empty = place(need, ordered(ignore_steps=True))
        if isinstance(empty, StepPlace):
            return Reject(Errno.ESLURM_NODES_BUSY)
        step_place = empty
    return Reject(_NEVER[step_place])


def _ports(
    cluster: Cluster,
    job: Job,
    message: CreateStep,
    step_place: StepPlace,
    conf: SlurmConf,
    step_id: int,
) -> tuple[int, ...] | Reject:
    """Return the ports a step is to have; by default one more than tasks on any node.

    Without a count, no ports are had where MpiParams names none, as in Slurm 22.05.
    """
    if message.resv_ports < 0 or (not message.resv_ports and not has_ports(conf.mpi_params)):
        return ()
    count = message.resv_ports or 1 + max(map(len, step_place.tasks))
    nodes = [alloc.node_id for alloc in step_place.allocs]
    turn = (job.job_id + step_id) * count
    return reserve_ports(cluster, nodes, count, conf.mpi_params, turn)


def _step(
    job: Job,
    message: CreateStep,
    need: StepNeed,
    step_place: StepPlace,
    now_us: int,
    ports: tuple[int, ...],
    step_id: int,
) -> Step:
    return Step(
        step_id=STEP_INTERACTIVE if message.flags & STEP_BESIDE_ALL else step_id,
        name=message.name,
        uid=job.uid,
        ntasks=sum(len(task_ids) for task_ids in step_place.tasks),
        cpus=sum(alloc.cpus for alloc in step_place.allocs),
        nodes=step_place.allocs,
        created_us=now_us,
        state=JobState.RUNNING,
        start_us=now_us,
        time_limit_min=message.time_limit_min,
        distribution=need.distribution.text(
            sum(map(len, step_place.tasks)), len(step_place.allocs)
        ),
        srun_host=message.srun_host,
        srun_pid=message.srun_pid,
        srun_port=message.srun_port,
        submit_line=message.submit_line,
        flags=message.flags,
        cwd=message.cwd,
        std_in=message.std_in,
        std_out=message.std_out,
        std_err=message.std_err,
        cpus_per_task=need.cpus_per_task,
        tres_per_node=tres_per_node(job, message),
        nodes_pending=tuple(alloc.node_id for alloc in step_place.allocs),
        network=message.network,
        container=message.container,
        container_id=message.container_id,
        ports=ports,
    )


def _granted(
    cluster: Cluster,
    job: Job,
    step: Step,
    message: CreateStep,
    step_place: StepPlace,
    conf: SlurmConf,
) -> StepGranted:
    nodes = [cluster.node(alloc.node_id) for alloc in step_place.allocs]
    return StepGranted(
        job_id=job.job_id,
        step_id=step.step_id,
        nodes=[node.spec.name for node in nodes],
        addresses=[node_address(node) for node in nodes],
        tasks=step_place.tasks,
        cpus=[alloc.cpus for alloc in step_place.allocs],
        distribution=step.distribution,
        cpus_per_task=message.cpus_per_task,
        kill_wait_s=conf.kill_wait,
        gpus_per_task=gpus_per_task(message),
        flags=step.flags,
    )
