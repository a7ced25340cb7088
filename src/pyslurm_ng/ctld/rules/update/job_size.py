"""How much a job asks for: nodes, CPUs, tasks, memory, generic resources."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from pyslurm_ng.base import units
from pyslurm_ng.base.errors import Errno
from pyslurm_ng.base.gpu_bind import GpuBindError, gpu_part
from pyslurm_ng.base.numbers import REQ_MEM_SET, REQ_NODES_SET, REQ_NTASKS_SET
from pyslurm_ng.base.tres import TresError, TresPerTask, parse_gres, parse_tres_per_task
from pyslurm_ng.ctld.rules.update import job_place
from pyslurm_ng.ctld.rules.update.job_change import Change, Setter, count, while_pending
from pyslurm_ng.ctld.rules.update.running_job import kept_of_count
from pyslurm_ng.model.kept_request import changed_request
from pyslurm_ng.model.sizes import job_sizes
from pyslurm_ng.sched.frame.policy import selection


def _range(text: str) -> tuple[int, int] | None:
    low_text, dash, high_text = text.partition("-")
    try:
        low = units.parse_count(low_text)
        high = units.parse_count(high_text) if dash else 0
    except units.UnitError:
        return None
    return None if dash and high < low else (low, high)


def nodes(change: Change, value: str) -> int:
    """Set how many nodes a waiting job gets, or a running one keeps."""
    bounds = _range(value)
    if bounds is None or not bounds[0]:
        return Errno.ESLURM_INVALID_NODE_COUNT
    if change.is_running:
        return change.keep(kept_of_count(change.job, bounds[0], change.context.conf))
    if not change.is_pending:
        return Errno.ESLURM_JOB_NOT_PENDING
    change.request["nodes_min"], change.request["nodes_max"] = bounds[0], bounds[1]
    change.request["node_sizes"] = ""
    change.flag(REQ_NODES_SET, 0)
    return 0


@while_pending
def cpus(change: Change, value: str) -> int:
    """Set the CPUs of a waiting job: those of each task, where all tasks get as many.

    Otherwise the job gets as many tasks as the CPUs are enough for.
    """
    bounds = _range(value)
    if bounds is None or not bounds[0]:
        return Errno.ESLURM_INVALID_CPU_COUNT
    request = changed_request(change.job.request, **change.request)
    tasks = job_sizes(request, None).tasks
    if bounds[0] % tasks == 0:
        change.request["cpus_per_task"] = bounds[0] // tasks
        return 0
    per_task = request.cpus_per_task or 1
    change.request["ntasks"] = (bounds[0] + per_task - 1) // per_task
    change.flag(REQ_NTASKS_SET, 0)
    return 0


def tasks(change: Change, value: str) -> int:
    """Set the number of tasks."""
    if units.whole_number(value) == 0:
        return Errno.ESLURM_BAD_TASK_COUNT
    return count("ntasks", flag=REQ_NTASKS_SET)(change, value)


def memory(name: str) -> Setter:
    """Return the setter of one of the three ways to ask for memory; the others end."""

    @while_pending
    def set_memory(change: Change, value: str) -> int:
        try:
            mib = units.parse_mem_mib(value)
        except units.UnitError:
            return Errno.ESLURM_INVALID_TASK_MEMORY
        for other in ("mem_per_node_mib", "mem_per_cpu_mib", "mem_per_gpu_mib"):
            change.request[other] = mib if other == name else 0
        change.flag(REQ_MEM_SET, 0)
        return 0

    return set_memory


def _plain_gres(text: str) -> str:
    return text.replace("gres/", "").replace("gres:", "")


@while_pending
def gres(change: Change, value: str) -> int:
    """Set the generic resources of each node."""
    change.request["gres"] = _plain_gres(value)
    return 0


def gpus(name: str) -> Setter:
    """Return the setter of a field that counts GPUs: `2`, or `type:2` for those of a type."""

    @while_pending
    def set_gpus(change: Change, value: str) -> int:
        try:
            resources = parse_gres(_plain_gres(value)) if value else ()
        except TresError:
            return Errno.ESLURM_INVALID_TRES
        if any(gres.name != "gpu" for gres in resources):
            return Errno.ESLURM_INVALID_GRES
        change.request[name] = ",".join(
            f"{gres.type_name}:{gres.amount}" if gres.type_name else str(gres.amount)
            for gres in resources
        )
        return 0

    return set_gpus


def of_each_gpu(setter: Setter) -> Setter:
    """Return the setter of what comes with each GPU; its word names GPUs only: `gres/gpu:2`."""

    @while_pending
    def set_for_gpu(change: Change, value: str) -> int:
        name, _, amount = _plain_gres(value).replace("=", ":").partition(":")
        if value and (name != "gpu" or not amount):
            return Errno.ESLURM_INVALID_TRES
        return setter(change, amount or "0")

    return set_for_gpu


def _with_licenses(change: Change, of_each: Mapping[str, int]) -> str:
    """Return the job's licences, of some names as many as all of its tasks are to have."""
    request = replace(change.job.request, **change.request)
    tasks = job_sizes(request, None).tasks
    others = [part for part in request.licenses.split(",") if part.split(":")[0] not in of_each]
    of_tasks = [f"{name}:{count * tasks}" for name, count in of_each.items()]
    return ",".join(filter(None, others + of_tasks))


@while_pending
def tres_per_task(change: Change, value: str) -> int:
    """Set what each task gets."""
    try:
        parsed = parse_tres_per_task(value) if value else TresPerTask(0, "", "")
    except TresError:
        return Errno.ESLURM_INVALID_TRES
    if parsed.licenses:
        refusal = job_place.licenses(change, _with_licenses(change, dict(parsed.licenses)))
        if refusal:
            return refusal
    change.request["cpus_per_task"] = parsed.cpus
    change.request["gpus_per_task"] = parsed.gpus
    change.request["tres_per_task"] = parsed.gres
    return 0


@while_pending
def tres_bind(change: Change, value: str) -> int:
    """Set how tasks are bound to GPUs."""
    try:
        gpu_part(value)
    except GpuBindError:
        return Errno.ESLURM_INVALID_TRES
    change.request["tres_bind"] = value
    change.request["gpu_bind"] = ""
    return 0


def special(name: str, other: str) -> Setter:
    """Return the setter of cores, or threads, that the job's nodes keep for their system."""

    @while_pending
    def set_special(change: Change, value: str) -> int:
        if not selection(change.context.conf).allows_special:
            return Errno.ESLURM_ACCESS_DENIED
        change.request[other] = 0
        return count(name)(change, value)

    return set_special
