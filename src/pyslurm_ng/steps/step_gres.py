"""Which devices a step asks for: what its srun names, else what its job asked for. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from pyslurm_ng.base.numbers import STEP_BESIDE_ALL
from pyslurm_ng.base.tres import parse_gres
from pyslurm_ng.model.job import Job, JobRequest
from pyslurm_ng.sched.request.need import GresNeed
from pyslurm_ng.wire.step_messages import CreateStep


@dataclass(frozen=True, slots=True)
class StepGres:
    """Devices of a step; `whole` names resources of which it has all that its job has there."""

    per_node: tuple[GresNeed, ...] = ()
    per_task: tuple[GresNeed, ...] = ()
    in_all: tuple[GresNeed, ...] = ()
    whole: tuple[str, ...] = ()


def gres_of_step(job: Job, message: CreateStep) -> StepGres:
    """Return the devices of a step that asks for some, or of its job.

    What a job has only because its nodes are its own is not a step's without asking, as in Slurm.
    The shell of salloc has all.

    Raises:
        TresError: a text that is no resource list.
    """
    if message.flags & STEP_BESIDE_ALL:
        names = (gres.name for alloc in job.nodes for gres in alloc.gres)
        return StepGres(whole=tuple(dict.fromkeys(names)))
    if _texts(message):
        return _asked(message)
    gres = _asked(job.request)
    if gres.in_all or (job.request.gpus_per_socket and not _has_gpus(gres)):
        # They lie on the job's nodes as they were found: a part of the nodes has a part of them.
        return StepGres(gres.per_node, gres.per_task, whole=("gpu",))
    return gres


def tres_per_node(job: Job, message: CreateStep) -> str:
    """Return what a step has per node: as its srun asks, or as its job if that asks for nothing."""
    asked = message if _texts(message) else job.request
    texts = (asked.gres, _gpus(asked.gpus_per_node))
    words = ",".join(text for text in texts if text and text != "none").split(",")
    return ",".join(f"gres/{word.removeprefix('gres/')}" for word in words if word)


def gpus_per_task(message: CreateStep) -> int:
    """Return how many GPUs a step asks for each of its tasks."""
    return sum(count for _, _, count in _needs(_gpus(message.gpus_per_task)))


def _texts(asked: CreateStep | JobRequest) -> bool:
    """Return whether anything is said of devices, be it that there are none."""
    return bool(
        asked.gres or asked.gpus or asked.gpus_per_node or asked.gpus_per_task
        or asked.tres_per_task
    )  # fmt: skip


def _asked(asked: CreateStep | JobRequest) -> StepGres:
    per_node = _needs(asked.gres) + _needs(_gpus(asked.gpus_per_node))
    others = _needs(asked.tres_per_task)
    per_task, in_all = _needs(_gpus(asked.gpus_per_task)), _needs(_gpus(asked.gpus))
    # GPUs of nodes or tasks are those of the whole step, not more of them.
    if any(name == "gpu" for name, _, _ in per_node):
        return StepGres(per_node, others)
    return StepGres(per_node, per_task + others, () if per_task else in_all)


def _has_gpus(gres: StepGres) -> bool:
    return any(name == "gpu" for name, _, _ in gres.per_node + gres.per_task)


def _gpus(text: str) -> str:
    return ",".join(f"gpu:{word}" for word in text.split(",") if word)


def _needs(text: str) -> tuple[GresNeed, ...]:
    return tuple((gres.name, gres.type_name, gres.amount) for gres in parse_gres(text))
