"""Parts of which GPUs a job gets: shards and MPS percentages.

Free parts are told by GPU number. Unless MULTIPLE_SHARING_GRES_PJ is set, all parts a job has on a
node are of one GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyslurm_ng.model import gres_parts
from pyslurm_ng.model.node import NodeGres, NodeSpec, is_part
from pyslurm_ng.sched.cons_tres.free_node import FreeNode
from pyslurm_ng.sched.request.need import GresNeed, Need

Parts = dict[int, int]


def free_parts(node: FreeNode, name: str, kind: str) -> list[tuple[NodeGres, Parts]]:
    """Return the free parts of each matching resource of a node."""
    return [
        (
            gres,
            {
                number: count
                for number, count in gres_parts.free_parts(
                    gres, node.gres_busy, node.gres_used
                ).items()
                if not node.kept_gpus >> number & 1
            },
        )
        for gres in node.spec.gres
        if gres.name == name and kind in ("", gres.type)
    ]


def fits(need: Need, node: FreeNode, want: GresNeed) -> bool:
    """Return whether a node has so many parts for a job."""
    name, kind, count = want
    return any(
        (sum(free.values()) if need.parts_of_many else max(free.values(), default=0)) >= count
        for _, free in free_parts(node, name, kind)
    )


def tasks_that_fit(need: Need, node: FreeNode, want: GresNeed) -> int:
    """Return for how many tasks a node has so many parts each."""
    name, kind, count = want
    most = 0
    for _, free in free_parts(node, name, kind):
        each = [free_count // count for free_count in free.values()]
        if need.one_task_per_gpu:
            each = [min(1, tasks) for tasks in each]
        most = max(most, sum(each) if need.parts_of_many else max(each, default=0))
    return most


def choose(need: Need, node: FreeNode, want: GresNeed, near: tuple[int, int]) -> tuple[str, Parts]:
    """Return the type and the parts by GPU number that a job gets.

    Args:
        near: mask of the free cores, and how many of them the job takes.
    """
    name, kind, count = want
    for gres, free in free_parts(node, name, kind):
        order = _order(need, node.spec, gres, free, near)
        for number in order:
            if free[number] >= count:
                return gres.type, {number: count}
        if need.parts_of_many and sum(free.values()) >= count:
            return gres.type, _gathered(free, order, count)
    raise AssertionError((node.spec.name, want))


def choose_for_tasks(
    need: Need, node: FreeNode, want: GresNeed, tasks: int, near: tuple[int, int]
) -> tuple[str, Parts]:
    """Return the type and the parts that some tasks get, each task those of one GPU."""
    name, kind, count = want
    if not need.parts_of_many:
        return choose(need, node, (name, kind, count * tasks), near)
    for gres, free in free_parts(node, name, kind):
        parts: Parts = {}
        task_count = tasks
        for number in _order(need, node.spec, gres, free, near):
            most = min(free[number] // count, task_count)
            most = min(most, 1) if need.one_task_per_gpu else most
            if most:
                parts[number] = most * count
                task_count -= most
        if not task_count:
            return gres.type, parts
    raise AssertionError((node.spec.name, want, tasks))


def _gathered(free: Parts, order: Sequence[int], count: int) -> Parts:
    parts: Parts = {}
    for number in order:
        took = min(free[number], count)
        if took:
            parts[number] = took
            count -= took
    return parts


def _order(
    need: Need, spec: NodeSpec, gres: NodeGres, free: Parts, near: tuple[int, int]
) -> list[int]:
    """Return GPUs in the order in which to take parts of them.

    Those with enough free cores near come first, then with LL_SHARED_GRES those least in use.
    """
    cores, core_count = near
    close = gpu_cores(spec)

    def rank(number: int) -> tuple[bool, float, int]:
        is_far = number in close and (close[number] & cores).bit_count() < core_count
        load = 1 - free[number] / gres.parts[number] if need.spreads_parts else 0.0
        return is_far, load, number

    return sorted(free, key=rank)


def gpu_cores(spec: NodeSpec) -> Parts:
    """Return the mask of cores near each GPU, by its number; nothing where that is not known."""
    return {
        gres.first_index + number: int.from_bytes(cores, "little")
        for gres in spec.gres
        if gres.name == "gpu"
        for number, cores in enumerate(gres.cores)
    }


def reachable_cores(need: Need, node: FreeNode, want: GresNeed) -> int | None:
    """Return the most free cores near GPUs with so many free parts; None if that is not known."""
    close = gpu_cores(node.spec)
    if not close:
        return None
    name, kind, count = want
    near = [
        close.get(number, 0) & node.cores
        for _, free in free_parts(node, name, kind)
        for number, free_count in free.items()
        if free_count >= count or need.parts_of_many
    ]
    if not need.parts_of_many:
        return max(near, key=int.bit_count, default=0)
    every = 0
    for cores in near:
        every |= cores
    return every


def units_of(spec: NodeSpec) -> Mapping[str, int]:
    """Return into how many equal units each GPU of a node falls, and those of one part.

    Keys are `gpu` and the names of parts; nothing where no GPU is shared.
    """
    most = {gres.name: max(gres.parts) for gres in spec.gres if is_part(gres.name) and gres.parts}
    whole = max(most.values(), default=0)
    if not whole:
        return {}
    return {"gpu": whole, **{name: max(1, whole // count) for name, count in most.items() if count}}
