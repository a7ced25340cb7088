"""Jobs that share cores, on a timeline that counts each core once.

Cores are shared in rows of a partition with OverSubscribe, and by a suspended job and the one that
preempted it. A core is in use until the last of its jobs is over: where that is conservative, the
next pass knows better. What happens now is decided by the cores themselves, not by this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pyslurm_ng.model.job import NodeAlloc
from pyslurm_ng.sched.frame.job_records import NO_END_US, Running
from pyslurm_ng.sched.frame.snapshot import Snapshot


class Held(NamedTuple):
    """What a job takes on the timeline, and until when."""

    end_us: int
    nodes: tuple[NodeAlloc, ...]


def may_share_cores(snapshot: Snapshot) -> bool:
    """Return whether any two jobs may have a core in common."""
    return any(
        partition.oversubscribe.startswith(("FORCE", "YES"))
        for partition in snapshot.partitions.values()
    ) or any(
        running_job.is_suspended and _was_preempted(running_job) for running_job in snapshot.running
    )


def shared_cores(
    running: Sequence[Running], threads_of: Callable[[int], int], now_us: int
) -> dict[int, Held]:
    """Return what to hold instead for jobs whose cores others have, too; by job id.

    Args:
        threads_of: threads per core of a node.
    """
    on_node: dict[int, list[tuple[Running, NodeAlloc, int]]] = {}
    for item in running:
        if item.is_suspended and not _was_preempted(item):
            continue  # an operator's: its cores are anybody's
        for alloc in item.nodes:
            cores = int.from_bytes(alloc.cores, "little")
            on_node.setdefault(alloc.node_id, []).append((item, alloc, cores))
    crowded = {node_id: held for node_id, held in on_node.items() if _overlap(held)}
    if not crowded:
        return {}
    ends = _ends(crowded, now_us)
    changed: dict[int, dict[int, NodeAlloc]] = {}
    for node_id, held in crowded.items():
        covered = 0
        for item, alloc, cores in sorted(
            held, key=lambda one: (-ends.get(one[0].job_id, one[0].end_us), one[0].job_id)
        ):
            own = cores & ~covered
            covered |= cores
            if own != cores:
                cpus = own.bit_count() * threads_of(node_id)
                size = (own.bit_length() + 7) // 8
                mask = own.to_bytes(size, "little")
                left = NodeAlloc(node_id, cpus, mask, alloc.mem_mib, alloc.tasks, alloc.gres)
                changed.setdefault(item.job_id, {})[node_id] = left
    return {
        item.job_id: Held(
            ends.get(item.job_id, item.end_us),
            tuple(changed.get(item.job_id, {}).get(alloc.node_id, alloc) for alloc in item.nodes),
        )
        for item in running
        if item.job_id in changed or item.job_id in ends
    }


def _was_preempted(item: Running) -> bool:
    return item.victim is not None and bool(item.victim.preemptor)


def _overlap(held: Sequence[tuple[Running, NodeAlloc, int]]) -> bool:
    seen = 0
    for _, _, cores in held:
        if seen & cores:
            return True
        seen |= cores
    return any(_was_preempted(item) for item, _, _ in held)


def _ends(crowded: dict[int, list[tuple[Running, NodeAlloc, int]]], now_us: int) -> dict[int, int]:
    """Return when suspended jobs will end that go on when others have left their cores."""
    resumes: dict[int, tuple[Running, int]] = {}
    for held in crowded.values():
        for item, _, cores in held:
            if not _was_preempted(item):
                continue
            at_us = max(
                (
                    other.end_us
                    for other, _, theirs in held
                    if theirs & cores and not _was_preempted(other)
                ),
                default=now_us,
            )
            before = resumes.get(item.job_id, (item, 0))[1]
            resumes[item.job_id] = (item, max(before, at_us))
    return {
        job_id: NO_END_US
        if NO_END_US in (item.end_us, at_us)
        else max(at_us, now_us) + max(0, item.end_us - now_us)
        for job_id, (item, at_us) in resumes.items()
    }
