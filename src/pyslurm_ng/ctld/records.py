"""Packed records kept until what they show changes, so that a long listing is one join.

A record is one msgpack array. Its parts are packed separately and put side by side after one array
header, which is all that concatenating arrays takes. Fixed fields of a job are kept as bytes.
Fields that each scheduling pass may change are packed on demand.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pyslurm_ng.ctld.node_tenants import keeps_its_unit
from pyslurm_ng.model import events as ev
from pyslurm_ng.model.cluster import Cluster
from pyslurm_ng.model.touched import EVERYTHING, nodes_follow_job, touched_jobs, touched_nodes

_encoder = msgspec.msgpack.Encoder()


def array_head(count: int) -> bytes:
    """Return the header of an array of 16 to 65,535 elements."""
    assert 16 <= count < 65536, count
    return b"\xdc" + count.to_bytes(2, "big")


def elements(values: tuple[object, ...]) -> bytes:
    """Return the packed elements of an array without its header."""
    packed = _encoder.encode(values)
    return packed[1 if len(values) < 16 else 3 :]


def record(values: tuple[object, ...]) -> bytes:
    """Return a packed array of any number of elements."""
    return _encoder.encode(values)


class RecordCache:
    """What has been packed of jobs and nodes, by id; `generation` counts changes.

    `live` holds the whole brief records of all jobs that are not over, as of the scheduling pass
    `live_generation`, except for the jobs in `stale`. A generation of -1 means that it must be made
    again. `tails` are the parts that a pass may change, as of the pass `tails_generation`.
    `unit_keepers` are the active jobs of `--exclusive=topo`, and all that began since they were
    first asked for; None before that.

    The writer calls `note` with events as they are applied; queries fill and read the dicts.
    """

    def __init__(self) -> None:
        self.jobs: dict[int, bytes] = {}
        self.live: dict[int, bytes] = {}
        self.stale: dict[int, None] = {}
        self.live_generation = -1
        self.job_details: dict[int, bytes] = {}
        self.tails: dict[int, bytes] = {}
        self.tails_generation = -1
        self.nodes: dict[int, bytes] = {}
        self.partitions: dict[str, bytes] = {}
        self.planned_nodes: frozenset[int] = frozenset()
        self.planned_generation = -1
        self.unit_keepers: dict[int, None] | None = None
        self.generation = 0

    def begin_pass(self, generation: int) -> None:
        """Forget what a newer pass than the last one asked about may have changed."""
        if self.tails_generation != generation:
            self.tails, self.tails_generation = {}, generation

    def keepers(self, cluster: Cluster) -> Iterable[int]:
        """Return the ids of the active jobs that have leaf switches or blocks to themselves."""
        known = cluster.job_index.active if self.unit_keepers is None else self.unit_keepers
        self.unit_keepers = {
            job_id: None
            for job_id in known
            if job_id in cluster.job_index.active and keeps_its_unit(cluster, cluster.jobs[job_id])
        }
        return self.unit_keepers

    def note(self, cluster: Cluster, events: Iterable[ev.AnyEvent]) -> None:
        """Forget what `events`, just applied, have changed."""
        for event in events:
            job_ids, node_ids = touched_jobs(event), touched_nodes(event)
            if not job_ids and not node_ids:
                continue
            self.generation += 1
            if job_ids == EVERYTHING:
                self.jobs.clear()
                self.job_details.clear()
                self.tails.clear()
                self.live_generation = -1
            else:
                if self.live_generation >= 0:
                    self.stale.update(dict.fromkeys(job_ids))
                for job_id in job_ids:
                    self.jobs.pop(job_id, None)
                    self.job_details.pop(job_id, None)
                    self.tails.pop(job_id, None)
            if node_ids == EVERYTHING:
                self.nodes.clear()
                self.partitions.clear()
                self.unit_keepers = None
                continue
            for node_id in node_ids:
                self.nodes.pop(node_id, None)
            if isinstance(event, ev.JobAllocated) and self.unit_keepers is not None:
                self.unit_keepers[event.job_id] = None
            job_id = nodes_follow_job(event)
            job = cluster.jobs.get(job_id) if job_id else None
            if job is not None:
                for alloc in job.nodes_held:
                    self.nodes.pop(alloc.node_id, None)
