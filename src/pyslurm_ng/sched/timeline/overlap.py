"""Jobs that share cores, on a timeline that counts each core once.

Cores are shared in rows of a partition with OverSubscribe, and by a suspended job and the one that
preempted it. A core counts as in use until the last of its jobs is over. That is on the safe side,
and the next pass knows better. Starts now are decided by the cores themselves, not by this.
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
    for running_job in running:
        if running_job.is_suspended and not _was_preempted(running_job):
            continue  # an operator's: its cores are anybody's
        for alloc in running_job.nodes:
            cores = int.from_bytes(alloc.cores, "little")
            on_node.setdefault(alloc.node_id, []).append((running_job, alloc, cores))
    crowded = {node_id: allocs for node_id, allocs in on_node.items() if _overlap(allocs)}
    if not crowded:
        return {}
    ends = _ends(crowded, now_us)
    changed: dict[int, dict[int, NodeAlloc]] = {}
    for node_id, allocs in crowded.items():
        covered = 0
        for running_job, alloc, cores in sorted(
            allocs, key=lambda part: (-ends.get(part[0].job_id, part[0].end_us), part[0].job_id)
        ):
            own = cores & ~covered
            covered |= cores
            if own != cores:
                cpus = own.bit_count() * threads_of(node_id)
                size = (own.bit_length() + 7) // 8
                mask = own.to_bytes(size, "little")
                rest_alloc = NodeAlloc(node_id, cpus, mask, alloc.mem_mib, alloc.tasks, alloc.gres)
                changed.setdefault(running_job.job_id, {})[node_id] = rest_alloc
    return {
        running_job.job_id: Held(
            ends.get(running_job.job_id, running_job.end_us),
            tuple(
                changed.get(running_job.job_id, {}).get(alloc.node_id, alloc)
                for alloc in running_job.nodes
            ),
        )
        for running_job in running
        if running_job.job_id in changed or running_job.job_id in ends
    }


def _was_preempted(running_job: Running) -> bool:
    return running_job.victim is not None and bool(running_job.victim.preemptor)


def _overlap(allocs: Sequence[tuple[Running, NodeAlloc, int]]) -> bool:
    seen = 0
    for _, _, cores in allocs:
        if seen & cores:
            return True
        seen |= cores
    return any(_was_preempted(running_job) for running_job, _, _ in allocs)


def _ends(crowded: dict[int, list[tuple[Running, NodeAlloc, int]]], now_us: int) -> dict[int, int]:
    """Return when suspended jobs will end that go on when others have left their cores."""
    resumes: dict[int, tuple[Running, int]] = {}
    for allocs in crowded.values():
        for running_job, _, cores in allocs:
            if not _was_preempted(running_job):
                continue
            at_us = max(
                (
                    other.end_us
                    for other, _, theirs in allocs
                    if theirs & cores and not _was_preempted(other)
                ),
                default=now_us,
            )
            before = resumes.get(running_job.job_id, (running_job, 0))[1]
            resumes[running_job.job_id] = (running_job, max(before, at_us))
    return {
        job_id: NO_END_US
        if NO_END_US in (running_job.end_us, at_us)
        else max(at_us, now_us) + max(0, running_job.end_us - now_us)
        for job_id, (running_job, at_us) in resumes.items()
    }
