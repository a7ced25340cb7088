"""Which of a step's GPUs on a node each of its tasks sees."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pyslurm_ng.base.gpu_bind import GpuBind
from pyslurm_ng.d.host.binding import HostCores
from pyslurm_ng.model.node import NodeGres


@dataclass(frozen=True, slots=True)
class TaskGpus:
    """The GPUs of one task, by their number on the node, and what to tell the user of it."""

    seen: list[int]
    problem: str = ""


def task_gpus(
    bind: GpuBind,
    step_gpus: Sequence[int],
    local_id: int,
    *,
    near: Collection[int],
    is_confined: bool,
) -> TaskGpus:
    """Return the GPUs of one task.

    Args:
        local_id: number of the task on its node.
        near: those of the node's GPUs that are near the task's CPUs; for `closest`.
        is_confined: devices are, and lists count from the step's first GPU; else they have the
            numbers that GPUs have on the node.

    Source: Slurm's manual of srun.
    """
    every = list(step_gpus)
    if not every or bind.kind in ("", "none"):
        return TaskGpus(every)
    if bind.kind == "closest":
        # As with Slurm, a task that is near none of them is not kept from any.
        return TaskGpus([gpu for gpu in every if gpu in near] or every)
    if bind.kind == "per_task":
        size = max(1, bind.numbers[0])
        start = local_id * size % len(every)
        return TaskGpus(every[start : start + size])
    if bind.kind == "single":
        (ratio,) = bind.numbers
        problem = "" if ratio else _NO_RATIO.format(bind.word)
        return TaskGpus([every[local_id // max(1, ratio) % len(every)]], problem)
    if not bind.numbers:
        return TaskGpus(every)
    number = bind.numbers[local_id % len(bind.numbers)]
    numbers = {number} if bind.kind == "map" else set(_bits(number))
    seen = [gpu for index, gpu in enumerate(every) if (index if is_confined else gpu) in numbers]
    if seen:
        return TaskGpus(seen)
    return TaskGpus(every[:1], _NOT_HELD.format(bind.word, local_id))


_NO_RATIO = "{} does not specify a valid number. Defaulting to 1."
_NOT_HELD = (
    "Bind request gpu:{} does not specify any devices within the allocation for task {}."
    " Binding to the first device in the allocation instead."
)


def _bits(mask: int) -> list[int]:
    return [bit for bit in range(mask.bit_length()) if mask >> bit & 1]


def near_gpus(
    host: HostCores, devices: Sequence[NodeGres], cpus: Collection[int]
) -> frozenset[int]:
    """Return which GPUs of a node have a core near them among some CPUs.

    A GPU without known cores is near all of them.
    """
    gpus = set()
    for gres in devices:
        if gres.name != "gpu":
            continue
        for number in range(gres.count):
            cores = gres.cores[number] if number < len(gres.cores) else b""
            around = host.of_mask(int.from_bytes(cores, "little"))
            if not cores or around is None or not set(cpus).isdisjoint(around):
                gpus.add(gres.first_index + number)
    return frozenset(gpus)


def gpu_line(task: TaskGpus, step_gpus: Sequence[int], visible: Sequence[int]) -> str:
    """Return what `verbose` tells of a task's GPUs: masks and numbers on the node, then its own."""
    usable = sum(1 << gpu for gpu in task.seen)
    mask = sum(1 << gpu for gpu in step_gpus)
    return (
        f"gpu-bind: usable_gres=0x{usable:X}; bit_alloc=0x{mask:X}; local_inx={len(step_gpus)};"
        f" global_list={_list(task.seen)}; local_list={_list(visible)}\n"
    )


def _list(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))
